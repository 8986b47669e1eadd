//! Import from Kong: the plugins `rate-limiting` and `rate-limiting-advanced` of a declarative
//! configuration.
//!
//! Of each plugin Kong runs one instance for a request: that of the route, else that of the
//! service, else the global one. So each route becomes a scope, and each window of the instance a
//! limit.

mod entities;
mod windows;

use super::cover::Cover;
use super::draft::{Draft, DraftLimit, LimitLine, quoted};
use super::foreign_tree;
use super::scope::{SCOPES_MAX, Scope, ScopedLimit, lay_out};
use crate::field::Field;
use crate::{Mistakes, Source, Syntax};
use entities::{KongEntities, KongPlugin, PluginTarget};
use windows::{KongWindow, windows};

const KINDS: [&str; 2] = ["rate-limiting", "rate-limiting-advanced"];

/// Reads a declarative configuration, in YAML or JSON.
pub(super) fn draft(source: &Source) -> Result<Draft, Mistakes> {
    foreign_tree::read(source, Syntax::Yaml, |documents| {
        let file = documents.first()?;
        if file.child("_format_version").is_none() {
            file.note("_format_version is missing: expected a declarative configuration of Kong");
            return None;
        }
        let entities = KongEntities::read(file);
        let mut importer = Importer {
            draft: Draft::of_proxy(format!("The limits of {}, from Kong.", source.name)),
            name: &source.name,
            redis: None,
            has_local: false,
        };
        let scopes = importer.scopes(&entities);
        if scopes.len() > SCOPES_MAX {
            file.note(format!("has more than {SCOPES_MAX} routes"));
            return None;
        }
        importer.write_sections(&entities);
        lay_out(scopes, &mut importer.draft);
        Some(importer.draft)
    })
}

/// The reading of a file.
struct Importer<'a> {
    draft: Draft,
    name: &'a str,
    /// `host:port` of the Redis that plugins use, and the policy while it is away.
    redis: Option<(String, &'static str)>,
    /// True when a plugin counts in each node.
    has_local: bool,
}

