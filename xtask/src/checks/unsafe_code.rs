//! `unsafe` only in `crates/tensor`, and in `crates/capi`, where memory of C is read and written.

use crate::offence::Offence;
use crate::repository::Repository;
use crate::source::{Source, line_of, words};
use anyhow::Result;

/// The only folders with unsafe code.
const HOMES: &[&str] = &["crates/tensor/", "crates/capi/"];

/// Reports unsafe code, and permission for it, elsewhere.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    Ok(repository.sources()?.iter().flat_map(offences).collect())
}

fn offences(source: &Source) -> Vec<Offence> {
    if HOMES.iter().any(|home| source.path.starts_with(home)) {
        return Vec::new();
    }
    let code = &source.masked.code;
    let homes = HOMES.join(" and ");
    let what = format!("`unsafe` outside {homes}; move the code there behind a safe function");
    let lifted = ["allow(", "expect(", "warn("].into_iter().flat_map(|leave| {
        let lints = |at: usize| code[at..].split(')').next().unwrap_or("");
        let leaves = code.match_indices(leave).map(|(at, _)| at);
        leaves.filter(move |&at| words(lints(at), "unsafe_code").next().is_some())
    });
    words(code, "unsafe")
        .chain(lifted)
        .map(|at| Offence::at(&source.path, line_of(code, at), what.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        offences(&Source::new(path, text)).len()
    }

    #[test]
    fn unsafe_code_is_found_elsewhere() {
        assert_eq!(count("crates/ops/src/a.rs", "fn f() { unsafe { g() } }"), 1);
        assert_eq!(count("crates/ops/src/a.rs", "#![allow(unsafe_code, reason = \"\")]"), 1);
        assert_eq!(count("crates/ops/src/a.rs", "#[expect(dead_code, unsafe_code)]"), 1);
        assert_eq!(count("crates/cli/tests/a.rs", "unsafe fn f() {}"), 1);
        assert_eq!(count("crates/py/src/a.rs", "unsafe fn f() {}"), 1);
    }

    #[test]
    fn homes_comments_and_the_ban_itself_are_fine() {
        assert_eq!(count("crates/capi/src/a.rs", "fn f() { unsafe { g() } }"), 0);
        assert_eq!(count("crates/tensor/src/a.rs", "fn f() { unsafe { g() } }"), 0);
        assert_eq!(count("crates/ops/src/a.rs", "#![forbid(unsafe_code)] // unsafe\n"), 0);
        assert_eq!(count("crates/ops/src/a.rs", "const A: &str = \"unsafe\";"), 0);
    }
}
