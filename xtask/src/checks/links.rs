//! Links between documents point to existing files.

use crate::markdown;
use crate::offence::Offence;
use crate::repository::Repository;
use anyhow::Result;
use std::path::Path;

/// Reports links to files that are not in the repository.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let mut offences = Vec::new();
    for path in repository.ending(".md") {
        offences.extend(dead(path, &repository.text(path)?, &repository.root));
    }
    Ok(offences)
}

fn dead(path: &str, text: &str, root: &Path) -> Vec<Offence> {
    let folder = root.join(path).parent().unwrap_or(root).to_owned();
    markdown::links(text)
        .into_iter()
        .filter(|(_, target)| !target.contains("://") && !target.starts_with(['#', '<']))
        .filter(|(_, target)| !folder.join(target.split('#').next().unwrap_or("")).exists())
        .map(|(line, target)| Offence::at(path, line, format!("{target} does not exist")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("docs")).unwrap();
        std::fs::write(dir.path().join("README.md"), "").unwrap();
        let text = "[a](../README.md#x)\n[b](gone.md)\n[c](https://example.org)\n[d](#here)\n";
        let offences = dead("docs/page.md", text, dir.path());
        assert_eq!(offences, [Offence::at("docs/page.md", 2, "gone.md does not exist")]);
    }
}
