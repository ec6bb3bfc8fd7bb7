//! TRAK: influence by one Fisher matrix of all layers, over several checkpoints.
//!
//! With `φ` the compressed gradient of the margin over `√p`, p parameters and N examples,
//!
//! ```text
//! K = Φᵀ Φ + λ I        score(i, q) = mean_m(φ_qᵀ K⁻¹ φ_i) · mean_m(1 - p_i)
//! ```
//!
//! so `K` is `N/p` times the Fisher matrix damped by `λ p / N`. The probability of the targets
//! follows from the margin that the store has, `1 - p_i = 1 / (1 + e^margin)`, which is exact where
//! `p_i` rounds to one; of several targets it is that of their mean margin. Maps are those of the
//! layers, so the projection of all parameters is block-diagonal. A relative damping is one of the
//! mean of the diagonal of the Fisher matrix.
//!
//! Source: Park et al. 2023, arXiv:2303.14186.

use crate::store::GradientStore;
use crate::{AttributeError, Attribution, Comparison, Damping, Geometry, Target};
use linwright_run::Monitor;
use linwright_tensor::Mat;

/// Sums over checkpoints.
#[derive(Debug)]
pub struct Trak {
    /// Inner products (examples, queries).
    products: Mat<f64>,
    /// `1 - p` of the examples.
    doubts: Vec<f64>,
    checkpoints: usize,
}

impl Trak {
    /// No checkpoints yet, for these numbers of examples and queries.
    #[must_use]
    pub fn new(examples: usize, queries: usize) -> Self {
        let (products, doubts) = (Mat::zeros(examples, queries), vec![0.0; examples]);
        Self { products, doubts, checkpoints: 0 }
    }

    /// Adds a checkpoint: its store, and gradients of the margins of the queries.
    ///
    /// # Errors
    /// [`AttributeError::Setting`] for a store of gradients other than those of margins, or with
    /// another number of examples, and errors of [`Attribution::scores`].
    pub fn add(
        &mut self,
        store: &GradientStore,
        queries: &Mat<f32>,
        damping: Damping,
        monitor: &mut dyn Monitor,
    ) -> Result<(), AttributeError> {
        let manifest = store.manifest();
        if manifest.target != Target::Margin {
            return Err(AttributeError::Setting {
                name: "target of the store",
                found: manifest.target.to_string(),
                expected: "margin, for TRAK: cache with --target margin".into(),
            });
        }
        if manifest.count != self.doubts.len() {
            return Err(AttributeError::Setting {
                name: "examples of a checkpoint",
                found: manifest.count.to_string(),
                expected: self.doubts.len().to_string(),
            });
        }
        let count = manifest.count as f64;
        let of_fisher = match damping {
            Damping::Absolute(number) => {
                Damping::Absolute(number * manifest.parameters() as f64 / count)
            }
            relative @ Damping::Relative(_) => relative,
        };
        let attribution = Attribution::open(store)?.in_geometry(Geometry::Whole);
        let products = &mut self.products;
        let add = &mut |first: usize, scores: &Mat<f64>| {
            for row in 0..scores.rows() {
                let into = products.row_mut(first + row).iter_mut();
                into.zip(scores.row(row)).for_each(|(sum, score)| *sum += score / count);
            }
        };
        attribution.scores(queries, Comparison::Influence(of_fisher), monitor, add)?;
        // Stores have minus the margin.
        let doubt = |value: f64| 1.0 / (1.0 + (-value).exp());
        for (sum, value) in self.doubts.iter_mut().zip(attribution.values()) {
            *sum += doubt(value);
        }
        self.checkpoints += 1;
        Ok(())
    }

    /// The scores (examples, queries).
    #[must_use]
    pub fn scores(mut self) -> Mat<f64> {
        let squared = (self.checkpoints.max(1) as f64).powi(2);
        for row in 0..self.products.rows() {
            let doubt = self.doubts[row] / squared;
            self.products.row_mut(row).iter_mut().for_each(|product| *product *= doubt);
        }
        self.products
    }
}
