//! Processor, threads and memory, from the files of Linux. On other systems they are unknown,
//! which is not an error.

use super::finding::{Finding, Status};
use crate::failure::Failure;
use linwright::report::number::bytes;
use linwright::run::shown;
use linwright::tensor::parallel::{instruction_set, instructions_found};
use serde_json::json;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Reads a system file; tests replace it.
pub(super) type Read<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Limits above this mean "no limit" in control groups version 1, which shows a number of pages
/// that no machine has.
const NO_LIMIT: u64 = 1 << 60;
/// Less available memory than this is reported.
const LITTLE_MEMORY: u64 = 1 << 30;

/// Limits of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// Bytes of memory.
    memory: Option<u64>,
    /// Used bytes.
    used: Option<u64>,
    /// Number of processors, may be fractional.
    processors: Option<f64>,
}

impl Limits {
    /// Limits of the control group of this process and its parents, in either version. In a
    /// container, the group is found through its mount point.
    pub(super) fn read(read: Read<'_>) -> Self {
        let mut limits = Self::default();
        let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(group)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            for folder in around(group) {
                if controllers.is_empty() {
                    limits.version_two(read, &Path::new("/sys/fs/cgroup").join(&folder));
                }
                for controller in controllers.split(',').filter(|name| !name.is_empty()) {
                    let root = Path::new("/sys/fs/cgroup").join(controller);
                    limits.version_one(read, controller, &root.join(&folder));
                }
            }
        }
        limits
    }

    fn version_two(&mut self, read: Read<'_>, folder: &Path) {
        let number = |name: &str| read(&folder.join(name)).ok()?.trim().parse::<u64>().ok();
        self.bound_memory(number("memory.max"), || number("memory.current"));
        let cpu = read(&folder.join("cpu.max")).unwrap_or_default();
        let mut words = cpu.split_whitespace().map(|word| word.parse::<f64>().ok());
        if let (Some(Some(quota)), Some(Some(period))) = (words.next(), words.next()) {
            self.bound_processors(quota, period);
        }
    }

    fn version_one(&mut self, read: Read<'_>, controller: &str, folder: &Path) {
        let number = |name: &str| read(&folder.join(name)).ok()?.trim().parse::<i64>().ok();
        let bytes = |name: &str| u64::try_from(number(name)?).ok();
        match controller {
            "memory" => {
                let limit = bytes("memory.limit_in_bytes");
                self.bound_memory(limit, || bytes("memory.usage_in_bytes"));
            }
            "cpu" => {
                let quota = number("cpu.cfs_quota_us");
                if let (Some(quota), Some(period)) = (quota, number("cpu.cfs_period_us")) {
                    self.bound_processors(quota as f64, period as f64);
                }
            }
            _ => {}
        }
    }

    fn bound_memory(&mut self, limit: Option<u64>, used: impl Fn() -> Option<u64>) {
        let Some(limit) = limit.filter(|limit| *limit < NO_LIMIT) else { return };
        if self.memory.is_none_or(|known| limit < known) {
            (self.memory, self.used) = (Some(limit), used());
        }
    }

    /// A negative quota means no limit.
    fn bound_processors(&mut self, quota: f64, period: f64) {
        if quota > 0.0 && period > 0.0 {
            let processors = quota / period;
            self.processors = Some(self.processors.map_or(processors, |p| p.min(processors)));
        }
    }
}

/// A group and its parents, up to the mount point of control groups.
fn around(group: &str) -> Vec<PathBuf> {
    let group = Path::new(group.trim_start_matches('/'));
    // Inside a container the group may be outside the mount.
    let is_inside = group.components().all(|part| matches!(part, Component::Normal(_)));
    match is_inside {
        true => group.ancestors().map(Path::to_owned).collect(),
        false => vec![PathBuf::new()],
    }
}

