//! Rotors of a Clifford algebra on chunks of the features (the rotor gadget).
//!
//! One chunk x of c = 2^n features is a multivector `Σ x_A e_A`, blades by grade and then
//! lexicographically, `e_i² = 1`. A bivector b gives the rotor `r = exp(b)`:
//! `y = r x reverse(s)`, with s = r (single) or of its own bivector (double).
//! The c-sized chunks of input and output start at `floor(i · dim / chunks)` and wrap round; with
//! α_io for each pair, out-chunk o is `Σ_i α_io r_io x_i reverse(s_io)`, added to its features, and
//! each feature is divided by the number of pairs that reach it (one pair: by nothing).
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | pairs · (n(n-1)/2 or n(n-1) + 1) | pairs · (1 to 4) c^1.5 + c log c for each chunk |
//!
//! Source: arXiv 2507.11688, sections 3 and 4, and its code; bivectors start as N(0, 1), α as 1.
//! Deviations: evaluated through spin representations ([`linwright_tensor::kernels::spin`]) and
//! not by dense matrices, and the rotor is built from an exact eigendecomposition of the skew
//! matrix of b and not by power iteration, so that equal plane angles do no harm.
//!
//! ```
//! use linwright_ops::{Map, Rotor, RotorSpec, Shape, Structured, parameter_count};
//! use linwright_tensor::RngKey;
//!
//! let shape = Shape { out: 2048, inp: 2048 };
//! let op: Rotor<f32> = Rotor::random(&RotorSpec::default(), shape, RngKey::new(0))?;
//! assert_eq!(parameter_count(&op.params()), 2 * 55 + 1);
//! assert!(op.macs_per_row() < 300_000); // dense: 4,194,304
//! # Ok::<(), linwright_ops::OpError>(())
//! ```

use super::OpSpec;
use super::rotor_chunks::Chunks;
use crate::{
    Backward, LinearOp, Map, Op, OpError, Param, ParamMut, Shape, Structured, Tape, Workspace,
};
use linwright_tensor::kernels::gemm::Write;
use linwright_tensor::kernels::spin::{
    Direction, MAX_GENERATORS, Sandwich, Side, SpinBasis, SpinRotor,
};
use linwright_tensor::kernels::transpose::{from_columns, to_columns};
use linwright_tensor::{MatMut, MatRef, RngKey, Scalar, Scratch, parallel};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// How bivectors are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotorInit {
    /// N(0, 1), as the paper's code does.
    #[default]
    Normal,
    /// N(0, 0.01²): every rotor close to the identity.
    NearIdentity,
}

/// Options of [`Rotor`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RotorSpec {
    /// Features c of a chunk, a power of two; the largest one up to both sides if absent.
    pub chunk: Option<usize>,
    /// Whether s = r: grades are kept, with half the parameters.
    pub single: bool,
    /// How bivectors are drawn.
    pub init: RotorInit,
}

/// Numbers that the working memory of one block of rows holds of one multivector batch.
const BLOCK_NUMBERS: usize = 1 << 15;
/// Rows handled side by side. A block with fewer, but for a single row, is filled up with zeros.
const LANES: usize = 16;

/// Rotors on chunks of the features.
#[derive(Clone, Debug)]
pub struct Rotor<T> {
    spec: RotorSpec,
    inp: Chunks,
    out: Chunks,
    basis: Arc<SpinBasis>,
    /// (pairs, n (n - 1) / 2), pair (i, o) at i · out-chunks + o.
    left: Vec<T>,
    /// The same for s; empty for a single rotor.
    right: Vec<T>,
    alpha: Vec<T>,
    /// The rotors of all pairs, left and right, derived from the bivectors.
    derived: OnceLock<Vec<[SpinRotor<T>; 2]>>,
}

impl<T: Scalar> Rotor<T> {
    fn pairs(&self) -> usize {
        self.inp.count * self.out.count
    }

    /// Numbers of one bivector.
    fn coefficients(&self) -> usize {
        let n = self.basis.generators();
        n * n.saturating_sub(1) / 2
    }

    fn rotors(&self) -> &[[SpinRotor<T>; 2]] {
        self.derived.get_or_init(|| {
            let count = self.coefficients();
            parallel::map((0..self.pairs()).collect(), |_, pair| {
                let left = &self.left[pair * count..][..count];
                let right =
                    if self.spec.single { left } else { &self.right[pair * count..][..count] };
                [self.basis.rotor(left, Side::Left), self.basis.rotor(right, Side::Right)]
            })
        })
    }

