//! The empirical Fisher matrix of a layer, and its damped inverse.
//!
//! `F = (1/N) Σ_i y_i y_iᵀ` over the compressed gradients `y_i` of a layer, summed in f64 in the
//! order of the examples. One eigendecomposition serves every damping `λ`:
//!
//! ```text
//! F = V diag(w) Vᵀ                       (F + λ)⁻¹ q = V diag(1 / (w + λ)) Vᵀ q
//! G Gᵀ / N = U diag(w) Uᵀ, G: (N, k)     (F + λ)⁻¹ q = (q - Gᵀ U diag(1 / N(w + λ)) Uᵀ G q) / λ
//! ```
//!
//! The second form is used if there are fewer examples than numbers: F then has rank N at most, and
//! its decomposition would cost k³ instead of N³.
//!
//! Source: GraSS, arXiv:2505.18976, whose relative damping is `λ = d trace(F) / k`. There the
//! inverse is formed in f32, and the gradients of all examples are preconditioned and stored again;
//! here the queries are preconditioned, which gives the same scores.

use crate::AttributeError;
use crate::damping::{Damping, Precondition, SMALLEST};
use crate::maps::MAX_NUMBERS;
use crate::store::{Element, GradientStore, ShardFile};
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::eigh;
use std::ops::Range;

/// The decomposed Fisher matrix of a layer.
#[derive(Debug)]
pub struct Curvature {
    pub(crate) site: String,
    pub(crate) size: usize,
    pub(crate) examples: usize,
    pub(crate) trace: f64,
    /// Eigenvalues, ascending.
    pub(crate) values: Vec<f64>,
    /// Eigenvectors as columns.
    pub(crate) vectors: Mat<f64>,
    /// The gradients, if the decomposition is that of their inner products.
    pub(crate) rows: Option<Mat<f64>>,
    /// Type in which the gradients are kept.
    pub(crate) element: Element,
}

