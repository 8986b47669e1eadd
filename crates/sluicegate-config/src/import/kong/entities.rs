//! Services, routes and plugins of Kong's declarative configuration, wherever they are nested.

use crate::field::Field;
use crate::import::cover::Cover;
use crate::import::regex_path::regex_paths;

/// A route: the requests of a service.
pub(super) struct KongRoute {
    pub(super) name: String,
    pub(super) service: Option<String>,
    /// Any of these; `None` when a limit cannot match the route.
    pub(super) covers: Option<Vec<Cover>>,
    pub(super) differences: Vec<String>,
    /// The kinds of conditions that it has: Kong asks the route with the most first.
    pub(super) conditions: i64,
}

/// A plugin and where it applies.
pub(super) struct KongPlugin<'a> {
    pub(super) kind: String,
    pub(super) field: Field<'a>,
    pub(super) target: PluginTarget,
}

/// The place of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PluginTarget {
    Everything,
    Service(String),
    Route(String),
    /// A consumer or a group of them, by name.
    Consumer(String),
}

impl PluginTarget {
    /// A few words for messages: `service web`.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Everything => "all requests".to_owned(),
            Self::Service(name) => format!("service {name}"),
            Self::Route(name) => format!("route {name}"),
            Self::Consumer(name) => format!("consumer {name}"),
        }
    }
}

/// All entities of a file.
#[derive(Default)]
pub(super) struct KongEntities<'a> {
    pub(super) routes: Vec<KongRoute>,
    pub(super) plugins: Vec<KongPlugin<'a>>,
}

impl<'a> KongEntities<'a> {
    pub(super) fn read(file: &Field<'a>) -> Self {
        let mut entities = Self::default();
        for (number, service) in file.items("services").iter().enumerate() {
            let name = name_of(service, "service", number);
            entities.add_plugins(service, &PluginTarget::Service(name.clone()));
            for (number, route) in service.items("routes").iter().enumerate() {
                entities.add_route(route, number, Some(name.clone()));
            }
        }
        for (number, route) in file.items("routes").iter().enumerate() {
            entities.add_route(route, number, reference(route, "service"));
        }
        for kind in ["consumers", "consumer_groups"] {
            for (number, consumer) in file.items(kind).iter().enumerate() {
                let name = consumer.text_at("username");
                let name = name.unwrap_or_else(|| name_of(consumer, "consumer", number));
                entities.add_plugins(consumer, &PluginTarget::Consumer(name));
            }
        }
        entities.add_plugins(file, &PluginTarget::Everything);
        entities
    }

    fn add_route(&mut self, route: &Field<'a>, number: usize, service: Option<String>) {
        let around = service.as_ref().map(|name| format!("{name}-route"));
        let name = name_of(route, around.as_deref().unwrap_or("route"), number);
        self.add_plugins(route, &PluginTarget::Route(name.clone()));
        let mut differences = Vec::new();
        self.routes.push(KongRoute {
            covers: covers(route, &mut differences),
            conditions: ["hosts", "paths", "methods", "headers"]
                .into_iter()
                .map(|key| i64::from(!route.items(key).is_empty()))
                .sum(),
            name,
            service,
            differences,
        });
    }

    /// The plugins below an entity; a reference in the plugin itself names another target.
    fn add_plugins(&mut self, entity: &Field<'a>, target: &PluginTarget) {
        for plugin in entity.items("plugins") {
            let Some(kind) = plugin.text_at("name") else {
                plugin.note("name is missing: which plugin it is");
                continue;
            };
            if !matches!(kind.as_str(), "rate-limiting" | "rate-limiting-advanced")
                || !plugin.flag_at("enabled", true)
            {
                continue;
            }
            let consumer =
                reference(&plugin, "consumer").or_else(|| reference(&plugin, "consumer_group"));
            let target = match (
                consumer,
                reference(&plugin, "route"),
                reference(&plugin, "service"),
            ) {
                (Some(name), ..) => PluginTarget::Consumer(name),
                (None, Some(name), _) => PluginTarget::Route(name),
                (None, None, Some(name)) => PluginTarget::Service(name),
                (None, None, None) => target.clone(),
            };
            self.plugins.push(KongPlugin {
                kind,
                field: plugin,
                target,
            });
        }
    }

    /// The plugin of a kind that runs for a route: its own, or its service's, or the global one.
    pub(super) fn plugin_for(&self, kind: &str, route: &KongRoute) -> Option<&KongPlugin<'a>> {
        let of = |target: &PluginTarget| {
            let mut found = self.plugins.iter();
            found.find(|plugin| plugin.kind == kind && plugin.target == *target)
        };
        of(&PluginTarget::Route(route.name.clone()))
            .or_else(|| of(&PluginTarget::Service(route.service.clone()?)))
            .or_else(|| of(&PluginTarget::Everything))
    }
}

/// The name of an entity, or one made of its number.
fn name_of(entity: &Field<'_>, kind: &str, number: usize) -> String {
    let name = entity.text_at("name").or_else(|| entity.text_at("id"));
    name.unwrap_or_else(|| format!("{kind}-{}", number + 1))
}

/// `service: web` or `service: { name: web }`.
fn reference(entity: &Field<'_>, key: &str) -> Option<String> {
    let field = entity.child(key)?;
    match field.child("name").or_else(|| field.child("id")) {
        Some(name) => name.plain_text(),
        None => field.plain_text(),
    }
}

/// The covers of a route; `None` when a limit cannot match it.
fn covers(route: &Field<'_>, differences: &mut Vec<String>) -> Option<Vec<Cover>> {
    let mut base = Cover {
        methods: route
            .texts("methods")
            .iter()
            .map(|method| method.to_ascii_uppercase())
            .collect(),
        ..Cover::default()
    };
    for host in route.texts("hosts") {
        let host = host.split(':').next().unwrap_or_default().to_owned();
        base.hosts.extend(Cover::of_host(&host)?.hosts);
    }
    let mut covers = vec![base];
    for (name, values) in route.children("headers") {
        let values = values.one_or_more();
        let values: Vec<String> = values.iter().filter_map(Field::plain_text).collect();
        let header = |value: &String| Cover {
            headers: vec![(name.to_ascii_lowercase(), value.clone())],
            ..Cover::default()
        };
        if values.iter().any(|value| value.starts_with("~*")) {
            return None;
        }
        covers = product(&covers, &values.iter().map(header).collect::<Vec<_>>());
    }
    let paths = route.texts("paths");
    if paths.is_empty() {
        return Some(covers);
    }
    let mut of_paths = Vec::new();
    for path in &paths {
        match path.strip_prefix('~') {
            Some(regex) => {
                let anchored = format!("^{}", regex.trim_start_matches('^'));
                for path in regex_paths(&anchored)? {
                    of_paths.push(Cover::of_path(&path)?);
                }
                differences.push(format!("Kong matches by the regular expression {path}; here the path and all below it match"));
            }
            None => {
                of_paths.push(Cover::of_path(path)?);
                if !path.ends_with('/') {
                    differences.push(
                        "Kong compares letters in paths; here whole segments match".to_owned(),
                    );
                }
            }
        }
    }
    Some(product(&covers, &of_paths))
}

fn product(one: &[Cover], two: &[Cover]) -> Vec<Cover> {
    one.iter()
        .flat_map(|left| two.iter().filter_map(|right| left.and(right)))
        .take(64)
        .collect()
}
