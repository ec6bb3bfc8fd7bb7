//! Schemas of values that have names.

use linwright_compress::intervention::{Intervention, Lname, Storage};
use linwright_evaluate::{Bos, Join, Scoring, Split};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::marker::PhantomData;

/// Key of a schema with a list of other names for each name.
pub(super) const OTHER_NAMES: &str = "x-other-names";

/// A closed list of values with names.
pub(super) trait Named: Copy + 'static {
    const VALUES: &'static [Self];
    fn named(self) -> &'static str;
    fn other_names(self) -> Vec<&'static str> {
        Vec::new()
    }
}

macro_rules! named {
    ($($type:ty $(, $others:path)?;)*) => {
        $(impl Named for $type {
            const VALUES: &'static [Self] = &<$type>::ALL;

            fn named(self) -> &'static str {
                self.name()
            }

            $(fn other_names(self) -> Vec<&'static str> {
                $others(self)
            })?
        })*
    };
}

named! {
    Bos;
    Intervention;
    Join;
    Lname, Lname::other_names;
    Scoring;
    Split;
    Storage;
}

/// The schema of a named value: the list of its names.
pub(super) struct Names<T>(PhantomData<T>);

impl<T: Named> JsonSchema for Names<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = T::VALUES.iter().map(|value| value.named()).collect();
        let others: Vec<_> = T::VALUES.iter().map(|value| value.other_names()).collect();
        json_schema!({"type": "string", "enum": names, OTHER_NAMES: others})
    }
}
