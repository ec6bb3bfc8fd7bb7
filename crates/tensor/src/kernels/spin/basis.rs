//! Matrix representations of multivectors: tables of the change of basis.

use super::entry::{Entry, Place, Side};
use super::pauli::{Pauli, generators};
use crate::Mat;
use crate::kernels::gemm::quaternion::Rows;
use std::sync::{Arc, OnceLock};

/// Largest number of generators: vectors of 65,536 numbers.
pub const MAX_GENERATORS: usize = 16;

/// Order of the coordinates of a multivector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BladeOrder {
    /// By grade, then lexicographically: 1, e1, e2, e3, e12, e13, e23, e123.
    #[default]
    Graded,
    /// By bit mask, generator 1 lowest: 1, e1, e2, e12, e3, e13, e23, e123.
    Binary,
}

/// A blade at one place of a sheet's spectrum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Source {
    /// Coordinate of the vector.
    pub(super) coordinate: u32,
    /// One or minus one.
    pub(super) sign: f32,
}

/// A rectangular block of the matrix of a multivector, and the rotor blocks that act on it.
#[derive(Clone, Debug)]
pub(super) struct Sheet {
    pub(super) left: usize,
    pub(super) right: usize,
    /// Blades per place of the spectrum: one or two.
    pub(super) blades: usize,
    /// The blades of place (plane, x, z), in this order of places.
    pub(super) sources: Vec<Source>,
    /// Whether sheets before this one hold the same blades.
    pub(super) repeats: bool,
}

/// The entries of a sheet covered by one Walsh-Hadamard transform: (j ^ x, plane, j) for each kept
/// column j.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strand {
    mask: usize,
    shift: usize,
    half: usize,
    planes: usize,
    plane: usize,
    columns: usize,
}

impl Strand {
    /// Offset of the entry of column `j`.
    #[inline(always)]
    pub(super) fn entry(self, j: usize) -> usize {
        let row = ((j ^ self.mask) << self.shift) + self.half;
        (row * self.planes + self.plane) * self.columns + j
    }
}

/// A signed permutation `B` of square minus one (or one) that relates the matrices to their
/// conjugates: `B conj(X) B⁻¹ = X`, so half of the columns of `X` determine the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairing {
    /// Column j is paired with j ^ mask; the highest bit is set.
    pub(super) mask: u32,
    /// The sign of column j is the parity of j & signs.
    pub(super) signs: u32,
}

/// Tables for the Clifford algebra of `n` generators, `e_i² = 1`.
///
/// A vector of `2^n` coordinates is represented by one, two or four **sheets**: matrices of `size`
/// rows and `columns` columns, complex (two planes) or real (one plane), on which a rotor acts by
/// matrix products. Together they hold `2^n` numbers. The module's page explains why these sheets
/// suffice.
#[derive(Clone, Debug)]
pub struct SpinBasis {
    n: usize,
    pub(super) size: usize,
    /// Kept columns of each sheet: all, or half of them if they come in pairs.
    pub(super) columns: usize,
    pub(super) planes: usize,
    /// 1 if all rotors are real, 2 if a complex number is a pair.
    pub(super) unit: usize,
    pub(super) pairing: Option<Pairing>,
    pub(super) sheets: Vec<Sheet>,
    /// The inverse of the squared norm of a blade's matrices.
    pub(super) weight: f64,
    /// The matrices of `e_i e_j`, i < j in lexicographic order, in each block of the rotors.
    pub(super) bivectors: Vec<Vec<Pauli>>,
    /// The same as real matrices, for each block.
    pub(super) forms: Vec<BlockForms>,
    /// Positions of the quaternions for the left and the right rotor, if rotors are quaternion
    /// matrices.
    quaternions: Option<[Rows; 2]>,
}