    fn sandwich(&self, pair: usize) -> Sandwich<'_, T> {
        let [left, right] = &self.rotors()[pair];
        Sandwich { left, right }
    }

    /// Rows computed as one piece: a function of the algebra alone.
    fn block_rows(&self) -> usize {
        (BLOCK_NUMBERS / self.basis.len()).clamp(LANES, 4 * LANES)
    }

    /// One over the number of pairs that reach each output feature.
    fn shares(&self) -> Option<Vec<T>> {
        let share = |covers: &usize| T::from_f64(1.0 / (covers * self.inp.count) as f64);
        (self.pairs() > 1).then(|| self.out.covers().iter().map(share).collect())
    }

    /// Sheets of every chunk of `columns` (features, width).
    fn represent(&self, chunks: &Chunks, columns: &[T], width: usize) -> Scratch<T> {
        let len = self.basis.len() * width;
        let mut sheets = Scratch::new(chunks.count * len);
        for (k, sheets) in sheets.chunks_exact_mut(len).enumerate() {
            self.basis.represent(columns, chunks.start(k), width, sheets);
        }
        sheets
    }

    /// Sheets of every chunk of the input.
    fn inputs(&self, x: MatRef<'_, T>) -> Scratch<T> {
        let width = lanes(x.rows());
        let columns = columns_of(x, width);
        self.represent(&self.inp, &columns, width)
    }

    fn forward_block(&self, x: MatRef<'_, T>, mut y: MatMut<'_, T>, shares: Option<&[T]>) {
        let width = lanes(x.rows());
        let len = self.basis.len() * width;
        let inputs = self.inputs(x);
        let mut sums = Scratch::new(len);
        let mut columns = Scratch::zeros(self.out.features * width);
        for o in 0..self.out.count {
            let mut write = Write::Set;
            for (i, input) in inputs.chunks_exact(len).enumerate() {
                let pair = i * self.out.count + o;
                let target = (&mut sums[..], self.alpha[pair], write);
                self.basis.sandwich(self.sandwich(pair), Direction::Forward, input, target);
                write = Write::Add;
            }
            self.basis.recover(&mut sums, self.out.start(o), width, &mut columns);
        }
        scale_columns(&mut columns, width, shares);
        from_columns(&columns, width, &mut y);
    }

    /// Writes `dx` and returns the gradients of this block of rows.
    fn backward_block(
        &self,
        x: MatRef<'_, T>,
        dy: MatRef<'_, T>,
        dx: Option<MatMut<'_, T>>,
        shares: Option<&[T]>,
    ) -> BlockGrads {
        let width = lanes(x.rows());
        let len = self.basis.len() * width;
        let inputs = self.inputs(x);
        let mut d_columns = columns_of(dy, width);
        scale_columns(&mut d_columns, width, shares);
        let d_outputs = self.represent(&self.out, &d_columns, width);

        let mut grads = BlockGrads::default();
        let mut d_input = Scratch::new(len);
        let mut d_sum = Scratch::new(len);
        let mut columns = Scratch::zeros(self.inp.features * width);
        for (i, input) in inputs.chunks_exact(len).enumerate() {
            d_sum.fill(T::ZERO);
            for (o, d_output) in d_outputs.chunks_exact(len).enumerate() {
                let pair = i * self.out.count + o;
                let target = (&mut d_input[..], T::ONE, Write::Set);
                self.basis.sandwich(self.sandwich(pair), Direction::Back, d_output, target);
                let turns = self.basis.turns(input, &d_input);
                grads.left.extend(turns.left);
                grads.right.extend(turns.right);
                grads.alpha.push(turns.scale);
                let alpha = self.alpha[pair];
                d_sum.iter_mut().zip(&*d_input).for_each(|(s, &d)| *s += alpha * d);
            }
            if dx.is_some() {
                self.basis.recover(&mut d_sum, self.inp.start(i), width, &mut columns);
            }
        }
        if let Some(mut dx) = dx {
            from_columns(&columns, width, &mut dx);
        }
        grads
    }

    /// Adds the gradients of all blocks of rows to `grads`.
    fn add_grads(&self, total: &BlockGrads, grads: &mut crate::Grads<T>) {
        let count = self.coefficients();
        let alpha_index = if self.spec.single { 1 } else { 2 };
        for (pair, [left, right]) in self.rotors().iter().enumerate() {
            let alpha = self.alpha[pair].to_f64();
            let range = pair * count..(pair + 1) * count;
            let back = |rotor: &SpinRotor<T>, turns: &[f64]| {
                let scaled: Vec<f64> = turns.iter().map(|t| alpha * t).collect();
                rotor.pull_back(&scaled)
            };
            let right_index = if self.spec.single { 0 } else { 1 };
            for (index, rotor, turns) in
                [(0, left, &total.left), (right_index, right, &total.right)]
            {
                let grad = &mut grads.get_mut(index)[range.clone()];
                let back = back(rotor, &turns[range.clone()]);
                grad.iter_mut().zip(back).for_each(|(g, d)| *g += T::from_f64(d));
            }
            grads.get_mut(alpha_index)[pair] += T::from_f64(total.alpha[pair]);
        }
    }

    fn param_shapes(&self) -> [Vec<usize>; 2] {
        [vec![self.pairs(), self.coefficients()], vec![self.pairs()]]
    }
}

