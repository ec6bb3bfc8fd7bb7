//! What verbs that compare methods on a network share: options, candidates, run and result.

mod cells;
mod cost;
pub(crate) mod heal;
pub(crate) mod names;
pub(crate) mod places;
mod result;
pub(in crate::jobs) mod rows;

use self::heal::Healings;
use self::names::SlotCandidates;
use self::places::Seeds;
use crate::jobs::kit::{Failure, JobError, TermOf, bounds, parse_layer_sets};
pub(in crate::jobs) use cells::{Comparing, run, write};
pub(in crate::jobs) use cost::SlotsCost;
use linwright_compare::{Row, SlotMethod, Way};
use linwright_compress::SlotSet;
pub(in crate::jobs) use result::SlotsCompared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is compared in the linear layers of a network, and how it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComparisonOptions {
    /// Shares of parameters kept in the targeted layers; an empty list in a recipe, where every row
    /// has a size of its own or a standard one.
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(inner(range(min = 0.0, max = 1.0)))]
    pub keep: Vec<f64>,
    /// What is compared, with options in place of the standard ones: `svd,monarch:blocks=4`; `all`
    /// adds the other kinds of operators, and those that are trained [default: closed forms, and
    /// operators that few iterations fit]. `label=TEXT` names a row, so that a method has several;
    /// `size=rank=4` is a size of its own.
    #[schemars(extend("x-value" = "NAME:KEY=VALUE"))]
    pub methods: Vec<TermOf<SlotCandidates>>,
    /// Leave out random factors and rounded weights.
    pub no_controls: bool,
    /// Layers to replace, counted from zero: `1`, `0,2`, `0-1` [default: all]. Sets of layers,
    /// divided by slashes, are replaced one after the other: `0/1/0-1`.
    pub layers: Option<String>,
    /// Roles of linear layers to replace, such as conv in a network of images, or mixing in a
    /// potential [default: all].
    #[schemars(extend("x-value" = "ROLE"))]
    pub roles: Vec<String>,
    /// Names of linear layers to replace: a glob such as `fc*`, or a regular expression after `re:`
    /// [default: all].
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub sites: Vec<String>,
    /// Names of linear layers to leave unchanged: a glob or, after `re:`, a regular expression.
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub ignore: Vec<String>,
    /// Linear layers to refit after every replacement: `roles=linear,layers=2`, with
    /// `ridge=0.001` or `fit=trained,epochs=4` [default: none].
    #[schemars(extend("x-value" = "KEY=VALUE"))]
    pub heal: Vec<TermOf<Healings>>,
    /// Names of rows with which all others are compared, item by item.
    #[schemars(extend("x-value" = "ROW", "x-whole" = true))]
    pub against: Vec<String>,
    /// Seed of random factors and initial parameters, and of the order of what is fitted to
    /// [default: 0]. With several, the report has means and standard deviations.
    #[schemars(extend("x-value" = "SEED"))]
    #[schemars(with = "Vec<u64>", inner(range(min = 0, max = bounds::SEED)))]
    pub seed: Seeds,
    /// Title of the report.
    pub title: String,
    /// List the rows with their parameters, estimate the time of the fits, and stop.
    pub dry_run: bool,
}

impl Default for ComparisonOptions {
    fn default() -> Self {
        Self {
            keep: vec![0.8, 0.6],
            methods: Vec::new(),
            no_controls: false,
            layers: None,
            roles: Vec::new(),
            sites: Vec::new(),
            ignore: Vec::new(),
            heal: Vec::new(),
            against: Vec::new(),
            seed: Seeds::default(),
            title: "Comparison of methods".to_owned(),
            dry_run: false,
        }
    }
}

impl ComparisonOptions {
    /// The layers that are replaced, but for their numbers.
    fn slots(&self) -> SlotSet {
        SlotSet {
            roles: self.roles.clone(),
            patterns: self.sites.clone(),
            ignore: self.ignore.clone(),
            ..SlotSet::default()
        }
    }

    /// Sets of layers; none if all are replaced.
    fn sets(&self) -> Result<Option<Vec<Vec<usize>>>, JobError> {
        self.layers.as_deref().map(|text| parse_layer_sets("layers", text)).transpose()
    }

    /// The rows.
    ///
    /// # Errors
    /// [`Failure`] for shares and options that cannot be, and for two rows of one name.
    pub(in crate::jobs) fn rows(&self) -> Result<Vec<Row<SlotMethod>>, Failure> {
        self.rows_of(|_| true)
    }

    /// The rows with linear operators. Others may not be named; `all` does not include them.
    ///
    /// # Errors
    /// As [`Self::rows`], and for one that is not linear.
    pub(in crate::jobs) fn linear_rows(&self) -> Result<Vec<Row<SlotMethod>>, Failure> {
        let rows = self.rows_of(SlotMethod::is_linear)?;
        match rows.iter().map(|row| &row.candidate).find(|method| !method.is_linear()) {
            // Of the components of a vector, only linear maps of channels turn with it.
            Some(method) => Err(Failure::usage(format!(
                "--methods {}: its operator is not linear, so energies would depend on the \
                 orientation",
                method.name()
            ))
            .hint("choose linear operators, such as monarch: `linwright ls operators`")),
            None => Ok(rows),
        }
    }

    fn rows_of(
        &self,
        is_possible: fn(&SlotMethod) -> bool,
    ) -> Result<Vec<Row<SlotMethod>>, Failure> {
        check_keeps(&self.keep)?;
        places::check_seeds(&self.seed)?;
        self.sets()?;
        Ok(names::slot_methods(&self.methods, is_possible, &self.keep, !self.no_controls)?)
    }
}

/// Checks a share of examples for validation.
///
/// # Errors
/// [`Failure`] unless it is between 0 and 1.
pub(in crate::jobs) fn check_validation(share: Option<f64>) -> Result<Option<f64>, Failure> {
    match share.filter(|share| !(*share > 0.0 && *share < 1.0)) {
        Some(share) => Err(Failure::usage(format!(
            "--calibration validation={share}: expected a share between 0 and 1"
        ))),
        None => Ok(share),
    }
}

/// Checks the shares of a comparison.
///
/// # Errors
/// [`Failure`] for one that is no share, and for one twice.
pub(in crate::jobs) fn check_keeps(keeps: &[f64]) -> Result<(), Failure> {
    if let Some(keep) = keeps.iter().find(|keep| !(**keep > 0.0 && **keep < 1.0)) {
        return Err(Failure::usage(format!("--keep {keep}: expected shares between 0 and 1"))
            .hint("the dense model is always in the table"));
    }
    match (1..keeps.len()).find(|at| keeps[..*at].contains(&keeps[*at])) {
        Some(at) => Err(Failure::usage(format!("--keep names {} twice", keeps[at]))),
        None => Ok(()),
    }
}
