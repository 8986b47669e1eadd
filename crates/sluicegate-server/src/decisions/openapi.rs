//! The OpenAPI description of the HTTP endpoint, for people and generators of clients.

/// The document, OpenAPI 3.1, as it is served.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::authorize::Flavour;
    use super::super::http::routes::{ROUTES, Route};
    use super::*;

    #[test]
    fn every_route_is_described_and_nothing_else_is() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        let described: BTreeSet<&str> = document["paths"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let served: BTreeSet<&str> = ROUTES
            .into_iter()
            .map(|(path, route)| match route {
                Route::Authorize(Flavour::Envoy) => "/v1/authorize/envoy/{path}",
                _ => path,
            })
            .collect();
        assert_eq!(described, served);
        for (path, methods) in document["paths"].as_object().unwrap() {
            let methods: BTreeSet<&str> = methods
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            let expected: &[&str] = match path.as_str() {
                "/openapi.json" => &["get"],
                path if path.starts_with("/v1/authorize/") => {
                    &["get", "post", "put", "patch", "delete"]
                }
                _ => &["post"],
            };
            let methods: BTreeSet<&str> = methods
                .into_iter()
                .filter(|key| *key != "parameters")
                .collect();
            assert_eq!(methods, expected.iter().copied().collect(), "{path}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let mut seen = 0;
        let mut left = vec![&document];
        while let Some(value) = left.pop() {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(reference)) = map.get("$ref") {
                        let place = reference.strip_prefix('#').expect("in this document");
                        assert!(document.pointer(place).is_some(), "{reference}");
                        seen += 1;
                    }
                    left.extend(map.values());
                }
                Value::Array(list) => left.extend(list),
                _ => {}
            }
        }
        assert!(seen > 20, "{seen}");
    }
}
