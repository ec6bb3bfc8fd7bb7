//! Dense matrix products: large `f32` products in tiles of this crate, the others through the
//! `gemm` crate.
//!
//! Bits do not depend on the number of threads: the result is split into work items by its shape
//! only, each is computed by one thread, and the inner dimension is never split between threads.
#![allow(
    unsafe_code,
    reason = "the matrix product library takes raw pointers; bounds are checked here"
)]

#[cfg(target_arch = "x86_64")]
mod amx;
mod blocks;
mod choice;
pub(super) mod consumed;
mod dots;
mod few_rows;
pub(super) mod form;
mod packed;
pub(super) mod panels;
pub(super) mod quaternion;
pub(super) mod quaternion_sums;
pub(super) mod sums;
#[cfg(target_arch = "x86_64")]
mod thirds;
mod tile;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use form::{ColumnBlocks, Direction, Order};
pub use packed::PackedRight;

use crate::parallel;
use crate::{Halves, MatMut, MatRef, Scalar, Scratch};
use blocks::Right;
use std::any::TypeId;

/// Smallest number of rows of a work item: two cores share a batch of 512.
const ROWS_PER_PIECE: usize = 256;
/// Largest number of rows. Every work item packs the right-hand side again, so taller ones cost
/// less.
const MAX_ROWS_PER_PIECE: usize = 1024;
/// Number of work items if both sizes are possible: shared by eight cores.
const PIECES: usize = 8;
/// Columns of a work item for short and wide results.
const COLS_PER_PIECE: usize = 512;
/// Results with fewer rows are split over columns.
const FEW_ROWS: usize = 64;
/// Work items end at multiples of the inner loop's registers.
const PIECE_MULTIPLE: usize = 16;
/// Below this many multiply-adds a product stays on the calling thread.
const SERIAL_LIMIT: usize = 1 << 20;
/// Numbers of a 16-bit weight that are widened at a time, on machines without tiles.
const WIDENED: usize = 1 << 20;

/// Whether the result is overwritten or added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// `c = product`.
    Set,
    /// `c += product`.
    Add,
}

/// Numbers that a product is written or added to: `y = scale · product` or `y += scale · product`.
#[derive(Debug)]
pub struct Destination<'a, T> {
    /// The numbers, in the layout that the product has.
    pub y: &'a mut [T],
    /// Factor of the product.
    pub scale: T,
    /// Whether the numbers are overwritten or added to.
    pub write: Write,
}

/// A matrix argument: as stored, or transposed.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a, T> {
    /// The view as it is.
    Plain(MatRef<'a, T>),
    /// The transpose of the view.
    Transposed(MatRef<'a, T>),
}

impl<'a, T: Scalar> Arg<'a, T> {
    /// As [`MatRef::of_scalar`].
    pub(super) fn of_scalar<U: Scalar>(self) -> Arg<'a, U> {
        match self {
            Self::Plain(m) => Arg::Plain(m.of_scalar()),
            Self::Transposed(m) => Arg::Transposed(m.of_scalar()),
        }
    }

    /// The transpose.
    #[must_use]
    pub fn transposed(self) -> Self {
        match self {
            Self::Plain(m) => Self::Transposed(m),
            Self::Transposed(m) => Self::Plain(m),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Plain(m) => m.rows(),
            Self::Transposed(m) => m.cols(),
        }
    }

    /// Columns of the argument as it is multiplied.
    #[must_use]
    pub fn cols(&self) -> usize {
        match self {
            Self::Plain(m) => m.cols(),
            Self::Transposed(m) => m.rows(),
        }
    }

    fn at(&self, i: usize, j: usize) -> T {
        match self {
            Self::Plain(m) => m.at(i, j),
            Self::Transposed(m) => m.at(j, i),
        }
    }

    fn raw(&self) -> Raw<*const T> {
        let (Self::Plain(m) | Self::Transposed(m)) = self;
        let (at, stride) = (m.data().as_ptr(), m.stride() as isize);
        match self {
            Self::Plain(_) => Raw { at, col_stride: 1, row_stride: stride },
            Self::Transposed(_) => Raw { at, col_stride: stride, row_stride: 1 },
        }
    }

    fn check(&self) {
        let (Self::Plain(m) | Self::Transposed(m)) = self;
        if m.rows() > 0 {
            assert!(m.data().len() >= (m.rows() - 1) * m.stride() + m.cols(), "view out of bounds");
        }
    }
}