/// Real forms of the identity, on the left, and of the bivectors `e_i e_j` in one rotor block; for
/// quaternion matrices the components of each, in the layout of the gradient sums.
#[derive(Clone, Debug)]
pub(super) struct BlockForms {
    pub(super) identity: Vec<Entry>,
    pub(super) left: Vec<Vec<Entry>>,
    pub(super) right: Vec<Vec<Entry>>,
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

/// A sheet before its tables: rotor blocks, and the matrix of each of its blades.
struct Draft {
    left: usize,
    right: usize,
    blades: Vec<(usize, Pauli)>,
}

impl SpinBasis {
    /// The tables for `n` generators, computed once per process.
    ///
    /// # Panics
    /// If `n` is above [`MAX_GENERATORS`].
    #[must_use]
    pub fn shared(n: usize, order: BladeOrder) -> Arc<Self> {
        type Tables = [OnceLock<Arc<SpinBasis>>; MAX_GENERATORS + 1];
        static GRADED: Tables = [const { OnceLock::new() }; MAX_GENERATORS + 1];
        static BINARY: Tables = [const { OnceLock::new() }; MAX_GENERATORS + 1];
        let tables = if order == BladeOrder::Graded { &GRADED } else { &BINARY };
        Arc::clone(tables[n].get_or_init(|| Arc::new(Self::new(n, order))))
    }

    /// Tables for `n` generators.
    ///
    /// # Panics
    /// If `n` is above [`MAX_GENERATORS`].
    #[must_use]
    pub fn new(n: usize, order: BladeOrder) -> Self {
        assert!(n <= MAX_GENERATORS, "{n} generators, at most {MAX_GENERATORS}");
        let blades: Vec<u32> = match order {
            BladeOrder::Graded => graded_blades(n),
            BladeOrder::Binary => (0..1 << n).collect(),
        };
        let even = n > 0 && n.is_multiple_of(2);
        let base = generators(if even { n - 1 } else { n.max(1) });
        let size = 1usize << (base.len() / 2);
        let mut drafts =
            if even { even_drafts(n, &base, &blades) } else { odd_drafts(n, &base, &blades) };
        let blocks = if even { 2 } else { 1 };
        let bivectors: Vec<Vec<Pauli>> = (0..blocks)
            .map(|block| bivector_pairs(n).map(|(i, j)| bivector(n, &base, i, j, block)).collect())
            .collect();
        let real = bivectors.iter().flatten().all(|pauli| pauli.is_real());
        let one_plane = |draft: &Draft| draft.blades.iter().all(|(_, pauli)| pauli.is_real());
        let planes = if real && drafts.iter().all(one_plane) { 1 } else { 2 };
        // A full set of columns would hold every number twice.
        let twice = drafts.len() * planes * size * size > blades.len();
        let pairing = twice.then(|| {
            let pairing = pairing_of(size, &bivectors);
            drafts.iter_mut().for_each(|draft| pairing.align(draft));
            pairing
        });
        let columns = if pairing.is_some() { size / 2 } else { size };
        // Each blade occurs in as many sheets as there are columns of blocks.
        let copies = if even && n.is_multiple_of(4) { 2 } else { 1 };
        let mut basis = Self {
            n,
            size,
            columns,
            planes,
            unit: if real { 1 } else { 2 },
            pairing,
            sheets: Vec::new(),
            weight: 1.0 / (copies * columns) as f64,
            bivectors,
            forms: Vec::new(),
            quaternions: None,
        };
        let sides = [Side::Left, Side::Right];
        basis.quaternions =
            basis.is_quaternionic().then(|| sides.map(|side| basis.find_quaternions(side)));
        basis.forms = (0..blocks).map(|block| basis.block_forms(block)).collect();
        basis.sheets = drafts.iter().map(|draft| basis.sheet(draft)).collect();
        basis
    }

    /// Number of generators.
    #[must_use]
    pub fn generators(&self) -> usize {
        self.n
    }

    /// Coordinates of a multivector, `2^n`, which is also the number of values in its sheets.
    #[must_use]
    pub fn dimension(&self) -> usize {
        1 << self.n
    }

    /// Number of values in one sheet.
    pub(super) fn sheet_len(&self) -> usize {
        self.planes * self.size * self.columns
    }

    /// Rows of the real matrix of a rotor.
    pub(super) fn side(&self) -> usize {
        self.unit * self.size
    }

    /// Whether rotors are quaternion matrices.
    pub(super) fn is_quaternionic(&self) -> bool {
        self.pairing.is_some_and(|pairing| pairing.square() < 0.0)
    }

