//! K-FAC and EK-FAC: the curvature of a layer as a product of two small ones.
//!
//! With the moments `A = Q_a Λ_a Q_aᵀ` of inputs and `S = Q_s Λ_s Q_sᵀ` of gradients of outputs,
//!
//! ```text
//! (F + λ)⁻¹ V = Q_s ((Q_sᵀ V Q_a) / (Λ + λ)) Q_aᵀ
//! K-FAC:  Λ = λ_s λ_aᵀ          EK-FAC:  Λ = mean_i (Q_sᵀ G_i Q_a)²
//! ```
//!
//! with the division and the square by entry. `G_i` are the stored gradients (out, inp), summed
//! over the rows of an example; a bias is the last column of `A` and `G_i`. The moments are those
//! of reduced inputs and gradients where a compressor reduces them. A relative damping is one of
//! the mean of `Λ`.
//!
//! Sources: Martens and Grosse 2015, arXiv:1503.05671; George et al. 2018, arXiv:1806.03884. The
//! labels are those of the data, so this approximates the empirical Fisher matrix.

use crate::AttributeError;
use crate::damping::{Damping, Precondition, SMALLEST};
use crate::moments::Moments;
use crate::store::ShardFile;
use linwright_ops::Shape;
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::eigh;

/// The decomposed curvature of a layer.
#[derive(Clone, Debug)]
pub struct Kronecker {
    pub(crate) site: String,
    /// Eigenvectors of the moments of gradients and inputs, as columns.
    pub(crate) out: Mat<f64>,
    pub(crate) inp: Mat<f64>,
    /// Curvature along the product of each pair of them (out, inp).
    pub(crate) values: Mat<f64>,
}

impl Kronecker {
    /// K-FAC: the product of two moments.
    ///
    /// # Errors
    /// [`AttributeError::Curvature`] if one has no decomposition.
    pub fn of_moments(site: &str, moments: &Moments) -> Result<Self, AttributeError> {
        let refused = |reason: String| AttributeError::Curvature { site: site.into(), reason };
        let [out, inp] = [&moments.out, &moments.inp]
            .map(|moment| eigh(moment.view()).map_err(|error| refused(error.to_string())));
        let (out, inp) = (out?, inp?);
        // Rounding makes eigenvalues of a singular matrix negative.
        let value = |i: usize, j: usize| out.values[i].max(0.0) * inp.values[j].max(0.0);
        let values = Mat::from_fn(out.values.len(), inp.values.len(), value);
        Ok(Self { site: site.into(), out: out.vectors, inp: inp.vectors, values })
    }

    /// EK-FAC: the same directions, with the mean square of gradients (examples, out · inp) along
    /// each pair of them.
    ///
    /// # Panics
    /// If the gradients have other numbers.
    #[must_use]
    pub fn corrected(mut self, gradients: &Mat<f64>) -> Self {
        let mut sums = self.zeros();
        self.add_squares(gradients, &mut sums);
        self.replace(sums, gradients.rows());
        self
    }

    /// EK-FAC of the stored gradients of a layer.
    ///
    /// # Errors
    /// Those of reading.
    pub fn corrected_by(
        mut self,
        shards: &[ShardFile],
        layer: usize,
    ) -> Result<Self, AttributeError> {
        let (mut sums, mut count, mut rows) = (self.zeros(), 0, Mat::default());
        for shard in shards {
            for tile in 0..shard.tiles() {
                shard.tile(tile)?.layers(layer..layer + 1, &mut rows)?;
                self.add_squares(&rows, &mut sums);
                count += rows.rows();
            }
        }
        self.replace(sums, count);
        Ok(self)
    }

    /// The curvature along each pair of directions (out, inp).
    #[must_use]
    pub fn values(&self) -> &Mat<f64> {
        &self.values
    }

