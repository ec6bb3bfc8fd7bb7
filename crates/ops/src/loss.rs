//! Losses of the outputs of a network.

use linwright_tensor::MatMut;
use linwright_tensor::kernels::cross_entropy::cross_entropy;

/// A loss of the rows of a network's output: logits of tokens, of classes, predictions.
pub trait OutputLoss {
    /// The loss of some rows of the output (rows, features), the first of which is row `first` of
    /// the batch; overwrites them by its gradient. Rows come in order, each once.
    fn of_rows(&mut self, first: usize, outputs: MatMut<'_, f32>) -> f64;
}

/// Cross entropy: the sum over rows of weight times negative log-likelihood of the target, in nats.
///
/// The gradient of a row is exactly that of its own term: no mean is divided out.
#[derive(Clone, Debug)]
pub struct CrossEntropy<'a> {
    targets: &'a [u32],
    weight: f32,
    weights: Option<&'a [f32]>,
}

impl<'a> CrossEntropy<'a> {
    /// The sum over all rows; rows with the target `u32::MAX` are ignored.
    #[must_use]
    pub fn sum(targets: &'a [u32]) -> Self {
        Self { targets, weight: 1.0, weights: None }
    }

    /// The mean over the rows with a target.
    #[must_use]
    pub fn mean(targets: &'a [u32]) -> Self {
        let counted = targets.iter().filter(|target| **target != u32::MAX).count();
        Self { targets, weight: 1.0 / counted.max(1) as f32, weights: None }
    }

    /// The sum with a weight for each row.
    ///
    /// # Panics
    /// Unless there is one weight for each target.
    #[must_use]
    #[track_caller]
    pub fn weighted(targets: &'a [u32], weights: &'a [f32]) -> Self {
        assert_eq!(targets.len(), weights.len(), "one weight for each target");
        Self { targets, weight: 1.0, weights: Some(weights) }
    }
}

impl OutputLoss for CrossEntropy<'_> {
    fn of_rows(&mut self, first: usize, mut outputs: MatMut<'_, f32>) -> f64 {
        let rows = first..first + outputs.rows();
        let targets = &self.targets[rows.clone()];
        let Some(weights) = self.weights else {
            return f64::from(self.weight) * cross_entropy(outputs, targets, self.weight);
        };
        let mut sum = 0.0;
        for (i, &weight) in weights[rows].iter().enumerate() {
            let row = outputs.reborrow().rows_range(i, 1);
            sum += f64::from(weight) * cross_entropy(row, &targets[i..=i], weight);
        }
        sum
    }
}

/// Half the squared error: the sum over rows and features of `(output - target)² / 2`, times a
/// weight.
#[derive(Clone, Debug)]
pub struct SquaredError<'a> {
    /// Targets (rows, features), row-major.
    pub targets: &'a [f32],
    /// Factor of the sum: one over the number of rows for a mean.
    pub weight: f32,
}

impl OutputLoss for SquaredError<'_> {
    fn of_rows(&mut self, first: usize, mut outputs: MatMut<'_, f32>) -> f64 {
        let width = outputs.cols();
        let mut sum = 0.0;
        for i in 0..outputs.rows() {
            let targets = &self.targets[(first + i) * width..(first + i + 1) * width];
            for (output, target) in outputs.row_mut(i).iter_mut().zip(targets) {
                let off = *output - target;
                sum += f64::from(off).powi(2) / 2.0;
                *output = self.weight * off;
            }
        }
        f64::from(self.weight) * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::{Mat, RngKey};

    fn outputs() -> Mat<f32> {
        Mat::from_vec(5, 7, RngKey::new(3).stream().normals(35, 1.0))
    }

    /// Makes a loss.
    type Make<'a> = &'a dyn Fn() -> Box<dyn OutputLoss + 'a>;

    /// Loss and gradient of a loss whose rows come in two parts.
    fn of(loss: &mut dyn OutputLoss, outputs: &Mat<f32>) -> (f64, Mat<f32>) {
        let mut gradient = outputs.clone();
        let first = loss.of_rows(0, gradient.view_mut().rows_range(0, 2));
        let second = loss.of_rows(2, gradient.view_mut().rows_range(2, 3));
        (first + second, gradient)
    }

    #[test]
    fn gradients_are_those_of_the_losses() {
        let (targets, weights) = ([3, 0, u32::MAX, 6, 1], [1.0, 0.5, 2.0, 0.0, 3.0]);
        let wanted: Vec<f32> = RngKey::new(4).stream().normals(35, 1.0);
        let losses: [Make<'_>; 4] = [
            &|| Box::new(CrossEntropy::sum(&[3, 0, u32::MAX, 6, 1])),
            &|| Box::new(CrossEntropy::mean(&[3, 0, u32::MAX, 6, 1])),
            &|| {
                Box::new(CrossEntropy::weighted(
                    &[3, 0, u32::MAX, 6, 1],
                    &[1.0, 0.5, 2.0, 0.0, 3.0],
                ))
            },
            &|| Box::new(SquaredError { targets: &wanted, weight: 0.2 }),
        ];
        for (index, make) in losses.iter().enumerate() {
            let (_, gradient) = of(&mut *make(), &outputs());
            for i in 0..5 {
                for j in 0..7 {
                    let at = |by: f32| {
                        let mut moved = outputs();
                        moved.row_mut(i)[j] += by;
                        of(&mut *make(), &moved).0
                    };
                    let want = (at(0.01) - at(-0.01)) / 0.02;
                    let found = f64::from(gradient.at(i, j));
                    assert!(
                        (found - want).abs() < 2e-3,
                        "loss {index}, ({i}, {j}): {found}, {want}"
                    );
                }
            }
        }
        let (sum, _) = of(&mut CrossEntropy::sum(&targets), &outputs());
        let (mean, _) = of(&mut CrossEntropy::mean(&targets), &outputs());
        let (weighted, gradient) = of(&mut CrossEntropy::weighted(&targets, &weights), &outputs());
        assert!((mean - sum / 4.0).abs() < 1e-6 && weighted != sum);
        assert!(gradient.row(2).iter().chain(gradient.row(3)).all(|g| *g == 0.0));
    }
}