/// The value of a line `key : value`, the first of this key.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// Bytes of a line of `/proc/meminfo`.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let value = field(text, key)?;
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Vendor and model of the processor, its vector instructions, and those that kernels use.
pub(super) fn processor(read: Read<'_>) -> Finding {
    let text = read(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let (vendor, model) = (field(&text, "vendor_id"), field(&text, "model name"));
    let (found, used) = (instructions_found(), instruction_set());
    let name = match (&vendor, &model) {
        (_, Some(model)) => shown(model),
        (Some(vendor), None) => shown(vendor),
        (None, None) => {
            format!("{} of unknown model", std::env::consts::ARCH)
        }
    };
    let list = if found.is_empty() { "none that are known".into() } else { found.join(" ") };
    let data = json!({
        "vendor": vendor, "model": model, "vector_instructions": found, "kernels": used,
    });
    Finding::ok(
        "processor",
        format!("{name}; vector instructions: {list}; kernels for {used}"),
        data,
    )
}

/// Total and available memory.
pub(super) fn memory(read: Read<'_>, limits: Limits) -> Finding {
    let text = read(Path::new("/proc/meminfo")).unwrap_or_default();
    let (total, free) = (kilobytes(&text, "MemTotal"), kilobytes(&text, "MemAvailable"));
    let below = limits.memory.map(|limit| limit.saturating_sub(limits.used.unwrap_or(0)));
    let available = free.into_iter().chain(below).min();
    let data = json!({
        "total_bytes": total, "available_bytes": available, "cgroup_limit_bytes": limits.memory,
    });
    let shown = |bytes_of: Option<u64>| bytes_of.map_or_else(|| "unknown".into(), bytes);
    let limit = limits.memory.map_or_else(
        || "no limit of a control group".to_owned(),
        |limit| format!("a control group allows {}", bytes(limit)),
    );
    let found = format!("{} in total, {} available, {limit}", shown(total), shown(available));
    match available {
        Some(available) if available < LITTLE_MEMORY => Finding::to_mend(
            Status::Missing,
            "memory",
            found,
            "close other programs, raise the limit, or hold weights in 16 bits with --dtype bf16 and bound \
             batches with eval --max-memory",
            data,
        ),
        _ => Finding::ok("memory", found, data),
    }
}

/// Settings and limits of threads.
pub(super) struct Threads<'a> {
    /// `--threads`; zero if it is not given.
    pub(super) asked: usize,
    /// RAYON_NUM_THREADS.
    pub(super) variable: Option<String>,
    /// Cores that this process may use.
    pub(super) cores: Option<usize>,
    /// Threads that kernels use, or the error that prevents it.
    pub(super) used: Result<usize, &'a Failure>,
}

