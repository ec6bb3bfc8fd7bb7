//! Downloads, against a server on this machine that answers as the hub does.

mod damage;
mod datasets;
mod downloads;
mod refusals;
mod server;
#[path = "../small.rs"]
mod small;

use linwright_files::Weights;
use linwright_files::hub::{Found, Hooks, HubError, HubId, HubSettings, Token, find};
use server::{Hub, MODEL};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A secret that must appear nowhere but at the hub.
const TOKEN: &str = "hf_secret";

/// A hub with one model, and an empty cache.
struct Scene {
    hub: Hub,
    cache: TempDir,
    settings: HubSettings,
}

impl Scene {
    fn new() -> Self {
        Self::with(small::files(false))
    }

    fn with(files: BTreeMap<String, Vec<u8>>) -> Self {
        let hub = Hub::new(files);
        let cache = tempfile::tempdir().unwrap();
        let mut settings = HubSettings::new(cache.path().join("hub"));
        settings.endpoint.clone_from(&hub.endpoint);
        settings.retries = 2;
        settings.pause = Duration::from_millis(1);
        Self { hub, cache, settings }
    }

    fn with_token(mut self) -> Self {
        self.settings.token = Token::parse(TOKEN, "a test").unwrap();
        self
    }

    fn find(&self, model: &str) -> Result<Found, HubError> {
        let mut hooks = Hooks { step: &mut |_| {}, progress: &mut |_, _| {}, cancelled: &|| false };
        find(&HubId::parse(model).unwrap().unwrap(), &self.settings, &mut hooks)
    }

    /// The message of a failure, which holds no secret and left no file in a snapshot.
    fn refused(&self, model: &str) -> String {
        let error = self.find(model).unwrap_err().to_string();
        assert!(!error.contains(TOKEN), "{error}");
        error
    }

    /// Contents of the cache that are not whole, or none.
    fn unfinished(&self) -> Vec<PathBuf> {
        let incomplete = |path: &PathBuf| path.extension().is_some_and(|end| end == "incomplete");
        all_files(self.cache.path()).into_iter().filter(incomplete).collect()
    }

    /// Names of the files of all snapshots.
    fn snapshot_files(&self) -> Vec<String> {
        let root = self.settings.cache.join("models--owner--small/snapshots");
        let names = all_files(&root).into_iter().map(|path| {
            path.strip_prefix(&root).unwrap().components().skip(1).collect::<PathBuf>()
        });
        let mut names: Vec<String> = names.map(|path| path.display().to_string()).collect();
        names.sort();
        names
    }

    /// What was asked of the hub and of the server of contents, without the list of files.
    fn transfers(&self) -> Vec<String> {
        let asked = self.hub.asked();
        let lines = asked.into_iter().map(|request| request.line);
        lines.filter(|line| !line.starts_with("GET /api/")).collect()
    }
}

/// Files below a folder; none if there is no such folder.
fn all_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(all_files(&path)) } else { files.push(path) }
    }
    files
}

/// Checks that a snapshot has the files of the hub's model, byte for byte, and opens as weights.
fn check_whole(dir: &Path, sharded: bool) {
    for (name, bytes) in small::files(sharded) {
        assert!(fs::read(dir.join(&name)).unwrap() == bytes, "{name} differs");
    }
    Weights::open(dir).unwrap();
}
