//! Structured pruning: a transformer with a subset of its MLP features and heads.
//!
//! Rows of a block's input projections and columns of its output projection are selected together,
//! with biases and norms: kept features compute the same as before. Widths may differ between
//! layers; which checkpoint forms support that is decided by the [`export`] forms.
//!
//! [`export`]: crate::checkpoint::export

use super::Transformer;
use super::weights::{Branch, NormWeights};
use crate::Role;
use crate::config::{AttentionConfig, HeadsConfig, MlpConfig, TransformerConfig};
use crate::families::{Fused, Scope};
use linwright_ops::{Dense, LinearSlot, LowRank, Op, OpSpec, SiteId};
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::Weight;

/// Kept widths of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptWidths {
    /// Kept features of the MLP, in their new order; all if absent.
    pub mlp: Option<Vec<usize>>,
    /// Kept heads; all if absent.
    pub heads: Option<KeptHeads>,
}

/// Kept heads of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptHeads {
    /// Groups: key and value heads, each with its query heads. Only the `blocks` form can store
    /// layers of different numbers of query heads.
    Groups(Vec<usize>),
    /// Key and value heads only. All query heads stay in order and are divided equally among the
    /// kept ones.
    KeyValue(Vec<usize>),
}

/// Invalid widths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WidthError {
    /// A wrong number of layers.
    #[error("widths of {found} layers were given, the model has {expected}")]
    Layers {
        /// Layers of the model.
        expected: usize,
        /// Layers given.
        found: usize,
    },
    /// Features or heads that do not exist, are repeated, or are empty.
    #[error("layer {layer}: {what} {reason}")]
    Kept {
        /// Index of the layer, from zero.
        layer: usize,
        /// Features or heads.
        what: &'static str,
        /// The error and the expected value.
        reason: String,
    },
    /// An operator from which features cannot be selected.
    #[error("site {site} holds a {kind}; features can be taken from dense weights and low rank")]
    Operator {
        /// The site.
        site: SiteId,
        /// Kind of the operator.
        kind: &'static str,
    },
}

impl Transformer {
    /// The transformer with only these features and heads; unchanged tensors are shared with this
    /// one.
    ///
    /// # Errors
    /// [`WidthError`].
    pub fn keep_widths(&self, kept: &[KeptWidths]) -> Result<Self, WidthError> {
        let layers = self.config.layers.len();
        if kept.len() != layers {
            return Err(WidthError::Layers { expected: layers, found: kept.len() });
        }
        let mut config = self.config.clone();
        let mut most_heads = None;
        let mut plans = Vec::with_capacity(layers);
        for (layer, kept) in kept.iter().enumerate() {
            let plan = LayerPruning::new(&self.config, layer, kept)?;
            let into = &mut config.layers[layer];
            if let (AttentionConfig::Heads(heads), Some(plan)) = (&mut into.attention, &plan.heads)
            {
                (heads.heads, heads.kv_heads) = (plan.query.len(), plan.kv.len());
                most_heads = most_heads.max(Some(heads.heads));
            }
            if let (MlpConfig::Inner(inner), Some(kept)) = (&mut into.mlp, &plan.mlp) {
                *inner = kept.len();
            }
            plans.push(plan);
        }
        config.heads = most_heads.unwrap_or(config.heads);
        let mut model = self.clone();
        for (layer, plan) in plans.iter().enumerate() {
            let weights = &mut model.weights.layers[layer];
            if let (Some(branch), Some(heads)) = (&mut weights.attention, &plan.heads) {
                heads.take(branch, &self.config, &config, layer)?;
            }
            if let (Some(branch), Some(kept)) = (&mut weights.mlp, &plan.mlp) {
                take_mlp(branch, kept)?;
            }
        }
        model.config = config;
        Ok(model)
    }

    /// The same weights with another configuration of the same tensor shapes.
    ///
    /// # Panics
    /// If the tensor shapes differ.
    pub(crate) fn under(&self, config: TransformerConfig) -> Self {
        assert_eq!(config.tensor_shapes(), self.config.tensor_shapes(), "tensors of another model");
        let mut model = self.clone();
        model.config = config;
        model
    }
}