/// Gradients of one block of rows with respect to small turns and factors, pair after pair.
#[derive(Debug, Default)]
struct BlockGrads {
    left: Vec<f64>,
    right: Vec<f64>,
    alpha: Vec<f64>,
}

impl BlockGrads {
    fn add(&mut self, other: &Self) {
        let add = |a: &mut Vec<f64>, b: &Vec<f64>| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        add(&mut self.left, &other.left);
        add(&mut self.right, &other.right);
        add(&mut self.alpha, &other.alpha);
    }
}

/// The width of a block of rows: one, one group of [`LANES`], or pairs of groups.
fn lanes(rows: usize) -> usize {
    match rows {
        0 | 1 => rows,
        2..=LANES => LANES,
        _ => rows.next_multiple_of(2 * LANES),
    }
}

/// The columns of a block of rows, `width` wide.
fn columns_of<T: Scalar>(rows: MatRef<'_, T>, width: usize) -> Scratch<T> {
    let len = rows.cols() * width;
    let mut columns = if rows.rows() < width { Scratch::zeros(len) } else { Scratch::new(len) };
    to_columns(rows, width, &mut columns);
    columns
}

/// Multiplies feature k of `columns` (features, width) by `shares[k]`.
fn scale_columns<T: Scalar>(columns: &mut [T], width: usize, shares: Option<&[T]>) {
    for (column, &share) in columns.chunks_exact_mut(width).zip(shares.into_iter().flatten()) {
        column.iter_mut().for_each(|v| *v *= share);
    }
}

