//! Configurations of other programs, converted to ours: the result is one that we accept, or the
//! mistakes are those of the file that was read.

use sluicegate_config::import::{Format, convert};
use sluicegate_config::{Source, Syntax, load};

use crate::config_yaml::may_read_devices;
use crate::input::InputBytes;

/// The first byte chooses the program whose file the rest is.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let (format, syntax) = *input.one_of(&FORMATS);
    let Ok(text) = str::from_utf8(input.rest()) else {
        return;
    };
    if may_read_devices(text) {
        return;
    }
    let source = Source {
        name: "fuzz".to_owned(),
        text: text.to_owned(),
        syntax,
        base_dir: "/nonexistent".into(),
    };
    match convert(format, &source) {
        Ok(imported) => {
            let ours = Source {
                text: imported.yaml,
                syntax: Syntax::Yaml,
                ..source
            };
            let loaded = load(&ours, &|_| None);
            assert!(loaded.is_ok(), "{loaded:?}");
        }
        Err(mistakes) => {
            assert!(mistakes.iter().len() > 0);
            assert!(!mistakes.render(false).is_empty());
        }
    }
}

const FORMATS: [(Format, Syntax); 9] = [
    (Format::Edgeguard, Syntax::Toml),
    (Format::Edgequota, Syntax::Yaml),
    (Format::EnvoyRatelimit, Syntax::Yaml),
    (Format::Haproxy, Syntax::Yaml),
    (Format::Kong, Syntax::Yaml),
    (Format::Misskey, Syntax::Yaml),
    (Format::Nginx, Syntax::Yaml),
    (Format::Traefik, Syntax::Yaml),
    (Format::Traefik, Syntax::Toml),
];
