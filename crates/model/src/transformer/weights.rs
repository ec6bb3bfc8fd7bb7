//! Weights outside the slots, and visitors of all tensors.

use crate::config::{NormConfig, NormSite, Table};
use crate::parts::{Part, Parts};
use linwright_ops::LinearSlot;
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::kernels::gemm::{Weight, Write};
use linwright_tensor::kernels::norm::Norm;
use linwright_tensor::{HalfType, Halves, Mat, MatRef, Scratch};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The parts of a transformer with their values.
pub(super) type Weights = Parts<TableWeights, NormWeights, LinearSlot>;
/// A layer with its values.
pub(super) type Layer = crate::parts::LayerOf<NormWeights, LinearSlot>;
/// Attention or MLP with its values.
pub(super) type Branch = crate::parts::BranchOf<NormWeights, LinearSlot>;

/// A table and its values.
#[derive(Clone, Debug)]
pub(super) struct TableWeights {
    pub(super) table: Table,
    /// Shape; a vector has one row.
    pub(super) values: TableValues,
}

/// Values of a table. Copies share them until one is changed, like dense weights.
#[derive(Clone, Debug)]
pub(super) enum TableValues {
    Full(Arc<Mat<f32>>),
    /// Held in 16 bits, not trainable.
    Half(Arc<Halves>),
}

/// A norm and its weights.
#[derive(Clone, Debug)]
pub(super) struct NormWeights {
    pub(super) site: NormSite,
    pub(super) weight: Option<Vec<f32>>,
    pub(super) bias: Option<Vec<f32>>,
}

impl TableWeights {
    /// As the weight of a product.
    pub(super) fn weight(&self) -> Weight<'_, f32> {
        match &self.values {
            TableValues::Full(values) => Weight::Full(values.view()),
            TableValues::Half(values) => Weight::Half(values),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.weight().rows()
    }

    /// Writes a row, or adds it to the output.
    pub(super) fn row(&self, at: usize, write: Write, into: &mut [f32]) {
        match (&self.values, write) {
            (TableValues::Full(values), Write::Set) => into.copy_from_slice(values.row(at)),
            (TableValues::Full(values), Write::Add) => add(into, values.row(at)),
            (TableValues::Half(values), Write::Set) => values.widen_row(at, into),
            (TableValues::Half(values), Write::Add) => {
                let mut row = Scratch::<f32>::new(into.len());
                values.widen_row(at, &mut row);
                add(into, &row);
            }
        }
    }

    /// Lets the system reclaim the memory of values in a file.
    pub(super) fn release(&self) {
        match &self.values {
            TableValues::Full(values) => values.release(),
            TableValues::Half(values) => values.release(),
        }
    }

    fn shown(&self) -> Shown<'_> {
        match &self.values {
            TableValues::Full(values) => Shown::Full(values.data()),
            TableValues::Half(values) => Shown::Half(values),
        }
    }

    /// The values, if they are trainable.
    pub(super) fn trained(&self) -> Option<MatRef<'_, f32>> {
        match &self.values {
            TableValues::Full(values) => Some(values.view()),
            TableValues::Half(_) => None,
        }
    }

    fn trained_mut(&mut self) -> Option<&mut [f32]> {
        match &mut self.values {
            TableValues::Full(values) => Some(Arc::make_mut(values).data_mut()),
            TableValues::Half(_) => None,
        }
    }
}

impl NormWeights {
    /// In the form of the kernel, over groups of features.
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

    /// Every stored tensor: name and values.
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
        let mut tensors = Vec::new();
        for (kind, values) in [("weight", &mut self.weight), ("bias", &mut self.bias)] {
            if let Some(values) = values {
                let len = self.site.features / self.site.parts;
                let names = self.site.tensors(kind).map(|(name, _)| name);
                tensors.extend(names.zip(values.chunks_mut(len)));
            }
        }
        tensors
    }
}

/// Values of a tensor in their held type.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// In `f32`.
    Full(&'a [f32]),
    /// In 16 bits.
    Half(&'a Halves),
}

impl<'a> Shown<'a> {
    /// In `f32`: borrowed, or a converted copy.
    #[must_use]
    pub fn numbers(self) -> Cow<'a, [f32]> {
        match self {
            Self::Full(values) => Cow::Borrowed(values),
            Self::Half(values) => Cow::Owned(values.to_mat().into_vec()),
        }
    }

    /// Some of them in `f32`.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[must_use]
    pub fn part(self, range: Range<usize>) -> Vec<f32> {
        match self {
            Self::Full(values) => values[range].to_vec(),
            Self::Half(values) => {
                let mut wide = vec![0.0; range.len()];
                values.half_type().widen(&values.bits()[range], &mut wide);
                wide
            }
        }
    }
}

/// A visitor of tensors: name in checkpoints, shape, values.
pub type ShowTensor<'a> = dyn FnMut(&str, &[usize], Shown<'_>) + 'a;

impl Branch {
    /// Lets the system reclaim the memory of weights in a file.
    pub(super) fn release(&self) {
        self.inputs.iter().chain([&self.output]).for_each(|slot| slot.op().map().release());
    }
}

impl Weights {
    /// Lets the system reclaim the memory of the head's weights, if they are in a file.
    pub(super) fn release_head(&self) {
        let transform = self.transform.as_ref().map(|(slot, _)| slot);
        let slots = [self.project_out.as_ref(), transform, self.head.as_ref()];
        slots.into_iter().flatten().for_each(|slot| slot.op().map().release());
        if self.head.is_none() {
            self.embedding.release();
        }
    }

    /// Visits every tensor outside the slots, in the order of computation.
    pub(super) fn for_each_tensor(&self, show: &mut ShowTensor<'_>) {
        for part in self.each() {
            match part {
                Part::Table(t) => {
                    show(&t.table.name, &t.table.shape, t.shown());
                    t.release();
                }
                Part::Norm(norm) => {
                    norm.tensors().for_each(|(name, values)| {
                        show(&name, &[values.len()], Shown::Full(values));
                    });
                }
                Part::Slot(_) => {}
            }
        }
    }

    /// The first weight held in 16 bits.
    pub(super) fn held_in_half(&self) -> Option<(String, HalfType)> {
        self.each().into_iter().find_map(|part| {
            let (name, weight) = match part {
                Part::Table(t) => (t.table.name.clone(), t.weight()),
                Part::Slot(slot) => (format!("{}.weight", slot.id()), slot.op().map().weight()?),
                Part::Norm(_) => return None,
            };
            match weight {
                Weight::Half(weight) => Some((name, weight.half_type())),
                Weight::Full(_) => None,
            }
        })
    }

    /// Visits every trainable tensor, with those of operators and biases.
    pub(super) fn for_each_param(&self, show: &mut dyn FnMut(&str, &[f32])) {
        for part in self.each() {
            match part {
                Part::Table(t) => {
                    if let Some(values) = t.trained() {
                        show(&t.table.name, values.data());
                    }
                }
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
        let mut trained = Vec::new();
        for part in self.each_mut() {
            match part {
                Part::Table(t) => {
                    let name = t.table.name.clone();
                    trained.extend(t.trained_mut().map(|values| (name, values)));
                }
                Part::Norm(norm) => trained.extend(norm.tensors_mut()),
                Part::Slot(slot) => {
                    let id = slot.id().clone();
                    let (op, bias) = slot.parts_mut();
                    let params = op.map_mut().params_mut().into_iter();
                    trained
                        .extend(params.map(|param| (format!("{id}.{}", param.name), param.values)));
                    trained.extend(bias.map(|bias| (format!("{id}.bias"), bias)));
                }
            }
        }
        trained
    }
}
