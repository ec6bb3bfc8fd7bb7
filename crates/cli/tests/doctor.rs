//! `doctor`: what it finds in odd environments, and how it ends.

use crate::workshop::{Outcome, Workshop};
use serde_json::Value;
use std::fs;

/// Everything that it looks at.
const TOPICS: [&str; 14] = [
    "version",
    "feature pocket",
    "feature gguf",
    "feature hdf5",
    "feature hub",
    "feature parquet",
    "processor",
    "threads",
    "memory",
    "hub cache",
    "hub",
    "data sets cache",
    "own cache",
    "disk",
];

/// Runs it with these variables and no others.
fn doctor(w: &Workshop, args: &str, variables: &[(&str, &str)]) -> Outcome {
    let mut command = w.command(&format!("doctor {args}"));
    command.env_clear();
    for (name, value) in variables {
        command.env(name, value.replace("HERE", w.path("").to_str().unwrap()));
    }
    Outcome::of(command)
}

fn finding<'a>(found: &'a Value, topic: &str) -> &'a Value {
    let mut all = found["findings"].as_array().unwrap().iter();
    all.find(|finding| finding["topic"] == topic).unwrap_or_else(|| panic!("{topic} in {found}"))
}

#[test]
fn everything_is_looked_at_and_nothing_that_is_missing_is_a_failure() {
    let w = Workshop::new();
    let before = w.names();
    let outcome = doctor(&w, "--json", &[("HOME", "HERE/home"), ("HF_HUB_OFFLINE", "1")]);
    let found: Value = serde_json::from_str(&outcome.succeeded("doctor")).unwrap();
    for topic in TOPICS.into_iter().chain(["products"]) {
        let status = &finding(&found, topic)["status"];
        assert!(status == "ok" || status == "missing", "{topic}: {status}");
    }
    assert_eq!(found["broken"], 0);
    assert!(found["version"].as_str().unwrap().starts_with("linwright 0."));
    assert!(finding(&found, "products")["data"]["gflops"].as_f64().unwrap() > 0.0);
    assert_eq!(finding(&found, "hub")["data"]["offline"], true);
    let kernels = finding(&found, "processor")["data"]["kernels"].as_str().unwrap();
    let shown = doctor(&w, "", &[("HOME", "HERE/home")]).succeeded("doctor");
    for said in TOPICS.into_iter().chain([kernels, "GFLOP/s", "plain loops", "not there yet"]) {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    assert_eq!(w.names(), before, "nothing is left");
}

#[test]
fn without_a_home_every_cache_says_what_to_set() {
    let w = Workshop::new();
    let shown = doctor(&w, "", &[]).succeeded("doctor");
    for said in ["HF_HUB_CACHE, HF_HOME and HOME are not set", "set XDG_CACHE_HOME to a folder"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
}

#[test]
fn what_is_broken_is_told_whole_and_then_fails() {
    let w = Workshop::new();
    w.write("file", "");
    fs::create_dir_all(w.path("odd/.cache")).unwrap();
    w.write("odd/.cache/linwright", "");
    let variables = [
        ("HF_HUB_CACHE", "HERE/file"),
        ("HF_DATASETS_CACHE", "HERE/file"),
        ("HOME", "HERE/odd"),
        ("RAYON_NUM_THREADS", "many"),
    ];
    let outcome = doctor(&w, "--json", &variables);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let found: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(found["broken"], 4);
    for (topic, word) in [
        ("hub cache", "it is not a folder"),
        ("data sets cache", "it is not a folder"),
        ("own cache", "it is not a folder"),
        ("threads", "expected a number from 0 to 1024"),
    ] {
        let broken = finding(&found, topic);
        assert_eq!(broken["status"], "broken", "{broken}");
        assert!(broken["found"].as_str().unwrap().contains(word), "{broken}");
        assert!(!broken["advice"].as_str().unwrap().is_empty(), "{broken}");
    }
    // The rest was looked at all the same.
    assert_eq!(finding(&found, "products")["status"], "ok");
    let error: Value = serde_json::from_str(outcome.stderr.trim()).unwrap();
    let message = "broken: threads, hub cache, data sets cache, own cache";
    assert_eq!(error["error"]["message"], message);
}

#[test]
fn no_token_is_ever_shown() {
    let w = Workshop::new();
    for (token, args) in [("hf_verysecret", "-vv"), ("hf_verysecret\u{7}", "--json")] {
        let outcome = doctor(&w, args, &[("HOME", "HERE/home"), ("HF_TOKEN", token)]);
        let said = outcome.stdout + &outcome.stderr;
        assert!(said.contains("oken") && !said.contains("verysecret"), "{said}");
    }
}
