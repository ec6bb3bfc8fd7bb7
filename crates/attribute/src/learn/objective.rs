//! The objective by which a selective mask is learned.
//!
//! With gradients of some examples in the rows of `X` and of held-out ones in those of `Z`, and a
//! mask `m` in (0, 1):
//!
//! ```text
//! o_ji = ⟨z_j, x_i⟩      c_ji = ⟨m∘z_j, m∘x_i⟩
//! L = -mean_j corr_j + λ Σ f m      corr_j = Σ ôĉ / √(Σô² Σĉ² + ε)      ô, ĉ centred over i
//! f = 1 if more than 2k numbers of m are above ½, else at least 0.1 and else that number over 2k
//! ```
//!
//! The mask is `m = sigmoid(S)`, or for a product set `m = sigmoid(S_out) ⊗ sigmoid(S_in)`, each
//! with its own penalty. Rows of which `Σô²` or `Σĉ²` is not above ε are left out.
//!
//! Source: GraSS, arXiv:2505.18976, and its released code. Its objective is implemented, but not
//! its loop, which takes two steps with one gradient and pairs gradients of outputs and inputs that
//! do not belong together.

use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::{Arg, Write, product};

/// Numbers whose sigmoid is the mask.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    /// One for each entry.
    Flat(Vec<f64>),
    /// One for each row, and one for each column.
    Product { out: Vec<f64>, inp: Vec<f64> },
}

impl Pattern {
    /// Every part.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Vec<f64>> {
        match self {
            Self::Flat(all) => vec![all],
            Self::Product { out, inp } => vec![out, inp],
        }
    }

    pub(crate) fn parts(&self) -> Vec<&Vec<f64>> {
        match self {
            Self::Flat(all) => vec![all],
            Self::Product { out, inp } => vec![out, inp],
        }
    }

    /// The mask of every entry.
    fn mask(&self) -> Vec<f64> {
        let of = |numbers: &Vec<f64>| numbers.iter().copied().map(sigmoid).collect::<Vec<f64>>();
        match self {
            Self::Flat(all) => of(all),
            Self::Product { out, inp } => {
                let (out, inp) = (of(out), of(inp));
                out.iter().flat_map(|o| inp.iter().map(move |i| o * i)).collect()
            }
        }
    }

    /// Gradients of its parts, from that of every entry of the mask.
    fn chain(&self, gradient: &[f64]) -> Vec<Vec<f64>> {
        match self {
            Self::Flat(_) => vec![gradient.to_vec()],
            Self::Product { out, inp } => {
                let (mut of_out, mut of_inp) = (vec![0.0; out.len()], vec![0.0; inp.len()]);
                for ((o, out), row) in out.iter().enumerate().zip(gradient.chunks(inp.len())) {
                    for ((i, inp), gradient) in inp.iter().enumerate().zip(row) {
                        of_out[o] += gradient * sigmoid(*inp);
                        of_inp[i] += gradient * sigmoid(*out);
                    }
                }
                vec![of_out, of_inp]
            }
        }
    }
}

/// The objective on the gradients of one layer.
#[derive(Debug)]
pub(crate) struct MaskObjective {
    train: Mat<f64>,
    held_out: Mat<f64>,
    /// Centred inner products (held out, train) without a mask.
    exact: Mat<f64>,
    /// Factor λ of the penalty.
    pub(crate) penalty: f64,
    /// Wanted size of each part.
    pub(crate) sizes: Vec<usize>,
    /// The number ε under the root.
    pub(crate) epsilon: f64,
}

impl MaskObjective {
    /// The objective of gradients (examples, entries).
    pub(crate) fn new(
        train: Mat<f64>,
        held_out: Mat<f64>,
        sizes: Vec<usize>,
        penalty: f64,
        epsilon: f64,
    ) -> Self {
        let mut exact = inner(&held_out, &train);
        centre(&mut exact);
        Self { train, held_out, exact, penalty, sizes, epsilon }
    }

