//! Losses of single numbers.

use serde::{Deserialize, Serialize};

/// The loss of a deviation, with the names of torchmd-net's option `train_loss`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum LossKind {
    /// The square.
    #[default]
    #[serde(rename = "mse")]
    Square,
    /// The absolute value; its slope at zero is zero.
    #[serde(rename = "l1")]
    Absolute,
    /// Half the square up to `delta`, then a line of slope `delta` (Huber 1964).
    #[serde(rename = "huber")]
    Huber {
        /// Start of the line, in the unit of the deviation.
        delta: f64,
    },
}

impl LossKind {
    /// The loss of a deviation, and its slope.
    #[must_use]
    pub fn of(self, off: f64) -> (f64, f64) {
        match self {
            Self::Square => (off * off, 2.0 * off),
            Self::Absolute if off == 0.0 => (0.0, 0.0),
            Self::Absolute => (off.abs(), off.signum()),
            Self::Huber { delta } if off.abs() <= delta => (0.5 * off * off, off),
            Self::Huber { delta } => (delta * (off.abs() - 0.5 * delta), delta * off.signum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_equal_differences() {
        for kind in [LossKind::Square, LossKind::Absolute, LossKind::Huber { delta: 0.7 }] {
            for off in [-2.0, -0.69, -0.1, 0.2, 0.71, 3.0] {
                let h = 1e-6;
                let want = (kind.of(off + h).0 - kind.of(off - h).0) / (2.0 * h);
                assert!((kind.of(off).1 - want).abs() < 1e-8, "{kind:?} at {off}");
            }
            assert_eq!(kind.of(0.0), (0.0, 0.0), "{kind:?}");
        }
    }

    #[test]
    fn a_huber_loss_is_smooth_where_its_line_begins() {
        let kind = LossKind::Huber { delta: 0.5 };
        let (below, above) = (kind.of(0.5), kind.of(0.5 + 1e-12));
        assert!((below.0 - above.0).abs() < 1e-11 && (below.1 - above.1).abs() < 1e-11);
        assert_eq!(below.0, 0.125);
    }
}
