//! The statements of nginx beside `limit_req` that limits depend on: where the client's address
//! comes from, and limits outside HTTP.

use super::Importer;
use super::syntax::Directive;
use crate::import::draft::quoted;

impl Importer {
    /// `set_real_ip_from` and `real_ip_header`, and the way nginx counts IPv6 addresses.
    pub(super) fn read_client_address(&mut self, http: &[&Directive]) {
        let servers = http.iter().filter(|directive| directive.name() == "server");
        let everywhere: Vec<&Directive> = http
            .iter()
            .copied()
            .chain(servers.flat_map(|server| server.inside()))
            .collect();
        let mut proxies: Vec<String> = Vec::new();
        let mut header = "x-real-ip".to_owned();
        for directive in everywhere {
            let Some(first) = directive.arguments().first() else {
                continue;
            };
            match directive.name() {
                "set_real_ip_from" => match network(&first.text) {
                    Some(network) if !proxies.contains(&network) => proxies.push(network),
                    Some(_) => {}
                    None => {
                        let place = self.files.place(directive);
                        let text = directive.text();
                        self.draft.not_carried_over(format!(
                            "{place}: {text}: trusted proxies are addresses"
                        ));
                    }
                },
                "real_ip_header" => header = first.text.to_ascii_lowercase(),
                _ => {}
            }
        }
        if proxies.is_empty() {
            return;
        }
        let list: Vec<String> = proxies.iter().map(|proxy| quoted(proxy)).collect();
        self.draft.line(
            "client_ip",
            format!("trusted_proxies: [{}]", list.join(", ")),
            &[],
        );
        match header.as_str() {
            "x-forwarded-for" | "x-real-ip" => {
                self.draft.line("client_ip", format!("header: {header}"), &[]);
            }
            _ => self.draft.not_carried_over(format!(
                "real_ip_header {header}: the client's address comes in x-forwarded-for, forwarded or x-real-ip"
            )),
        }
    }

    /// Limits of connections outside HTTP.
    pub(super) fn note_streams(&mut self, directives: &[Directive]) {
        for stream in directives
            .iter()
            .filter(|directive| directive.name() == "stream")
        {
            let place = self.files.place(stream);
            let has_limits = |directive: &Directive| directive.name().starts_with("limit_conn");
            let servers = stream.inside().iter().flat_map(Directive::inside);
            if stream.inside().iter().chain(servers).any(has_limits) {
                let statement =
                    format!("{place}: stream: connections outside HTTP are not limited");
                self.draft.not_carried_over(statement);
            }
        }
    }
}

/// A network in our notation; `None` for names and sockets.
fn network(text: &str) -> Option<String> {
    let network = text.parse::<ipnet::IpNet>().ok();
    let address = || {
        text.parse::<std::net::IpAddr>()
            .ok()
            .map(ipnet::IpNet::from)
    };
    Some(network.or_else(address)?.trunc().to_string())
}
