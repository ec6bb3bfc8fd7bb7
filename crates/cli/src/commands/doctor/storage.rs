//! Checks of caches and of the disk for outputs.

use super::finding::{Finding, Status};
use crate::failure::message_of;
use linwright::files::hub::{HubError, HubSettings, datasets_cache};
use linwright::jobs::source::cache_home_of;
use linwright::report::number::bytes;
use linwright::run::shown;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// Reads an environment variable; tests replace it.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Largest number of cache entries that are counted, to keep the check fast.
const COUNTED: usize = 100_000;
/// Less free disk space than this is reported.
const LITTLE_ROOM: u64 = 1 << 30;

/// State of a folder.
#[derive(Debug, PartialEq, Eq)]
enum Folder {
    /// Absent; created when it is needed.
    Absent,
    Unusable(String),
    There {
        files: usize,
        bytes: u64,
        /// Whether all entries were counted.
        whole: bool,
        writable: bool,
    },
}

impl Folder {
    fn inspect(path: &Path) -> Self {
        match fs::read_dir(path) {
            Ok(_) => {
                let (files, bytes, whole) = count(path);
                Self::There { files, bytes, whole, writable: is_writable(path) }
            }
            Err(error) => Self::of_error(&error),
        }
    }

    fn of_error(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            io::ErrorKind::NotADirectory => Self::Unusable("it is not a folder".into()),
            _ => Self::Unusable(format!("it cannot be read: {error}")),
        }
    }

    fn data(&self, path: &Path) -> Value {
        let path = path.display().to_string();
        match self {
            Self::Absent => json!({"path": path, "exists": false}),
            Self::Unusable(reason) => json!({"path": path, "exists": true, "reason": reason}),
            Self::There { files, bytes, whole, writable } => json!({
                "path": path, "exists": true, "files": files, "bytes": bytes, "counted_all": whole,
                "writable": writable,
            }),
        }
    }

    /// The finding for this folder; `kept` names the contents that cannot be cached if it is not
    /// writable.
    fn finding(&self, topic: &'static str, path: &Path, kept: &str, way_out: &str) -> Finding {
        let (name, data) = (shown(&path.display().to_string()), self.data(path));
        match self {
            Self::Absent => Finding::ok(topic, format!("{name}, not there yet"), data),
            Self::Unusable(reason) => {
                let advice = format!("create a readable folder there, or {way_out}");
                Finding::to_mend(Status::Broken, topic, format!("{name}: {reason}"), advice, data)
            }
            Self::There { files, bytes: size, whole, writable } => {
                let more = if *whole { "" } else { "more than " };
                let files =
                    if *files == 1 { "1 file".to_owned() } else { format!("{files} files") };
                let found = format!("{name}, {more}{files} of {}", bytes(*size));
                if *writable {
                    return Finding::ok(topic, format!("{found}, writable"), data);
                }
                let advice =
                    format!("existing content is read, but no {kept} are stored: {way_out}");
                Finding::to_mend(
                    Status::Missing,
                    topic,
                    format!("{found}, not writable"),
                    advice,
                    data,
                )
            }
        }
    }
}

/// Counts files below a folder and their bytes, and returns whether the count is complete. Links
/// are not followed: caches of the hub are full of them.
fn count(path: &Path) -> (usize, u64, bool) {
    let (mut files, mut bytes, mut seen, mut whole) = (0, 0u64, 0, true);
    let mut open = vec![path.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            whole = false;
            continue;
        };
        for entry in entries {
            seen += 1;
            if seen > COUNTED {
                return (files, bytes, false);
            }
            let Ok(entry) = entry else {
                whole = false;
                continue;
            };
            match entry.metadata() {
                Ok(data) if data.is_dir() => open.push(entry.path()),
                Ok(data) if data.is_file() => {
                    files += 1;
                    bytes = bytes.saturating_add(data.len());
                }
                Ok(_) => {}
                Err(_) => whole = false,
            }
        }
    }
    (files, bytes, whole)
}

/// Tests whether files can be created in a folder by creating and removing one: permissions alone
/// do not show read-only file systems.
fn is_writable(path: &Path) -> bool {
    let probe = path.join(format!(".linwright-doctor-{}", std::process::id()));
    let created = OpenOptions::new().write(true).create_new(true).open(&probe);
    created.is_ok() && fs::remove_file(&probe).is_ok()
}

