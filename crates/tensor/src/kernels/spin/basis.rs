//! Multivectors as matrices: the tables of the change of basis, and the change itself.

use super::pauli::{Pauli, generators};
use crate::Scalar;
use crate::kernels::hadamard;
use crate::kernels::instructions::vectorised;
use std::sync::{Arc, OnceLock};

/// Most generators that tables are made for: vectors of 65,536 numbers.
pub const MAX_GENERATORS: usize = 16;

/// One blade in one sheet: coordinate of the vector, the entry of the sheet where its number stands
/// before the butterflies, sign, and whether a blade before it has that entry too.
#[derive(Clone, Copy, Debug)]
struct Term {
    coordinate: u32,
    entry: u32,
    negative: bool,
    adds: bool,
}

/// A square block of the matrix of a multivector, and the blocks of the rotors that act on it.
#[derive(Clone, Debug)]
pub(super) struct Sheet {
    pub(super) left: usize,
    pub(super) right: usize,
    terms: Vec<Term>,
    /// Whether no blade has some entry.
    gaps: bool,
}

/// Tables for the Clifford algebra of `n` generators, `e_i² = 1`.
///
/// A vector of `2^n` coordinates, blades by grade and then lexicographically, becomes one, two or
/// four **sheets**: matrices of `size × size`, complex (two planes) or real (one plane), on which a
/// rotor acts by matrix products. See the module's page for why these sheets hold all.
#[derive(Clone, Debug)]
pub struct SpinBasis {
    n: usize,
    pub(super) size: usize,
    pub(super) planes: usize,
    /// 1 if all rotors are real, 2 if a complex number is a pair.
    pub(super) unit: usize,
    pub(super) sheets: Vec<Sheet>,
    /// One over the squared norm of a blade's matrices.
    pub(super) weight: f64,
    /// The matrices of `e_i e_j`, i < j in lexicographic order, in each block of the rotors.
    pub(super) bivectors: Vec<Vec<Pauli>>,
}

/// The blades of `n` generators as bit masks, by grade and then lexicographically.
#[must_use]
pub fn graded_blades(n: usize) -> Vec<u32> {
    let mut blades: Vec<u32> = (0..1u32 << n).collect();
    blades.sort_by_key(|blade| (blade.count_ones(), !blade.reverse_bits()));
    blades
}

/// The pairs i < j of `n` in lexicographic order: the order of bivector coefficients.
pub fn bivector_pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

/// A sheet before its tables: blocks of the rotors, and the matrix of each blade it holds.
type Draft = (usize, usize, Vec<(usize, Pauli)>);

impl SpinBasis {
    /// The tables for `n` generators, made once for all rotors of a program.
    ///
    /// # Panics
    /// If `n` is above [`MAX_GENERATORS`].
    #[must_use]
    pub fn shared(n: usize) -> Arc<Self> {
        static TABLES: [OnceLock<Arc<SpinBasis>>; MAX_GENERATORS + 1] =
            [const { OnceLock::new() }; MAX_GENERATORS + 1];
        Arc::clone(TABLES[n].get_or_init(|| Arc::new(Self::new(n))))
    }

    /// Tables for `n` generators.
    ///
    /// # Panics
    /// If `n` is above [`MAX_GENERATORS`].
    #[must_use]
    pub fn new(n: usize) -> Self {
        assert!(n <= MAX_GENERATORS, "{n} generators, at most {MAX_GENERATORS}");
        let even = n > 0 && n.is_multiple_of(2);
        let base = generators(if even { n - 1 } else { n.max(1) });
        let size = 1usize << (base.len() / 2);
        let drafts = if even { even_drafts(n, &base) } else { vec![odd_draft(n, &base)] };
        let blocks = if even { 2 } else { 1 };
        let bivectors: Vec<Vec<Pauli>> = (0..blocks)
            .map(|block| {
                bivector_pairs(n).map(|(i, j)| bivector(n, &base, (i, j), block)).collect()
            })
            .collect();
        let real = bivectors.iter().flatten().all(|pauli| pauli.is_real());
        let one_plane = |draft: &Draft| draft.2.iter().all(|(_, pauli)| pauli.is_real());
        let planes = if real && drafts.iter().all(one_plane) { 1 } else { 2 };
        // Each blade is in as many sheets as there are columns of blocks.
        let copies = if even && n.is_multiple_of(4) { 2 } else { 1 };
        Self {
            n,
            size,
            planes,
            unit: if real { 1 } else { 2 },
            sheets: drafts.into_iter().map(|draft| sheet(draft, size, planes)).collect(),
            weight: 1.0 / (copies * size) as f64,
            bivectors,
        }
    }

    /// Number of generators.
    #[must_use]
    pub fn generators(&self) -> usize {
        self.n
    }

