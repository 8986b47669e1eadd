//! Import from nginx: `limit_req_zone` and `limit_req` of a whole configuration.
//!
//! nginx sends each request to one location of one server, and the `limit_req` of the innermost
//! level that has any apply there. So each location becomes a scope. A zone keeps one counter for
//! all places that use it; here each limit has its own, which is told.

mod client_address;
mod files;
mod places;
mod syntax;
mod variables;
mod zone;

use super::cover::Cover;
use super::draft::{Draft, DraftLimit, DraftQuota, LimitLine};
use super::scope::{SCOPES_MAX, Scope, ScopedLimit, lay_out};
use crate::{Mistakes, Source};
use files::NginxFiles;
use places::{location, server_hosts};
use syntax::Directive;
use variables::{Variables, ZoneKey};
use zone::{Delay, LimitReq, Zone, limit_req, zone};

/// Reads the configuration and all that it includes.
pub(super) fn draft(source: &Source) -> Result<Draft, Mistakes> {
    let (files, directives) = NginxFiles::read(source)?;
    let https: Vec<&Directive> = directives
        .iter()
        .filter(|directive| directive.name() == "http" && directive.block.is_some())
        .collect();
    let http: Vec<&Directive> = match https.is_empty() {
        // A file below conf.d is the inside of the block.
        true => directives.iter().collect(),
        false => https.iter().flat_map(|http| http.inside()).collect(),
    };
    let mut importer = Importer {
        draft: Draft::of_proxy(format!("The limits of {}, from nginx.", source.name)),
        variables: Variables::read(&http),
        zones: Vec::new(),
        scopes: Vec::new(),
        unmatched: Vec::new(),
        files,
    };
    importer.read_http(&http);
    importer.note_streams(&directives);
    importer.files.check()?;
    if importer.scopes.len() > SCOPES_MAX {
        let message = format!("has more than {SCOPES_MAX} servers and locations with limits");
        return Err(Mistakes::whole(&source.name, message));
    }
    Ok(importer.into_draft())
}

/// The limits in force at one level of the configuration.
#[derive(Clone, Debug, Default)]
struct NginxLevel {
    limits: Vec<LimitReq>,
    /// `limit_req_status`; 503 by default.
    status: Option<String>,
    is_dry_run: bool,
}

/// The reading of a configuration.
struct Importer {
    files: NginxFiles,
    draft: Draft,
    variables: Variables,
    /// Zones with their keys; an error says why the key has no counterpart.
    zones: Vec<(Zone, Result<ZoneKey, String>)>,
    scopes: Vec<Scope>,
    unmatched: Vec<UnmatchedLocation>,
}

/// The server that a location is in.
struct ServerPlace<'a> {
    hosts: &'a [String],
}

/// A location that no path expresses.
struct UnmatchedLocation {
    label: String,
    hosts: Vec<String>,
    /// The `limit_req` statements in force there.
    origins: Vec<String>,
}

impl Importer {
    fn read_http(&mut self, http: &[&Directive]) {
        for directive in http
            .iter()
            .filter(|directive| directive.name() == "limit_req_zone")
        {
            let Some(read) = zone(directive, &mut self.files) else {
                continue;
            };
            let key = self.variables.key(&read.key);
            match self.zones.iter().any(|(other, _)| other.name == read.name) {
                true => {
                    let message =
                        format!("limit_req_zone: the zone {:?} is defined twice", read.name);
                    self.files.mistake(directive, None, message);
                }
                false => self.zones.push((read, key)),
            }
        }
        let level = self.level(http.iter().copied(), &NginxLevel::default());
        self.read_client_address(http);
        let servers: Vec<&&Directive> = http
            .iter()
            .filter(|directive| directive.name() == "server" && directive.block.is_some())
            .collect();
        let is_alone = servers.len() == 1;
        let mut has_default = false;
        for server in &servers {
            has_default |= self.read_server(server, &level, is_alone);
        }
        if !has_default {
            self.add_scope(Cover::default(), "http".to_owned(), -1, &level, None);
            let first = self.scopes.first().filter(|scope| !scope.limits.is_empty());
            if let Some(scope) = first.filter(|scope| !scope.cover.hosts.is_empty()) {
                let difference = format!(
                    "nginx gives requests for unknown hosts to the first server ({}); here its limits cover its own hosts only",
                    scope.label
                );
                self.draft.differs(difference);
            }
        }
        // Locations without any server, as in a snippet that servers include.
        for directive in http
            .iter()
            .filter(|directive| directive.name() == "location")
        {
            let place = ServerPlace { hosts: &[] };
            self.read_location(directive, &place, &level);
        }
    }

