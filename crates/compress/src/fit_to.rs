//! Which examples closed forms are fitted to.
//!
//! An automatic ridge is chosen on validation examples, which must be new to everything below as
//! well: earlier fits that have seen them leave less to correct there than on other text. So a
//! network is edited twice ([`in_passes`](crate::pipeline::in_passes)): once from the training
//! examples, to choose ridges, and once from all of them, with these ridges. λ stays: as a share of
//! moments that grow with the examples it falls.

use linwright_ops::{Examples, SiteId};
use std::collections::BTreeMap;

/// Ridges of sites that were chosen, as shares of the mean second moment of an input over all
/// examples.
pub type Ridges = BTreeMap<SiteId, f64>;

/// Which examples closed forms are fitted to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FitTo<'a> {
    /// The training examples. Those for validation are held out: they choose ridges, are not seen
    /// by any fit, and can judge the result.
    #[default]
    Training,
    /// All examples, in two passes: the first one holds validation examples out and chooses
    /// ridges. Fits that are trained keep their validation examples, and so do all others beside
    /// them, in a single pass.
    All,
    /// All examples, with these ridges.
    With(&'a Ridges),
}

impl FitTo<'_> {
    /// Whether validation examples are held out.
    pub fn holds_out(self) -> bool {
        !matches!(self, Self::With(_))
    }

    /// Rows of the examples that fits see.
    pub fn rows<I>(self, examples: &dyn Examples<I>) -> usize {
        if self.holds_out() { examples.training_rows() } else { examples.all_rows() }
    }

    /// The chosen ridge of a site.
    pub fn ridge(self, site: &SiteId) -> Option<f64> {
        match self {
            Self::With(ridges) => ridges.get(site).copied(),
            Self::Training | Self::All => None,
        }
    }

    /// Its name in fingerprints.
    pub fn name(self) -> &'static str {
        if self.holds_out() { "training" } else { "all" }
    }
}