impl<'a, T> From<MatRef<'a, T>> for Arg<'a, T> {
    fn from(view: MatRef<'a, T>) -> Self {
        Self::Plain(view)
    }
}

/// The weight of a linear layer, (out, inp).
#[derive(Clone, Copy, Debug)]
pub enum Weight<'a, T> {
    /// In the type of computation.
    Full(MatRef<'a, T>),
    /// In 16 bits, widened when it is read.
    Half(&'a Halves),
}

impl<T: Scalar> Weight<'_, T> {
    /// Features out.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Full(w) => w.rows(),
            Self::Half(w) => w.rows(),
        }
    }

    /// Features in.
    #[must_use]
    pub fn cols(&self) -> usize {
        match self {
            Self::Full(w) => w.cols(),
            Self::Half(w) => w.cols(),
        }
    }
}

/// A weight (out, inp), and the destination (rows, out) of its product.
pub type Product<'w, 'y> = (Weight<'w, f32>, MatMut<'y, f32>);

/// `y = x Wᵀ` for several weights and the same rows, as for queries, keys and values: the rows are
/// packed once, with one synchronisation of threads. `x`: (rows, inp), each weight (out, inp), its
/// `y`: (rows, out). Each result has the same bits as a separate product; those of a weight in 16
/// bits may differ from those of the same numbers in `f32` for 5 to 47 rows.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn linears(x: MatRef<'_, f32>, into: &mut [Product<'_, '_>]) {
    let (rows, inp) = (x.rows(), x.cols());
    let mut products = 0;
    for (w, y) in &*into {
        let found = (w.cols(), y.rows(), y.cols());
        assert_eq!(found, (inp, rows, w.rows()), "{rows} rows of {inp} times a weight");
        if let Weight::Full(w) = w {
            Arg::Plain(*w).check();
        }
        products += rows * inp * w.rows();
    }
    Arg::Plain(x).check();
    if products == 0 {
        return into.iter_mut().for_each(|(_, y)| fill_zero(y));
    }
    if rows <= few_rows::MOST {
        let alone = products / rows <= few_rows::SERIAL_LIMIT;
        return few_rows::products(1.0, x, into, Write::Set, alone);
    }
    let alone = products <= SERIAL_LIMIT;
    let tile = tile::Tile::of_this_machine();
    let mut tiled: Vec<(Right<'_>, MatMut<'_, f32>)> = Vec::with_capacity(into.len());
    for (w, y) in into {
        match (*w, tile) {
            (Weight::Full(w), Some(tile)) if blocks::pays(tile, rows, inp, w.rows()) => {
                tiled.push((Right::of(Arg::Transposed(w)), y.reborrow()));
            }
            (Weight::Half(w), Some(_)) if w.rows() > 0 => {
                tiled.push((Right::Half(w), y.reborrow()));
            }
            (Weight::Full(w), _) => linear(x, w, y.reborrow(), Write::Set),
            (Weight::Half(w), _) => widened(x, w, y.reborrow()),
        }
    }
    if let Some(tile) = tile {
        blocks::products(tile, 1.0, x.into(), &mut tiled, Write::Set, alone);
    }
}

/// A product with a weight that is widened block by block.
fn widened(x: MatRef<'_, f32>, w: &Halves, mut y: MatMut<'_, f32>) {
    let high = (WIDENED / w.cols().max(1)).max(1);
    for first in (0..w.rows()).step_by(high) {
        let count = high.min(w.rows() - first);
        let mut wide = Scratch::<f32>::new(count * w.cols());
        let bits = &w.bits()[first * w.cols()..(first + count) * w.cols()];
        w.half_type().widen(bits, &mut wide);
        let wide = MatRef::new(&wide, count, w.cols());
        linear(x, wide, y.reborrow().columns(first, count), Write::Set);
    }
}

