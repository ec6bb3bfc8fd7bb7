//! Rotors on a block of rows in column layout: one feature of all rows is contiguous.

use super::Rotor;
use super::columns::RowBlocks;
use super::rotor_chunks::Chunks;
use crate::Grads;
use linwright_tensor::kernels::gemm::{Destination, Direction, Write};
use linwright_tensor::kernels::spin::{Chunk, Sandwich, Side, TurnSums};
use linwright_tensor::{Scalar, Scratch, parallel};

/// Multiplies feature k of `columns` (features, width) by `shares[k]`.
fn scale_columns<T: Scalar>(columns: &mut [T], width: usize, shares: Option<&[T]>) {
    for (column, &share) in columns.chunks_exact_mut(width).zip(shares.into_iter().flatten()) {
        column.iter_mut().for_each(|v| *v *= share);
    }
}

/// Destination of the gradient of [`Rotor::inputs`].
pub(super) struct InputGradient<'a, T> {
    /// Sheets of every input chunk.
    pub sheets: &'a mut [T],
    /// Whether they are overwritten or added to.
    pub write: Write,
}

/// Sums over rows for the gradients of a rotor's parameters, for each pair of chunks.
pub(super) struct RotorSums<T>(Vec<TurnSums<T>>);

impl<T: Scalar> RotorSums<T> {
    /// Adds the sums of other rows.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(here, other)| here.add(other));
    }
}

impl<T: Scalar> Rotor<T> {
    /// Number of vectors that fit in the cache together.
    pub(super) fn blocks(&self) -> RowBlocks {
        RowBlocks::new(self.basis.dimension(), 1)
    }

    /// Numbers of one row's [`Self::inputs`].
    pub(super) fn numbers_of_inputs(&self) -> usize {
        self.inp.count * self.basis.dimension()
    }

    /// Additions of [`Self::inputs`] for one row.
    pub(super) fn macs_of_inputs(&self) -> u64 {
        self.inp.count as u64 * self.basis.butterfly_adds()
    }

    /// Multiply-adds of [`Self::apply`] for one row.
    pub(super) fn macs_of_sheets(&self) -> u64 {
        // Overlapping chunks are added up in their features.
        let overlaps = if self.out.count > 1 { self.basis.dimension() as u64 } else { 0 };
        self.pairs() as u64 * self.basis.sandwich_macs()
            + self.out.count as u64 * (self.basis.butterfly_adds() + overlaps)
            + self.shares.as_ref().map_or(0, Vec::len) as u64
    }

