//! Magnitude pruning, called dropout in the paper: the smallest entries of a weight become zero.

use super::{Kept, LaserMethod};
use crate::{FitError, Size};
use linwright_ops::Shape;
use linwright_tensor::Mat;

pub(super) fn cut(
    weight: &Mat<f32>,
    cut: &LaserMethod,
    size: Size,
) -> Result<(Mat<f32>, Kept), FitError> {
    let shape = Shape { out: weight.rows(), inp: weight.cols() };
    let all = weight.data().len();
    let left = match (cut.compat, size) {
        (true, Size::Rate(rate)) => {
            pruned_compat(weight, rate).map_err(|reason| FitError::Size { shape, reason })?
        }
        (true, size) => {
            let reason = format!("the paper's code has rates only, not {size}");
            return Err(FitError::Size { shape, reason });
        }
        (false, Size::Rate(rate)) => pruned(weight, (rate * 0.1 * all as f64) as usize),
        (false, size) => {
            let share = size.share_of_numbers().ok_or_else(|| FitError::Size {
                shape,
                reason: format!("dropout has no rank; give rate, rho or keep, not {size}"),
            })?;
            pruned(weight, all - (share * all as f64) as usize)
        }
    };
    let nonzero = left.data().iter().filter(|x| **x != 0.0).count();
    Ok((left, Kept::of_numbers(nonzero, all)))
}

/// The weight with exactly `count` entries of smallest magnitude set to zero; ties by index.
///
/// # Panics
/// If there are fewer entries.
#[must_use]
pub fn pruned(weight: &Mat<f32>, count: usize) -> Mat<f32> {
    let mut left = weight.clone();
    if count == 0 {
        return left;
    }
    let alpha = of_rank(weight, count - 1);
    let below = weight.data().iter().filter(|x| x.abs() < alpha).count();
    let mut ties = count - below;
    for x in left.data_mut() {
        if x.abs() < alpha {
            *x = 0.0;
        } else if x.abs() == alpha && ties > 0 {
            *x = 0.0;
            ties -= 1;
        }
    }
    left
}

/// As in the paper's code: of N entries, zeroes all whose magnitude is at most that of index
/// `trunc(rate 0.1 N)` in ascending order, which is one more than the rate says, and all ties. Rate
/// 0 keeps all.
///
/// # Errors
/// At rate 10, where this index does not exist and the code fails, too.
pub fn pruned_compat(weight: &Mat<f32>, rate: f64) -> Result<Mat<f32>, String> {
    let index = (rate * 0.1 * weight.data().len() as f64) as usize;
    if rate == 0.0 {
        return Ok(weight.clone());
    }
    if index >= weight.data().len() {
        return Err(format!(
            "at rate {rate} the paper's code fails; leave compat out, or use zero"
        ));
    }
    let alpha = of_rank(weight, index);
    let mut left = weight.clone();
    left.data_mut().iter_mut().filter(|x| x.abs() <= alpha).for_each(|x| *x = 0.0);
    Ok(left)
}

/// The magnitude with this index in ascending order.
fn of_rank(weight: &Mat<f32>, index: usize) -> f32 {
    let mut sizes: Vec<f32> = weight.data().iter().map(|x| x.abs()).collect();
    *sizes.select_nth_unstable_by(index, f32::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight() -> Mat<f32> {
        Mat::from_vec(2, 4, vec![3.0, -1.0, 0.5, 1.0, -4.0, 1.0, 2.0, 0.0])
    }

    #[test]
    fn exactly_as_many_as_asked_for_become_zero_ties_in_order() {
        assert_eq!(pruned(&weight(), 0), weight());
        let three = [3.0, 0.0, 0.0, 1.0, -4.0, 1.0, 2.0, 0.0];
        assert_eq!(pruned(&weight(), 3).data(), three);
        assert!(pruned(&weight(), 8).data().iter().all(|x| *x == 0.0));
    }

    #[test]
    fn the_papers_code_takes_one_more_and_all_ties() {
        // Index trunc(0.25 * 8) = 2 in 0, 0.5, 1, 1, 1, 2, 3, 4.
        let left = pruned_compat(&weight(), 2.5).unwrap();
        assert_eq!(left.data(), [3.0, 0.0, 0.0, 0.0, -4.0, 0.0, 2.0, 0.0]);
        assert_eq!(pruned_compat(&weight(), 0.0).unwrap(), weight());
        assert!(pruned_compat(&weight(), 10.0).unwrap_err().contains("rate 10"));
    }
}
