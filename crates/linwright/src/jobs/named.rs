//! Schemas of values that have names.

use super::SavedForm;
use linwright_compress::intervention::{Intervention, Lname, Storage};
use linwright_evaluate::{Bos, Join, Scoring, Split};
use linwright_model::checkpoint::Precision;
use linwright_ops::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::marker::PhantomData;

/// Key of a schema with a list of other names for each name.
pub(super) const OTHER_NAMES: &str = "x-other-names";

/// A closed list of names, each with its other names.
pub(super) trait NameList {
    fn names() -> Vec<(&'static str, Vec<&'static str>)>;
}

macro_rules! named {
    (@others) => {
        |_| Vec::new()
    };
    (@others $others:expr) => {
        $others
    };
    ($($type:ty $(, $others:expr)?;)*) => {
        $(impl NameList for $type {
            fn names() -> Vec<(&'static str, Vec<&'static str>)> {
                let others: fn(Self) -> Vec<&'static str> = named!(@others $($others)?);
                <$type>::ALL.iter().map(|value| (value.name(), others(*value))).collect()
            }
        })*
    };
}

named! {
    Bos;
    Intervention;
    Join;
    Lname, Lname::other_names;
    Precision;
    Role, |role| role.other_names().to_vec();
    SavedForm;
    Scoring;
    Split;
    Storage;
}

/// The forms of a job that edits a model: directories with `config.json`.
pub(super) struct EditedForms;

impl NameList for EditedForms {
    fn names() -> Vec<(&'static str, Vec<&'static str>)> {
        SavedForm::EDITED.iter().map(|form| (form.name(), Vec::new())).collect()
    }
}

/// The schema of a named value: the list of its names.
pub(super) struct Names<T>(PhantomData<T>);

impl<T: NameList> JsonSchema for Names<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let (names, others): (Vec<_>, Vec<_>) = T::names().into_iter().unzip();
        json_schema!({"type": "string", "enum": names, OTHER_NAMES: others})
    }
}