impl Curvature {
    /// The Fisher matrix of a layer of a store.
    ///
    /// # Errors
    /// Errors of reading, and [`AttributeError::Curvature`] if there is no decomposition.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn of_layer(
        store: &GradientStore,
        shards: &[ShardFile],
        layer: usize,
    ) -> Result<Self, AttributeError> {
        Self::of_layers(store, shards, layer..layer + 1)
    }

    /// One Fisher matrix of several layers of a store, with correlations between layers.
    ///
    /// # Errors
    /// As [`Self::of_layer`], and [`AttributeError::MapTooLarge`] for a matrix that is too large
    /// for memory.
    ///
    /// # Panics
    /// If there are no such layers.
    pub fn of_layers(
        store: &GradientStore,
        shards: &[ShardFile],
        layers: Range<usize>,
    ) -> Result<Self, AttributeError> {
        let (manifest, site) = (store.manifest(), site_of(store, &layers));
        let (size, count) =
            (manifest.layers[layers.clone()].iter().map(|layer| layer.size).sum(), manifest.count);
        let is_dual = count < size;
        if count.min(size).saturating_mul(size) > MAX_NUMBERS {
            return Err(AttributeError::MapTooLarge { kind: "of curvature", most: MAX_NUMBERS });
        }
        let mut sum = Mat::zeros(size, if is_dual { 0 } else { size });
        let (mut rows, mut wide) = (Vec::new(), Mat::default());
        for shard in shards {
            for tile in 0..shard.tiles() {
                shard.tile(tile)?.layers(layers.clone(), &mut wide)?;
                if is_dual {
                    rows.extend_from_slice(wide.data());
                } else {
                    let (left, right) = (Arg::Transposed(wide.view()), Arg::Plain(wide.view()));
                    product(1.0, left, right, sum.view_mut(), Write::Add);
                }
            }
        }
        let found = match is_dual {
            true => Self::dual(&site, Mat::from_vec(count, size, rows)),
            false => Self::of_sum(&site, sum, count),
        };
        Ok(Self { element: manifest.element, ..found? })
    }

    /// The Fisher matrix of gradients (examples, size) of a layer.
    ///
    /// # Errors
    /// [`AttributeError::Curvature`] if there is no decomposition.
    pub fn of_rows(site: &str, rows: Mat<f64>) -> Result<Self, AttributeError> {
        let (count, size) = (rows.rows(), rows.cols());
        if count < size {
            return Self::dual(site, rows);
        }
        let mut sum = Mat::zeros(size, size);
        let (left, right) = (Arg::Transposed(rows.view()), Arg::Plain(rows.view()));
        product(1.0, left, right, sum.view_mut(), Write::Set);
        Self::of_sum(site, sum, count)
    }

    /// The Fisher matrix: a sum over this number of examples, divided by the number.
    pub(crate) fn of_sum(
        site: &str,
        sum: Mat<f64>,
        examples: usize,
    ) -> Result<Self, AttributeError> {
        let size = sum.rows();
        Self::decomposed(site, size, examples, sum, None)
    }

    fn dual(site: &str, rows: Mat<f64>) -> Result<Self, AttributeError> {
        let (examples, size) = (rows.rows(), rows.cols());
        let mut inner = Mat::zeros(examples, examples);
        let (left, right) = (Arg::Plain(rows.view()), Arg::Transposed(rows.view()));
        product(1.0, left, right, inner.view_mut(), Write::Set);
        Self::decomposed(site, size, examples, inner, Some(rows))
    }

    fn decomposed(
        site: &str,
        size: usize,
        examples: usize,
        mut sum: Mat<f64>,
        rows: Option<Mat<f64>>,
    ) -> Result<Self, AttributeError> {
        let refused = |reason: String| AttributeError::Curvature { site: site.into(), reason };
        sum.data_mut().iter_mut().for_each(|number| *number /= examples as f64);
        let trace: f64 = (0..sum.rows()).map(|i| sum.at(i, i)).sum();
        if trace == 0.0 {
            let reason = "all compressed gradients of the layer are zero; leave it out, or cache with \
                          a larger size of the compressor";
            return Err(refused(reason.into()));
        }
        let found = eigh(sum.view()).map_err(|error| refused(error.to_string()))?;
        // Rounding makes eigenvalues of a singular matrix negative.
        let values = found.values.into_iter().map(|value| value.max(0.0)).collect();
        let (site, vectors, element) = (site.into(), found.vectors, Element::F32);
        Ok(Self { site, size, examples, trace, values, vectors, rows, element })
    }

    /// Mean of the diagonal.
    #[must_use]
    pub fn mean_diagonal(&self) -> f64 {
        self.trace / self.size as f64
    }

    /// The largest eigenvalue.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.values.last().copied().unwrap_or(0.0)
    }

    /// Number of eigenvalues above rounding error.
    #[must_use]
    pub fn rank(&self) -> usize {
        let least = self.rounding();
        self.values.iter().filter(|value| **value > least).count()
    }

    /// The largest eigenvalue caused by rounding: of the decomposition, or of the stored gradients,
    /// whose independent errors have one below `u² (1/√n + 1/√N)²` of the trace, with unit roundoff
    /// u, n numbers and N examples.
    fn rounding(&self) -> f64 {
        let [numbers, examples] = [self.size, self.examples].map(|count| (count as f64).sqrt());
        let spread = (1.0 / numbers + 1.0 / examples).powi(2);
        let of_elements = self.element.roundoff().powi(2) * self.trace * spread;
        of_elements.max(SMALLEST * self.largest())
    }

    /// The value that a damping adds to the diagonal.
    ///
    /// # Errors
    /// [`AttributeError::Curvature`] if the damped matrix is singular.
    pub fn damping(&self, damping: Damping) -> Result<f64, AttributeError> {
        let added = match damping {
            Damping::Relative(number) => number * self.mean_diagonal(),
            Damping::Absolute(number) => number,
        };
        let most = self.values.last().copied().unwrap_or(0.0);
        let least = match &self.rows {
            Some(_) => 0.0,
            None => {
                self.values.first().copied().filter(|own| *own > self.rounding()).unwrap_or(0.0)
            }
        };
        if least + added > SMALLEST * most {
            return Ok(added);
        }
        let (examples, size) = (self.examples, self.size);
        Err(AttributeError::Curvature {
            site: self.site.clone(),
            reason: format!(
                "the Fisher matrix of {examples} examples and {size} numbers is singular with damping {damping}, which adds {added:e} to eigenvalues from {least:e} to {most:e}; choose a larger one, such as relative:0.1"
            ),
        })
    }

    /// Replaces rows (.., size) by `(F + λ)⁻¹` times them.
    ///
    /// # Errors
    /// As [`Self::damping`].
    ///
    /// # Panics
    /// If the rows have another length.
    pub fn precondition(
        &self,
        rows: &mut Mat<f64>,
        damping: Damping,
    ) -> Result<(), AttributeError> {
        assert_eq!(rows.cols(), self.size, "numbers of a gradient of {}", self.site);
        let added = self.damping(damping)?;
        let Some(gradients) = &self.rows else {
            let mut turned = times(rows, &self.vectors);
            self.divide(&mut turned, |value| value + added);
            *rows = times_transposed(&turned, &self.vectors);
            return Ok(());
        };
        let count = self.examples as f64;
        let mut turned = times(&times_transposed(rows, gradients), &self.vectors);
        self.divide(&mut turned, |value| count * (value + added));
        let seen = times(&times_transposed(&turned, &self.vectors), gradients);
        for (row, seen) in rows.data_mut().iter_mut().zip(seen.data()) {
            *row = (*row - seen) / added;
        }
        Ok(())
    }

    /// Divides column j by a function of eigenvalue j.
    fn divide(&self, rows: &mut Mat<f64>, by: impl Fn(f64) -> f64) {
        for i in 0..rows.rows() {
            let row = rows.row_mut(i).iter_mut();
            row.zip(&self.values).for_each(|(number, &value)| *number /= by(value));
        }
    }
}

