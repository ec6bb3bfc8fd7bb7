//! Rotors of a Clifford algebra on chunks of the features (the rotor gadget).
//!
//! One chunk x of c = 2^n features is a multivector `Σ x_A e_A`, blades by grade and then
//! lexicographically, `e_i² = 1`. A bivector b gives the rotor `r = exp(b)`: `y = r x reverse(s)`,
//! with s = r (single) or s from a separate bivector (double). The c-sized chunks of input and
//! output start at `floor(i · dim / chunks)` and wrap around; with α_io for each pair, output chunk
//! o is `Σ_i α_io r_io x_i reverse(s_io)`, added to its features, and each feature is divided by
//! the number of pairs that reach it (no division for one pair).
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | pairs · (n(n-1)/2 or n(n-1) + 1) | pairs · (1 to 4) c^1.5 + c log c for each chunk |
//!
//! Source: arXiv 2507.11688, sections 3 and 4, and its code; bivectors are initialised as N(0, 1),
//! α as 1. Deviations: evaluated through spin representations ([`linwright_tensor::kernels::spin`])
//! instead of dense matrices, and the rotor is built from an exact eigendecomposition of the skew
//! matrix of b instead of power iteration, so that equal plane angles are harmless.
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

use super::columns::{RowBlocks, columns_of};
use super::rotor_chunks::Chunks;
use super::rotor_columns::{InputGradient, RotorSums};
use super::row_pieces;
use super::{OpSpec, divisors};
use crate::{
    Backward, Invertible, KindOptions, LinearOp, LogDet, Map, Op, OpError, Param, ParamMut, Shape,
    Structured, Tape, Workspace,
};
use linwright_tensor::kernels::gemm::Write;
use linwright_tensor::kernels::spin::{BladeOrder, MAX_GENERATORS, Side, SpinBasis, SpinRotor};
use linwright_tensor::kernels::transpose::from_columns;
use linwright_tensor::{MatMut, MatRef, RngKey, Scalar, Scratch, parallel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Initialisation of bivectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RotorInit {
    /// N(0, 1), as the paper's code does.
    #[default]
    Normal,
    /// N(0, 0.01²): all rotors near the identity.
    NearIdentity,
}

/// Options of [`Rotor`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RotorSpec {
    /// Chunk size c, a power of two; the largest one up to both sides if absent.
    pub chunk: Option<usize>,
    /// Whether s = r: grades are preserved, with half the parameters.
    pub single: bool,
    /// Initialisation of bivectors.
    pub init: RotorInit,
    /// Order of a chunk's coordinates.
    pub order: RotorOrder,
}

impl RotorSpec {
    fn chunk(self, shape: Shape) -> usize {
        self.chunk.unwrap_or(1 << shape.out.min(shape.inp).max(1).ilog2())
    }
}

/// Order of the blades in a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RotorOrder {
    /// By grade, then lexicographically, as in the paper's code: 1, e1, e2, e3, e12, ...
    #[default]
    Graded,
    /// By bit mask, as in most libraries of Clifford algebra: 1, e1, e2, e12, e3, ...
    Binary,
}

impl RotorOrder {
    fn in_tables(self) -> BladeOrder {
        match self {
            Self::Graded => BladeOrder::Graded,
            Self::Binary => BladeOrder::Binary,
        }
    }
}

/// Rotors on chunks of the features.
#[derive(Clone, Debug)]
pub struct Rotor<T> {
    pub(super) spec: RotorSpec,
    pub(super) inp: Chunks,
    pub(super) out: Chunks,
    pub(super) basis: Arc<SpinBasis>,
    /// Inverse of the number of pairs that reach each output feature, if there are several.
    pub(super) shares: Option<Vec<T>>,
    /// (pairs, n (n - 1) / 2), pair (i, o) at i · out-chunks + o.
    left: Vec<T>,
    /// The same for s; empty for a single rotor.
    right: Vec<T>,
    pub(super) alpha: Vec<T>,
    /// The rotors of all pairs, left and right, computed from the bivectors.
    derived: OnceLock<Vec<[SpinRotor<T>; 2]>>,
}

impl<T: Scalar> Rotor<T> {
    pub(super) fn pairs(&self) -> usize {
        self.inp.count * self.out.count
    }

    /// Number of coefficients of one bivector.
    pub(super) fn coefficients(&self) -> usize {
        let n = self.basis.generators();
        n * n.saturating_sub(1) / 2
    }

