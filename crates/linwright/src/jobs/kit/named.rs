//! Schemas of values that have names.

use super::Name;
use linwright_attribute::{Element, Method, Reduction, Target};
use linwright_collapse::depth::{Architecture, Norming, StrengthRule};
use linwright_collapse::optimum::Fit;
use linwright_compress::allocate::Allocator;
use linwright_compress::intervention::{FusedPart, Intervention, Lname, Storage};
use linwright_compress::methods::Whitening;
use linwright_data::images::ImageFormat;
use linwright_evaluate::{Bos, Join, Scoring, Split};
use linwright_flow::SqueezeOrder;
use linwright_lm::prune::{Criterion, LayerOrder};
use linwright_measure::inspect::report::By;
use linwright_measure::vendi::Diversity;
use linwright_model::Role;
use linwright_model::checkpoint::Precision;
use linwright_molecule::relaxation::Minimiser;
use linwright_nets::Loss;
use linwright_train::OptimizerKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::marker::PhantomData;

/// Key of a schema with a list of other names for each name.
pub(crate) const OTHER_NAMES: &str = "x-other-names";

/// Key of a schema with a sentence on each name, or none.
pub(crate) const HELP: &str = "x-help";

/// A closed list of names, each with its other names.
pub(crate) trait NameList {
    fn names() -> Vec<Name>;
}

/// Lists of names of types with `ALL` and `name`.
macro_rules! named {
    (@others) => {
        |_| Vec::new()
    };
    (@others $others:expr) => {
        $others
    };
    ($($type:ty $(, $others:expr)?;)*) => {
        $(impl $crate::jobs::kit::named::NameList for $type {
            fn names() -> Vec<$crate::jobs::kit::Name> {
                use $crate::jobs::kit::Name;
                let others: fn(Self) -> Vec<&'static str> = named!(@others $($others)?);
                let name = |value: &Self| Name::new(value.name()).with_others(&others(*value));
                <$type>::ALL.iter().map(name).collect()
            }
        })*
    };
}

pub(crate) use named;

named! {
    Allocator;
    Architecture;
    Bos;
    Criterion;
    Diversity;
    Element;
    By;
    Fit;
    FusedPart;
    ImageFormat;
    Intervention;
    Join;
    LayerOrder;
    Lname, Lname::other_names;
    Loss;
    Method;
    Minimiser;
    Norming;
    OptimizerKind;
    Precision;
    Reduction;
    Role, |role| role.other_names().to_vec();
    Scoring;
    Split;
    SqueezeOrder;
    Storage;
    StrengthRule;
    Target;
    Whitening;
}

/// The schema of a named value: the list of its names.
pub(crate) struct Names<T>(PhantomData<T>);

impl<T: NameList> JsonSchema for Names<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let list = T::names();
        let names: Vec<&str> = list.iter().map(|name| name.name.as_str()).collect();
        let others: Vec<&[String]> = list.iter().map(|name| name.others.as_slice()).collect();
        let helps: Vec<Option<&str>> = list.iter().map(|name| name.help.as_deref()).collect();
        json_schema!({"type": "string", "enum": names, OTHER_NAMES: others, HELP: helps})
    }
}
