//! Patches of images, for convolutions and pooling. Rows of an image are its positions, row by row;
//! columns are channels.

use crate::{MatMut, MatRef, Scalar, parallel};
use std::ops::Range;

/// Square windows over images of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patches {
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Side of a window.
    pub size: usize,
    /// Distance of windows.
    pub stride: usize,
    /// Zeros around an image.
    pub padding: usize,
}

impl Patches {
    /// Numbers of windows vertically and horizontally.
    #[must_use]
    pub fn windows(&self) -> (usize, usize) {
        let along = |length: usize| (length + 2 * self.padding - self.size) / self.stride + 1;
        (along(self.height), along(self.width))
    }

    /// Calls `visit(window, offset, place)` for every position of every window inside the image,
    /// where offset is the position within its window.
    pub fn visit(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (down, across) = self.windows();
        for window in 0..down * across {
            let (top, left) = (window / across * self.stride, window % across * self.stride);
            let inside = |start: usize, length: usize| -> Range<usize> {
                let end = (length + self.padding).saturating_sub(start).min(self.size);
                self.padding.saturating_sub(start).min(end)..end
            };
            for i in inside(top, self.height) {
                let row = (top + i - self.padding) * self.width;
                for j in inside(left, self.width) {
                    visit(window, i * self.size + j, row + left + j - self.padding);
                }
            }
        }
    }

    /// The patches (examples * windows, channels * size²) of images (examples * positions,
    /// channels), columns in the order channel, row, column.
    ///
    /// # Panics
    /// If the shapes do not match.
    #[track_caller]
    pub fn gather<T: Scalar>(&self, x: MatRef<'_, T>, patches: MatMut<'_, T>) {
        let (places, windows, area) = self.check(x, patches.as_ref());
        parallel::for_each(patches.row_blocks(windows), |example, mut patches| {
            if self.padding > 0 {
                patches.fill(T::ZERO);
            }
            self.visit(|window, offset, place| {
                let row = patches.row_mut(window);
                let numbers = x.row(example * places + place);
                for (to, from) in row[offset..].iter_mut().step_by(area).zip(numbers) {
                    *to = *from;
                }
            });
        });
    }

    /// The transpose of [`Self::gather`]: adds every patch to its positions.
    ///
    /// # Panics
    /// If the shapes do not match.
    #[track_caller]
    pub fn scatter<T: Scalar>(&self, patches: MatRef<'_, T>, x: MatMut<'_, T>) {
        let (places, windows, area) = self.check(x.as_ref(), patches);
        parallel::for_each(x.row_blocks(places), |example, mut x| {
            x.fill(T::ZERO);
            self.visit(|window, offset, place| {
                let row = patches.row(example * windows + window);
                for (from, to) in row[offset..].iter().step_by(area).zip(x.row_mut(place)) {
                    *to += *from;
                }
            });
        });
    }

    /// Calls `visit(window, offset, place, count)` for every run of adjacent positions in a window,
    /// inside the image: offset is that of the first one within its window.
    fn visit_runs(&self, mut visit: impl FnMut(usize, usize, usize, usize)) {
        let (down, across) = self.windows();
        let inside = |start: usize, length: usize| -> Range<usize> {
            let end = (length + self.padding).saturating_sub(start).min(self.size);
            self.padding.saturating_sub(start).min(end)..end
        };
        for window in 0..down * across {
            let (top, left) = (window / across * self.stride, window % across * self.stride);
            let columns = inside(left, self.width);
            if columns.is_empty() {
                continue;
            }
            for i in inside(top, self.height) {
                let row = (top + i - self.padding) * self.width;
                let first = row + left + columns.start - self.padding;
                visit(window, i * self.size + columns.start, first, columns.len());
            }
        }
    }

    /// [`Self::gather`] with columns in the order row, column, channel: runs of positions are
    /// copied as they are in memory.
    ///
    /// # Panics
    /// If the shapes do not match, or rows of the images are not contiguous.
    #[track_caller]
    pub fn gather_places<T: Scalar>(&self, x: MatRef<'_, T>, patches: MatMut<'_, T>) {
        let (places, windows, _) = self.check(x, patches.as_ref());
        let channels = x.cols();
        assert_eq!(x.stride(), channels, "distance of rows");
        parallel::for_each(patches.row_blocks(windows), |example, mut patches| {
            if self.padding > 0 {
                patches.fill(T::ZERO);
            }
            let x = &x.data()[example * places * channels..];
            self.visit_runs(|window, offset, place, count| {
                let to = &mut patches.row_mut(window)[offset * channels..][..count * channels];
                to.copy_from_slice(&x[place * channels..][..count * channels]);
            });
        });
    }

    /// The transpose of [`Self::gather_places`]: adds every patch to its positions.
    ///
    /// # Panics
    /// If the shapes do not match, or rows of the images are not contiguous.
    #[track_caller]
    pub fn scatter_places<T: Scalar>(&self, patches: MatRef<'_, T>, x: MatMut<'_, T>) {
        let (places, windows, _) = self.check(x.as_ref(), patches);
        let channels = x.cols();
        assert_eq!(x.stride(), channels, "distance of rows");
        parallel::for_each(x.row_blocks(places), |example, mut x| {
            x.fill(T::ZERO);
            let x = x.data_mut();
            self.visit_runs(|window, offset, place, count| {
                let from = &patches.row(example * windows + window)[offset * channels..];
                let to = x[place * channels..][..count * channels].iter_mut();
                to.zip(from).for_each(|(to, from)| *to += *from);
            });
        });
    }