/// Checked widths of a layer; absent for missing parts.
struct LayerPruning {
    mlp: Option<Vec<usize>>,
    heads: Option<HeadPruning>,
}

/// Kept heads, checked.
struct HeadPruning {
    query: Vec<usize>,
    kv: Vec<usize>,
    old: HeadsConfig,
}

impl LayerPruning {
    fn new(
        config: &TransformerConfig,
        layer: usize,
        kept: &KeptWidths,
    ) -> Result<Self, WidthError> {
        let wrong = |what, reason: String| WidthError::Kept { layer, what, reason };
        let layer_config = config.layers[layer];
        let mlp = match (layer_config.mlp, &kept.mlp) {
            (MlpConfig::Inner(inner), Some(kept)) => {
                check(kept, inner).map_err(|reason| wrong("features of the MLP", reason))?;
                Some(kept.clone())
            }
            (MlpConfig::Linear | MlpConfig::Absent, Some(_)) => {
                return Err(wrong("features of the MLP", "were given, but it has no MLP".into()));
            }
            (_, None) => None,
        };
        let heads = match (layer_config.attention, &kept.heads) {
            (AttentionConfig::Heads(old), kept) => Some(
                HeadPruning::new(config, old, kept.as_ref())
                    .map_err(|reason| wrong("heads", reason))?,
            ),
            (AttentionConfig::Linear | AttentionConfig::Absent, Some(_)) => {
                return Err(wrong("heads", "were given, but it has none".into()));
            }
            (AttentionConfig::Linear | AttentionConfig::Absent, None) => None,
        };
        Ok(Self { mlp, heads })
    }
}

impl HeadPruning {
    fn new(
        config: &TransformerConfig,
        old: HeadsConfig,
        kept: Option<&KeptHeads>,
    ) -> Result<Self, String> {
        let group = old.heads / old.kv_heads;
        let all = |count: usize| (0..count).collect::<Vec<_>>();
        let (query, kv) = match kept {
            None => (all(old.heads), all(old.kv_heads)),
            Some(KeptHeads::Groups(groups)) => {
                check(groups, old.kv_heads)?;
                let readers = groups.iter().flat_map(|g| g * group..(g + 1) * group);
                (readers.collect(), groups.clone())
            }
            Some(KeptHeads::KeyValue(kv)) => {
                check(kv, old.kv_heads)?;
                if !old.heads.is_multiple_of(kv.len()) {
                    let heads = old.heads;
                    return Err(format!("{heads} query heads cannot share {} equally", kv.len()));
                }
                if config.family.fused == Fused::ByHead && kv.len() != old.heads {
                    return Err("are stored head by head in one matrix: keep groups".into());
                }
                (all(old.heads), kv.clone())
            }
        };
        Ok(Self { query, kv, old })
    }

    /// Whether everything is kept in order.
    fn is_whole(&self) -> bool {
        let same = |kept: &[usize], count: usize| kept.iter().copied().eq(0..count);
        same(&self.query, self.old.heads) && same(&self.kv, self.old.kv_heads)
    }

    fn take(
        &self,
        branch: &mut Branch,
        old: &TransformerConfig,
        new: &TransformerConfig,
        layer: usize,
    ) -> Result<(), WidthError> {
        if self.is_whole() {
            return Ok(());
        }
        let size = old.head_dim;
        let (query, kv) = (features(&self.query, size, 0), features(&self.kv, size, 0));
        for slot in &mut branch.inputs {
            let rows = match Role::of(slot) {
                Role::Query => query.clone(),
                Role::QueryKeyValue if old.family.fused == Fused::ByHead => {
                    features(&self.query, 3 * size, 0)
                }
                Role::QueryKeyValue => {
                    let first = self.old.heads * size;
                    let second = first + self.old.kv_heads * size;
                    let parts = [first, second].map(|from| features(&self.kv, size, from));
                    [&query[..], &parts[0], &parts[1]].concat()
                }
                _ => kv.clone(),
            };
            *slot = taken(slot, Some(&rows), None)?;
        }
        branch.output = taken(&branch.output, None, Some(&query))?;
        if old.family.query_key_norm.is_some_and(|norm| norm.scope != Scope::Head) {
            let sites = new.layout().layers.swap_remove(layer).attention;
            let sites = sites.map(|branch| branch.inner).unwrap_or_default();
            for ((norm, site), rows) in branch.inner.iter_mut().zip(sites).zip([&query, &kv]) {
                let of = |values: &Vec<f32>| rows.iter().map(|&row| values[row]).collect();
                let (weight, bias) = (norm.weight.as_ref().map(of), norm.bias.as_ref().map(of));
                *norm = NormWeights { site, weight, bias };
            }
        }
        Ok(())
    }
}

