//! The stages of a structure: passes over blocks of atoms.

use super::arena::{Arena, LayerArena};
use super::blocks::{self, EmbeddingBlock, LayerBlock, LayerStart};
use super::graph::Graph;
use super::model::Model;
use crate::tensornet::Group;
use linwright_tensor::kernels::irreps::{self, COMPONENTS, Square};
use linwright_tensor::parallel;
use std::ops::Range;

/// Largest number of atoms of a block: the height of two bands of tiles.
const BLOCK: usize = 32;
/// Largest number of atoms of a group, unless blocks are larger.
const GROUP: usize = 128;

/// Data of one structure for the passes.
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

impl Model {
    /// Energies of atoms; gradients of distances and directions if forces are wanted.
    ///
    /// Everything between two sums over neighbours is one phase over small blocks, whose tensors
    /// stay in the cache. Sums go over larger groups of atoms, which share their neighbours and the
    /// rows of the tables.
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
        if input.forces {
            for layer in (0..self.layers.len()).rev() {
                self.interact_backward(input, arena, block, layer);
            }
            if self.layers.is_empty() {
                self.embed_backward(input, arena, block);
            }
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

    /// First tensors of all atoms, and the start of the first layer or the readout.
    fn embed(&self, input: &Input<'_>, arena: &mut Arena, block: usize) {
        let (h, pass) = (self.channels, self.pass(input));
        let Arena { embedding, layers, current, energies, .. } = arena;
        let next: Vec<Next<'_>> = match layers.first_mut() {
            Some(layer) => layer.blocks(block, h).map(Next::Layer).collect(),
            None => energies.chunks_mut(block).map(Next::ReadOut).collect(),
        };
        let items = embedding.blocks(block, h).zip(current.chunks_mut(block * COMPONENTS * h));
        let edges = input.graph.embedding(&self.pairs.channels);
        let table = &input.tables[0];
        parallel::for_each(items.zip(next).collect(), |index, ((mut to, x), next)| {
            let atoms = index * block..index * block + x.len() / (COMPONENTS * h);
            let of_self = |atom: &u32| {
                let place = self.pairs.places[usize::from(input.species[*atom as usize])];
                &self.pairs.of_self[place * h..(place + 1) * h]
            };
            let own: Vec<f32> =
                input.graph.order[atoms.clone()].iter().flat_map(of_self).copied().collect();
            irreps::embed(edges, atoms, table, &own, to.embedded);
            pass.embed(&mut to, x);
            match next {
                Next::Layer(of) => pass.begin(0, x, of),
                Next::ReadOut(energies) => pass.read_out(x, energies),
            }
        });
    }

    /// Atoms of a group; even small structures have several groups, for threads.
    fn group(atoms: usize, block: usize) -> usize {
        atoms.div_ceil(4).clamp(block, block.max(GROUP))
    }

    /// Messages of all atoms.
    fn gather(&self, input: &Input<'_>, of: &mut LayerArena, group: usize, layer: usize) {
        let size = COMPONENTS * self.channels;
        let (edges, table) = (input.graph.edges(), &input.tables[layer + 1]);
        let LayerArena { features, messages, .. } = of;
        let features = &features[..];
        let items = messages.chunks_mut(group * size).collect();
        parallel::for_each(items, |index, messages: &mut [f32]| {
            let atoms = index * group..index * group + messages.len() / size;
            let own = &self.layers[layer].own;
            irreps::gather(edges, atoms, table, own, features, messages);
        });
    }

    /// Adds to the gradients of all features, and of distances, from those of all messages.
    fn gather_backward(&self, input: &Input<'_>, arena: &mut Arena, group: usize, layer: usize) {
        let size = COMPONENTS * self.channels;
        let (edges, table) = (input.graph.edges(), &input.tables[layer + 1]);
        let Arena { layers, of_features, of_messages: dm, distances, .. } = arena;
        let (features, dm) = (&layers[layer].features[..], &dm[..]);
        let distances = blocks::split(distances, input.graph.entries_of_blocks(group));
        let items = of_features.chunks_mut(group * size).zip(distances).collect();
        parallel::for_each(items, |index, (dy, dd): (&mut [f32], _)| {
            let atoms = index * group..index * group + dy.len() / size;
            let own = &self.layers[layer].own;
            let to = irreps::Adjoint { dm, dy, dd };
            irreps::gather_backward(edges, atoms, table, own, features, to);
        });
    }