/// `dx = dy W`: the gradient of the input (rows, inp) of a linear layer from that of its output
/// `dy` (rows, out). A weight in 16 bits is widened block by block.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn through_weight(dy: MatRef<'_, f32>, w: Weight<'_, f32>, mut dx: MatMut<'_, f32>) {
    let halves = match w {
        Weight::Full(w) => return product(1.0, dy.into(), w.into(), dx, Write::Set),
        Weight::Half(halves) => halves,
    };
    let (out, inp) = (halves.rows(), halves.cols());
    let found = (dy.cols(), dx.rows(), dx.cols());
    assert_eq!(found, (out, dy.rows(), inp), "gradients of {} rows through a weight", dy.rows());
    fill_zero(&mut dx);
    let high = (WIDENED / inp.max(1)).max(1);
    for first in (0..out).step_by(high) {
        let count = high.min(out - first);
        let mut wide = Scratch::<f32>::new(count * inp);
        let bits = &halves.bits()[first * inp..(first + count) * inp];
        halves.half_type().widen(bits, &mut wide);
        let (wide, dy) = (MatRef::new(&wide, count, inp), dy.columns(first, count));
        product(1.0, dy.into(), wide.into(), dx.reborrow(), Write::Add);
    }
}

fn fill_zero(y: &mut MatMut<'_, f32>) {
    (0..y.rows()).for_each(|i| y.row_mut(i).fill(0.0));
}

/// `y = x Wᵀ`: the forward product of a linear layer. `x`: (rows, inp), `w`: (out, inp),
/// `y`: (rows, out).
#[track_caller]
pub fn linear<T: Scalar>(x: MatRef<'_, T>, w: MatRef<'_, T>, y: MatMut<'_, T>, write: Write) {
    product(T::ONE, Arg::Plain(x), Arg::Transposed(w), y, write);
}

/// `c = alpha a b` or `c += alpha a b`.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn product<T: Scalar>(
    alpha: T,
    a: Arg<'_, T>,
    b: Arg<'_, T>,
    mut c: MatMut<'_, T>,
    write: Write,
) {
    check_shapes(&a, &b, &c);
    let (m, k, n) = (a.rows(), a.cols(), b.cols());
    if m * n == 0 {
        return;
    }
    if in_tiles(alpha, a, b, c.reborrow(), write, false) {
        return;
    }
    if !in_library::<T>() {
        return by_definition(alpha, a, b, c, write);
    }
    if m * n * k <= SERIAL_LIMIT {
        return piece_of_product(alpha, a, b, c, write);
    }
    product_in_pieces(alpha, a, b, c, write);
}

/// Computes an `f32` product of few rows, or one that is faster in tiles, on the calling thread if
/// `alone` or if threads do not pay; returns false for other products.
fn in_tiles<T: Scalar>(
    alpha: T,
    a: Arg<'_, T>,
    b: Arg<'_, T>,
    c: MatMut<'_, T>,
    write: Write,
    alone: bool,
) -> bool {
    if TypeId::of::<T>() != TypeId::of::<f32>() {
        return false;
    }
    if let (Arg::Plain(x), Arg::Transposed(w), true) =
        (a.of_scalar(), b.of_scalar(), c.rows() <= few_rows::MOST)
    {
        let alone = alone || w.rows() * w.cols() <= few_rows::SERIAL_LIMIT;
        let mut into = [(Weight::Full(w), c.of_scalar())];
        few_rows::products(bytemuck::cast(alpha), x, &mut into, write, alone);
        return true;
    }
    let of_this_machine = tile::Tile::of_this_machine();
    let pays = |tile: &_| blocks::pays(*tile, c.rows(), a.cols(), c.cols());
    let Some(tile) = of_this_machine.filter(pays) else {
        return false;
    };
    let alone = alone || c.rows() * a.cols() * c.cols() <= SERIAL_LIMIT;
    let mut into = [(Right::of(b.of_scalar()), c.of_scalar())];
    blocks::products(tile, bytemuck::cast(alpha), a.of_scalar(), &mut into, write, alone);
    true
}

