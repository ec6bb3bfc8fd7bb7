//! The built-in model, which the program carries: from any folder, with any home.

use crate::workshop::{Outcome, Workshop, names};
use linwright::model::checkpoint::load;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Says which model, in a moment.
const ASK: &str = "generate pocket --prompt Mila --max-new-tokens 2 --json";

/// Where the repository keeps the model.
fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket")
}

/// Runs a command in the folder `empty`, with this home, no cache named, and `scratch` for
/// temporary files.
fn run_with_home(w: &Workshop, home: &str, args: &str) -> Outcome {
    for folder in ["empty", "scratch"] {
        fs::create_dir_all(w.path(folder)).unwrap();
    }
    let mut command = w.command(args);
    command.current_dir(w.path("empty")).env_remove("XDG_CACHE_HOME").env_remove("HF_HOME");
    command.env("HOME", w.path(home)).env("TMPDIR", w.path("scratch"));
    Outcome::of(command)
}

fn hash_of(stdout: &str) -> String {
    let value: Value = serde_json::from_str(stdout).unwrap();
    value["model_hash"].as_str().unwrap().to_owned()
}

#[test]
fn it_is_unpacked_into_the_cache_of_an_empty_home() {
    let w = Workshop::new();
    let hash = load(&assets()).unwrap().hash;
    for time in ["first", "second"] {
        let outcome = run_with_home(&w, "house", ASK);
        assert!(!outcome.stderr.contains("unpacked"), "{outcome:?}");
        assert_eq!(hash_of(&outcome.succeeded(time)), hash);
    }
    let kept = w.path("house/.cache/linwright/pocket");
    let versions = names(&kept);
    assert_eq!(versions.len(), 1, "{versions:?}");
    let unpacked = kept.join(&versions[0]);
    assert_eq!(names(&unpacked), names(&assets()));
    for name in names(&assets()) {
        let same =
            fs::read(unpacked.join(&name)).unwrap() == fs::read(assets().join(&name)).unwrap();
        assert!(same, "{name}");
    }
    assert!(names(&w.path("scratch")).is_empty() && names(&w.path("empty")).is_empty());
    // Whatever happened to it there: results are those of the built-in model.
    fs::write(unpacked.join("config.json"), "{}").unwrap();
    assert_eq!(hash_of(&run_with_home(&w, "house", ASK).succeeded("changed")), hash);
}

#[test]
fn a_home_that_cannot_be_written_is_told_and_enough() {
    let w = Workshop::new();
    let hash = load(&assets()).unwrap().hash;
    w.write("file", "");
    // Beneath a file nobody can write, not even the superuser.
    let outcome = run_with_home(&w, "file", ASK);
    for word in ["note: ", "for this run alone", "file/.cache", "XDG_CACHE_HOME"] {
        assert!(outcome.stderr.contains(word), "{word} in {outcome:?}");
    }
    assert_eq!(hash_of(&outcome.succeeded(ASK)), hash);
    assert!(names(&w.path("scratch")).is_empty(), "nothing stays");
    let quiet = run_with_home(&w, "file", &format!("{ASK} --quiet"));
    assert_eq!(quiet.stderr, "");
    // Its texts and questions come the same way.
    let texts = "eval ../model --text pocket --limit 1 --window 64 --quiet";
    run_with_home(&w, "file", texts).succeeded(texts);
    fs::remove_dir(w.path("scratch")).unwrap();
    let mut command = w.command("inspect pocket");
    command.env("XDG_CACHE_HOME", w.path("file/cache")).env("TMPDIR", w.path("file"));
    let words = ["file/cache", "file/linwright-pocket", "XDG_CACHE_HOME or TMPDIR"];
    Outcome::of(command).failed("no folder at all", 1, &words);
}
