//! A network of rotors with activations between them, in place of a linear projection.
//!
//! `h_0 = f(rotor(x))`, then `h_l = Σ_b α_lb f(rotor_lb(h_{l-1}))` for each hidden layer, then `y =
//! rotor(h)` or `Σ_b α_b rotor_b(h)`; `f(z)` is a fixed random permutation of the features,
//! LayerNorm without affine (epsilon 1e-5) and an elementwise nonlinearity. One PReLU slope is
//! shared by the whole network. x: (rows, inp), h: (rows, hidden width), y: (rows, out).
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | the rotors', + hidden layers · breadth + 1 (PReLU) | the rotors', + 6 a feature of a branch |
//!
//! Source: arXiv 2507.11688, section 4 and appendix, and its code, where `chunk_size` sets both the
//! hidden width and the chunks of the rotors. Here it is the hidden width only: chunks of a rotor
//! are always the largest power of two that fits both sides. Branch weights are initialised as 1,
//! PReLU as 0.25.
//!
//! ```
//! use linwright_ops::{Map, RotorNetwork, RotorNetworkSpec, Shape, Structured, parameter_count};
//! use linwright_tensor::RngKey;
//!
//! let spec = RotorNetworkSpec { hidden_width: Some(2048), ..RotorNetworkSpec::default() };
//! let shape = Shape { out: 2048, inp: 2048 };
//! let op: RotorNetwork<f32> = RotorNetwork::random(&spec, shape, RngKey::new(0))?;
//! assert_eq!(parameter_count(&op.params()), 895);
//! # Ok::<(), linwright_ops::OpError>(())
//! ```

use super::columns::{RowBlocks, columns_of};
use super::rotor_layer::{LayerSums, RotorLayer};
use super::row_pieces;
use super::{MAX_FEATURES, MAX_NUMBERS, OpSpec, Rotor, RotorInit, RotorSpec};
use crate::{
    Backward, Buffer, BufferMut, Grads, KindOptions, Map, Op, OpError, Param, ParamMut, Shape,
    Structured, Tape, Workspace,
};
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::transpose::from_columns;
use linwright_tensor::{MatMut, MatRef, RngKey, Scalar, parallel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Elementwise nonlinearities of a [`RotorNetwork`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Nonlinearity {
    /// Identity: the map between LayerNorms is then linear.
    None,
    /// `max(z, 0)`.
    Relu,
    /// `z` above zero, a trained slope times `z` below.
    #[default]
    Prelu,
    /// `z Φ(z)`, exactly.
    Gelu,
    /// `z / (1 + exp(-z))`.
    Silu,
    /// `z` above zero, `0.01 z` below.
    #[serde(alias = "leakyrelu")]
    LeakyRelu,
    /// `z` above zero, `exp(z) - 1` below.
    Elu,
}

/// Options of [`RotorNetwork`]; the defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent switches of the paper's network, each an option in recipes"
)]
pub struct RotorNetworkSpec {
    /// Hidden width; the largest power of two up to both sides if absent.
    pub hidden_width: Option<usize>,
    /// Number of hidden layers.
    pub hidden_layers: usize,
    /// Number of parallel branches per hidden layer.
    pub breadth: usize,
    /// The nonlinearity.
    pub nonlinearity: Nonlinearity,
    /// Whether branches are normalised before the nonlinearity.
    pub normalize: bool,
    /// Whether the first and the last layer have a residual connection if the shapes allow it.
    pub residual: bool,
    /// Whether branches permute their features.
    pub permute: bool,
    /// Whether the last layer also has `breadth` weighted branches.
    pub proj_parallel: bool,
    /// Whether rotors are single: s = r.
    pub single_rotor: bool,
    /// Initialisation of bivectors.
    pub init: RotorInit,
}

