//! Weights that no slot holds, and the walk over all of them.

use crate::config::{NormConfig, NormSite, Table};
use crate::parts::{Part, Parts};
use linwright_ops::LinearSlot;
use linwright_tensor::kernels::norm::Norm;
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;
use std::sync::Arc;

/// The parts of a transformer with their numbers.
pub(super) type Weights = Parts<TableWeights, NormWeights, LinearSlot>;
/// A layer with its numbers.
pub(super) type Layer = crate::parts::LayerOf<NormWeights, LinearSlot>;
/// Attention or MLP with its numbers.
pub(super) type Branch = crate::parts::BranchOf<NormWeights, LinearSlot>;

/// A table and what stands in it.
#[derive(Clone, Debug)]
pub(super) struct TableWeights {
    pub(super) table: Table,
    /// Of a vector, one row. Copies share it until one of them is changed, as they do dense weights.
    pub(super) values: Arc<Mat<f32>>,
}

/// A norm and its weights.
#[derive(Clone, Debug)]
pub(super) struct NormWeights {
    pub(super) site: NormSite,
    pub(super) weight: Option<Vec<f32>>,
    pub(super) bias: Option<Vec<f32>>,
}

impl TableWeights {
    pub(super) fn view(&self) -> MatRef<'_, f32> {
        self.values.view()
    }

    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        Arc::make_mut(&mut self.values).data_mut()
    }
}

impl NormWeights {
    /// As the kernel takes it, over groups of features.
    pub(super) fn of(&self, config: &NormConfig, group: usize) -> Norm<'_> {
        Norm {
            kind: config.kind,
            epsilon: config.epsilon,
            weight: self.weight.as_deref(),
            bias: self.bias.as_deref(),
            offset: config.offset,
            group,
        }
    }

    /// Every stored tensor: its name and numbers.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (String, &[f32])> {
        let kinds = [("weight", self.weight.as_deref()), ("bias", self.bias.as_deref())];
        kinds.into_iter().filter_map(|(kind, values)| Some((kind, values?))).flat_map(
            |(kind, values)| {
                let part = move |(name, range): (String, Range<usize>)| (name, &values[range]);
                self.site.tensors(kind).map(part)
            },
        )
    }

    /// The same, mutable.
    pub(super) fn tensors_mut(&mut self) -> Vec<(String, &mut [f32])> {
        let mut all = Vec::new();
        for (kind, values) in [("weight", &mut self.weight), ("bias", &mut self.bias)] {
            if let Some(values) = values {
                let len = self.site.features / self.site.parts;
                let names = self.site.tensors(kind).map(|(name, _)| name);
                all.extend(names.zip(values.chunks_mut(len)));
            }
        }
        all
    }
}

/// A function that is shown a tensor: name in checkpoints, shape, numbers.
pub type ShowTensor<'a> = dyn FnMut(&str, &[usize], &[f32]) + 'a;

impl Weights {
    /// Shows every tensor that belongs to no slot, in the order of computation.
    pub(super) fn for_each_tensor(&self, show: &mut ShowTensor<'_>) {
        for part in self.each() {
            match part {
                Part::Table(t) => show(&t.table.name, &t.table.shape, t.values.data()),
                Part::Norm(norm) => {
                    norm.tensors().for_each(|(name, values)| show(&name, &[values.len()], values));
                }
                Part::Slot(_) => {}
            }
        }
    }

    /// Shows every trainable tensor, those of operators and biases included.
    pub(super) fn for_each_param(&self, show: &mut dyn FnMut(&str, &[f32])) {
        for part in self.each() {
            match part {
                Part::Table(t) => show(&t.table.name, t.values.data()),
                Part::Norm(norm) => norm.tensors().for_each(|(name, values)| show(&name, values)),
                Part::Slot(slot) => {
                    for param in slot.op().map().params() {
                        show(&format!("{}.{}", slot.id(), param.name), param.values);
                    }
                    if let Some(bias) = slot.bias() {
                        show(&format!("{}.bias", slot.id()), bias);
                    }
                }
            }
        }
    }

    /// All trainable tensors at once, by name and mutable.
    pub(super) fn params_mut(&mut self) -> Vec<(String, &mut [f32])> {
        let mut all = Vec::new();
        for part in self.each_mut() {
            match part {
                Part::Table(t) => {
                    let name = t.table.name.clone();
                    all.push((name, t.values_mut()));
                }
                Part::Norm(norm) => all.extend(norm.tensors_mut()),
                Part::Slot(slot) => {
                    let id = slot.id().clone();
                    let (op, bias) = slot.parts_mut();
                    let params = op.map_mut().params_mut().into_iter();
                    all.extend(params.map(|param| (format!("{id}.{}", param.name), param.values)));
                    all.extend(bias.map(|bias| (format!("{id}.bias"), bias)));
                }
            }
        }
        all
    }
}
