//! A TensorNet as a network with slots, for capture and fits.
//!
//! Stages are the embedding, each layer, and the readout. A probe receives the input rows of a
//! slot, in single precision and without slopes:
//!
//! - `mixing`: one row for each atom and component of the part (1, 3 or 5), component by component;
//! - `filter` and `species`: one row for each edge from a sender to a receiver, with that of each
//!   atom to itself, although filters are computed once for both directions of a pair: sums over
//!   rows then weight a filter by its use in messages;
//! - `scale`, `readout`, `head`: one row for each atom.

use super::batch::Batch;
use super::config::Family;
use super::graph::Graph;
use super::linear::forward;
use super::number::{Number, Rows};
use super::parts::PARTS;
use super::pass::{EmbeddingPass, LayerPass};
use super::radial::{Filter, Kept, Radial};
use super::weights::TensorNet;
use crate::{MoleculeError, Neighbour};
use linwright_ops::{ExampleRows, LinearSlot, Network, Probe, Seen, SiteId};
use linwright_tensor::{Mat, MatRef, Scalar};
use std::ops::Range;

/// State between two stages of a [`TensorNet`]: features of atoms (9 * atoms, channels), component
/// by component; after the readout the outputs of atoms (atoms, outputs).
#[derive(Clone, Debug)]
pub struct TensorNetState {
    features: Mat<f32>,
}

impl TensorNetState {
    /// The features, or the outputs.
    #[must_use]
    pub fn features(&self) -> &Mat<f32> {
        &self.features
    }
}

impl<T: Scalar> TensorNet<T> {
    /// Number of trained parameters outside the operators of slots: species, norms, biases, and
    /// radial functions if they are trained.
    #[must_use]
    pub fn parameters_outside_operators(&self) -> u64 {
        let norms = [&self.embedding.norm, &self.readout.norm];
        let norms = norms.into_iter().chain(self.charges.iter().map(|stage| &stage.norm));
        let norms: usize = norms.map(|norm| norm.scale.len() + norm.shift.len()).sum();
        let slots = self.linears().into_iter().filter_map(LinearSlot::bias);
        let biases: usize = slots.map(<[T]>::len).sum();
        let basis = match self.config.trainable_rbf {
            true => self.basis.centres.len() + self.basis.widths.len(),
            false => 0,
        };
        (self.embedding.species.data().len() + norms + biases + basis) as u64
    }
}

impl Network for TensorNet {
    type Input = Batch;
    type State = TensorNetState;
    type Error = MoleculeError;

    fn stages(&self) -> usize {
        self.config.layers + 2
    }

    /// # Errors
    /// [`MoleculeError::Architecture`] for a model with latent charges, on which its filters
    /// depend, and [`MoleculeError::NotLinear`].
    fn begin(&self, _input: &Batch) -> Result<TensorNetState, MoleculeError> {
        if self.config.model == Family::Tensornet2 {
            let (found, expected) = ("tensornet2".into(), "tensornet".into());
            return Err(MoleculeError::Architecture { option: "model", found, expected });
        }
        self.check_linear()?;
        Ok(TensorNetState { features: Mat::default() })
    }

    fn run_stages(
        &self,
        state: &mut TensorNetState,
        input: &Batch,
        stages: Range<usize>,
        probe: &mut dyn Probe,
    ) -> Result<(), MoleculeError> {
        self.check_linear()?;
        let readout = self.config.layers + 1;
        let (graph, filters) = (Graph::<f32>::new(input, None), self.filters(input));
        let factors = self.charge_factors(input);
        let mut watch = Watch { probe, batch: input };
        for stage in stages {
            let features = Rows { planes: vec![std::mem::take(&mut state.features)] };
            let mut next: Rows<f32> = match stage {
                0 => {
                    let (next, kept) = self.embedding_pass(input, &graph, &filters);
                    watch.embedding(self, &filters.radial, &kept);
                    next
                }
                layer if layer < readout => {
                    let of = (input, &graph, &filters, &factors[..]);
                    let (next, kept) = self.layer_pass(layer - 1, features, of, None);
                    watch.layer(self, layer - 1, &filters.layers[layer - 1], &kept);
                    next
                }
                last if last == readout => {
                    let kept = self.readout_pass(&features, &filters);
                    let slots = std::iter::once(&self.readout.linear).chain(&self.readout.head);
                    watch.perceptron(slots, &kept.readout_pass);
                    kept.outputs
                }
                other => panic!("stage {other} of {}", self.stages()),
            };
            state.features =
                std::mem::take(&mut next.planes).into_iter().next().unwrap_or_default();
            if !state.features.data().iter().all(|x| x.is_finite()) {
                return Err(MoleculeError::NotFinite { what: "feature of an atom" });
            }
            if watch.probe.satisfied() {
                break;
            }
        }
        Ok(())
    }

    fn state_matrices(state: &mut TensorNetState) -> Vec<&mut Mat<f32>> {
        vec![&mut state.features]
    }

    fn state_bytes(state: &TensorNetState) -> usize {
        size_of_val(state.features.data())
    }

    fn other_parameters(&self) -> u64 {
        self.parameters_outside_operators()
    }
}

/// Shows the slots of a stage to a probe, from the inputs and outputs kept by the stage.
struct Watch<'a> {
    probe: &'a mut dyn Probe,
    batch: &'a Batch,
}

