//! Plans and tenants, in SQLite.

use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension, Result, Row};

/// The plans, and the plan of each tenant.
pub struct Plans {
    connection: Mutex<Connection>,
}

/// A plan: its quota, and how long it may be cached.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// Units per period; 0 is unlimited.
    pub average: i64,
    /// Units that can be spent at once.
    pub burst: i64,
    /// A duration such as `1s` or `1m`.
    pub period: String,
    /// How long Sluicegate may use it without asking again.
    pub max_age_seconds: i64,
}

/// The plan of unknown tenants.
const FREE: &str = "free";

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS plans (
        name TEXT PRIMARY KEY,
        average INTEGER NOT NULL CHECK (average >= 0),
        burst INTEGER NOT NULL CHECK (burst >= 1),
        period TEXT NOT NULL,
        max_age_seconds INTEGER NOT NULL CHECK (max_age_seconds >= 0)
    );
    CREATE TABLE IF NOT EXISTS tenants (
        name TEXT PRIMARY KEY,
        plan TEXT NOT NULL REFERENCES plans (name)
    );
    INSERT OR IGNORE INTO plans VALUES
        ('free', 60, 10, '1m', 30),
        ('gold', 100, 200, '1s', 300),
        ('internal', 0, 1, '1s', 300);
    INSERT OR IGNORE INTO tenants VALUES ('acme', 'gold'), ('monitoring', 'internal');
";

impl Plans {
    /// Opens a database; a new one gets three plans and two tenants to try.
    pub fn open(file: &str) -> Result<Self> {
        Self::over(Connection::open(file)?)
    }

    /// A database in memory, for tests.
    #[cfg(test)]
    pub fn in_memory() -> Result<Self> {
        Self::over(Connection::open_in_memory()?)
    }

    fn over(connection: Connection) -> Result<Self> {
        connection.execute_batch(TABLES)?;
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// The plan of a tenant; unknown tenants have the free one.
    pub fn of(&self, tenant: &str) -> Result<Plan> {
        const KNOWN: &str = "SELECT average, burst, period, max_age_seconds FROM plans
                             JOIN tenants ON tenants.plan = plans.name WHERE tenants.name = ?1";
        const BY_NAME: &str =
            "SELECT average, burst, period, max_age_seconds FROM plans WHERE name = ?1";
        let connection = self
            .connection
            .lock()
            .expect("no holder of this lock panics");
        match connection
            .prepare_cached(KNOWN)?
            .query_row([tenant], plan)
            .optional()?
        {
            Some(known) => Ok(known),
            None => connection.prepare_cached(BY_NAME)?.query_row([FREE], plan),
        }
    }

    /// Gives a tenant another plan.
    #[cfg(test)]
    pub fn assign(&self, tenant: &str, plan: &str) -> Result<()> {
        const ASSIGN: &str =
            "INSERT INTO tenants VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET plan = ?2";
        let connection = self
            .connection
            .lock()
            .expect("no holder of this lock panics");
        connection.execute(ASSIGN, [tenant, plan]).map(|_| ())
    }
}

fn plan(row: &Row<'_>) -> Result<Plan> {
    Ok(Plan {
        average: row.get(0)?,
        burst: row.get(1)?,
        period: row.get(2)?,
        max_age_seconds: row.get(3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_plan_and_everybody_else_the_free_one() {
        let plans = Plans::in_memory().unwrap();
        let average = |tenant: &str| plans.of(tenant).unwrap().average;
        assert_eq!(
            [
                average("acme"),
                average("monitoring"),
                average("nobody"),
                average("'; --")
            ],
            [100, 0, 60, 60]
        );
        plans.assign("nobody", "gold").unwrap();
        assert_eq!(average("nobody"), 100);
    }
}
