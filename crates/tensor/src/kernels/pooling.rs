//! Maximum and mean of each channel in windows of images.

use super::patches::Patches;
use crate::{MatMut, MatRef, Scalar, parallel};

/// The maxima (examples * windows, channels), and the row of `x` of each.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn max_pool<T: Scalar>(over: &Patches, x: MatRef<'_, T>, y: MatMut<'_, T>) -> Vec<u32> {
    let (places, channels) = (over.height * over.width, x.cols());
    let windows = check(over, x, y.as_ref());
    let mut picks = vec![u32::MAX; y.rows() * channels];
    let per_example = picks.chunks_mut(windows * channels);
    let examples = y.row_blocks(windows).into_iter().zip(per_example).collect();
    parallel::for_each(examples, |example, (mut y, picks): (MatMut<'_, T>, &mut [u32])| {
        over.visit(|window, _, place| {
            let from = example * places + place;
            let picks = &mut picks[window * channels..(window + 1) * channels];
            for ((best, value), pick) in y.row_mut(window).iter_mut().zip(x.row(from)).zip(picks) {
                // A NaN is kept, so that it is found later.
                if *pick == u32::MAX || value.partial_cmp(best).is_none_or(|order| order.is_gt()) {
                    (*best, *pick) = (*value, from as u32);
                }
            }
        });
    });
    picks
}

/// Gradient of [`max_pool`]: that of each maximum at the number it was taken from.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn max_pool_backward<T: Scalar>(
    over: &Patches,
    picks: &[u32],
    dy: MatRef<'_, T>,
    dx: MatMut<'_, T>,
) {
    let (places, channels) = (over.height * over.width, dy.cols());
    let windows = check(over, dx.as_ref(), dy);
    parallel::for_each(dx.row_blocks(places), |example, mut dx| {
        dx.fill(T::ZERO);
        for window in example * windows..(example + 1) * windows {
            for channel in 0..channels {
                let from = picks[window * channels + channel] as usize - example * places;
                dx.row_mut(from)[channel] += dy.at(window, channel);
            }
        }
    });
}

/// The means (examples * windows, channels).
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn mean_pool<T: Scalar>(over: &Patches, x: MatRef<'_, T>, y: MatMut<'_, T>) {
    let (places, windows) = (over.height * over.width, check(over, x, y.as_ref()));
    let weight = T::ONE / T::from_f64((over.size * over.size) as f64);
    parallel::for_each(y.row_blocks(windows), |example, mut y| {
        y.fill(T::ZERO);
        over.visit(|window, _, place| {
            let numbers = y.row_mut(window).iter_mut().zip(x.row(example * places + place));
            numbers.for_each(|(to, from)| *to += weight * *from);
        });
    });
}

/// Gradient of [`mean_pool`].
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn mean_pool_backward<T: Scalar>(over: &Patches, dy: MatRef<'_, T>, dx: MatMut<'_, T>) {
    let (places, windows) = (over.height * over.width, check(over, dx.as_ref(), dy));
    let weight = T::ONE / T::from_f64((over.size * over.size) as f64);
    parallel::for_each(dx.row_blocks(places), |example, mut dx| {
        dx.fill(T::ZERO);
        over.visit(|window, _, place| {
            let numbers = dx.row_mut(place).iter_mut().zip(dy.row(example * windows + window));
            numbers.for_each(|(to, from)| *to += weight * *from);
        });
    });
}

/// Checks the shapes of images and their windows; returns the windows of an image.
#[track_caller]
fn check<T: Scalar>(over: &Patches, x: MatRef<'_, T>, y: MatRef<'_, T>) -> usize {
    let (down, across) = over.windows();
    let found = (x.rows() * down * across, x.cols());
    assert_eq!(found, (y.rows() * over.height * over.width, y.cols()), "images and their windows");
    down * across
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn maxima_and_means_are_those_of_the_patches() {
        let over = Patches { height: 5, width: 4, size: 2, stride: 2, padding: 0 };
        let x: Mat<f64> = Mat::from_vec(40, 3, RngKey::new(8).stream().normals(120, 1.0));
        let mut patches = Mat::zeros(8, 12);
        over.gather(x.view(), patches.view_mut());
        let (mut max, mut mean) = (Mat::zeros(8, 3), Mat::zeros(8, 3));
        let picks = max_pool(&over, x.view(), max.view_mut());
        mean_pool(&over, x.view(), mean.view_mut());
        for row in 0..8 {
            for channel in 0..3 {
                let patch = &patches.row(row)[channel * 4..channel * 4 + 4];
                let largest = patch.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                assert_eq!(max.at(row, channel), largest);
                assert_eq!(x.at(picks[row * 3 + channel] as usize, channel), largest);
                assert!((mean.at(row, channel) - patch.iter().sum::<f64>() / 4.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn gradients_are_the_transposes() {
        let over = Patches { height: 5, width: 4, size: 3, stride: 1, padding: 0 };
        let random = |rows: usize, key| -> Mat<f64> {
            Mat::from_vec(rows, 2, RngKey::new(key).stream().normals(rows * 2, 1.0))
        };
        let (x, dy) = (random(40, 1), random(12, 2));
        let dot = |a: &Mat<f64>, b: &Mat<f64>| -> f64 {
            a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum()
        };
        let (mut y, mut dx) = (Mat::zeros(12, 2), Mat::zeros(40, 2));
        let picks = max_pool(&over, x.view(), y.view_mut());
        max_pool_backward(&over, &picks, dy.view(), dx.view_mut());
        assert!((dot(&y, &dy) - dot(&x, &dx)).abs() < 1e-12);
        mean_pool(&over, x.view(), y.view_mut());
        mean_pool_backward(&over, dy.view(), dx.view_mut());
        assert!((dot(&y, &dy) - dot(&x, &dx)).abs() < 1e-12);
    }
}
