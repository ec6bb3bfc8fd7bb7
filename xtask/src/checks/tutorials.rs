//! The tutorials: console sessions that run one after another in an empty folder, a new one for
//! each page, in which `testdata` is that of the repository.

use crate::offence::Offence;
use crate::repository::Repository;
use crate::session::{build, offence, steps, target};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Folder of the pages.
const FOLDER: &str = "docs/tutorials/";
/// A folder with a built `linwright` to try instead of the test build, such as `target/release`.
const VARIABLE: &str = "LINWRIGHT_BINARIES";

/// Reports commands with other output or exit codes, and pages without any.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let binaries = binaries(repository)?;
    let pages = repository.ending(".md").filter(|path| path.starts_with(FOLDER));
    let mut offences = Vec::new();
    for page in pages {
        offences.extend(check(page, &repository.text(page)?, &repository.root, &binaries)?);
    }
    Ok(offences)
}

/// The folder of the program to try.
pub(super) fn binaries(repository: &Repository) -> Result<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(folder) => built(&folder),
        None => build(&repository.root, &target(repository)),
    }
}

fn built(folder: &OsString) -> Result<PathBuf> {
    let program = Path::new(folder).join("linwright");
    let program = program.canonicalize().with_context(|| format!("{VARIABLE}: {program:?}"))?;
    Ok(program.parent().context("a program without a folder")?.to_owned())
}

/// Runs a page until a command differs, since those after it build on it.
fn check(page: &str, text: &str, root: &Path, binaries: &Path) -> Result<Vec<Offence>> {
    let steps = steps(text);
    if steps.is_empty() {
        return Ok(vec![Offence::new(page, "no `console` block with a command after `$ `")]);
    }
    let folder = tempfile::tempdir().context("cannot make a folder for a tutorial")?;
    std::os::unix::fs::symlink(root.join("testdata"), folder.path().join("testdata"))?;
    for step in &steps {
        if let Some(found) = offence(step, page, folder.path(), binaries)? {
            return Ok(vec![found]);
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(text: &str) -> Vec<Offence> {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("testdata")).unwrap();
        std::fs::write(root.path().join("testdata/a"), "here\n").unwrap();
        check("docs/tutorials/a.md", text, root.path(), root.path()).unwrap()
    }

    #[test]
    fn commands_of_a_page_share_a_folder_with_the_test_data() {
        let page = "```console\n$ cp testdata/a b\n```\n\n```console\n$ cat b\nhere\n```\n";
        assert_eq!(offences(page), []);
    }

    #[test]
    fn the_first_difference_is_told_and_ends_the_page() {
        let found = offences("```console\n$ cat gone\n$ cat gone\n```\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "docs/tutorials/a.md:2");
        assert_eq!(offences("# A page\n").len(), 1);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(built(&folder.path().into()).is_err());
        std::fs::write(folder.path().join("linwright"), "").unwrap();
        assert!(built(&folder.path().into()).unwrap().is_absolute());
    }
}
