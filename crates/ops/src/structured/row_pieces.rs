//! Splitting of batches into blocks of rows, which are computed in parallel. Boundaries depend only
//! on the sizes, and gradients of blocks are added in order.

use crate::{Backward, Grads, Tape, Workspace};
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::{MatMut, MatRef, Scalar, parallel};
use std::ops::Range;

/// Largest number of work items with their own gradients: each costs memory for all parameters.
const PIECES: usize = 16;
/// Size of one block: with its intermediate results it then stays in the second-level cache.
const BLOCK_NUMBERS: usize = 1 << 17;
/// Size of the sums that may wait to be added, if larger than one per thread.
const WAITING: usize = 1 << 22;

/// One block of rows of a backward pass.
pub(super) struct Block<'a, T> {
    /// Index of the block.
    pub index: usize,
    /// Input.
    pub x: MatRef<'a, T>,
    /// Gradient of the output.
    pub dy: MatRef<'a, T>,
    /// Gradient of the input.
    pub dx: Option<MatMut<'a, T>>,
    /// Gradients of all parameters, contiguous, added to, if requested.
    pub grads: Option<&'a mut [T]>,
}

/// Rows of a block for this many features.
pub(super) fn block_rows(features: usize) -> usize {
    (BLOCK_NUMBERS / features.max(1)).clamp(32, 256)
}

/// Runs `work` on every block of `block` rows of `x` and `y`.
pub(super) fn forward<T: Scalar>(
    block: usize,
    x: MatRef<'_, T>,
    y: MatMut<'_, T>,
    work: impl Fn(MatRef<'_, T>, MatMut<'_, T>) + Sync + Send,
) {
    forward_and_keep(block, x, y, None, 0, |x, y, _| work(x, y));
}

/// The same, where `work` saves `len` numbers of each block on the tape, if there is one: block k
/// is row k of the saved matrix.
pub(super) fn forward_and_keep<T: Scalar>(
    block: usize,
    x: MatRef<'_, T>,
    y: MatMut<'_, T>,
    tape: Option<&mut Tape<T>>,
    len: usize,
    work: impl Fn(MatRef<'_, T>, MatMut<'_, T>, Option<&mut [T]>) + Sync + Send,
) {
    let pieces = y.row_blocks(block);
    let saved = tape.map(|tape| tape.save(pieces.len(), len));
    let saved = saved.map(|saved| saved.view_mut().row_blocks(1)).unwrap_or_default();
    let mut saved = saved.into_iter();
    let pieces = pieces.into_iter().map(|y| (y, saved.next())).collect();
    parallel::for_each(pieces, |k, (y, mut saved): (MatMut<'_, T>, Option<MatMut<'_, T>>)| {
        let saved = saved.as_mut().map(|saved| saved.row_mut(0));
        work(x.rows_range(k * block, y.rows()), y, saved);
    });
}