    /// Additions of one change of basis.
    #[must_use]
    pub fn butterfly_adds(&self) -> u64 {
        let blades = self.sheets.first().map_or(1, |sheet| sheet.blades) - 1;
        (self.dimension() * (self.columns.ilog2() as usize + blades)) as u64
    }

    /// Multiply-adds of one sandwich product `r x reverse(s)`, changes of basis not counted.
    #[must_use]
    pub fn sandwich_macs(&self) -> u64 {
        (2 * self.side() * self.dimension()) as u64
    }

    /// The places in a sheet's spectrum and the entries of each transform, in order.
    pub(super) fn strands(&self) -> impl Iterator<Item = Strand> {
        let (size, columns, planes) = (self.size, self.columns, self.planes);
        let mask = self.pairing.map_or(0, |pairing| pairing.mask as usize);
        let shift = usize::from(self.pairing.is_some());
        (0..planes).flat_map(move |plane| {
            (0..size).map(move |x| {
                let half = x / columns;
                let mask = if half == 1 { x ^ mask } else { x };
                Strand { mask, shift, half, planes, plane, columns }
            })
        })
    }

    /// Row of a sheet for row `i` of a complex matrix, and its sign: with [`Pairing`], next to its
    /// paired row.
    pub(super) fn row(&self, i: usize) -> (usize, f64) {
        match self.pairing {
            None => (i, 1.0),
            Some(_) if i < self.columns => (2 * i, 1.0),
            Some(pairing) => (2 * (i ^ pairing.mask as usize) + 1, parity(pairing.signs, i as u32)),
        }
    }

    fn block_forms(&self, block: usize) -> BlockForms {
        let form = |pauli, side| {
            let entries = self.sparse_form(pauli, side);
            let Some(rows) = self.quaternions(side) else {
                return entries;
            };
            entries.into_iter().filter_map(|entry| entry.of_first_component(rows)).collect()
        };
        let of = |side| self.bivectors[block].iter().map(|&pauli| form(pauli, side)).collect();
        let identity = form(Pauli::default(), Side::Left);
        BlockForms { identity, left: of(Side::Left), right: of(Side::Right) }
    }

    /// Positions of the quaternions for the rotors of one side, if they are quaternion matrices.
    pub(super) fn quaternions(&self, side: Side) -> Option<Rows> {
        self.quaternions.map(|[left, right]| if side == Side::Left { left } else { right })
    }

    fn find_quaternions(&self, side: Side) -> Rows {
        let mut rotor = Mat::zeros(self.side(), self.side());
        for (k, &pauli) in self.bivectors[0].iter().enumerate() {
            let entries = self.sparse_form(pauli, side);
            entries.into_iter().for_each(|entry| entry.add_to(&mut rotor, (k + 1) as f32));
        }
        Rows::of(&rotor, side.components()).expect("a matrix of quaternions")
    }

    /// The non-zero entries of a blade's real form.
    fn sparse_form(&self, pauli: Pauli, side: Side) -> Vec<Entry> {
        let of_column = |column| {
            let (row, re, im) = pauli.entry(column);
            let entry = move |p: Place| Entry {
                row: p.row as u16,
                column: p.column as u16,
                value: (p.re * re + p.im * im) as f32,
            };
            self.places(side, row, column).map(entry)
        };
        (0..self.size).flat_map(of_column).filter(|entry| entry.value != 0.0).collect()
    }

