//! Files of data sets.

use crate::server::{Answer, COMMIT, DATASET, sha256};
use crate::{Scene, TOKEN};
use linwright_files::hub::{Dataset, Hooks, HubError, HubId};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const ROWS: &[u8] = b"many rows of a test";

fn scene() -> Scene {
    let files = [
        ("README.md", b"# Rows".to_vec()),
        ("data/test.parquet", ROWS.to_vec()),
        ("data/train.jsonl", b"{}".to_vec()),
    ];
    let files: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    Scene::with(files)
}

fn bring(scene: &Scene, names: &[&str]) -> Result<(String, Vec<PathBuf>, Vec<String>), HubError> {
    let mut hooks = Hooks { step: &mut |_| {}, progress: &mut |_, _| {}, cancelled: &|| false };
    let id = HubId::parse_dataset(DATASET, None).unwrap().unwrap();
    let set = Dataset::open(&id, &scene.settings, &mut hooks)?;
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let paths = set.fetch(&names, &mut hooks)?;
    Ok((set.id().to_string(), paths, set.notes().to_vec()))
}

#[test]
fn only_what_is_wanted_is_downloaded_and_once() {
    let scene = scene().with_token();
    let (id, paths, notes) = bring(&scene, &["data/test.parquet"]).unwrap();
    assert_eq!((id, notes), (format!("{DATASET}@{COMMIT}"), Vec::new()));
    assert_eq!(fs::read(&paths[0]).unwrap(), ROWS);
    let root = scene.settings.cache.join("datasets--owner--rows");
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    assert!(root.join("blobs").join(sha256(ROWS)).is_file());
    assert_eq!(paths[0], root.join("snapshots").join(COMMIT).join("data/test.parquet"));
    assert!(!paths[0].with_file_name("train.jsonl").exists());
    // The token went to the hub and to no host that it redirects to.
    for request in scene.hub.asked() {
        let token = (!request.contents).then(|| format!("Bearer {TOKEN}"));
        assert_eq!(request.token, token, "{}", request.line);
    }
    bring(&scene, &["data/test.parquet"]).unwrap();
    assert_eq!(scene.transfers(), [] as [String; 0]);
}

#[test]
fn offline_and_without_an_answer_the_cache_does() {
    let mut scene = scene();
    bring(&scene, &["data/test.parquet"]).unwrap();
    scene.hub.mood(|_, _| Answer::new(500, "no"));
    let (id, _, notes) = bring(&scene, &["data/test.parquet"]).unwrap();
    assert_eq!(id, format!("{DATASET}@{COMMIT}"));
    assert!(notes[0].contains("from the cache"), "{notes:?}");
    scene.settings.offline = true;
    scene.hub.asked();
    bring(&scene, &["data/test.parquet"]).unwrap();
    assert!(scene.hub.asked().is_empty());
    let error = bring(&scene, &["data/train.jsonl"]).unwrap_err().to_string();
    assert!(error.contains("lacks data/train.jsonl"), "{error}");
}

#[test]
fn damage_and_absence_are_errors() {
    let scene = scene();
    scene.hub.mood(|request, mut answer| {
        if request.contents {
            answer.body[0] ^= 1;
        }
        answer
    });
    let error = bring(&scene, &["data/test.parquet"]).unwrap_err();
    assert!(matches!(error, HubError::Damaged { .. }), "{error}");
    assert!(scene.unfinished().is_empty());
    scene.hub.mood(|_, answer| answer.with("X-Linked-Size", 1_u64 << 40));
    let error = bring(&scene, &["data/test.parquet"]).unwrap_err();
    assert!(matches!(error, HubError::TooLarge { .. }), "{error}");
    scene.hub.mood(|_, _| Answer::refusal(404, "RepoNotFound"));
    let error = bring(&scene, &[]).unwrap_err().to_string();
    assert!(error.contains("has no such data set"), "{error}");
    scene.hub.mood(|_, _| Answer::refusal(403, "GatedRepo"));
    let error = bring(&scene, &[]).unwrap_err().to_string();
    assert!(
        error.contains("the data set is gated") && error.contains("/datasets/owner/rows"),
        "{error}"
    );
    scene.hub.good_mood();
    scene.hub.put("../x", "");
    let error = bring(&scene, &[]).unwrap_err();
    assert!(matches!(error, HubError::FileName { .. }), "{error}");
}
