//! What sites that read one input compute from its sums once.

use super::InputStats;
use linwright_tensor::Mat;
use linwright_tensor::linalg::{Eigh, NoConvergence, eigh};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// What follows from sums, computed on demand. A copy of the sums starts without: they may change.
#[derive(Debug, Default)]
pub(super) struct Decomposed {
    eigen: OnceLock<Eigh>,
    /// A constant, and the sums with it as one more feature.
    with_constant: OnceLock<(f64, Arc<InputStats>)>,
}

impl Clone for Decomposed {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Decomposed {
    /// It follows from the sums, which are compared.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl InputStats {
    /// The eigendecomposition of Σ x xᵀ: kept where other sites share these sums, since it is as
    /// large as they are.
    ///
    /// # Errors
    /// If it does not converge.
    pub fn eigen(self: &Arc<Self>) -> Result<Cow<'_, Eigh>, NoConvergence> {
        if let Some(known) = self.decomposed.eigen.get() {
            return Ok(Cow::Borrowed(known));
        }
        let eigen = eigh(self.sxx.view())?;
        match Arc::strong_count(self) {
            1 => Ok(Cow::Owned(eigen)),
            _ => Ok(Cow::Borrowed(self.decomposed.eigen.get_or_init(|| eigen))),
        }
    }

    /// The sums of the same samples with one more feature, the same number in all of them.
    pub(super) fn with_constant(self: &Arc<Self>, constant: f64) -> Arc<Self> {
        match self.decomposed.with_constant.get() {
            Some((known, with)) if *known == constant => Arc::clone(with),
            Some(_) => Arc::new(self.widened(constant)),
            None if Arc::strong_count(self) == 1 => Arc::new(self.widened(constant)),
            None => {
                let with = || (constant, Arc::new(self.widened(constant)));
                Arc::clone(&self.decomposed.with_constant.get_or_init(with).1)
            }
        }
    }

    fn widened(&self, constant: f64) -> Self {
        let (inp, n) = (self.features(), self.count as f64);
        let second = |i: usize, j: usize| match (i < inp, j < inp) {
            (true, true) => self.sxx.at(i, j),
            (true, false) => constant * self.sx[i],
            (false, true) => constant * self.sx[j],
            (false, false) => constant * constant * n,
        };
        let more = |values: &[f64], last: f64| values.iter().copied().chain([last]).collect();
        Self::new(
            Mat::from_fn(inp + 1, inp + 1, second),
            more(&self.sx, constant * n),
            more(&self.absolute, constant.abs() * n),
            self.count,
        )
    }
}
