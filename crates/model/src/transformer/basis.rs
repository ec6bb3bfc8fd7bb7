//! A transformer in another basis of its residual stream, reduced to some directions.
//!
//! With the columns of Q (hidden, kept) as the basis and t = sqrt(kept / hidden), the residual
//! stream h becomes t Qᵀ h: weights that write to it are multiplied by t Qᵀ, weights that read from
//! it by Q / t. The factor t makes its mean square that of h, so norms keep their epsilon. Weights
//! and biases of norms are absorbed by the layers that read their output, since they have no
//! counterpart in another basis; a single number remains of a weight.
//!
//! A layer norm subtracts the mean. Writers to the stream are therefore centred, and the basis
//! contains the direction of the mean, as all ones: see [`centred_basis`]. Where a norm has a bias
//! and a reader has none, the bias stays in the norm, within the basis.
//!
//! Source: Ashkboos et al. 2024, arXiv:2401.15024, sections 3.1 and 3.2, with one basis for all
//! layers, as no ordinary model has a matrix on its skip connections.

use super::Transformer;
use super::build::{Held, Orientation, TensorSource};
use super::weights::{NormWeights, TableWeights};
use crate::config::{ParallelNorms, Placement, TransformerConfig};
use linwright_ops::{Dense, LinearSlot, Op, Shape, SiteId, Sites};
use linwright_tensor::kernels::gemm::{Arg, Weight, Write, product};
use linwright_tensor::kernels::norm::NormKind;
use linwright_tensor::{Mat, MatRef, Scratch};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Largest deviation of a basis from orthonormal columns.
const ORTHONORMAL: f64 = 1e-8;
/// Rows that are converted at a time.
const BLOCK: usize = 512;

/// A model without one basis of its residual stream, or an invalid basis.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BasisError {
    /// Parts that only exist in the original basis.
    #[error("the residual stream cannot change its basis: {reason}")]
    Architecture {
        /// The part and the reason.
        reason: &'static str,
    },
    /// A wrong number of rows or columns.
    #[error(
        "a basis of {rows} features and {kept} directions; expected {hidden} features and {least} \
         to {hidden} directions"
    )]
    Shape {
        /// Its rows.
        rows: usize,
        /// Its columns.
        kept: usize,
        /// Width of the residual stream.
        hidden: usize,
        /// Fewest directions.
        least: usize,
    },
    /// Columns that are not orthonormal.
    #[error("the directions of a basis are not orthonormal: off by {off:.1e}")]
    NotOrthonormal {
        /// Largest deviation of their products from those of the unit matrix.
        off: f64,
    },
    /// A basis without the direction of the mean, for a model with layer norms.
    #[error(
        "layer norms subtract the mean, and the basis has it in another direction: off by {off:.1e}"
    )]
    Mean {
        /// Largest deviation of its image from a vector of equal numbers.
        off: f64,
    },
    /// An operator that has no dense weight.
    #[error("site {site} holds a {kind}; changing the basis needs dense weights")]
    Operator {
        /// The site.
        site: SiteId,
        /// Kind of the operator.
        kind: &'static str,
    },
    /// A bias that no layer can absorb.
    #[error(
        "norm {norm} adds a bias to feature {feature}, which it multiplies by zero, and {site} \
         reads it without a bias"
    )]
    Bias {
        /// Name of the norm.
        norm: String,
        /// The feature.
        feature: usize,
        /// The layer that reads it.
        site: String,
    },
}