    /// Coordinates of a multivector, `2^n`.
    #[must_use]
    pub fn dimension(&self) -> usize {
        1 << self.n
    }

    /// Numbers that represent one multivector.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sheets.len() * self.sheet_len()
    }

    /// Whether nothing is represented: never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Numbers of one sheet.
    pub(super) fn sheet_len(&self) -> usize {
        self.planes * self.size * self.size
    }

    /// Additions of one change of basis.
    #[must_use]
    pub fn butterfly_adds(&self) -> u64 {
        (self.len() * self.size.ilog2() as usize) as u64
    }

    /// Multiply-adds of one sandwich product `r x reverse(s)`, changes of basis not counted.
    #[must_use]
    pub fn sandwich_macs(&self) -> u64 {
        (2 * self.unit * self.size * self.len()) as u64
    }

    /// Changes `width` multivectors to sheets.
    ///
    /// Number `b` of coordinate `k` is `x[((start + k) % features) * width + b]` with
    /// `features = x.len() / width`: a chunk of a longer vector that may wrap round. Entry (i, j) of
    /// plane c of sheet s is `out[(((s * size + i) * planes + c) * size + j) * width + b]`.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn represent<T: Scalar>(&self, x: &[T], start: usize, width: usize, out: &mut [T]) {
        assert_eq!(out.len(), self.len() * width, "numbers of the sheets");
        for (sheet, out) in self.sheets.iter().zip(out.chunks_exact_mut(self.sheet_len() * width)) {
            represent_sheet(self, sheet, x, start, width, out);
        }
    }

    /// Adds the multivectors of sheets to `y`, which is laid out as in [`Self::represent`]; what is
    /// left in `sheets` is unspecified.
    ///
    /// This is the transpose of [`Self::represent`] times the squared norm of a blade, and its
    /// inverse on what [`Self::represent`] can give.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn recover<T: Scalar>(&self, sheets: &mut [T], start: usize, width: usize, y: &mut [T]) {
        assert_eq!(sheets.len(), self.len() * width, "numbers of the sheets");
        let data = sheets.chunks_exact_mut(self.sheet_len() * width);
        for (sheet, data) in self.sheets.iter().zip(data) {
            recover_sheet(self, sheet, data, start, width, y);
        }
    }

    /// The Walsh-Hadamard transforms between the spectrum of a sheet and its entries: for each plane
    /// c and each x one over j, whose numbers stand at the entries (j ^ x, c, j).
    #[inline(always)]
    fn butterflies<T: Scalar>(&self, sheet: &mut [T], width: usize) {
        for plane in 0..self.planes {
            for x in 0..self.size {
                hadamard::scattered(sheet, width, self.size, |j| self.entry(plane, x, j));
            }
        }
    }

    /// The entry (i, c, j) of a sheet with `i = j ^ x`.
    #[inline(always)]
    fn entry(&self, plane: usize, x: usize, j: usize) -> usize {
        ((j ^ x) * self.planes + plane) * self.size + j
    }
}

impl Term {
    /// The column of the whole vector that holds this coordinate of a chunk.
    fn column(&self, start: usize, features: usize) -> usize {
        let column = start + self.coordinate as usize;
        if column < features { column } else { column - features }
    }
}

/// The product of the generators of a blade, in rising order.
fn blade_matrix(base: &[Pauli], blade: u32) -> Pauli {
    let inside = |&(i, _): &(usize, &Pauli)| blade >> i & 1 == 1;
    base.iter().enumerate().filter(inside).fold(Pauli::default(), |p, (_, &g)| p.times(g))
}

vectorised! {
    /// One sheet of [`SpinBasis::represent`].
    fn represent_sheet<const FUSED: bool, T: Scalar>(
        basis: &SpinBasis,
        sheet: &Sheet,
        x: &[T],
        start: usize,
        width: usize,
        out: &mut [T],
    ) {
        if sheet.gaps {
            out.fill(T::ZERO);
        }
        for term in &sheet.terms {
            let from = &x[term.column(start, x.len() / width) * width..][..width];
            let to = &mut out[term.entry as usize * width..][..width];
            let pairs = to.iter_mut().zip(from);
            match (term.adds, term.negative) {
                (false, false) => pairs.for_each(|(to, &from)| *to = from),
                (false, true) => pairs.for_each(|(to, &from)| *to = -from),
                (true, false) => pairs.for_each(|(to, &from)| *to += from),
                (true, true) => pairs.for_each(|(to, &from)| *to -= from),
            }
        }
        basis.butterflies(out, width);
    }
}