/// Runs `work` on every work item of at most `piece` of the `rows`, with those rows of `dx`, and
/// adds up its results of `numbers` values each, in order; none without rows.
pub(super) fn sum_of_pieces<T: Scalar, S: Send>(
    piece: usize,
    rows: usize,
    dx: Option<MatMut<'_, T>>,
    numbers: usize,
    work: impl Fn(Range<usize>, Option<MatMut<'_, T>>) -> S + Sync + Send,
    add: impl Fn(&mut S, &S),
) -> Option<S> {
    let mut d_pieces = dx.map(|dx| dx.row_blocks(piece)).unwrap_or_default().into_iter();
    let starts = (0..rows).step_by(piece);
    let mut pieces = starts.map(|start| (start..rows.min(start + piece), d_pieces.next()));
    // The order of additions does not depend on how many sums are waiting.
    let at_once = (WAITING / numbers.max(1)).max(parallel::threads());
    let mut sums: Option<S> = None;
    loop {
        let now: Vec<_> = pieces.by_ref().take(at_once).collect();
        if now.is_empty() {
            return sums;
        }
        for next in parallel::map(now, |_, (rows, dx)| work(rows, dx)) {
            match &mut sums {
                Some(sums) => add(sums, &next),
                None => sums = Some(next),
            }
        }
    }
}

/// Runs `work` on every block of at most `block` rows, and adds up their gradients.
pub(super) fn backward<T: Scalar>(
    block: usize,
    args: Backward<'_, '_, T>,
    ws: &mut Workspace<T>,
    work: impl Fn(Block<'_, T>) + Sync + Send,
) {
    let Backward { x, dy, dx, grads, .. } = args;
    let rows = x.rows();
    if rows == 0 {
        return;
    }
    let piece = rows.div_ceil(PIECES).next_multiple_of(block);
    let mut sums = grads.as_ref().map(|grads| {
        let mut sums = ws.take(rows.div_ceil(piece), grads.iter().map(<[T]>::len).sum());
        sums.view_mut().fill(T::ZERO);
        sums
    });
    let mut d_pieces = dx.map(|dx| dx.row_blocks(piece)).unwrap_or_default().into_iter();
    let mut sum_rows = sums.iter_mut().flat_map(|sums| sums.view_mut().row_blocks(1));
    let starts = (0..rows).step_by(piece);
    let pieces = starts.map(|start| (start, d_pieces.next(), sum_rows.next())).collect();
    parallel::for_each(pieces, |_, (start, dx, mut sums)| {
        let last = rows.min(start + piece);
        let mut d_blocks = dx.map(|dx: MatMut<'_, T>| dx.row_blocks(block));
        let mut d_blocks = d_blocks.iter_mut().flat_map(|blocks| blocks.drain(..));
        for start in (start..last).step_by(block) {
            let (index, rows) = (start / block, block.min(last - start));
            let (x, dy) = (x.rows_range(start, rows), dy.rows_range(start, rows));
            let grads = sums.as_mut().map(|sums| sums.row_mut(0));
            work(Block { index, x, dy, dx: d_blocks.next(), grads });
        }
    });
    if let (Some(grads), Some(sums)) = (grads, sums) {
        (0..sums.rows()).for_each(|piece| add_flat(grads, sums.row(piece)));
        ws.give(sums);
    }
}

/// Adds contiguous gradients.
fn add_flat<T: Scalar>(grads: &mut Grads<T>, mut flat: &[T]) {
    for grad in grads.iter_mut() {
        let (here, rest) = flat.split_at(grad.len());
        add(grad, here);
        flat = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, OpSpec, Shape};
    use linwright_tensor::{Mat, RngKey};

    const ROWS: usize = 1100;
    const SHAPE: Shape = Shape { out: 16, inp: 16 };

    /// Gradient of the input for these rows; those of parameters are added.
    fn back(
        op: &Op<f64>,
        x: MatRef<'_, f64>,
        dy: MatRef<'_, f64>,
        grads: &mut Grads<f64>,
    ) -> Vec<f64> {
        let (mut tape, mut ws) = (Tape::default(), Workspace::default());
        let (mut y, mut dx) = (Mat::zeros(x.rows(), SHAPE.out), Mat::zeros(x.rows(), SHAPE.inp));
        op.map().forward(x, y.view_mut(), Some(&mut tape), &mut ws);
        let args = Backward { x, dy, tape: &tape, dx: Some(dx.view_mut()), grads: Some(grads) };
        op.map().backward(args, &mut ws);
        dx.into_vec()
    }

    #[test]
    fn pieces_are_added_in_their_order_however_many_wait() {
        for numbers in [1, WAITING / 3, usize::MAX] {
            let work = |rows: Range<usize>, dx: Option<MatMut<'_, f64>>| {
                assert_eq!(dx.unwrap().rows(), rows.len());
                vec![rows]
            };
            let add = |sums: &mut Vec<Range<usize>>, next: &Vec<_>| sums.extend_from_slice(next);
            let mut dx = Mat::zeros(23, 1);
            let pieces = sum_of_pieces(5, 23, Some(dx.view_mut()), numbers, work, add);
            assert_eq!(pieces.unwrap(), [0..5, 5..10, 10..15, 15..20, 20..23], "{numbers}");
            assert_eq!(sum_of_pieces(5, 0, None, numbers, work, add), None, "no rows");
        }
    }

    /// Many blocks, several in a piece, against a batch that is cut elsewhere.
    #[test]
    fn gradients_of_many_rows_are_those_of_their_parts() {
        let draw = |label: &str| {
            let mut stream = RngKey::new(5).fold(label).stream();
            Mat::from_vec(ROWS, 16, stream.normals::<f64>(ROWS * 16, 1.0))
        };
        let (x, dy) = (draw("x"), draw("dy"));
        for json in [
            r#"{"kind":"kronecker","terms":2}"#,
            r#"{"kind":"kronecker","left":{"out":2,"inp":8}}"#,
            r#"{"kind":"monarch"}"#,
            r#"{"kind":"butterfly"}"#,
            r#"{"kind":"butterfly","orthogonal":true}"#,
            r#"{"kind":"diagonal_low_rank","rank":3}"#,
            r#"{"kind":"block_hadamard","depth":3,"block":4}"#,
            r#"{"kind":"rotor_network","hidden_width":8}"#,
        ] {
            let spec: OpSpec = serde_json::from_str(json).unwrap();
            let op = spec.random::<f64>(SHAPE, RngKey::new(1)).unwrap();
            let zeros = || Grads::zeros(&op.map().params());
            let (mut whole, mut parts) = (zeros(), zeros());
            let dx = back(&op, x.view(), dy.view(), &mut whole);
            let mut d_parts = Vec::new();
            for (start, rows) in [(0, 13), (13, 1), (14, ROWS - 14)] {
                let (x, dy) = (x.view().rows_range(start, rows), dy.view().rows_range(start, rows));
                d_parts.extend(back(&op, x, dy, &mut parts));
            }
            let all = |grads: &Grads<f64>, dx: &[f64]| -> Vec<f64> {
                grads.iter().flatten().chain(dx).copied().collect()
            };
            for (a, b) in all(&whole, &dx).into_iter().zip(all(&parts, &d_parts)) {
                assert!((a - b).abs() < 1e-10 * (1.0 + b.abs()), "{json}: {a} is not {b}");
            }
        }
    }
}
