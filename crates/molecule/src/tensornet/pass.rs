//! The pass forward.

use super::batch::Batch;
use super::config::Group;
use super::linear::{Normed, forward, forward_rows, norm};
use super::number::{Dual, Number, Rows};
use super::parts::{
    PART_OF, PARTS, compose, decompose, dot, harmonics, normalised, plus, scaled, times,
};
use super::radial::{Filter, Kept, Perceptron, Radial};
use super::weights::TensorNet;
use linwright_ops::LinearSlot;
use linwright_tensor::Scalar;

/// Distance and direction of a pair, first minus second, with their derivatives along the direction
/// of the tangents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) distance: f64,
    pub(crate) unit: [f64; 3],
    pub(crate) distance_tangent: f64,
    pub(crate) unit_tangent: [f64; 3],
}

impl Edge {
    /// The direction from receiver to sender turned round, so that it points to the receiver.
    pub(crate) fn unit<N: Number>(&self, reversed: bool) -> [N; 3] {
        let sign = if reversed { -1.0 } else { 1.0 };
        let real = |x: f64| N::Real::from_f64(sign * x);
        std::array::from_fn(|a| N::new(real(self.unit[a]), real(self.unit_tangent[a])))
    }

    /// A filter, or another function of the distance with its slope.
    #[inline(always)]
    pub(crate) fn of<N: Number>(&self, function: Dual<N::Real>) -> N {
        let along = N::Real::from_f64(self.distance_tangent);
        N::new(function.value, function.tangent * along)
    }
}

/// What one layer keeps.
pub(crate) struct LayerPass<N: Number> {
    pub(crate) filter: Filter<N::Real>,
    pub(crate) input: Rows<N>,
    pub(crate) normalised: Rows<N>,
    pub(crate) mixed: Rows<N>,
    pub(crate) message: Rows<N>,
    pub(crate) product: Rows<N>,
    pub(crate) update: Rows<N>,
}

/// What a pass forward keeps.
pub(crate) struct Pass<N: Number> {
    pub(crate) edges: Vec<Edge>,
    pub(crate) radial: Radial<N::Real>,
    pub(crate) filter: Filter<N::Real>,
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
    pub(crate) last: Rows<N>,
    pub(crate) out_norm: Normed<N>,
    pub(crate) readout_pass: Kept<N>,
    /// Output of each atom, before the factor.
    pub(crate) outputs: Rows<N>,
}

/// What the embedding keeps, as [`Pass`] has it.
pub(crate) struct EmbeddingPass<N: Number> {
    pub(crate) filter: Filter<N::Real>,
    pub(crate) present: Vec<u8>,
    pub(crate) pair_input: Rows<Dual<N::Real>>,
    pub(crate) pairs: Rows<Dual<N::Real>>,
    pub(crate) sums: Rows<N>,
    pub(crate) init_norm: Normed<N>,
    pub(crate) scale_pass: Kept<N>,
    pub(crate) scales: Rows<N>,
    pub(crate) mixed: Rows<N>,
}

/// What the readout keeps, as [`Pass`] has it.
pub(crate) struct ReadoutPass<N: Number> {
    pub(crate) out_norm: Normed<N>,
    pub(crate) readout_pass: Kept<N>,
    pub(crate) outputs: Rows<N>,
}

/// Mixes channels with a slot for each part.
pub(crate) fn mix<N: Number>(slots: &[LinearSlot<N::Real>], x: &Rows<N>) -> Rows<N> {
    let atoms = x.rows() / 9;
    let mut y = Rows::zeros(x.rows(), x.cols());
    for (slot, (first, count)) in slots.iter().zip(PARTS) {
        forward_rows(slot, x, &mut y, &(first * atoms..(first + count) * atoms));
    }
    y
}

/// Adds messages: `out_i += Σ_j f_ij y_j + f_0 y_i`. The same serves the pass back, since filters
/// are symmetric.
pub(crate) fn messages<N: Number>(
    out: &mut Rows<N>,
    y: &Rows<N>,
    filter: &Rows<Dual<N::Real>>,
    (batch, edges): (&Batch, &[Edge]),
) {
    let (h, itself) = (y.cols(), filter.rows() - 1);
    for atom in 0..batch.atoms() {
        for channel in 0..h {
            let own: [N; 3] =
                std::array::from_fn(|p| N::of(filter.at(itself, p * h + channel).value));
            let of_atom = y.nine(atom, channel);
            let mut sums = out.nine(atom, channel);
            (0..9).for_each(|c| sums[c] += own[PART_OF[c]] * of_atom[c]);
            for entry in batch.neighbours.of(atom) {
                let pair = entry.pair as usize;
                let f: [N; 3] =
                    std::array::from_fn(|p| edges[pair].of(filter.at(pair, p * h + channel)));
                let sent = y.nine(entry.atom as usize, channel);
                (0..9).for_each(|c| sums[c] += f[PART_OF[c]] * sent[c]);
            }
            out.set_nine(atom, channel, sums);
        }
    }
}

