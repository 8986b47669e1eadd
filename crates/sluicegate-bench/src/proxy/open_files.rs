//! Room for many connections: the limit of open files, for this process and those it starts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as it goes. The error says what would be needed.
pub fn make_room_for(files: u64) -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < files) {
        let maximum = limit.maximum.unwrap_or_default();
        return Err(format!(
            "{files} open files are needed and {maximum} are allowed (`ulimit -Hn {files}`, as root)"
        ));
    }
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )
    .map_err(|error| format!("the limit of open files cannot be raised to {files}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_or_the_reason_is_told() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        assert_eq!(make_room_for(64), Ok(()));
        if let Some(maximum) = maximum {
            assert!(make_room_for(maximum + 1).is_err_and(|error| error.contains("ulimit")));
            assert_eq!(make_room_for(maximum), Ok(()));
            assert_eq!(getrlimit(Resource::Nofile).current, Some(maximum));
        }
    }
}