/// A basis (hidden, kept) for a model with layer norms, from orthonormal directions (hidden, kept -
/// 1) without a mean: they and the direction of the mean, rotated so that it is all ones.
#[must_use]
pub fn centred_basis(directions: MatRef<'_, f64>) -> Mat<f64> {
    let (hidden, kept) = (directions.rows(), directions.cols() + 1);
    let mean = (hidden as f64).sqrt().recip();
    // The reflection that exchanges the first axis and the vector of equal numbers.
    let ones = (kept as f64).sqrt().recip();
    let along = |j: usize| if j == 0 { 1.0 - ones } else { -ones };
    let square: f64 = (0..kept).map(|j| along(j) * along(j)).sum();
    let mut basis = Mat::zeros(hidden, kept);
    for i in 0..hidden {
        let row = basis.row_mut(i);
        row[0] = mean;
        row[1..].copy_from_slice(directions.row(i));
        let dot: f64 = row.iter().enumerate().map(|(j, value)| value * along(j)).sum();
        let share = if square > 0.0 { 2.0 * dot / square } else { 0.0 };
        row.iter_mut().enumerate().for_each(|(j, value)| *value -= share * along(j));
    }
    basis
}

impl Transformer {
    /// Whether the residual stream can have another basis.
    ///
    /// # Errors
    /// [`BasisError::Architecture`], [`BasisError::Operator`].
    pub fn check_basis(&self) -> Result<(), BasisError> {
        let (config, weights) = (&self.config, &self.weights);
        let layer_norm = config.norm.kind == NormKind::Layer;
        let reason = if config.placement != Placement::Before {
            Some("a norm after a block scales single features of the stream")
        } else if weights.embedding_norm.is_some() {
            Some("a norm of the embedding scales single features of the stream")
        } else if weights.project_in.is_some() {
            Some("projections join it to an embedding of another width")
        } else if weights.transform.is_some() || weights.pooler.is_some() || !self.has_head() {
            Some("an encoder's outputs are features of the stream")
        } else if layer_norm && weights.final_norm.is_none() {
            Some("its mean is lost without a final layer norm")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(BasisError::Architecture { reason });
        }
        let slots = self.slots();
        match slots.into_iter().find(|slot| slot.op().map().weight().is_none()) {
            Some(slot) => Err(BasisError::Operator {
                site: slot.id().clone(),
                kind: slot.op().map().spec().kind(),
            }),
            None => Ok(()),
        }
    }

    /// The transformer with the residual stream in the basis of these directions, the columns of
    /// `basis` (hidden, kept). With all of them it computes the same as before; with fewer, as if
    /// the residual stream had no component in the others. A tied output matrix gets a separate
    /// weight, unless the final norm scales all features equally.
    ///
    /// # Errors
    /// [`BasisError`].
    pub fn in_basis(&self, basis: MatRef<'_, f64>) -> Result<Self, BasisError> {
        self.check_basis()?;
        check(basis, &self.config)?;
        self.rebased(basis)
    }

    /// The transformer of the same width without any component outside of these directions in its
    /// residual stream: it computes the same as [`Self::in_basis`].
    ///
    /// # Errors
    /// [`BasisError`].
    pub fn within_basis(&self, basis: MatRef<'_, f64>) -> Result<Self, BasisError> {
        self.in_basis(basis)?.rebased(basis.to_mat().transpose().view())
    }

    fn rebased(&self, basis: MatRef<'_, f64>) -> Result<Self, BasisError> {
        let width = basis.cols();
        let mut config = self.config.clone();
        config.hidden = width;
        config.embedding_width = width;
        if config.family.scaled_embedding {
            config.embedding_scale = (width as f32).sqrt();
        }
        let gain = self.tied_gain();
        config.tied_embeddings = gain.is_some();
        let mut source = Rebased::new(self, &config, basis, gain)?;
        match Self::from_source(config, &mut source) {
            Ok(model) => Ok(model),
            Err(never) => match never {},
        }
    }

    /// The one number that the final norm multiplies all features by, if the output matrix is tied
    /// to the embedding and can stay so.
    fn tied_gain(&self) -> Option<f64> {
        let norm = self.weights.final_norm.as_ref().filter(|_| self.config.tied_embeddings)?;
        let weight = norm.weight.as_ref()?;
        let equal = weight.iter().all(|value| *value == weight[0]);
        // The mean of a bias is not in the centred embedding.
        let biased = norm.bias.iter().flatten().any(|value| *value != 0.0);
        let gain = f64::from(weight[0] + self.config.norm.offset);
        (equal && !biased && gain != 0.0).then_some(gain)
    }
}