impl Default for RotorNetworkSpec {
    fn default() -> Self {
        Self {
            hidden_width: None,
            hidden_layers: 2,
            breadth: 3,
            nonlinearity: Nonlinearity::Prelu,
            normalize: true,
            residual: false,
            permute: true,
            proj_parallel: false,
            single_rotor: false,
            init: RotorInit::Normal,
        }
    }
}

impl RotorNetworkSpec {
    fn hidden(&self, shape: Shape) -> usize {
        self.hidden_width.unwrap_or(1 << shape.out.min(shape.inp).max(1).ilog2())
    }

    fn rotor(&self) -> RotorSpec {
        RotorSpec { single: self.single_rotor, init: self.init, ..RotorSpec::default() }
    }

    /// Number of rotors of the first, of all hidden, and of the last layer, with their shapes.
    /// Saturates.
    fn rotors(&self, shape: Shape) -> [(u64, Shape); 3] {
        let (hidden, breadth) = (self.hidden(shape), self.breadth as u64);
        let last = if self.proj_parallel { breadth } else { 1 };
        [
            (1, Shape { out: hidden, inp: shape.inp }),
            (breadth.saturating_mul(self.hidden_layers as u64), Shape { out: hidden, inp: hidden }),
            (last, Shape { out: shape.out, inp: hidden }),
        ]
    }
}

/// A network of rotors with activations between them.
#[derive(Clone, Debug)]
pub struct RotorNetwork<T> {
    spec: RotorNetworkSpec,
    shape: Shape,
    layers: Vec<RotorLayer<T>>,
    /// The shared slope of PReLU: one number, or none.
    prelu: Vec<T>,
}

impl<T: Scalar> RotorNetwork<T> {
    fn activation(&self) -> Activation<T> {
        match self.spec.nonlinearity {
            Nonlinearity::None => Activation::Identity,
            Nonlinearity::Relu => Activation::Relu,
            Nonlinearity::Prelu => Activation::Leaky { slope: self.prelu[0] },
            Nonlinearity::Gelu => Activation::Gelu,
            Nonlinearity::Silu => Activation::Silu,
            Nonlinearity::LeakyRelu => Activation::Leaky { slope: T::from_f64(0.01) },
            Nonlinearity::Elu => Activation::Elu,
        }
    }

    /// Names of weighted layers: `block0` for the first.
    fn alpha_names(layers: &[RotorLayer<T>]) -> Vec<String> {
        let weighted = layers.iter().filter(|layer| layer.alphas.is_some()).count();
        (0..weighted).map(|k| format!("block{k}.alphas")).collect()
    }

    /// Number of vectors that fit in the cache together.
    fn blocks(&self) -> RowBlocks {
        let dimension = |layer: &RotorLayer<T>| layer.branches[0].rotor.basis.dimension();
        RowBlocks::new(self.layers.iter().map(dimension).max().unwrap_or(1), 1)
    }

    /// Numbers per row on the tape.
    fn saved(&self) -> usize {
        self.layers.iter().map(RotorLayer::saved).sum()
    }

    /// Computes all rotors from their bivectors, in parallel.
    fn build_rotors(&self) {
        let branches = self.layers.iter().flat_map(|layer| &layer.branches);
        parallel::for_each(branches.collect(), |_, branch| {
            branch.rotor.rotors();
        });
    }

    fn forward_block(&self, x: MatRef<'_, T>, mut y: MatMut<'_, T>, mut saved: Option<&mut [T]>) {
        let (activation, width) = (self.activation(), RowBlocks::width(x.rows()));
        let mut here = columns_of(x, width);
        for layer in &self.layers {
            let mut of_layer = None;
            if let Some(rest) = saved.take() {
                let (head, rest) = rest.split_at_mut(layer.saved() * width);
                (of_layer, saved) = (Some(head), Some(rest));
            }
            here = layer.forward(activation, &here, width, of_layer);
        }
        from_columns(&here, width, &mut y);
    }

