//! Names and shapes of the tensors of a configuration.

use super::{AttentionConfig, HeadsConfig, MlpConfig, ParallelNorms, Placement, TransformerConfig};
use crate::Role;
use crate::families::{Head, Named, Positions, QueryKeyNorm, Scope};
use crate::parts::{BranchOf, LayerOf, Part, Parts};
use linwright_ops::Shape;
use std::ops::Range;

/// Names of the linear layers that replace attention and MLP in some models.
const LINEAR_ATTENTION: &str = "self_attn.linear_attn";
const LINEAR_MLP: &str = "mlp.linear_mlp";
/// Inputs of the linear layers of a layer; attention and MLP side by side may share theirs.
const ATTENTION_INPUT: &str = "attention.input";
const ATTENDED: &str = "attention.attended";
const MLP_INPUT: &str = "mlp.input";
const MLP_INNER: &str = "mlp.inner";
/// Names of the projections between an embedding and a residual stream of another width.
const PROJECT_IN: &str = "project_in";
const PROJECT_OUT: &str = "project_out";

/// A linear layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    /// Its site.
    pub(crate) site: String,
    /// The input that it reads.
    pub(crate) reads: String,
    /// Its role.
    pub(crate) role: Role,
    /// Its shape.
    pub(crate) shape: Shape,
    /// Whether it has a bias.
    pub(crate) bias: bool,
}

/// A norm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormSite {
    /// Its name, with `{}` for the head if each head has its own tensors.
    pub(crate) name: String,
    /// Length of weight and bias over all heads.
    pub(crate) features: usize,
    /// Number of tensors that the weight is split into.
    pub(crate) parts: usize,
    /// Whether it has a weight.
    pub(crate) weight: bool,
    /// Whether it has a bias.
    pub(crate) bias: bool,
}

/// A matrix or vector outside the slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Its name in checkpoints.
    pub(crate) name: String,
    /// Its shape.
    pub(crate) shape: Vec<usize>,
}

/// The parts of a transformer by name and shape.
pub(crate) type Layout = Parts<Table, NormSite, Linear>;
/// Attention or MLP by name and shape.
type Branch = BranchOf<NormSite, Linear>;

/// Components of attention or the MLP of a layer.
struct Stage<'a> {
    /// Index of the layer.
    index: usize,
    /// Names of its norms within the layer, in the order of computation.
    norms: &'a [&'a str],
    /// Its input projections.
    inputs: &'a [Named],
    /// The input of its input projections, or of the only linear layer.
    reads: &'a str,
    /// The input of its output projection.
    inner_reads: &'a str,
    /// Features out of an input projection.
    width: &'a dyn Fn(Role) -> usize,
    /// Whether the input projections have a bias.
    input_bias: bool,
    /// Its output projection.
    output: Named,
    /// Features into the output projection.
    inner: usize,
    /// Whether the output projection has a bias.
    output_bias: bool,
}

impl NormSite {
    /// Name of each stored tensor and its range of features; `kind` is `weight` or `bias`.
    pub(crate) fn tensors(
        &self,
        kind: &'static str,
    ) -> impl Iterator<Item = (String, Range<usize>)> + '_ {
        let len = self.features / self.parts;
        (0..self.parts).map(move |part| {
            let name = self.name.replace("{}", &part.to_string());
            (format!("{name}.{kind}"), part * len..(part + 1) * len)
        })
    }

    fn shapes(&self, shapes: &mut Vec<(String, Vec<usize>)>) {
        for (there, kind) in [(self.weight, "weight"), (self.bias, "bias")] {
            if there {
                shapes.extend(self.tensors(kind).map(|(name, range)| (name, vec![range.len()])));
            }
        }
    }
}

impl Linear {
    fn shapes(&self, shapes: &mut Vec<(String, Vec<usize>)>, transposed: bool) {
        let Shape { out, inp } = self.shape;
        let stored = if transposed { vec![inp, out] } else { vec![out, inp] };
        shapes.push((format!("{}.weight", self.site), stored));
        if self.bias {
            shapes.push((format!("{}.bias", self.site), vec![out]));
        }
    }
}

