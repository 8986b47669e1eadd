//! Plans and tenants, in SQLite.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OptionalExtension, Row};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::contract::{LimitsRequest, LimitsResponse};
use crate::router::PlanSource;

/// The plans, and the plan of each tenant. A plan is a response of the contract; a tenant may add
/// the counter that it shares with others.
#[derive(Clone)]
pub struct SqlitePlans {
    connection: Arc<Mutex<Connection>>,
}

/// The database could not be opened or read, or holds what is no plan.
#[derive(Debug)]
pub struct PlansError(String);

/// A table has the fields of a response as its columns; what is not said is `NULL`.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS plans (
        name TEXT PRIMARY KEY,
        average INTEGER NOT NULL CHECK (average >= 0),
        burst INTEGER,
        period TEXT,
        cache_max_age_seconds INTEGER,
        cache_no_store INTEGER,
        failure_policy TEXT,
        failure_code INTEGER,
        backend_url TEXT,
        request_timeout TEXT,
        backend_protocol TEXT
    );
    CREATE TABLE IF NOT EXISTS tenants (
        name TEXT PRIMARY KEY,
        plan TEXT NOT NULL REFERENCES plans (name),
        tenant_key TEXT
    );
";

/// The plans of a new database, as they stand in `plans.json`.
#[derive(Deserialize)]
struct Seed {
    plans: BTreeMap<String, LimitsResponse>,
    tenants: BTreeMap<String, Tenant>,
}

#[derive(Deserialize)]
struct Tenant {
    plan: String,
    tenant_key: Option<String>,
}

impl SqlitePlans {
    /// Opens a database. A new one gets the plans and tenants of `seed`, the text of a file like
    /// `plans.json`.
    pub fn open(file: &str, seed: &str) -> Result<Self, PlansError> {
        let mut connection = Connection::open(file)?;
        connection.execute_batch(TABLES)?;
        let plans: u32 =
            connection.query_row("SELECT count(*) FROM plans", [], |row| row.get(0))?;
        if plans == 0 {
            fill(&mut connection, seed)?;
        }
        Ok(Self {
            connection: Arc::new(Mutex::new(connection)),
        })
    }

    /// The quota of a tenant by its plan; `None` for one that is not known.
    pub fn of(&self, tenant: &str) -> Result<Option<LimitsResponse>, PlansError> {
        const KNOWN: &str = "SELECT plans.*, tenants.tenant_key FROM plans
                             JOIN tenants ON tenants.plan = plans.name WHERE tenants.name = ?1";
        let connection = self.connection.lock();
        let connection = connection.expect("no holder of this lock panics");
        let mut statement = connection.prepare_cached(KNOWN)?;
        Ok(statement.query_row([tenant], limits).optional()?)
    }
}

impl PlanSource for SqlitePlans {
    type Error = PlansError;

    async fn limits(&self, request: LimitsRequest) -> Result<Option<LimitsResponse>, PlansError> {
        let plans = self.clone();
        let read = move || request.tenant().map_or(Ok(None), |tenant| plans.of(tenant));
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(PlansError(error.to_string())))
    }
}

fn fill(connection: &mut Connection, seed: &str) -> Result<(), PlansError> {
    const PLAN: &str = "INSERT INTO plans VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let seed: Seed = serde_json::from_str(seed)?;
    let transaction = connection.transaction()?;
    for (name, plan) in seed.plans {
        transaction.execute(
            PLAN,
            (
                name,
                plan.average,
                plan.burst,
                plan.period,
                plan.cache_max_age_seconds,
                plan.cache_no_store,
                plan.failure_policy.map(word).transpose()?,
                plan.failure_code,
                plan.backend_url,
                plan.request_timeout,
                plan.backend_protocol.map(word).transpose()?,
            ),
        )?;
    }
    for (name, tenant) in seed.tenants {
        let values = (name, tenant.plan, tenant.tenant_key);
        transaction.execute("INSERT INTO tenants VALUES (?1, ?2, ?3)", values)?;
    }
    Ok(transaction.commit()?)
}

/// The word of the contract for a choice.
fn word(choice: impl serde::Serialize) -> Result<Option<String>, PlansError> {
    let value = serde_json::to_value(choice)?;
    Ok(value.as_str().map(str::to_owned))
}

fn limits(row: &Row<'_>) -> rusqlite::Result<LimitsResponse> {
    Ok(LimitsResponse {
        average: row.get("average")?,
        burst: row.get("burst")?,
        period: row.get("period")?,
        cache_max_age_seconds: row.get("cache_max_age_seconds")?,
        cache_no_store: row.get("cache_no_store")?,
        tenant_key: row.get("tenant_key")?,
        failure_policy: choice(row, "failure_policy")?,
        failure_code: row.get("failure_code")?,
        backend_url: row.get("backend_url")?,
        request_timeout: row.get("request_timeout")?,
        backend_protocol: choice(row, "backend_protocol")?,
    })
}

/// The choice that a word of the contract stands for; a word that is none counts as not said.
fn choice<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    let word: Option<String> = row.get(column)?;
    Ok(word.and_then(|word| serde_json::from_value(Value::String(word)).ok()))
}

impl fmt::Display for PlansError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlansError {}

impl From<rusqlite::Error> for PlansError {
    fn from(error: rusqlite::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<serde_json::Error> for PlansError {
    fn from(error: serde_json::Error) -> Self {
        Self(format!("plans: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::FailurePolicy;

    fn plans() -> SqlitePlans {
        SqlitePlans::open(":memory:", include_str!("../plans.json")).unwrap()
    }

    #[test]
    fn a_tenant_has_its_plan_and_nobody_else_has_one() {
        let plans = plans();
        let average = |tenant: &str| plans.of(tenant).unwrap().map(|plan| plan.average);
        assert_eq!(
            ["acme", "monitoring", "nobody", "'; --"].map(average),
            [Some(100), Some(0), None, None]
        );
    }

    #[test]
    fn every_field_comes_back_as_it_was_written() {
        let text = include_str!("../plans.json");
        let Seed {
            plans: written,
            tenants,
        } = serde_json::from_str(text).unwrap();
        let plans = plans();
        for (name, tenant) in tenants {
            let expected = LimitsResponse {
                tenant_key: tenant.tenant_key,
                ..written[&tenant.plan].clone()
            };
            assert_eq!(plans.of(&name).unwrap(), Some(expected), "{name}");
        }
        let bank = &written["bank"];
        assert_eq!(bank.failure_policy, Some(FailurePolicy::FailClosed));
    }

    #[test]
    fn plans_that_are_none_are_refused_by_name() {
        let refused = |seed: &str| {
            SqlitePlans::open(":memory:", seed)
                .err()
                .unwrap()
                .to_string()
        };
        let unknown = refused(r#"{"plans": {"a": {"average": 1, "rate": 2}}, "tenants": {}}"#);
        assert!(unknown.contains("unknown field `rate`"), "{unknown}");
        let unlimited = refused(r#"{"plans": {"a": {}}, "tenants": {}}"#);
        assert!(unlimited.contains("missing field `average`"), "{unlimited}");
    }
}