    /// Writes `dx` and returns the sums for the parameter gradients of these rows; `saved` holds
    /// the saved results of each block.
    fn backward_piece<'t>(
        &self,
        dy: MatRef<'_, T>,
        dx: Option<MatMut<'_, T>>,
        saved: impl Fn(usize) -> &'t [T],
    ) -> Vec<LayerSums<T>> {
        let (activation, block) = (self.activation(), self.blocks().rows);
        let mut sums: Vec<LayerSums<T>> = self.layers.iter().map(RotorLayer::sums).collect();
        let mut d_blocks = dx.map(|dx| dx.row_blocks(block)).unwrap_or_default().into_iter();
        for (k, start) in (0..dy.rows()).step_by(block).enumerate() {
            let rows = block.min(dy.rows() - start);
            let width = RowBlocks::width(rows);
            let mut end = self.saved() * width;
            let mut d_here = columns_of(dy.rows_range(start, rows), width);
            for (layer, sums) in self.layers.iter().zip(&mut sums).rev() {
                let first = end - layer.saved() * width;
                let of_layer = &saved(k)[first..end];
                d_here = layer.backward(activation, of_layer, &d_here, width, sums);
                end = first;
            }
            if let Some(mut dx) = d_blocks.next() {
                from_columns(&d_here, width, &mut dx);
            }
        }
        sums
    }

    /// Adds the parameter gradients in order: rotors, weights of layers, PReLU.
    fn add_grads(&self, sums: &[LayerSums<T>], grads: &mut Grads<T>) {
        let layers = || self.layers.iter().zip(sums);
        let branches = layers().flat_map(|(layer, sums)| layer.branches.iter().zip(&sums.rotors));
        let of_rotors: Vec<(Grads<T>, _)> = branches
            .map(|(branch, sums)| (grads.take(branch.rotor.params().len()), (branch, sums)))
            .collect();
        let of_rotors = parallel::map(of_rotors, |_, (mut grads, (branch, sums))| {
            branch.rotor.add_grads(sums, &mut grads);
            grads
        });
        let weighted = layers().filter(|(layer, _)| layer.alphas.is_some());
        for (index, (_, sums)) in weighted.enumerate() {
            let pairs = grads.get_mut(index).iter_mut().zip(&sums.alphas);
            pairs.for_each(|(grad, &sum)| *grad += T::from_f64(sum));
        }
        if !self.prelu.is_empty() {
            let slope: f64 = sums.iter().map(|sums| sums.slope).sum();
            let last = grads.len() - 1;
            grads.get_mut(last)[0] += T::from_f64(slope);
        }
        let rest = grads.take(grads.len());
        of_rotors.into_iter().for_each(|of_rotor| grads.append(of_rotor));
        grads.append(rest);
    }

    fn refuse(shape: Shape, reason: String) -> OpError {
        OpError::Unsupported { kind: <Self as Structured<T>>::KIND, shape, reason }
    }

    /// Shapes of the layers.
    fn layer_shapes(spec: &RotorNetworkSpec, shape: Shape, hidden: usize) -> Vec<Shape> {
        let mut shapes = vec![Shape { out: hidden, inp: shape.inp }];
        shapes.extend(vec![Shape { out: hidden, inp: hidden }; spec.hidden_layers]);
        shapes.push(Shape { out: shape.out, inp: hidden });
        shapes
    }
}

