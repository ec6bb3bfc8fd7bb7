//! Variants of a data set by its README: the list `configs` in the YAML front matter
//! (huggingface.co/docs/hub/datasets-manual-configuration).

use serde_json::{Map, Value};

/// A variant of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) name: String,
    /// Whether it is the default.
    pub(super) default: bool,
    /// Folder of its files.
    pub(super) folder: Option<String>,
    /// File patterns by split; `None` if file names determine the splits.
    pub(super) splits: Option<Vec<(String, Vec<String>)>>,
}

/// The variants; empty if the README has no list.
pub(super) fn configs(card: &str) -> Result<Vec<Config>, String> {
    let Some(lines) = section(card) else { return Ok(Vec::new()) };
    let wrong = |what: &str| format!("the list `configs` of its README.md {what}");
    let mut fields: Map<String, Value> = serde_saphyr::from_str(&lines).map_err(|error| {
        let error = error.to_string();
        wrong(&format!(
            "is not YAML: {}",
            linwright_run::shown_reason(error.lines().next().unwrap_or_default())
        ))
    })?;
    let list = match fields.remove("configs") {
        Some(Value::Array(list)) => list,
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(_) => return Err(wrong("is not a list")),
    };
    list.iter().map(|entry| config(entry).ok_or_else(|| wrong("has an invalid entry"))).collect()
}

/// The lines of the list only, since the rest may be invalid YAML.
fn section(card: &str) -> Option<String> {
    let mut lines = card.lines();
    (lines.next()?.trim_end() == "---").then_some(())?;
    let is_top = |line: &str| line.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let head = lines.take_while(|line| line.trim_end() != "---");
    let mut section = head.skip_while(|line| !line.starts_with("configs:")).peekable();
    let first = section.next()?;
    let rest: Vec<&str> = section.take_while(|line| !is_top(line)).collect();
    Some(format!("{first}\n{}\n", rest.join("\n")))
}

fn config(entry: &Value) -> Option<Config> {
    let entry = entry.as_object()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let paths = |value: &Value| match value {
        Value::Array(several) => several.iter().map(text).collect(),
        one => Some(vec![text(one)?]),
    };
    let of_split = |value: &Value| {
        // A split such as 2024 is a number in YAML.
        let split = value.get("split")?;
        let split = text(split).or_else(|| split.as_number().map(ToString::to_string))?;
        Some((split, paths(value.get("path")?)?))
    };
    let splits = match entry.get("data_files") {
        None | Some(Value::Null) => None,
        Some(Value::Array(list)) if list.iter().any(Value::is_object) => {
            Some(list.iter().map(of_split).collect::<Option<_>>()?)
        }
        Some(files) => Some(vec![("train".to_owned(), paths(files)?)]),
    };
    let folder = match entry.get("data_dir") {
        None | Some(Value::Null) => None,
        Some(folder) => Some(text(folder)?),
    };
    let name = entry.get("config_name")?;
    Some(Config {
        name: text(name).or_else(|| name.as_number().map(ToString::to_string))?,
        default: entry.get("default").and_then(Value::as_bool) == Some(true),
        folder,
        splits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_found_between_other_things() {
        let card = "---\nlicense: [a\ntags:\n- x\nconfigs:\n- config_name: Easy\n  default: true\n  \
                    data_files:\n  - split: train\n    path: Easy/train-*\n  - split: test\n    path:\n    \
                    - a/*\n    - b/*\n- config_name: 2024\n  data_dir: years\n- config_name: all\n  \
                    data_files: \"*.csv\"\nsize: {1: 2, 1: 3}\n---\n# Text\nconfigs: 7\n";
        let split = |name: &str, paths: &[&str]| {
            (name.to_owned(), paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>())
        };
        let want = vec![
            Config {
                name: "Easy".into(),
                default: true,
                folder: None,
                splits: Some(vec![
                    split("train", &["Easy/train-*"]),
                    split("test", &["a/*", "b/*"]),
                ]),
            },
            Config { name: "2024".into(), folder: Some("years".into()), ..Config::default() },
            Config {
                name: "all".into(),
                splits: Some(vec![split("train", &["*.csv"])]),
                ..Config::default()
            },
        ];
        assert_eq!(configs(card).unwrap(), want);
        for card in ["", "# Text", "---\na: 1\n---\nconfigs: 1", "---\nconfigs:\n---\n"] {
            assert_eq!(configs(card).unwrap(), [], "{card}");
        }
    }

    #[test]
    fn another_form_is_said() {
        for (list, want) in [
            ("configs: 7", "is not a list"),
            ("configs:\n- 7", "invalid entry"),
            ("configs:\n- {data_files: x}", "invalid entry"),
            ("configs:\n- config_name: a\n  data_files:\n  - split: x", "invalid entry"),
            ("configs: [", "is not YAML"),
        ] {
            let reason = configs(&format!("---\n{list}\n---\n")).unwrap_err();
            assert!(reason.contains(want), "{reason:?} lacks {want:?}");
        }
    }
}
