//! Recipes: complete descriptions of a run, in YAML.
//!
//! Unknown keys are errors that suggest the nearest valid key. A recipe names the model, the
//! calibration text, the evaluation, and one or more tables of methods on nested sets of layers.

use crate::methods::{DenseMethod, MethodSpec};
use crate::plan::{Edit, Plan, SlotSet};
use crate::{Size, Unit};
use linwright_data::Format;
use linwright_evaluate::{Bos, DataFile, Join};
use linwright_model::{Role, Split};
use linwright_ops::OpSpec;
use linwright_run::spelling::distance;
use linwright_run::{input, shown, shown_reason};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Size limit of a recipe in bytes.
pub const MAX_BYTES: u64 = 1 << 22;

/// Supported version of the recipe format.
pub const VERSION: u32 = 1;

/// Name of the built-in model, text and questions.
pub const POCKET: &str = "pocket";

/// A complete run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Version of the format, now 1.
    pub version: u32,
    /// Heading of the report.
    pub title: String,
    /// A checkpoint directory, or `pocket`.
    pub model: String,
    /// Seeds, with one run of every row each: they determine the order of calibration documents and
    /// all random starts.
    #[serde(default = "Recipe::default_seeds")]
    pub seeds: Vec<u64>,
    /// Text for statistics and training samples.
    pub calibration: CalibrationSource,
    /// Evaluation of the dense model and of every edited one.
    pub eval: Evaluation,
    /// The tables.
    pub tables: Vec<Table>,
}

/// Source of calibration text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationSource {
    /// A text or JSONL file, columns, or `pocket`.
    pub dataset: String,
    /// Field or column with the text; `text` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_field: Option<String>,
    /// Largest number of tokens.
    #[serde(default = "CalibrationSource::default_tokens")]
    pub num_tokens: usize,
    /// Window in tokens.
    #[serde(default = "CalibrationSource::default_window")]
    pub seq_len: usize,
    /// Division of windows into training and validation.
    #[serde(default)]
    pub split: Split,
    /// Beginning-of-sequence token at the start of documents.
    #[serde(default)]
    pub bos: Bos,
}

/// Evaluation of models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// A text or JSONL file or columns for perplexity, or `pocket`.
    pub text: String,
    /// Field or column with the text; `text` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_field: Option<String>,
    /// Window in tokens.
    #[serde(default = "Evaluation::default_window")]
    pub window: usize,
    /// Stride in tokens; the window by default.
    #[serde(default)]
    pub stride: Option<usize>,
    /// Beginning-of-sequence token at the start of documents.
    #[serde(default)]
    pub bos: Bos,
    /// Whether documents are scored separately or joined.
    #[serde(default)]
    pub join: Join,
    /// A file of questions with choices, or `pocket`.
    #[serde(default)]
    pub questions: Option<String>,
    /// Further tasks: names, and paths of task files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Data sets of these tasks, `TASK=FILE` or `TASK:SPLIT=FILE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataFile>,
    /// Number of few-shot examples of these tasks; by default that of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_fewshot: Option<usize>,
    /// Number of documents and of questions to use, from the first; by default all.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Whether documents and questions that share word n-grams with the calibration text are left
    /// out ([`linwright_data::Overlap`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_overlap: bool,
}

/// Methods compared on the same sets of layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Heading.
    pub title: String,
    /// Sets of layers.
    pub layers: Vec<Vec<usize>>,
    /// Replaced roles.
    #[serde(default = "Table::default_targets")]
    pub targets: Vec<String>,
    /// Method that heals the output projection after the replacement; `null` leaves it unchanged.
    #[serde(default = "Table::default_output")]
    pub output_projection: Option<DenseMethod>,
    /// The rows.
    pub methods: Vec<Row>,
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

impl Recipe {
    fn default_seeds() -> Vec<u64> {
        vec![0]
    }
}

impl CalibrationSource {
    fn default_tokens() -> usize {
        40_000
    }

    fn default_window() -> usize {
        256
    }
}

