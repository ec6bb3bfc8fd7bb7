//! Recipes: complete descriptions of a run, in YAML.
//!
//! Unknown keys are errors that suggest the nearest valid key. A recipe names the model, the
//! calibration data, the evaluation, and one or more tables of methods on nested sets of layers.
//! Of its three kinds, [`Recipe`] studies a language model on text, [`ImageRecipe`] a small network
//! on labelled images, [`MoleculeRecipe`] a molecular potential; tables and checks are the same.

mod check;
mod heal;
mod images;
mod molecules;
#[cfg(test)]
mod tests;
mod text;

use check::{Kind, check};
use linwright_compress::Size;
use linwright_compress::form::{check_text, form};
use linwright_compress::methods::MethodSpec;
use linwright_compress::plan::{Edit, Plan, SlotSet};
use linwright_run::input;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub use heal::Healing;
pub use images::{ImageCalibration, ImageEvaluation, ImageRecipe};
pub use linwright_compress::form::{RecipeError, operator, suggestion};
pub use molecules::{MoleculeRecipe, StructureCalibration, StructureEvaluation, StructureSource};
pub use text::{CalibrationSource, Evaluation};

/// Size limit of a recipe in bytes.
pub const MAX_BYTES: u64 = 1 << 22;

/// Supported version of the recipe format.
pub const VERSION: u32 = 1;

/// Name of the built-in model, text and questions.
pub const POCKET: &str = "pocket";

/// A complete run; of a language model, unless its calibration and evaluation are of another kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe<C = CalibrationSource, E = Evaluation> {
    /// Version of the format, now 1.
    pub version: u32,
    /// Heading of the report.
    pub title: String,
    /// A checkpoint directory, or `pocket`; a description of a small network; a potential.
    pub model: String,
    /// Seeds, with one run of every row each: they determine the order of calibration data and all
    /// random starts.
    #[serde(default = "default_seeds")]
    pub seeds: Vec<u64>,
    /// Data for statistics and training samples.
    pub calibration: C,
    /// Evaluation of the dense model and of every edited one.
    pub eval: E,
    /// The tables.
    pub tables: Vec<Table>,
}

fn default_seeds() -> Vec<u64> {
    vec![0]
}

/// Methods compared on the same sets of layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Heading.
    pub title: String,
    /// Sets of layers.
    pub layers: Vec<Vec<usize>>,
    /// Replaced roles; every slot of the layers if there are none. Where a recipe of text does not
    /// say, reading it puts query, key and value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
    /// Slots that heal after the replacement. Where a recipe of text does not say, reading it puts
    /// the output projection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<Vec<Healing>>,
    /// The rows.
    pub methods: Vec<Row>,
    /// Labels of rows with which all others are compared, item by item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<String>,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Label in the table; that of the method by default.
    #[serde(default)]
    pub label: Option<String>,
    /// The method with its options.
    pub fit: MethodSpec,
    /// Size of what it fits; the method's standard one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
}

impl Table {
    /// The plan of a row for a set of layers.
    #[must_use]
    pub fn plan(&self, row: &Row, layers: &[usize], seed: u64) -> Plan {
        let roles = self.targets.as_deref().unwrap_or_default();
        let sites = SlotSet::with_roles(roles, Some(layers.to_vec()));
        let (method, size) = (row.fit.clone(), row.size);
        let replaced = Edit { sites, method, size, heals: false };
        let healed = self.heal.iter().flatten().map(|healing| healing.edit(layers));
        Plan { edits: std::iter::once(replaced).chain(healed).collect(), seed }
    }
}

impl Row {
    /// Label in the table.
    #[must_use]
    pub fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.fit.label(self.size))
    }
}

/// Reads a recipe of a language model.
///
/// # Errors
/// [`RecipeError`] naming file, position and, for an unknown key, the nearest valid one.
pub fn read(path: &Path) -> Result<Recipe, RecipeError> {
    let text = input::read_text(path, MAX_BYTES)
        .map_err(|source| RecipeError::Io { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Parses a recipe of a language model; `path` is its name in messages.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Recipe, RecipeError> {
    parse_of(path, text)
}

/// Parses a recipe of a small network for images; `path` is its name in messages. It is told from
/// one of text by the key `calibration.images`.
///
/// # Errors
/// As [`read`].
pub fn parse_images(path: &Path, text: &str) -> Result<ImageRecipe, RecipeError> {
    parse_of(path, text)
}

/// Parses a recipe of a molecular potential; `path` is its name in messages. It is told from the
/// others by the key `calibration.structures`.
///
/// # Errors
/// As [`read`].
pub fn parse_molecules(path: &Path, text: &str) -> Result<MoleculeRecipe, RecipeError> {
    parse_of(path, text)
}

fn parse_of<C: Kind>(path: &Path, text: &str) -> Result<Recipe<C, C::Evaluation>, RecipeError> {
    let mut recipe: Recipe<C, C::Evaluation> =
        serde_saphyr::from_str(text).map_err(|error| form(path, &error.to_string()))?;
    check_text(path, text)?;
    for table in &mut recipe.tables {
        table.targets = table.targets.take().or_else(C::targets);
        table.heal.get_or_insert_with(C::heal);
    }
    check(path, &recipe)?;
    Ok(recipe)
}
