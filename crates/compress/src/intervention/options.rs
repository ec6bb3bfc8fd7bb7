//! The options of a cut.

use super::{Decomposition, FusedPart, Intervention, Storage, VendiOptions};
use crate::{Size, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cut of a weight: an intervention with its options. Its size is the part that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LaserMethod {
    /// The removed part.
    pub intervention: Intervention,
    /// Computation of components: `exact`, or `randomised`, which computes only the leading ones;
    /// `{randomised: {oversample: 8, power: 2}}` has numbers of its own.
    pub decomposition: Decomposition,
    /// Storage of the result.
    pub storage: Storage,
    /// As in the paper's code where it differs: `rank-reduction` by a sketch of exactly the rank,
    /// `dropout` of one entry more and of ties, `vendi` with a kernel of width 1.
    pub compat: bool,
    /// Options of `vendi`.
    pub vendi: VendiOptions,
    /// Part of a fused weight that is cut; the rest stays, and the weight is stored dense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<FusedPart>,
}

impl LaserMethod {
    /// An intervention with default options.
    #[must_use]
    pub fn new(intervention: Intervention) -> Self {
        Self { intervention, ..Self::default() }
    }

    /// Checks options and size independently of a weight.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub(crate) fn check_with(&self, size: Size) -> Result<(), String> {
        size.check().map_err(|error| error.to_string())?;
        self.decomposition.check()?;
        let name = self.intervention.name();
        if !self.units().contains(&size.unit()) {
            return Err(format!("{name} has no rank; give rate, rho or keep, not {size}"));
        }
        let by_rank =
            self.intervention.reads_components() || self.intervention == Intervention::Vendi;
        if self.storage == Storage::Factored && !by_rank {
            return Err(format!("{name} has no factors to store"));
        }
        if self.storage == Storage::Factored && self.part.is_some() {
            return Err("a fused weight with one part cut has no factors to store".to_owned());
        }
        if self.vendi != VendiOptions::default() && self.intervention != Intervention::Vendi {
            return Err(format!(
                "{name} selects no rows: quality, minimise and gamma are for vendi"
            ));
        }
        let is_in_code = matches!(
            self.intervention,
            Intervention::RankReduction | Intervention::Dropout | Intervention::Vendi
        );
        if self.compat && !is_in_code {
            return Err(format!("{name} already equals the paper's code; leave compat out"));
        }
        if self.decomposition != Decomposition::Exact && !self.intervention.reads_components() {
            return Err(format!("{name} needs no decomposition; leave randomised out"));
        }
        let is_exact = self.decomposition == Decomposition::Exact;
        let needs_all = matches!(self.intervention, Intervention::BottomK | Intervention::RandomK);
        if needs_all && !is_exact {
            return Err(format!(
                "{name} needs all components; a randomised decomposition computes only the largest"
            ));
        }
        if size.needs_values() && (!is_exact || self.compat) {
            return Err(format!("{size} needs all singular values; decompose exactly"));
        }
        Ok(())
    }

    /// Units in which its size can be given.
    pub(crate) fn units(&self) -> &'static [Unit] {
        match self.intervention {
            Intervention::Dropout => &[Unit::Rate, Unit::Rho, Unit::Keep],
            Intervention::RankReduction
            | Intervention::BottomK
            | Intervention::RandomK
            | Intervention::Zero
            | Intervention::Vendi => &Unit::ALL,
        }
    }
}