impl<T: Scalar> Map<T> for RotorNetwork<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::RotorNetwork(self.spec)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn macs_per_row(&self) -> u64 {
        self.layers.iter().map(RotorLayer::macs_per_row).sum()
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let rotors = self.layers.iter().flat_map(|layer| &layer.branches);
        let mut params = Vec::new();
        for (k, branch) in rotors.enumerate() {
            let named = |p: Param<'_, T>| format!("rotor{k}.{}", p.name);
            let rotor = branch.rotor.params().into_iter();
            params.extend(rotor.map(|p| Param { name: named(p.clone()), ..p }));
        }
        let names = Self::alpha_names(&self.layers);
        let alphas = self.layers.iter().filter_map(|layer| layer.alphas.as_ref());
        params.extend(names.into_iter().zip(alphas).map(|(name, values)| Param {
            name,
            shape: vec![values.len()],
            values,
        }));
        if !self.prelu.is_empty() {
            params.push(Param { name: "prelu".into(), shape: vec![1], values: &self.prelu });
        }
        params
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        let names = Self::alpha_names(&self.layers);
        let (mut params, mut alphas) = (Vec::new(), Vec::new());
        let mut count = 0;
        for layer in &mut self.layers {
            for branch in &mut layer.branches {
                let rotor = branch.rotor.params_mut().into_iter();
                params.extend(rotor.map(|p| {
                    let name = format!("rotor{count}.{}", p.name);
                    ParamMut { name, ..p }
                }));
                count += 1;
            }
            alphas.extend(layer.alphas.as_mut());
        }
        params.extend(names.into_iter().zip(alphas).map(|(name, values)| ParamMut {
            name,
            shape: vec![values.len()],
            values,
        }));
        if !self.prelu.is_empty() {
            params.push(ParamMut { name: "prelu".into(), shape: vec![1], values: &mut self.prelu });
        }
        params
    }

    fn buffers(&self) -> Vec<Buffer<'_>> {
        let branches = self.layers.iter().flat_map(|layer| &layer.branches);
        let orders = branches.filter_map(|branch| branch.order.as_ref());
        let buffer = |(k, values)| Buffer { name: format!("perm{k}"), values };
        orders.map(Vec::as_slice).enumerate().map(buffer).collect()
    }

    fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        let branches = self.layers.iter_mut().flat_map(|layer| &mut layer.branches);
        let orders = branches.filter_map(|branch| branch.order.as_mut());
        let buffer = |(k, values)| BufferMut { name: format!("perm{k}"), values };
        orders.map(Vec::as_mut_slice).enumerate().map(buffer).collect()
    }

    fn check(&self) -> Result<(), OpError> {
        for Buffer { name, values } in self.buffers() {
            let mut seen = vec![false; values.len()];
            for &index in values {
                let free = seen.get_mut(index as usize).filter(|seen| !**seen);
                *free.ok_or_else(|| OpError::InvalidValues {
                    kind: <Self as Structured<T>>::KIND,
                    name: name.clone(),
                    reason: format!(
                        "is not a permutation of 0..{}: index {index} is repeated or too large",
                        values.len()
                    ),
                })? = true;
            }
        }
        Ok(())
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        assert_eq!((x.rows(), x.cols()), (y.rows(), self.shape.inp), "input of a rotor network");
        assert_eq!(y.cols(), self.shape.out, "output of a rotor network");
        self.build_rotors();
        let block = self.blocks().rows;
        let len = self.saved() * RowBlocks::width(block);
        row_pieces::forward_and_keep(block, x, y, tape, len, |x, y, saved| {
            self.forward_block(x, y, saved);
        });
    }

    fn backward(&self, args: Backward<'_, '_, T>, _ws: &mut Workspace<T>) {
        let Backward { x, dy, tape, dx, grads } = args;
        assert_eq!((x.rows(), x.cols()), (dy.rows(), self.shape.inp), "input of a rotor network");
        assert_eq!(dy.cols(), self.shape.out, "output of a rotor network");
        let (blocks, rows) = (self.blocks(), dy.rows());
        let piece = blocks.rows_of_piece(rows);
        let work = |rows: Range<usize>, dx: Option<MatMut<'_, T>>| {
            let saved = |block: usize| tape.saved(0).row(rows.start / blocks.rows + block);
            self.backward_piece(dy.rows_range(rows.start, rows.len()), dx, saved)
        };
        let add = |sums: &mut Vec<LayerSums<T>>, next: &Vec<LayerSums<T>>| {
            sums.iter_mut().zip(next).for_each(|(sums, next)| sums.add(next));
        };
        let rotors = self.layers.iter().flat_map(|layer| &layer.branches);
        let numbers = rotors.map(|branch| branch.rotor.numbers_of_sums()).sum();
        let sums = row_pieces::sum_of_pieces(piece, rows, dx, numbers, work, add);
        if let (Some(sums), Some(grads)) = (sums, grads) {
            self.add_grads(&sums, grads);
        }
    }

    fn clone_op(&self) -> Op<T> {
        Op::Map(Box::new(self.clone()))
    }
}

