//! Reference networks with explicit gradients, in double precision.
//!
//! ```text
//! LN(z) = ρ (z - mean) / √(|z - mean|² + 1e-12)
//! RN1   h ← LN(h + relu(W h + b))
//! RN2   h ← LN(h + W2 relu(W1 h + b1) + b2)
//! T11   h ← LN(h + A h Vᵀ), A = softmax(h Qᵀ (h Kᵀ)ᵀ / √d); h ← LN(h + relu(W h + b))
//! T12   as T11, with the second half of RN2;  T22 also with an output map: A h Vᵀ Oᵀ
//! ```
//!
//! `h = LN(x)` first, L - 1 blocks, then logits `head · h` without bias; for transformers h is the
//! last token. With [`Norming::Before`], `h = x` first, `h ← h + f(LN h)` and one LN before the
//! head. Parameters are in one vector, block by block, in the order of the formulas; the head is
//! last.
//!
//! Cost of a pass: `2 rows d²` multiply-adds for each map forward, twice that backward.

use crate::CollapseError;
use crate::optimum::{Fit, fit_of_row, layer_norm_back};
use linwright_ops::Shape;
use linwright_tensor::kernels::gemm::{Arg, Write, linear, product};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Epsilon of a LayerNorm.
const EPSILON: f64 = 1e-12;

/// Families of networks, named after the maps of their blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// ResNet, one map for each block.
    #[default]
    Rn1,
    /// ResNet, two maps.
    Rn2,
    /// Transformer, one map in attention, one in the MLP.
    T11,
    /// Transformer, one map in attention, two in the MLP.
    T12,
    /// Transformer, two maps in both.
    T22,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Rn1, Self::Rn2, Self::T11, Self::T12, Self::T22];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rn1 => "rn1",
            Self::Rn2 => "rn2",
            Self::T11 => "t11",
            Self::T12 => "t12",
            Self::T22 => "t22",
        }
    }

    /// Whether it reads sequences.
    #[must_use]
    pub fn is_transformer(self) -> bool {
        matches!(self, Self::T11 | Self::T12 | Self::T22)
    }

    /// Whether a block has two maps in a row, so that its cost does not fall with depth.
    #[must_use]
    pub fn has_two_maps(self) -> bool {
        matches!(self, Self::Rn2 | Self::T12 | Self::T22)
    }
}

/// Position of the LayerNorm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norming {
    /// After the residual sum.
    #[default]
    After,
    /// Before each map, and once before the head.
    Before,
}

impl Norming {
    /// Both.
    pub const ALL: [Self; 2] = [Self::After, Self::Before];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::After => "after",
            Self::Before => "before",
        }
    }
}

/// Sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RefNetSpec {
    /// Family.
    pub architecture: Architecture,
    /// L: blocks, and the head.
    pub depth: usize,
    /// d.
    pub width: usize,
    /// Width between two maps.
    pub hidden: usize,
    /// K.
    pub classes: usize,
    /// Tokens of a sequence; 1 for a ResNet.
    pub tokens: usize,
    /// Position of the LayerNorm.
    pub norming: Norming,
    /// ρ, the length of normalised features.
    pub norm: f64,
}

/// Strengths of the penalty: `strength/2` times the sum of squares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Penalty {
    /// For all parameters but the head.
    pub blocks: f64,
    /// Of the head.
    pub head: f64,
    /// Whether biases are penalised, too.
    pub biases: bool,
}

/// Parts of the objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Objective {
    /// Loss on the labels.
    pub fit: f64,
    /// Penalty of all but the head.
    pub blocks: f64,
    /// Penalty of the head.
    pub head: f64,
}

impl Objective {
    /// Their sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.fit + self.blocks + self.head
    }
}

/// A map or bias among the parameters.
#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    rows: usize,
    /// 1 of biases.
    cols: usize,
    is_bias: bool,
    span: Range<usize>,
}

