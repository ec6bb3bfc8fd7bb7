//! The lattice for neighbour searches: reduced vectors, completed to a basis of space.
//!
//! Lattice vectors of a skewed cell are replaced by short ones of the same lattice, which keeps the
//! number of images within a cutoff small; directions that do not repeat get unit vectors
//! orthogonal to all others. Images are counted in reduced vectors and translated back.

use crate::error::MoleculeError;
use crate::structure::Cell;
use crate::vectors::{cross, dot};

/// Largest number of translations by a lattice vector, far beyond any in real data.
const TRANSLATIONS: f64 = 1_073_741_824.0;
/// Volume relative to the product of lengths, below which vectors count as dependent.
const FLAT: f64 = 1e-10;
/// A replaced vector is shorter at least by this factor, so that reduction ends.
const SHORTER: f64 = 1.0 - 1e-9;
/// Rounds of reduction: lengths shrink at least by half in most of them.
const ROUNDS: usize = 1 << 12;

/// A basis of space, the first vectors of which generate the lattice.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The vectors as rows.
    pub(crate) rows: [[f64; 3]; 3],
    /// How many of them repeat.
    pub(crate) periodic: usize,
    /// Distances of opposite faces of the parallelepiped.
    pub(crate) widths: [f64; 3],
    /// The dual basis: `dual[k]` times a position is its coordinate `k`.
    dual: [[f64; 3]; 3],
    /// Each repeating vector in the lattice vectors of the cell.
    parts: [[i64; 3]; 3],
}

impl Frame {
    /// The frame of a cell, or of space without one.
    pub(crate) fn new(cell: Option<&Cell>) -> Result<Self, MoleculeError> {
        let Some(cell) = cell else { return Ok(Self::of(&[], &[])) };
        let which: Vec<usize> = (0..3).filter(|k| cell.periodic[*k]).collect();
        let wrong = |what| MoleculeError::Cell { rows: cell.rows, what };
        let vectors: Vec<[f64; 3]> = which.iter().map(|k| cell.rows[*k]).collect();
        if vectors.iter().flatten().any(|v| !v.is_finite() || v.abs() > 1e100) {
            return Err(wrong("has numbers that are not finite, or huge"));
        }
        let lengths: f64 = vectors.iter().map(|v| dot(v, v).sqrt()).product();
        let span = span(&vectors);
        if span.is_nan() || span <= FLAT * lengths {
            return Err(wrong("has no volume: its repeating vectors lie in a plane or on a line"));
        }
        let unit = |k: usize| [0, 1, 2].map(|other| i64::from(other == k));
        let mut parts: Vec<[i64; 3]> = which.iter().map(|k| unit(*k)).collect();
        let vectors = reduced(cell, &mut parts).ok_or_else(|| wrong("is skewed too far"))?;
        Ok(Self::of(&vectors, &parts))
    }

    fn of(vectors: &[[f64; 3]], parts: &[[i64; 3]]) -> Self {
        let rows = completed(vectors);
        let volume = dot(&rows[0], &cross(&rows[1], &rows[2]));
        let dual = [(1, 2), (2, 0), (0, 1)].map(|(a, b)| cross(&rows[a], &rows[b]));
        let dual = dual.map(|normal| normal.map(|x| x / volume));
        let widths = dual.map(|normal| 1.0 / dot(&normal, &normal).sqrt());
        let mut all = [[0; 3]; 3];
        all[..parts.len()].copy_from_slice(parts);
        Self { rows, periodic: vectors.len(), widths, dual, parts: all }
    }

    /// Coordinates of a position along the vectors.
    pub(crate) fn coordinates(&self, position: &[f64; 3]) -> [f64; 3] {
        self.dual.map(|normal| dot(&normal, position))
    }

    /// A translation by integer multiples of the vectors, in space.
    pub(crate) fn translation(&self, image: [i64; 3]) -> [f64; 3] {
        let n = image.map(|n| n as f64);
        [0, 1, 2].map(|x| (0..3).map(|k| n[k] * self.rows[k][x]).sum())
    }

    /// The same translation in lattice vectors of the cell; none if it does not fit.
    pub(crate) fn image(&self, image: [i64; 3]) -> Option<[i32; 3]> {
        let mut total = [0i32; 3];
        for (k, sum) in total.iter_mut().enumerate() {
            let terms = (0..self.periodic).map(|v| image[v].checked_mul(self.parts[v][k]));
            let all = terms.map(|term| term.map(i128::from)).sum::<Option<i128>>()?;
            *sum = i32::try_from(all).ok()?;
        }
        Some(total)
    }
}

