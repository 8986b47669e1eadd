//! The choice of colours, the same for all commands.

use std::io::IsTerminal;

/// Returns true when output to this stream may have colours: on a terminal, unless `NO_COLOR` is set
/// and not empty.
pub fn is_wanted(stream: &impl IsTerminal) -> bool {
    let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !wants_none
}