vectorised! {
    /// One sheet of [`SpinBasis::recover`].
    fn recover_sheet<const FUSED: bool, T: Scalar>(
        basis: &SpinBasis,
        sheet: &Sheet,
        data: &mut [T],
        start: usize,
        width: usize,
        y: &mut [T],
    ) {
        basis.butterflies(data, width);
        let weight = T::from_f64(basis.weight);
        let features = y.len() / width;
        for term in &sheet.terms {
            let scale = if term.negative { -weight } else { weight };
            let to = &mut y[term.column(start, features) * width..][..width];
            let from = &data[term.entry as usize * width..][..width];
            to.iter_mut().zip(from).for_each(|(to, &from)| *to += scale * from);
        }
    }
}

/// One sheet for odd `n` (and for the scalars, `n = 0`). For n = 1 mod 4 one representation does
/// not tell `x` from its dual; odd blades times i do.
fn odd_draft(n: usize, base: &[Pauli]) -> Draft {
    let quarter = u8::from(n % 4 == 1);
    let matrix = |(coordinate, blade): (usize, u32)| {
        let odd = blade.count_ones() as u8 % 2;
        (coordinate, blade_matrix(base, blade).turned(quarter * odd))
    };
    (0, 0, graded_blades(n).into_iter().enumerate().map(matrix).collect())
}

/// Two or four sheets for even `n`: `Γ_i = γ_i ⊗ X` and `Γ_last = 1 ⊗ Y`, so that even blades fill
/// the diagonal blocks and odd ones the others. For n = 2 mod 4 one column of blocks holds all.
fn even_drafts(n: usize, base: &[Pauli]) -> Vec<Draft> {
    let columns = if n.is_multiple_of(4) { 2 } else { 1 };
    let mut drafts = Vec::new();
    for (row, column) in (0..columns).flat_map(|column| [(0, column), (1, column)]) {
        let mut terms = Vec::new();
        for (coordinate, blade) in graded_blades(n).into_iter().enumerate() {
            if (blade.count_ones() as usize + row + column).is_multiple_of(2) {
                let last = blade >> (n - 1) & 1 == 1;
                // The entry of X^p Y^last in this column: i or -i with the last generator, else 1.
                let quarters = if last { 1 + 2 * column as u8 } else { 0 };
                terms.push((coordinate, blade_matrix(base, blade).turned(quarters)));
            }
        }
        // Where a whole sheet is imaginary, i is taken out: left and right products do not mind.
        if terms.iter().all(|(_, pauli)| !pauli.is_real()) {
            terms.iter_mut().for_each(|(_, pauli)| *pauli = pauli.turned(3));
        }
        drafts.push((row, column, terms));
    }
    drafts
}

/// The matrix of `e_i e_j` in a block of the rotors.
fn bivector(n: usize, base: &[Pauli], (i, j): (usize, usize), block: usize) -> Pauli {
    if n.is_multiple_of(2) && j == n - 1 {
        base[i].turned(1 + 2 * block as u8)
    } else {
        base[i].times(base[j])
    }
}

fn sheet((left, right, terms): Draft, size: usize, planes: usize) -> Sheet {
    let mut taken = vec![false; planes * size * size];
    let term = |(coordinate, pauli): (usize, Pauli)| {
        let plane = usize::from(!pauli.is_real());
        let (x, j) = (pauli.x as usize, pauli.z as usize);
        let entry = ((j ^ x) * planes + plane) * size + j;
        Term {
            coordinate: coordinate as u32,
            entry: entry as u32,
            negative: pauli.phase >= 2,
            adds: std::mem::replace(&mut taken[entry], true),
        }
    };
    let terms = terms.into_iter().map(term).collect();
    Sheet { left, right, terms, gaps: taken.contains(&false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn blades_are_in_graded_lexicographic_order() {
        assert_eq!(graded_blades(3), [0, 1, 2, 4, 3, 5, 6, 7]);
        assert_eq!(bivector_pairs(3).collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 2)]);
    }

    #[test]
    fn recover_undoes_represent_and_is_its_transpose_up_to_the_weight() {
        for n in 0..=13 {
            let basis = SpinBasis::new(n);
            let mut stream = RngKey::new(n as u64).stream();
            let width = 3;
            let x: Vec<f64> = stream.normals(basis.dimension() * width, 1.0);
            let mut sheets = vec![0.0; basis.len() * width];
            basis.represent(&x, 0, width, &mut sheets);
            let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>();
            let ratio = norm(&sheets) * basis.weight / norm(&x);
            assert!((ratio - 1.0).abs() < 1e-12, "n {n}: {ratio}");
            let mut y = vec![0.0; x.len()];
            basis.recover(&mut sheets, 0, width, &mut y);
            let equal = x.iter().zip(&y).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(equal, "n {n}: {x:?} came back as {y:?}");
        }
    }
}