/// Threads of kernels, and the setting that determines them.
pub(super) fn threads(threads: &Threads<'_>, limits: Limits) -> Finding {
    let Threads { asked, variable, cores, used } = threads;
    let given = variable.as_deref().map_or_else(|| "not set".to_owned(), shown);
    let processors = limits.processors.map(|count| (count * 100.0).round() / 100.0);
    let data = json!({
        "cores": cores, "used": used.as_ref().ok(), "option": asked, "rayon_num_threads": variable,
        "cgroup_processors": processors,
    });
    let used = match used {
        Ok(used) => *used,
        Err(failure) => {
            let advice = failure.advice().unwrap_or("leave --threads out");
            return Finding::to_mend(Status::Broken, "threads", failure.message(), advice, data);
        }
    };
    let all = cores.map_or_else(|| "an unknown number of".to_owned(), |cores| cores.to_string());
    let option = if *asked == 0 { "not given".to_owned() } else { asked.to_string() };
    let quota = processors
        .map_or_else(String::new, |count| format!(", a control group allows {count} processors"));
    let found =
        format!("{used} in use, {all} cores; --threads {option}, RAYON_NUM_THREADS {given}{quota}");
    let allowed = processors.map(|count| (count.ceil() as usize).max(1));
    match cores.iter().copied().chain(allowed).min() {
        Some(most) if used > most => {
            let advice = format!("more threads than cores are slower: give --threads {most}");
            Finding::to_mend(Status::Missing, "threads", found, advice, data)
        }
        _ => Finding::ok("threads", found, data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system with these files.
    fn system(files: &[(&str, &str)]) -> impl Fn(&Path) -> io::Result<String> {
        let files: Vec<(PathBuf, String)> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        move |path| {
            let found = files.iter().find(|(known, _)| known == path);
            found.map(|(_, text)| text.clone()).ok_or_else(|| io::ErrorKind::NotFound.into())
        }
    }

    fn limits(files: &[(&str, &str)]) -> Limits {
        Limits::read(&system(files))
    }

    #[test]
    fn the_narrowest_of_all_groups_around_counts() {
        let two = limits(&[
            ("/proc/self/cgroup", "0::/user/session\n"),
            ("/sys/fs/cgroup/user/session/memory.max", "max\n"),
            ("/sys/fs/cgroup/user/memory.max", "2147483648\n"),
            ("/sys/fs/cgroup/user/memory.current", "1073741824\n"),
            ("/sys/fs/cgroup/memory.max", "4294967296\n"),
            ("/sys/fs/cgroup/user/session/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/user/cpu.max", "max 100000\n"),
        ]);
        let want = Limits { memory: Some(2 << 30), used: Some(1 << 30), processors: Some(1.5) };
        assert_eq!(two, want);
        let one = limits(&[
            ("/proc/self/cgroup", "7:cpu,cpuacct:/job\n5:memory:/job\n1:name=systemd:/x\n"),
            ("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n"),
            ("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(one, Limits { memory: Some(512 << 20), used: None, processors: Some(4.0) });
    }

    #[test]
    fn containers_and_odd_files_do_no_harm() {
        // The group lies outside the container's mount: the root of the mount is the group.
        let outside = limits(&[
            ("/proc/self/cgroup", "0::/../../job\n"),
            ("/sys/fs/cgroup/memory.max", "1048576\n"),
            ("/sys/fs/cgroup/cpu.max", "0 0"),
        ]);
        assert_eq!(outside, Limits { memory: Some(1 << 20), ..Limits::default() });
        for (group, memory, cpu) in [
            ("", "1", "1 1"),
            ("0", "1", "1 1"),
            ("\u{0}:\n::\n0::\u{1b}[2J", "many", "x y"),
            ("0::/", "-5", "100000"),
            ("0::/", "99999999999999999999999", "nan nan"),
        ] {
            let found = limits(&[
                ("/proc/self/cgroup", group),
                ("/sys/fs/cgroup/memory.max", memory),
                ("/sys/fs/cgroup/cpu.max", cpu),
            ]);
            assert_eq!(found, Limits::default(), "{group:?} {memory} {cpu}");
        }
    }

    #[test]
    fn memory_that_a_group_leaves_is_what_is_available() {
        let files = [("/proc/meminfo", "MemTotal:  8388608 kB\nMemAvailable: 4194304 kB\n")];
        let read = system(&files);
        let free = memory(&read, Limits::default());
        assert_eq!((free.status, &free.data["available_bytes"]), (Status::Ok, &json!(4u64 << 30)));
        assert!(free.found.contains("8.6 GB in total, 4.3 GB available, no limit"), "{free:?}");
        let narrow = Limits { memory: Some(1 << 30), used: Some(1 << 29), processors: None };
        let narrow = memory(&read, narrow);
        assert_eq!(narrow.status, Status::Missing);
        assert_eq!(narrow.data["available_bytes"], 1u64 << 29);
        assert!(narrow.advice.unwrap().contains("--max-memory"));
        let unknown = memory(&system(&[("/proc/meminfo", "MemTotal: lots\n")]), Limits::default());
        assert!(unknown.status == Status::Ok && unknown.found.contains("unknown in total"));
    }

    #[test]
    fn the_processor_is_named_as_far_as_the_system_does() {
        let text =
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: A \u{1b}[1m fast one\n";
        let found = processor(&system(&[("/proc/cpuinfo", text)]));
        assert!(found.found.contains("fast one") && !found.found.contains('\u{1b}'), "{found:?}");
        assert_eq!(found.data["vendor"], "GenuineIntel");
        assert_eq!(found.data["kernels"], instruction_set());
        let unknown = processor(&system(&[]));
        assert!(unknown.status == Status::Ok && unknown.found.contains(std::env::consts::ARCH));
    }

    #[test]
    fn threads_beyond_what_may_be_had_are_told() {
        let of = |asked: usize, cores, used| Threads { asked, variable: None, cores, used };
        let group = Limits { processors: Some(1.5), ..Limits::default() };
        for (threads_of, limits, status, word) in [
            (
                of(0, Some(4), Ok(4)),
                Limits::default(),
                Status::Ok,
                "4 in use, 4 cores; --threads not",
            ),
            (of(8, Some(4), Ok(8)), Limits::default(), Status::Missing, "--threads 8"),
            (of(0, Some(4), Ok(4)), group, Status::Missing, "allows 1.5 processors"),
            (of(2, None, Ok(2)), group, Status::Ok, "unknown number"),
        ] {
            let found = threads(&threads_of, limits);
            assert_eq!(found.status, status, "{found:?}");
            assert!(found.found.contains(word), "{found:?}");
        }
        let failure = Failure::usage("RAYON_NUM_THREADS is \"x\"").hint("set it to a number");
        let found = threads(&of(0, Some(4), Err(&failure)), Limits::default());
        assert_eq!(
            (found.status, found.advice.as_deref()),
            (Status::Broken, Some("set it to a number"))
        );
    }
}