    pub(super) fn rotors(&self) -> &[[SpinRotor<T>; 2]] {
        if let Some(rotors) = self.derived.get() {
            return rotors;
        }
        // Outside the lock: a waiting thread may be given work that takes the same lock.
        let count = self.coefficients();
        let mut sides = parallel::map((0..2 * self.pairs()).collect(), |_, k| {
            let side = if k % 2 == 0 { Side::Left } else { Side::Right };
            let all = if side == Side::Left || self.spec.single { &self.left } else { &self.right };
            self.basis.rotor(&all[k / 2 * count..][..count], side)
        })
        .into_iter();
        let pairs = std::iter::from_fn(|| Some([sides.next()?, sides.next()?])).collect();
        self.derived.get_or_init(|| pairs)
    }

    /// Writes `dx` and returns the sums for the parameter gradients of these rows.
    fn backward_piece(
        &self,
        x: MatRef<'_, T>,
        dy: MatRef<'_, T>,
        dx: Option<MatMut<'_, T>>,
    ) -> RotorSums<T> {
        let (block, mut sums) = (self.blocks().rows, self.sums());
        let mut d_blocks = dx.map(|dx| dx.row_blocks(block)).unwrap_or_default().into_iter();
        for start in (0..x.rows()).step_by(block) {
            let rows = block.min(x.rows() - start);
            let width = RowBlocks::width(rows);
            let inputs = self.inputs(&columns_of(x.rows_range(start, rows), width), width);
            let mut d_columns = columns_of(dy.rows_range(start, rows), width);
            let Some(mut dx) = d_blocks.next() else {
                self.pull_back(&inputs, &mut d_columns, width, None, &mut sums);
                continue;
            };
            let mut d_inputs = Scratch::new(inputs.len());
            let target = Some(InputGradient { sheets: &mut d_inputs[..], write: Write::Set });
            self.pull_back(&inputs, &mut d_columns, width, target, &mut sums);
            let mut columns = Scratch::new(self.inp.features * width);
            self.recover_inputs(&mut d_inputs, width, &mut columns);
            from_columns(&columns, width, &mut dx);
        }
        sums
    }

    fn param_shapes(&self) -> [Vec<usize>; 2] {
        [vec![self.pairs(), self.coefficients()], vec![self.pairs()]]
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
        self.macs_of_inputs() + self.macs_of_sheets()
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
        let block = self.blocks().rows;
        self.rotors();
        row_pieces::forward(block, x, y, |x, mut y| {
            let width = RowBlocks::width(y.rows());
            // Memory is released as soon as it has been read: wide rotors need the cache.
            let columns = columns_of(x, width);
            let inputs = self.inputs(&columns, width);
            drop(columns);
            let outputs = self.outputs(&inputs, width);
            drop(inputs);
            let mut columns = Scratch::new(self.out.features * width);
            self.write(outputs, width, &mut columns);
            from_columns(&columns, width, &mut y);
        });
    }

