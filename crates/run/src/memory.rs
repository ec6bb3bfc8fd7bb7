//! Memory of this process, if the system reports it.

/// Peak resident set size in bytes.
#[must_use]
pub fn peak_resident_bytes() -> Option<u64> {
    status("VmHWM:")
}

/// Current resident set size in bytes.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    status("VmRSS:")
}

fn status(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| 1024 * kilobytes)
}