impl<T: Scalar> Map<T> for Rotor<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::Rotor(self.spec)
    }

    fn shape(&self) -> Shape {
        Shape { out: self.out.features, inp: self.inp.features }
    }

    fn macs_per_row(&self) -> u64 {
        let chunks = (self.inp.count + self.out.count) as u64;
        let shares = if self.pairs() > 1 { self.out.features as u64 } else { 0 };
        self.pairs() as u64 * self.basis.sandwich_macs()
            + chunks * self.basis.butterfly_adds()
            + shares
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let [bivectors, alpha] = self.param_shapes();
        let param = |name: &str, shape: &Vec<usize>, values| Param {
            name: name.into(),
            shape: shape.clone(),
            values,
        };
        let mut params = vec![param("bivectors_left", &bivectors, &self.left)];
        if !self.spec.single {
            params.push(param("bivectors_right", &bivectors, &self.right));
        }
        params.push(param("alpha", &alpha, &self.alpha));
        params
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        self.derived.take();
        let [bivectors, alpha] = self.param_shapes();
        let param = |name: &str, shape: &Vec<usize>, values| ParamMut {
            name: name.into(),
            shape: shape.clone(),
            values,
        };
        let mut params = vec![param("bivectors_left", &bivectors, &mut self.left)];
        if !self.spec.single {
            params.push(param("bivectors_right", &bivectors, &mut self.right));
        }
        params.push(param("alpha", &alpha, &mut self.alpha));
        params
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        assert_eq!((x.rows(), x.cols()), (y.rows(), self.inp.features), "input of a rotor");
        assert_eq!(y.cols(), self.out.features, "output of a rotor");
        let (block, shares) = (self.block_rows(), self.shares());
        self.rotors();
        parallel::for_each(y.row_blocks(block), |k, y| {
            self.forward_block(x.rows_range(k * block, y.rows()), y, shares.as_deref());
        });
    }

    fn backward(&self, args: Backward<'_, '_, T>, _ws: &mut Workspace<T>) {
        let Backward { x, dy, dx, grads, .. } = args;
        assert_eq!((x.rows(), x.cols()), (dy.rows(), self.inp.features), "input of a rotor");
        assert_eq!(dy.cols(), self.out.features, "output of a rotor");
        let (block, shares) = (self.block_rows(), self.shares());
        self.rotors();
        let starts = (0..x.rows()).step_by(block);
        let mut d_blocks = dx.map(|dx| dx.row_blocks(block)).unwrap_or_default().into_iter();
        let pieces = starts.map(|start| (start, d_blocks.next())).collect();
        let parts = parallel::map(pieces, |_, (start, dx): (usize, Option<MatMut<'_, T>>)| {
            let rows = block.min(x.rows() - start);
            let (x, dy) = (x.rows_range(start, rows), dy.rows_range(start, rows));
            self.backward_block(x, dy, dx, shares.as_deref())
        });
        let mut parts = parts.into_iter();
        if let Some(mut total) = parts.next() {
            parts.for_each(|part| total.add(&part));
            self.add_grads(&total, grads);
        }
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl<T: Scalar> LinearOp<T> for Rotor<T> {}

impl<T: Scalar> Structured<T> for Rotor<T> {
    type Spec = RotorSpec;
    const KIND: &'static str = "rotor";
    const EQUATION: &'static str = "y = r x reverse(s) on chunks of c = 2^n features";
    const PARAMETERS: &'static str = "pairs (n (n - 1) + 1); single pairs (n (n - 1) / 2 + 1)";
    const MACS: &'static str = "pairs (1 to 4) c^1.5 + c log2 c a chunk";

    fn numbers(spec: &RotorSpec, shape: Shape) -> u64 {
        let least = shape.out.min(shape.inp).max(1);
        let chunk = spec.chunk.unwrap_or(1 << least.ilog2()).max(1);
        let pairs = shape.inp.div_ceil(chunk) as u64 * shape.out.div_ceil(chunk) as u64;
        let n = u64::from(chunk.ilog2());
        let bivectors = n * n.saturating_sub(1) / if spec.single { 2 } else { 1 };
        pairs.saturating_mul(bivectors + 1)
    }

    fn random(spec: &RotorSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let refuse = |reason: String| OpError::Unsupported { kind: Self::KIND, shape, reason };
        let least = shape.out.min(shape.inp);
        if least == 0 {
            return Err(refuse("both sides need at least one feature".into()));
        }
        let chunk = spec.chunk.unwrap_or(1 << least.ilog2());
        if !chunk.is_power_of_two() || chunk > least || chunk > 1 << MAX_GENERATORS {
            return Err(refuse(format!(
                "chunk {chunk} must be a power of two of at most {}",
                least.min(1 << MAX_GENERATORS)
            )));
        }
        let basis = SpinBasis::shared(chunk.ilog2() as usize);
        let (inp, out) = (Chunks::new(shape.inp, chunk), Chunks::new(shape.out, chunk));
        let (n, pairs) = (basis.generators(), inp.count * out.count);
        let count = pairs * n * n.saturating_sub(1) / 2;
        let scale = match spec.init {
            RotorInit::Normal => 1.0,
            RotorInit::NearIdentity => 0.01,
        };
        let draw = |name, count| key.fold(name).stream().normals(count, scale);
        Ok(Self {
            spec: RotorSpec { chunk: Some(chunk), ..*spec },
            inp,
            out,
            basis,
            left: draw("left", count),
            right: draw("right", if spec.single { 0 } else { count }),
            alpha: vec![T::ONE; pairs],
            derived: OnceLock::new(),
        })
    }

    fn examples() -> Vec<(RotorSpec, Shape)> {
        let case = |out, inp, chunk, single| {
            (RotorSpec { chunk, single, ..RotorSpec::default() }, Shape { out, inp })
        };
        vec![
            case(8, 8, None, true),
            case(16, 16, None, false),
            case(32, 32, None, false),
            case(10, 7, Some(4), false),
            case(5, 13, Some(2), false),
            case(3, 2, Some(1), true),
            case(20, 24, None, false),
        ]
    }
}
