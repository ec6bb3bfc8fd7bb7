//! What comes with an installed command: its version.

use crate::build_script::{commit, watched};
use crate::workshop::Workshop;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The digits by which a commit is called, as a number of characters.
const DIGITS: usize = 7;

fn git(dir: &Path, args: &str) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir).args(["-c", "user.name=A", "-c", "user.email=a@example.org"]);
    let output = command.args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "git {args}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with a part of a program, committed.
fn repository(w: &Workshop) -> PathBuf {
    let root = w.path("repository");
    fs::create_dir_all(root.join("crates/cli/src")).unwrap();
    fs::write(root.join("crates/cli/src/main.rs"), "fn main() {}\n").unwrap();
    fs::write(root.join("README.md"), "A program.\n").unwrap();
    git(&root, "init -q");
    git(&root, "add .");
    git(&root, "commit -q -m one");
    root
}

fn name_of(root: &Path) -> String {
    commit(root).unwrap().name
}

#[test]
fn the_version_names_the_commit_it_was_built_from() {
    let w = Workshop::new();
    let said = w.ok("--version");
    let said = said.strip_prefix(concat!("linwright ", env!("CARGO_PKG_VERSION"))).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match commit(&root) {
        Some(found) => {
            let clean = found.name.trim_end_matches("-dirty");
            assert_eq!(said.replace("-dirty", ""), format!(" ({clean} {})\n", found.date));
            let result = w.ok_json("eval model --text text.jsonl --limit 1");
            let named = result["git_hash"].as_str().unwrap();
            assert_eq!(named.trim_end_matches("-dirty"), clean);
            assert_eq!(result["linwright"]["version"], env!("CARGO_PKG_VERSION"));
        }
        None => assert_eq!(said, "\n"),
    }
}

#[test]
fn a_commit_is_dirty_where_parts_of_the_program_differ_from_it() {
    let w = Workshop::new();
    let root = repository(&w);
    let head = git(&root, "rev-parse HEAD")[..DIGITS].to_owned();
    assert_eq!(name_of(&root), head);
    assert_eq!(commit(&root).unwrap().date, git(&root, "log -1 --format=%cs"));
    fs::write(root.join("README.md"), "Another program.\n").unwrap();
    assert_eq!(name_of(&root), head, "pages are no part of it");
    fs::write(root.join("crates/cli/src/main.rs"), "fn main() { }\n").unwrap();
    assert_eq!(name_of(&root), format!("{head}-dirty"));
    git(&root, "checkout -q -- crates");
    fs::create_dir(root.join("assets")).unwrap();
    fs::write(root.join("assets/new.bin"), "new").unwrap();
    assert_eq!(name_of(&root), format!("{head}-dirty"), "new files count");
}

#[test]
fn what_is_no_checkout_has_no_commit() {
    let w = Workshop::new();
    let root = repository(&w);
    assert_eq!(commit(&w.path("model")), None);
    // An archive that was unpacked inside the checkout of something else.
    assert_eq!(commit(&root.join("crates")), None);
    let empty = w.path("empty");
    fs::create_dir(&empty).unwrap();
    git(&empty, "init -q");
    assert_eq!(commit(&empty), None, "there is no commit yet");
}

#[test]
fn a_build_is_made_again_when_its_checkout_moves() {
    let w = Workshop::new();
    let root = repository(&w);
    let tree = w.path("tree");
    git(&root, &format!("worktree add -q -b other {}", tree.display()));
    for root in [root, tree] {
        let state = || -> Vec<Option<Vec<u8>>> {
            watched(&root).iter().map(|path| fs::read(path).ok()).collect()
        };
        assert!(watched(&root).contains(&root.join("crates/cli/src")), "{:?}", watched(&root));
        let (before, name) = (state(), name_of(&root));
        assert_eq!(state(), before, "looking changes nothing");
        git(&root, "commit -q --allow-empty -m two");
        assert_ne!(state(), before);
        assert_ne!(name_of(&root), name);
    }
}