impl<T: Scalar> TensorNet<T> {
    pub(crate) fn scale_net(&self) -> Perceptron<'_, T> {
        let slots = self.embedding.scales.iter().collect();
        Perceptron { slots, activation: self.config.activation, ends_active: true }
    }

    /// The readout up to the features, and the head.
    pub(crate) fn readout_nets(&self) -> [Perceptron<'_, T>; 2] {
        let activation = self.config.activation;
        let head = self.readout.head.iter().collect();
        [
            Perceptron { slots: vec![&self.readout.linear], activation, ends_active: true },
            Perceptron { slots: head, activation, ends_active: false },
        ]
    }

    /// Factor of the products of an atom.
    pub(crate) fn charge_factor(batch: &Batch, atom: usize) -> f64 {
        1.0 + 0.1 * batch.charges[batch.molecules[atom]]
    }

    /// A pass forward; `direction` is that of the tangents.
    pub(crate) fn pass<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        direction: Option<&[[f64; 3]]>,
    ) -> Pass<N> {
        let edges = edges(batch, direction);
        let radial = self.radial(edges.iter().map(|edge| edge.distance));
        let (mut last, embedded) = self.embedding_pass(batch, &edges, &radial);
        let mut layers = Vec::new();
        for layer in 0..self.config.layers {
            let (next, kept) = self.layer_pass(layer, last, (batch, &edges, &radial));
            layers.push(kept);
            last = next;
        }
        let EmbeddingPass {
            filter,
            present,
            pair_input,
            pairs,
            sums,
            init_norm,
            scale_pass,
            scales,
            mixed,
        } = embedded;
        let ReadoutPass { out_norm, readout_pass, outputs } = self.readout_pass(&last);
        Pass {
            edges,
            radial,
            filter,
            present,
            pair_input,
            pairs,
            sums,
            init_norm,
            scale_pass,
            scales,
            mixed,
            layers,
            last,
            out_norm,
            readout_pass,
            outputs,
        }
    }

    /// Features of atoms from their neighbours, and what that keeps.
    pub(crate) fn embedding_pass<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        edges: &[Edge],
        radial: &Radial<T>,
    ) -> (Rows<N>, EmbeddingPass<N>) {
        let filter = self.embedding_filter(radial);
        let present: Vec<u8> = (0..=u8::MAX).filter(|z| batch.species.contains(z)).collect();
        let pair_input = self.pair_input(&present);
        let pairs = forward(&self.embedding.pair, &pair_input);
        let sums = self.sums(batch, edges, (&filter.rows, &present, &pairs));
        let h = self.config.channels;
        let atoms = batch.atoms();
        let squared = |i, j| {
            let t = sums.nine(i, j);
            dot(t, t)
        };
        let squares = Rows::from_fn(atoms, h, squared);
        let (normed, init_norm) = norm(&self.embedding.norm, &squares);
        let (scales, scale_pass) = self.scale_net().forward(normed);
        let mixed = mix(&self.embedding.mixing, &sums);
        let mut features = Rows::zeros(9 * atoms, h);
        for i in 0..atoms {
            for j in 0..h {
                let t = mixed.nine(i, j);
                let scale = |c: usize| scales.at(i, PART_OF[c] * h + j);
                features.set_nine(i, j, std::array::from_fn(|c| t[c] * scale(c)));
            }
        }
        let kept = EmbeddingPass {
            filter,
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

    /// Outputs of atoms from their features, and what that keeps.
    pub(crate) fn readout_pass<N: Number<Real = T>>(&self, features: &Rows<N>) -> ReadoutPass<N> {
        let (normed, out_norm) = norm(&self.readout.norm, &invariants(features));
        let [read, head] = self.readout_nets();
        let (features, mut readout_pass) = read.forward(normed);
        let (outputs, of_head) = head.forward(features);
        readout_pass.extend(of_head);
        ReadoutPass { out_norm, readout_pass, outputs }
    }

    /// Channels of receiver and sender for all pairs of present species.
    fn pair_input(&self, present: &[u8]) -> Rows<Dual<T>> {
        let h = self.config.channels;
        Rows::from_fn(present.len() * present.len(), 2 * h, |i, j| {
            let of = if j < h { i / present.len() } else { i % present.len() };
            Dual::of(self.embedding.species.at(usize::from(present[of]), j % h))
        })
    }

    fn sums<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        edges: &[Edge],
        (filter, present, pairs): (&Rows<Dual<T>>, &[u8], &Rows<Dual<T>>),
    ) -> Rows<N> {
        let h = self.config.channels;
        let mut sums = Rows::zeros(9 * batch.atoms(), h);
        let index = |atom: usize| place(present, batch.species[atom]);
        let root: N = N::real(3.0_f64.sqrt());
        for atom in 0..batch.atoms() {
            let own = index(atom) * present.len() + index(atom);
            for j in 0..h {
                let z = pairs.at(own, j).value * filter.at(filter.rows() - 1, j).value;
                sums.add(atom, j, N::of(z) * root);
            }
            for entry in batch.neighbours.of(atom) {
                let edge = &edges[entry.pair as usize];
                let basis = harmonics::<N>(edge.unit(entry.reversed));
                let row = index(atom) * present.len() + index(entry.atom as usize);
                for j in 0..h {
                    let z = N::of(pairs.at(row, j).value);
                    let f: [N; 3] = std::array::from_fn(|p| {
                        edge.of::<N>(filter.at(entry.pair as usize, p * h + j)) * z
                    });
                    let mut t = sums.nine(atom, j);
                    (0..9).for_each(|c| t[c] += f[PART_OF[c]] * basis[c]);
                    sums.set_nine(atom, j, t);
                }
            }
        }
        sums
    }

    pub(crate) fn layer_pass<N: Number<Real = T>>(
        &self,
        layer: usize,
        input: Rows<N>,
        (batch, edges, radial): (&Batch, &[Edge], &Radial<T>),
    ) -> (Rows<N>, LayerPass<N>) {
        let (atoms, h) = (batch.atoms(), input.cols());
        let filter = self.layer_filter(radial, layer);
        let mixing = &self.layers[layer].mixing;
        let mut hat = Rows::zeros(9 * atoms, h);
        each(atoms, h, |i, j| hat.set_nine(i, j, normalised(input.nine(i, j))));
        let mixed = mix(&mixing[..3], &hat);
        let mut message = Rows::zeros(9 * atoms, h);
        messages(&mut message, &mixed, &filter.rows, (batch, edges));
        let mut product = Rows::zeros(9 * atoms, h);
        each(atoms, h, |i, j| {
            let k = Self::charge_factor(batch, i);
            let p = self.product(mixed.nine(i, j), message.nine(i, j), k);
            product.set_nine(i, j, normalised(p));
        });
        let update = mix(&mixing[3..], &product);
        let mut next = Rows::zeros(9 * atoms, h);
        each(atoms, h, |i, j| {
            let (d, x) = (compose(update.nine(i, j)), compose(hat.nine(i, j)));
            let square = scaled(times(d, d), N::real(Self::charge_factor(batch, i)));
            next.set_nine(i, j, decompose(plus(plus(x, d), square)));
        });
        let normalised = hat;
        (next, LayerPass { filter, input, normalised, mixed, message, product, update })
    }

    /// `k (Y M + M Y)`, or `2 Y M` for rotations alone.
    #[inline(always)]
    pub(crate) fn product<N: Number<Real = T>>(&self, y: [N; 9], m: [N; 9], k: f64) -> [N; 9] {
        let (y, m) = (compose(y), compose(m));
        decompose(match self.config.group {
            Group::Orthogonal => scaled(plus(times(y, m), times(m, y)), N::real(k)),
            Group::Rotations => scaled(times(y, m), N::real(2.0)),
        })
    }
}

