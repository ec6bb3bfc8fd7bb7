//! The pass forward.

use super::batch::Batch;
use super::charges::ChargePass;
use super::config::{Family, Group};
use super::directed::{Direction, Geometry, directed_messages};
use super::graph::{Edge, Graph, edges, present};
use super::linear::{Packs, Values, forward, forward_rows};
use super::norm::{Normed, norm};
use super::number::{Dual, Number, Rows};
use super::parts::{PARTS, invariants};
use super::radial::{Filters, Kept, Perceptron};
use super::weights::TensorNet;
use linwright_ops::LinearSlot;
use linwright_tensor::Scalar;
use linwright_tensor::kernels::gemm::Write;
use linwright_tensor::kernels::irreps::jets::{self, JetSquare};

/// Data kept by one layer.
pub(crate) struct LayerPass<N: Number> {
    /// Filters of directed edges, for a model with latent charges.
    pub(crate) directed: Option<Rows<N>>,
    pub(crate) input: Rows<N>,
    pub(crate) normalised: Rows<N>,
    pub(crate) mixed: Rows<N>,
    pub(crate) message: Rows<N>,
    pub(crate) product: Rows<N>,
    pub(crate) update: Rows<N>,
}

/// Data kept by a forward pass.
pub(crate) struct Pass<N: Number> {
    pub(crate) graph: Graph<N>,
    /// Factors of the products of atoms.
    pub(crate) factors: Vec<N::Real>,
    /// Numbers of the species that are present, and channels of their pairs.
    pub(crate) present: Vec<u8>,
    pub(crate) pair_input: Rows<Dual<N::Real>>,
    pub(crate) pairs: Rows<Dual<N::Real>>,
    /// Sums over neighbours, before norm and mixing.
    pub(crate) sums: Rows<N>,
    pub(crate) init_norm: Normed<N>,
    pub(crate) scale_pass: Kept<N>,
    pub(crate) scales: Rows<N>,
    pub(crate) mixed: Rows<N>,
    pub(crate) layers: Vec<LayerPass<N>>,
    /// Latent charges after the embedding and each layer; none without.
    pub(crate) charges: Vec<ChargePass<N>>,
    /// Pairs of the Coulomb energy.
    pub(crate) far: Vec<Edge>,
    pub(crate) last: Rows<N>,
    pub(crate) out_norm: Normed<N>,
    pub(crate) readout_pass: Kept<N>,
    /// Output of each atom, before the factor.
    pub(crate) outputs: Rows<N>,
}

/// Data kept by the embedding, as in [`Pass`].
pub(crate) struct EmbeddingPass<N: Number> {
    pub(crate) present: Vec<u8>,
    pub(crate) pair_input: Rows<Dual<N::Real>>,
    pub(crate) pairs: Rows<Dual<N::Real>>,
    pub(crate) sums: Rows<N>,
    pub(crate) init_norm: Normed<N>,
    pub(crate) scale_pass: Kept<N>,
    pub(crate) scales: Rows<N>,
    pub(crate) mixed: Rows<N>,
}

/// Data kept by the readout, as in [`Pass`].
pub(crate) struct ReadoutPass<N: Number> {
    pub(crate) out_norm: Normed<N>,
    pub(crate) readout_pass: Kept<N>,
    pub(crate) outputs: Rows<N>,
}

/// Mixes channels with a slot for each part.
fn mix<N: Number>(
    (packs, values): (&Packs, &Values<N::Real>),
    slots: &[LinearSlot<N::Real>],
    x: &Rows<N>,
) -> Rows<N> {
    let atoms = x.rows() / 9;
    Values::product(Some(values), Rows::unset(x.rows(), x.cols()), |y, from| {
        for (slot, (first, count)) in slots.iter().zip(PARTS) {
            let rows = first * atoms..(first + count) * atoms;
            forward_rows((packs, slot), x, (&mut *y, from), &rows);
        }
    })
}

impl<T: Scalar> TensorNet<T> {
    pub(crate) fn scale_net<'a>(&'a self, filters: &'a Filters<T>) -> Perceptron<'a, T> {
        let slots = self.embedding.scales.iter().collect();
        let (packs, activation) = (&self.packs, self.config.activation);
        let values = Some(&filters.values);
        Perceptron { slots, packs, values, activation, ends_active: true }
    }

