//! Memory of this process and of the machine, if the system reports it, and checks that work fits
//! in memory.

use std::path::Path;

/// Work that needs more memory than available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} takes at least {needed} bytes of memory, {available} are available")]
pub struct NoRoom {
    /// The work, with the numbers that determine its size.
    pub what: String,
    /// Bytes that it needs at least.
    pub needed: u64,
    /// Bytes that are available.
    pub available: u64,
}

/// For work of fewer bytes, available memory is not checked.
const LITTLE: u64 = 1 << 24;

/// Rejects work before anything is allocated for it. The product of `factors` is a lower bound of
/// the bytes that it needs.
///
/// # Errors
/// [`NoRoom`] if this exceeds the limits of the process or the memory left on the machine.
pub fn check(what: impl FnOnce() -> String, factors: &[u64]) -> Result<(), NoRoom> {
    let needed = product(factors);
    if needed <= LITTLE {
        return Ok(());
    }
    // No allocation can have more bytes, whatever the system reports.
    let available = available_bytes().unwrap_or(u64::MAX).min(isize::MAX as u64);
    match needed <= available {
        true => Ok(()),
        false => Err(NoRoom { what: what(), needed, available }),
    }
}

/// The product of numbers; the largest number if it overflows.
#[must_use]
pub fn product(factors: &[u64]) -> u64 {
    if factors.contains(&0) {
        0
    } else {
        factors.iter().fold(1, |all, f| u64::saturating_mul(all, *f))
    }
}

/// Peak resident set size in bytes.
#[must_use]
pub fn peak_resident_bytes() -> Option<u64> {
    entry("/proc/self/status", "VmHWM:")
}

/// Current resident set size in bytes.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    entry("/proc/self/status", "VmRSS:")
}

/// Memory of the machine in bytes.
#[must_use]
pub fn total_bytes() -> Option<u64> {
    entry("/proc/meminfo", "MemTotal:")
}

/// Memory in bytes available for new work: on the machine, in the control group and within the
/// limits of the process.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let machine = entry("/proc/meminfo", "MemAvailable:");
    let limits = [("Max address space", "VmSize:"), ("Max data size", "VmData:")];
    let limits = limits
        .map(|(limit, used)| left(limit_of_process(limit), || entry("/proc/self/status", used)));
    machine.into_iter().chain(limits.into_iter().flatten()).chain(left_in_group()).min()
}

fn left(limit: Option<u64>, used: impl FnOnce() -> Option<u64>) -> Option<u64> {
    Some(limit?.saturating_sub(used().unwrap_or(0)))
}

/// A soft limit of this process; none if it is unlimited.
fn limit_of_process(name: &str) -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Memory left by the control group of a container, in which it is the root. The usage of the group
/// includes droppable file pages, so only the memory of this process is subtracted.
fn left_in_group() -> Option<u64> {
    let limit = ["memory.max", "memory/memory.limit_in_bytes"].iter().find_map(|file| {
        let text = std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(file)).ok()?;
        text.trim().parse().ok()
    });
    left(limit, resident_bytes)
}

fn entry(file: &str, key: &str) -> Option<u64> {
    let entries = std::fs::read_to_string(file).ok()?;
    let line = entries.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| 1024 * kilobytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_beyond_any_memory_is_refused_with_its_bytes() {
        check(|| "little".into(), &[1 << 10, 8]).unwrap();
        check(|| "nothing".into(), &[0, u64::MAX, u64::MAX]).unwrap();
        for factors in [&[u64::MAX][..], &[1 << 40, 1 << 40], &[1 << 31, 1 << 31, 2]] {
            let error = check(|| "all of it".into(), factors).unwrap_err();
            assert_eq!((error.needed, error.what.as_str()), (product(factors), "all of it"));
            assert!(error.to_string().contains("takes at least"), "{error}");
        }
        assert_eq!(product(&[3, 5, 7]), 105);
        assert_eq!(product(&[1 << 63, 3]), u64::MAX);
    }
}
