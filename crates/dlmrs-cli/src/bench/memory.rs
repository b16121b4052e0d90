//! How much memory the process holds, by what Linux says of it. Other systems say nothing here.

/// Makes [`peak`] begin anew; false where that is not possible.
pub(super) fn forget_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The most bytes that were resident at a time.
pub(super) fn peak() -> Option<u64> {
    high_water(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_high_water_mark() {
        assert_eq!(high_water("VmPeak:\t  900 kB\nVmHWM:\t    71236 kB\nVmRSS:\t 70000 kB\n"), Some(71236 * 1024));
        assert_eq!(high_water("VmRSS:\t 70000 kB\n"), None);
        assert_eq!(high_water("VmHWM:\t many kB\n"), None);
    }
}
