//! The documents as a site: `cargo xtask book`.
//!
//! mdBook makes the pages that `docs/SUMMARY.md` lists, from a copy of them in `target/book`; then
//! every link of the site must lead somewhere, and no page may load anything from elsewhere.

use crate::markdown;
use crate::offence::Offence;
use crate::process::{complaint, is_installed};
use crate::repository::Repository;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// List of the pages, as mdBook has it.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Version of mdBook.
const VERSION: &str = "0.4.52";
/// Settings of the site. Chapters keep the names of their files, READMEs too.
const SETTINGS: &str = "\
[book]
title = \"Linwright\"
language = \"en\"

[build]
build-dir = \"html\"
create-missing = false
use-default-preprocessors = false

[output.html]
no-section-label = true

[output.html.print]
enable = false

[output.html.search]
enable = false
";

/// Builds the site; the offences of its pages.
pub(crate) fn build(repository: &Repository, target: &Path) -> Result<Vec<Offence>> {
    let folder = target.join("book");
    let offences = stage(repository, &folder)?;
    if !offences.is_empty() {
        return Ok(offences);
    }
    let program = mdbook(target)?;
    if let Some(printed) = complaint(Command::new(program).arg("build").arg(&folder))? {
        bail!("mdbook failed\n{printed}");
    }
    let site = folder.join("html");
    println!("{}", site.join("index.html").display());
    check_site(&site)
}

/// mdBook: that of the path, or one of our own beside the builds, which is installed if it is not
/// there. Not optimised, and without what serves and searches.
fn mdbook(target: &Path) -> Result<PathBuf> {
    let (name, own) = ("mdbook", target.join("tools/bin/mdbook"));
    if is_installed(name) {
        return Ok(name.into());
    }
    if !own.is_file() {
        println!("installing mdbook {VERSION}, once");
        let mut install = Command::new("cargo");
        install.args(["install", "--quiet", "--locked", "--debug", "--no-default-features"]);
        install.args(["--version", VERSION, "--root"]).arg(target.join("tools")).arg(name);
        if let Some(printed) = complaint(&mut install)? {
            bail!("cannot install mdbook\n{printed}");
        }
    }
    Ok(own)
}

/// The path of a link from a page, both from the root.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether a link leads to another site, or to a place of its own page.
fn is_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with(['#', '<']) || link.starts_with("mailto:")
}

/// Copies the pages, and the files that they show, under their own paths.
fn stage(repository: &Repository, folder: &Path) -> Result<Vec<Offence>> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {folder:?}"))?;
    }
    let source = folder.join("src");
    fs::create_dir_all(&source).with_context(|| format!("cannot make {source:?}"))?;
    fs::write(folder.join("book.toml"), SETTINGS)?;
    let summary = repository.text(SUMMARY)?;
    let mut rooted = summary.clone();
    let mut pages = BTreeSet::new();
    for (_, link) in markdown::links(&summary) {
        let page = resolved(SUMMARY, link);
        rooted = rooted.replace(&format!("]({link})"), &format!("]({page})"));
        pages.insert(page);
    }
    ensure!(!pages.is_empty(), "{SUMMARY} lists no pages");
    fs::write(source.join("SUMMARY.md"), rooted)?;
    let copy = |path: &str| -> Result<()> {
        let to = source.join(path);
        fs::create_dir_all(to.parent().context("a file without a folder")?)?;
        fs::copy(repository.root.join(path), to).with_context(|| format!("cannot copy {path}"))?;
        Ok(())
    };
    let mut offences = unlisted(repository, &pages);
    for page in &pages {
        copy(page)?;
        let text = repository.text(page)?;
        for (line, link) in markdown::links(&text).into_iter().filter(|(_, l)| !is_elsewhere(l)) {
            let path = resolved(page, link.split('#').next().unwrap_or(""));
            if path.ends_with(".md") {
                if !pages.contains(&path) {
                    let what = format!("links to {path}, which {SUMMARY} does not list");
                    offences.push(Offence::at(page, line, what));
                }
            } else if repository.files.contains(&path) {
                copy(&path)?;
            } else {
                offences.push(Offence::at(page, line, format!("{link} is not a file to show")));
            }
        }
    }
    Ok(offences)
}

/// Pages in `docs` that the list forgets.
fn unlisted(repository: &Repository, pages: &BTreeSet<String>) -> Vec<Offence> {
    let all = repository.ending(".md").filter(|path| path.starts_with("docs/"));
    let forgotten = all.filter(|path| *path != SUMMARY && !pages.contains(*path));
    forgotten.map(|path| Offence::new(path, format!("{SUMMARY} does not list it"))).collect()
}

/// All files of a folder, relative to it.
fn files(root: &Path, below: &str, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().context("a name that is not UTF-8")?;
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        match entry.file_type()?.is_dir() {
            true => files(root, &path, found)?,
            false => found.push(path),
        }
    }
    Ok(())
}