    fn sandwich(&self, pair: usize) -> Sandwich<'_, T> {
        let [left, right] = &self.rotors()[pair];
        Sandwich { left, right }
    }

    /// Sheets of every input chunk of `columns` (inp, width).
    pub(super) fn inputs(&self, columns: &[T], width: usize) -> Scratch<T> {
        self.represent(self.inp, columns, width)
    }

    fn represent(&self, chunks: Chunks, columns: &[T], width: usize) -> Scratch<T> {
        let len = self.basis.dimension() * width;
        let mut sheets = Scratch::new(chunks.count * len);
        for (k, sheets) in sheets.chunks_exact_mut(len).enumerate() {
            let chunk = Chunk { start: chunks.start(k), features: chunks.features, width };
            self.basis.represent(columns, chunk, sheets);
        }
        sheets
    }

    /// Writes the vectors with the sheets `sheets` of their chunks to `columns` (features, width);
    /// overlapping chunks are added.
    fn recover(&self, chunks: Chunks, sheets: &mut [T], width: usize, columns: &mut [T]) {
        let alone = chunks.count == 1;
        let write = if alone { Write::Set } else { Write::Add };
        if !alone {
            columns.fill(T::ZERO);
        }
        for (k, sheets) in sheets.chunks_exact_mut(self.basis.dimension() * width).enumerate() {
            let chunk = Chunk { start: chunks.start(k), features: chunks.features, width };
            self.basis.recover(sheets, chunk, columns, write);
        }
    }

    /// The output columns (out, width) for the [`Self::inputs`] of the input.
    pub(super) fn apply(&self, inputs: &[T], width: usize, columns: &mut [T]) {
        self.write(self.outputs(inputs, width), width, columns);
    }

    /// Sheets of every output chunk for the [`Self::inputs`] of the input.
    pub(super) fn outputs(&self, inputs: &[T], width: usize) -> Scratch<T> {
        let len = self.basis.dimension() * width;
        let mut outputs = Scratch::new(self.out.count * len);
        for (o, output) in outputs.chunks_exact_mut(len).enumerate() {
            let mut write = Write::Set;
            for (i, input) in inputs.chunks_exact(len).enumerate() {
                let pair = i * self.out.count + o;
                let to = Destination { y: &mut *output, scale: self.alpha[pair], write };
                self.basis.sandwich(self.sandwich(pair), Direction::Forward, input, to);
                write = Write::Add;
            }
        }
        outputs
    }

    /// Writes the columns (out, width) whose sheets are [`Self::outputs`].
    pub(super) fn write(&self, mut outputs: Scratch<T>, width: usize, columns: &mut [T]) {
        self.recover(self.out, &mut outputs, width, columns);
        scale_columns(columns, width, self.shares.as_deref());
    }

    /// The input columns (inp, width) of a single pair of chunks, mapped to output columns (out,
    /// width).
    pub(super) fn undo(&self, columns: &[T], width: usize, undone: &mut [T]) {
        let outputs = self.represent(self.out, columns, width);
        let mut inputs = Scratch::new(outputs.len());
        let scale = T::ONE / self.alpha[0];
        let to = Destination { y: &mut inputs[..], scale, write: Write::Set };
        self.basis.sandwich(self.sandwich(0), Direction::Back, &outputs, to);
        self.recover(self.inp, &mut inputs, width, undone);
    }

    /// Length of [`Self::sums`].
    pub(super) fn numbers_of_sums(&self) -> usize {
        self.pairs() * self.basis.numbers_of_sums()
    }

    /// Zero sums.
    pub(super) fn sums(&self) -> RotorSums<T> {
        RotorSums((0..self.pairs()).map(|_| self.basis.turn_sums()).collect())
    }

    /// From `d_columns` (out, width), which it scales, computes the parameter sums and, if
    /// requested, the gradient of the [`Self::inputs`].
    pub(super) fn pull_back(
        &self,
        inputs: &[T],
        d_columns: &mut [T],
        width: usize,
        mut d_inputs: Option<InputGradient<'_, T>>,
        sums: &mut RotorSums<T>,
    ) {
        scale_columns(d_columns, width, self.shares.as_deref());
        let d_outputs = self.represent(self.out, d_columns, width);
        let len = self.basis.dimension() * width;
        let mut d_one = Scratch::new(len);
        for (o, d_output) in d_outputs.chunks_exact(len).enumerate() {
            for (i, input) in inputs.chunks_exact(len).enumerate() {
                let pair = i * self.out.count + o;
                let to = Destination { y: &mut d_one[..], scale: T::ONE, write: Write::Set };
                self.basis.sandwich(self.sandwich(pair), Direction::Back, d_output, to);
                self.basis.add_to_sums(input, &d_one, &mut sums.0[pair]);
                let Some(InputGradient { sheets, write }) = &mut d_inputs else { continue };
                let d_input = &mut sheets[i * len..][..len];
                let (alpha, terms) = (self.alpha[pair], d_input.iter_mut().zip(&*d_one));
                if *write == Write::Set {
                    terms.for_each(|(sum, &d)| *sum = alpha * d);
                } else {
                    terms.for_each(|(sum, &d)| *sum += alpha * d);
                }
            }
            d_inputs.iter_mut().for_each(|gradient| gradient.write = Write::Add);
        }
    }

    /// The gradient of the input columns (inp, width), from that of the [`Self::inputs`].
    pub(super) fn recover_inputs(&self, d_inputs: &mut [T], width: usize, columns: &mut [T]) {
        self.recover(self.inp, d_inputs, width, columns);
    }

    /// Adds the parameter gradients to `grads`.
    pub(super) fn add_grads(&self, sums: &RotorSums<T>, grads: &mut Grads<T>) {
        let count = self.coefficients();
        let [right_index, alpha_index] = if self.spec.single { [0, 1] } else { [1, 2] };
        let rotors = self.rotors().iter().enumerate().flat_map(|(pair, [left, right])| {
            [(pair, Side::Left, left), (pair, Side::Right, right)]
        });
        let turns = parallel::map(rotors.collect(), |_, (pair, side, rotor)| {
            let alpha = self.alpha[pair].to_f64();
            let mut turn = self.basis.turn(side, &sums.0[pair]);
            turn.iter_mut().for_each(|t| *t *= alpha);
            rotor.pull_back(&turn)
        });
        for (k, turn) in turns.iter().enumerate() {
            let index = if k % 2 == 0 { 0 } else { right_index };
            let grad = &mut grads.get_mut(index)[k / 2 * count..][..count];
            grad.iter_mut().zip(turn).for_each(|(g, &d)| *g += T::from_f64(d));
        }
        for (grad, sums) in grads.get_mut(alpha_index).iter_mut().zip(&sums.0) {
            *grad += T::from_f64(self.basis.scale(sums));
        }
    }
}
