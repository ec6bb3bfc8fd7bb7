//! `cache list` and `cache rm`: what is kept between commands, and what may go.

use crate::workshop::{Outcome, Workshop, pieces};
use linwright::run::{Fingerprint, Store};
use serde_json::Value;
use std::fs;

/// Kinds and numbers of pieces listed by `cache list`.
fn kinds(list: &Value) -> Vec<(String, u64)> {
    let kinds = list["kinds"].as_array().unwrap().iter();
    kinds.map(|k| (k["kind"].as_str().unwrap().to_owned(), k["pieces"].as_u64().unwrap())).collect()
}

fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(kind, pieces)| ((*kind).to_owned(), *pieces)).collect()
}

#[test]
fn finished_pieces_are_listed_by_kind_and_removed() {
    let w = Workshop::new();
    assert_eq!(kinds(&w.ok_json("cache list")), []);
    assert_eq!(w.ok("cache rm --all").trim(), "nothing to remove");
    w.ok("inspect model --spectra --layers 0");
    w.ok("laser model --lname fc_out --lnum 0 --rank 1");
    let all = [("components", 1), ("spectrum", 7), ("vendi", 7)];
    let list = w.ok_json("cache list");
    assert_eq!(kinds(&list), pairs(&all));
    assert_eq!(list["store"], w.store().to_str().unwrap());
    assert_eq!(list["bound_bytes"], 20_000_000_000_u64);
    let bytes: u64 =
        list["kinds"].as_array().unwrap().iter().map(|k| k["bytes"].as_u64().unwrap()).sum();
    assert_eq!(list["bytes"], bytes);
    let text = w.ok("cache list");
    for word in ["at most 20.0 GB", "components", "spectrum", "oldest use", "s ago"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let same = w.ok_json(&format!("cache list --cache {}", w.store().display()));
    assert_eq!(kinds(&same), pairs(&all));
    assert!(w.ok("cache rm --kind vendi --dry-run").starts_with("would remove 7 vendi"));
    assert_eq!(kinds(&w.ok_json("cache list")), pairs(&all));
    let removed = w.ok_json("cache rm --kind vendi --kind components");
    assert_eq!(removed["removed"].as_array().unwrap().len(), 2);
    assert_eq!(kinds(&w.ok_json("cache list")), pairs(&all[1..2]));
    w.fails("cache rm --kind vendi", 2, &["--kind vendi", "no such pieces", "spectrum"]);
    w.fails("cache rm", 2, &["--all", "--kind", "--unfinished"]);
    assert!(w.ok("cache rm --all").starts_with("removed 7 spectrum"));
    assert_eq!(kinds(&w.ok_json("cache list")), []);
    let mut command = w.command("cache list");
    command.env_remove("LINWRIGHT_STORE").env_remove("XDG_CACHE_HOME").env_remove("HOME");
    Outcome::of(command).failed("no home", 2, &["LINWRIGHT_STORE", "--cache DIR"]);
    let before = w.names();
    w.ok("cache list --cache nowhere");
    assert_eq!(w.names(), before, "looking creates nothing");
}

#[test]
fn damage_is_told_and_listed_and_removed() {
    let w = Workshop::new();
    let line = "inspect model --spectra --layers 0 --json";
    let inspect = |w: &Workshop| -> Value { serde_json::from_str(&w.ok(line)).unwrap() };
    let plain = inspect(&w);
    let damaged = pieces(w.store(), "spectrum").remove(0);
    fs::write(&damaged, "no piece").unwrap();
    let again = inspect(&w);
    assert_eq!(again["tensors"], plain["tensors"]);
    let note = again["notes"][0].as_str().unwrap();
    assert!(note.contains("moved aside") && note.contains("computed again"), "{note}");
    assert_eq!(inspect(&w)["notes"], plain["notes"]);
    let list = w.ok_json("cache list");
    let all = [("spectrum", 7), ("spectrum (damaged)", 1), ("vendi", 7)];
    assert_eq!(kinds(&list), pairs(&all));
    w.ok("cache rm --damaged");
    assert_eq!(kinds(&w.ok_json("cache list")), pairs(&[all[0], all[2]]));
    assert_eq!(inspect(&w), plain);
}

#[test]
fn unfinished_work_is_listed_and_only_removed_where_nobody_is_at_work() {
    let w = Workshop::new();
    let store = Store::open(w.store()).unwrap();
    let print = Fingerprint::of(&[("work", &"here")]);
    let work = store.unfinished(&print, "training of a\u{1b}[31m model").unwrap();
    fs::write(work.file("checkpoint").unwrap(), [0; 100]).unwrap();
    let us = std::process::id();
    let list = w.ok_json("cache list");
    let told = &list["unfinished"][0];
    assert_eq!((&told["busy"], &told["process"]), (&true.into(), &us.into()));
    assert_eq!(told["fingerprint"], print.0);
    let text = w.ok("cache list");
    assert!(text.contains(&format!("in use by process {us}")), "{text}");
    assert!(text.contains("training of a\\u{1b}[31m model"), "{text}");
    for line in ["cache rm --unfinished", "cache rm --all"] {
        let outcome = w.run(line);
        assert!(outcome.stderr.contains("1 in use by other commands"), "{}", outcome.stderr);
        assert_eq!(outcome.succeeded(line).trim(), "nothing to remove");
    }
    drop(work);
    assert!(w.ok("cache list").contains("interrupted"));
    assert!(w.ok("cache rm --unfinished --dry-run").starts_with("would remove 1 unfinished"));
    assert!(w.ok("cache rm --unfinished").starts_with("removed 1 unfinished"));
    assert!(store.unfinished(&print, "training").unwrap().is_new());
    assert_eq!(w.ok_json("cache list")["unfinished"].as_array().unwrap().len(), 0);
}

#[test]
fn caches_of_earlier_versions_are_told_and_removed_on_request() {
    let w = Workshop::new();
    let digest = "0f".repeat(32);
    let old = [
        format!("home/linwright/components/{digest}-v1.safetensors"),
        format!("home/linwright/spectra/{digest}-BF16-3x2.spectrum"),
    ];
    let foreign = "home/linwright/components/notes.txt";
    for folder in ["components", "spectra"] {
        fs::create_dir_all(w.path(&format!("home/linwright/{folder}"))).unwrap();
    }
    old.iter().for_each(|path| w.write(path, "old"));
    w.write(foreign, "of a user");
    let with_home = |args: &str| {
        let mut command = w.command(args);
        command.env("XDG_CACHE_HOME", w.path("home"));
        Outcome::of(command).succeeded(args)
    };
    assert!(with_home("cache list").contains("1 files of an earlier version, 3 B"));
    with_home("cache rm --all");
    with_home("cache rm --old --dry-run");
    assert!(old.iter().all(|path| w.path(path).exists()));
    assert!(with_home("cache rm --old").contains("earlier version"));
    assert!(old.iter().all(|path| !w.path(path).exists()));
    assert!(w.path(foreign).exists() && !w.path("home/linwright/spectra").exists());
    assert_eq!(with_home("cache rm --old").trim(), "nothing to remove");
}

#[test]
fn the_store_keeps_within_its_bound() {
    let w = Workshop::new();
    w.ok("inspect model --spectra");
    let bytes = |w: &Workshop| w.ok_json("cache list")["bytes"].as_u64().unwrap();
    let bound = bytes(&w) / 2;
    let mut command = w.command("laser model --lname fc_out --lnum 0 --rank 1");
    command.env("LINWRIGHT_STORE_BYTES", (bound + 20_000).to_string());
    Outcome::of(command).succeeded("a small store");
    assert!(bytes(&w) <= bound + 20_000, "{} {bound}", bytes(&w));
    // What the command needed itself is there.
    assert_eq!(pieces(w.store(), "components").len(), 1);
}
