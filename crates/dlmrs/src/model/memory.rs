//! How much memory the weights will need, compared with what there is before anything is read.

use std::path::Path;

use crate::arithmetic::Precision;
use crate::checkpoint::{ModelConfig, Weights, weight_bytes};
use crate::error::{Error, Result};

/// Refuses a checkpoint whose weights cannot fit: an error in place of a process that the system ends.
pub(super) fn check(weights: &Weights, config: &ModelConfig, precision: Precision) -> Result<()> {
    match available(Path::new("/")) {
        Some(available) => fits(available, precision, |precision| weight_bytes(config, Some(weights), precision)),
        None => Ok(()),
    }
}

fn fits(available: u64, precision: Precision, bytes: impl Fn(Precision) -> u64) -> Result<()> {
    let needed = bytes(precision);
    if needed <= available {
        return Ok(());
    }
    let gigabytes = |bytes: u64| format!("{:.2} GB", bytes as f64 / 1e9);
    let smaller: Vec<_> = [Precision::Bf16, Precision::Int8, Precision::Int4]
        .into_iter()
        .map(|precision| (precision, bytes(precision)))
        .filter(|(_, bytes)| *bytes < needed)
        .map(|(precision, bytes)| format!("{} {}", precision.name(), gigabytes(bytes)))
        .collect();
    let instead = if smaller.is_empty() { String::new() } else { format!("; as {}", smaller.join(", as ")) };
    let message = format!("as {} they need {}, but {} are available{instead}", precision.name(), gigabytes(needed), gigabytes(available));
    Err(Error::Capacity { what: "memory for weights", message })
}

/// What this process may still take, in bytes: what the system has left, or a control group around the process allows. None where the
/// system does not tell. `root` is the folder that everything is looked for in.
fn available(root: &Path) -> Option<u64> {
    let meminfo = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let system = field(&meminfo, "MemAvailable:")?.saturating_mul(1024);
    Some(control_group(root).map_or(system, |group| group.min(system)))
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)).and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse().ok())
}

/// The least that a control group (version 2, or 1) of this process or one around it leaves. Cached files do not count as used: they
/// make room.
fn control_group(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let left = |line: &str| {
        let (mount, path, limit, usage) = match line.split(':').collect::<Vec<_>>()[..] {
            ["0", "", path] => ("sys/fs/cgroup", path, "memory.max", "memory.current"),
            [_, names, path] if names.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => return None,
        };
        let mount = root.join(mount);
        let own = mount.join(path.trim_start_matches('/'));
        own.ancestors().take_while(|folder| folder.starts_with(&mount)).filter_map(|folder| left_in(folder, limit, usage)).min()
    };
    groups.lines().filter_map(left).min()
}

/// What one control group leaves; None if it has no limit ("max", or none of these files).
fn left_in(folder: &Path, limit: &str, usage: &str) -> Option<u64> {
    let number = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = (number(limit)?, number(usage)?);
    let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cached: u64 = ["inactive_file ", "active_file "].iter().filter_map(|name| field(&stat, name)).sum();
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A machine of files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       2000 kB\nMemFree: 1 kB\nMemAvailable:   1000 kB\n");

    #[test]
    fn without_a_control_group_the_system_counts() {
        assert_eq!(available(machine(&[]).path()), None);
        assert_eq!(available(machine(&[MEMINFO]).path()), Some(1_024_000));
        let no_limit = [MEMINFO, ("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "max\n")];
        assert_eq!(available(machine(&no_limit).path()), Some(1_024_000));
    }

    #[test]
    fn the_tightest_group_around_counts() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "500000\n"),
            ("sys/fs/cgroup/a/memory.current", "100000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "900000\n"),
            ("sys/fs/cgroup/a/b/memory.current", "90000\n"),
        ];
        assert_eq!(available(machine(&files).path()), Some(400_000));
        let cached = [&files[..], &[("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 20000\nactive_file 5000\n")]].concat();
        assert_eq!(available(machine(&cached).path()), Some(425_000));
    }

    #[test]
    fn version_one_counts_too() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,memory:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "300000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "100000\n"),
        ];
        assert_eq!(available(machine(&files).path()), Some(200_000));
    }

    #[test]
    fn the_error_names_what_would_fit() {
        let bytes = |precision| match precision {
            Precision::Auto | Precision::Bf16 => 16_000_000_000,
            Precision::Int8 => 8_500_000_000,
            _ => 4_900_000_000,
        };
        assert!(fits(16_000_000_000, Precision::Auto, bytes).is_ok());
        let error = fits(12_000_000_000, Precision::Auto, bytes).unwrap_err().to_string();
        assert_eq!(error, "memory for weights: as auto they need 16.00 GB, but 12.00 GB are available; as int8 8.50 GB, as int4 4.90 GB");
    }
}