    /// The loss of a pattern, and the gradient of each of its parts.
    pub(crate) fn value(&self, pattern: &Pattern) -> (f64, Vec<Vec<f64>>) {
        let mask = pattern.mask();
        let masked = |rows: &Mat<f64>| {
            Mat::from_fn(rows.rows(), rows.cols(), |i, p| rows.at(i, p) * mask[p] * mask[p])
        };
        let mut inexact = inner(&masked(&self.held_out), &self.train);
        centre(&mut inexact);
        let (correlation, slopes) = self.correlation(&inexact);
        // Σ_ji slope_ji 2 m_p z_jp x_ip
        let mut through = Mat::zeros(self.held_out.rows(), self.train.cols());
        let (slopes, train) = (Arg::Plain(slopes.view()), Arg::Plain(self.train.view()));
        product(1.0, slopes, train, through.view_mut(), Write::Set);
        let mut gradient = vec![0.0; mask.len()];
        for j in 0..through.rows() {
            let terms = through.row(j).iter().zip(self.held_out.row(j));
            for ((sum, (through, z)), m) in gradient.iter_mut().zip(terms).zip(&mask) {
                *sum -= 2.0 * m * through * z;
            }
        }
        let (mut loss, mut gradients) = (-correlation, pattern.chain(&gradient));
        for ((part, gradient), &size) in
            pattern.parts().into_iter().zip(&mut gradients).zip(&self.sizes)
        {
            let factor = self.penalty * pressure(part, size);
            for (number, gradient) in part.iter().zip(gradient) {
                let m = sigmoid(*number);
                loss += factor * m;
                *gradient = (*gradient + factor) * m * (1.0 - m);
            }
        }
        (loss, gradients)
    }

    /// Mean correlation of the rows that have one, and its slope for every inner product.
    fn correlation(&self, inexact: &Mat<f64>) -> (f64, Mat<f64>) {
        let mut slopes = Mat::zeros(inexact.rows(), inexact.cols());
        let (mut sum, mut counted) = (0.0, 0.0);
        for j in 0..inexact.rows() {
            let (o, c) = (self.exact.row(j), inexact.row(j));
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let (of_o, of_c, of_both) = (dot(o, o), dot(c, c), dot(o, c));
            if of_o <= self.epsilon || of_c <= self.epsilon {
                continue;
            }
            let root = (of_o * of_c + self.epsilon).sqrt();
            sum += of_both / root;
            counted += 1.0;
            for ((slope, o), c) in slopes.row_mut(j).iter_mut().zip(o).zip(c) {
                *slope = o / root - of_both * of_o * c / root.powi(3);
            }
        }
        if counted > 0.0 {
            slopes.data_mut().iter_mut().for_each(|slope| *slope /= counted);
            sum /= counted;
        }
        (sum, slopes)
    }
}

/// The factor f of the penalty.
fn pressure(part: &[f64], size: usize) -> f64 {
    let active = part.iter().filter(|number| **number > 0.0).count();
    match active > 2 * size {
        true => 1.0,
        false => (active as f64 / (2 * size) as f64).max(0.1),
    }
}

pub(crate) fn sigmoid(number: f64) -> f64 {
    1.0 / (1.0 + (-number).exp())
}

fn inner(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let mut all = Mat::zeros(a.rows(), b.rows());
    let (a, b) = (Arg::Plain(a.view()), Arg::Transposed(b.view()));
    product(1.0, a, b, all.view_mut(), Write::Set);
    all
}

/// Subtracts its mean from every row.
fn centre(rows: &mut Mat<f64>) {
    for i in 0..rows.rows() {
        let row = rows.row_mut(i);
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        row.iter_mut().for_each(|number| *number -= mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    #[test]
    fn gradients_are_slopes_of_the_loss() {
        let draw = |rows, cols, seed: u64| -> Mat<f64> {
            Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
        };
        let patterns = [
            (Pattern::Flat(draw(1, 12, 3).into_vec()), vec![3]),
            (
                Pattern::Product { out: draw(1, 3, 4).into_vec(), inp: draw(1, 4, 5).into_vec() },
                vec![1, 2],
            ),
        ];
        for (pattern, sizes) in patterns {
            let (train, held_out) = (draw(7, 12, 1), draw(4, 12, 2));
            let objective = MaskObjective::new(train, held_out, sizes, 0.05, 1e-6);
            let (_, gradients) = objective.value(&pattern);
            for (part, gradient) in gradients.iter().enumerate() {
                for (at, gradient) in gradient.iter().enumerate() {
                    let value = |by: f64| {
                        let mut moved = pattern.clone();
                        moved.parts_mut()[part][at] += by;
                        objective.value(&moved).0
                    };
                    let slope = (value(1e-5) - value(-1e-5)) / 2e-5;
                    assert!((slope - gradient).abs() < 1e-7, "{part}, {at}: {slope}, {gradient}");
                }
            }
        }
    }
}
