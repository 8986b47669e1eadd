//! Routes of the admin API that belong to the [`Operator`]: configuration, statistics, keys, bans,
//! overrides, explanations and events.
//!
//! A function for each route reads the path, the query or the body, calls the operator, and turns
//! its result into a response. Routes that need no operator are in `routes.rs`.

use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sluicegate::KeySearch;
use sluicegate_core::unescape;
use sluicegate_gate::decision_stream::{DecisionFilter, OUTCOMES};
use sluicegate_gate::overrides::OverrideRequest;
use sluicegate_gate::top_keys::TopKeysBy;

use super::query::Query;
use super::response::{self, AdminResponse};
use crate::json_request::{is_json_body, read_description};
use crate::operator::{ChangeAuthor, Operator, OperatorError};

/// A path that the operator serves, with its variable part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AdminRoute<'a> {
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

impl<'a> AdminRoute<'a> {
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

    /// The methods of this path, as in the header `Allow`.
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

/// A request that has passed the access checks, with its body read.
pub(super) struct AdminRequest<'a> {
    pub(super) route: AdminRoute<'a>,
    pub(super) is_delete: bool,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    pub(super) peer: String,
}

pub(super) async fn respond(operator: &Operator, request: AdminRequest<'_>) -> AdminResponse {
    let done = match request.route {
        AdminRoute::Events => return events(operator, request.query),
        AdminRoute::Explain => explain(operator, &request).await,
        AdminRoute::Config => Ok(operator.config()),
        AdminRoute::Orders => Ok(operator.orders()),
        AdminRoute::Stats => stats(operator, request.query),
        AdminRoute::Top => top(operator, request.query),
        AdminRoute::Keys => keys(operator, request.query).await,
        AdminRoute::Key(path) => key(operator, path, &request).await,
        AdminRoute::Order(id) => match author(&request) {
            Ok(author) => operator.end(id, &author).await,
            Err(refusal) => Err(refusal),
        },
        AdminRoute::Bans | AdminRoute::Overrides => order(operator, &request).await,
    };
    let is_new = matches!(request.route, AdminRoute::Bans | AdminRoute::Overrides);
    match done {
        Ok(value) => response::json(
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

pub(super) fn refused(refusal: &OperatorError) -> AdminResponse {
    let (status, why) = match refusal {
        OperatorError::Wrong(why) => (StatusCode::BAD_REQUEST, why),
        OperatorError::Unknown(why) => (StatusCode::NOT_FOUND, why),
        OperatorError::Away(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    response::error(status, why)
}

fn query<const N: usize>(text: Option<&str>, names: [&str; N]) -> Result<Query, OperatorError> {
    let query = Query::parse(text).map_err(OperatorError::Wrong)?;
    query.only(&names).map_err(OperatorError::Wrong)?;
    Ok(query)
}

fn stats(operator: &Operator, text: Option<&str>) -> Result<Value, OperatorError> {
    let query = query(text, ["history"])?;
    match query.get("history") {
        None | Some("false") => Ok(operator.stats(false)),
        Some("true") => Ok(operator.stats(true)),
        Some(other) => Err(OperatorError::Wrong(format!(
            "history: must be true or false (got {other:?})"
        ))),
    }
}

fn top(operator: &Operator, text: Option<&str>) -> Result<Value, OperatorError> {
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
    Ok(operator.top(by, query.get("limit"), most(&query, 20, 100)?))
}

async fn keys(operator: &Operator, text: Option<&str>) -> Result<Value, OperatorError> {
    let query = query(text, ["limit", "contains", "n"])?;
    let contains = query.get("contains").unwrap_or_default();
    operator
        .search(KeySearch {
            limit: query.get("limit"),
            contains,
            most: most(&query, 100, 1_000)?,
        })
        .await
}

/// The most entries to return: the value of `n`, or the default `usual`. More than `bound` is an
/// error.
fn most(query: &Query, usual: usize, bound: usize) -> Result<usize, OperatorError> {
    match query.get("n").map(|text| (text, text.parse::<usize>())) {
        None => Ok(usual),
        Some((_, Ok(most))) if (1..=bound).contains(&most) => Ok(most),
        Some((text, _)) => Err(OperatorError::Wrong(format!(
            "n: must be from 1 to {bound} (got {text:?})"
        ))),
    }
}

/// Inspects or resets the counter that `path` names: the limit and the parts of its key, each
/// between slashes.
async fn key(
    operator: &Operator,
    path: &str,
    request: &AdminRequest<'_>,
) -> Result<Value, OperatorError> {
    query(request.query, [])?;
    let segments: Option<Vec<String>> = path.split('/').map(unescape).collect();
    let segments = segments
        .ok_or_else(|| OperatorError::Wrong(format!("{path}: is not text once it is decoded")))?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let Some((limit, parts)) = segments.split_first() else {
        return Err(OperatorError::Wrong("no limit".to_owned()));
    };
    match request.is_delete {
        true => operator.reset(limit, parts, &author(request)?).await,
        false => operator.inspect(limit, parts).await,
    }
}

async fn order(operator: &Operator, request: &AdminRequest<'_>) -> Result<Value, OperatorError> {
    let override_request: OverrideRequest = json(request.headers, request.body)?;
    match request.route {
        AdminRoute::Bans => operator.ban(override_request, &request.peer).await,
        _ => operator.grant(override_request, &request.peer).await,
    }
}

async fn explain(operator: &Operator, request: &AdminRequest<'_>) -> Result<Value, OperatorError> {
    is_json(request.headers)?;
    let (described, cost) = read_description(request.body).map_err(OperatorError::Wrong)?;
    let explanation = operator.explain(&described, cost).await;
    serde_json::to_value(explanation).map_err(|error| OperatorError::Wrong(error.to_string()))
}

fn events(operator: &Operator, text: Option<&str>) -> AdminResponse {
    let query = match query(text, ["limit", "outcome", "key"]) {
        Ok(query) => query,
        Err(refusal) => return refused(&refusal),
    };
    let outcome = query.get("outcome");
    if let Some(other) = outcome.filter(|outcome| !OUTCOMES.contains(outcome)) {
        let known = OUTCOMES.join(", ");
        let why = format!("outcome: must be one of {known} (got {other:?})");
        return refused(&OperatorError::Wrong(why));
    }
    let wanted = |name| query.get(name).map(str::to_owned);
    let filter = DecisionFilter {
        limit: wanted("limit"),
        outcome: wanted("outcome"),
        key: wanted("key"),
    };
    match operator.watch(filter) {
        Some(events) => response::events(events),
        None => response::error(StatusCode::TOO_MANY_REQUESTS, "enough watch already"),
    }
}

/// The author of a change, as the body names it; an empty body names none.
fn author(request: &AdminRequest<'_>) -> Result<ChangeAuthor, OperatorError> {
    author_of(request.headers, request.body, &request.peer)
}

pub(super) fn author_of(
    headers: &HeaderMap,
    body: &[u8],
    peer: &str,
) -> Result<ChangeAuthor, OperatorError> {
    let author: ChangeAuthor = if body.is_empty() {
        ChangeAuthor::default()
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
        assert_eq!(AdminRoute::find("/v1/keys"), Some(AdminRoute::Keys));
        assert_eq!(
            AdminRoute::find("/v1/keys/a/b/c%2Fd"),
            Some(AdminRoute::Key("a/b/c%2Fd"))
        );
        assert_eq!(
            AdminRoute::find("/v1/orders/b-12"),
            Some(AdminRoute::Order("b-12"))
        );
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
            assert_eq!(AdminRoute::find(nothing), None, "{nothing}");
        }
    }
}