/// [`product`] for callers that are themselves parallel work items: computed by the calling thread
/// alone.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn product_on_this_thread<T: Scalar>(
    alpha: T,
    a: Arg<'_, T>,
    b: Arg<'_, T>,
    mut c: MatMut<'_, T>,
    write: Write,
) {
    check_shapes(&a, &b, &c);
    if c.rows() * c.cols() == 0 || in_tiles(alpha, a, b, c.reborrow(), write, true) {
        return;
    }
    if in_library::<T>() {
        piece_of_product(alpha, a, b, c, write);
    } else {
        by_definition(alpha, a, b, c, write);
    }
}

/// `c = Σ_k a_k b_k` or `c += Σ_k a_k b_k`, on the calling thread: the sum of several products,
/// whose inner dimensions are concatenated.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn sum_of_products<T: Scalar>(factors: &[[Arg<'_, T>; 2]], mut c: MatMut<'_, T>, write: Write) {
    factors.iter().for_each(|[a, b]| check_shapes(a, b, &c));
    #[cfg(target_arch = "x86_64")]
    if TypeId::of::<T>() == TypeId::of::<f32>()
        && thirds::is_here()
        && c.rows() * c.cols() > 0
        && factors.iter().all(|[a, _]| a.cols() > 0)
    {
        let factors: Vec<_> = factors.iter().map(|pair| pair.map(Arg::of_scalar)).collect();
        return thirds::sum_of_products(&factors, c.of_scalar(), write);
    }
    for (k, [a, b]) in factors.iter().enumerate() {
        let write = if k == 0 { write } else { Write::Add };
        product_on_this_thread(T::ONE, *a, *b, c.reborrow(), write);
    }
}

/// Whether the `gemm` crate supports the scalar.
fn in_library<T: Scalar>() -> bool {
    let scalar = TypeId::of::<T>();
    scalar == TypeId::of::<f32>() || scalar == TypeId::of::<f64>()
}

/// Generic product for [`crate::Counted`]: rows x depth x columns multiply-adds; the scaling and
/// the addition to `c` are part of writing results.
fn by_definition<T: Scalar>(
    alpha: T,
    a: Arg<'_, T>,
    b: Arg<'_, T>,
    mut c: MatMut<'_, T>,
    write: Write,
) {
    for i in 0..c.rows() {
        for (j, c) in c.row_mut(i).iter_mut().enumerate() {
            let step = |sum, k| a.at(i, k).mul_add(b.at(k, j), sum);
            let product = (0..a.cols()).fold(T::ZERO, step);
            let before = if write == Write::Add { *c } else { T::ZERO };
            *c = T::uncounted(|| before + alpha * product);
        }
    }
}

#[track_caller]
fn check_shapes<T: Scalar>(a: &Arg<'_, T>, b: &Arg<'_, T>, c: &MatMut<'_, T>) {
    assert_eq!(
        (a.cols(), a.rows(), b.cols()),
        (b.rows(), c.rows(), c.cols()),
        "product of {} x {} and {} x {} into {} x {}",
        a.rows(),
        a.cols(),
        b.rows(),
        b.cols(),
        c.rows(),
        c.cols()
    );
    a.check();
    b.check();
}

/// Views hold slices of plain numbers, which threads may share.
struct Shared<'a, T>(Arg<'a, T>);

/// Rows and columns of a work item; a function of the shape only.
fn piece_extents(rows: usize, cols: usize) -> (usize, usize) {
    if rows < 2 * ROWS_PER_PIECE && cols >= 4 * COLS_PER_PIECE {
        // Short and wide, such as logits: the wide side yields enough work items.
        (rows, COLS_PER_PIECE)
    } else if rows < FEW_ROWS {
        (rows, cols.div_ceil(2).next_multiple_of(PIECE_MULTIPLE))
    } else if rows < 2 * ROWS_PER_PIECE {
        // Square and small, such as the gradient of a weight: two work items, or four of the larger
        // ones.
        let step = if rows <= ROWS_PER_PIECE { rows.div_ceil(2) } else { ROWS_PER_PIECE / 2 };
        (step.next_multiple_of(PIECE_MULTIPLE), cols)
    } else {
        let step = (rows / PIECES).clamp(ROWS_PER_PIECE, MAX_ROWS_PER_PIECE);
        (step.next_multiple_of(PIECE_MULTIPLE), cols)
    }
}