/// The caches of the hub, of the `datasets` library, and of Linwright.
pub(super) fn caches(variable: Variable<'_>) -> Vec<Finding> {
    let mut found = hub(variable);
    found.push(match datasets_cache(variable) {
        Some(path) => {
            // Linwright only reads this cache.
            let mut finding = Folder::inspect(&path).finding(
                "data sets cache",
                &path,
                "data sets",
                "set HF_DATASETS_CACHE to another folder",
            );
            if finding.data["writable"] == false {
                finding = Finding::ok("data sets cache", finding.found, finding.data);
            }
            finding
        }
        None => no_home("data sets cache", &["HF_DATASETS_CACHE", "HF_HOME"]),
    });
    found.push(match cache_home_of(variable).map(|home| home.join("linwright")) {
        Some(path) => Folder::inspect(&path).finding(
            "own cache",
            &path,
            "decomposed weights",
            "set XDG_CACHE_HOME to another folder, or give --cache DIR",
        ),
        None => no_home("own cache", &["XDG_CACHE_HOME"]),
    });
    found
}

fn no_home(topic: &'static str, variables: &[&str]) -> Finding {
    let all = variables.join(", ");
    let found = format!("unknown location: {all} and HOME are not set");
    let advice = format!("set {} to a folder, or HOME", variables[0]);
    Finding::to_mend(Status::Missing, topic, found, advice, Value::Null)
}

/// The hub cache, and the settings of requests to the hub. No token is shown.
fn hub(variable: Variable<'_>) -> Vec<Finding> {
    let settings = match HubSettings::from_environment(variable) {
        Ok(settings) => settings,
        Err(HubError::NoCache) => return vec![no_home("hub cache", &["HF_HUB_CACHE", "HF_HOME"])],
        Err(error) => {
            let advice = "correct the variable or file, or remove it";
            return vec![Finding::to_mend(
                Status::Broken,
                "hub cache",
                message_of(&error),
                advice,
                Value::Null,
            )];
        }
    };
    let HubSettings { cache, endpoint, token, offline, .. } = &settings;
    let way_out = "make it writable, or set HF_HUB_CACHE to another folder";
    let token = if token.is_some() { "a token is set" } else { "no token is set" };
    let data = json!({
        "offline": offline, "endpoint": endpoint, "token_set": settings.token.is_some(),
        "downloads": cfg!(feature = "hub"),
    });
    let said = match (offline, cfg!(feature = "hub")) {
        (true, _) => "offline: HF_HUB_OFFLINE is set, so only the cache is used".to_owned(),
        (false, true) => format!("downloads from {}, {token}", shown(endpoint)),
        (false, false) => format!("only the cache is used, this build has no downloads; {token}"),
    };
    vec![
        Folder::inspect(cache).finding("hub cache", cache, "downloads", way_out),
        Finding::ok("hub", said, data),
    ]
}

/// Checks the disk of an output folder, which has `free` bytes.
pub(super) fn disk(folder: &Path, free: io::Result<u64>) -> Finding {
    let writable = is_writable(folder);
    let data =
        |free: Option<u64>| json!({"path": folder, "free_bytes": free, "writable": writable});
    let place = "in the working directory, the default place of outputs";
    if !writable {
        let found = format!("{place}, is not writable");
        let advice = "change to a folder of your own, or set outputs with -o";
        return Finding::to_mend(Status::Missing, "disk", found, advice, data(free.ok()));
    }
    match free {
        Ok(free) if free < LITTLE_ROOM => {
            let found = format!("{} free {place}", bytes(free));
            Finding::to_mend(
                Status::Missing,
                "disk",
                found,
                "free some space, or set outputs elsewhere with -o",
                data(Some(free)),
            )
        }
        Ok(free) => Finding::ok("disk", format!("{} free {place}", bytes(free)), data(Some(free))),
        Err(_) => Finding::ok("disk", format!("unknown free space {place}"), data(None)),
    }
}

