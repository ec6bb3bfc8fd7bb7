//! Rows of positions with a column for each channel, and one row for each example, channels first.

use crate::{MatMut, MatRef, Scalar, parallel};

/// Converts rows of positions (examples * positions, channels) to rows (examples, channels *
/// positions): all positions of the first channel, then those of the next.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn channels_first<T: Scalar>(x: MatRef<'_, T>, y: MatMut<'_, T>) {
    let places = check(x, y.as_ref());
    parallel::for_each(y.row_blocks(1), |example, mut y| {
        let y = y.row_mut(0);
        for place in 0..places {
            let numbers = x.row(example * places + place);
            y[place..].iter_mut().step_by(places).zip(numbers).for_each(|(y, x)| *y = *x);
        }
    });
}

/// The inverse of [`channels_first`].
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn channels_last<T: Scalar>(y: MatRef<'_, T>, x: MatMut<'_, T>) {
    let places = check(x.as_ref(), y);
    parallel::for_each(x.row_blocks(places), |example, mut x| {
        let y = y.row(example);
        for place in 0..places {
            let numbers = y[place..].iter().step_by(places);
            x.row_mut(place).iter_mut().zip(numbers).for_each(|(x, y)| *x = *y);
        }
    });
}

#[track_caller]
fn check<T: Scalar>(x: MatRef<'_, T>, y: MatRef<'_, T>) -> usize {
    let places = y.cols() / x.cols().max(1);
    let found = (x.rows(), x.cols() * places);
    assert_eq!(found, (y.rows() * places, y.cols()), "places and rows of examples");
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mat;

    #[test]
    fn channels_come_first_and_back() {
        let x: Mat<f64> = Mat::from_fn(6, 2, |i, j| (10 * i + j) as f64);
        let mut y = Mat::zeros(2, 6);
        channels_first(x.view(), y.view_mut());
        assert_eq!(y.row(1), [30.0, 40.0, 50.0, 31.0, 41.0, 51.0]);
        let mut back = Mat::zeros(6, 2);
        channels_last(y.view(), back.view_mut());
        assert_eq!(back, x);
    }
}