/// Half a block: positions of its tensors.
#[derive(Clone, Copy, Debug)]
enum Half {
    /// `A h Vᵀ`, then `Oᵀ`.
    Attention { q: usize, k: usize, v: usize, o: Option<usize> },
    /// `relu(W h + b)`
    One { w: usize, b: usize },
    /// `W2 relu(W1 h + b1) + b2`
    Two { w1: usize, b1: usize, w2: usize, b2: usize },
}

/// A network: only shapes; parameters are arguments.
#[derive(Clone, Debug)]
pub struct RefNet {
    spec: RefNetSpec,
    tensors: Vec<Tensor>,
    halves: Vec<Half>,
    numbers: usize,
}

/// Data of half a block for the backward pass.
struct Kept {
    /// What it read.
    inp: Mat<f64>,
    /// Before the LayerNorm: the sum, or h.
    before: Mat<f64>,
    /// Attention: queries, keys, values, weights, mixed; others: the output of the relu.
    inner: Vec<Mat<f64>>,
}

/// Output of a pass.
pub struct RefPass {
    /// (examples, classes)
    pub logits: Mat<f64>,
    /// Input of the head, (examples, d).
    pub features: Mat<f64>,
    /// The last token after each block, (examples, d).
    pub layers: Vec<Mat<f64>>,
    kept: Vec<Kept>,
    /// h before the last LayerNorm, if LayerNorms come before maps.
    last: Option<Mat<f64>>,
}

impl RefNet {
    /// Lays out the parameters.
    ///
    /// # Errors
    /// [`CollapseError::Setting`] for sizes of zero.
    pub fn new(spec: RefNetSpec) -> Result<Self, CollapseError> {
        let sizes = [spec.depth, spec.width, spec.hidden, spec.tokens];
        if sizes.contains(&0) || spec.classes < 2 || spec.width < 2 {
            return Err(CollapseError::Setting {
                what: "a size of the network",
                found: format!(
                    "depth {}, width {}, hidden {}, classes {}, tokens {}",
                    spec.depth, spec.width, spec.hidden, spec.classes, spec.tokens
                ),
                expected: "1 or more, and two features and classes".into(),
            });
        }
        let mut net = Self { spec, tensors: Vec::new(), halves: Vec::new(), numbers: 0 };
        let (d, hidden) = (spec.width, spec.hidden);
        let square = Shape { out: d, inp: d };
        for block in 0..spec.depth - 1 {
            if spec.architecture.is_transformer() {
                let [q, k, v] = ["Q", "K", "V"].map(|name| net.map(block, name, square));
                let has_output = spec.architecture == Architecture::T22;
                let o = has_output.then(|| net.map(block, "O", square));
                net.halves.push(Half::Attention { q, k, v, o });
            }
            let half = if spec.architecture.has_two_maps() {
                let w1 = net.map(block, "W1", Shape { out: hidden, inp: d });
                let b1 = net.bias(block, "b1", hidden);
                let w2 = net.map(block, "W2", Shape { out: d, inp: hidden });
                Half::Two { w1, b1, w2, b2: net.bias(block, "b2", d) }
            } else {
                let w = net.map(block, "W", square);
                Half::One { w, b: net.bias(block, "b", d) }
            };
            net.halves.push(half);
        }
        net.add("head".into(), Shape { out: spec.classes, inp: d }, false);
        Ok(net)
    }

    fn map(&mut self, block: usize, name: &str, shape: Shape) -> usize {
        self.add(format!("{block}.{name}"), shape, false)
    }

    fn bias(&mut self, block: usize, name: &str, count: usize) -> usize {
        self.add(format!("{block}.{name}"), Shape { out: count, inp: 1 }, true)
    }

    fn add(&mut self, name: String, shape: Shape, is_bias: bool) -> usize {
        let Shape { out: rows, inp: cols } = shape;
        let span = self.numbers..self.numbers + rows * cols;
        self.numbers = span.end;
        self.tensors.push(Tensor { name, rows, cols, is_bias, span });
        self.tensors.len() - 1
    }