impl Evaluation {
    fn default_window() -> usize {
        512
    }
}

impl Table {
    fn default_targets() -> Vec<String> {
        [Role::Query, Role::Key, Role::Value].map(|role| role.name().to_owned()).into()
    }

    #[allow(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
    fn default_output() -> Option<DenseMethod> {
        Some(DenseMethod::default())
    }

    /// The plan of a row for a set of layers.
    #[must_use]
    pub fn plan(&self, row: &Row, layers: &[usize], seed: u64) -> Plan {
        let sites = |roles: &[String]| SlotSet::with_roles(roles, Some(layers.to_vec()));
        let (method, size) = (row.fit.clone(), row.size);
        let mut edits = vec![Edit { sites: sites(&self.targets), method, size, heals: false }];
        if let Some(output) = self.output_projection {
            let (sites, method) = (sites(&[Role::Output.to_string()]), MethodSpec::Dense(output));
            edits.push(Edit { sites, method, size: None, heals: true });
        }
        Plan { edits, seed }
    }
}

impl Row {
    /// Label in the table.
    #[must_use]
    pub fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.fit.label(self.size))
    }
}

/// An unusable recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// An unreadable file.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Invalid YAML, or an invalid recipe.
    #[error("{path}: {reason}{suggestion}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The error of the parser, with the position.
        reason: String,
        /// The nearest valid key, if a key was unknown.
        suggestion: String,
    },
    /// An invalid value.
    #[error("{path}: {key} {reason}", key = shown(key))]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Reads a recipe.