/// Checks the shape of a basis, its directions, and that it contains the mean.
fn check(basis: MatRef<'_, f64>, config: &TransformerConfig) -> Result<(), BasisError> {
    let (rows, kept, hidden) = (basis.rows(), basis.cols(), config.hidden);
    let layer_norm = config.norm.kind == NormKind::Layer;
    let least = if layer_norm { 2 } else { 1 };
    if rows != hidden || kept < least || kept > hidden {
        return Err(BasisError::Shape { rows, kept, hidden, least });
    }
    let mut gram = Mat::zeros(kept, kept);
    let args = (Arg::Transposed(basis), Arg::Plain(basis));
    product(1.0, args.0, args.1, gram.view_mut(), Write::Set);
    let unit = |i, j| if i == j { 1.0 } else { 0.0 };
    let off = |i: usize| (0..kept).map(|j| (gram.at(i, j) - unit(i, j)).abs()).fold(0.0, f64::max);
    let off = (0..kept).map(off).fold(0.0, f64::max);
    if off.is_nan() || off > ORTHONORMAL {
        return Err(BasisError::NotOrthonormal { off });
    }
    if layer_norm {
        let expected = (hidden as f64 / kept as f64).sqrt();
        let sum = |j: usize| (0..hidden).map(|i| basis.at(i, j)).sum::<f64>();
        let off = (0..kept).map(|j| (sum(j) - expected).abs()).fold(0.0, f64::max);
        if off > ORTHONORMAL * (hidden as f64).sqrt() {
            return Err(BasisError::Mean { off });
        }
    }
    Ok(())
}

/// The tensors of a model in a basis.
struct Rebased<'a> {
    /// Right factor of readers, (hidden, kept).
    reads: MatRef<'a, f64>,
    /// Left factor of writers, (hidden, kept).
    writes: Mat<f64>,
    /// Factor of the embedding in addition to that of writers.
    embedding_scale: f64,
    /// Offset of norm weights.
    norm_offset: f64,
    /// The embedding first.
    tables: Vec<&'a TableWeights>,
    sites: BTreeMap<String, Site<'a>>,
    norms: BTreeMap<&'a str, Absorbed>,
    /// Norms of queries and keys.
    unchanged: BTreeMap<String, &'a [f32]>,
}

/// A linear layer at the residual stream.
struct Site<'a> {
    weight: Weight<'a, f32>,
    bias: Option<Vec<f32>>,
    /// The norm that it reads, if it reads the residual stream.
    reads: Option<Norm<'a>>,
    /// Whether it writes to the residual stream.
    writes: bool,
}

/// A norm of the residual stream, or none.
type Norm<'a> = Option<&'a NormWeights>;

/// A norm whose weight and bias were absorbed by the layers after it.
struct Absorbed {
    /// The replacement of every weight.
    weight: f64,
    /// The remaining bias, (kept).
    kept_bias: Vec<f64>,
    /// Factors of the inputs of readers, (hidden).
    gain: Vec<f64>,
    /// Offsets of the inputs of readers, (hidden).
    bias: Vec<f64>,
}

