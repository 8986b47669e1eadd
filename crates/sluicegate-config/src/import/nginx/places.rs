//! Locations and server names of nginx as covers.

use crate::import::cover::Cover;
use crate::import::regex_path::regex_paths;

/// The covers of a location, and in which way they differ from it.
#[derive(Debug, PartialEq)]
pub(super) struct LocationCovers {
    pub(super) covers: Vec<Cover>,
    pub(super) difference: Option<String>,
}

/// The covers of the arguments of a `location`; `None` when paths cannot express it.
pub(super) fn location(arguments: &[&str]) -> Option<LocationCovers> {
    match arguments {
        ["=", path] => {
            // A cover of `/` would be everything.
            let cover = Cover::of_path(path).filter(|cover| cover.path.is_some())?;
            Some(LocationCovers {
                covers: vec![cover],
                difference: Some(format!(
                    "nginx matches {path} exactly; here paths below it match too"
                )),
            })
        }
        ["~" | "~*", regex] => {
            let covers = regex_paths(regex)?
                .iter()
                .map(|path| Cover::of_path(path))
                .collect::<Option<Vec<_>>>()?;
            Some(LocationCovers {
                covers,
                difference: Some(format!(
                    "nginx matches by the regular expression {regex}; here the path and all below it match"
                )),
            })
        }
        ["^~", path] | [path] => {
            let cover = Cover::of_path(path)?;
            let is_whole = cover.path.is_none() || path.ends_with('/');
            Some(LocationCovers {
                covers: vec![cover],
                difference: (!is_whole).then(|| {
                    format!("nginx compares letters, so that {path} also matches {path}x; here whole segments match")
                }),
            })
        }
        _ => None,
    }
}

/// The hosts of a server.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ServerHosts {
    /// Hosts in our notation.
    pub(super) hosts: Vec<String>,
    /// Names that cannot be expressed.
    pub(super) unusable: Vec<String>,
    /// True when a name stands for every host, as `_` does by convention.
    pub(super) is_any: bool,
}

/// Converts the names of a server.
pub(super) fn server_hosts<'a>(names: impl Iterator<Item = &'a str>) -> ServerHosts {
    let mut found = ServerHosts::default();
    for name in names {
        let patterns = match name.strip_prefix('.') {
            Some(domain) => vec![domain.to_owned(), format!("*.{domain}")],
            None => vec![name.to_owned()],
        };
        for pattern in patterns {
            match Cover::of_host(&pattern) {
                _ if matches!(name, "" | "_") => found.is_any = true,
                Some(cover) => found.hosts.extend(cover.hosts),
                None => found.unusable.push(name.to_owned()),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_are_hosts() {
        let found = server_hosts(["A.example", ".b.example", "_", "~^x", "www.c.*"].into_iter());
        assert_eq!(found.hosts, ["a.example", "b.example", "*.b.example"]);
        assert_eq!(found.unusable, ["~^x", "www.c.*"]);
        assert!(found.is_any);
    }
}