impl Importer<'_> {
    fn scopes(&mut self, entities: &KongEntities<'_>) -> Vec<Scope> {
        let mut scopes = Vec::new();
        let global = entities
            .plugins
            .iter()
            .filter(|plugin| plugin.target == PluginTarget::Everything);
        let limits: Vec<ScopedLimit> = global.flat_map(|plugin| self.limits(plugin)).collect();
        if !limits.is_empty() {
            scopes.push(Scope {
                cover: Cover::default(),
                label: "the global plugins".to_owned(),
                preference: (-1, 0),
                limits,
            });
        }
        for route in &entities.routes {
            let label = format!("route {}", route.name);
            let plugins = KINDS
                .iter()
                .filter_map(|kind| entities.plugin_for(kind, route));
            let limits: Vec<ScopedLimit> = plugins.flat_map(|plugin| self.limits(plugin)).collect();
            let Some(covers) = &route.covers else {
                self.draft.not_carried_over(format!(
                    "{label}: a limit cannot match it; its requests have the limits of what is around it"
                ));
                continue;
            };
            for cover in covers {
                let mut limits = limits.clone();
                for scoped in &mut limits {
                    for difference in &route.differences {
                        scoped.limit.differs(LimitLine::Match, difference);
                    }
                }
                scopes.push(Scope {
                    preference: (route.conditions, cover.narrowness()),
                    cover: cover.clone(),
                    label: label.clone(),
                    limits,
                });
            }
        }
        for plugin in &entities.plugins {
            self.note_target(plugin, entities);
        }
        scopes
    }

    /// Plugins of consumers have no counterpart; those of nobody are a mistake.
    fn note_target(&mut self, plugin: &KongPlugin<'_>, entities: &KongEntities<'_>) {
        let is_known = |name: &String, of_service: bool| {
            entities.routes.iter().any(|route| match of_service {
                true => route.service.as_ref() == Some(name),
                false => route.name == *name,
            })
        };
        match &plugin.target {
            PluginTarget::Consumer(name) => {
                let (file, line, kind) = (self.name, plugin.field.line(), &plugin.kind);
                self.draft.not_carried_over(format!(
                    "{file}:{line}: {kind} of consumer {name}: a limit cannot match one caller (`quota_from: external` or an override can)"
                ));
            }
            PluginTarget::Route(name) if !is_known(name, false) => {
                plugin.field.note(format!("no route is called {name:?}"));
            }
            PluginTarget::Service(name) if !is_known(name, true) => {
                self.draft.not_carried_over(format!(
                    "{}:{}: {} of service {name}: the service has no routes in this file",
                    self.name,
                    plugin.field.line(),
                    plugin.kind
                ));
            }
            _ => {}
        }
    }

    /// The limits of a plugin, one for each of its windows.
    fn limits(&mut self, plugin: &KongPlugin<'_>) -> Vec<ScopedLimit> {
        let config = plugin
            .field
            .child("config")
            .unwrap_or_else(|| plugin.field.clone());
        self.read_store(plugin, &config);
        let mut limits = Vec::new();
        for window in windows(&plugin.kind, &config) {
            limits.extend(self.limit(plugin, &config, window));
        }
        limits
    }

    fn limit(
        &mut self,
        plugin: &KongPlugin<'_>,
        config: &Field<'_>,
        window: KongWindow,
    ) -> Option<ScopedLimit> {
        let target = plugin.target.words();
        let place = format!(
            "{}:{}: {} of {target}",
            self.name,
            plugin.field.line(),
            plugin.kind
        );
        let name = match &plugin.target {
            PluginTarget::Service(name) | PluginTarget::Route(name) => name.as_str(),
            _ => plugin.kind.as_str(),
        };
        let family = format!("{} of {target}, {}", plugin.kind, window.name);
        let mut limit = DraftLimit::new(format!("{name}-{}", window.name), &place, window.quota);
        limit.differences = window.differences;
        self.set_key(&mut limit, config, &place)?;
        if let Some(code) = config.text_at("error_code").filter(|code| code != "429") {
            limit.differs(
                LimitLine::Quota,
                format!("Kong rejects with {code}, here with 429"),
            );
        }
        Some(ScopedLimit {
            family,
            is_shared: true,
            limit,
            except: Vec::new(),
        })
    }

    /// `limit_by` or `identifier` as a key; `None` when there is none.
    fn set_key(&mut self, limit: &mut DraftLimit, config: &Field<'_>, place: &str) -> Option<()> {
        let by = config
            .text_at("limit_by")
            .or_else(|| config.text_at("identifier"));
        let by = by.unwrap_or_else(|| "consumer".to_owned());
        match by.as_str() {
            "consumer" | "credential" => {
                limit.key = vec!["principal".to_owned()];
                limit.on_missing_key = Some("client_ip");
                limit.differs(
                    LimitLine::Key,
                    format!("Kong counts each {by}; here `principals` says who is asking, and until it is set the address is counted, as Kong does for callers without a credential"),
                );
            }
            "ip" => limit.key = vec!["client_ip".to_owned()],
            "service" => limit.key = Vec::new(),
            "header" => {
                let Some(header) = config.child("header_name") else {
                    config.note("header_name is missing: limit_by header needs it");
                    return None;
                };
                limit.key = vec![format!("header:{}", header.header_name()?)];
                limit.on_missing_key = Some("client_ip");
            }
            "path" => {
                let path = config.text_at("path").unwrap_or_else(|| "/".to_owned());
                let Some(cover) = Cover::of_path(&path) else {
                    let reason = format!("{place}: a limit cannot match the path {path:?}");
                    self.draft.not_carried_over(reason);
                    return None;
                };
                limit.cover = cover;
                limit.differs(
                    LimitLine::Match,
                    "Kong counts requests with other paths by address; here they are not limited by it",
                );
            }
            _ => {
                let reason = format!("{place}: there is no key part for {by}");
                self.draft.not_carried_over(reason);
                return None;
            }
        }
        Some(())
    }

    /// `policy` or `strategy`: where the counters are.
    fn read_store(&mut self, plugin: &KongPlugin<'_>, config: &Field<'_>) {
        let policy = config
            .text_at("policy")
            .or_else(|| config.text_at("strategy"));
        match policy.as_deref() {
            None | Some("local") => self.has_local = true,
            Some("redis") => {
                let nested = config.child("redis");
                let text = |key: &str, flat: &str| {
                    let nested = nested.as_ref().and_then(|field| field.text_at(key));
                    nested.or_else(|| config.text_at(flat))
                };
                let host = text("host", "redis_host").unwrap_or_else(|| "127.0.0.1".to_owned());
                let port = text("port", "redis_port").unwrap_or_else(|| "6379".to_owned());
                let is_open = config.flag_at("fault_tolerant", true);
                let on_failure = if is_open { "open" } else { "closed" };
                let redis = (format!("{host}:{port}"), on_failure);
                if text("password", "redis_password").is_some() {
                    self.draft.not_carried_over(format!(
                        "{}: the password of Redis: put it into a file and name that in `store.redis.password_file`",
                        plugin.target.words()
                    ));
                }
                match &self.redis {
                    Some(known) if *known != redis => self.draft.differs(format!(
                        "plugins use several Redis servers or policies; here all limits use {} and {}",
                        known.0, known.1
                    )),
                    Some(_) => {}
                    None => self.redis = Some(redis),
                }
            }
            Some(other) => self.draft.not_carried_over(format!(
                "{}:{}: policy {other}: counters in Kong's database; use `store.kind: redis` to share them",
                self.name,
                plugin.field.line()
            )),
        }
    }

    /// The sections for addresses, the store and the headers of responses.
    fn write_sections(&mut self, entities: &KongEntities<'_>) {
        let hint = "as Kong counts; 64 is safer, because a subscriber usually has a whole /64";
        self.draft
            .line("client_ip", "ipv6_prefix: 128", &[hint.to_owned()]);
        if let Some((endpoint, on_failure)) = self.redis.take() {
            match self.has_local {
                true => self.draft.differing_line(
                    "store",
                    "kind: redis",
                    "some plugins count in each node of Kong; here all counters are in Redis",
                ),
                false => self.draft.line("store", "kind: redis", &[]),
            }
            self.draft
                .line("store", format!("on_failure: {on_failure}"), &[]);
            self.draft.line(
                "store",
                format!("redis: {{ endpoints: [{}] }}", quoted(&endpoint)),
                &[],
            );
        }
        let is_hidden = |plugin: &&KongPlugin<'_>| {
            let config = plugin.field.child("config");
            config.is_some_and(|config| config.flag_at("hide_client_headers", false))
        };
        let hidden = entities.plugins.iter().filter(is_hidden).count();
        if hidden > 0 && hidden == entities.plugins.len() {
            self.draft.line("response", "headers: [none]", &[]);
        } else if hidden > 0 {
            self.draft.differs("hide_client_headers: some plugins hide their headers; here all responses have them".to_owned());
        }
    }
}
