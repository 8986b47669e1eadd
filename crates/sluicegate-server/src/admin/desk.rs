//! What the operator asks of the desk, and what comes back.

use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sluicegate::KeySearch;
use sluicegate_core::unescape;
use sluicegate_gate::decision_stream::DecisionFilter;
use sluicegate_gate::overrides::OverrideRequest;
use sluicegate_gate::top_keys::TopKeysBy;

use super::answer::{self, Answer};
use super::query::Query;
use crate::json_request::{is_json_body, read_description};
use crate::operator::{Author, Operator, OperatorError};

/// A path of the desk, with what stands in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    Config,
    Stats,
    Top,
    Keys,
    Key(&'a str),
    Orders,
    Order(&'a str),
    Bans,
    Overrides,
    Explain,
    Events,
}

impl<'a> Place<'a> {
    pub(super) fn find(path: &'a str) -> Option<Self> {
        Some(match path {
            "/v1/config" => Self::Config,
            "/v1/stats" => Self::Stats,
            "/v1/top" => Self::Top,
            "/v1/keys" => Self::Keys,
            "/v1/orders" => Self::Orders,
            "/v1/bans" => Self::Bans,
            "/v1/overrides" => Self::Overrides,
            "/v1/explain" => Self::Explain,
            "/v1/events" => Self::Events,
            _ => match path.strip_prefix("/v1/orders/") {
                Some(id) if !id.is_empty() && !id.contains('/') => Self::Order(id),
                Some(_) => return None,
                None => Self::Key(
                    path.strip_prefix("/v1/keys/")
                        .filter(|rest| !rest.is_empty())?,
                ),
            },
        })
    }

    /// The methods that mean something here.
    pub(super) fn allowed(&self) -> &'static str {
        match self {
            Self::Config | Self::Stats | Self::Top | Self::Keys | Self::Orders | Self::Events => {
                "GET, HEAD"
            }
            Self::Key(_) => "GET, HEAD, DELETE",
            Self::Order(_) => "DELETE",
            Self::Bans | Self::Overrides | Self::Explain => "POST",
        }
    }
}

/// A request for the desk.
pub(super) struct Asked<'a> {
    pub(super) place: Place<'a>,
    pub(super) is_delete: bool,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    pub(super) peer: String,
}

pub(super) async fn answer(desk: &Operator, asked: Asked<'_>) -> Answer {
    let done = match asked.place {
        Place::Events => return events(desk, asked.query),
        Place::Explain => explain(desk, &asked).await,
        Place::Config => Ok(desk.config()),
        Place::Orders => Ok(desk.orders()),
        Place::Stats => stats(desk, asked.query),
        Place::Top => top(desk, asked.query),
        Place::Keys => keys(desk, asked.query).await,
        Place::Key(path) => key(desk, path, &asked).await,
        Place::Order(id) => match author(&asked) {
            Ok(author) => desk.end(id, &author).await,
            Err(refusal) => Err(refusal),
        },
        Place::Bans | Place::Overrides => order(desk, &asked).await,
    };
    let is_new = matches!(asked.place, Place::Bans | Place::Overrides);
    match done {
        Ok(value) => answer::json(
            if is_new {
                StatusCode::CREATED
            } else {
                StatusCode::OK
            },
            &value,
        ),
        Err(refusal) => refused(&refusal),
    }
}