impl Precondition for Curvature {
    fn precondition(&self, rows: &mut Mat<f64>, damping: Damping) -> Result<(), AttributeError> {
        Self::precondition(self, rows, damping)
    }
}

/// Name of some layers of a store in messages.
fn site_of(store: &GradientStore, layers: &Range<usize>) -> String {
    let sites = &store.manifest().layers[layers.clone()];
    match sites {
        [one] => one.site.clone(),
        [first, .., last] => format!("{} to {}", first.site, last.site),
        [] => String::new(),
    }
}

pub(crate) fn times(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let mut c = Mat::zeros(a.rows(), b.cols());
    product(1.0, Arg::Plain(a.view()), Arg::Plain(b.view()), c.view_mut(), Write::Set);
    c
}

pub(crate) fn times_transposed(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let mut c = Mat::zeros(a.rows(), b.rows());
    product(1.0, Arg::Plain(a.view()), Arg::Transposed(b.view()), c.view_mut(), Write::Set);
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    fn draw(rows: usize, cols: usize, seed: u64) -> Mat<f64> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    #[track_caller]
    fn assert_close(a: &Mat<f64>, b: &Mat<f64>, tolerance: f64) {
        let scale = b.data().iter().fold(0.0f64, |most, v| most.max(v.abs()));
        for (a, b) in a.data().iter().zip(b.data()) {
            assert!((a - b).abs() <= tolerance * scale, "{a} and {b} of {scale}");
        }
    }

    /// `(F + λ) x - q`, by definition.
    fn residual(rows: &Mat<f64>, x: &Mat<f64>, added: f64) -> Mat<f64> {
        let mut all = times(&times_transposed(x, rows), rows);
        all.data_mut().iter_mut().for_each(|number| *number /= rows.rows() as f64);
        for (sum, x) in all.data_mut().iter_mut().zip(x.data()) {
            *sum += added * x;
        }
        all
    }

    #[test]
    fn preconditioned_rows_solve_the_damped_equation_in_both_forms() {
        for (examples, size) in [(40, 9), (9, 9), (5, 30)] {
            let (rows, queries) = (draw(examples, size, 1), draw(3, size, 2));
            let fisher = Curvature::of_rows("a", rows.clone()).unwrap();
            assert_eq!(fisher.rows.is_some(), examples < size);
            let square: f64 = rows.data().iter().map(|v| v * v).sum();
            let mean = square / (examples * size) as f64;
            assert!((fisher.mean_diagonal() / mean - 1.0).abs() < 1e-12);
            for damping in [Damping::Relative(0.1), Damping::Relative(1e-5), Damping::Absolute(3.0)]
            {
                let mut found = queries.clone();
                fisher.precondition(&mut found, damping).unwrap();
                let added = fisher.damping(damping).unwrap();
                assert_close(&residual(&rows, &found, added), &queries, 1e-9);
                let own = fisher.self_influence(&queries, damping).unwrap();
                for (i, own) in own.into_iter().enumerate() {
                    let dot: f64 =
                        queries.row(i).iter().zip(found.row(i)).map(|(a, b)| a * b).sum();
                    assert!(own > 0.0 && (own - dot).abs() < 1e-9 * dot);
                }
            }
        }
    }

    #[test]
    fn the_two_forms_agree_and_copies_of_one_example_have_rank_one() {
        let (rows, queries) = (draw(6, 20, 1), draw(4, 20, 2));
        let dual = Curvature::of_rows("a", rows.clone()).unwrap();
        // The same Fisher matrix, from five copies of each example.
        let copies = Mat::from_fn(30, 20, |i, j| rows.at(i % 6, j));
        let primal = Curvature::of_rows("a", copies).unwrap();
        assert!(dual.rows.is_some() && primal.rows.is_none());
        for damping in [Damping::Relative(0.3), Damping::Absolute(0.02)] {
            let of = |fisher: &Curvature| {
                let mut found = queries.clone();
                fisher.precondition(&mut found, damping).unwrap();
                found
            };
            assert_close(&of(&dual), &of(&primal), 1e-10);
        }
        let one = Mat::from_fn(30, 20, |_, j| rows.at(0, j));
        let one = Curvature::of_rows("a", one).unwrap();
        assert!(one.values[18] < 1e-12 * one.values[19], "{:?}", one.values);
    }

    #[test]
    fn rounding_of_the_stored_type_is_no_rank() {
        for (examples, size) in [(60, 24), (12, 40)] {
            let rows = times(&draw(examples, 5, 1), &draw(5, size, 2));
            for element in Element::ALL {
                let mut stored = Mat::zeros(examples, size);
                for i in 0..examples {
                    let narrow: Vec<f32> = rows.row(i).iter().map(|v| *v as f32).collect();
                    let (mut bytes, mut back) = (Vec::new(), vec![0.0; size]);
                    let scale = element.encode(&narrow, &mut bytes);
                    element.decode(&bytes, scale, &mut back);
                    stored.row_mut(i).iter_mut().zip(back).for_each(|(to, v)| *to = v.into());
                }
                let fisher = Curvature::of_rows("a", stored).unwrap();
                let fisher = Curvature { element, ..fisher };
                assert_eq!(fisher.rank(), 5, "{element}, {examples} examples");
                let error = fisher.damping(Damping::Absolute(0.0)).unwrap_err().to_string();
                assert!(error.contains("is singular"), "{error}");
            }
        }
        let full = Curvature::of_rows("a", draw(60, 24, 3)).unwrap();
        assert_eq!(full.rank(), 24);
        assert_eq!(Curvature { element: Element::Int8, ..full }.rank(), 24);
    }

    #[test]
    fn strong_damping_tends_to_the_gradient_itself() {
        let (rows, queries) = (draw(30, 8, 1), draw(2, 8, 2));
        let fisher = Curvature::of_rows("a", rows).unwrap();
        let mut found = queries.clone();
        fisher.precondition(&mut found, Damping::Absolute(1e9)).unwrap();
        found.data_mut().iter_mut().for_each(|number| *number *= 1e9);
        assert_close(&found, &queries, 1e-8);
    }

    #[test]
    fn singular_matrices_and_bad_dampings_are_refused() {
        let message = Curvature::of_rows("fc1", Mat::zeros(5, 3)).unwrap_err().to_string();
        assert!(
            message.contains("fc1") && message.contains("all compressed gradients"),
            "{message}"
        );
        for rows in [draw(5, 30, 1), Mat::from_fn(30, 5, |i, j| ((i + 1) * (j + 1)) as f64)] {
            let fisher = Curvature::of_rows("fc1", rows).unwrap();
            let message = fisher.damping(Damping::Relative(0.0)).unwrap_err().to_string();
            assert!(message.contains("singular with damping relative:0"), "{message}");
        }
        let fisher = Curvature::of_rows("fc1", draw(30, 5, 1)).unwrap();
        assert_eq!(fisher.damping(Damping::Relative(0.0)).unwrap(), 0.0);
        for (text, expected) in [
            ("0.1", Damping::Relative(0.1)),
            ("relative:1e-5", Damping::Relative(1e-5)),
            ("absolute:2", Damping::Absolute(2.0)),
        ] {
            let found: Damping = text.parse().unwrap();
            assert_eq!(found, expected);
            assert_eq!(found.to_string().parse::<Damping>().unwrap(), expected);
        }
        for text in ["-1", "nan", "inf", "much", "total:1", ""] {
            let message = text.parse::<Damping>().unwrap_err().to_string();
            assert!(message.contains("at least 0"), "{message}");
        }
    }
}
