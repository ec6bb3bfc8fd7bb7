//! The files of a split: by the README, or else by file names, as in `data_files.py` of `datasets`
//! 5.2.0.

use super::card::Config;
use super::glob::file_matches;
use super::{CARD, SetQuery};
use crate::{TableFormat, without_gzip};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

/// Names of splits in file and folder names.
const WORDS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];
/// Characters that may surround such a name.
const BETWEEN: &str = "[-._ 0-9]";
/// Folders of a split: W is its name, B a character of [`BETWEEN`].
const FOLDERS: [&str; 4] = ["**/W/**", "**/WB*/**", "**/*BW/**", "**/*BWB*/**"];
/// Files of a split.
const FILES: [&str; 2] = ["**/WB*", "**/*BWB*"];
/// Files of the description, which contain no rows.
const NO_ROWS: [&str; 5] =
    [CARD, "config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json"];
/// Largest number of names in a message.
const SHOWN: usize = 8;

/// Files of a split, sorted by name; none if the data set has no data files.
pub(super) fn of_split(
    names: &BTreeSet<String>,
    configs: &[Config],
    query: &SetQuery<'_>,
) -> Result<Option<Vec<String>>, String> {
    let files = match (configs, query.config) {
        ([], None | Some("default")) => by_names(names, "", query.split)?,
        ([], Some(folder)) => {
            let within = format!("{folder}/");
            if !names.iter().any(|name| is_rows(name)) {
                return Ok(None);
            }
            if !names.iter().any(|name| name.starts_with(&within)) {
                let folders = names.iter().filter_map(|name| name.split_once('/')).map(|(f, _)| f);
                let folders: BTreeSet<&str> = folders.filter(|f| !f.starts_with('.')).collect();
                return Err(format!(
                    "it has no variant {folder}: its README.md has none, and its folders are {}",
                    list(folders.into_iter())
                ));
            }
            by_names(names, &within, query.split)?
        }
        (configs, name) => of_config(names, chosen(configs, name)?, query.split)?,
    };
    files.map(|files| whole(one_format(files), names)).transpose()
}

/// The variant with this name, or the default one.
fn chosen<'c>(configs: &'c [Config], name: Option<&str>) -> Result<&'c Config, String> {
    let known = || list(configs.iter().map(|config| config.name.as_str()));
    if let Some(name) = name {
        return configs
            .iter()
            .find(|config| config.name == name)
            .ok_or_else(|| format!("it has no variant {name}; there are {}", known()));
    }
    match configs {
        [only] => Ok(only),
        several => several
            .iter()
            .find(|config| config.default || config.name == "default")
            .ok_or_else(|| format!("dataset_name must name a variant; there are {}", known())),
    }
}

fn of_config(
    names: &BTreeSet<String>,
    config: &Config,
    split: &str,
) -> Result<Option<Vec<String>>, String> {
    let folder = config.folder.as_deref().map(|folder| folder.trim_matches('/'));
    let base = folder.filter(|f| !f.is_empty()).map_or_else(String::new, |f| format!("{f}/"));
    let Some(splits) = &config.splits else { return by_names(names, &base, split) };
    let Some((_, patterns)) = splits.iter().find(|(name, _)| name == split) else {
        let known = list(splits.iter().map(|(name, _)| name.as_str()));
        return Err(format!("{} has no split {split}; there are {known}", config.name));
    };
    let mut files: Vec<&String> = Vec::new();
    let mut seen = BTreeSet::new();
    for pattern in patterns {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let fits = |name: &&String| {
            name.strip_prefix(&base).is_some_and(|name| file_matches(pattern, name))
        };
        let matching: Vec<&String> = names.iter().filter(fits).collect();
        if matching.is_empty() {
            return Err(format!(
                "its README.md has the pattern {base}{pattern}, which matches no file"
            ));
        }
        files.extend(matching.into_iter().filter(|name| seen.insert(name.as_str())));
    }
    match files.iter().find(|name| TableFormat::of(Path::new(name)).is_none()) {
        Some(name) => Err(format!(
            "{name} has an unsupported format; expected {}",
            TableFormat::extensions(|_| true)
        )),
        None => Ok(Some(files.into_iter().cloned().collect())),
    }
}

fn is_rows(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    TableFormat::of(Path::new(name)).is_some() && !NO_ROWS.contains(&file)
}