fn take_mlp(branch: &mut Branch, kept: &[usize]) -> Result<(), WidthError> {
    for slot in &mut branch.inputs {
        let rows = match Role::of(slot) {
            Role::GateUp => {
                let inner = slot.shape().out / 2;
                let up = kept.iter().map(|feature| inner + feature);
                kept.iter().copied().chain(up).collect()
            }
            _ => kept.to_vec(),
        };
        *slot = taken(slot, Some(&rows), None)?;
    }
    branch.output = taken(&branch.output, None, Some(kept))?;
    Ok(())
}

/// Checks that the indices are distinct and below `count`, and that there is at least one.
fn check(kept: &[usize], count: usize) -> Result<(), String> {
    if kept.is_empty() {
        return Err(format!("are none; keep at least one of {count}"));
    }
    let mut seen = vec![false; count];
    for &index in kept {
        match seen.get_mut(index) {
            None => return Err(format!("reach to {index}, there are {count}")),
            Some(true) => return Err(format!("name {index} twice")),
            Some(seen) => *seen = true,
        }
    }
    Ok(())
}

/// Feature indices of heads of `size` features, counted from `first`.
fn features(heads: &[usize], size: usize, first: usize) -> Vec<usize> {
    heads.iter().flat_map(|head| first + head * size..first + (head + 1) * size).collect()
}

/// A slot with a subset of its outputs or inputs.
fn taken(
    slot: &LinearSlot,
    rows: Option<&[usize]>,
    cols: Option<&[usize]>,
) -> Result<LinearSlot, WidthError> {
    let map = slot.op().map();
    let widened = match (slot.op(), map.weight()) {
        (Op::Linear(op), Some(Weight::Half(_))) => Some(op.to_dense()),
        _ => None,
    };
    let params = map.params();
    let matrix = |index: usize, rows: Option<&[usize]>, cols: Option<&[usize]>| {
        let (shape, values) = match &widened {
            Some(weight) => ([weight.rows(), weight.cols()], weight.data()),
            None => ([params[index].shape[0], params[index].shape[1]], params[index].values),
        };
        let width = shape[1];
        let (row, col) =
            (|i: usize| rows.map_or(i, |rows| rows[i]), |j: usize| cols.map_or(j, |cols| cols[j]));
        let counts = (rows.map_or(shape[0], <[usize]>::len), cols.map_or(width, <[usize]>::len));
        Mat::from_fn(counts.0, counts.1, |i, j| values[row(i) * width + col(j)])
    };
    let op = match map.spec() {
        OpSpec::Dense(_) => Op::Linear(Box::new(Dense::new(matrix(0, rows, cols)))),
        OpSpec::LowRank(_) => {
            Op::Linear(Box::new(LowRank::new(matrix(0, rows, None), matrix(1, None, cols))))
        }
        other => {
            return Err(WidthError::Operator { site: slot.id().clone(), kind: other.kind() });
        }
    };
    let all = |bias: &[f32]| match rows {
        Some(rows) => rows.iter().map(|&row| bias[row]).collect(),
        None => bias.to_vec(),
    };
    let bias = slot.bias().map(all);
    Ok(LinearSlot::new(slot.id().clone(), slot.place().clone(), op, bias))
}