impl<'a> Rebased<'a> {
    fn new(
        model: &'a Transformer,
        config: &TransformerConfig,
        basis: MatRef<'a, f64>,
        tied: Option<f64>,
    ) -> Result<Self, BasisError> {
        let (old, weights) = (&model.config, &model.weights);
        let scale = (config.hidden as f64 / old.hidden as f64).sqrt();
        let embedding_scale = f64::from(old.embedding_scale) / f64::from(config.embedding_scale);
        let sites = sites(model, config);
        let mut norms = BTreeMap::new();
        let befores = weights.layers.iter().flat_map(|layer| [&layer.attention, &layer.mlp]);
        let befores = befores.flatten().filter_map(|branch| branch.before.as_ref());
        for norm in befores.chain(&weights.final_norm) {
            let name = norm.site.name.as_str();
            let is_final = weights.final_norm.as_ref().is_some_and(|last| last.site.name == name);
            let weight = match tied.filter(|_| is_final) {
                Some(gain) => gain / (scale * scale * embedding_scale),
                None if norm.weight.is_some() => scale.recip(),
                None => 1.0,
            };
            let unbiased = sites.iter().find(|(_, site)| {
                let reads = site.reads.flatten().is_some_and(|norm| norm.site.name == name);
                reads && site.bias.is_none()
            });
            let absorbed = Absorbed::new(norm, (old, basis), weight, scale);
            absorbed.check(name, norm.bias.is_some(), unbiased.map(|(site, _)| site))?;
            norms.insert(name, absorbed.divided(basis, unbiased.is_some()));
        }
        let branches = weights.layers.iter().flat_map(|layer| [&layer.attention, &layer.mlp]);
        let inner = branches.flatten().flat_map(|branch| &branch.inner);
        let mut writes = basis.to_mat();
        if old.norm.kind == NormKind::Layer {
            centre_columns(&mut writes);
        }
        writes.data_mut().iter_mut().for_each(|value| *value *= scale);
        let tables = [&weights.positions, &weights.types, &weights.tied_bias].into_iter().flatten();
        Ok(Self {
            reads: basis,
            writes,
            embedding_scale,
            norm_offset: f64::from(old.norm.offset),
            tables: [&weights.embedding].into_iter().chain(tables).collect(),
            sites,
            norms,
            unchanged: inner.flat_map(NormWeights::tensors).collect(),
        })
    }

    /// The weight of a linear layer in the basis.
    fn weight(&self, site: &Site<'_>) -> Mat<f32> {
        let read = site.reads.map(|norm| {
            let gain = self.gain(norm);
            let read = |i: usize, into: &mut [f64]| {
                widen_row(site.weight, i, into);
                into.iter_mut().zip(&gain).for_each(|(value, gain)| *value *= gain);
            };
            times(site.weight.rows(), &read, self.reads)
        });
        if !site.writes {
            return read.unwrap_or_else(|| dense(site.weight));
        }
        let rows = read.unwrap_or_else(|| dense(site.weight)).transpose();
        let read = |i: usize, into: &mut [f64]| {
            into.iter_mut().zip(rows.row(i)).for_each(|(to, from)| *to = f64::from(*from));
        };
        times(rows.rows(), &read, self.writes.view()).transpose()
    }

    /// The bias of a linear layer in the basis.
    fn bias(&self, site: &Site<'_>) -> Vec<f32> {
        let mut bias: Vec<f64> = site.bias.iter().flatten().copied().map(f64::from).collect();
        if let Some(absorbed) =
            site.reads.flatten().map(|norm| &self.norms[norm.site.name.as_str()])
        {
            let mut row = vec![0.0; site.weight.cols()];
            for (i, bias) in bias.iter_mut().enumerate() {
                widen_row(site.weight, i, &mut row);
                *bias += row.iter().zip(&absorbed.bias).map(|(w, b)| w * b).sum::<f64>();
            }
        }
        if site.writes {
            let into = self.writes.view();
            bias = (0..into.cols())
                .map(|j| bias.iter().enumerate().map(|(i, b)| b * into.at(i, j)).sum())
                .collect();
        }
        bias.into_iter().map(|value| value as f32).collect()
    }

    /// Factors of a reader's inputs.
    fn gain(&self, norm: Norm<'_>) -> Vec<f64> {
        match norm {
            Some(norm) => self.norms[norm.site.name.as_str()].gain.clone(),
            None => {
                let scale = (self.reads.rows() as f64 / self.reads.cols() as f64).sqrt();
                vec![scale; self.reads.rows()]
            }
        }
    }
}