/// Largest number of hidden layers of a size, and of branches of each: more are slow to fit and
/// gain little.
const MOST_LAYERS: usize = 4;
const MOST_BRANCHES: usize = 8;

impl KindOptions for RotorNetworkSpec {
    const EXPORTED: bool = false;
    const COUNTS_INDICES: bool = true;

    fn standard() -> Self {
        Self::default()
    }

    fn sizes(&self, _shape: Shape) -> Vec<Self> {
        let of_layers = |hidden_layers| {
            (1..=MOST_BRANCHES).map(move |breadth| Self { hidden_layers, breadth, ..*self })
        };
        (1..=MOST_LAYERS).flat_map(of_layers).collect()
    }

    fn shrunk(&self, by: usize) -> Self {
        Self { hidden_width: self.hidden_width.map(|width| (width / by).max(1)), ..*self }
    }
}

impl<T: Scalar> Structured<T> for RotorNetwork<T> {
    type Spec = RotorNetworkSpec;
    const KIND: &'static str = "rotor_network";
    const EQUATION: &'static str = "y = rotor(h), h_l = sum_b a_lb f(rotor_lb(h_(l-1)))";
    const PARAMETERS: &'static str = "those of the rotors + layers breadth + 1";
    const MACS: &'static str = "those of the rotors + 6 a feature and branch";

    fn numbers(spec: &RotorNetworkSpec, shape: Shape) -> u64 {
        let order = if spec.permute { spec.hidden(shape) as u64 } else { 0 };
        let weight_of_last = u64::from(spec.proj_parallel);
        let beside = [order, order.saturating_add(1), weight_of_last];
        let prelu = u64::from(spec.nonlinearity == Nonlinearity::Prelu);
        let layers = spec.rotors(shape).into_iter().zip(beside);
        layers.fold(prelu, |all, ((count, shape), beside)| {
            let rotor = <Rotor<T> as Structured<T>>::numbers(&spec.rotor(), shape);
            all.saturating_add(count.saturating_mul(rotor.saturating_add(beside)))
        })
    }

    /// Total of all rotors.
    fn parts(spec: &RotorNetworkSpec, shape: Shape) -> u64 {
        spec.rotors(shape).into_iter().fold(0, |all, (count, shape)| {
            let rotor = <Rotor<T> as Structured<T>>::parts(&spec.rotor(), shape);
            all.saturating_add(count.saturating_mul(rotor))
        })
    }

