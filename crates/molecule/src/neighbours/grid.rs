//! Pairs by bins: linear in the number of atoms.
//!
//! Atoms are moved into the reduced cell and sorted into bins of about half the cutoff along its
//! vectors. An atom searches all bins within the cutoff; a bin beyond the cell is an image of one
//! inside, so cells smaller than the cutoff need no special case. Bins are larger if atoms are
//! sparse, so memory is also linear in the atoms. Distances of candidates are recomputed from the
//! given positions: the result equals the definition to the last bit.

use super::frame::Frame;
use super::{Pair, Search};
use crate::error::MoleculeError;

/// Largest number of bins per atom, and smallest total.
const BINS: (usize, usize) = (8, 64);
/// Bins are wider than half the cutoff, and the cutoff of candidates larger, by this share, so that
/// rounding loses no pair.
const MARGIN: f64 = 1e-6;

/// All pairs of a search, in order.
pub(super) fn pairs(search: &Search<'_>) -> Result<Vec<Pair>, MoleculeError> {
    let grid = Grid::new(search)?;
    let found = grid.candidates(search)?;
    let mut pairs = Vec::with_capacity(found.candidates.len());
    let mut row = Vec::new();
    for (first, range) in found.rows.iter().enumerate() {
        row.clear();
        row.extend_from_slice(&found.candidates[range.0..range.1]);
        row.sort_unstable_by_key(|candidate| (candidate.second, candidate.image));
        for candidate in &row {
            pairs.extend(search.pair(first, candidate.second as usize, candidate.image)?);
        }
    }
    Ok(pairs)
}

/// Atoms in their bins.
struct Grid {
    /// Bins along each vector.
    bins: [usize; 3],
    /// Bins within the cutoff, in each direction.
    reach: [i64; 3],
    /// Offset of the atoms of each bin in the lists below; one more than bins.
    starts: Vec<u32>,
    /// Atoms by bin.
    atoms: Vec<u32>,
    /// Their positions in the cell.
    places: Vec<[f64; 3]>,
    /// The translations, in vectors of the frame, by which they were moved.
    moved: Vec<[i64; 3]>,
    /// Square of the distance up to which pairs are candidates.
    near: f64,
}

/// A pair that may be near.
#[derive(Clone, Copy)]
struct Candidate {
    second: u32,
    image: [i32; 3],
}

/// Candidates by first atom.
struct Found {
    candidates: Vec<Candidate>,
    /// Range of the candidates of each atom.
    rows: Vec<(usize, usize)>,
}

/// Atoms of neighbouring bins in one image of the cell.
struct Segment {
    atoms: (usize, usize),
    image: [i64; 3],
    /// The image's translation.
    shift: [f64; 3],
}

impl Grid {
    fn new(search: &Search<'_>) -> Result<Self, MoleculeError> {
        let frame = &search.frame;
        let (places, moved) = placed(search, frame);
        let coordinates: Vec<[f64; 3]> =
            places.iter().map(|place| frame.coordinates(place)).collect();
        let mut low = [0.0; 3];
        let mut length = frame.widths;
        for k in frame.periodic..3 {
            let all = || coordinates.iter().map(|c| c[k]);
            low[k] = all().fold(f64::INFINITY, f64::min);
            length[k] = (all().fold(f64::NEG_INFINITY, f64::max) - low[k]).max(0.0);
        }
        let bins = counts(search, &length);
        let span = |k: usize| if k < frame.periodic { 1.0 } else { length[k] };
        let bin_of = |c: &[f64; 3]| {
            let along = |k: usize| {
                let share = if span(k) > 0.0 { (c[k] - low[k]) / span(k) } else { 0.0 };
                // Rounding can lead slightly out of the cell.
                ((share * bins[k] as f64).max(0.0) as usize).min(bins[k] - 1)
            };
            (along(0) * bins[1] + along(1)) * bins[2] + along(2)
        };
        let of: Vec<usize> = coordinates.iter().map(bin_of).collect();
        let (starts, order) = sorted(&of, bins.iter().product());
        let mut reach = [0; 3];
        for (k, reach) in reach.iter_mut().enumerate() {
            let most = if k < frame.periodic { f64::MAX } else { (bins[k] - 1) as f64 };
            let width = length[k] / bins[k] as f64;
            let far = search.upper * (1.0 + MARGIN) / width;
            *reach = if width > 0.0 { far.ceil().min(most) as i64 } else { 0 };
        }
        let images = (0..frame.periodic).map(|k| 2.0 * search.upper / frame.widths[k] + 1.0);
        search.check_images(images.product())?;
        // Positions far from the origin are rounded.
        let largest = search.positions.iter().flatten().fold(0.0, |m: f64, x| m.max(x.abs()));
        let near = search.upper * (1.0 + MARGIN) + 1e-14 * largest;
        Ok(Self {
            bins,
            reach,
            starts,
            places: order.iter().map(|atom| places[*atom as usize]).collect(),
            moved: order.iter().map(|atom| moved[*atom as usize]).collect(),
            atoms: order,
            near: near * near,
        })
    }

    fn candidates(&self, search: &Search<'_>) -> Result<Found, MoleculeError> {
        let frame = &search.frame;
        let mut found = Found { candidates: Vec::new(), rows: vec![(0, 0); self.atoms.len()] };
        let mut segments = Vec::new();
        let [nx, ny, nz] = self.bins;
        for x in 0..nx {
            for y in 0..ny {
                for z in 0..nz {
                    let bin = (x * ny + y) * nz + z;
                    let here = self.starts[bin] as usize..self.starts[bin + 1] as usize;
                    if here.is_empty() {
                        continue;
                    }
                    self.around([x, y, z], frame, &mut segments);
                    for at in here {
                        let start = found.candidates.len();
                        self.near(at, &segments, search, &mut found.candidates)?;
                        found.rows[self.atoms[at] as usize] = (start, found.candidates.len());
                        search.check_count(found.candidates.len())?;
                    }
                }
            }
        }
        Ok(found)
    }