impl Absorbed {
    /// A norm is absorbed by the layers after it, except for the factor `weight`.
    fn new(
        norm: &NormWeights,
        (config, basis): (&TransformerConfig, MatRef<'_, f64>),
        weight: f64,
        scale: f64,
    ) -> Self {
        let hidden = config.hidden;
        let offset = config.norm.offset;
        let widened = |values: &Vec<f32>| values.iter().map(|value| f64::from(*value)).collect();
        let mut gain: Vec<f64> = match &norm.weight {
            // As the kernel adds them.
            Some(weight) => weight.iter().map(|weight| f64::from(weight + offset)).collect(),
            None => vec![1.0; hidden],
        };
        gain.iter_mut().for_each(|gain| *gain /= weight * scale);
        let bias = norm.bias.as_ref().map_or_else(|| vec![0.0; hidden], widened);
        Self { weight, kept_bias: vec![0.0; basis.cols()], gain, bias }
    }

    /// Checks that the bias can stay in the norm, if it has one and a layer without a bias reads
    /// it.
    fn check(&self, norm: &str, biased: bool, unbiased: Option<&String>) -> Result<(), BasisError> {
        let Some(site) = unbiased.filter(|_| biased) else {
            return Ok(());
        };
        let lost = |(gain, bias): (&f64, &f64)| *gain == 0.0 && *bias != 0.0;
        match self.gain.iter().zip(&self.bias).position(lost) {
            Some(feature) => {
                Err(BasisError::Bias { norm: norm.to_owned(), feature, site: site.clone() })
            }
            None => Ok(()),
        }
    }

    /// With the bias in the norm, as far as it is in the basis, if a layer without a bias reads it.
    fn divided(mut self, basis: MatRef<'_, f64>, unbiased: bool) -> Self {
        if !unbiased {
            return self;
        }
        let before = self.gain.iter().zip(&self.bias);
        let before: Vec<f64> =
            before.map(|(gain, bias)| if *bias == 0.0 { 0.0 } else { bias / gain }).collect();
        for (j, kept) in self.kept_bias.iter_mut().enumerate() {
            *kept = before.iter().enumerate().map(|(i, b)| b * basis.at(i, j)).sum();
        }
        for (i, bias) in self.bias.iter_mut().enumerate() {
            let held: f64 = basis.row(i).iter().zip(&self.kept_bias).map(|(q, b)| q * b).sum();
            *bias -= self.gain[i] * held;
        }
        self
    }
}

impl TensorSource for Rebased<'_> {
    type Error = Infallible;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Infallible> {
        if let Some(values) = self.unchanged.get(name) {
            return Ok(values.to_vec());
        }
        let (of, kind) = name.rsplit_once('.').unwrap_or((name, ""));
        if let Some(norm) = self.norms.get(of) {
            return Ok(match kind {
                "weight" => vec![(norm.weight - self.norm_offset) as f32; shape[0]],
                _ => norm.kept_bias.iter().map(|value| *value as f32).collect(),
            });
        }
        let site = self.sites.get(of).unwrap_or_else(|| panic!("{name} of another model"));
        Ok(self.bias(site))
    }

    fn matrix(&mut self, name: &str, _: &[usize]) -> Result<Held, Infallible> {
        let table = self.tables.iter().position(|table| table.table.name == name);
        let at = table.unwrap_or_else(|| panic!("{name} of another model"));
        let weight = self.tables[at].weight();
        // The bias of a tied output matrix.
        if weight.cols() != self.reads.rows() {
            return Ok(Held::Full(dense(weight).into_vec()));
        }
        let factor = if at == 0 { self.embedding_scale } else { 1.0 };
        let read = |i: usize, into: &mut [f64]| {
            widen_row(weight, i, into);
            into.iter_mut().for_each(|value| *value *= factor);
        };
        Ok(Held::Full(times(weight.rows(), &read, self.writes.view()).into_vec()))
    }