    fn backward(&self, args: Backward<'_, '_, T>, _ws: &mut Workspace<T>) {
        let Backward { x, dy, dx, grads, .. } = args;
        assert_eq!((x.rows(), x.cols()), (dy.rows(), self.inp.features), "input of a rotor");
        assert_eq!(dy.cols(), self.out.features, "output of a rotor");
        self.rotors();
        let piece = self.blocks().rows_of_piece(x.rows());
        let work = |rows: Range<usize>, dx: Option<MatMut<'_, T>>| {
            let [x, dy] = [x, dy].map(|all| all.rows_range(rows.start, rows.len()));
            self.backward_piece(x, dy, dx)
        };
        let (rows, numbers) = (x.rows(), self.numbers_of_sums());
        let sums = row_pieces::sum_of_pieces(piece, rows, dx, numbers, work, RotorSums::add);
        if let (Some(sums), Some(grads)) = (sums, grads) {
            self.add_grads(&sums, grads);
        }
    }

    fn invertible(&self) -> Option<&dyn Invertible<T>> {
        let whole = self.pairs() == 1 && self.inp.features == self.out.features;
        whole.then_some(self as _)
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl<T: Scalar> LinearOp<T> for Rotor<T> {}

impl<T: Scalar> Invertible<T> for Rotor<T> {
    /// `reverse(r) y s / α`.
    fn inverse(
        &self,
        y: MatRef<'_, T>,
        x: MatMut<'_, T>,
        _ws: &mut Workspace<T>,
    ) -> Result<(), OpError> {
        assert_eq!((y.rows(), y.cols()), (x.rows(), self.out.features), "output of a rotor");
        assert_eq!(x.cols(), self.inp.features, "input of a rotor");
        self.log_abs_det()?;
        let block = self.blocks().rows;
        row_pieces::forward(block, y, x, |y, mut x| {
            let width = RowBlocks::width(x.rows());
            let y = columns_of(y, width);
            let mut columns = Scratch::new(self.inp.features * width);
            self.undo(&y, width, &mut columns);
            from_columns(&columns, width, &mut x);
        });
        Ok(())
    }

    /// The gradient of α alone: rotors preserve norms.
    fn log_abs_det(&self) -> Result<LogDet, OpError> {
        let (alpha, features) = (self.alpha[0].to_f64(), self.inp.features);
        if alpha == 0.0 || !alpha.is_finite() {
            let kind = <Self as Structured<T>>::KIND;
            return Err(OpError::Singular { kind, part: "alpha".into(), index: 0, value: alpha });
        }
        let sign = if features.is_multiple_of(2) { 1.0 } else { alpha.signum() };
        Ok(LogDet { log_abs: features as f64 * alpha.abs().ln(), sign })
    }
}

impl KindOptions for RotorSpec {
    const EXPORTED: bool = false;
    const COUNTS_INDICES: bool = false;

    fn standard() -> Self {
        Self::default()
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        let chunks = divisors::powers_of_two(shape.out.min(shape.inp));
        chunks.map(|chunk| Self { chunk: Some(chunk), ..*self }).collect()
    }

    fn shrunk(&self, by: usize) -> Self {
        Self { chunk: self.chunk.map(|chunk| (chunk / by).max(1)), ..*self }
    }
}

impl<T: Scalar> Structured<T> for Rotor<T> {
    type Spec = RotorSpec;
    const KIND: &'static str = "rotor";
    const EQUATION: &'static str = "y = r x reverse(s) on chunks of c = 2^n features";
    const PARAMETERS: &'static str = "pairs (n (n - 1) + 1); single pairs (n (n - 1) / 2 + 1)";
    const MACS: &'static str = "pairs (1 to 4) c^1.5 + c log2 c a chunk";

    fn numbers(spec: &RotorSpec, shape: Shape) -> u64 {
        let n = u64::from(spec.chunk(shape).max(1).ilog2());
        let bivectors = n * n.saturating_sub(1) / if spec.single { 2 } else { 1 };
        <Self as Structured<T>>::parts(spec, shape).saturating_mul(bivectors + 1)
    }

    /// The number of pairs.
    fn parts(spec: &RotorSpec, shape: Shape) -> u64 {
        let chunk = spec.chunk(shape).max(1);
        let [ins, outs] = [shape.inp, shape.out].map(|side| side.div_ceil(chunk) as u64);
        ins.saturating_mul(outs)
    }

    fn random(spec: &RotorSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let refuse = |reason: String| OpError::Unsupported { kind: Self::KIND, shape, reason };
        let least = shape.out.min(shape.inp);
        if least == 0 {
            return Err(refuse("both sides need at least one feature".into()));
        }
        let chunk = spec.chunk(shape);
        if !chunk.is_power_of_two() || chunk > least || chunk > 1 << MAX_GENERATORS {
            return Err(refuse(format!(
                "chunk {chunk} must be a power of two of at most {}",
                least.min(1 << MAX_GENERATORS)
            )));
        }
        let basis = SpinBasis::shared(chunk.ilog2() as usize, spec.order.in_tables());
        let (inp, out) = (Chunks::new(shape.inp, chunk), Chunks::new(shape.out, chunk));
        let (n, pairs) = (basis.generators(), inp.count * out.count);
        let count = pairs * n * n.saturating_sub(1) / 2;
        let scale = match spec.init {
            RotorInit::Normal => 1.0,
            RotorInit::NearIdentity => 0.01,
        };
        let share = |covers: &usize| T::from_f64(1.0 / (covers * inp.count) as f64);
        let shares = (pairs > 1).then(|| out.covers().iter().map(share).collect());
        let draw = |name, count| key.fold(name).stream().normals(count, scale);
        Ok(Self {
            spec: RotorSpec { chunk: Some(chunk), ..*spec },
            inp,
            out,
            basis,
            shares,
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
            (
                RotorSpec { order: RotorOrder::Binary, ..RotorSpec::default() },
                Shape { out: 18, inp: 16 },
            ),
        ]
    }
}