/// Index of a species among those present.
pub(crate) fn place(present: &[u8], species: u8) -> usize {
    present.iter().position(|z| *z == species).unwrap_or(0)
}

/// Squared norms of the three parts of each atom, side by side.
pub(crate) fn invariants<N: Number>(x: &Rows<N>) -> Rows<N> {
    let h = x.cols();
    Rows::from_fn(x.rows() / 9, 3 * h, |i, j| {
        let (t, (first, count)) = (x.nine(i, j % h), PARTS[j / h]);
        let mut sum = N::ZERO;
        t[first..first + count].iter().for_each(|x| sum += *x * *x);
        sum
    })
}

/// Every atom and channel.
pub(crate) fn each(atoms: usize, channels: usize, mut work: impl FnMut(usize, usize)) {
    for i in 0..atoms {
        (0..channels).for_each(|j| work(i, j));
    }
}

pub(crate) fn edges(batch: &Batch, direction: Option<&[[f64; 3]]>) -> Vec<Edge> {
    let edge = |pair: &crate::Pair| {
        let v = pair.vector;
        let distance = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let unit = v.map(|x| x / distance);
        let moved = direction.map_or([0.0; 3], |all| {
            let (first, second) = (all[pair.first as usize], all[pair.second as usize]);
            std::array::from_fn(|a| first[a] - second[a])
        });
        let along: f64 = (0..3).map(|a| unit[a] * moved[a]).sum();
        let unit_tangent = std::array::from_fn(|a| (moved[a] - unit[a] * along) / distance);
        Edge { distance, unit, distance_tangent: along, unit_tangent }
    };
    batch.neighbours.pairs.iter().map(edge).collect()
}