/// The values of an attribute of a page, with the names of their elements.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let start = format!(" {name}=\"");
    let values = html.split('<').skip(1).filter_map(|element| {
        let inside = element.split('>').next()?;
        let (before, rest) = inside.split_once(&start)?;
        Some((before.split_whitespace().next()?, rest.split('"').next()?))
    });
    values.collect()
}

/// Dead links, and whatever is loaded from elsewhere.
fn check_site(site: &Path) -> Result<Vec<Offence>> {
    let mut all = Vec::new();
    files(site, "", &mut all)?;
    all.sort();
    let pages = all.iter().filter(|path| path.ends_with(".html"));
    let pages: BTreeMap<&str, String> = pages
        .map(|path| Ok((path.as_str(), fs::read_to_string(site.join(path))?)))
        .collect::<Result<_>>()?;
    let ids: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, html)| (*path, attributes(html, "id").into_iter().map(|(_, id)| id).collect()))
        .collect();
    let mut offences = Vec::new();
    for (page, html) in &pages {
        let links = attributes(html, "href").into_iter().chain(attributes(html, "src"));
        for (element, link) in links {
            let wrong = if link.contains("://") || link.starts_with("//") {
                (element != "a").then(|| format!("<{element}> loads {link} from elsewhere"))
            } else if link.starts_with("data:") || link.starts_with("mailto:") || element == "base"
            {
                // The page for what is not found says that links are from the root of the site.
                None
            } else {
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let path = match path {
                    "" => (*page).to_owned(),
                    path => resolved(page, path),
                };
                let has_anchor =
                    || anchor.is_empty() || ids.get(&*path).is_none_or(|ids| ids.contains(anchor));
                (!(all.contains(&path) && has_anchor())).then(|| format!("{link} leads nowhere"))
            };
            offences.extend(wrong.map(|what| Offence::new(*page, what)));
        }
    }
    Ok(offences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_from_their_page() {
        assert_eq!(resolved("docs/a/b.md", "../c.md"), "docs/c.md");
        assert_eq!(resolved("README.md", "./docs/c.md"), "docs/c.md");
        assert_eq!(resolved("docs/SUMMARY.md", "../README.md"), "README.md");
    }

    fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, Repository) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let files = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        let root = dir.path().to_owned();
        (dir, Repository { root, files })
    }

    #[test]
    fn pages_and_what_they_show_are_copied() {
        let (dir, repository) = repository(&[
            ("docs/SUMMARY.md", "# Summary\n\n- [A](a.md)\n- [R](../README.md)\n"),
            ("docs/a.md", "[r](../README.md#x) ![f](figures/f.svg) [w](https://example.org)\n"),
            ("docs/figures/f.svg", "<svg/>"),
            ("README.md", "[l](LICENSE)\n"),
            ("LICENSE", "free"),
        ]);
        let out = dir.path().join("out");
        assert_eq!(stage(&repository, &out).unwrap(), []);
        let summary = fs::read_to_string(out.join("src/SUMMARY.md")).unwrap();
        assert_eq!(summary, "# Summary\n\n- [A](docs/a.md)\n- [R](README.md)\n");
        for path in ["docs/a.md", "docs/figures/f.svg", "README.md", "LICENSE"] {
            assert!(out.join("src").join(path).is_file(), "{path}");
        }
    }

    #[test]
    fn forgotten_pages_and_folders_are_told() {
        let (dir, repository) = repository(&[
            ("docs/SUMMARY.md", "- [A](a.md)\n"),
            ("docs/a.md", "[b](b.md)\n[f](../crates)\n"),
            ("docs/b.md", ""),
        ]);
        let found = stage(&repository, &dir.path().join("out")).unwrap();
        let places: Vec<&str> = found.iter().map(|offence| offence.place.as_str()).collect();
        assert_eq!(places, ["docs/b.md", "docs/a.md:1", "docs/a.md:2"]);
    }

    #[test]
    fn dead_links_and_foreign_scripts_are_found() {
        let (dir, _) = repository(&[
            (
                "docs/a.html",
                "<h1 id=\"one\"></h1><a href=\"../b.html#two\"></a><a href=\"#one\"></a>\
                 <a href=\"https://example.org\"></a><a class=\"x\" href=\"gone.html\"></a>\
                 <a href=\"../b.html#three\"></a><script src=\"https://example.org/s.js\"></script>\
                 <link rel=\"x\" href=\"//example.org/s.css\">",
            ),
            ("b.html", "<p id=\"two\"></p><script src=\"s.js\"></script>"),
            ("s.js", ""),
        ]);
        let found = check_site(dir.path()).unwrap();
        let whats: Vec<&str> = found.iter().map(|offence| offence.what.as_str()).collect();
        assert_eq!(
            whats,
            [
                "gone.html leads nowhere",
                "../b.html#three leads nowhere",
                "<link> loads //example.org/s.css from elsewhere",
                "<script> loads https://example.org/s.js from elsewhere",
            ]
        );
    }
}