    /// Messages and the update of a layer, then the start of the next layer, or the readout and the
    /// backward pass through this layer to its messages.
    fn interact(&self, input: &Input<'_>, arena: &mut Arena, block: usize, layer: usize) {
        let (h, pass) = (self.channels, self.pass(input));
        let Arena { layers, current, energies, of_features, of_messages, .. } = arena;
        let (done, later) = layers.split_at_mut(layer + 1);
        self.gather(input, &mut done[layer], Self::group(input.graph.order.len(), block), layer);
        let LayerArena { normal, features, messages, updates, .. } = &mut done[layer];
        let next: Vec<Next<'_>> = match later.first_mut() {
            Some(layer) => layer.blocks(block, h).map(Next::Layer).collect(),
            None => energies.chunks_mut(block).map(Next::ReadOut).collect(),
        };
        let tensors = block * COMPONENTS * h;
        // Empty without forces.
        let mut gradients = of_messages.chunks_mut(tensors).zip(of_features.chunks_mut(tensors));
        let gradients: Vec<_> = next.iter().map(|_| gradients.next()).collect();
        let items = normal.chunks(tensors).zip(features.chunks(tensors));
        let items = items.zip(messages.chunks(tensors)).zip(updates.chunks_mut(tensors));
        let items = items.zip(current.chunks_mut(tensors)).zip(next).zip(gradients).collect();
        parallel::for_each(items, |_, ((((of, updates), x), next), to)| {
            let ((normal, features), messages) = of;
            let of = LayerBlock { normal, features, messages, updates: &mut *updates };
            pass.interact(layer, of, x);
            match next {
                Next::Layer(of) => pass.begin(layer + 1, x, of),
                Next::ReadOut(energies) => {
                    pass.read_out(x, energies);
                    if let Some((of_messages, of_features)) = to {
                        let of = LayerBlock { normal, features, messages, updates: &*updates };
                        pass.interact_backward(layer, of, x, of_messages, of_features);
                    }
                }
            }
        });
    }

    /// From the gradients of a layer's messages to those of its input, then through the layer
    /// before to its messages, or through the embedding.
    fn interact_backward(&self, input: &Input<'_>, arena: &mut Arena, block: usize, layer: usize) {
        self.gather_backward(input, arena, Self::group(input.graph.order.len(), block), layer);
        let (h, pass) = (self.channels, self.pass(input));
        let tensors = block * COMPONENTS * h;
        let Arena { embedding, layers, current, of_features, of_messages, next_messages, .. } =
            arena;
        let (before, of) = layers.split_at(layer);
        let of = &of[0];
        let previous: Vec<Previous<'_>> = match before.last() {
            Some(of) => {
                let saved = of.features.chunks(tensors).zip(of.messages.chunks(tensors));
                let saved = saved.zip(of.updates.chunks(tensors)).zip(of.normal.chunks(tensors));
                let made = saved.zip(next_messages.chunks_mut(tensors));
                made.map(|((((features, messages), updates), normal), of_messages)| {
                    let of = LayerBlock { normal, features, messages, updates };
                    Previous::Layer { of, of_messages }
                })
                .collect()
            }
            None => {
                let entries = input.graph.entries_of_blocks(block);
                let directions = blocks::split(&mut arena.directions, entries);
                let all = embedding.blocks(block, h).zip(directions);
                all.map(|(of, directions)| Previous::Embedding { of, directions }).collect()
            }
        };
        let saved = of.normal.chunks(tensors).zip(of.inverse.chunks(block * h));
        let items = saved.zip(of_features.chunks_mut(tensors));
        let items = items.zip(current.chunks_mut(tensors)).zip(previous).collect();
        parallel::for_each(items, |index, ((((normal, inverse), dy), g), previous)| {
            let atoms = index * block..index * block + g.len() / (COMPONENTS * h);
            pass.normalise_backward(layer, normal, inverse, dy, g);
            match previous {
                Previous::Layer { of, of_messages } => {
                    pass.interact_backward(layer - 1, of, g, of_messages, dy);
                }
                Previous::Embedding { of, directions } => {
                    self.through_embedding(input, (atoms, of), g, directions);
                }
            }
        });
        if layer > 0 {
            std::mem::swap(of_messages, next_messages);
        }
    }

    /// The backward pass through the embedding of a model without layers.
    fn embed_backward(&self, input: &Input<'_>, arena: &mut Arena, block: usize) {
        let tensor = COMPONENTS * self.channels;
        let directions = blocks::split(&mut arena.directions, input.graph.entries_of_blocks(block));
        let items = arena.embedding.blocks(block, self.channels);
        let items = items.zip(arena.current.chunks_mut(block * tensor)).zip(directions).collect();
        parallel::for_each(items, |index, ((of, g), directions)| {
            let atoms = index * block..index * block + g.len() / tensor;
            self.through_embedding(input, (atoms, of), g, directions);
        });
    }

    /// From the gradient `g` of first tensors to those of distances and directions.
    fn through_embedding(
        &self,
        input: &Input<'_>,
        (atoms, of): (Range<usize>, EmbeddingBlock<'_>),
        g: &mut [f32],
        directions: &mut [[f32; COMPONENTS]],
    ) {
        self.pass(input).embed_backward(of, g);
        let edges = input.graph.embedding(&self.pairs.channels);
        irreps::embed_backward(edges, atoms, &input.tables[0], g, directions);
    }
}

/// The next step of a block after a layer.
enum Next<'a> {
    Layer(LayerStart<'a>),
    ReadOut(&'a mut [f32]),
}

/// The next step of a block in the backward pass through a layer's start.
enum Previous<'a> {
    Layer { of: LayerBlock<'a, &'a [f32]>, of_messages: &'a mut [f32] },
    Embedding { of: EmbeddingBlock<'a>, directions: &'a mut [[f32; COMPONENTS]] },
}