    fn random(spec: &RotorNetworkSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let least = shape.out.min(shape.inp);
        if least == 0 {
            return Err(Self::refuse(shape, "both sides need at least one feature".into()));
        }
        if spec.breadth == 0 {
            return Err(Self::refuse(shape, "breadth must be at least 1".into()));
        }
        let hidden = spec.hidden(shape);
        if hidden == 0 {
            return Err(Self::refuse(shape, "hidden_width must be at least 1".into()));
        }
        let rotors =
            spec.rotors(shape).into_iter().fold(0_u64, |all, (n, _)| all.saturating_add(n));
        // Rotors of several pairs also store a factor per feature, which is not in any file.
        if hidden > MAX_FEATURES || rotors.saturating_mul(hidden as u64) > MAX_NUMBERS {
            let reason = format!(
                "{rotors} rotors of {hidden} hidden features; at most {MAX_FEATURES} features and \
                 {MAX_NUMBERS} in all rotors are possible, ask for fewer"
            );
            return Err(Self::refuse(shape, reason));
        }
        let shapes = Self::layer_shapes(spec, shape, hidden);
        let (last, mut rotors) = (shapes.len() - 1, 0);
        let mut layers = Vec::new();
        for (k, &layer_shape) in shapes.iter().enumerate() {
            let weighted = if k == last { spec.proj_parallel } else { k > 0 };
            let mut layer = RotorLayer::empty(layer_shape, k != last && spec.normalize, k != last);
            layer.residual = spec.residual && !weighted && layer_shape.inp == layer_shape.out;
            for _ in 0..if weighted { spec.breadth } else { 1 } {
                let key = key.fold("rotor").fold_index(rotors);
                let rotor = Rotor::random(&spec.rotor(), layer_shape, key)?;
                let permuted = k != last && spec.permute;
                let order = permuted.then(|| key.fold("permutation").stream().permutation(hidden));
                layer.push(rotor, order);
                rotors += 1;
            }
            layer.alphas = weighted.then(|| vec![T::ONE; spec.breadth]);
            layers.push(layer);
        }
        let prelu = usize::from(spec.nonlinearity == Nonlinearity::Prelu);
        Ok(Self {
            spec: RotorNetworkSpec { hidden_width: Some(hidden), ..*spec },
            shape,
            layers,
            prelu: vec![T::from_f64(0.25); prelu],
        })
    }

    fn examples() -> Vec<(RotorNetworkSpec, Shape)> {
        let paper = RotorNetworkSpec::default();
        let with = |nonlinearity| RotorNetworkSpec { nonlinearity, ..paper };
        vec![
            (paper, Shape { out: 16, inp: 24 }),
            (
                RotorNetworkSpec {
                    residual: true,
                    proj_parallel: true,
                    permute: false,
                    breadth: 2,
                    ..with(Nonlinearity::Gelu)
                },
                Shape { out: 8, inp: 8 },
            ),
            (
                RotorNetworkSpec {
                    normalize: false,
                    single_rotor: true,
                    hidden_layers: 1,
                    hidden_width: Some(8),
                    init: RotorInit::NearIdentity,
                    ..with(Nonlinearity::Silu)
                },
                Shape { out: 7, inp: 12 },
            ),
            (
                RotorNetworkSpec { hidden_layers: 0, residual: true, ..with(Nonlinearity::Elu) },
                Shape { out: 8, inp: 8 },
            ),
            (with(Nonlinearity::None), Shape { out: 5, inp: 9 }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{self, Tensor};
    use crate::parameter_count;

    #[test]
    fn parameters_are_the_papers() {
        let spec = RotorNetworkSpec { hidden_width: Some(2048), ..RotorNetworkSpec::default() };
        for (out, count) in [(2048, 895), (512, 1_076)] {
            let shape = Shape { out, inp: 2048 };
            let net = RotorNetwork::<f32>::random(&spec, shape, RngKey::new(0)).unwrap();
            assert_eq!(parameter_count(&net.params()), count);
        }
    }

    #[test]
    fn what_is_no_permutation_is_refused_on_load() {
        let (spec, shape) = (RotorNetworkSpec::default(), Shape { out: 8, inp: 8 });
        let op = OpSpec::RotorNetwork(spec).random::<f64>(shape, RngKey::new(0)).unwrap();
        for bad in [8, 0] {
            let (header, mut tensors) = archive::save(&op).unwrap();
            let order = vec![0, 1, 2, 3, 4, 5, 6, bad];
            tensors.insert("perm3".into(), Tensor::Indices(order));
            let error = archive::load(&header, tensors).unwrap_err().to_string();
            assert!(error.contains("perm3 is not a permutation of 0..8"), "{error}");
        }
    }
}