impl TransformerConfig {
    /// Name and shape of every tensor of a dense checkpoint, in the order of computation.
    #[must_use]
    pub fn tensor_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = Vec::new();
        for part in self.layout().each() {
            match part {
                Part::Table(table) => shapes.push((table.name.clone(), table.shape.clone())),
                Part::Norm(norm) => norm.shapes(&mut shapes),
                Part::Slot(linear) => {
                    linear.shapes(&mut shapes, self.is_transposed(linear.role));
                }
            }
        }
        shapes
    }

    /// Parameters of the weights of all linear layers in each layer, without biases.
    #[must_use]
    pub fn linear_parameters(&self) -> Vec<u64> {
        let layers = self.layout().layers;
        let branches = |layer: &LayerOf<NormSite, Linear>| {
            let branches = [&layer.attention, &layer.mlp].into_iter().flatten();
            let slots = branches.flat_map(|branch| branch.inputs.iter().chain([&branch.output]));
            slots.map(|linear| linear.shape.dense_parameters() as u64).sum()
        };
        layers.iter().map(branches).collect()
    }

    /// Whether the weight of a role is stored transposed, with inputs in rows.
    pub(crate) fn is_transposed(&self, role: Role) -> bool {
        self.family.transposed && role != Role::Head
    }

    /// Every part by name and shape.
    pub(crate) fn layout(&self) -> Layout {
        let names = &self.family.names;
        let table =
            |name: &str, shape| Table { name: format!("{}.weight", self.full(name)), shape };
        let positions = match (self.family.positions, self.learned_positions) {
            (Positions::Learned { name, .. }, Some(learned)) => {
                Some(table(name, vec![self.max_positions + learned.first, self.hidden]))
            }
            _ => None,
        };
        let types = names.types.zip(self.token_types);
        let (wide, narrow) = (self.hidden, self.embedding_width);
        let layer = |index| LayerOf { attention: self.attention(index), mlp: self.mlp(index) };
        let final_norm = names.final_norm.filter(|_| self.final_norm);
        Layout {
            embedding: table(names.embedding, vec![self.vocab, narrow]),
            positions,
            types: types.map(|(name, types)| table(name, vec![types, wide])),
            embedding_norm: names.embedding_norm.map(|name| self.norm_site(self.full(name))),
            project_in: self.projection(
                PROJECT_IN,
                Role::ProjectIn,
                Shape { out: wide, inp: narrow },
            ),
            layers: (0..self.layers.len()).map(layer).collect(),
            final_norm: final_norm.map(|name| self.norm_site(self.full(name))),
            project_out: self.projection(
                PROJECT_OUT,
                Role::ProjectOut,
                Shape { out: narrow, inp: wide },
            ),
            transform: self.head_transform(),
            head: self.head(),
            tied_bias: self.tied_bias(),
            pooler: names.pooler.filter(|_| self.pooler).map(|name| {
                let shape = Shape { out: wide, inp: wide };
                let reads = self.full("output");
                Linear { site: self.full(name), reads, role: Role::Pooler, shape, bias: true }
            }),
        }
    }

    fn projection(&self, name: &str, role: Role, shape: Shape) -> Option<Linear> {
        let site = self.full(name);
        let reads = format!("{site}.input");
        (shape.out != shape.inp).then_some(Linear { site, reads, role, shape, bias: false })
    }

    /// The linear layer and the norm before the output of a masked language model.
    fn head_transform(&self) -> Option<(Linear, NormSite)> {
        let Head::Masked { dense, norm, .. } = self.family.names.head else {
            return None;
        };
        if !self.masked_head {
            return None;
        }
        let shape = Shape { out: self.hidden, inp: self.hidden };
        let (site, reads) = (dense.to_owned(), format!("{dense}.input"));
        let linear = Linear { site, reads, role: Role::Transform, shape, bias: true };
        Some((linear, self.norm_site(norm.into())))
    }

    /// The output matrix, unless it is tied to the embedding.
    fn head(&self) -> Option<Linear> {
        let (name, bias) = match self.family.names.head {
            Head::Linear(name) => (name, self.biases.head),
            Head::Masked { output, .. } if self.masked_head => (output, true),
            Head::Masked { .. } => return None,
        };
        let shape = Shape { out: self.vocab, inp: self.embedding_width };
        let (site, reads) = (name.to_owned(), format!("{name}.input"));
        (!self.tied_embeddings).then_some(Linear { site, reads, role: Role::Head, shape, bias })
    }

    /// The bias of a tied output matrix.
    fn tied_bias(&self) -> Option<Table> {
        let name = match self.family.names.head {
            Head::Masked { bias, .. } if self.masked_head && self.tied_embeddings => bias.into(),
            Head::Linear(name) if self.tied_embeddings && self.biases.head => {
                format!("{name}.bias")
            }
            Head::Masked { .. } | Head::Linear(_) => return None,
        };
        Some(Table { name, shape: vec![self.vocab] })
    }

    /// Attention of a layer.
    fn attention(&self, index: usize) -> Option<Branch> {
        let names = &self.family.names;
        let norms = names.attention_norms;
        let output_bias = self.biases.output;
        match self.layers[index].attention {
            AttentionConfig::Absent => None,
            AttentionConfig::Linear => Some(self.replaced(
                index,
                (norms, ATTENTION_INPUT),
                (LINEAR_ATTENTION, Role::Output),
                output_bias,
            )),
            AttentionConfig::Heads(heads) => {
                let [query, kv] = [heads.heads, heads.kv_heads].map(|heads| heads * self.head_dim);
                let width = |role| match role {
                    Role::QueryKeyValue => query + 2 * kv,
                    Role::Query => query,
                    _ => kv,
                };
                let mut branch = self.branch(Stage {
                    index,
                    norms,
                    inputs: names.attention,
                    reads: ATTENTION_INPUT,
                    inner_reads: ATTENDED,
                    width: &width,
                    input_bias: self.biases.query_key_value,
                    output: (names.output, Role::Output),
                    inner: query,
                    output_bias,
                });
                branch.inner = self.query_key_norms(index, heads);
                Some(branch)
            }
        }
    }

    /// MLP of a layer.
    fn mlp(&self, index: usize) -> Option<Branch> {
        let names = &self.family.names;
        let shared = self.parallel == Some(ParallelNorms::Shared);
        let norms = if shared { &[] } else { names.mlp_norms };
        let reads = if shared { ATTENTION_INPUT } else { MLP_INPUT };
        let bias = self.biases.mlp;
        match self.layers[index].mlp {
            MlpConfig::Absent => None,
            MlpConfig::Linear => {
                Some(self.replaced(index, (norms, reads), (LINEAR_MLP, Role::Down), bias))
            }
            MlpConfig::Inner(inner) => {
                let width = |role| if role == Role::GateUp { 2 * inner } else { inner };
                Some(self.branch(Stage {
                    index,
                    norms,
                    inputs: names.mlp,
                    reads,
                    inner_reads: MLP_INNER,
                    width: &width,
                    input_bias: bias,
                    output: names.mlp_output,
                    inner,
                    output_bias: bias,
                }))
            }
        }
    }

    fn branch(&self, stage: Stage<'_>) -> Branch {
        let Stage { index, norms, inputs, reads, inner_reads, width, input_bias, .. } = stage;
        let linear = |(name, role): Named, reads, out, inp, bias| Linear {
            site: self.in_layer(index, name),
            reads: self.in_layer(index, reads),
            role,
            shape: Shape { out, inp },
            bias,
        };
        let inputs = inputs
            .iter()
            .map(|&named| linear(named, reads, width(named.1), self.hidden, input_bias))
            .collect();
        let Stage { output, inner, output_bias, .. } = stage;
        let output = linear(output, inner_reads, self.hidden, inner, output_bias);
        let norm = |nth: usize| norms.get(nth).map(|n| self.norm_site(self.in_layer(index, n)));
        let (before, after, on_sum) = match self.placement {
            Placement::Before => (norm(0), None, None),
            Placement::BeforeAndAfter => (norm(0), norm(1), None),
            Placement::After => (None, norm(0), None),
            Placement::OnSum => (None, None, norm(0)),
        };
        Branch { before, inputs, inner: Vec::new(), output, after, on_sum }
    }

    /// One linear layer in place of attention or MLP.
    fn replaced(
        &self,
        index: usize,
        (norms, reads): (&[&str], &str),
        name: Named,
        bias: bool,
    ) -> Branch {
        self.branch(Stage {
            index,
            norms,
            inputs: &[],
            reads,
            inner_reads: reads,
            width: &|_| 0,
            input_bias: bias,
            output: name,
            inner: self.hidden,
            output_bias: bias,
        })
    }

    fn query_key_norms(&self, index: usize, heads: HeadsConfig) -> Vec<NormSite> {
        let Some(QueryKeyNorm { scope, bias, names, .. }) =
            self.family.query_key_norm.filter(|_| self.query_key_norm)
        else {
            return Vec::new();
        };
        let site = |(name, heads): (&str, usize)| {
            let (features, parts) = match scope {
                Scope::Head => (self.head_dim, 1),
                Scope::EachHead => (heads * self.head_dim, heads),
                Scope::Whole => (heads * self.head_dim, 1),
            };
            NormSite { name: self.in_layer(index, name), features, parts, weight: true, bias }
        };
        names.into_iter().zip([heads.heads, heads.kv_heads]).map(site).collect()
    }

    /// Number of features that a query or key norm normalises together, for rows of this width.
    pub(crate) fn query_key_group(&self, width: usize) -> usize {
        match self.family.query_key_norm.map(|norm| norm.scope) {
            Some(Scope::Whole) => width,
            _ => self.head_dim,
        }
    }

    fn norm_site(&self, name: String) -> NormSite {
        let (weight, bias) = (self.norm.weight, self.norm.bias);
        NormSite { name, features: self.hidden, parts: 1, weight, bias }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.family.names.prefix)
    }

    fn in_layer(&self, index: usize, name: &str) -> String {
        self.full(&format!("{}.{index}.{name}", self.family.names.layer))
    }
}