    /// The readout up to the features, and the head.
    pub(crate) fn readout_nets<'a>(&'a self, filters: &'a Filters<T>) -> [Perceptron<'a, T>; 2] {
        let (packs, activation) = (&self.packs, self.config.activation);
        let (linear, head) = (vec![&self.readout.linear], self.readout.head.iter().collect());
        let values = Some(&filters.values);
        [
            Perceptron { slots: linear, packs, values, activation, ends_active: true },
            Perceptron { slots: head, packs, values, activation, ends_active: false },
        ]
    }

    /// The product of an interaction, with the factors of atoms.
    pub(crate) fn square<'a>(&self, factors: &'a [T]) -> JetSquare<'a, T> {
        match self.config.group {
            Group::Orthogonal => JetSquare::Symmetric { factors },
            Group::Rotations => JetSquare::OneSided,
        }
    }

    /// A forward pass; `direction` is that of the tangents.
    pub(crate) fn pass<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        filters: &Filters<T>,
        direction: Option<&[[f64; 3]]>,
    ) -> Pass<N> {
        let graph = Graph::<N>::new(batch, direction);
        let (mut last, embedded) = self.embedding_pass(batch, &graph, filters);
        let factors = self.charge_factors(batch);
        let mut charges: Vec<_> = self.charge_pass(0, batch, &last).into_iter().collect();
        let mut layers = Vec::new();
        for layer in 0..self.layers.len() {
            let of = (batch, &graph, filters, &factors[..]);
            let (next, kept) = self.layer_pass(layer, last, of, charges.last());
            layers.push(kept);
            last = next;
            charges.extend(self.charge_pass(layer + 1, batch, &last));
        }
        let ReadoutPass { out_norm, readout_pass, mut outputs } = self.readout_pass(&last, filters);
        let far = edges(&batch.far, direction);
        if self.config.head.has_coulomb() {
            self.add_coulomb(batch, (&far, &charges), &mut outputs);
        }
        let EmbeddingPass {
            present,
            pair_input,
            pairs,
            sums,
            init_norm,
            scale_pass,
            scales,
            mixed,
        } = embedded;
        Pass {
            graph,
            factors,
            present,
            pair_input,
            pairs,
            sums,
            init_norm,
            scale_pass,
            scales,
            mixed,
            layers,
            charges,
            far,
            last,
            out_norm,
            readout_pass,
            outputs,
        }
    }

    /// Features of atoms from their neighbours, and the kept data.
    pub(crate) fn embedding_pass<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        graph: &Graph<N>,
        filters: &Filters<T>,
    ) -> (Rows<N>, EmbeddingPass<N>) {
        let (h, atoms) = (self.config.channels, batch.atoms());
        let present = present(batch);
        let pair_input = self.pair_input(&present);
        let pairs = forward((&self.packs, &self.embedding.pair), &pair_input);
        let mut sums = Rows::<N>::unset(9 * atoms, h);
        let of = graph.embedding(pairs.planes[0].data());
        jets::embed(graph.rows(), of, filters.embedding.jets(), sums.jets_mut());
        let mut squares = Rows::<N>::unset(atoms, h);
        jets::norms(h, sums.jets(), squares.jets_mut());
        let (normed, init_norm) = norm(&self.embedding.norm, &squares);
        let (scales, scale_pass) = self.scale_net(filters).forward(normed);
        let mixed = mix((&self.packs, &filters.values), &self.embedding.mixing, &sums);
        let mut features = Rows::<N>::unset(9 * atoms, h);
        jets::scale_parts(h, scales.jets(), mixed.jets(), features.jets_mut());
        let kept = EmbeddingPass {
            present,
            pair_input,
            pairs,
            sums,
            init_norm,
            scale_pass,
            scales,
            mixed,
        };
        (features, kept)
    }

    /// Outputs of atoms from their features, without Coulomb energies, and the kept data.
    pub(crate) fn readout_pass<N: Number<Real = T>>(
        &self,
        features: &Rows<N>,
        filters: &Filters<T>,
    ) -> ReadoutPass<N> {
        let (normed, out_norm) = norm(&self.readout.norm, &invariants(features));
        let [read, head] = self.readout_nets(filters);
        let (features, mut readout_pass) = read.forward(normed);
        let (outputs, of_head) = head.forward(features);
        readout_pass.extend(of_head);
        ReadoutPass { out_norm, readout_pass, outputs }
    }

    /// Factors of the products of atoms, by the charges of their molecules; TensorNet2 has none.
    pub(crate) fn charge_factors(&self, batch: &Batch) -> Vec<T> {
        let factor = |molecule: &usize| match self.config.model {
            Family::Tensornet => T::from_f64(1.0 + 0.1 * batch.charges[*molecule]),
            Family::Tensornet2 => T::ONE,
        };
        batch.molecules.iter().map(factor).collect()
    }

    /// Channels of receiver and sender for all pairs of present species.
    fn pair_input(&self, present: &[u8]) -> Rows<Dual<T>> {
        let h = self.config.channels;
        Rows::from_fn(present.len() * present.len(), 2 * h, |i, j| {
            let of = if j < h { i / present.len() } else { i % present.len() };
            Dual::of(self.embedding.species.at(usize::from(present[of]), j % h))
        })
    }

    pub(crate) fn layer_pass<N: Number<Real = T>>(
        &self,
        layer: usize,
        input: Rows<N>,
        (batch, graph, filters, factors): (&Batch, &Graph<N>, &Filters<T>, &[T]),
        charges: Option<&ChargePass<N>>,
    ) -> (Rows<N>, LayerPass<N>) {
        let (rows, h) = (input.rows(), input.cols());
        let mixing = &self.layers[layer].mixing;
        let of = (&self.packs, &filters.values);
        let mut normalised = Rows::<N>::unset(rows, h);
        jets::normalise(h, input.jets(), normalised.jets_mut());
        let mixed = mix(of, &mixing[..3], &normalised);
        let geometry = Geometry { batch, edges: &graph.edges, radial: &filters.radial };
        let directed = charges.map(|stage| self.directed_filter(layer, geometry, &stage.charges));
        let message = match &directed {
            Some(of_edges) => {
                let mut message = Rows::<N>::zeros(rows, h);
                let of = (batch, of_edges);
                directed_messages(&mut message, &mixed, of, Direction::Received);
                message
            }
            None => {
                let mut message = Rows::<N>::unset(rows, h);
                let (of_pairs, to) = (filters.layers[layer].rows.jets(), message.jets_mut());
                jets::gather(graph.rows(), of_pairs, mixed.jets(), to, Write::Set);
                message
            }
        };
        let mut product = Rows::<N>::unset(rows, h);
        let square = self.square(factors);
        jets::product(h, square, mixed.jets(), message.jets(), product.jets_mut());
        let update = mix(of, &mixing[3..], &product);
        let mut next = Rows::<N>::unset(rows, h);
        jets::update(h, factors, [normalised.jets(), update.jets()], next.jets_mut());
        (next, LayerPass { directed, input, normalised, mixed, message, product, update })
    }
}
