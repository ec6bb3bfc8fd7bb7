//! What comes with an installed command: its version, manual pages, completions.

use crate::build_script::{commit, watched};
use crate::flags::verbs;
use crate::workshop::{Outcome, Workshop, names};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    assert_eq!(name_of(&root), head, "pages are not part of it");
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

#[test]
fn every_command_has_a_manual_page() {
    let w = Workshop::new();
    let listed = w.ok_json("man --output man1");
    let expected: BTreeSet<String> = verbs(&w, "")
        .iter()
        .flat_map(|verb| {
            let words: Vec<&str> = verb.split(' ').collect();
            (0..=words.len())
                .map(|n| [&["linwright"], &words[..n]].concat().join("-"))
                .collect::<Vec<_>>()
        })
        .map(|name| format!("{name}.1"))
        .collect();
    assert!(expected.len() > 20, "{expected:?}");
    let written: BTreeSet<String> =
        names(&w.path("man1")).into_iter().filter(|name| name != ".linwright").collect();
    assert_eq!(written, expected);
    assert_eq!(listed["pages"].as_array().unwrap().len(), expected.len());
    for name in &expected {
        let page = w.text(&format!("man1/{name}"));
        for section in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", "\\-\\-threads"] {
            assert!(page.contains(section), "{section} in {name}: {page}");
        }
    }
    let page = w.text("man1/linwright-compress.1");
    for said in ["\\-\\-method", "\\-\\-keep", "Calibration text"] {
        assert!(page.contains(said), "{said} in {page}");
    }
    let version = w.ok("--version").trim_start_matches("linwright ").trim().to_owned();
    assert!(w.text("man1/linwright.1").replace("\\-", "-").contains(&version));
    w.fails("man --output man1", 2, &["man1", "--force"]);
    assert!(w.ok("man --output man1 --force").contains("man1"));
}

/// Whether a shell reads a script without complaint; none where there is no such shell.
fn is_read_by(shell: &str, script: &Path) -> Option<bool> {
    let mut command = Command::new(shell);
    command.arg("-n").arg(script).stdin(Stdio::null());
    Some(command.output().ok()?.status.success())
}

#[test]
fn completions_know_commands_options_and_values() {
    let w = Workshop::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = w.ok(&format!("completions {shell}"));
        for word in ["compress", "train-lm", "baseline", "max-new-tokens"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
        // Clap knows no values for the others.
        let values = ["bash", "zsh", "fish"].contains(&shell);
        assert!(!values || script.contains("factored") && script.contains("presets"), "{shell}");
        assert_eq!(w.ok_json(&format!("completions {shell}"))["script"], script);
        w.write(shell, &script);
        assert_ne!(is_read_by(shell, &w.path(shell)), Some(false), "{shell}");
    }
    assert_eq!(is_read_by("bash", &w.path("bash")), Some(true), "this test needs bash");
    w.fails("completions tcsh", 2, &["tcsh", "bash"]);
    // What bash would offer after these words.
    for (line, offered) in [
        ("linwright comp", "compress"),
        ("linwright export pocket --form w", "width"),
        ("linwright ls fam", "families"),
        ("linwright compress --method low", "low_rank"),
        ("linwright compress --method mon", "monarch"),
        ("linwright bench operators kron", "kronecker"),
        ("linwright eval pocket --tasks arc", "arc_easy"),
        ("linwright validate laser_f", "laser_fever"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ask = format!(
            "source {}; COMP_WORDS=({line}); COMP_CWORD={}; _linwright linwright {} {}; echo \"${{COMPREPLY[*]}}\"",
            w.path("bash").display(),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let output = Command::new("bash").args(["-c", &ask]).output().unwrap();
        let replies = String::from_utf8(output.stdout).unwrap();
        assert!(replies.split_whitespace().any(|reply| reply == offered), "{line}: {replies}");
    }
}

/// The lines of a page's `sh` blocks.
fn shell_lines(page: &str) -> Vec<&str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).collect()
}

#[test]
fn what_the_page_about_installing_says_works_in_an_empty_home() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/install.md")).unwrap();
    let (install, use_it): (Vec<&str>, Vec<&str>) =
        shell_lines(&page).into_iter().partition(|line| line.starts_with("cargo "));
    assert!(install.len() > 1 && use_it.len() > 3, "{page}");
    // What takes minutes is not run; what it asks for exists.
    let has_line = |file: &str, beginning: &str| {
        let text = fs::read_to_string(root.join(file)).unwrap();
        text.lines().any(|line| line.starts_with(beginning))
    };
    for line in install {
        assert!(line.starts_with("cargo install --path crates/cli --locked"), "{line}");
        let words: Vec<&str> = line.split(' ').collect();
        for pair in words.windows(2) {
            match pair[0] {
                "--path" => assert!(has_line(&format!("{}/Cargo.toml", pair[1]), "[[bin]]")),
                "--profile" => assert!(has_line("Cargo.toml", &format!("[profile.{}]", pair[1]))),
                "--features" => pair[1].split(',').for_each(|name| {
                    assert!(has_line("crates/cli/Cargo.toml", &format!("{name} = [")), "{line}");
                }),
                _ => {}
            }
        }
    }
    // The program alone, as it is installed, with a home that holds nothing.
    let w = Workshop::new();
    for folder in ["bin", "home"] {
        fs::create_dir(w.path(folder)).unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_linwright"), w.path("bin/linwright")).unwrap();
    let path = format!("{}:/usr/bin:/bin", w.path("bin").display());
    let mut command = Command::new("sh");
    command.args(["-ec", &use_it.join("\n")]).current_dir(w.path("home")).env_clear();
    command.env("HOME", w.path("home")).env("PATH", path).stdin(Stdio::null());
    let printed = Outcome::of(command).succeeded("the page's commands");
    assert!(printed.starts_with("linwright ") && printed.lines().count() > 3, "{printed}");
    let home = w.path("home/.local/share");
    assert!(home.join("linwright/man1/linwright-compress.1").is_file());
    let script = home.join("bash-completion/completions/linwright");
    assert_eq!(is_read_by("bash", &script), Some(true));
}
