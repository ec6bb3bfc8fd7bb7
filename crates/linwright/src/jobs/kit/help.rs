//! Help in two lengths: what most need first in the short one, the rest under headings in the long
//! one.

use super::{Catalogue, Field, Key, Kind, plain_value};
use serde_json::Value;

/// Options of a command that are all in its short help.
const FEW: usize = 18;

/// Length of a line of the short help.
const LINE: usize = 56;

/// Options that come first, of all commands.
const FIRST: [&str; 29] = [
    "allocate",
    "calibration",
    "compress",
    "data",
    "dry_run",
    "epochs",
    "force",
    "form",
    "init",
    "intervention",
    "keep",
    "layers",
    "limit",
    "lname",
    "lnum",
    "method",
    "methods",
    "output",
    "plan",
    "rank",
    "rate",
    "recover",
    "roles",
    "sites",
    "size",
    "tasks",
    "text",
    "train",
    "validation",
];

/// Headings of the other options.
const HEADINGS: [(&str, &[&str]); 2] = [
    (
        "Evaluation",
        &[
            "apply_chat_template",
            "batch_size",
            "bootstrap_iters",
            "bos",
            "chat_template_args",
            "date",
            "evaluation",
            "fewshot_as_multiturn",
            "fewshot_seed",
            "join",
            "laser_new_tokens",
            "laser_scoring",
            "laser_split",
            "max_length",
            "metric",
            "more_texts",
            "num_fewshot",
            "samples",
            "stride",
            "system_instruction",
            "text_field",
            "window",
        ],
    ),
    ("Training", &["batch", "loss", "optimizer", "steps", "training"]),
];

/// The heading of the rest.
const REST: &str = "More options";

impl Field {
    /// Heading of the option in a command with `count` options; none if it comes first, and is in
    /// the short help.
    #[must_use]
    pub fn heading(&self, count: usize) -> Option<&'static str> {
        let key = self.key.as_str();
        if self.is_positional || self.is_required || count <= FEW || FIRST.contains(&key) {
            return None;
        }
        let heading = HEADINGS.iter().find(|(_, keys)| keys.contains(&key));
        Some(heading.map_or(REST, |(heading, _)| heading))
    }

    /// What the short help says: the beginning of the description.
    #[must_use]
    pub fn short_help(&self) -> String {
        beginning(&self.help)
    }

    /// What the long help says: the description, and the values where there are few names.
    #[must_use]
    pub fn long_help(&self) -> String {
        let help = self.help.trim_end_matches('.').to_owned();
        let names = match &self.kind {
            Kind::Named(names) => names,
            Kind::Term(catalogue) => return with_keys(help, catalogue),
            Kind::Flag | Kind::Integer { .. } | Kind::Number { .. } | Kind::Text => return help,
        };
        let mut lines = vec![help];
        if names.iter().all(|name| name.help.is_none()) {
            let names: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
            return format!("{} [possible values: {}]", lines[0], names.join(", "));
        }
        lines.push(String::new());
        for name in names {
            let about = name.help.as_ref().map_or_else(String::new, |help| format!(": {help}"));
            lines.push(format!("- {}{about}", name.name));
        }
        lines.join("\n")
    }
}

/// Catalogues of more values are listed by `linwright ls`.
const MANY: usize = 8;

/// A description with the keys of a term.
fn with_keys(help: String, catalogue: &Catalogue) -> String {
    if catalogue.entries.len() > MANY {
        return help;
    }
    let mut lines = vec![help];
    let mut known: Vec<&Key> = Vec::new();
    for entry in &catalogue.entries {
        for key in &entry.keys {
            if !known.contains(&key) {
                known.push(key);
            }
        }
    }
    let names: Vec<&str> = catalogue.entries.iter().map(|entry| entry.name).collect();
    if catalogue.unnamed().is_none() {
        lines[0] += &format!(" [possible names: {}]", names.join(", "));
    }
    lines.push(String::new());
    for key in known {
        let default = match &key.default {
            Value::Null | Value::Bool(false) => String::new(),
            value => format!(" [default: {}]", plain_value(value)),
        };
        lines.push(format!("- {}: {}{default}", key.name, key.help.trim_end_matches('.')));
    }
    lines.join("\n")
}

/// The beginning of a description: a line of the short help.
#[must_use]
pub fn beginning(help: &str) -> String {
    let help = help.split(" [default").next().unwrap_or_default();
    let end = [". ", ": ", "; ", " ("].iter().filter_map(|stop| help.find(stop)).min();
    let first = help[..end.unwrap_or(help.len())].trim_end_matches('.');
    match first.char_indices().nth(LINE) {
        None => first.to_owned(),
        Some((end, _)) => {
            let end = first[..end].rfind([',', ' ']).unwrap_or(end);
            let cut = first[..end].trim_end_matches([',', ' ']);
            format!("{cut} ...")
        }
    }
}