    /// The value that a damping adds.
    ///
    /// # Errors
    /// [`AttributeError::Curvature`] if the damped curvature is singular.
    pub fn damping(&self, damping: Damping) -> Result<f64, AttributeError> {
        let values = self.values.data();
        let added = match damping {
            Damping::Relative(number) => {
                number * values.iter().sum::<f64>() / values.len().max(1) as f64
            }
            Damping::Absolute(number) => number,
        };
        let most = values.iter().fold(0.0f64, |most, value| most.max(*value));
        let least = values.iter().fold(most, |least, value| least.min(*value));
        if least + added > SMALLEST * most {
            return Ok(added);
        }
        Err(AttributeError::Curvature {
            site: self.site.clone(),
            reason: format!(
                "the curvature is singular with damping {damping}, which adds {added:e} to values from {least:e} to {most:e}; choose a larger one, such as relative:0.1"
            ),
        })
    }

    fn zeros(&self) -> Mat<f64> {
        Mat::zeros(self.values.rows(), self.values.cols())
    }

    fn shape(&self) -> Shape {
        Shape { out: self.values.rows(), inp: self.values.cols() }
    }

    fn replace(&mut self, sums: Mat<f64>, count: usize) {
        self.values = sums;
        self.values.data_mut().iter_mut().for_each(|number| *number /= count.max(1) as f64);
    }

    fn add_squares(&self, gradients: &Mat<f64>, sums: &mut Mat<f64>) {
        for row in 0..gradients.rows() {
            let turned = self.turned(gradients.row(row));
            let sums = sums.data_mut().iter_mut();
            sums.zip(turned.data()).for_each(|(sum, number)| *sum += number * number);
        }
    }

    /// `Q_sᵀ V Q_a` of a row.
    fn turned(&self, row: &[f64]) -> Mat<f64> {
        let shape = self.shape();
        let Shape { out, inp } = shape;
        assert_eq!(row.len(), shape.dense_parameters(), "numbers of a gradient of {}", self.site);
        let gradient = Mat::from_vec(out, inp, row.to_vec());
        let half = of(Arg::Transposed(self.out.view()), Arg::Plain(gradient.view()), shape);
        of(Arg::Plain(half.view()), Arg::Plain(self.inp.view()), shape)
    }
}

impl Precondition for Kronecker {
    fn precondition(&self, rows: &mut Mat<f64>, damping: Damping) -> Result<(), AttributeError> {
        let added = self.damping(damping)?;
        let shape = self.shape();
        for row in 0..rows.rows() {
            let mut turned = self.turned(rows.row(row));
            let numbers = turned.data_mut().iter_mut();
            numbers.zip(self.values.data()).for_each(|(number, value)| *number /= value + added);
            let half = of(Arg::Plain(self.out.view()), Arg::Plain(turned.view()), shape);
            let back = of(Arg::Plain(half.view()), Arg::Transposed(self.inp.view()), shape);
            rows.row_mut(row).copy_from_slice(back.data());
        }
        Ok(())
    }
}