    /// The segments that atoms of a bin may have neighbours in.
    fn around(&self, bin: [usize; 3], frame: &Frame, segments: &mut Vec<Segment>) {
        segments.clear();
        let [x, y, z] = bin.map(|at| at as i64);
        let [nx, ny, nz] = self.bins.map(|count| count as i64);
        let [rx, ry, rz] = self.reach;
        for dx in x - rx..=x + rx {
            let Some((mx, x)) = self.wrapped(0, dx, nx, frame) else { continue };
            for dy in y - ry..=y + ry {
                let Some((my, y)) = self.wrapped(1, dy, ny, frame) else { continue };
                let mut dz = z - rz;
                while dz <= z + rz {
                    let Some((mz, first)) = self.wrapped(2, dz, nz, frame) else {
                        dz += 1;
                        continue;
                    };
                    // All bins up to the end of the cell are one range.
                    let count = (z + rz - dz + 1).min(nz - first as i64);
                    let bin = (x * self.bins[1] + y) * self.bins[2] + first;
                    let end = bin + count as usize;
                    let atoms = (self.starts[bin] as usize, self.starts[end] as usize);
                    if atoms.0 < atoms.1 {
                        let image = [mx, my, mz];
                        segments.push(Segment { atoms, image, shift: frame.translation(image) });
                    }
                    dz += count;
                }
            }
        }
    }

    /// Image and index of a bin along a vector; none outside along directions that do not repeat.
    fn wrapped(&self, k: usize, at: i64, count: i64, frame: &Frame) -> Option<(i64, usize)> {
        if k < frame.periodic {
            Some((at.div_euclid(count), at.rem_euclid(count) as usize))
        } else {
            (0..count).contains(&at).then_some((0, at as usize))
        }
    }

    /// Adds the atoms near the one at index `at` of the lists that form a pair with it as first
    /// atom.
    ///
    /// # Errors
    /// An image that does not fit, a coincident atom, and far too many close ones.
    fn near(
        &self,
        at: usize,
        segments: &[Segment],
        search: &Search<'_>,
        candidates: &mut Vec<Candidate>,
    ) -> Result<(), MoleculeError> {
        let first = self.atoms[at];
        let (mut close, close_square) = (0, search.close().powi(2));
        for segment in segments {
            let place = [0, 1, 2].map(|x| self.places[at][x] - segment.shift[x]);
            for other in segment.atoms.0..segment.atoms.1 {
                let apart = [0, 1, 2].map(|x| place[x] - self.places[other][x]);
                let square = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2];
                let second = self.atoms[other];
                if square >= self.near {
                    continue;
                }
                close += usize::from(square < close_square && second != first);
                if second < first {
                    continue;
                }
                let image =
                    [0, 1, 2].map(|k| segment.image[k] + self.moved[at][k] - self.moved[other][k]);
                let image = match image == [0; 3] {
                    true => [0; 3],
                    false => {
                        search.frame.image(image).ok_or_else(|| search.too_far(first as usize))?
                    }
                };
                if first < second || image > [0; 3] {
                    if square < close_square {
                        // Coincident atoms are reported before all of their pairs are stored.
                        search.pair(first as usize, second as usize, image)?;
                    }
                    candidates.push(Candidate { second, image });
                }
            }
        }
        search.check_close(first as usize, close)
    }
}

/// Positions in the cell, and the translations by which they were moved: `position = place +
/// cells`.
fn placed(search: &Search<'_>, frame: &Frame) -> (Vec<[f64; 3]>, Vec<[i64; 3]>) {
    let mut places = Vec::with_capacity(search.positions.len());
    let mut moved = Vec::with_capacity(search.positions.len());
    for position in search.positions {
        let mut cells = [0; 3];
        let coordinates = frame.coordinates(position);
        for k in 0..frame.periodic {
            cells[k] = coordinates[k].floor() as i64;
        }
        let shift = frame.translation(cells);
        places.push([0, 1, 2].map(|x| position[x] - shift[x]));
        moved.push(cells);
    }
    (places, moved)
}

/// Bins along vectors of these lengths.
fn counts(search: &Search<'_>, length: &[f64; 3]) -> [usize; 3] {
    let width = 0.5 * search.upper * (1.0 + MARGIN);
    let most = BINS.0 * search.positions.len() + BINS.1;
    let mut bins = length.map(|length| ((length / width) as usize).clamp(1, most));
    while bins.iter().map(|count| *count as f64).product::<f64>() > most as f64 {
        let longest = (0..3).max_by_key(|k| bins[*k]).unwrap_or(0);
        bins[longest] = bins[longest].div_ceil(2);
    }
    bins
}

/// Offset of each bin, and the atoms by bin, in order within each.
fn sorted(of: &[usize], bins: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; bins + 1];
    for bin in of {
        starts[bin + 1] += 1;
    }
    for bin in 0..bins {
        starts[bin + 1] += starts[bin];
    }
    let mut next = starts.clone();
    let mut order = vec![0u32; of.len()];
    for (atom, bin) in of.iter().enumerate() {
        order[next[*bin] as usize] = atom as u32;
        next[*bin] += 1;
    }
    (starts, order)
}