impl Watch<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        self.probe.wants(site)
    }

    fn show(&mut self, slot: &LinearSlot, [x, y]: [MatRef<'_, f32>; 2], examples: &[ExampleRows]) {
        self.probe.on_forward(slot.id(), Seen { x, y, examples });
    }

    /// A slot over atoms.
    fn atoms(&mut self, slot: &LinearSlot, [x, y]: [&Mat<f32>; 2]) {
        if self.wants(slot.id()) {
            let examples = ExampleRows::of_spans(&self.spans());
            self.show(slot, [x.view(), y.view()], &examples);
        }
    }

    /// Slots of a perceptron over atoms.
    fn perceptron<'s>(&mut self, slots: impl Iterator<Item = &'s LinearSlot>, kept: &Kept<f32>) {
        for (slot, (x, y)) in slots.zip(kept) {
            self.atoms(slot, [&x.planes[0], &y.planes[0]]);
        }
    }

    /// Slots that mix the channels of the three parts.
    fn mixing(&mut self, slots: &[LinearSlot], [x, y]: [&Rows<f32>; 2]) {
        let atoms = self.batch.atoms();
        for (slot, (first, count)) in slots.iter().zip(PARTS) {
            if !self.wants(slot.id()) {
                continue;
            }
            let spans = self.spans();
            let of_component = |component: usize| {
                let moved = |range: &Range<usize>| {
                    component * atoms + range.start..component * atoms + range.end
                };
                ExampleRows::of_spans(&spans.iter().map(moved).collect::<Vec<_>>())
            };
            let examples: Vec<ExampleRows> = (0..count).flat_map(of_component).collect();
            let part =
                [x, y].map(|rows| rows.planes[0].view().rows_range(first * atoms, count * atoms));
            self.show(slot, part, &examples);
        }
    }

    /// A slot over edges, from the rows of pairs and of atoms themselves.
    fn edges<N: Number<Real = f32>>(
        &mut self,
        slot: &LinearSlot,
        [x, y]: [&Rows<N>; 2],
        row: impl Fn(usize, Option<&Neighbour>) -> usize,
    ) {
        if !self.wants(slot.id()) {
            return;
        }
        let (mut rows, mut spans) = (Vec::new(), Vec::new());
        for atoms in self.spans() {
            let start = rows.len();
            for atom in atoms {
                rows.push(row(atom, None));
                rows.extend(self.batch.neighbours.of(atom).iter().map(|e| row(atom, Some(e))));
            }
            spans.push(start..rows.len());
        }
        let gathered = |all: &Rows<N>| {
            let all = &all.planes[0];
            Mat::from_fn(rows.len(), all.cols(), |i, j| all.at(rows[i], j))
        };
        let [x, y] = [gathered(x), gathered(y)];
        self.show(slot, [x.view(), y.view()], &ExampleRows::of_spans(&spans));
    }

    fn embedding(&mut self, net: &TensorNet, radial: &Radial<f32>, kept: &EmbeddingPass<f32>) {
        let EmbeddingPass { present, pair_input, pairs, sums, scale_pass, mixed, .. } = kept;
        let species = &self.batch.species;
        let kind = |receiver: usize, edge: Option<&Neighbour>| {
            let sender = edge.map_or(receiver, |edge| edge.atom as usize);
            let place = |z: u8| present.iter().position(|own| *own == z).unwrap_or(0);
            let [to, from] = [receiver, sender].map(|atom| place(species[atom]));
            to * present.len() + from
        };
        self.edges(&net.embedding.pair, [pair_input, pairs], kind);
        let itself = radial.functions.rows() - 1;
        for slot in &net.embedding.filters {
            if self.wants(slot.id()) {
                let y = forward((&net.packs, slot), &radial.functions);
                self.edges(slot, [&radial.functions, &y], pair_or(itself));
            }
        }
        self.perceptron(net.embedding.scales.iter(), scale_pass);
        self.mixing(&net.embedding.mixing, [sums, mixed]);
    }

    fn layer(
        &mut self,
        net: &TensorNet,
        layer: usize,
        filter: &Filter<f32>,
        kept: &LayerPass<f32>,
    ) {
        let LayerPass { normalised, mixed, product, update, .. } = kept;
        let slots = &net.layers[layer];
        let itself = filter.rows.rows() - 1;
        for (slot, (x, y)) in slots.filters.iter().zip(&filter.kept) {
            self.edges(slot, [x, y], pair_or(itself));
        }
        self.mixing(&slots.mixing[..3], [normalised, mixed]);
        self.mixing(&slots.mixing[3..], [product, update]);
    }

    /// Atoms of each structure.
    fn spans(&self) -> Vec<Range<usize>> {
        let mut spans = vec![0..0; self.batch.charges.len()];
        for (atom, molecule) in self.batch.molecules.iter().enumerate() {
            let span = &mut spans[*molecule];
            let start = if span.start == span.end { atom } else { span.start };
            *span = start..atom + 1;
        }
        spans
    }
}

/// The row of the pair of an edge, or that of an atom to itself.
fn pair_or(itself: usize) -> impl Fn(usize, Option<&Neighbour>) -> usize {
    move |_, edge| edge.map_or(itself, |edge| edge.pair as usize)
}
