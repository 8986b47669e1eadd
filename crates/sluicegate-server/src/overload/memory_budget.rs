//! The memory budget in bytes: a share is one of what the control group allows, or else of the
//! machine's memory.

use std::fs;
use std::path::{Component, Path, PathBuf};

use sluicegate_config::MemoryBudget;

/// The budget; `None` is any amount, also when the memory that there is cannot be found out.
pub(super) fn in_bytes(budget: MemoryBudget) -> Option<u64> {
    match budget {
        MemoryBudget::Unlimited => None,
        MemoryBudget::Bytes(bytes) => Some(bytes),
        MemoryBudget::Percent(percent) => {
            let there_is = u128::from(available(Path::new("/"))?);
            let share = there_is * u128::from(percent) / 100;
            // Less than what the process needs by itself would refuse everybody.
            let bytes = u64::try_from(share).unwrap_or(u64::MAX);
            Some(bytes.max(MemoryBudget::BYTES_MIN))
        }
    }
}

/// The memory that this process may have, in a file system that begins at `root`.
fn available(root: &Path) -> Option<u64> {
    let machine = read(root.join("proc/meminfo")).as_deref().and_then(total);
    group_limit(root).into_iter().chain(machine).min()
}

/// `MemTotal` of the machine.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// The smallest limit of the control groups that this process is in: its own and those around it.
fn group_limit(root: &Path) -> Option<u64> {
    let groups = read(root.join("proc/self/cgroup"))?;
    let mounts = root.join("sys/fs/cgroup");
    let limits = groups.lines().flat_map(|line| {
        // `0::/a/b` in version 2, `4:memory:/a/b` in version 1.
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next().unwrap_or_default(), parts.next());
        let group = group.unwrap_or_default();
        if controllers.is_empty() {
            limits_along(&mounts, group, "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            limits_along(&mounts.join("memory"), group, "memory.limit_in_bytes")
        } else {
            Vec::new()
        }
    });
    limits.min()
}

/// The limits in the directory of a group and in all above it. Inside a container its own group is
/// often the topmost one that can be seen, whatever its path says.
fn limits_along(mount: &Path, group: &str, file: &str) -> Vec<u64> {
    let names = Path::new(group).components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let whole: PathBuf = names.collect();
    let directories = whole.ancestors().map(|part| mount.join(part));
    let limit = |directory: PathBuf| read(directory.join(file))?.trim().parse().ok();
    directories.filter_map(limit).collect()
}

fn read(path: PathBuf) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 1,000 MiB with these files below `/sys/fs/cgroup`.
    fn machine(cgroup: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "proc/meminfo",
            "MemTotal:        1024000 kB\nMemFree: 1 kB\n",
        );
        write("proc/self/cgroup", cgroup);
        for (path, text) in files {
            write(&format!("sys/fs/cgroup/{path}"), text);
        }
        available(root.path()).map(|bytes| bytes >> 20)
    }

    #[test]
    fn the_smallest_limit_around_the_process_counts() {
        const MIB_100: &str = "104857600\n";
        const MIB_200: &str = "209715200\n";
        let v2 = "0::/a/b\n";
        assert_eq!(machine(v2, &[]), Some(1_000), "no group has a limit");
        assert_eq!(machine(v2, &[("a/b/memory.max", MIB_100)]), Some(100));
        assert_eq!(machine(v2, &[("a/memory.max", MIB_100)]), Some(100));
        assert_eq!(machine(v2, &[("a/b/memory.max", "max\n")]), Some(1_000));
        let both = [("a/memory.max", MIB_100), ("a/b/memory.max", MIB_200)];
        assert_eq!(machine(v2, &both), Some(100));
        assert_eq!(machine("0::/\n", &[("memory.max", MIB_100)]), Some(100));
        assert_eq!(machine("0::/../x\n", &[("memory.max", MIB_100)]), Some(100));
        let v1 = "5:cpu:/a\n4:memory:/a\n0::/\n";
        let file = [("memory/a/memory.limit_in_bytes", MIB_200)];
        assert_eq!(machine(v1, &file), Some(200));
        let any = [("memory/a/memory.limit_in_bytes", "9223372036854771712\n")];
        assert_eq!(machine(v1, &any), Some(1_000), "no limit is a huge one");
        assert_eq!(machine("broken", &[]), Some(1_000));
        assert_eq!(available(Path::new("/no/such/root")), None);
    }

    #[test]
    fn a_share_is_one_of_what_there_is() {
        assert_eq!(in_bytes(MemoryBudget::Unlimited), None);
        assert_eq!(in_bytes(MemoryBudget::Bytes(7)), Some(7));
        let (half, whole) = (MemoryBudget::Percent(50), MemoryBudget::Percent(100));
        let there_is = available(Path::new("/"));
        assert_eq!(in_bytes(whole), there_is);
        assert_eq!(in_bytes(half), there_is.map(|bytes| bytes / 2));
    }
}