    /// Position of entry (row, column) of a complex matrix in its real form.
    pub(super) fn places(
        &self,
        side: Side,
        row: usize,
        column: usize,
    ) -> impl Iterator<Item = Place> {
        let real = |row, column, re| Place { row, column, re, im: 0.0 };
        let imaginary = |row, column, im| Place { row, column, re: 0.0, im };
        let mut places = [None; 8];
        if side == Side::Left {
            let ((i, of_row), (k, of_column)) = (self.row(row), self.row(column));
            let (i, k, sign) = (i * self.unit, k * self.unit, of_row * of_column);
            places[0] = Some(real(i, k, sign));
            if self.unit == 2 {
                places[1] = Some(real(i + 1, k + 1, sign));
                places[2] = Some(imaginary(i, k + 1, -sign));
                places[3] = Some(imaginary(i + 1, k, sign));
            }
        } else if self.unit == 1 {
            places[0] = Some(real(row, column, 1.0));
        } else if row < self.columns {
            for (half, places) in places.chunks_exact_mut(4).enumerate() {
                let kept = self.columns;
                let of = |half: usize, c: usize, j: usize| (2 * half + c) * kept + j;
                let [i, i_next] = [of(half, 0, row), of(half, 1, row)];
                match self.pairing {
                    None if half == 1 => {}
                    Some(pairing) if column >= kept => {
                        // The column is the conjugate of one in the paired row.
                        let j = column ^ pairing.mask as usize;
                        let [k, k_next] = [of(1 - half, 0, j), of(1 - half, 1, j)];
                        let turned = if half == 1 { pairing.square() } else { 1.0 };
                        let sign = turned * parity(pairing.signs, j as u32);
                        places[0] = Some(real(i, k, sign));
                        places[1] = Some(real(i_next, k_next, -sign));
                        places[2] = Some(imaginary(i, k_next, -sign));
                        places[3] = Some(imaginary(i_next, k, -sign));
                    }
                    _ => {
                        let [k, k_next] = [of(half, 0, column), of(half, 1, column)];
                        places[0] = Some(real(i, k, 1.0));
                        places[1] = Some(real(i_next, k_next, 1.0));
                        places[2] = Some(imaginary(i, k_next, 1.0));
                        places[3] = Some(imaginary(i_next, k, -1.0));
                    }
                }
            }
        }
        places.into_iter().flatten()
    }

    fn sheet(&self, draft: &Draft) -> Sheet {
        let places = self.sheet_len();
        let mut at_place = vec![Vec::new(); places];
        for &(coordinate, pauli) in &draft.blades {
            let plane = usize::from(!pauli.is_real());
            let mut sign = if pauli.phase >= 2 { -1.0 } else { 1.0 };
            let (x, mut z) = (pauli.x as usize, pauli.z);
            if let (Some(pairing), true) = (self.pairing, x >= self.columns) {
                // Rows of the other half have the sign of `row`.
                z ^= pairing.signs;
                sign *= parity(pairing.signs, pauli.x);
            }
            let place = (plane * self.size + x) * self.columns + z as usize % self.columns;
            at_place[place].push(Source { coordinate: coordinate as u32, sign: sign as f32 });
        }
        let blades = at_place[0].len();
        assert!(at_place.iter().all(|at| at.len() == blades), "places hold equally many blades");
        let (left, right) = (draft.left, draft.right);
        // Sheets are (0, 0), (1, 0), (0, 1), (1, 1): the last two hold the remaining blades.
        Sheet { left, right, blades, sources: at_place.concat(), repeats: right > 0 }
    }
}

impl Pairing {
    /// `B conj(B)`, one or minus one.
    pub(super) fn square(self) -> f64 {
        parity(self.signs, self.mask)
    }

    /// Whether `B conj(P) B⁻¹` is `P` rather than `-P`.
    fn keeps(self, pauli: Pauli) -> bool {
        let crossed = (self.mask & pauli.z).count_ones() + (self.signs & pauli.x).count_ones();
        (crossed + u32::from(!pauli.is_real())).is_multiple_of(2)
    }

