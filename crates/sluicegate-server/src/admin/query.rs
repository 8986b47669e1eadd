//! The query of a request: its names and values, decoded, with an error for a name that is unknown.

use sluicegate_core::unescape;

/// The values of a query, decoded.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes a query. An error names the pair that is not text. A name without a value means
    /// `true`.
    pub(super) fn parse(text: Option<&str>) -> Result<Self, String> {
        let pairs = text
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
            let decode = |text: &str| {
                unescape(&text.replace('+', " ")).ok_or_else(|| format!("{pair}: is not text"))
            };
            Ok((decode(name)?, decode(value)?))
        });
        Ok(Self(decoded.collect::<Result<_, String>>()?))
    }

    /// The value of a name; an empty one counts as none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Checks that there are no other names than these; an error names the first one.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), String> {
        match self
            .0
            .iter()
            .find(|(own, _)| !names.contains(&own.as_str()))
        {
            None => Ok(()),
            Some((own, _)) if names.is_empty() => Err(format!("{own}: nothing is asked for here")),
            Some((own, _)) => Err(format!("{own}: is none of {}", names.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded_and_empty_ones_are_none() {
        let query = Query::parse(Some("by=denied&limit=a+b&&deep&n=")).unwrap();
        assert_eq!(
            (query.get("by"), query.get("limit"), query.get("deep")),
            (Some("denied"), Some("a b"), Some("true"))
        );
        assert_eq!((query.get("n"), query.get("x")), (None, None));
        assert!(Query::parse(Some("a=%ff")).is_err());
    }

    #[test]
    fn what_nobody_asks_for_is_named() {
        let query = Query::parse(Some("by=x&m=1")).unwrap();
        assert_eq!(
            query.only(&["by", "n"]),
            Err("m: is none of by, n".to_owned())
        );
        assert_eq!(query.only(&["by", "m"]), Ok(()));
    }
}
