//! Pairs of a batch in the layout of kernels, with derivatives along a direction of positions.

use super::batch::Batch;
use super::number::{Dual, Number, Rows};
use super::parts::harmonics;
use crate::Pair;
use linwright_tensor::Scalar;
use linwright_tensor::kernels::irreps::jets::{EmbeddingJets, JetEdges};

/// Distance and direction of a pair, first minus second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) distance: f64,
    pub(crate) unit: [f64; 3],
    /// Derivatives along the direction of the tangents.
    along: f64,
    unit_along: [f64; 3],
}

impl Edge {
    /// The direction to the receiver, which is the second atom if `reversed`.
    fn unit<N: Number>(&self, reversed: bool) -> [N; 3] {
        let sign = if reversed { -1.0 } else { 1.0 };
        let real = |x: f64| N::Real::from_f64(sign * x);
        std::array::from_fn(|a| N::new(real(self.unit[a]), real(self.unit_along[a])))
    }

    /// A function of the distance, from its value and slope.
    #[inline(always)]
    pub(crate) fn of<N: Number>(&self, function: Dual<N::Real>) -> N {
        N::new(function.value, function.tangent * N::Real::from_f64(self.along))
    }
}

/// Pairs and rows of a batch.
pub(crate) struct Graph<N: Number> {
    pub(crate) edges: Vec<Edge>,
    /// Ends of pairs.
    pub(crate) ends: Vec<[u32; 2]>,
    /// Derivatives of the pairs' distances.
    pub(crate) along: Vec<N::Real>,
    starts: Vec<u32>,
    senders: Vec<u32>,
    pairs: Vec<u32>,
    /// Ordered pairs of species of entries, then of atoms and themselves.
    kinds: Vec<u32>,
    /// Tensors of the directions of entries.
    shapes: Rows<N>,
}

/// The species of a batch, in order.
pub(crate) fn present(batch: &Batch) -> Vec<u8> {
    (0..=u8::MAX).filter(|z| batch.species.contains(z)).collect()
}

impl<N: Number> Graph<N> {
    /// The graph of a batch; `direction` is that of the tangents.
    pub(crate) fn new(batch: &Batch, direction: Option<&[[f64; 3]]>) -> Self {
        let edges = edges(&batch.neighbours.pairs, direction);
        let neighbours = &batch.neighbours;
        let present = present(batch);
        let place = |atom: usize| {
            let species = batch.species[atom];
            present.iter().position(|z| *z == species).unwrap_or(0)
        };
        let kind = |receiver: usize, sender: usize| {
            (place(receiver) * present.len() + place(sender)) as u32
        };
        let rows = neighbours.starts.windows(2).enumerate();
        let of_row = |(atom, ends): (usize, &[u32])| {
            let row = &neighbours.entries[ends[0] as usize..ends[1] as usize];
            row.iter().map(move |entry| (atom, entry.atom as usize))
        };
        let kinds = rows.flat_map(of_row).map(|(atom, sender)| kind(atom, sender));
        let kinds = kinds.chain((0..batch.atoms()).map(|atom| kind(atom, atom))).collect();
        let mut shapes = Rows::zeros(neighbours.entries.len(), 9);
        for (i, entry) in neighbours.entries.iter().enumerate() {
            let shape = harmonics(edges[entry.pair as usize].unit::<N>(entry.reversed));
            shape.into_iter().enumerate().for_each(|(c, number)| shapes.set(i, c, number));
        }
        Self {
            ends: neighbours.pairs.iter().map(|pair| [pair.first, pair.second]).collect(),
            along: edges.iter().map(|edge| N::Real::from_f64(edge.along)).collect(),
            starts: neighbours.starts.clone(),
            senders: neighbours.entries.iter().map(|entry| entry.atom).collect(),
            pairs: neighbours.entries.iter().map(|entry| entry.pair).collect(),
            kinds,
            shapes,
            edges,
        }
    }

    pub(crate) fn rows(&self) -> JetEdges<'_, N::Real> {
        let Self { starts, senders, pairs, along, .. } = self;
        JetEdges { starts, senders, pairs, along }
    }

    /// Input of the embedding, with the channels of all ordered pairs of species.
    pub(crate) fn embedding<'a>(&'a self, species: &'a [N::Real]) -> EmbeddingJets<'a, N::Real> {
        EmbeddingJets { kinds: &self.kinds, shapes: self.shapes.jets(), species }
    }
}

/// Distances and directions of pairs; `direction` is that of the tangents.
pub(crate) fn edges(pairs: &[Pair], direction: Option<&[[f64; 3]]>) -> Vec<Edge> {
    let edge = |pair: &Pair| {
        let v = pair.vector;
        let distance = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let unit = v.map(|x| x / distance);
        let moved = direction.map_or([0.0; 3], |all| {
            let (first, second) = (all[pair.first as usize], all[pair.second as usize]);
            std::array::from_fn(|a| first[a] - second[a])
        });
        let along: f64 = (0..3).map(|a| unit[a] * moved[a]).sum();
        let unit_along = std::array::from_fn(|a| (moved[a] - unit[a] * along) / distance);
        Edge { distance, unit, along, unit_along }
    };
    pairs.iter().map(edge).collect()
}