/// Files of a split by names below a folder; none if there are no data files.
fn by_names(
    names: &BTreeSet<String>,
    base: &str,
    split: &str,
) -> Result<Option<Vec<String>>, String> {
    let rows: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix(base))
        .filter(|name| is_rows(name))
        .collect();
    let among = |patterns: &[String]| -> Vec<String> {
        let fits = |name: &&str| patterns.iter().any(|pattern| file_matches(pattern, name));
        rows.iter().copied().filter(fits).map(|name| format!("{base}{name}")).collect()
    };
    if rows.is_empty() {
        return Ok(None);
    }
    let digits = "[0-9]".repeat(5);
    let sharded = |split: &str| vec![format!("data/{split}-{digits}-of-{digits}*.*")];
    if !among(&sharded("*")).is_empty() {
        let found = among(&sharded(split));
        let known: BTreeSet<&str> =
            rows.iter().filter_map(|name| name.strip_prefix("data/")?.split("-0").next()).collect();
        return there(found, split, known.into_iter());
    }
    for forms in [&FOLDERS[..], &FILES[..]] {
        let of_words = |words: &[&str]| {
            let patterns =
                words.iter().flat_map(|word| forms.iter().map(|form| filled(form, word)));
            among(&patterns.collect::<Vec<_>>())
        };
        let by_split: Vec<(&str, Vec<String>)> =
            WORDS.iter().map(|(split, words)| (*split, of_words(words))).collect();
        let known: Vec<&str> = by_split
            .iter()
            .filter(|(_, files)| !files.is_empty())
            .map(|(split, _)| *split)
            .collect();
        if !known.is_empty() {
            let files = by_split.iter().find(|(name, _)| *name == split);
            let files = files.map(|(_, files)| files.clone()).unwrap_or_default();
            return there(files, split, known.into_iter());
        }
    }
    let all = if split == "train" { among(&["**".to_owned()]) } else { Vec::new() };
    there(all, split, ["train"].into_iter())
}

fn filled(form: &str, word: &str) -> String {
    form.replace('B', BETWEEN).replace('W', word)
}

fn there<'n>(
    files: Vec<String>,
    split: &str,
    known: impl Iterator<Item = &'n str>,
) -> Result<Option<Vec<String>>, String> {
    if files.is_empty() {
        return Err(format!(
            "there is no split {split}; by name, its files belong to {}",
            list(known)
        ));
    }
    Ok(Some(files))
}

/// Files of the most common format; of equally common ones Parquet, then JSON.
fn one_format(files: Vec<String>) -> Vec<String> {
    let ending =
        |name: &str| without_gzip(Path::new(name)).extension().unwrap_or_default().to_owned();
    let mut counts = BTreeMap::new();
    for name in &files {
        *counts.entry(ending(name)).or_insert(0_usize) += 1;
    }
    let liked = |end: &OsStr| {
        ["csv", "json", "jsonl", "parquet"].iter().position(|known| end == OsStr::new(known))
    };
    let best = counts
        .into_iter()
        .max_by(|(a, many), (b, more)| many.cmp(more).then_with(|| liked(a).cmp(&liked(b))));
    let Some((best, _)) = best else { return files };
    files.into_iter().filter(|name| ending(name) == best).collect()
}

/// The files, if all of their shards exist.
fn whole(files: Vec<String>, names: &BTreeSet<String>) -> Result<Vec<String>, String> {
    let mut checked = BTreeSet::new();
    for name in &files {
        let Some((of, stem)) = shard(name) else { continue };
        if !checked.insert((stem, of)) {
            continue;
        }
        for index in 0..of {
            // The numbers may be followed by a hash, which differs between shards.
            let start = format!("{stem}-{index:05}-of-{of:05}");
            let next = names.range(start.clone()..).next();
            if !next.is_some_and(|name| name.starts_with(&start)) {
                return Err(format!("{start} is missing"));
            }
        }
    }
    Ok(files)
}

