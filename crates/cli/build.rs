//! Passes the commit to the build: `LINWRIGHT_VERSION` is `0.1.0 (abc1234 2026-11-23)`, and
//! `LINWRIGHT_COMMIT` is `abc1234`, both with `-dirty` after the commit if the sources of the
//! program have uncommitted changes. Built from anything but a checkout, the version has no suffix
//! and the commit is empty.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits by which a commit is called.
const DIGITS: usize = 7;

/// What the program is made of, from the root of the repository. Tests and pages are not.
const PARTS: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "assets",
    "recipes",
    "crates/*/Cargo.toml",
    "crates/*/assets",
    "crates/*/build.rs",
    "crates/*/src",
];

/// The state of a checkout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Beginning of its name, with `-dirty` after it where parts of the program differ from it.
    pub(crate) name: String,
    /// Its day.
    pub(crate) date: String,
}

#[allow(clippy::print_stdout, reason = "cargo reads these lines")]
fn main() {
    // Cargo runs it in the package's folder. With a copied target directory, it was compiled in
    // another checkout, whose path it would have from `env!`.
    let root = PathBuf::from("../..");
    let commit = commit(&root);
    let version = env!("CARGO_PKG_VERSION");
    let (version, name) = match &commit {
        Some(Commit { name, date }) => (format!("{version} ({name} {date})"), name.as_str()),
        None => (version.to_owned(), ""),
    };
    println!("cargo:rustc-env=LINWRIGHT_VERSION={version}");
    println!("cargo:rustc-env=LINWRIGHT_COMMIT={name}");
    let watched = if commit.is_some() { watched(&root) } else { vec!["build.rs".into()] };
    for path in watched {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// What git prints for a question about the repository at `root`; none if it has no answer. Names
/// in the environment, as hooks have them, would make it look elsewhere.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    // Looking changes nothing: otherwise the index would be written, and cargo would see a change
    // in it.
    let output = command.env("GIT_OPTIONAL_LOCKS", "0").arg("-C").arg(root).args(args).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}

/// The commit that is checked out at `root`; none where that is not the top of a repository, as
/// when an archive was unpacked inside another one's checkout.
pub(crate) fn commit(root: &Path) -> Option<Commit> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let shown = git(root, &["log", "-1", "--no-show-signature", "--format=%H %cs"])?;
    let (hash, date) = shown.split_once(' ')?;
    let parts =
        PARTS.map(|part| format!(":(glob){part}{}", if part.contains('.') { "" } else { "/**" }));
    let mut args = vec!["status", "--porcelain", "--"];
    args.extend(parts.iter().map(String::as_str));
    let dirty = if git(root, &args)?.is_empty() { "" } else { "-dirty" };
    Some(Commit { name: format!("{}{dirty}", hash.get(..DIGITS)?), date: date.to_owned() })
}

/// What changes when the checkout does: where git notes each step of HEAD, also in a work tree of
/// its own, HEAD itself and the branch it is on, and the parts of the program. What is not there
/// would count as changed each time.
pub(crate) fn watched(root: &Path) -> Vec<PathBuf> {
    let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    let of_git =
        names.filter_map(|name| Some(root.join(git(root, &["rev-parse", "--git-path", name])?)));
    let crates = root.join("crates").read_dir().into_iter().flatten().flatten();
    let crates: Vec<PathBuf> = crates.map(|entry| entry.path()).collect();
    let parts = PARTS.iter().flat_map(|part| match part.strip_prefix("crates/*/") {
        Some(inside) => crates.iter().map(|folder| folder.join(inside)).collect(),
        None => vec![root.join(part)],
    });
    of_git.chain(parts).filter(|path| path.exists()).collect()
}