    /// Its sizes.
    #[must_use]
    pub fn spec(&self) -> &RefNetSpec {
        &self.spec
    }

    /// Number of parameters.
    #[must_use]
    pub fn numbers(&self) -> usize {
        self.numbers
    }

    /// Name and position of each tensor, such as `0.W` or `head`.
    pub fn layout(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.span.clone()))
    }

    /// The head (classes, d).
    #[must_use]
    pub fn head<'a>(&self, parameters: &'a [f64]) -> MatRef<'a, f64> {
        self.tensor(parameters, self.tensors.len() - 1)
    }

    /// Random parameters: maps of variance 1/d, divided by √L in blocks with one map and each by
    /// L^(1/4) in blocks with two; biases zero; queries and keys undivided.
    #[must_use]
    pub fn random(&self, key: RngKey) -> Vec<f64> {
        let depth = self.spec.depth as f64;
        let mut all = vec![0.0; self.numbers];
        for tensor in self.tensors.iter().filter(|tensor| !tensor.is_bias) {
            let name = tensor.name.rsplit('.').next().unwrap_or_default();
            let paired = match name {
                "W1" | "W2" | "O" => true,
                "V" => self.spec.architecture == Architecture::T22,
                _ => false,
            };
            let divisor = match name {
                "head" | "Q" | "K" => 1.0,
                _ if paired => depth.powf(0.25),
                _ => depth.sqrt(),
            };
            let scale = (tensor.cols as f64).sqrt().recip() / divisor;
            let numbers = key.fold(&tensor.name).stream().normals(tensor.span.len(), scale);
            all[tensor.span.clone()].copy_from_slice(&numbers);
        }
        all
    }

    fn tensor<'a>(&self, parameters: &'a [f64], index: usize) -> MatRef<'a, f64> {
        let tensor = &self.tensors[index];
        MatRef::new(&parameters[tensor.span.clone()], tensor.rows, tensor.cols)
    }

    fn numbers_of<'a>(&self, parameters: &'a [f64], index: usize) -> &'a [f64] {
        &parameters[self.tensors[index].span.clone()]
    }

    /// Runs the network on rows (examples * tokens, d).
    ///
    /// # Panics
    /// If the shapes of rows or parameters do not match.
    #[must_use]
    #[track_caller]
    pub fn forward(&self, parameters: &[f64], x: MatRef<'_, f64>) -> RefPass {
        let RefNetSpec { width, tokens, norm, norming, .. } = self.spec;
        assert_eq!((x.cols(), x.rows() % tokens), (width, 0), "rows of whole sequences");
        assert_eq!(parameters.len(), self.numbers, "parameters of the network");
        let mut h = match norming {
            Norming::After => layer_norm(norm, &x.to_mat()),
            Norming::Before => x.to_mat(),
        };
        let (mut kept, mut layers) = (Vec::new(), Vec::new());
        let each = self.halves.len() / (self.spec.depth - 1).max(1);
        for (index, half) in self.halves.iter().enumerate() {
            let inp = match norming {
                Norming::After => h.clone(),
                Norming::Before => layer_norm(norm, &h),
            };
            let (f, inner) = self.half(parameters, *half, &inp);
            let mut sum = h.clone();
            sum.data_mut().iter_mut().zip(f.data()).for_each(|(sum, f)| *sum += f);
            let before = match norming {
                Norming::After => {
                    h = layer_norm(norm, &sum);
                    sum
                }
                Norming::Before => std::mem::replace(&mut h, sum),
            };
            kept.push(Kept { inp, before, inner });
            if (index + 1) % each == 0 {
                layers.push(self.last_tokens(&h));
            }
        }
        let last = (norming == Norming::Before).then(|| {
            let normed = layer_norm(norm, &h);
            std::mem::replace(&mut h, normed)
        });
        let features = self.last_tokens(&h);
        let mut logits = Mat::zeros(features.rows(), self.spec.classes);
        linear(features.view(), self.head(parameters), logits.view_mut(), Write::Set);
        RefPass { logits, features, layers, kept, last }
    }

    fn last_tokens(&self, h: &Mat<f64>) -> Mat<f64> {
        let tokens = self.spec.tokens;
        Mat::from_fn(h.rows() / tokens, h.cols(), |i, j| h.at((i + 1) * tokens - 1, j))
    }

    fn half(&self, p: &[f64], half: Half, x: &Mat<f64>) -> (Mat<f64>, Vec<Mat<f64>>) {
        let mapped = |index: usize, x: &Mat<f64>| {
            let w = self.tensor(p, index);
            let mut y = Mat::zeros(x.rows(), w.rows());
            linear(x.view(), w, y.view_mut(), Write::Set);
            y
        };
        let biased = |index: usize, mut y: Mat<f64>| {
            let bias = self.numbers_of(p, index);
            for i in 0..y.rows() {
                y.row_mut(i).iter_mut().zip(bias).for_each(|(y, b)| *y += b);
            }
            y
        };
        match half {
            Half::One { w, b } => {
                let y = relu(biased(b, mapped(w, x)));
                (y.clone(), vec![y])
            }
            Half::Two { w1, b1, w2, b2 } => {
                let inner = relu(biased(b1, mapped(w1, x)));
                (biased(b2, mapped(w2, &inner)), vec![inner])
            }
            Half::Attention { q, k, v, o } => {
                let [q, k, v] = [q, k, v].map(|index| mapped(index, x));
                let (tokens, d) = (self.spec.tokens, self.spec.width);
                let scale = (d as f64).sqrt().recip();
                let mut weights = Mat::zeros(x.rows(), tokens);
                let mut mixed = Mat::zeros(x.rows(), d);
                for start in (0..x.rows()).step_by(tokens) {
                    let rows = |a: &Mat<f64>| a.view().rows_range(start, tokens).to_mat();
                    let (q, k, v) = (rows(&q), rows(&k), rows(&v));
                    let mut own = weights.view_mut().rows_range(start, tokens);
                    let keys = Arg::Transposed(k.view());
                    product(scale, q.view().into(), keys, own.reborrow(), Write::Set);
                    (0..tokens).for_each(|i| softmax(own.row_mut(i)));
                    let into = mixed.view_mut().rows_range(start, tokens);
                    product(1.0, own.as_ref().into(), v.view().into(), into, Write::Set);
                }
                let y = match o {
                    Some(o) => mapped(o, &mixed),
                    None => mixed.clone(),
                };
                (y, vec![q, k, v, weights, mixed])
            }
        }
    }

    /// Objective on rows with their labels, whose gradient is added to `gradient`.
    ///
    /// # Panics
    /// Unless there is one label for each example.
    #[track_caller]
    pub fn objective(
        &self,
        parameters: &[f64],
        (x, labels): (MatRef<'_, f64>, &[u32]),
        (fit, penalty): (Fit, Penalty),
        gradient: &mut [f64],
    ) -> (Objective, RefPass) {
        let mut pass = self.forward(parameters, x);
        assert_eq!(pass.logits.rows(), labels.len(), "a label for each example");
        let scale = 1.0 / labels.len() as f64;
        let mut d_logits = pass.logits.clone();
        let mut total = 0.0;
        for (i, label) in labels.iter().enumerate() {
            total += fit_of_row(fit, d_logits.row_mut(i), *label as usize);
        }
        d_logits.data_mut().iter_mut().for_each(|d| *d *= scale);
        let (blocks, head) = self.penalise(parameters, penalty, gradient);
        self.backward(parameters, &mut pass, &d_logits, gradient);
        (Objective { fit: total * scale, blocks, head }, pass)
    }

    /// Penalties of blocks and head, whose gradients are added.
    fn penalise(&self, p: &[f64], penalty: Penalty, gradient: &mut [f64]) -> (f64, f64) {
        let (mut blocks, mut head) = (0.0, 0.0);
        for (index, tensor) in self.tensors.iter().enumerate() {
            if tensor.is_bias && !penalty.biases {
                continue;
            }
            let is_head = index + 1 == self.tensors.len();
            let strength = if is_head { penalty.head } else { penalty.blocks };
            let numbers = &p[tensor.span.clone()];
            let own = 0.5 * strength * numbers.iter().map(|x| x * x).sum::<f64>();
            *if is_head { &mut head } else { &mut blocks } += own;
            let pairs = gradient[tensor.span.clone()].iter_mut().zip(numbers);
            pairs.for_each(|(g, x)| *g += strength * x);
        }
        (blocks, head)
    }

    fn backward(&self, p: &[f64], pass: &mut RefPass, d_logits: &Mat<f64>, gradient: &mut [f64]) {
        let RefNetSpec { tokens, norm, norming, width, .. } = self.spec;
        let head = self.tensors.len() - 1;
        self.add_outer(head, d_logits, &pass.features, gradient);
        let mut d_features = Mat::zeros(pass.features.rows(), width);
        product(
            1.0,
            d_logits.view().into(),
            self.head(p).into(),
            d_features.view_mut(),
            Write::Set,
        );
        let mut dh = Mat::zeros(pass.features.rows() * tokens, width);
        for i in 0..d_features.rows() {
            dh.row_mut((i + 1) * tokens - 1).copy_from_slice(d_features.row(i));
        }
        if let Some(last) = &pass.last {
            through_norm(norm, last, &mut dh);
        }
        let mut kept = std::mem::take(&mut pass.kept);
        for half in self.halves.iter().rev() {
            let Some(Kept { inp, before, inner }) = kept.pop() else { return };
            if norming == Norming::After {
                through_norm(norm, &before, &mut dh);
            }
            let mut dx = self.half_back(p, *half, (&inp, &inner), &dh, gradient);
            if norming == Norming::Before {
                through_norm(norm, &before, &mut dx);
            }
            dh.data_mut().iter_mut().zip(dx.data()).for_each(|(dh, dx)| *dh += dx);
        }
    }

    /// Adds `dyᵀ x` to the gradient of a map.
    fn add_outer(&self, index: usize, dy: &Mat<f64>, x: &Mat<f64>, gradient: &mut [f64]) {
        let tensor = &self.tensors[index];
        let own = &mut gradient[tensor.span.clone()];
        let into = MatMut::new(own, tensor.rows, tensor.cols);
        product(1.0, Arg::Transposed(dy.view()), x.view().into(), into, Write::Add);
    }

    fn add_rows(&self, index: usize, dy: &Mat<f64>, gradient: &mut [f64]) {
        let own = &mut gradient[self.tensors[index].span.clone()];
        for i in 0..dy.rows() {
            own.iter_mut().zip(dy.row(i)).for_each(|(g, dy)| *g += dy);
        }
    }

    /// Gradient of the input of half a block.
    fn half_back(
        &self,
        p: &[f64],
        half: Half,
        (x, inner): (&Mat<f64>, &[Mat<f64>]),
        dy: &Mat<f64>,
        gradient: &mut [f64],
    ) -> Mat<f64> {
        let mut dx = Mat::zeros(x.rows(), x.cols());
        let through = |index: usize, dy: &Mat<f64>, dx: &mut Mat<f64>| {
            let w = self.tensor(p, index);
            product(1.0, dy.view().into(), w.into(), dx.view_mut(), Write::Add);
        };
        match half {
            Half::One { w, b } => {
                let du = relu_back(&inner[0], dy.clone());
                self.add_outer(w, &du, x, gradient);
                self.add_rows(b, &du, gradient);
                through(w, &du, &mut dx);
            }
            Half::Two { w1, b1, w2, b2 } => {
                self.add_outer(w2, dy, &inner[0], gradient);
                self.add_rows(b2, dy, gradient);
                let mut du = Mat::zeros(x.rows(), inner[0].cols());
                through(w2, dy, &mut du);
                let du = relu_back(&inner[0], du);
                self.add_outer(w1, &du, x, gradient);
                self.add_rows(b1, &du, gradient);
                through(w1, &du, &mut dx);
            }
            Half::Attention { q, k, v, o } => {
                let [of_q, of_k, of_v, weights, mixed] = inner else { return dx };
                let mut d_mixed = dy.clone();
                if let Some(o) = o {
                    self.add_outer(o, dy, mixed, gradient);
                    d_mixed = Mat::zeros(x.rows(), x.cols());
                    through(o, dy, &mut d_mixed);
                }
                let grads = self.attention_back([of_q, of_k, of_v, weights], &d_mixed);
                for (index, d) in [q, k, v].into_iter().zip(&grads) {
                    self.add_outer(index, d, x, gradient);
                    through(index, d, &mut dx);
                }
            }
        }
        dx
    }

    /// Gradients of queries, keys and values from that of the mixed values.
    fn attention_back(&self, of: [&Mat<f64>; 4], d_mixed: &Mat<f64>) -> [Mat<f64>; 3] {
        let [q, k, v, weights] = of;
        let tokens = self.spec.tokens;
        let scale = (self.spec.width as f64).sqrt().recip();
        let mut grads = [(); 3].map(|()| Mat::zeros(q.rows(), q.cols()));
        for start in (0..q.rows()).step_by(tokens) {
            let rows = |a: &Mat<f64>| a.view().rows_range(start, tokens).to_mat();
            let (q, k, v, a, dm) = (rows(q), rows(k), rows(v), rows(weights), rows(d_mixed));
            let mut ds = Mat::zeros(tokens, tokens);
            product(1.0, dm.view().into(), Arg::Transposed(v.view()), ds.view_mut(), Write::Set);
            for i in 0..tokens {
                let along: f64 = ds.row(i).iter().zip(a.row(i)).map(|(d, a)| d * a).sum();
                let pairs = ds.row_mut(i).iter_mut().zip(a.row(i));
                pairs.for_each(|(d, a)| *d = a * (*d - along));
            }
            let [dq, dk, dv] = &mut grads;
            let into = |m| MatMut::rows_range(m, start, tokens);
            let (plain, back) = (Arg::Plain(ds.view()), Arg::Transposed(ds.view()));
            product(scale, plain, k.view().into(), into(dq.view_mut()), Write::Set);
            product(scale, back, q.view().into(), into(dk.view_mut()), Write::Set);
            let back = Arg::Transposed(a.view());
            product(1.0, back, dm.view().into(), into(dv.view_mut()), Write::Set);
        }
        grads
    }
}