fn product_in_pieces<T: Scalar>(
    alpha: T,
    a: Arg<'_, T>,
    b: Arg<'_, T>,
    mut c: MatMut<'_, T>,
    write: Write,
) {
    let (rows, cols, stride) = (c.rows(), c.cols(), c.stride());
    assert!(c.data_mut().len() >= (rows - 1) * stride + cols, "view out of bounds");
    let base = Pointer(c.data_mut().as_mut_ptr());
    let (a, b) = (Shared(a), Shared(b));
    let (high, wide) = piece_extents(rows, cols);
    let corners: Vec<(usize, usize)> = (0..rows)
        .step_by(high)
        .flat_map(|row| (0..cols).step_by(wide).map(move |col| (row, col)))
        .collect();
    parallel::for_each(corners, |_, (row, col)| {
        let (a, b, base) = (&a, &b, &base);
        let (m, n) = (high.min(rows - row), wide.min(cols - col));
        let extents = Extents { m, n, k: a.0.cols() };
        let (a, b) = (a.0.raw(), b.0.raw());
        // SAFETY: the pieces write disjoint parts of `c`, whose bounds were checked above, and read
        // `a` from row `row` and `b` from column `col` on, within views that `product` checked.
        unsafe {
            let c = base.0.add(row * stride + col);
            let c = Raw { at: c, col_stride: 1, row_stride: stride as isize };
            let a = Raw { at: a.at.offset(row as isize * a.row_stride), ..a };
            let b = Raw { at: b.at.offset(col as isize * b.col_stride), ..b };
            raw_product(extents, c, alpha, write, a, b);
        }
    });
}

/// A pointer that threads may share, since each writes its own part.
pub(super) struct Pointer<T>(pub(super) *mut T);
// SAFETY: used only where every thread writes elements of its own.
unsafe impl<T: Send> Send for Pointer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Pointer<T> {}

fn piece_of_product<T: Scalar>(
    alpha: T,
    a: Arg<'_, T>,
    b: Arg<'_, T>,
    mut c: MatMut<'_, T>,
    write: Write,
) {
    let (rows, cols, stride) = (c.rows(), c.cols(), c.stride());
    assert!(c.data_mut().len() >= (rows - 1) * stride + cols, "view out of bounds");
    let at = c.data_mut().as_mut_ptr();
    let c_raw = Raw { at, col_stride: 1, row_stride: stride as isize };
    // SAFETY: callers checked the views of `a` and `b`, and `c` is a checked exclusive view.
    unsafe {
        raw_product(
            Extents { m: rows, n: cols, k: a.cols() },
            c_raw,
            alpha,
            write,
            a.raw(),
            b.raw(),
        );
    }
}

/// A matrix in memory.
#[derive(Clone, Copy)]
struct Raw<P> {
    /// The first number.
    at: P,
    /// Stride from one column to the next.
    col_stride: isize,
    /// Stride from one row to the next.
    row_stride: isize,
}

/// Extents of a product of `a` (m, k) and `b` (k, n).
#[derive(Clone, Copy)]
struct Extents {
    m: usize,
    n: usize,
    k: usize,
}

