//! The list of checks. A new one is a file here and a line of the list below.

mod caps;
mod causes;
mod clippy;
mod comments;
mod deny;
mod dist;
mod docs;
mod families;
mod forbidden;
pub(crate) mod format;
mod layers;
mod links;
mod names;
mod readme;
mod reasons;
mod records;
mod shown;
mod subjects;
mod tracked;
mod tutorials;
mod unsafe_code;
mod words;

use crate::offence::Offence;
use crate::repository::Repository;
use anyhow::Result;

/// A check of the repository.
#[derive(Debug)]
pub(crate) struct Check {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it checks.
    pub(crate) about: &'static str,
    /// Finds violations.
    pub(crate) run: fn(&Repository) -> Result<Vec<Offence>>,
}

/// Every check, the quick ones first.
pub(crate) const CHECKS: &[Check] = &[
    Check { name: "format", about: "every Rust file is formatted", run: format::run },
    Check { name: "layers", about: "crates import what ARCHITECTURE.md allows", run: layers::run },
    Check { name: "unsafe", about: "`unsafe` only in tensor and capi", run: unsafe_code::run },
    Check { name: "caps", about: "no file over 800, no function over 80 lines", run: caps::run },
    Check { name: "comments", about: "no comment beyond column 100", run: comments::run },
    Check { name: "names", about: "no file or type is named after nothing", run: names::run },
    Check { name: "words", about: "no more translated prose than before", run: words::run },
    Check { name: "subjects", about: "subjects of commits: `area: what`", run: subjects::run },
    Check { name: "causes", about: "messages of errors hold their causes", run: causes::run },
    Check { name: "families", about: "model families are data, in families/", run: families::run },
    Check {
        name: "forbidden",
        about: "no skipped test, stub or banned allow",
        run: forbidden::run,
    },
    Check { name: "tracked", about: "no large or binary file in git", run: tracked::run },
    Check { name: "links", about: "links between documents lead somewhere", run: links::run },
    Check {
        name: "records",
        about: "tables and numbers of documents are those of their records",
        run: records::run,
    },
    Check { name: "deny", about: "dependencies as deny.toml allows", run: deny::run },
    Check {
        name: "reasons",
        about: "each dependency has its reason in deny.toml",
        run: reasons::run,
    },
    Check { name: "dist", about: "the profile dist is stripped", run: dist::run },
    Check { name: "clippy", about: "no warning from compiler or clippy", run: clippy::run },
    Check { name: "docs", about: "documentation builds, no broken link", run: docs::run },
    Check { name: "readme", about: "the README's session prints what it says", run: readme::run },
    Check {
        name: "tutorials",
        about: "the sessions of the tutorials print what they say",
        run: tutorials::run,
    },
    Check {
        name: "shown",
        about: "quick commands of documents print the numbers beside them",
        run: shown::run,
    },
];
