//! Models that are in the cache of the hub, found without any network.

use crate::small;
use linwright_files::Weights;
use linwright_files::hub::{Found, Hooks, HubError, HubId, HubSettings, find};
use std::fs;
use std::path::Path;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn look(cache: &Path, model: &str, offline: bool) -> Result<Found, HubError> {
    let mut settings = HubSettings::new(cache.into());
    settings.offline = offline;
    // Nobody listens there.
    settings.endpoint = "http://127.0.0.1:1".into();
    settings.retries = 0;
    let mut hooks = Hooks { step: &mut |_| {}, progress: &mut |_, _| {}, cancelled: &|| false };
    find(&HubId::parse(model).unwrap().unwrap(), &settings, &mut hooks)
}

/// A cache as other programs leave it, with one model at `main`.
fn cache() -> tempfile::TempDir {
    let cache = tempfile::tempdir().unwrap();
    let root = cache.path().join("models--owner--small");
    fs::create_dir_all(root.join("refs")).unwrap();
    fs::create_dir_all(root.join("snapshots")).unwrap();
    fs::write(root.join("refs/main"), COMMIT).unwrap();
    let snapshot = root.join("snapshots").join(COMMIT);
    fs::create_dir(&snapshot).unwrap();
    for (name, bytes) in small::files(false) {
        fs::write(snapshot.join(name), bytes).unwrap();
    }
    cache
}

#[test]
fn a_cached_model_is_found_by_branch_and_by_commit() {
    let cache = cache();
    for model in ["owner/small", &format!("owner/small@{COMMIT}")] {
        for offline in [true, false] {
            let found = look(cache.path(), model, offline).unwrap();
            assert_eq!(found.id.to_string(), format!("owner/small@{COMMIT}"));
            Weights::open(&found.dir).unwrap();
        }
    }
}

#[test]
fn what_the_cache_lacks_is_said() {
    let cache = cache();
    let root = cache.path().join("models--owner--small");
    let message = |model: &str| look(cache.path(), model, true).unwrap_err().to_string();
    for model in ["owner/other", "owner/small@v2", &format!("owner/small@{}", "a".repeat(40))] {
        let message = message(model);
        assert!(message.contains(model) && message.contains("is not in the cache"), "{message}");
    }
    for content in ["../../..", "", "\u{fffd}", &"f".repeat(200)] {
        fs::write(root.join("refs/bad"), content).unwrap();
        assert!(message("owner/small@bad").contains("has a damaged ref"));
    }
    fs::write(root.join("refs/bad"), [0xff; 40]).unwrap();
    assert!(message("owner/small@bad").contains("has a damaged ref"));
    let snapshot = root.join("snapshots").join(COMMIT);
    fs::remove_file(snapshot.join("model.safetensors")).unwrap();
    assert!(message("owner/small").contains("lacks its weights"));
    let index = r#"{"weight_map": {"a": "one.safetensors"}}"#;
    fs::write(snapshot.join("model.safetensors.index.json"), index).unwrap();
    assert!(message("owner/small").contains("lacks one.safetensors"));
}

#[cfg(any(not(feature = "hub"), clippy))]
#[test]
fn a_build_without_downloads_says_how_to_get_them() {
    let cache = tempfile::tempdir().unwrap();
    let error = look(cache.path(), "owner/small", false).unwrap_err().to_string();
    for words in ["as a model of the hub", "--features hub", "give a directory"] {
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
}