    fn operator(&mut self, id: &SiteId, _: Shape, _: Orientation) -> Result<Op<f32>, Infallible> {
        let site = self.sites.get(&id.0).unwrap_or_else(|| panic!("{id} of another model"));
        Ok(Op::Linear(Box::new(Dense::new(self.weight(site)))))
    }
}

/// The linear layers of a model, with the output matrix if `config` unties it.
fn sites<'a>(model: &'a Transformer, config: &TransformerConfig) -> BTreeMap<String, Site<'a>> {
    let weights = &model.weights;
    let mut sites = BTreeMap::new();
    let mut add = |slot: &'a LinearSlot, reads, writes| {
        let weight = slot.op().map().weight().expect("checked");
        let bias = slot.bias().map(<[f32]>::to_vec);
        sites.insert(slot.id().0.clone(), Site { weight, bias, reads, writes });
    };
    for layer in &weights.layers {
        let shared = layer.attention.as_ref().and_then(|branch| branch.before.as_ref());
        let shared = shared.filter(|_| model.config.parallel == Some(ParallelNorms::Shared));
        for branch in [&layer.attention, &layer.mlp].into_iter().flatten() {
            let norm = branch.before.as_ref().or(shared);
            branch.inputs.iter().for_each(|slot| add(slot, Some(norm), false));
            // A linear layer in place of a block does both.
            add(&branch.output, branch.inputs.is_empty().then_some(norm), true);
        }
    }
    let norm = weights.final_norm.as_ref();
    match &weights.head {
        Some(head) => add(head, Some(norm), false),
        None if config.tied_embeddings => {}
        None => {
            let bias = weights.tied_bias.as_ref().map(|table| dense(table.weight()).into_vec());
            let weight = weights.embedding.weight();
            let head = config.layout().head.expect("an untied output matrix");
            sites.insert(head.site, Site { weight, bias, reads: Some(norm), writes: false });
        }
    }
    sites
}

/// Subtracts from each column its mean.
fn centre_columns(matrix: &mut Mat<f64>) {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    for j in 0..cols {
        let mean = (0..rows).map(|i| matrix.at(i, j)).sum::<f64>() / rows as f64;
        (0..rows).for_each(|i| *matrix.at_mut(i, j) -= mean);
    }
}

/// The product of `count` rows and a basis, rounded once.
fn times(count: usize, read: &dyn Fn(usize, &mut [f64]), basis: MatRef<'_, f64>) -> Mat<f32> {
    let mut result = Mat::zeros(count, basis.cols());
    let (mut rows, mut block) = (Mat::default(), Mat::default());
    for start in (0..count).step_by(BLOCK) {
        let here = BLOCK.min(count - start);
        rows.resize(here, basis.rows());
        (0..here).for_each(|i| read(start + i, rows.row_mut(i)));
        block.resize(here, basis.cols());
        let args = (Arg::Plain(rows.view()), Arg::Plain(basis));
        product(1.0, args.0, args.1, block.view_mut(), Write::Set);
        for i in 0..here {
            let to = result.row_mut(start + i).iter_mut();
            to.zip(block.row(i)).for_each(|(to, from)| *to = *from as f32);
        }
    }
    result
}

/// Row of a weight.
fn widen_row(weight: Weight<'_, f32>, at: usize, into: &mut [f64]) {
    let copy = |from: &[f32], into: &mut [f64]| {
        into.iter_mut().zip(from).for_each(|(to, from)| *to = f64::from(*from));
    };
    match weight {
        Weight::Full(weight) => copy(weight.row(at), into),
        Weight::Half(weight) => {
            let mut row = Scratch::<f32>::new(into.len());
            weight.widen_row(at, &mut row);
            copy(&row, into);
        }
    }
}

fn dense(weight: Weight<'_, f32>) -> Mat<f32> {
    match weight {
        Weight::Full(weight) => weight.to_mat(),
        Weight::Half(weight) => weight.to_mat(),
    }
}
