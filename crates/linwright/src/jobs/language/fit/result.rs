//! Fits of structured operators, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_compress::fit::{FamilyFit, FamilyRefusal};
use linwright_ops::OpSpec;
use linwright_report::number::{grouped, percent};
use linwright_report::{Block, Document, Report};
use serde::{Deserialize, Serialize};

/// Structured operators that were fitted to a matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FitResult {
    /// The target.
    pub(crate) target: String,
    /// Rows that become those of the target, if they were given.
    pub(crate) inputs: Option<String>,
    /// Numbers of an output.
    pub(crate) out: usize,
    /// Numbers of an input.
    pub(crate) inp: usize,
    /// Number of rows, if they were given.
    pub(crate) samples: Option<usize>,
    /// The fits.
    pub(crate) fits: Vec<OperatorFit>,
    /// Kinds that have no operator of this shape or size.
    pub(crate) refused: Vec<FamilyRefusal>,
    /// The directory; no file in it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
}

/// A fitted operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OperatorFit {
    /// Kind of the operator.
    kind: String,
    /// The operator.
    operator: OpSpec,
    /// Share of the parameters that was asked for.
    keep: Option<f64>,
    /// Its parameters.
    parameters: usize,
    /// Their share of the dense ones.
    share: f64,
    /// Relative squared error.
    error: f64,
    /// How it was fitted.
    procedure: String,
    /// Iterations of the fit.
    iterations: u64,
    /// Largest singular value, if known.
    norm: Option<f64>,
    /// Condition, if it can be inverted.
    condition: Option<f64>,
}

impl OperatorFit {
    pub(super) fn of(fit: &FamilyFit) -> Self {
        Self {
            kind: fit.kind().to_owned(),
            operator: fit.spec().clone(),
            keep: fit.keep,
            parameters: fit.parameters,
            share: fit.share,
            error: fit.error,
            procedure: fit.procedure().name().to_owned(),
            iterations: fit.fit.iterations,
            norm: fit.singular.map(|range| range.norm),
            condition: fit.singular.and_then(|range| range.condition),
        }
    }

    /// A short name: the kind and the number that gives its size.
    fn label(&self) -> String {
        match &self.operator {
            OpSpec::LowRank(spec) => format!("low_rank {}", spec.rank),
            OpSpec::DiagonalLowRank(spec) => format!("diagonal_low_rank {}", spec.rank),
            OpSpec::CirculantDiagonal(spec) => format!("circulant_diagonal {}", spec.factors),
            spec => spec.kind().to_owned(),
        }
    }
}

impl Report for FitResult {
    const KIND: &'static str = "fit";

    fn document(&self) -> Document {
        let row = |fit: &OperatorFit| {
            vec![
                fit.label(),
                grouped(fit.parameters as u64),
                percent(fit.share),
                format!("{:.4e}", fit.error),
                fit.condition.map_or_else(|| "-".into(), |condition| format!("{condition:.1e}")),
                fit.procedure.clone(),
            ]
        };
        let heads = ["operator", "parameters", "of dense", "relative error", "condition", "fit"];
        let mut blocks = vec![table(&heads, self.fits.iter().map(row).collect())];
        if !self.refused.is_empty() {
            let line = |refusal: &FamilyRefusal| format!("{}: {}", refusal.kind, refusal.reason);
            blocks.push(Block::Notes(self.refused.iter().map(line).collect()));
        }
        blocks.extend(self.output.as_ref().map(|path| text([format!("wrote {path}")])));
        page(blocks)
    }
}