/// For a name with `-00001-of-00004`: the number of shards, and the text before.
fn shard(name: &str) -> Option<(usize, &str)> {
    let at = name.rfind("-of-")?;
    let (before, after) = (&name[..at], name.get(at + 4..at + 9)?);
    let (stem, index) = before.rsplit_once('-')?;
    let number = |text: &str| {
        (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (index, of): (usize, usize) = (number(index)?, number(after)?);
    (index < of).then_some((of, stem))
}

/// Files of a split in the hub's conversion: `<variant>/<split>/0000.parquet`.
pub(super) fn of_converted(
    names: &BTreeSet<String>,
    query: &SetQuery<'_>,
) -> Result<Vec<String>, String> {
    let parts = |name: &'_ String| -> Option<[String; 2]> {
        let mut parts = name.strip_suffix(".parquet")?.split('/');
        Some([parts.next()?.to_owned(), parts.next()?.to_owned()])
    };
    let all: BTreeSet<[String; 2]> = names.iter().filter_map(parts).collect();
    let configs: BTreeSet<&str> = all.iter().map(|[config, _]| config.as_str()).collect();
    let config = match (query.config, configs.iter().next()) {
        (Some(config), _) => config,
        (None, Some(&only)) if configs.len() == 1 => only,
        (None, _) => "default",
    };
    if !configs.contains(config) {
        let known = list(configs.into_iter());
        return Err(format!("the hub converted no variant {config}; there are {known}"));
    }
    let split = query.split;
    let folder = format!("{config}/{split}/");
    let files: Vec<String> = names
        .iter()
        .filter(|name| name.starts_with(&folder) && name.ends_with(".parquet"))
        .cloned()
        .collect();
    if !files.is_empty() {
        return Ok(files);
    }
    let splits: Vec<&str> =
        all.iter().filter(|[own, _]| own == config).map(|[_, split]| split.as_str()).collect();
    if splits.contains(&format!("partial-{split}").as_str()) {
        return Err(format!("the hub converted only a part of the split {split}"));
    }
    Err(format!("{config} has no split {split}; there are {}", list(splits.into_iter())))
}

/// Names as a list for a message.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.len() {
        0 => "none".into(),
        count if count > SHOWN => {
            format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN)
        }
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::card;
    use super::*;

    fn find(
        names: &[&str],
        card: &str,
        config: Option<&str>,
        split: &str,
    ) -> Result<Option<Vec<String>>, String> {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let query = SetQuery { set: "o/n", config, split, revision: None };
        of_split(&names, &card::configs(card).unwrap(), &query)
    }

    fn found(names: &[&str], config: Option<&str>, split: &str) -> Vec<String> {
        find(names, "", config, split).unwrap().unwrap()
    }

    #[test]
    fn names_say_the_split() {
        for (names, split, want) in [
            (&["train.jsonl", "test.jsonl", "README.md"][..], "test", &["test.jsonl"][..]),
            (&["my_dev.csv", "my_train.csv"], "validation", &["my_dev.csv"]),
            (&["a/train/1.json", "a/test/1.json", "train.csv"], "train", &["a/train/1.json"]),
            (&["rows.csv"], "train", &["rows.csv"]),
            (&["data/odd-00000-of-00001.parquet"], "odd", &["data/odd-00000-of-00001.parquet"]),
            (
                &[
                    "data/test-00000-of-00002-ab.parquet",
                    "data/test-00001-of-00002-cd.parquet",
                    "x.csv",
                ],
                "test",
                &["data/test-00000-of-00002-ab.parquet", "data/test-00001-of-00002-cd.parquet"],
            ),
            (&["test.csv", "test.jsonl", "dataset_info.json"], "test", &["test.jsonl"]),
            (&["en/train.json.gz", "en/test.json.gz", "x.zip"], "test", &["en/test.json.gz"]),
        ] {
            assert_eq!(found(names, None, split), want, "{names:?}");
        }
        let folders = ["Easy/test.jsonl", "Hard/test.jsonl"];
        assert_eq!(found(&folders, Some("Hard"), "test"), ["Hard/test.jsonl"]);
    }

    #[test]
    fn the_readme_wins_over_names() {
        let card = "---\nconfigs:\n- config_name: a\n  data_files:\n  - {split: test, path: x/*}\n\
                    - config_name: b\n  data_dir: z\n---\n";
        let names = ["x/1.json", "x/2.json", "z/test.csv", "test.json"];
        let find = |config, split| find(&names, card, config, split);
        assert_eq!(find(Some("a"), "test").unwrap().unwrap(), ["x/1.json", "x/2.json"]);
        assert_eq!(find(Some("b"), "test").unwrap().unwrap(), ["z/test.csv"]);
        for (config, split, want) in [
            (None, "test", "must name a variant; there are a, b"),
            (Some("c"), "test", "no variant c; there are a, b"),
            (Some("a"), "train", "a has no split train; there are test"),
            (Some("b"), "train", "no split train"),
        ] {
            let reason = find(config, split).unwrap_err();
            assert!(reason.contains(want), "{reason:?} lacks {want:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        for (names, card, config, want) in [
            (&["train.csv"][..], "", None, "no split test; by name, its files belong to train"),
            (&["rows.csv"], "", None, "its files belong to train"),
            (
                &["a/test.csv"],
                "",
                Some("b"),
                "no variant b: its README.md has none, and its folders are a",
            ),
            (&["data/test-00000-of-00002.csv"], "", None, "data/test-00001-of-00002 is missing"),
            (
                &["a.zip"],
                "---\nconfigs:\n- config_name: a\n  data_files:\n  - {split: test, path: a.zip}\n---\n",
                None,
                "a.zip has an unsupported format",
            ),
            (
                &["a.csv"],
                "---\nconfigs:\n- config_name: a\n  data_files:\n  - {split: test, path: b.csv}\n---\n",
                None,
                "has the pattern b.csv, which matches no file",
            ),
        ] {
            let reason = find(names, card, config, "test").unwrap_err();
            assert!(reason.contains(want), "{reason:?} lacks {want:?}");
        }
        // A data set defined by a program.
        assert_eq!(find(&["n.py", "README.md"], "", None, "test").unwrap(), None);
        assert_eq!(find(&["n.py"], "", Some("a"), "test").unwrap(), None);
    }

    #[test]
    fn a_conversion_has_folders_of_variants_and_splits() {
        let names = ["a/test/0000.parquet", "a/test/0001.parquet", "b/partial-test/0000.parquet"];
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let find = |config, split| {
            of_converted(&names, &SetQuery { set: "o/n", config, split, revision: None })
        };
        assert_eq!(
            find(Some("a"), "test").unwrap(),
            ["a/test/0000.parquet", "a/test/0001.parquet"]
        );
        for (config, split, want) in [
            (Some("a"), "train", "a has no split train; there are test"),
            (Some("b"), "test", "only a part"),
            (Some("c"), "test", "no variant c; there are a, b"),
            (None, "test", "no variant default"),
        ] {
            let reason = find(config, split).unwrap_err();
            assert!(reason.contains(want), "{reason:?} lacks {want:?}");
        }
    }
}
