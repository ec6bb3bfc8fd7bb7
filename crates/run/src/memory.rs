//! Memory of this process and of the machine, if the system reports it.

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

/// Memory of the machine in bytes.
#[must_use]
pub fn total_bytes() -> Option<u64> {
    entry("/proc/meminfo", "MemTotal:")
}

/// Memory in bytes that the machine has left for new work.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    entry("/proc/meminfo", "MemAvailable:")
}

fn status(key: &str) -> Option<u64> {
    entry("/proc/self/status", key)
}

fn entry(file: &str, key: &str) -> Option<u64> {
    let entries = std::fs::read_to_string(file).ok()?;
    let line = entries.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| 1024 * kilobytes)
}
