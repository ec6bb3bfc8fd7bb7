//! The differentiated quantity of an example.

use crate::{AttributeError, Reduction};
use linwright_ops::{CrossEntropy, OutputLoss};
use linwright_tensor::MatMut;
use linwright_tensor::kernels::cross_entropy::log_sums;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The quantity of a target whose gradient is computed. Training lowers each of them, so proponents
/// have positive scores for any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Target {
    /// Cross entropy: `-log p`.
    #[default]
    Loss,
    /// Minus the margin `log p - log(1 - p)`, which is the logit minus the log-sum-exp of the
    /// others: finite where p rounds to one. TRAK differentiates it.
    Margin,
    /// Minus the logit of the target.
    Token,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 3] = [Self::Loss, Self::Margin, Self::Token];

    /// Its name in options and manifests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Margin => "margin",
            Self::Token => "token",
        }
    }

    /// The sum over rows of outputs, which are overwritten by its gradient. Rows with the target
    /// [`NO_TARGET`](crate::NO_TARGET) count nothing.
    pub(crate) fn of_rows(self, targets: &[u32], mut outputs: MatMut<'_, f32>) -> f64 {
        if self == Self::Loss {
            return CrossEntropy::sum(targets).of_rows(0, outputs);
        }
        let mut sum = 0.0;
        for (i, &target) in targets.iter().enumerate() {
            let mut row = outputs.reborrow().rows_range(i, 1);
            if target == crate::NO_TARGET {
                row.row_mut(0).fill(0.0);
                continue;
            }
            let chosen = target as usize;
            let logit = std::mem::replace(&mut row.row_mut(0)[chosen], f32::NEG_INFINITY);
            sum -= f64::from(logit);
            if self == Self::Margin && row.cols() > 1 {
                let others = log_sums(row.as_ref())[0];
                sum += others;
                let share = |other: &mut f32| *other = (f64::from(*other) - others).exp() as f32;
                row.row_mut(0).iter_mut().for_each(share);
            } else {
                row.row_mut(0).fill(0.0);
            }
            row.row_mut(0)[chosen] = -1.0;
        }
        sum
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Target {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let found = || AttributeError::Setting {
            name: "target",
            found: text.into(),
            expected: "loss, margin or token".into(),
        };
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(found)
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.name().into()
    }
}

impl TryFrom<String> for Target {
    type Error = AttributeError;

    fn try_from(text: String) -> Result<Self, AttributeError> {
        text.parse()
    }
}

/// What of an example is differentiated: a quantity of its targets, summed or averaged over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The quantity of each target.
    pub target: Target,
    /// Reduction of the quantities of targets to that of the example.
    pub reduction: Reduction,
}

impl From<Reduction> for Objective {
    fn from(reduction: Reduction) -> Self {
        Self { target: Target::Loss, reduction }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NO_TARGET;
    use linwright_tensor::{Mat, RngKey};

    fn value(target: Target, targets: &[u32], outputs: &Mat<f32>) -> (f64, Mat<f32>) {
        let mut gradient = outputs.clone();
        (target.of_rows(targets, gradient.view_mut()), gradient)
    }

    #[test]
    fn gradients_are_slopes_and_rows_without_a_target_count_nothing() {
        let outputs = Mat::from_vec(3, 5, RngKey::new(1).stream().normals(15, 1.0));
        let targets = [2, NO_TARGET, 4];
        for target in Target::ALL {
            let (_, gradient) = value(target, &targets, &outputs);
            assert!(gradient.row(1).iter().all(|number| *number == 0.0));
            for i in 0..3 {
                for j in 0..5 {
                    let at = |by: f32| {
                        let mut moved = outputs.clone();
                        moved.row_mut(i)[j] += by;
                        value(target, &targets, &moved).0
                    };
                    let (slope, found) =
                        ((at(0.01) - at(-0.01)) / 0.02, f64::from(gradient.at(i, j)));
                    assert!((slope - found).abs() < 2e-3, "{target} {i} {j}: {slope}, {found}");
                }
            }
        }
    }

    #[test]
    fn the_margin_is_finite_where_the_probability_rounds_to_one() {
        let outputs = Mat::from_vec(1, 3, vec![200.0, 0.0, -1.0]);
        let (found, gradient) = value(Target::Margin, &[0], &outputs);
        let expected = -(200.0 - (1.0 + (-1.0f64).exp()).ln());
        assert!((found - expected).abs() < 1e-5, "{found}, {expected}");
        assert_eq!(gradient.at(0, 0), -1.0);
        assert!((gradient.at(0, 1) + gradient.at(0, 2) - 1.0).abs() < 1e-6);
        let (loss, _) = value(Target::Loss, &[0], &outputs);
        assert_eq!(loss, 0.0, "the loss says nothing any more");
    }

    #[test]
    fn margins_are_log_odds_and_names_are_read_back() {
        let outputs = Mat::from_vec(2, 4, RngKey::new(2).stream().normals(8, 1.0));
        let targets = [1, 3];
        let each = |target: Target, i: usize| {
            let row = Mat::from_vec(1, 4, outputs.row(i).to_vec());
            value(target, &targets[i..=i], &row).0
        };
        for (i, &chosen) in targets.iter().enumerate() {
            let p = (-each(Target::Loss, i)).exp();
            assert!((each(Target::Margin, i) + (p / (1.0 - p)).ln()).abs() < 1e-5);
            assert_eq!(each(Target::Token, i), -f64::from(outputs.at(i, chosen as usize)));
        }
        for target in Target::ALL {
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
        let message = "logit".parse::<Target>().unwrap_err().to_string();
        assert!(message.contains("loss, margin or token"), "{message}");
    }
}