/// Short vectors of the same lattice; `parts` are their parts of the cell's. None if those grow
/// beyond all bounds.
fn reduced(cell: &Cell, parts: &mut [[i64; 3]]) -> Option<Vec<[f64; 3]>> {
    let vector = |part: &[i64; 3]| {
        [0, 1, 2].map(|x| (0..3).map(|k| product(part[k], cell.rows[k][x])).sum::<f64>())
    };
    let mut vectors: Vec<[f64; 3]> = parts.iter().map(vector).collect();
    for _ in 0..ROUNDS {
        let found = longer_by_another(&vectors).or_else(|| longer_than_sum(&vectors));
        let Some(Replacement { at, counts: of }) = found else { break };
        let mut part = [0; 3];
        for (count, others) in of.iter().zip(&*parts) {
            if count.abs() >= TRANSLATIONS {
                return None;
            }
            for (sum, other) in part.iter_mut().zip(others) {
                *sum += *count as i64 * other;
            }
        }
        if part.iter().any(|n| n.abs() as f64 >= TRANSLATIONS) {
            return None;
        }
        parts[at] = part;
        vectors[at] = vector(&part);
    }
    Some(vectors)
}

/// A product in which zero times anything is zero: rows that do not repeat may hold any values.
fn product(count: i64, length: f64) -> f64 {
    if count == 0 { 0.0 } else { count as f64 * length }
}

/// A vector to replace by a shorter one: an integer combination of all vectors.
struct Replacement {
    at: usize,
    counts: [f64; 3],
}

/// A vector that becomes shorter by subtracting another.
fn longer_by_another(vectors: &[[f64; 3]]) -> Option<Replacement> {
    for (at, v) in vectors.iter().enumerate() {
        for (other, w) in vectors.iter().enumerate().filter(|(other, _)| *other != at) {
            let count = (dot(v, w) / dot(w, w)).round();
            let rest = [0, 1, 2].map(|x| v[x] - count * w[x]);
            if count != 0.0 && dot(&rest, &rest) < SHORTER * dot(v, v) {
                let mut counts = [0.0; 3];
                counts[at] = 1.0;
                counts[other] = -count;
                return Some(Replacement { at, counts });
            }
        }
    }
    None
}

/// The longest of three vectors, if a sum or difference of all is shorter.
fn longer_than_sum(vectors: &[[f64; 3]]) -> Option<Replacement> {
    let [u, v, w] = vectors else { return None };
    let at = (0..3).max_by(|a, b| norm_order(vectors, *a, *b))?;
    for [s, t] in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
        let sum = [0, 1, 2].map(|x| u[x] + s * v[x] + t * w[x]);
        if dot(&sum, &sum) < SHORTER * dot(&vectors[at], &vectors[at]) {
            return Some(Replacement { at, counts: [1.0, s, t] });
        }
    }
    None
}

fn norm_order(vectors: &[[f64; 3]], a: usize, b: usize) -> std::cmp::Ordering {
    dot(&vectors[a], &vectors[a]).total_cmp(&dot(&vectors[b], &vectors[b]))
}

/// Length, area or volume that vectors span; one for none.
fn span(vectors: &[[f64; 3]]) -> f64 {
    match vectors {
        [a] => dot(a, a).sqrt(),
        [a, b] => dot(&cross(a, b), &cross(a, b)).sqrt(),
        [a, b, c] => dot(a, &cross(b, c)).abs(),
        _ => 1.0,
    }
}

/// Vectors with unit vectors orthogonal to them and to each other.
fn completed(vectors: &[[f64; 3]]) -> [[f64; 3]; 3] {
    match vectors {
        [a, b, c] => [*a, *b, *c],
        [a, b] => [*a, *b, unit(&cross(a, b))],
        [a] => {
            // The axis farthest from the vector.
            let least = (0..3).min_by(|x, y| a[*x].abs().total_cmp(&a[*y].abs())).unwrap_or(0);
            let b = unit(&cross(a, &[0, 1, 2].map(|x| f64::from(u8::from(x == least)))));
            [*a, b, unit(&cross(a, &b))]
        }
        _ => [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    }
}

fn unit(v: &[f64; 3]) -> [f64; 3] {
    let length = dot(v, v).sqrt();
    v.map(|x| x / length)
}
