//! Paths that a job writes, as types of their own.
//!
//! They say where a job works, not what it computes: records leave them out, `reproduce` takes none
//! of them from a record, and below a recipe they stay inside its directory. An option of one of
//! these types tells all of that by its schema.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Key of a schema that says how the path of an option is written.
pub(crate) const WRITTEN: &str = "x-written";

/// What a job does at a path that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Puts a result there.
    Result,
    /// Keeps work there that later commands read, too: a checkpoint, or a store of pieces.
    State,
    /// Adds to what is there already: the path is an input as well.
    InPlace,
}

impl Written {
    const ALL: [Self; 3] = [Self::Result, Self::State, Self::InPlace];

    fn name(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::State => "state",
            Self::InPlace => "in-place",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|written| written.name() == name)
    }
}

macro_rules! written_paths {
    ($($(#[$doc:meta])* $name:ident is $written:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub PathBuf);

        impl Deref for $name {
            type Target = Path;

            fn deref(&self) -> &Path {
                &self.0
            }
        }

        impl AsRef<Path> for $name {
            fn as_ref(&self) -> &Path {
                &self.0
            }
        }

        impl<P: Into<PathBuf>> From<P> for $name {
            fn from(path: P) -> Self {
                Self(path.into())
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string", "x-path": true, WRITTEN: Written::$written.name(),
                })
            }
        }
    )*};
}

written_paths! {
    /// Where a job puts a result: see [`Written::Result`].
    OutputPath is Result;
    /// Where a job keeps work for later commands: see [`Written::State`].
    StatePath is State;
    /// What a job reads and adds to: see [`Written::InPlace`].
    ChangedPath is InPlace;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::VERBS;
    use crate::jobs::kit::{Field, Kind, Verb};
    use serde_json::{Map, Value};

    /// Options of text that name no file: names of things, lists of numbers, sizes, titles.
    const WORDS: &[&str] = &[
        "against",
        "base_model",
        "batch_size",
        "chat_template_args",
        "compress",
        "damping",
        "dampings",
        "data",
        "date",
        "documents",
        "dtype",
        "examples",
        "filter",
        "gamma",
        "group",
        "groups",
        "ignore",
        "inputs_tensor",
        "layer",
        "layers",
        "leave_out",
        "lnum",
        "max_memory",
        "metric",
        "operator",
        "prompt",
        "relevant",
        "resize",
        "roles",
        "separator",
        "set",
        "shard_size",
        "size",
        "sites",
        "species",
        "system_instruction",
        "tensor",
        "text_field",
        "title",
        "units",
        "validation",
        "without",
        "wrong",
    ];

    /// Options of text that are read, and tell their inputs only where there is something to read.
    const READ: [(&str, &str); 2] = [("run", "model"), ("train-lm", "tokenizer")];

    /// A job with this path as the value of an option, if that can be its value.
    fn with_path(verb: &Verb, field: &Field, path: &str) -> Option<Vec<PathBuf>> {
        let fields = (verb.fields)();
        let value = |field: &Field, text: &str| match field.is_list {
            true => Value::from(vec![text]),
            false => text.into(),
        };
        let mut needed: Vec<&Field> = fields.iter().filter(|other| other.is_required).collect();
        let mut wanted = field.requires.clone();
        while let Some(key) = wanted.pop() {
            let other = fields.iter().find(|other| other.key == key)?;
            if !needed.contains(&other) {
                needed.push(other);
                wanted.extend(other.requires.clone());
            }
        }
        let mut options = Map::new();
        for other in needed {
            let own = match &other.kind {
                Kind::Number { .. } => 0.5.into(),
                _ => value(other, "pocket"),
            };
            options.insert(other.key.clone(), own);
        }
        options.insert(field.key.clone(), value(field, path));
        (verb.read)(&options).ok().map(|job| job.inputs())
    }

    /// What is wrong with an option of text, if anything is.
    fn fault(verb: &Verb, field: &Field) -> Option<&'static str> {
        const PATH: &str = "some/where";
        let inputs = with_path(verb, field, PATH).unwrap_or_default();
        let is_read = inputs.iter().any(|path| path.starts_with(PATH));
        match field.written {
            Some(Written::Result | Written::State) if is_read => Some("written, and an input"),
            Some(Written::Result | Written::State) if !field.is_path => Some("no path"),
            Some(Written::InPlace) if !is_read => Some("changed in place, and no input"),
            Some(_) => None,
            None if READ.contains(&(verb.name, &*field.key)) => None,
            None if is_read || (!field.is_path && WORDS.contains(&&*field.key)) => None,
            None => Some("neither written nor an input nor one of the words of this test"),
        }
    }

    #[test]
    fn every_option_of_text_is_read_or_written_or_no_path() {
        let mut faults = Vec::new();
        for verb in VERBS {
            for field in (verb.fields)().iter().filter(|field| field.kind == Kind::Text) {
                let fault = fault(verb, field);
                faults.extend(fault.map(|what| format!("{} {}: {what}", verb.name, field.key)));
            }
        }
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