/// The product of two matrices, of this shape.
fn of(a: Arg<'_, f64>, b: Arg<'_, f64>, Shape { out, inp }: Shape) -> Mat<f64> {
    let mut c = Mat::zeros(out, inp);
    product(1.0, a, b, c.view_mut(), Write::Set);
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Curvature;
    use linwright_tensor::RngKey;

    fn draw(rows: usize, cols: usize, seed: u64) -> Mat<f64> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    fn moment(rows: &Mat<f64>) -> Mat<f64> {
        let count = rows.rows() as f64;
        Mat::from_fn(rows.cols(), rows.cols(), |i, j| {
            (0..rows.rows()).map(|row| rows.at(row, i) * rows.at(row, j)).sum::<f64>() / count
        })
    }

    /// Gradients of every pair of an input and a gradient of outputs: they are independent.
    fn pairs(inputs: &Mat<f64>, outputs: &Mat<f64>) -> Mat<f64> {
        let (a, g) = (inputs.cols(), outputs.cols());
        Mat::from_fn(inputs.rows() * outputs.rows(), a * g, |row, at| {
            let (i, o) = (row % inputs.rows(), row / inputs.rows());
            outputs.at(o, at / a) * inputs.at(i, at % a)
        })
    }

    #[test]
    fn of_independent_factors_both_forms_are_the_fisher_matrix() {
        let (inputs, outputs) = (draw(7, 4, 1), draw(5, 3, 2));
        let gradients = pairs(&inputs, &outputs);
        let moments = Moments { inp: moment(&inputs), out: moment(&outputs) };
        let fisher = Curvature::of_rows("a", gradients.clone()).unwrap();
        let queries = draw(2, 12, 3);
        for damping in [Damping::Absolute(0.1), Damping::Relative(0.3)] {
            let mut expected = queries.clone();
            fisher.precondition(&mut expected, damping).unwrap();
            let kfac = Kronecker::of_moments("a", &moments).unwrap();
            for curvature in [kfac.clone(), kfac.corrected(&gradients)] {
                let mut found = queries.clone();
                curvature.precondition(&mut found, damping).unwrap();
                for (a, b) in found.data().iter().zip(expected.data()) {
                    assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{damping}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn corrected_values_keep_the_trace_and_fit_the_fisher_matrix_better() {
        // Factors that depend on each other, so that the product of moments is wrong.
        let (inputs, outputs) = (draw(40, 4, 4), draw(40, 3, 5));
        let gradients = Mat::from_fn(40, 12, |row, at| {
            outputs.at(row, at / 4) * (inputs.at(row, at % 4) + 2.0 * outputs.at(row, 0))
        });
        let moments = Moments { inp: moment(&inputs), out: moment(&outputs) };
        let kfac = Kronecker::of_moments("a", &moments).unwrap();
        let corrected = kfac.clone().corrected(&gradients);
        let trace: f64 = gradients.data().iter().map(|g| g * g).sum::<f64>() / 40.0;
        let sum: f64 = corrected.values().data().iter().sum();
        assert!((sum - trace).abs() < 1e-9 * trace);
        // In given directions the corrected values are the nearest diagonal: the distance from the
        // Fisher matrix turned into them is smallest.
        let mut turned = Mat::zeros(40, 12);
        for row in 0..40 {
            turned.row_mut(row).copy_from_slice(kfac.turned(gradients.row(row)).data());
        }
        let of_directions = moment(&turned);
        let off = |values: &Mat<f64>| -> f64 {
            let diagonal = values.data().iter().enumerate();
            diagonal.map(|(at, value)| (of_directions.at(at, at) - value).powi(2)).sum()
        };
        assert!(off(corrected.values()) < 1e-18 * trace * trace + 1e-15);
        assert!(off(kfac.values()) > 0.01 * trace);
        // Directions of the moments leave less outside the diagonal than the wrong ones, which are
        // transposed: the sums of the largest values are larger.
        let wrong =
            Kronecker { out: kfac.out.transpose(), inp: kfac.inp.transpose(), ..kfac.clone() };
        let own = pairs(&inputs, &outputs);
        let sorted = |of: Kronecker| {
            let mut values = of.corrected(&own).values().data().to_vec();
            values.sort_by(|a, b| b.total_cmp(a));
            values
        };
        let (right, wrong) = (sorted(kfac), sorted(wrong));
        let (mut more, mut less) = (0.0, 0.0);
        for (a, b) in right.iter().zip(&wrong) {
            (more, less) = (more + a, less + b);
            assert!(more >= less * (1.0 - 1e-9), "{more} {less}");
        }
        assert!(right[0] > 1.01 * wrong[0]);
    }

    #[test]
    fn singular_curvature_is_refused_with_what_would_help() {
        let moments = Moments { inp: Mat::zeros(2, 2), out: Mat::identity(2) };
        let curvature = Kronecker::of_moments("fc1", &moments).unwrap();
        let message = curvature.damping(Damping::Absolute(0.0)).unwrap_err().to_string();
        assert!(message.contains("fc1") && message.contains("choose a larger one"), "{message}");
        assert_eq!(curvature.damping(Damping::Absolute(0.5)).unwrap(), 0.5);
    }
}
