//! How many parameters an operator may have.

use crate::FitError;
use linwright_ops::Shape;
use serde::{Deserialize, Serialize};

/// A budget of a low-rank form, in one of its two currencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// A number of columns.
    Rank(usize),
    /// Parameters kept over parameters of the dense weight, in (0, 1).
    Keep(f64),
}

/// The rank that a budget buys for a shape.
///
/// # Errors
/// [`FitError::Budget`] if the rank is zero, beyond the shape, or past the break-even point, where
/// two factors hold at least as many numbers as the dense weight.
pub fn low_rank_for(budget: Budget, shape: Shape) -> Result<usize, FitError> {
    let Shape { out, inp } = shape;
    let refuse = |reason: String| Err(FitError::Budget { shape, reason });
    // The largest rank with r (out + inp) < out inp.
    let largest = (out * inp).saturating_sub(1) / (out + inp).max(1);
    let rank = match budget {
        Budget::Rank(rank) => rank,
        Budget::Keep(keep) if keep > 0.0 && keep < 1.0 => {
            (keep * (out * inp) as f64 / (out + inp) as f64) as usize
        }
        Budget::Keep(keep) => {
            return refuse(format!("keep is {keep}, expected a share between 0 and 1"));
        }
    };
    if rank == 0 {
        return refuse(format!(
            "{budget:?} leaves rank 0; the least is {:.4} of the parameters",
            (out + inp) as f64 / (out * inp) as f64
        ));
    }
    if rank > largest {
        return refuse(format!(
            "rank {rank} holds {} numbers, the dense weight {}; the largest rank that saves anything is {largest}",
            rank.saturating_mul(out + inp),
            out * inp
        ));
    }
    Ok(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { out: 128, inp: 256 };

    #[test]
    fn keep_buys_at_most_its_share() {
        for keep in [0.05, 0.3, 0.5, 0.8, 0.99] {
            let rank = low_rank_for(Budget::Keep(keep), SHAPE).expect("a rank");
            assert!(
                (rank * 384) as f64 <= keep * 32768.0 && ((rank + 1) * 384) as f64 > keep * 32768.0
            );
        }
    }

    #[test]
    fn ranks_past_break_even_and_shares_outside_the_open_interval_are_refused() {
        assert!(low_rank_for(Budget::Rank(85), SHAPE).is_ok());
        for budget in [
            Budget::Rank(86),
            Budget::Rank(0),
            Budget::Keep(0.0),
            Budget::Keep(1.0),
            Budget::Keep(f64::NAN),
            Budget::Keep(1e-6),
        ] {
            assert!(
                matches!(low_rank_for(budget, SHAPE), Err(FitError::Budget { .. })),
                "{budget:?}"
            );
        }
    }
}
