//! Parts of fused weights: one projection of a matrix that holds several.

use crate::intervention::Done;
use crate::intervention::patched::Patched;
use crate::methods::LaserMethod;
use crate::{CompressError, FitError};
use linwright_ops::{Dense, LinearSlot, Op, SiteId, Sites};
use linwright_tensor::Mat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A projection within a fused weight. LASER cuts fused weights as a whole, while those of other
/// families are cut one by one: a part is what corresponds to one of these.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FusedPart {
    /// The query of one matrix of query, key and value.
    Query,
    /// The key of one matrix of query, key and value.
    Key,
    /// The value of one matrix of query, key and value.
    Value,
    /// The gate of one matrix of gate and up projection.
    Gate,
    /// The up projection of one matrix of gate and up projection.
    Up,
}

impl FusedPart {
    /// All parts.
    pub const ALL: [Self; 5] = [Self::Query, Self::Key, Self::Value, Self::Gate, Self::Up];

    /// Its name: the role of the projection alone.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Key => "key",
            Self::Value => "value",
            Self::Gate => "gate",
            Self::Up => "up",
        }
    }

    /// The role of the weights that it is a part of.
    #[must_use]
    pub const fn of_role(self) -> &'static str {
        match self {
            Self::Query | Self::Key | Self::Value => "query_key_value",
            Self::Gate | Self::Up => "gate_up",
        }
    }

    /// Its output rows in a slot.
    ///
    /// # Errors
    /// [`CompressError::NoPart`] if the slot has no such part.
    pub fn rows(self, network: &impl Sites, site: &SiteId) -> Result<Vec<usize>, CompressError> {
        network
            .part_rows(site, self.name())
            .ok_or_else(|| CompressError::NoPart { site: site.clone(), part: self.name() })
    }
}

/// The weight that a cut changes: a whole one, or the rows of a part.
pub struct Cuttable {
    /// What is cut.
    pub weight: Mat<f32>,
    /// The fused weight and the rows of the part in it.
    fused: Option<(Mat<f32>, Vec<usize>)>,
}

impl Cuttable {
    /// The weight of a slot, or the part of it in these rows.
    pub fn new(weight: Mat<f32>, rows: Option<&[usize]>) -> Self {
        let Some(rows) = rows else { return Self { weight, fused: None } };
        let part = Mat::from_fn(rows.len(), weight.cols(), |i, j| weight.at(rows[i], j));
        Self { weight: part, fused: Some((weight, rows.to_vec())) }
    }

    /// The cut for the slot: of a part, the fused weight with its rows replaced, which is dense.
    ///
    /// # Errors
    /// [`FitError`] if the replacement is no matrix.
    pub(crate) fn finish(&self, mut done: Done) -> Result<Done, FitError> {
        let Some((fused, rows)) = &self.fused else { return Ok(done) };
        let part = done.op.to_dense()?;
        assert_eq!(part.rows(), rows.len(), "outputs of the part");
        let mut whole = fused.clone();
        for (row, i) in rows.iter().zip(0..) {
            whole.row_mut(*row).copy_from_slice(part.row(i));
        }
        done.op = Op::Linear(Box::new(Dense::new(whole)));
        done.report.factored = false;
        done.report.dense_parameters = fused.data().len();
        done.report.parameters = fused.data().len();
        done.report.rows.iter_mut().for_each(|row| *row = rows[*row]);
        Ok(done)
    }

    /// An operator for a slot from one for what is cut: of a part, beside the rest of the slot's.
    pub fn in_slot(&self, slot: &LinearSlot, op: Op<f32>) -> Op<f32> {
        match &self.fused {
            None => op,
            Some((_, rows)) => {
                let patched = Patched::new(slot.op().clone(), rows.as_slice().into(), op);
                Op::Linear(Box::new(patched))
            }
        }
    }
}

impl LaserMethod {
    /// The weight of a slot that this method cuts.
    ///
    /// # Errors
    /// [`FitError::Evidence`] if it cuts a part and no rows are given.
    pub(crate) fn cuttable(
        &self,
        weight: Mat<f32>,
        rows: Option<&[usize]>,
    ) -> Result<Cuttable, FitError> {
        match (self.part, rows) {
            (None, _) => Ok(Cuttable::new(weight, None)),
            (Some(_), Some(rows)) => Ok(Cuttable::new(weight, Some(rows))),
            (Some(_), None) => Err(FitError::Evidence {
                needed: "the rows of a part of a fused weight",
                found: "a whole weight",
            }),
        }
    }
}