    /// Windows of the transposed map, over images with one position for each of these windows:
    /// positions and windows exchange their roles, and offsets are counted from the other end. None
    /// if windows skip positions.
    #[must_use]
    pub fn transposed(&self) -> Option<Self> {
        let (height, width) = self.windows();
        let padding = (self.size - 1).checked_sub(self.padding)?;
        (self.stride == 1).then_some(Self { height, width, padding, ..*self })
    }

    #[track_caller]
    fn check<T: Scalar>(&self, x: MatRef<'_, T>, patches: MatRef<'_, T>) -> (usize, usize, usize) {
        let (places, area) = (self.height * self.width, self.size * self.size);
        let (down, across) = self.windows();
        let examples = x.rows() / places;
        let want = (examples * places, examples * down * across, area * x.cols());
        assert_eq!((x.rows(), patches.rows(), patches.cols()), want, "images and their patches");
        (places, down * across, area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    const GEOMETRY: Patches = Patches { height: 5, width: 4, size: 3, stride: 2, padding: 1 };

    fn random(rows: usize, cols: usize) -> Mat<f64> {
        Mat::from_vec(rows, cols, RngKey::new(5).stream().normals(rows * cols, 1.0))
    }

    #[test]
    fn patches_are_those_of_the_definition() {
        let x = random(40, 2);
        let mut patches = Mat::zeros(12, 18);
        GEOMETRY.gather(x.view(), patches.view_mut());
        let naive = Mat::from_fn(12, 18, |row, col| {
            let (example, window) = (row / 6, row % 6);
            let i = (window / 2 * 2 + col % 9 / 3) as isize - 1;
            let j = (window % 2 * 2 + col % 3) as isize - 1;
            match (0..5).contains(&i) && (0..4).contains(&j) {
                true => x.at(example * 20 + (i * 4 + j) as usize, col / 9),
                false => 0.0,
            }
        });
        assert_eq!(patches, naive);
    }

    /// Columns in the order row, column, channel, of patches in the order channel, row, column.
    fn by_place(patches: &Mat<f64>, area: usize) -> Mat<f64> {
        let channels = patches.cols() / area;
        Mat::from_fn(patches.rows(), patches.cols(), |row, col| {
            patches.at(row, col % channels * area + col / channels)
        })
    }

    #[test]
    fn places_beside_each_other_move_together() {
        for geometry in [GEOMETRY, Patches { stride: 1, ..GEOMETRY }] {
            let (down, across) = geometry.windows();
            let x = random(40, 2);
            let mut plain = Mat::zeros(2 * down * across, 18);
            let (mut found, p) = (plain.clone(), random(2 * down * across, 18));
            geometry.gather(x.view(), plain.view_mut());
            geometry.gather_places(x.view(), found.view_mut());
            assert_eq!(found, by_place(&plain, 9), "{geometry:?}");
            let (mut plain, mut found) = (Mat::zeros(40, 2), Mat::zeros(40, 2));
            geometry.scatter(p.view(), plain.view_mut());
            geometry.scatter_places(by_place(&p, 9).view(), found.view_mut());
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-14;
            assert!(plain.data().iter().zip(found.data()).all(near), "{geometry:?}");
        }
    }

    /// Windows of the transposed map hold for each place what belongs to it, counted from the end.
    #[test]
    fn transposed_windows_exchange_place_and_window() {
        for padding in 0..3 {
            let geometry = Patches { stride: 1, padding, ..GEOMETRY };
            let (down, across) = geometry.windows();
            let transposed = geometry.transposed().unwrap();
            assert_eq!(transposed.windows(), (5, 4));
            let (mut pairs, mut found) = (Vec::new(), Vec::new());
            geometry.visit(|window, offset, place| pairs.push((place, 8 - offset, window)));
            transposed.visit(|place, offset, window| found.push((place, offset, window)));
            pairs.sort_unstable();
            found.sort_unstable();
            assert_eq!(pairs, found, "{down} x {across} windows");
        }
        assert_eq!(GEOMETRY.transposed(), None);
        assert_eq!(Patches { stride: 1, padding: 3, ..GEOMETRY }.transposed(), None);
    }

    #[test]
    fn scatter_is_the_transpose_of_gather() {
        let (x, p) = (random(40, 2), random(12, 18));
        let (mut gathered, mut scattered) = (Mat::zeros(12, 18), Mat::zeros(40, 2));
        GEOMETRY.gather(x.view(), gathered.view_mut());
        GEOMETRY.scatter(p.view(), scattered.view_mut());
        let dot = |a: &Mat<f64>, b: &Mat<f64>| -> f64 {
            a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum()
        };
        assert!((dot(&gathered, &p) - dot(&x, &scattered)).abs() < 1e-12);
    }
}