pub(super) fn refused(refusal: &OperatorError) -> Answer {
    let (status, why) = match refusal {
        OperatorError::Wrong(why) => (StatusCode::BAD_REQUEST, why),
        OperatorError::Unknown(why) => (StatusCode::NOT_FOUND, why),
        OperatorError::Away(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    answer::error(status, why)
}

fn query<const N: usize>(text: Option<&str>, names: [&str; N]) -> Result<Query, OperatorError> {
    let query = Query::parse(text).map_err(OperatorError::Wrong)?;
    query.only(&names).map_err(OperatorError::Wrong)?;
    Ok(query)
}

fn stats(desk: &Operator, text: Option<&str>) -> Result<Value, OperatorError> {
    let query = query(text, ["history"])?;
    match query.get("history") {
        None | Some("false") => Ok(desk.stats(false)),
        Some("true") => Ok(desk.stats(true)),
        Some(other) => Err(OperatorError::Wrong(format!(
            "history: must be true or false (got {other:?})"
        ))),
    }
}

fn top(desk: &Operator, text: Option<&str>) -> Result<Value, OperatorError> {
    let query = query(text, ["by", "limit", "n"])?;
    let by = match query.get("by") {
        None | Some("requests") => TopKeysBy::Requests,
        Some("denied") => TopKeysBy::Denied,
        Some(other) => {
            return Err(OperatorError::Wrong(format!(
                "by: must be requests or denied (got {other:?})"
            )));
        }
    };
    Ok(desk.top(by, query.get("limit"), most(&query, 20, 100)?))
}

async fn keys(desk: &Operator, text: Option<&str>) -> Result<Value, OperatorError> {
    let query = query(text, ["limit", "contains", "n"])?;
    let contains = query.get("contains").unwrap_or_default();
    desk.search(KeySearch {
        limit: query.get("limit"),
        contains,
        most: most(&query, 100, 1_000)?,
    })
    .await
}

/// How many are wanted at most.
fn most(query: &Query, usual: usize, bound: usize) -> Result<usize, OperatorError> {
    match query.get("n").map(|text| (text, text.parse::<usize>())) {
        None => Ok(usual),
        Some((_, Ok(most))) if (1..=bound).contains(&most) => Ok(most),
        Some((text, _)) => Err(OperatorError::Wrong(format!(
            "n: must be from 1 to {bound} (got {text:?})"
        ))),
    }
}

/// The limit and the parts of a key, each between slashes.
async fn key(desk: &Operator, path: &str, asked: &Asked<'_>) -> Result<Value, OperatorError> {
    query(asked.query, [])?;
    let segments: Option<Vec<String>> = path.split('/').map(unescape).collect();
    let segments = segments
        .ok_or_else(|| OperatorError::Wrong(format!("{path}: is not text once it is decoded")))?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let Some((limit, parts)) = segments.split_first() else {
        return Err(OperatorError::Wrong("no limit".to_owned()));
    };
    match asked.is_delete {
        true => desk.reset(limit, parts, &author(asked)?).await,
        false => desk.inspect(limit, parts).await,
    }
}

async fn order(desk: &Operator, asked: &Asked<'_>) -> Result<Value, OperatorError> {
    let request: OverrideRequest = json(asked.headers, asked.body)?;
    match asked.place {
        Place::Bans => desk.ban(request, &asked.peer).await,
        _ => desk.grant(request, &asked.peer).await,
    }
}

async fn explain(desk: &Operator, asked: &Asked<'_>) -> Result<Value, OperatorError> {
    is_json(asked.headers)?;
    let (described, cost) = read_description(asked.body).map_err(OperatorError::Wrong)?;
    let explanation = desk.explain(&described, cost).await;
    serde_json::to_value(explanation).map_err(|error| OperatorError::Wrong(error.to_string()))
}

fn events(desk: &Operator, text: Option<&str>) -> Answer {
    let query = match query(text, ["limit", "outcome", "key"]) {
        Ok(query) => query,
        Err(refusal) => return refused(&refusal),
    };
    let outcome = query.get("outcome");
    if let Some(other) =
        outcome.filter(|outcome| !["allowed", "denied", "shadow_denied"].contains(outcome))
    {
        let why = format!("outcome: must be allowed, denied or shadow_denied (got {other:?})");
        return refused(&OperatorError::Wrong(why));
    }
    let wanted = |name| query.get(name).map(str::to_owned);
    let filter = DecisionFilter {
        limit: wanted("limit"),
        outcome: wanted("outcome"),
        key: wanted("key"),
    };
    match desk.watch(filter) {
        Some(events) => answer::events(events),
        None => answer::error(StatusCode::TOO_MANY_REQUESTS, "enough watch already"),
    }
}

/// Who asks, as far as the request says so.
fn author(asked: &Asked<'_>) -> Result<Author, OperatorError> {
    author_of(asked.headers, asked.body, &asked.peer)
}

pub(super) fn author_of(
    headers: &HeaderMap,
    body: &[u8],
    peer: &str,
) -> Result<Author, OperatorError> {
    let author: Author = if body.is_empty() {
        Author::default()
    } else {
        json(headers, body)?
    };
    Ok(author.at(peer))
}

fn json<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, OperatorError> {
    is_json(headers)?;
    serde_json::from_slice(body).map_err(|error| OperatorError::Wrong(format!("the body: {error}")))
}

fn is_json(headers: &HeaderMap) -> Result<(), OperatorError> {
    match is_json_body(headers) {
        true => Ok(()),
        false => Err(OperatorError::Wrong(
            "Content-Type: application/json is required".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_known_whole() {
        assert_eq!(Place::find("/v1/keys"), Some(Place::Keys));
        assert_eq!(
            Place::find("/v1/keys/a/b/c%2Fd"),
            Some(Place::Key("a/b/c%2Fd"))
        );
        assert_eq!(Place::find("/v1/orders/b-12"), Some(Place::Order("b-12")));
        for nothing in [
            "/v1/keys/",
            "/v1/keysx",
            "/v1/orders/",
            "/v1/orders/a/b",
            "/v1/stats/",
            "/v1",
            "/v1/statsx",
            "",
        ] {
            assert_eq!(Place::find(nothing), None, "{nothing}");
        }
    }
}