    /// The limits of a level: its own, or those around it when it has none.
    fn level<'a>(
        &mut self,
        directives: impl Iterator<Item = &'a Directive>,
        around: &NginxLevel,
    ) -> NginxLevel {
        let mut own = NginxLevel {
            limits: Vec::new(),
            ..around.clone()
        };
        let mut is_own = false;
        for directive in directives {
            let first = directive.arguments().first().map(|word| word.text.clone());
            match directive.name() {
                "limit_req" => {
                    is_own = true;
                    own.limits.extend(self.known_limit(directive));
                }
                "limit_req_status" => own.status = first,
                "limit_req_dry_run" => own.is_dry_run = first.as_deref() == Some("on"),
                "limit_conn" => {
                    let place = self.files.place(directive);
                    self.draft.not_carried_over(format!(
                        "{place}: {}: connections are not counted per caller (`proxy.max_connections` bounds all of them)",
                        directive.text()
                    ));
                }
                _ => {}
            }
        }
        if !is_own {
            own.limits.clone_from(&around.limits);
        }
        own
    }

    /// A `limit_req` whose zone exists.
    fn known_limit(&mut self, directive: &Directive) -> Option<LimitReq> {
        let limit = limit_req(directive, &mut self.files)?;
        if self.zones.iter().any(|(zone, _)| zone.name == limit.zone) {
            return Some(limit);
        }
        let known: Vec<&str> = self
            .zones
            .iter()
            .map(|(zone, _)| zone.name.as_str())
            .collect();
        let message = format!(
            "limit_req: no limit_req_zone defines the zone {:?} (defined: {})",
            limit.zone,
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        );
        self.files.mistake(directive, None, message);
        None
    }

    /// Reads a server; returns true when it also gets the requests for unknown hosts.
    fn read_server(&mut self, server: &Directive, around: &NginxLevel, is_alone: bool) -> bool {
        let inside = server.inside();
        let level = self.level(inside.iter(), around);
        let names = inside
            .iter()
            .filter(|directive| directive.name() == "server_name")
            .flat_map(Directive::arguments)
            .map(|word| word.text.as_str());
        let found = server_hosts(names);
        let is_flagged = inside
            .iter()
            .filter(|directive| directive.name() == "listen")
            .flat_map(Directive::arguments)
            .any(|word| matches!(word.text.as_str(), "default_server" | "default"));
        let has_no_name = found.hosts.is_empty() && found.unusable.is_empty();
        let is_default = is_alone || is_flagged || found.is_any || has_no_name;
        let label = format!(
            "{}: server {}",
            self.files.place(server),
            found.hosts.join(" ")
        );
        if !is_default && !found.unusable.is_empty() {
            self.draft.not_carried_over(format!(
                "{label}: hosts cannot match {}",
                found.unusable.join(", ")
            ));
        }
        if !is_default && found.hosts.is_empty() {
            return false;
        }
        let hosts = if is_default { Vec::new() } else { found.hosts };
        let cover = Cover {
            hosts: hosts.clone(),
            ..Cover::default()
        };
        let rank = i64::from(!is_default);
        self.add_scope(cover, label, rank, &level, None);
        let place = ServerPlace { hosts: &hosts };
        // A location for everything takes the place of the server's own level.
        for directive in inside
            .iter()
            .filter(|directive| directive.name() == "location")
        {
            self.read_location(directive, &place, &level);
        }
        is_default
    }

    /// Reads a location and those inside it.
    fn read_location(
        &mut self,
        directive: &Directive,
        server: &ServerPlace<'_>,
        around: &NginxLevel,
    ) {
        let level = self.level(directive.inside().iter(), around);
        let words: Vec<&str> = directive
            .arguments()
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        let label = format!("{}: {}", self.files.place(directive), directive.text());
        match location(&words) {
            Some(found) => {
                for mut cover in found.covers {
                    cover.hosts = server.hosts.to_vec();
                    let rank = i64::from(!server.hosts.is_empty());
                    self.add_scope(cover, label.clone(), rank, &level, found.difference.clone());
                }
            }
            // Named locations are reached from others only.
            None if words.first().is_some_and(|first| first.starts_with('@')) => {}
            None => {
                let origins = level.limits.iter().map(|limit| limit.origin.clone());
                self.unmatched.push(UnmatchedLocation {
                    label,
                    hosts: server.hosts.to_vec(),
                    origins: origins.collect(),
                });
            }
        }
        for inner in directive.inside() {
            if inner.name() == "location" {
                self.read_location(inner, server, &level);
            }
        }
    }

    /// Adds a scope with the limits of a level. A later one of the same server for the same requests
    /// takes the place of an earlier one, as `location /` does of its server.
    fn add_scope(
        &mut self,
        cover: Cover,
        label: String,
        rank: i64,
        level: &NginxLevel,
        difference: Option<String>,
    ) {
        let mut limits = Vec::new();
        for limit in &level.limits {
            limits.extend(self.scoped(limit, level, difference.as_deref()));
        }
        let scope = Scope {
            preference: (rank, cover.narrowness()),
            cover,
            label,
            limits,
        };
        let is_location = scope.label.contains(": location ");
        let same = self
            .scopes
            .iter_mut()
            .rfind(|other| other.cover == scope.cover && is_location);
        match same {
            Some(server) if server.label.contains(": server ") => *server = scope,
            _ => self.scopes.push(scope),
        }
    }

    /// A `limit_req` as a limit of ours, once for each condition of its key.
    fn scoped(
        &mut self,
        limit: &LimitReq,
        level: &NginxLevel,
        difference: Option<&str>,
    ) -> Vec<ScopedLimit> {
        let Some((zone, key)) = self.zones.iter().find(|(zone, _)| zone.name == limit.zone) else {
            return Vec::new();
        };
        let key = match key {
            Ok(key) => key,
            Err(reason) => {
                let statement = format!("{} (zone at {}): {reason}", limit.origin, zone.place);
                self.draft.not_carried_over(statement);
                return Vec::new();
            }
        };
        let quota = DraftQuota::Bucket {
            count: zone.count,
            period: zone.period.to_owned(),
            burst: limit.burst + 1,
        };
        let mut draft = DraftLimit::new(&zone.name, &limit.origin, quota);
        draft.key.clone_from(&key.parts);
        draft.on_missing_key = key.on_missing_key;
        draft.is_shadow = level.is_dry_run;
        for difference in &key.differences {
            draft.differs(LimitLine::Key, difference);
        }
        if let Some(difference) = difference {
            draft.differs(LimitLine::Match, difference);
        }
        if let Some(difference) = delay_difference(limit) {
            draft.differs(LimitLine::Burst, difference);
        }
        let status = level.status.as_deref().unwrap_or("503");
        if status != "429" && !level.is_dry_run {
            let difference =
                format!("nginx rejects with {status} (limit_req_status), here with 429");
            draft.differs(LimitLine::Quota, difference);
        }
        let everything = [Cover::default()];
        let only = if key.only.is_empty() {
            &everything[..]
        } else {
            &key.only
        };
        let scoped = |cover: &Cover| ScopedLimit {
            family: format!("zone {}", zone.name),
            is_shared: true,
            limit: DraftLimit {
                cover: cover.clone(),
                ..draft.clone()
            },
            except: key.except.clone(),
        };
        only.iter().map(scoped).collect()
    }

    /// Tells which locations have other limits here, because no path expresses them.
    fn note_unmatched(&mut self) {
        for location in &self.unmatched {
            let of_server = self
                .scopes
                .iter()
                .find(|scope| scope.cover.hosts == location.hosts && scope.cover.path.is_none());
            let limits = of_server
                .map(|scope| scope.limits.as_slice())
                .unwrap_or_default();
            let has = |origin: &String| limits.iter().any(|limit| limit.limit.origin == *origin);
            if limits.len() != location.origins.len() || !location.origins.iter().all(has) {
                self.draft.not_carried_over(format!(
                    "{}: a limit cannot match it; its requests have the limits of what is around it",
                    location.label
                ));
            }
        }
    }

    /// Writes allow lists and limits.
    fn into_draft(mut self) -> Draft {
        self.note_unmatched();
        let used: Vec<&(Zone, Result<ZoneKey, String>)> = self
            .zones
            .iter()
            .filter(|(zone, _)| {
                let of_zone = |limit: &ScopedLimit| limit.family == format!("zone {}", zone.name);
                self.scopes
                    .iter()
                    .any(|scope| scope.limits.iter().any(of_zone))
            })
            .collect();
        let keys: Vec<&ZoneKey> = used
            .iter()
            .filter_map(|(_, key)| key.as_ref().ok())
            .collect();
        if keys
            .iter()
            .any(|key| key.parts.iter().any(|part| part == "client_ip"))
        {
            let hint = "as nginx counts; 64 is safer, because a subscriber usually has a whole /64";
            self.draft
                .line("client_ip", "ipv6_prefix: 128", &[hint.to_owned()]);
        }
        let mut allow: Vec<String> = Vec::new();
        for network in keys.iter().flat_map(|key| &key.allow) {
            let network = super::draft::quoted(&network.to_string());
            if !allow.contains(&network) {
                allow.push(network);
            }
        }
        if !allow.is_empty() {
            let text = format!("allow: {{ cidrs: [{}] }}", allow.join(", "));
            match keys.iter().all(|key| !key.allow.is_empty()) {
                true => self.draft.line("access", text, &[]),
                false => self.draft.differing_line(
                    "access",
                    text,
                    "these addresses are exempt from every limit, in nginx only from zones whose key is empty for them",
                ),
            }
        }
        let unread = std::mem::take(&mut self.files.unread);
        unread
            .into_iter()
            .for_each(|include| self.draft.not_carried_over(include));
        lay_out(self.scopes, &mut self.draft);
        self.draft
    }
}

/// The difference that a delay makes; a limit without a burst has none.
fn delay_difference(limit: &LimitReq) -> Option<String> {
    let burst = limit.burst;
    match limit.delay {
        Delay::Always if burst > 0 => Some(format!(
            "nginx delays up to {burst} requests above the rate; here they pass at once"
        )),
        Delay::Beyond(first) if first < burst => Some(format!(
            "nginx delays requests above the rate from number {} to {burst}; here they pass at once",
            first + 1
        )),
        _ => None,
    }
}