/// `c = alpha a b` or `c += alpha a b`, with `a` (m, k) and `b` (k, n).
///
/// # Safety
/// All pointers must be valid for the given shape and strides, `c` exclusively.
unsafe fn raw_product<T: Scalar>(
    Extents { m, n, k }: Extents,
    c: Raw<*mut T>,
    alpha: T,
    write: Write,
    a: Raw<*const T>,
    b: Raw<*const T>,
) {
    let add = write == Write::Add;
    // SAFETY: the caller's contract. The library computes `dst = alpha dst + beta lhs rhs`.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.at,
            c.col_stride,
            c.row_stride,
            add,
            a.at,
            a.col_stride,
            a.row_stride,
            b.at,
            b.col_stride,
            b.row_stride,
            if add { T::ONE } else { T::ZERO },
            alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    pub(super) fn random<T: Scalar>(rows: usize, cols: usize, seed: u64) -> Mat<T> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    fn naive<T: Scalar>(a: &Mat<T>, b: &Mat<T>) -> Mat<f64> {
        let term = |i, k, j| a.at(i, k).to_f64() * b.at(k, j).to_f64();
        Mat::from_fn(a.rows(), b.cols(), |i, j| (0..a.cols()).map(|k| term(i, k, j)).sum())
    }

    /// Compares a product with its naive twin, with both factors as they are and transposed, set
    /// and added.
    pub(super) fn in_every_orientation<T: Scalar>(
        (m, k, n): (usize, usize, usize),
        product: impl Fn(T, Arg<'_, T>, Arg<'_, T>, MatMut<'_, T>, Write),
    ) {
        let (a, b) = (random::<T>(m, k, 1), random::<T>(k, n, 2));
        let expected = naive(&a, &b);
        let (at, bt) = (a.transpose(), b.transpose());
        let tolerance = 8.0 * (1.0 + k as f64) * T::EPSILON.to_f64();
        for (write, before) in [(Write::Set, 0.0), (Write::Add, 1.0)] {
            for (a, b) in [
                (Arg::from(a.view()), Arg::from(b.view())),
                (Arg::Transposed(at.view()), b.view().into()),
                (a.view().into(), Arg::Transposed(bt.view())),
                (Arg::Transposed(at.view()), Arg::Transposed(bt.view())),
            ] {
                let mut c = Mat::from_fn(m, n, |_, _| T::ONE);
                product(T::from_f64(2.0), a, b, c.view_mut(), write);
                for (c, e) in c.data().iter().zip(expected.data()) {
                    let (c, e) = (c.to_f64(), 2.0 * e + before);
                    assert!((c - e).abs() < tolerance, "{m} x {k} x {n}: {c} is not {e}");
                }
            }
        }
    }

    #[test]
    fn product_equals_its_naive_twin_in_every_orientation() {
        for extents in [
            (1, 1, 1),
            (3, 5, 7),
            (300, 40, 33),
            (5, 64, 1100),
            (40, 80, 2500),
            (600, 50, 40),
            (200, 300, 100),
            (30, 500, 150),
            (300, 200, 61),
            (60, 700, 130),
            (0, 4, 3),
            (4, 0, 3),
        ] {
            in_every_orientation::<f64>(extents, |alpha, a, b, c, write| {
                product(alpha, a, b, c, write);
            });
            in_every_orientation::<f32>(extents, |alpha, a, b, c, write| {
                product(alpha, a, b, c, write);
            });
        }
    }

    #[test]
    fn product_reads_and_writes_strided_views() {
        let (a, b) = (random::<f64>(6, 10, 3), random::<f64>(9, 4, 4));
        let mut c = Mat::zeros(6, 12);
        product(
            1.0,
            a.view().columns(2, 5).into(),
            b.view().rows_range(1, 5).into(),
            c.view_mut().columns(3, 4),
            Write::Set,
        );
        let expected = naive(&a.view().columns(2, 5).to_mat(), &b.view().rows_range(1, 5).to_mat());
        for i in 0..6 {
            for j in 0..12 {
                let want = if (3..7).contains(&j) { expected.at(i, j - 3) } else { 0.0 };
                assert!((c.at(i, j) - want).abs() < 1e-12);
            }
        }
    }

    /// Rows and columns that do not fill the last tile, inside a wider matrix.
    #[test]
    fn tiles_leave_alone_what_is_around_their_result() {
        let (a, b): (Mat<f32>, Mat<f32>) = (random(61, 100, 3), random(90, 77, 4));
        let mut c = Mat::from_fn(61, 99, |_, _| 7.0);
        product(
            1.0,
            a.view().columns(5, 90).into(),
            b.view().into(),
            c.view_mut().columns(9, 77),
            Write::Set,
        );
        let expected = naive(&a.view().columns(5, 90).to_mat(), &b);
        for i in 0..61 {
            for j in 0..99 {
                let inside = (9..86).contains(&j);
                let want = if inside { expected.at(i, j - 9) } else { 7.0 };
                assert!((f64::from(c.at(i, j)) - want).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn bits_depend_neither_on_threads_nor_on_what_else_is_computed() {
        let (a, b): (Mat<f32>, Mat<f32>) = (random(300, 1100, 5), random(1100, 1200, 6));
        let (mut whole, mut alone) = (Mat::zeros(300, 1200), Mat::zeros(300, 1200));
        let (a, b) = (a.view(), b.view());
        product(1.0, a.into(), b.into(), whole.view_mut(), Write::Set);
        product_on_this_thread(1.0, a.into(), b.into(), alone.view_mut(), Write::Set);
        assert_eq!(whole, alone);
        let mut part = Mat::zeros(100, 256);
        let (rows, cols) = (a.rows_range(150, 100), b.columns(700, 256));
        product(1.0, rows.into(), cols.into(), part.view_mut(), Write::Set);
        if tile::Tile::of_this_machine().is_some() {
            let same = whole.view().rows_range(150, 100).columns(700, 256).to_mat();
            assert_eq!(part, same);
        }
    }

    /// Weights in both types beside each other: each result equals its naive twin, and has the bits
    /// that it has alone.
    #[test]
    fn several_weights_of_the_same_rows_give_what_each_gives_alone() {
        use crate::HalfType;
        for (rows, inp) in [(1, 40), (4, 600), (5, 64), (47, 130), (48, 600), (300, 1100), (3, 0)] {
            let x: Mat<f32> = random(rows, inp, 1);
            let full: Vec<Mat<f32>> =
                [70, 3, 200, 0].iter().map(|&out| random(out, inp, out as u64)).collect();
            let halves: Vec<Halves> = [(HalfType::Bf16, 300), (HalfType::F16, 65)]
                .map(|(of, out)| Halves::rounded(of, &random(out, inp, out as u64)))
                .into();
            let wide: Vec<Mat<f32>> =
                full.iter().cloned().chain(halves.iter().map(Halves::to_mat)).collect();
            let weights: Vec<Weight<'_, f32>> = full
                .iter()
                .map(|w| Weight::Full(w.view()))
                .chain(halves.iter().map(Weight::Half))
                .collect();
            let results = || -> Vec<Mat<f32>> {
                wide.iter().map(|w| Mat::from_fn(rows, w.rows(), |_, _| 7.0)).collect()
            };
            let (mut together, mut alone) = (results(), results());
            let mut into: Vec<_> =
                weights.iter().copied().zip(together.iter_mut().map(Mat::view_mut)).collect();
            linears(x.view(), &mut into);
            for (w, y) in weights.iter().zip(&mut alone) {
                linears(x.view(), &mut [(*w, y.view_mut())]);
            }
            assert_eq!(together, alone, "{rows} rows of {inp}");
            for (w, y) in wide.iter().zip(&together) {
                let expected = naive(&x, &w.transpose());
                for (y, e) in y.data().iter().zip(expected.data()) {
                    assert!((f64::from(*y) - e).abs() < 2e-4, "{rows} rows of {inp}: {y}, not {e}");
                }
            }
        }
    }

    /// The way of machines without tiles.
    #[test]
    fn weights_widened_in_pieces_equal_those_widened_whole() {
        let (x, w): (Mat<f32>, Mat<f32>) = (random(7, 2000, 1), random(700, 2000, 2));
        let half = Halves::rounded(crate::HalfType::Bf16, &w);
        let mut y = Mat::zeros(7, 700);
        widened(x.view(), &half, y.view_mut());
        let expected = naive(&x, &half.to_mat().transpose());
        for (y, e) in y.data().iter().zip(expected.data()) {
            assert!((f64::from(*y) - e).abs() < 2e-3, "{y}, not {e}");
        }
    }

    #[test]
    #[should_panic(expected = "2 rows of 5 times a weight")]
    fn a_weight_of_another_width_is_refused() {
        let (x, w): (Mat<f32>, Mat<f32>) = (random(2, 5, 1), random(3, 4, 2));
        linears(x.view(), &mut [(Weight::Full(w.view()), Mat::zeros(2, 3).view_mut())]);
    }
}