///
/// # Errors
/// [`RecipeError`] naming file, position and, for an unknown key, the nearest valid one.
pub fn read(path: &Path) -> Result<Recipe, RecipeError> {
    let text = input::read_text(path, MAX_BYTES)
        .map_err(|source| RecipeError::Io { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Parses a recipe; `path` is its name in messages.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Recipe, RecipeError> {
    let recipe: Recipe =
        serde_saphyr::from_str(text).map_err(|error| form(path, &error.to_string()))?;
    check(path, &recipe)?;
    Ok(recipe)
}

/// Parses an operator specification, `{kind: block_hadamard, depth: 2}`, in YAML or JSON, or a kind
/// alone, in which hyphens count as underscores.
///
/// # Errors
/// [`RecipeError::Form`] with the nearest valid kind or key.
pub fn operator(text: &str) -> Result<OpSpec, RecipeError> {
    let whole = match text.contains('{') {
        true => text.to_owned(),
        false => format!("{{kind: {}}}", text.replace('-', "_")),
    };
    serde_saphyr::from_str(&whole).map_err(|error| form(Path::new(text), &error.to_string()))
}

pub(crate) fn form(path: &Path, reason: &str) -> RecipeError {
    let suggestion = advice(reason).map_or_else(String::new, |advice| format!("\n{advice}"));
    RecipeError::Form { path: path.to_owned(), reason: shown_reason(reason), suggestion }
}

fn check(path: &Path, recipe: &Recipe) -> Result<(), RecipeError> {
    let found = check_values(recipe)
        .and_then(|()| check_text_fields(recipe))
        .and_then(|()| recipe.tables.iter().enumerate().try_for_each(|(k, t)| check_table(k, t)))
        .and_then(|()| check_names(recipe));
    found.map_err(|Wrong { key, reason }| RecipeError::Value { path: path.to_owned(), key, reason })
}

/// A key, and what is wrong with its value.
struct Wrong {
    key: String,
    reason: String,
}

fn wrong<T>(key: impl Into<String>, reason: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { key: key.into(), reason: reason.into() })
}

/// The first repeated value of a list.
fn repeated<T: PartialEq>(list: &[T]) -> Option<&T> {
    list.iter().enumerate().find(|(k, value)| list[..*k].contains(value)).map(|(_, value)| value)
}

fn check_values(recipe: &Recipe) -> Result<(), Wrong> {
    let (calibration, eval) = (&recipe.calibration, &recipe.eval);
    if recipe.version != VERSION {
        return wrong("version", format!("is {}, this program supports {VERSION}", recipe.version));
    }
    if recipe.seeds.is_empty() || recipe.tables.is_empty() {
        return wrong("seeds and tables", "must not be empty");
    }
    if let Some(seed) = repeated(&recipe.seeds) {
        return wrong("seeds", format!("has {seed} twice; equal runs are not independent"));
    }
    let least = [
        ("calibration.seq_len", calibration.seq_len, 2),
        ("calibration.num_tokens", calibration.num_tokens, 4),
        ("eval.window", eval.window, 2),
        ("eval.stride", eval.stride.unwrap_or(1), 1),
        ("eval.limit", eval.limit.unwrap_or(1), 1),
    ];
    if let Some((key, found, least)) = least.into_iter().find(|(_, found, least)| found < least) {
        return wrong(key, format!("is {found}, expected at least {least}"));
    }
    if let Some(stride) = eval.stride.filter(|&stride| stride > eval.window) {
        let window = eval.window;
        return wrong("eval.stride", format!("is {stride}, expected at most the window, {window}"));
    }
    if eval.exclude_overlap && eval.join != Join::Separate {
        return wrong(
            "eval.exclude_overlap",
            "excludes documents, which do not exist in joined text; set join: separate",
        );
    }
    let titles: Vec<&str> = recipe.tables.iter().map(|table| table.title.as_str()).collect();
    if let Some(title) = repeated(&titles) {
        return wrong("tables", format!("has two tables titled \"{}\"", shown(title)));
    }
    Ok(())
}

/// Rejects a field for a text without fields, which would be ignored.
fn check_text_fields(recipe: &Recipe) -> Result<(), Wrong> {
    let (calibration, eval) = (&recipe.calibration, &recipe.eval);
    let texts = [
        ("calibration.text_field", &calibration.text_field, &calibration.dataset),
        ("eval.text_field", &eval.text_field, &eval.text),
    ];
    for (key, field, text) in texts {
        let is_plain = text == POCKET || Format::of(Path::new(text)).ok() == Some(Format::Text);
        if field.is_some() && is_plain {
            return wrong(key, format!("has no effect, since {} has no fields", shown(text)));
        }
    }
    Ok(())
}

fn check_table(index: usize, table: &Table) -> Result<(), Wrong> {
    let key = |name: &str| format!("tables[{index}].{name}");
    if table.methods.is_empty() || table.layers.is_empty() || table.targets.is_empty() {
        return wrong(key("methods, layers and targets"), "must not be empty");
    }
    if let Some(role) = repeated(&table.targets) {
        return wrong(key("targets"), format!("has {role} twice"));
    }
    if table.output_projection.is_some()
        && table.targets.iter().any(|word| Role::parse(word) == Some(Role::Output))
    {
        return wrong(
            key("targets"),
            "has output, which output_projection would replace again; set output_projection: null",
        );
    }
    if let Some(set) = table.layers.iter().find(|set| set.is_empty() || repeated(set).is_some()) {
        return wrong(key("layers"), format!("has the set {set:?}; a set names each layer once"));
    }
    if let Some(set) = repeated(&table.layers) {
        return wrong(key("layers"), format!("has the set {set:?} twice"));
    }
    let labels: Vec<String> = table.methods.iter().map(Row::label).collect();
    if let Some(label) = repeated(&labels) {
        return wrong(
            key("methods"),
            format!("has two rows named {}; give them labels", shown(label)),
        );
    }
    for (row, method) in table.methods.iter().enumerate() {
        if let Err(error) = method.fit.check_size(method.size) {
            return wrong(key(&format!("methods[{row}].size")), format!("is wrong: {error}"));
        }
        if let Err(reason) = method.fit.check(method.size) {
            return wrong(key(&format!("methods[{row}].fit")), reason);
        }
    }
    match table.output_projection.map(|output| MethodSpec::Dense(output).check(None)) {
        Some(Err(reason)) => wrong(key("output_projection"), reason),
        _ => Ok(()),
    }
}

/// Rejects two methods with the same label, since plots combine results by label.
fn check_names(recipe: &Recipe) -> Result<(), Wrong> {
    let rows: Vec<&Row> = recipe.tables.iter().flat_map(|table| &table.methods).collect();
    for (k, row) in rows.iter().enumerate() {
        let label = row.label();
        if rows[..k]
            .iter()
            .any(|other| other.label() == label && (&other.fit, other.size) != (&row.fit, row.size))
        {
            return wrong(
                "tables",
                format!(
                    "have two methods with the label {}; give them different ones",
                    shown(&label)
                ),
            );
        }
    }
    Ok(())
}

/// The valid key nearest to an unknown one, from a message such as "unknown field `a`, expected one
/// of b, c".
#[must_use]
pub fn suggestion(message: &str) -> Option<String> {
    let start = message.find("unknown field").or_else(|| message.find("unknown variant"))?;
    let line = message[start..].lines().next()?;
    let unknown = line.split('`').nth(1)?;
    let (_, expected) = line.split_once("expected ")?;
    let keys =
        expected.trim_start_matches("one of ").split([',', ' ']).map(|key| key.trim_matches('`'));
    let nearest =
        keys.filter(|key| !key.is_empty()).map(|key| (distance(unknown, key), key)).min()?;
    (nearest.0 <= 1 + unknown.len() / 2).then(|| nearest.1.to_owned())
}

/// Advice about an unknown word.
fn advice(message: &str) -> Option<String> {
    let is_size = |unit: &Unit| message.contains(&format!("unknown field `{}`", unit.name()));
    if let Some(unit) = Unit::ALL.iter().find(|unit| is_size(unit)) {
        let name = unit.name();
        return Some(format!("a size stands beside its method; write `size: {{{name}: ...}}`"));
    }
    if let Some(key) = suggestion(message) {
        return Some(format!("did you mean `{key}`?"));
    }
    let (_, rest) = message.split_once("unknown variant `")?;
    let (word, _) = rest.split_once('`')?;
    OpSpec::KINDS.contains(&word).then(|| {
        format!(
            "`{word}` is an operator, not a method; write `method: structured, operator: {{kind: {word}}}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
version: 1
title: A test
model: pocket
seeds: [0, 1]
calibration: {dataset: pocket, num_tokens: 1000}
eval: {text: pocket, window: 128, questions: pocket}
tables:
  - title: One
    layers: [[1], [1, 2]]
    methods:
      - {fit: {method: low_rank}, size: {rank: 4}}
      - {label: LR4-trained, fit: {method: low_rank, fit: trained, training: {epochs: 2}}, size: {rank: 4}}
";

    fn error(text: &str) -> String {
        parse(Path::new("r.yaml"), text).expect_err("is refused").to_string()
    }

    #[test]
    fn a_recipe_reads_and_survives_a_round_trip() {
        let recipe = parse(Path::new("r.yaml"), GOOD).expect("reads");
        assert_eq!(recipe.tables[0].methods[0].label(), "LR4-closed");
        let plan = recipe.tables[0].plan(&recipe.tables[0].methods[1], &[1, 2], 1);
        assert_eq!((plan.edits.len(), plan.edits[0].sites.layers.clone()), (2, Some(vec![1, 2])));
        let json = serde_json::to_string(&recipe).expect("is plain data");
        assert_eq!(serde_json::from_str::<Recipe>(&json).expect("reads"), recipe);
    }

    #[test]
    fn unknown_keys_name_the_nearest_valid_one_at_every_depth() {
        for (from, to, expected) in [
            ("seeds:", "seed:", "`seeds`"),
            ("num_tokens", "num_token", "`num_tokens`"),
            ("window:", "windw:", "`window`"),
            ("layers:", "layer:", "`layers`"),
            ("size: {rank: 4}}\n", "size: {rnk: 4}}\n", "`rank`"),
            ("size: {rank: 4}}\n", "siz: {rank: 4}}\n", "`size`"),
            ("epochs", "epoch", "`epochs`"),
            ("method: low_rank}", "method: low_rnk}", "`low_rank`"),
        ] {
            let message = error(&GOOD.replacen(from, to, 1));
            assert!(
                message.contains("r.yaml") && message.contains(&format!("did you mean {expected}")),
                "{message}"
            );
        }
    }

    #[test]
    fn an_operator_in_place_of_a_method_is_told() {
        for kind in ["kronecker", "butterfly", "diagonal_low_rank", "product"] {
            let to = format!("method: {kind}}}");
            let message = error(&GOOD.replacen("method: low_rank}", &to, 1));
            assert!(message.contains(kind), "{message}");
            let is_explained = message.contains("is an operator, not a method");
            assert!(is_explained || message.contains("did you mean `low_rank`?"), "{message}");
        }
        let message = error(&GOOD.replacen("method: low_rank}", "method: kronecker}", 1));
        assert!(message.contains("operator: {kind: kronecker}"), "{message}");
    }

    #[test]
    fn any_operator_is_fitted_by_the_structured_method() {
        let sum = "operator: {kind: sum, terms: [{kind: monarch}, {kind: low_rank, rank: 2}]}";
        let to = format!("method: structured, {sum}, starts: 3}}}}");
        let text = GOOD.replacen("method: low_rank}, size: {rank: 4}}", &to, 1);
        let recipe = parse(Path::new("r.yaml"), &text).expect("parses");
        let rows: Vec<&Row> = recipe.tables.iter().flat_map(|table| &table.methods).collect();
        assert!(rows.iter().any(|row| row.label() == "monarch+low_rank"), "{rows:?}");
        let network = GOOD.replacen(
            "method: low_rank}, size: {rank: 4}}",
            "method: structured, operator: {kind: rotor_network}}}",
            1,
        );
        assert!(error(&network).contains("use method rotor"), "{}", error(&network));
    }

    #[test]
    fn values_without_sense_are_refused_by_key() {
        for (from, to, expected) in [
            ("version: 1", "version: 2", "version is 2"),
            ("[0, 1]", "[]", "must not be empty"),
            ("[0, 1]", "[3, 3]", "seeds has 3 twice"),
            ("rank: 4}", "rank: 0}", "tables[0].methods[0].size is wrong: rank is 0"),
            ("low_rank}", "low_rank, rank: 4}", "beside its method; write `size: {rank: ...}`"),
            ("rank: 4}", "keep: 1.0}", "keep is 1, expected a share between 0 and 1"),
            (", size: {rank: 4}", "", "low_rank needs a size: keep, rank, rho"),
            ("window: 128", "window: 128, stride: 129", "eval.stride is 129"),
            ("window: 128", "text_field: content", "eval.text_field has no effect"),
            (
                "dataset: pocket",
                "dataset: a.txt, text_field: b",
                "calibration.text_field has no effect",
            ),
            ("[[1], [1, 2]]", "[[1, 1]]", "tables[0].layers"),
            ("label: LR4-trained", "label: LR4-closed", "two rows named LR4-closed"),
        ] {
            let message = error(&GOOD.replacen(from, to, 1));
            assert!(message.contains(expected), "{message}");
        }
        assert!(error("").contains("r.yaml"));
        assert!(error("[1, 2").contains("r.yaml"));
    }

    #[test]
    fn one_name_is_one_method_in_all_tables() {
        let second = |rank: &str| {
            let method =
                format!("{{label: LR4-closed, fit: {{method: low_rank}}, size: {{rank: {rank}}}}}");
            format!("{GOOD}  - {{title: Two, layers: [[1]], methods: [{method}]}}\n")
        };
        assert_eq!(parse(Path::new("r.yaml"), &second("4")).expect("reads").tables.len(), 2);
        let message = error(&second("5"));
        assert!(message.contains("two methods with the label LR4-closed"), "{message}");
    }
}
