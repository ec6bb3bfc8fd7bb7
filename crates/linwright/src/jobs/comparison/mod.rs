//! What verbs that compare methods on a network share: options, candidates, run and result.

mod cells;
pub(crate) mod names;
mod result;

use self::names::SlotCandidates;
use crate::jobs::kit::{Failure, JobError, TermOf, bounds, parse_layers};
pub(in crate::jobs) use cells::{Comparing, run, write};
use linwright_compare::{SlotMethod, Way};
use linwright_compress::SlotSet;
pub(in crate::jobs) use result::SlotsCompared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is compared in the linear layers of a network, and how it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComparisonOptions {
    /// Shares of parameters kept in the targeted layers.
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(inner(range(min = 0.0, max = 1.0)))]
    pub keep: Vec<f64>,
    /// What is compared, with options in place of the standard ones: `svd,monarch:blocks=4`; `all`
    /// adds the other kinds of operators, and those that are trained [default: closed forms, and
    /// operators that few iterations fit].
    #[schemars(extend("x-value" = "NAME:KEY=VALUE"))]
    pub methods: Vec<TermOf<SlotCandidates>>,
    /// Leave out random factors and rounded weights.
    pub no_controls: bool,
    /// Layers to replace, counted from zero: `1`, `0,2`, `0-1` [default: all].
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
    /// Seed of random factors and initial parameters, and of the order of what is fitted to.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Title of the report.
    pub title: String,
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
            seed: 0,
            title: "Comparison of methods".to_owned(),
        }
    }
}

impl ComparisonOptions {
    /// The layers that are replaced.
    ///
    /// # Errors
    /// [`JobError`] if `layers` names none, or one twice.
    fn slots(&self) -> Result<SlotSet, JobError> {
        let layers = self.layers.as_deref().map(|text| parse_layers("layers", text)).transpose()?;
        Ok(SlotSet {
            roles: self.roles.clone(),
            layers,
            patterns: self.sites.clone(),
            ignore: self.ignore.clone(),
            ..SlotSet::default()
        })
    }

    /// The candidates.
    ///
    /// # Errors
    /// [`Failure`] for shares and options that cannot be, and for a name with two sets of options.
    pub(in crate::jobs) fn candidates(&self) -> Result<Vec<SlotMethod>, Failure> {
        check_keeps(&self.keep)?;
        Ok(names::slot_methods(&self.methods, |_| true, !self.no_controls)?)
    }

    /// The candidates with linear operators. Others may not be named; `all` does not include them.
    ///
    /// # Errors
    /// As [`Self::candidates`], and for one that is not linear.
    pub(in crate::jobs) fn linear_candidates(&self) -> Result<Vec<SlotMethod>, Failure> {
        check_keeps(&self.keep)?;
        let found = names::slot_methods(&self.methods, SlotMethod::is_linear, !self.no_controls)?;
        match found.iter().find(|method| !method.is_linear()) {
            // Of the components of a vector, only linear maps of channels turn with it.
            Some(method) => Err(Failure::usage(format!(
                "--methods {}: its operator is not linear, so energies would depend on the \
                 orientation",
                method.name()
            ))
            .hint("choose linear operators, such as monarch: `linwright ls operators`")),
            None => Ok(found),
        }
    }
}

/// Checks the shares of a comparison.
///
/// # Errors
/// [`Failure`] for none, for one that is no share, and for one twice.
pub(in crate::jobs) fn check_keeps(keeps: &[f64]) -> Result<(), Failure> {
    if let Some(keep) = keeps.iter().find(|keep| !(**keep > 0.0 && **keep < 1.0)) {
        return Err(Failure::usage(format!("--keep {keep}: expected shares between 0 and 1"))
            .hint("the dense model is always in the table"));
    }
    if keeps.is_empty() {
        return Err(Failure::usage("--keep names no share").hint("give --keep 0.8,0.6"));
    }
    match (1..keeps.len()).find(|at| keeps[..*at].contains(&keeps[*at])) {
        Some(at) => Err(Failure::usage(format!("--keep names {} twice", keeps[at]))),
        None => Ok(()),
    }
}
