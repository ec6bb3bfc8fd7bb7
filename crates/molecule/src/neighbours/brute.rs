//! Pairs by testing every pair and every image that may be near: the reference for tests of faster
//! searches, and the fastest method for a few atoms.

use super::{Pair, Search};
use crate::error::MoleculeError;
use crate::vectors::{cross, dot};
use std::ops::RangeInclusive;

/// All pairs of a search, in order.
pub(super) fn pairs(search: &Search<'_>) -> Result<Vec<Pair>, MoleculeError> {
    let lattice = Lattice::of(search)?;
    let mut pairs = Vec::new();
    let atoms = search.positions.len();
    for first in 0..atoms {
        for second in first..atoms {
            let [x, y, z] = lattice.images(search, first, second)?;
            for a in x {
                for b in y.clone() {
                    for c in z.clone() {
                        let image = [a, b, c];
                        if first < second || image > [0; 3] {
                            pairs.extend(search.pair(first, second, image)?);
                        }
                    }
                }
            }
            search.check_count(pairs.len())?;
        }
    }
    Ok(pairs)
}

/// The dual basis of the repeating vectors, within the space that they span.
struct Lattice {
    dual: [[f64; 3]; 3],
    /// Largest number of translations along each vector that can reach into the cutoff.
    reach: [f64; 3],
}

impl Lattice {
    fn of(search: &Search<'_>) -> Result<Self, MoleculeError> {
        let mut lattice = Self { dual: [[0.0; 3]; 3], reach: [0.0; 3] };
        let Some(cell) = search.cell else { return Ok(lattice) };
        let repeats: Vec<usize> = (0..3).filter(|k| cell.periodic[*k]).collect();
        for &k in &repeats {
            let row = cell.rows[k];
            let others: Vec<[f64; 3]> =
                repeats.iter().filter(|o| **o != k).map(|o| cell.rows[*o]).collect();
            // The part of the row that is orthogonal to all others.
            let normal = match others[..] {
                [a, b] => cross(&a, &b),
                [a] => {
                    let count = dot(&row, &a) / dot(&a, &a);
                    [0, 1, 2].map(|x| row[x] - count * a[x])
                }
                _ => row,
            };
            let height = dot(&normal, &row);
            lattice.dual[k] = normal.map(|x| x / height);
            lattice.reach[k] = search.upper * dot(&lattice.dual[k], &lattice.dual[k]).sqrt();
        }
        let images: f64 = lattice.reach.iter().map(|reach| 2.0 * reach + 1.0).product();
        search.check_images(images)?;
        Ok(lattice)
    }

    /// The translations of the second atom that may be near the first.
    fn images(
        &self,
        search: &Search<'_>,
        first: usize,
        second: usize,
    ) -> Result<[RangeInclusive<i32>; 3], MoleculeError> {
        let apart = difference(&search.positions[first], &search.positions[second]);
        let mut ranges = [0..=0, 0..=0, 0..=0];
        for (k, range) in ranges.iter_mut().enumerate() {
            let middle = dot(&self.dual[k], &apart);
            if middle.abs() > f64::from(i32::MAX / 4) {
                return Err(search.too_far(second));
            }
            // Rounding may only add images.
            let reach = self.reach[k] + 1e-6 * self.reach[k].min(1.0);
            *range = (middle - reach).ceil() as i32..=(middle + reach).floor() as i32;
            if self.reach[k] == 0.0 {
                *range = 0..=0;
            }
        }
        Ok(ranges)
    }
}

fn difference(a: &[f64; 3], b: &[f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|x| a[x] - b[x])
}
