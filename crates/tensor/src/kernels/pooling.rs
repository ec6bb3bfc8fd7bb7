//! Maximum and mean of each channel in windows of images.

use super::patches::Patches;
use crate::{MatMut, MatRef, Scalar};

/// The maxima (examples * windows, channels), and the row of `x` of each.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn max_pool<T: Scalar>(over: &Patches, x: MatRef<'_, T>, mut y: MatMut<'_, T>) -> Vec<u32> {
    let (places, windows, channels) = (over.height * over.width, y.rows(), x.cols());
    let per_example = windows_of(over);
    assert_eq!(x.rows() * per_example, windows * places, "images and their windows");
    let mut picks = vec![u32::MAX; windows * channels];
    for example in 0..windows / per_example {
        over.visit(|window, _, place| {
            let (to, from) = (example * per_example + window, example * places + place);
            let picks = &mut picks[to * channels..(to + 1) * channels];
            for ((best, value), pick) in y.row_mut(to).iter_mut().zip(x.row(from)).zip(picks) {
                // A number that is not comparable is kept, so that it is found later.
                if *pick == u32::MAX || value.partial_cmp(best).is_none_or(|order| order.is_gt()) {
                    (*best, *pick) = (*value, from as u32);
                }
            }
        });
    }
    picks
}

/// Gradient of [`max_pool`]: that of each maximum at the number it was taken from.
pub fn max_pool_backward<T: Scalar>(picks: &[u32], dy: MatRef<'_, T>, mut dx: MatMut<'_, T>) {
    dx.fill(T::ZERO);
    for (row, picks) in picks.chunks(dy.cols()).enumerate() {
        for (channel, pick) in picks.iter().enumerate() {
            dx.row_mut(*pick as usize)[channel] += dy.at(row, channel);
        }
    }
}

/// The means (examples * windows, channels).
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn mean_pool<T: Scalar>(over: &Patches, x: MatRef<'_, T>, mut y: MatMut<'_, T>) {
    let (places, per_example) = (over.height * over.width, windows_of(over));
    assert_eq!(x.rows() * per_example, y.rows() * places, "images and their windows");
    let weight = T::ONE / T::from_f64((over.size * over.size) as f64);
    y.fill(T::ZERO);
    for example in 0..y.rows() / per_example {
        over.visit(|window, _, place| {
            let from = x.row(example * places + place);
            let to = y.row_mut(example * per_example + window);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += weight * *from);
        });
    }
}

/// Gradient of [`mean_pool`].
pub fn mean_pool_backward<T: Scalar>(over: &Patches, dy: MatRef<'_, T>, mut dx: MatMut<'_, T>) {
    let (places, per_example) = (over.height * over.width, windows_of(over));
    let weight = T::ONE / T::from_f64((over.size * over.size) as f64);
    dx.fill(T::ZERO);
    for example in 0..dy.rows() / per_example {
        over.visit(|window, _, place| {
            let from = dy.row(example * per_example + window);
            let to = dx.row_mut(example * places + place);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += weight * *from);
        });
    }
}

fn windows_of(over: &Patches) -> usize {
    let (down, across) = over.windows();
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
}
