//! The cache of the library `datasets`: `<owner>___<name>/<variant>/<version>/<hash>/` contains
//! `dataset_info.json` and each split as `<name>-<split>.arrow`, or in shards
//! `<name>-<split>-00000-of-00002.arrow`. For data sets of the hub, the hash is the commit.

use super::{SetError, SetFiles, SetQuery};
use crate::{DataError, file};
use linwright_files::hub::{Commit, HubId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Name of the description in each folder.
const INFO: &str = "dataset_info.json";
/// Largest number of shards of a split.
const MAX_SHARDS: usize = 100_000;

#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    splits: BTreeMap<String, SplitInfo>,
}

#[derive(Deserialize)]
struct SplitInfo {
    num_examples: u64,
    #[serde(default)]
    shard_lengths: Option<Vec<u64>>,
}

/// Data files of a split; `None` if the data set or the revision is not cached.
pub(super) fn find(
    cache: &Path,
    id: &HubId,
    query: &SetQuery<'_>,
) -> Result<Option<SetFiles>, SetError> {
    let (owner, name) = id.parts();
    let name = snake_case(name);
    let root = cache.join(owner.map_or_else(|| name.clone(), |owner| format!("{owner}___{name}")));
    if !root.is_dir() {
        return Ok(None);
    }
    let unfit =
        |reason| SetError::Unfit { origin: format!("{} in {}", query.set, root.display()), reason };
    let variants = folders(&root)?;
    let Some(variant) = variant(&variants, query.config).map_err(unfit)? else { return Ok(None) };
    let Some(folder) = newest(&root.join(variant), query.revision)? else { return Ok(None) };
    let bytes = file::read(&folder.join(INFO))?;
    let info: Info = serde_json::from_slice(&bytes).map_err(|error| DataError::BrokenJson {
        path: folder.join(INFO),
        line: error.line(),
        reason: linwright_run::shown_reason(&error.to_string()),
    })?;
    let split = query.split;
    let Some(of_split) = info.splits.get(split) else {
        let known: Vec<&str> = info.splits.keys().map(String::as_str).collect();
        let reason = format!("{variant} has no split {split}; there are {}", known.join(", "));
        return Err(unfit(reason));
    };
    let shards = of_split.shard_lengths.as_ref().map_or(1, Vec::len);
    if shards > MAX_SHARDS || split.contains(['/', '\\']) {
        return Err(unfit(format!(
            "{split} has {shards} shards, at most {MAX_SHARDS} are supported"
        )));
    }
    let files: Vec<PathBuf> = match shards {
        0 | 1 => vec![folder.join(format!("{name}-{split}.arrow"))],
        of => (0..of)
            .map(|shard| folder.join(format!("{name}-{split}-{shard:05}-of-{of:05}.arrow")))
            .collect(),
    };
    let hash = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some(SetFiles {
        files,
        origin: format!("{}@{hash}", id.repository()),
        rows: Some(of_split.num_examples),
        notes: Vec::new(),
    }))
}

/// Folder of a variant: the one with its name, or the only one.
fn variant<'v>(variants: &'v [String], config: Option<&str>) -> Result<Option<&'v str>, String> {
    let named = |name: &str| variants.iter().find(|own| *own == name).map(String::as_str);
    if let Some(config) = config {
        return Ok(named(config));
    }
    match (named("default"), variants) {
        (Some(default), _) => Ok(Some(default)),
        (None, [only]) => Ok(Some(only)),
        (None, []) => Ok(None),
        (None, several) => {
            Err(format!("dataset_name must name a variant; there are {}", several.join(", ")))
        }
    }
}

/// The most recent complete folder; at a commit, only that of the commit.
fn newest(variant: &Path, revision: Option<&str>) -> Result<Option<PathBuf>, SetError> {
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    if !variant.is_dir() {
        return Ok(None);
    }
    for version in folders(variant)? {
        for hash in folders(&variant.join(&version))? {
            // The commit of a branch is unknown here.
            if revision
                .is_some_and(|revision| Commit::parse(revision).is_none() || revision != hash)
            {
                continue;
            }
            let folder = variant.join(&version).join(hash);
            let Ok(time) = folder.join(INFO).metadata().and_then(|info| info.modified()) else {
                continue;
            };
            let candidate = (time, folder);
            if newest.as_ref().is_none_or(|newest| *newest < candidate) {
                newest = Some(candidate);
            }
        }
    }
    Ok(newest.map(|(_, folder)| folder))
}

/// Names of subfolders, sorted, without those being written or prepared from a user's files.
fn folders(path: &Path) -> Result<Vec<String>, SetError> {
    let failed = |source| DataError::Read { path: path.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_own = name.rsplit_once('-').is_some_and(|(_, hash)| {
            hash.len() == 16
                && hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
        if entry.path().is_dir() && !name.ends_with(".incomplete") && !is_own {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// `BoatQuestions` to `boat_questions`: the library's `camelcase_to_snakecase`.
fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::with_capacity(name.len());
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(index + 1);
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase()
                        && after.is_some_and(|after| after.is_ascii_lowercase()))
            });
        if begins {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_the_library_does() {
        // By `datasets.naming.camelcase_to_snakecase`.
        for (name, want) in [
            ("ai2_arc", "ai2_arc"),
            ("BoatQuestions", "boat_questions"),
            ("HTTPServer", "http_server"),
            ("MMLU-Pro", "mmlu-pro"),
            ("wikiText2Raw", "wiki_text2_raw"),
            ("SNLIv1A", "snl_iv1_a"),
        ] {
            assert_eq!(snake_case(name), want);
        }
    }

    #[test]
    fn a_variant_is_named_or_alone() {
        let [a, default] = ["a", "default"].map(str::to_owned);
        assert_eq!(variant(&[a.clone(), default.clone()], None).unwrap(), Some("default"));
        assert_eq!(variant(std::slice::from_ref(&a), None).unwrap(), Some("a"));
        assert_eq!(variant(std::slice::from_ref(&a), Some("b")).unwrap(), None);
        assert!(variant(&[a.clone(), a], None).unwrap_err().contains("there are a, a"));
    }
}
