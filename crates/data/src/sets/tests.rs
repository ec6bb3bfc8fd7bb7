//! Sets in the caches of `datasets` and of the hub.

use super::*;
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// A cache that `datasets` filled, see `tools/golden/columns.py`.
const PREPARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/columns/cache");

fn find(variables: &[(&str, &str)], query: &SetQuery<'_>) -> Result<Option<SetFiles>, SetError> {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let variable = |name: &str| variables.get(name).map(OsString::from);
    let hooks = Hooks { step: &mut |_| {}, progress: &mut |_, _| {}, cancelled: &|| false };
    Sets::new(&variable, hooks).find(query)
}

fn query<'a>(set: &'a str, config: Option<&'a str>, split: &'a str) -> SetQuery<'a> {
    SetQuery { set, config, split, revision: None }
}

fn prepared(query: &SetQuery<'_>) -> Result<Option<SetFiles>, SetError> {
    find(
        &[("HF_DATASETS_CACHE", PREPARED), ("HF_HOME", "/nowhere"), ("HF_DATASETS_OFFLINE", "1")],
        query,
    )
}

fn names(found: &SetFiles) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    found.files.iter().map(name).collect()
}

#[test]
fn what_the_library_prepared_is_found() {
    let set = "owner/BoatQuestions";
    let test = prepared(&query(set, Some("Easy"), "test")).unwrap().unwrap();
    assert_eq!(names(&test), ["boat_questions-test.arrow"]);
    assert_eq!((test.origin.as_str(), test.rows), (&*format!("{set}@{COMMIT}"), Some(4)));
    assert!(test.files[0].is_file());
    // Folders prepared from a user's files are ignored, so `Easy` is the only one.
    let train = prepared(&query(set, None, "train")).unwrap().unwrap();
    let shards = [0, 1].map(|i| format!("boat_questions-train-0000{i}-of-00002.arrow"));
    assert_eq!((names(&train).as_slice(), train.rows), (&shards[..], Some(5)));
    let at = SetQuery { revision: Some(COMMIT), ..query(set, Some("Easy"), "test") };
    assert_eq!(prepared(&at).unwrap().unwrap(), test);
    let error = prepared(&query(set, Some("Easy"), "validation")).unwrap_err().to_string();
    assert!(error.contains("Easy has no split validation; there are test, train"), "{error}");
    // Whether that is the branch of today is unknown to this cache.
    let branch = SetQuery { revision: Some("v2"), ..query(set, Some("Easy"), "test") };
    for query in [branch, query(set, Some("Hard"), "test"), query("owner/other", None, "test")] {
        let error = prepared(&query).unwrap_err();
        assert!(matches!(error, SetError::Hub(HubError::Offline { .. })), "{error}");
    }
    assert_eq!(prepared(&query("rows.jsonl", None, "test")).unwrap(), None);
}

#[test]
fn a_damaged_cache_is_said() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(format!("datasets/owner___rows/default/0.0.0/{COMMIT}"));
    fs::create_dir_all(&folder).unwrap();
    let root = home.path().to_str().unwrap();
    let variables = [("HF_HOME", root), ("HF_HUB_OFFLINE", "1")];
    let ask = || find(&variables, &query("owner/rows", None, "test")).unwrap_err().to_string();
    // A folder without its description is incomplete.
    assert!(ask().contains("is not in the cache"), "{}", ask());
    for (info, want) in [
        ("{", "dataset_info.json, line 1: not valid JSON"),
        ("{}", "default has no split test"),
        ("{\"splits\": {\"test\": {\"num_examples\": -1}}}", "not valid JSON"),
    ] {
        fs::write(folder.join("dataset_info.json"), info).unwrap();
        assert!(ask().contains(want), "{} lacks {want:?}", ask());
    }
}

/// A cache of the hub with one set.
fn snapshot(files: &[(&str, &str)]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("hub/datasets--owner--rows");
    fs::create_dir_all(root.join("refs")).unwrap();
    fs::write(root.join("refs/main"), COMMIT).unwrap();
    for (name, content) in files {
        let path = root.join("snapshots").join(COMMIT).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    home
}

fn cached(home: &TempDir, query: &SetQuery<'_>) -> Result<SetFiles, String> {
    let root = home.path().to_str().unwrap();
    let found = find(&[("HF_HOME", root), ("HF_HUB_OFFLINE", "1")], query);
    found.map(Option::unwrap).map_err(|error| error.to_string())
}

#[test]
fn files_of_the_hub_are_found_in_its_cache() {
    let card = "---\nconfigs:\n- config_name: Easy\n  data_files:\n  - split: test\n    path: \
                a/part-*\n---\n";
    let home = snapshot(&[("README.md", card), ("a/part-1.jsonl", "{}"), ("a/part-0.jsonl", "{}")]);
    let found = cached(&home, &query("owner/rows", Some("Easy"), "test")).unwrap();
    assert_eq!(names(&found), ["part-0.jsonl", "part-1.jsonl"]);
    assert_eq!(found.origin, format!("owner/rows@{COMMIT}"));
    let error = cached(&home, &query("owner/rows", Some("Easy"), "train")).unwrap_err();
    assert!(error.contains("Easy has no split train; there are test"), "{error}");
    assert!(error.contains("only its cached files"), "{error}");
}

#[test]
fn a_set_that_is_a_program_is_taken_as_the_hub_converted_it() {
    let home = snapshot(&[("rows.py", "import os")]);
    let error = cached(&home, &query("owner/rows", None, "test")).unwrap_err();
    assert!(error.contains("owner/rows@refs/convert/parquet"), "{error}");
    let root = home.path().join("hub/datasets--owner--rows");
    let other = "f".repeat(40);
    fs::create_dir_all(root.join("refs/refs/convert")).unwrap();
    fs::write(root.join("refs/refs/convert/parquet"), &other).unwrap();
    let folder = root.join("snapshots").join(&other).join("plain/test");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("0000.parquet"), "").unwrap();
    let found = cached(&home, &query("owner/rows", None, "test")).unwrap();
    assert_eq!(
        (names(&found), found.origin),
        (vec!["0000.parquet".into()], format!("owner/rows@{other}"))
    );
    let at = SetQuery { revision: Some(COMMIT), ..query("owner/rows", None, "test") };
    assert!(cached(&home, &at).unwrap_err().contains("no data files at this revision"));
}