    /// Multiplies a sheet by i if conjugation negates it: products are unaffected.
    fn align(self, draft: &mut Draft) {
        if !self.keeps(draft.blades[0].1) {
            draft.blades.iter_mut().for_each(|(_, pauli)| *pauli = pauli.turned(1));
        }
        assert!(draft.blades.iter().all(|&(_, pauli)| self.keeps(pauli)), "columns are paired");
    }
}

/// The pairing under which all rotors are self-conjugate.
fn pairing_of(size: usize, bivectors: &[Vec<Pauli>]) -> Pairing {
    let (top, end) = (size as u32 / 2, size as u32);
    (top..end)
        .flat_map(|mask| (0..end).map(move |signs| Pairing { mask, signs }))
        .find(|pairing| bivectors.iter().flatten().all(|&pauli| pairing.keeps(pauli)))
        .expect("an algebra held twice has a real or quaternionic structure")
}

/// One if `signs & j` has an even number of bits, else minus one.
pub(super) fn parity(signs: u32, j: u32) -> f64 {
    if (signs & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// The product of the generators of a blade, in rising order.
fn blade_matrix(base: &[Pauli], blade: u32) -> Pauli {
    let inside = |&(i, _): &(usize, &Pauli)| blade >> i & 1 == 1;
    base.iter().enumerate().filter(inside).fold(Pauli::default(), |p, (_, &g)| p.times(g))
}

/// One or two sheets for odd `n`, and one for the scalars, `n = 0`. For n = 1 mod 4 one
/// representation does not distinguish `x` from its dual; multiplying odd blades by i does. If
/// rotors are quaternion matrices, so are the even and the odd blades, each up to a factor of i.
fn odd_drafts(n: usize, base: &[Pauli], blades: &[u32]) -> Vec<Draft> {
    let quarter = u8::from(n % 4 == 1);
    let matrix = |(coordinate, &blade): (usize, &u32)| {
        let odd = blade.count_ones() as u8 % 2;
        (coordinate, blade_matrix(base, blade).turned(quarter * odd))
    };
    let all = blades.iter().enumerate();
    if !matches!(n % 8, 3 | 5) {
        return vec![Draft { left: 0, right: 0, blades: all.map(matrix).collect() }];
    }
    let sheet = |odd| {
        let has_parity = |&(_, blade): &(usize, &u32)| blade.count_ones() % 2 == odd;
        Draft { left: 0, right: 0, blades: all.clone().filter(has_parity).map(matrix).collect() }
    };
    vec![sheet(0), sheet(1)]
}

/// Two or four sheets for even `n`: `Γ_i = γ_i ⊗ X` and `Γ_last = 1 ⊗ Y`, so even blades are block
/// diagonal and odd ones off-diagonal. For n = 2 mod 4 one column of blocks holds everything.
fn even_drafts(n: usize, base: &[Pauli], blades: &[u32]) -> Vec<Draft> {
    let columns = if n.is_multiple_of(4) { 2 } else { 1 };
    let mut drafts = Vec::new();
    for (row, column) in (0..columns).flat_map(|column| [(0, column), (1, column)]) {
        let mut terms = Vec::new();
        for (coordinate, &blade) in blades.iter().enumerate() {
            if (blade.count_ones() as usize + row + column).is_multiple_of(2) {
                let last = blade >> (n - 1) & 1 == 1;
                // The entry of X^p Y^last in this column: i or -i with the last generator, else 1.
                let quarters = if last { 1 + 2 * column as u8 } else { 0 };
                terms.push((coordinate, blade_matrix(base, blade).turned(quarters)));
            }
        }
        // A purely imaginary sheet is stored without its factor i: left and right products are
        // unaffected.
        if terms.iter().all(|(_, pauli)| !pauli.is_real()) {
            terms.iter_mut().for_each(|(_, pauli)| *pauli = pauli.turned(3));
        }
        drafts.push(Draft { left: row, right: column, blades: terms });
    }
    drafts
}

/// The matrix of `e_i e_j` in a rotor block.
fn bivector(n: usize, base: &[Pauli], i: usize, j: usize, block: usize) -> Pauli {
    if n.is_multiple_of(2) && j == n - 1 {
        base[i].turned(1 + 2 * block as u8)
    } else {
        base[i].times(base[j])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blades_are_in_graded_lexicographic_order() {
        assert_eq!(graded_blades(3), [0, 1, 2, 4, 3, 5, 6, 7]);
        assert_eq!(bivector_pairs(3).collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 2)]);
    }

    #[test]
    fn sheets_hold_as_many_numbers_as_vectors_have() {
        for n in 0..=MAX_GENERATORS {
            let basis = SpinBasis::new(n, BladeOrder::Graded);
            assert_eq!(basis.sheets.len() * basis.sheet_len(), 1 << n, "n {n}");
            let held: usize = basis.sheets.iter().map(|sheet| sheet.sources.len()).sum();
            let copies = if n > 0 && n.is_multiple_of(4) { 2 } else { 1 };
            assert_eq!(held, copies << n, "n {n}");
        }
    }
}
