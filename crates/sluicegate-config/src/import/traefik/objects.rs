//! Routers and middlewares of Traefik, wherever they are written: in a file of the file provider,
//! or as objects of Kubernetes.

use crate::field::Field;

/// A router, or a route of an `IngressRoute`.
pub(super) struct Router<'a> {
    pub(super) name: String,
    pub(super) rule: String,
    pub(super) priority: Option<i64>,
    /// Names of middlewares, without their provider.
    pub(super) middlewares: Vec<String>,
    /// The router itself, for mistakes.
    pub(super) field: Field<'a>,
}

/// All objects of a file.
pub(super) struct Objects<'a> {
    pub(super) routers: Vec<Router<'a>>,
    /// Middlewares by name.
    pub(super) middlewares: Vec<(String, Field<'a>)>,
    pub(super) first: Field<'a>,
}

/// Chains of chains beyond this depth go round in a circle.
const DEPTH_MAX: usize = 8;

impl<'a> Objects<'a> {
    pub(super) fn read(documents: &[Field<'a>]) -> Self {
        let mut objects = Self {
            routers: Vec::new(),
            middlewares: Vec::new(),
            first: documents[0].clone(),
        };
        for document in documents {
            match document.text_at("kind").as_deref() {
                Some("List") => {
                    for item in document.items("items") {
                        objects.read_object(&item);
                    }
                }
                Some(_) => objects.read_object(document),
                None => objects.read_file(document),
            }
        }
        objects
    }

    /// A file of the file provider.
    fn read_file(&mut self, document: &Field<'a>) {
        let Some(http) = document.child("http") else {
            if document.child("entryPoints").is_none() && document.child("tcp").is_none() {
                document.note("expected http.routers and http.middlewares, or objects of Kubernetes with a kind");
            }
            return;
        };
        for (name, field) in http.children("middlewares") {
            self.middlewares.push((name.to_owned(), field));
        }
        for (name, field) in http.children("routers") {
            let Some(rule) = rule_of(&field) else {
                continue;
            };
            let names = field.texts("middlewares");
            let global = document.children("entryPoints");
            let of_entrances = global.iter().flat_map(|(_, entrance)| {
                entrance
                    .child("http")
                    .map(|http| http.texts("middlewares"))
                    .unwrap_or_default()
            });
            self.routers.push(Router {
                name: name.to_owned(),
                rule,
                priority: priority_of(&field),
                middlewares: of_entrances
                    .chain(names)
                    .map(|name| without_provider(&name))
                    .collect(),
                field,
            });
        }
    }

    /// A `Middleware` or an `IngressRoute`; other objects are not looked at.
    fn read_object(&mut self, object: &Field<'a>) {
        let name = object
            .at(&["metadata", "name"])
            .and_then(|field| field.plain_text());
        let (Some(kind), Some(spec)) = (object.text_at("kind"), object.child("spec")) else {
            return;
        };
        let name = name.unwrap_or_default();
        match kind.as_str() {
            "Middleware" => self.middlewares.push((name, spec)),
            "IngressRoute" => {
                for (number, route) in spec.items("routes").into_iter().enumerate() {
                    let Some(rule) = route.child("match").and_then(|field| field.plain_text())
                    else {
                        route.note("match is missing: the rule of the route");
                        continue;
                    };
                    let middlewares = route.items("middlewares");
                    let names = middlewares.iter().filter_map(|field| field.text_at("name"));
                    self.routers.push(Router {
                        name: format!("{name}[{number}]"),
                        rule,
                        priority: priority_of(&route),
                        middlewares: names.map(|name| without_provider(&name)).collect(),
                        field: route,
                    });
                }
            }
            _ => {}
        }
    }

    /// The middlewares of these names, with chains followed.
    pub(super) fn middlewares_of(&self, names: &[String]) -> Vec<(String, Field<'a>)> {
        let mut found = Vec::new();
        self.collect(names, 0, &mut found);
        found
    }

    fn collect(&self, names: &[String], depth: usize, found: &mut Vec<(String, Field<'a>)>) {
        for wanted in names {
            let Some((name, field)) = self.middlewares.iter().find(|(name, _)| name == wanted)
            else {
                continue;
            };
            match field.child("chain") {
                Some(chain) if depth < DEPTH_MAX => {
                    self.collect(&names_of(&chain), depth + 1, found)
                }
                Some(_) => {}
                None => found.push((name.clone(), field.clone())),
            }
        }
    }

    /// The names that no middleware of the file has.
    pub(super) fn unknown_of(&self, names: &[String]) -> Vec<String> {
        let is_known = |name: &&String| self.middlewares.iter().any(|(own, _)| own == *name);
        names
            .iter()
            .filter(|name| !is_known(name))
            .cloned()
            .collect()
    }
}

/// The names in a chain: texts in files, objects with a name in Kubernetes.
fn names_of(chain: &Field<'_>) -> Vec<String> {
    let items = chain.items("middlewares");
    let name = |field: &Field<'_>| match field.child("name") {
        Some(name) => name.plain_text(),
        None => field.plain_text(),
    };
    items
        .iter()
        .filter_map(name)
        .map(|name| without_provider(&name))
        .collect()
}

fn rule_of(router: &Field<'_>) -> Option<String> {
    let rule = router.child("rule");
    if rule.is_none() {
        router.note("rule is missing: which requests the router gets");
    }
    rule?.plain_text()
}

fn priority_of(router: &Field<'_>) -> Option<i64> {
    let priority = router.child("priority")?;
    // 0 stands for the length of the rule.
    priority
        .plain_text()?
        .parse()
        .ok()
        .filter(|priority| *priority != 0)
}

/// `limit@file` is `limit`.
fn without_provider(name: &str) -> String {
    name.split('@').next().unwrap_or_default().to_owned()
}
