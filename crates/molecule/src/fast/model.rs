//! The stages of a structure: weights, and passes over blocks of atoms.

use super::arena::Arena;
use super::blocks::{self, EmbeddingBlock, LayerBlock};
use super::dense::{Affine, Mixing, Packed, dense};
use super::filters::Filters;
use super::graph::Graph;
use crate::tensornet::{Group, Nonlinearity, TensorNet};
use linwright_tensor::kernels::irreps::{COMPONENTS, PARTS, Square};
use linwright_tensor::kernels::norm::{Norm, NormKind};
use linwright_tensor::{Mat, parallel};

/// Most atoms of a block: the height of the tallest tile of a matrix product.
const BLOCK: usize = 14;

/// Scale and shift of a layer norm.
#[derive(Debug)]
pub(super) struct LayerNorm {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl LayerNorm {
    fn new(norm: &crate::tensornet::weights::Norm<f64>) -> Self {
        let single = |numbers: &[f64]| numbers.iter().map(|number| *number as f32).collect();
        Self { scale: single(&norm.scale), shift: single(&norm.shift) }
    }

    pub(super) fn norm(&self) -> Norm<'_> {
        /// That of torchmd-net.
        const EPSILON: f64 = 1e-5;
        Norm {
            kind: NormKind::Layer,
            epsilon: EPSILON,
            weight: Some(&self.scale),
            bias: Some(&self.shift),
            offset: 0.0,
            group: self.scale.len(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Embedding {
    pub norm: LayerNorm,
    pub scales: [Packed; 2],
    pub mixing: Mixing,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub before: Mixing,
    pub after: Mixing,
    /// Filters of an atom to itself (3, channels).
    pub own: Vec<f32>,
}

#[derive(Debug)]
pub(super) struct Readout {
    pub norm: LayerNorm,
    pub linear: Packed,
    pub hidden: Packed,
    /// The last layer, of one output.
    pub last: Vec<f32>,
    pub bias: f32,
}

/// Channels of the pairs of species met so far.
#[derive(Debug)]
struct Pairs {
    species: Mat<f64>,
    linear: Affine<f64>,
    /// First filters of an atom to itself.
    own: Vec<f64>,
    /// Atomic numbers met, and the place of each.
    met: Vec<u8>,
    places: Vec<usize>,
    /// Channels of ordered pairs (met, met, channels).
    channels: Vec<f32>,
    /// Channels of an atom's edge to itself (met, channels).
    of_self: Vec<f32>,
}

impl Pairs {
    fn meet(&mut self, species: &[u8]) {
        let before = self.met.len();
        for z in species {
            if self.places[usize::from(*z)] == usize::MAX {
                self.places[usize::from(*z)] = self.met.len();
                self.met.push(*z);
            }
        }
        if self.met.len() == before {
            return;
        }
        let (count, width) = (self.met.len(), self.species.cols());
        let row = |z: u8| self.species.row(usize::from(z));
        let inputs = Mat::from_fn(count * count, 2 * width, |pair, k| {
            let (receiver, sender) = (self.met[pair / count], self.met[pair % count]);
            if k < width { row(receiver)[k] } else { row(sender)[k - width] }
        });
        let found = self.linear.values(&inputs);
        self.channels = found.data().iter().map(|number| *number as f32).collect();
        let of_self = |place: usize| found.row(place * count + place).iter().zip(&self.own);
        let numbers = (0..count).flat_map(of_self).map(|(pair, own)| (pair * own) as f32);
        self.of_self = numbers.collect();
    }
}

/// What the passes read of one structure.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub graph: &'a Graph,
    pub tables: &'a [Vec<f32>],
    pub species: &'a [u8],
    pub charge: f64,
    /// Share of an atom's output in the energy.
    pub share: f64,
    pub forces: bool,
}

/// Weights of a model, packed.
#[derive(Debug)]
pub(super) struct Model {
    pub channels: usize,
    pub activation: Nonlinearity,
    pub mean: f64,
    pub std: f64,
    group: Group,
    pub embedding: Embedding,
    pub layers: Vec<Layer>,
    pub readout: Readout,
    pairs: Pairs,
}

impl Model {
    pub(super) fn new(model: &TensorNet<f64>, filters: &Filters<f64>) -> Self {
        let own = |stage: usize| {
            let [values, _] = filters.exactly(stage, &[0.0]);
            values.into_vec()
        };
        let single = |numbers: Vec<f64>| numbers.into_iter().map(|number| number as f32).collect();
        let config = model.config();
        let layer = |(index, layer): (usize, &crate::tensornet::weights::Interaction<f64>)| {
            let [a, b, c, d, e, f] = layer.mixing.each_ref();
            Layer {
                before: Mixing::new([a, b, c]),
                after: Mixing::new([d, e, f]),
                own: single(own(index + 1)),
            }
        };
        let (embedding, readout) = (&model.embedding, &model.readout);
        let [hidden, last] = &readout.head;
        Self {
            channels: config.channels,
            activation: config.activation,
            mean: model.mean,
            std: model.std,
            group: config.group,
            embedding: Embedding {
                norm: LayerNorm::new(&embedding.norm),
                scales: embedding.scales.each_ref().map(Packed::new),
                mixing: Mixing::new(embedding.mixing.each_ref()),
            },
            layers: model.layers.iter().enumerate().map(layer).collect(),
            readout: Readout {
                norm: LayerNorm::new(&readout.norm),
                linear: Packed::new(&readout.linear),
                hidden: Packed::new(hidden),
                last: single(dense(last).into_vec()),
                bias: last.bias().map_or(0.0, |bias| bias[0] as f32),
            },
            pairs: Pairs {
                species: embedding.species.clone(),
                linear: Affine::new(&embedding.pair),
                own: own(0)[..config.channels].to_vec(),
                met: Vec::new(),
                places: vec![usize::MAX; config.species],
                channels: Vec::new(),
                of_self: Vec::new(),
            },
        }
    }

    /// Prepares for species, which the model must know.
    pub(super) fn meet(&mut self, species: &[u8]) {
        self.pairs.meet(species);
    }

    /// Row of an ordered pair of species, both met.
    pub(super) fn kind(&self, receiver: u8, sender: u8) -> u32 {
        let place = |z: u8| self.pairs.places[usize::from(z)];
        (place(receiver) * self.pairs.met.len() + place(sender)) as u32
    }

    /// Energies of atoms; gradients of distances and directions if forces are wanted.
    pub(super) fn run(&self, input: &Input<'_>, arena: &mut Arena) {
        let atoms = input.graph.order.len();
        let sizes = [atoms, input.graph.entries(), self.layers.len(), self.channels];
        arena.fit(sizes, input.forces);
        if atoms == 0 {
            return;
        }
        let block = atoms.div_ceil(atoms.div_ceil(BLOCK));
        self.embed(input, arena, block);
        for layer in 0..self.layers.len() {
            self.interact(input, arena, block, layer);
        }
        self.read_out(input, arena, block);
        if input.forces {
            for layer in (0..self.layers.len()).rev() {
                self.interact_backward(input, arena, block, layer);
            }
            self.embed_backward(input, arena, block);
        }
    }

    fn pass(&self, input: &Input<'_>) -> blocks::Pass<'_> {
        let factor = (1.0 + 0.1 * input.charge) as f32;
        let square = match self.group {
            Group::Orthogonal => Square::Symmetric { factor },
            Group::Rotations => Square::OneSided,
        };
        let seed = (self.std * input.share) as f32;
        blocks::Pass { model: self, square, factor, seed, forces: input.forces }
    }

    fn embed(&self, input: &Input<'_>, arena: &mut Arena, block: usize) {
        let (h, pass) = (self.channels, self.pass(input));
        let tensors = block * COMPONENTS * h;
        let embedded = arena.embedded.chunks_mut(tensors);
        let mixed = arena.mixed.chunks_mut(tensors);
        let norms = arena.norms.chunks_mut(block * h);
        let hidden = arena.hidden.chunks_mut(2 * block * h);
        let scales = arena.scales.chunks_mut(PARTS * block * h);
        let gradient = arena.current.chunks_mut(tensors);
        let items = embedded.zip(mixed).zip(norms).zip(hidden).zip(scales).zip(gradient);
        let items = items.map(|(((((embedded, mixed), norms), hidden), scales), x)| {
            (EmbeddingBlock { embedded, mixed, norms, hidden, scales }, x)
        });
        let edges = input.graph.embedding(&self.pairs.channels);
        let table = &input.tables[0];
        parallel::for_each(items.collect(), |index, (mut to, x)| {
            let atoms = index * block..index * block + x.len() / (COMPONENTS * h);
            let of_self = |atom: &u32| {
                let place = self.pairs.places[usize::from(input.species[*atom as usize])];
                &self.pairs.of_self[place * h..(place + 1) * h]
            };
            let own: Vec<f32> =
                input.graph.order[atoms.clone()].iter().flat_map(of_self).copied().collect();
            linwright_tensor::kernels::irreps::embed(edges, atoms, table, &own, to.embedded);
            pass.embed(&mut to, x);
        });
        self.begin_layer(arena, block, 0);
    }

    /// Normalises and mixes the tensors at the start of a layer.
    fn begin_layer(&self, arena: &mut Arena, block: usize, layer: usize) {
        let (Some(weights), Some(to)) = (self.layers.get(layer), arena.layers.get_mut(layer))
        else {
            return;
        };
        let h = self.channels;
        let tensors = block * COMPONENTS * h;
        let items = arena.current.chunks(tensors).zip(to.normal.chunks_mut(tensors));
        let items = items.zip(to.inverse.chunks_mut(block * h));
        let items = items.zip(to.features.chunks_mut(tensors)).collect();
        parallel::for_each(items, |_, (((x, normal), inverse), features)| {
            linwright_tensor::kernels::irreps::normalise(h, x, normal, inverse);
            weights.before.forward(h, normal, features);
        });
    }

    fn interact(&self, input: &Input<'_>, arena: &mut Arena, block: usize, layer: usize) {
        let (h, pass) = (self.channels, self.pass(input));
        let tensors = block * COMPONENTS * h;
        let of = &mut arena.layers[layer];
        let features = &of.features[..];
        let items = of.normal.chunks(tensors).zip(of.messages.chunks_mut(tensors));
        let items = items.zip(of.updates.chunks_mut(tensors));
        let items = items.zip(arena.current.chunks_mut(tensors)).collect();
        let (edges, table) = (input.graph.edges(), &input.tables[layer + 1]);
        parallel::for_each(items, |index, (((normal, messages), updates), x)| {
            let atoms = index * block..index * block + x.len() / (COMPONENTS * h);
            let own = &self.layers[layer].own;
            linwright_tensor::kernels::irreps::gather(
                edges,
                atoms.clone(),
                table,
                own,
                features,
                messages,
            );
            let features = &features[atoms.start * COMPONENTS * h..][..x.len()];
            let of = LayerBlock { normal, features, messages, updates };
            pass.interact(layer, of, x);
        });
        self.begin_layer(arena, block, layer + 1);
    }

    fn read_out(&self, input: &Input<'_>, arena: &mut Arena, block: usize) {
        let (h, pass) = (self.channels, self.pass(input));
        let tensors = block * COMPONENTS * h;
        let items = arena.current.chunks_mut(tensors).zip(arena.energies.chunks_mut(block));
        parallel::for_each(items.collect(), |_, (x, energies)| pass.read_out(x, energies));
        if input.forces && !self.layers.is_empty() {
            self.end_layer(input, arena, block, self.layers.len() - 1);
        }
    }

    /// The pass back from the gradient of a layer's result to those of its messages and features.
    fn end_layer(&self, input: &Input<'_>, arena: &mut Arena, block: usize, layer: usize) {
        let (h, pass) = (self.channels, self.pass(input));
        let tensors = block * COMPONENTS * h;
        let of = &arena.layers[layer];
        let saved = of.features.chunks(tensors).zip(of.messages.chunks(tensors));
        let saved = saved.zip(of.updates.chunks(tensors)).zip(of.normal.chunks(tensors));
        let items = saved.zip(arena.current.chunks(tensors));
        let items = items.zip(arena.of_messages.chunks_mut(tensors));
        let items = items.zip(arena.of_features.chunks_mut(tensors)).collect();
        parallel::for_each(items, |_, ((((saved, normal), g), of_messages), of_features)| {
            let ((features, messages), updates) = saved;
            let of = LayerBlock { normal, features, messages, updates };
            debug_assert_eq!(g.len() % h, 0);
            pass.interact_backward(layer, of, g, of_messages, of_features);
        });
    }

    fn interact_backward(&self, input: &Input<'_>, arena: &mut Arena, block: usize, layer: usize) {
        let (h, pass) = (self.channels, self.pass(input));
        let tensors = block * COMPONENTS * h;
        let of = &arena.layers[layer];
        let dm = &arena.of_messages[..];
        let distances = blocks::split(&mut arena.distances, input.graph.entries_of_blocks(block));
        let saved = of.normal.chunks(tensors).zip(of.inverse.chunks(block * h));
        let items = saved.zip(arena.of_features.chunks_mut(tensors));
        let items = items.zip(arena.current.chunks_mut(tensors)).zip(distances).collect();
        let (edges, table) = (input.graph.edges(), &input.tables[layer + 1]);
        parallel::for_each(items, |index, ((((normal, inverse), dy), g), dd)| {
            let atoms = index * block..index * block + g.len() / (COMPONENTS * h);
            let to = linwright_tensor::kernels::irreps::Adjoint { dm, dy, dd };
            let own = &self.layers[layer].own;
            linwright_tensor::kernels::irreps::gather_backward(
                edges,
                atoms,
                table,
                own,
                &of.features,
                to,
            );
            pass.normalise_backward(layer, normal, inverse, dy, g);
        });
        if layer > 0 {
            self.end_layer(input, arena, block, layer - 1);
        }
    }

    fn embed_backward(&self, input: &Input<'_>, arena: &mut Arena, block: usize) {
        let (h, pass) = (self.channels, self.pass(input));
        let tensors = block * COMPONENTS * h;
        let directions = blocks::split(&mut arena.directions, input.graph.entries_of_blocks(block));
        let saved = arena.embedded.chunks_mut(tensors).zip(arena.mixed.chunks_mut(tensors));
        let saved = saved.zip(arena.norms.chunks_mut(block * h));
        let saved = saved.zip(arena.hidden.chunks_mut(2 * block * h));
        let saved = saved.zip(arena.scales.chunks_mut(PARTS * block * h));
        let items = saved.zip(arena.current.chunks_mut(tensors)).zip(directions).collect();
        let edges = input.graph.embedding(&self.pairs.channels);
        let table = &input.tables[0];
        parallel::for_each(items, |index, ((saved, g), directions)| {
            let ((((embedded, mixed), norms), hidden), scales) = saved;
            let atoms = index * block..index * block + g.len() / (COMPONENTS * h);
            let of = EmbeddingBlock { embedded, mixed, norms, hidden, scales };
            pass.embed_backward(of, g);
            linwright_tensor::kernels::irreps::embed_backward(edges, atoms, table, g, directions);
        });
    }
}

impl Affine<f64> {
    /// Outputs for rows. Each is a plain sum, so that its bits do not depend on the rows beside it:
    /// species are met in the order of the structures that came before.
    fn values(&self, x: &Mat<f64>) -> Mat<f64> {
        Mat::from_fn(x.rows(), self.weight.rows(), |i, k| {
            let terms = x.row(i).iter().zip(self.weight.row(k)).map(|(x, w)| x * w);
            terms.sum::<f64>() + self.bias[k]
        })
    }
}
