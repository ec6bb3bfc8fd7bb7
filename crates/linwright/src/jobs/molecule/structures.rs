//! Structures as options of comparisons: a file, and which of its structures.

use crate::jobs::kit::{Catalogue, Failure, Terms, bounds};
use linwright_data::Indices;
use linwright_molecule::Units;
use linwright_run::shown;
use linwright_trial::MoleculeTrialError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Structures to fit to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FittedStructures {
    /// Structures in extended XYZ.
    #[schemars(extend("x-path" = true))]
    pub structures: PathBuf,
    /// Use these structures only: indices from zero such as `0-949`.
    pub examples: Option<String>,
    /// Structures of a batch [default: 10].
    #[schemars(range(min = 1, max = bounds::BATCH))]
    pub batch: Option<usize>,
    /// Share of the structures for validation, the last ones in the order of a seed [default: 0.1].
    #[schemars(range(min = 0.0, max = 1.0))]
    pub validation: Option<f64>,
}

static FITTED: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::with_head::<FittedStructures>("structures", "structures", "structures to fit to")
});

impl Terms for FittedStructures {
    const NAME: &'static str = "fitted_structures";

    fn catalogue() -> &'static Catalogue {
        &FITTED
    }
}

/// Structures to score potentials on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScoredStructures {
    /// Structures in extended XYZ, with forces.
    #[schemars(extend("x-path" = true))]
    pub structures: PathBuf,
    /// Use these structures only: indices from zero such as `0-199`.
    pub examples: Option<String>,
}

static SCORED: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::with_head::<ScoredStructures>("structures", "structures", "structures with forces")
});

impl Terms for ScoredStructures {
    const NAME: &'static str = "scored_structures";

    fn catalogue() -> &'static Catalogue {
        &SCORED
    }
}

/// Units of an option, if any are named.
///
/// # Errors
/// [`Failure`] for units that are not known.
pub(super) fn parse_units(units: Option<&str>) -> Result<Option<Units>, Failure> {
    let read = units.map(Units::parse).transpose();
    Ok(read.map_err(|error| MoleculeTrialError::molecule("--units", error))?)
}

/// Indices of structures of an option.
///
/// # Errors
/// [`Failure`] for a list that cannot be read.
pub(super) fn chosen(option: &str, list: Option<&str>) -> Result<Option<Indices>, Failure> {
    let read = |list: &str| {
        let wrong = |why| Failure::usage(format!("{option} examples={}: {why}", shown(list)));
        Indices::parse(list).map_err(wrong)
    };
    list.map(read).transpose()
}