/// Free bytes for this user on the disk of a folder.
#[cfg(unix)]
pub(super) fn free_bytes(folder: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(folder)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
pub(super) fn free_bytes(_: &Path) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(all: &'a [Finding], topic: &str) -> &'a Finding {
        all.iter().find(|finding| finding.topic == topic).unwrap()
    }

    fn found(variables: &[(&str, &Path)]) -> Vec<Finding> {
        caches(&|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| value.as_os_str().to_owned())
        })
    }

    #[test]
    fn without_a_home_nothing_is_broken_and_every_cache_says_what_to_set() {
        let all = found(&[]);
        assert_eq!(all.len(), 3);
        for (finding, word) in all.iter().zip(["HF_HUB_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE"]) {
            assert_eq!(finding.status, Status::Missing, "{finding:?}");
            assert!(finding.advice.as_ref().unwrap().contains(word), "{finding:?}");
        }
    }

    #[test]
    fn caches_are_counted_without_their_links() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let hub = home.join(".cache/huggingface/hub/models--a--b");
        fs::create_dir_all(hub.join("blobs")).unwrap();
        fs::write(hub.join("blobs/x"), vec![0; 3000]).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(hub.join("blobs/x"), hub.join("link")).unwrap();
        let all = found(&[("HOME", home)]);
        let hub = of(&all, "hub cache");
        assert_eq!(
            (hub.status, &hub.data["files"], &hub.data["bytes"]),
            (Status::Ok, &json!(1), &json!(3000))
        );
        assert!(hub.found.ends_with("1 file of 3.0 kB, writable"), "{hub:?}");
        assert_eq!(of(&all, "own cache").data["exists"], false);
        assert_eq!(of(&all, "data sets cache").status, Status::Ok);
        let names: Vec<_> = fs::read_dir(home.join(".cache/huggingface/hub")).unwrap().collect();
        assert_eq!(names.len(), 1, "the test file was removed: {names:?}");
    }

    #[test]
    fn tokens_are_never_shown_and_offline_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let secret = Path::new("hf_secret");
        let all = found(&[("HOME", dir.path()), ("HF_TOKEN", secret)]);
        assert_eq!(of(&all, "hub").data["token_set"], true);
        let all_offline = found(&[("HOME", dir.path()), ("HF_HUB_OFFLINE", Path::new("1"))]);
        assert!(of(&all_offline, "hub").found.starts_with("offline"), "{all_offline:?}");
        let bad = found(&[("HOME", dir.path()), ("HF_TOKEN", Path::new("hf_secret\n2"))]);
        assert_eq!(of(&bad, "hub cache").status, Status::Broken);
        let odd = found(&[("HOME", dir.path()), ("HF_ENDPOINT", Path::new("ftp://x"))]);
        assert!(of(&odd, "hub cache").found.contains("HF_ENDPOINT"), "{odd:?}");
        assert!(![all, all_offline, bad].iter().any(|all| format!("{all:?}").contains("secret")));
    }

    #[test]
    fn what_is_no_folder_or_cannot_be_read_is_broken() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let all =
            found(&[("HF_HUB_CACHE", &file), ("HF_DATASETS_CACHE", &file), ("HOME", dir.path())]);
        for topic in ["hub cache", "data sets cache"] {
            assert_eq!(of(&all, topic).status, Status::Broken, "{all:?}");
            assert!(of(&all, topic).found.contains("not a folder"), "{all:?}");
        }
        let refused = Folder::of_error(&io::ErrorKind::PermissionDenied.into());
        let refused = refused.finding("own cache", &file, "spectra", "give --cache DIR");
        assert_eq!(refused.status, Status::Broken);
        assert!(refused.advice.unwrap().contains("give --cache DIR"));
        let closed = Folder::There { files: 2, bytes: 0, whole: false, writable: false };
        let closed = closed.finding("own cache", &file, "spectra", "give --cache DIR");
        assert_eq!(closed.status, Status::Missing);
        assert!(closed.found.contains("more than 2 files"), "{closed:?}");
    }

    #[test]
    fn a_full_disk_is_told_before_it_matters() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(disk(dir.path(), Ok(1 << 40)).status, Status::Ok);
        assert_eq!(disk(dir.path(), Ok(1 << 20)).status, Status::Missing);
        assert_eq!(disk(dir.path(), Err(io::ErrorKind::Unsupported.into())).status, Status::Ok);
        assert_eq!(disk(&dir.path().join("nowhere"), Ok(1 << 40)).status, Status::Missing);
        #[cfg(unix)]
        assert!(free_bytes(dir.path()).unwrap() > 0);
    }
}
