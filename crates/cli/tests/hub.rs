//! Models by their names on the hub: what is in its cache, and what is said where it is not.

use crate::workshop::{Outcome, Workshop};
use serde_json::Value;
use std::fs;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A command for which the cache of the hub is a folder of the workshop, offline.
fn run(w: &Workshop, args: &str) -> Outcome {
    let mut command = w.command(args);
    for name in ["HF_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", w.path("home")).env("HF_HUB_OFFLINE", "1");
    Outcome::of(command)
}

/// A workshop whose model is in the cache as `owner/small`, and only there.
fn workshop() -> Workshop {
    let w = Workshop::new();
    let root = w.path("home/hub/models--owner--small");
    fs::create_dir_all(root.join("refs")).unwrap();
    fs::create_dir_all(root.join("snapshots")).unwrap();
    fs::write(root.join("refs/main"), COMMIT).unwrap();
    fs::rename(w.path("model"), root.join("snapshots").join(COMMIT)).unwrap();
    w
}

#[test]
fn results_name_the_commit_of_a_cached_model() {
    let w = workshop();
    for args in ["inspect owner/small", "inspect owner/small --slots"] {
        let stdout = run(&w, &format!("{args} --json")).succeeded(args);
        let json: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(json["model"], format!("owner/small@{COMMIT}"), "{args}");
    }
    let run_output = run(&w, "inspect owner/small");
    let note = format!("note: owner/small is owner/small@{COMMIT}");
    assert!(run_output.stderr.contains(&note), "{}", run_output.stderr);
}

#[cfg(unix)]
#[test]
fn weights_behind_links_are_counted() {
    let w = workshop();
    let root = w.path("home/hub/models--owner--small");
    let weights = root.join("snapshots").join(COMMIT).join("model.safetensors");
    fs::create_dir(root.join("blobs")).unwrap();
    fs::rename(&weights, root.join("blobs/some-etag")).unwrap();
    std::os::unix::fs::symlink("../../blobs/some-etag", &weights).unwrap();
    let args = "compress owner/small --keep 0.5 --layers 0 --roles query \
                --calibration calibration.jsonl:num_tokens=512,seq_len=64 -o out --json";
    let json: Value = serde_json::from_str(&run(&w, args).succeeded(args)).unwrap();
    let bytes = fs::metadata(&weights).unwrap().len();
    assert_eq!(json["summary"]["weight_bytes_before"], bytes);
    assert_eq!(json["model"], format!("owner/small@{COMMIT}"));
    let card = w.text("out/README.md");
    assert!(card.contains("base_model: \"owner/small\"\n"), "{card}");
    assert!(card.contains("# owner/small, edited by Linwright"), "{card}");
}

#[test]
fn a_path_wins_over_a_name() {
    let w = workshop();
    fs::create_dir_all(w.path("owner/small")).unwrap();
    run(&w, "inspect owner/small").failed("a folder", 1, &["owner/small holds no weights"]);
}

#[test]
fn what_cannot_be_found_says_what_to_do() {
    let w = workshop();
    for (args, code, words) in [
        ("inspect owner/other", 1, ["owner/other is not a local path", "HF_HUB_OFFLINE"]),
        ("inspect owner/small@v2", 1, ["owner/small@v2", "is not in the cache"]),
        (
            "inspect owner/small@../x",
            2,
            ["\"../x\" is not a valid revision", "a branch, a tag or a commit"],
        ),
        ("inspect ./owner/small", 1, ["cannot read ./owner/small", "No such file"]),
    ] {
        run(&w, args).failed(args, code, &words);
    }
}