fn relu(mut y: Mat<f64>) -> Mat<f64> {
    y.data_mut().iter_mut().for_each(|y| *y = y.max(0.0));
    y
}

fn relu_back(y: &Mat<f64>, mut dy: Mat<f64>) -> Mat<f64> {
    dy.data_mut().iter_mut().zip(y.data()).for_each(|(dy, y)| {
        if *y <= 0.0 {
            *dy = 0.0;
        }
    });
    dy
}

fn softmax(row: &mut [f64]) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

/// `ρ (z - mean) / √(|z - mean|² + ε)` for each row.
fn layer_norm(norm: f64, z: &Mat<f64>) -> Mat<f64> {
    let mut h = z.clone();
    for i in 0..h.rows() {
        let row = h.row_mut(i);
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        row.iter_mut().for_each(|x| *x -= mean);
        let length = (row.iter().map(|x| x * x).sum::<f64>() + EPSILON).sqrt();
        row.iter_mut().for_each(|x| *x *= norm / length);
    }
    h
}

/// The gradient of z from that of its LayerNorm, in place.
fn through_norm(norm: f64, z: &Mat<f64>, gradient: &mut Mat<f64>) {
    let h = layer_norm(norm, z);
    for i in 0..z.rows() {
        layer_norm_back(norm, z.row(i), h.row(i), gradient.row_mut(i));
    }
}
