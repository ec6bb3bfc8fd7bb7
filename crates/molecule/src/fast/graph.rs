//! The edges of a structure in the layout for the kernels: nearby atoms have nearby numbers, and
//! all data of an entry of an atom's row are contiguous.

use super::filters::Grid;
use crate::neighbours::Neighbours;
use crate::potential::Prediction;
use linwright_tensor::kernels::irreps::{
    COMPONENTS, Edges, EmbeddingEdges, Stencil, shape_of_direction,
};

/// Smallest number of atoms that are reordered.
const FEW: usize = 64;

/// Edges by receiver, in the order of [`Self::order`].
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Numbers of the atoms in the structure.
    pub order: Vec<u32>,
    starts: Vec<u32>,
    senders: Vec<u32>,
    stencils: Vec<Stencil>,
    kinds: Vec<u32>,
    shapes: Vec<[f32; COMPONENTS]>,
    /// Unit vector from sender to receiver, and the distance.
    vectors: Vec<([f64; 3], f64)>,
    /// Distances with separate filters, which follow the table's rows.
    pub exact: Vec<f64>,
    of_pairs: Vec<(Stencil, [f64; 3], f64)>,
    places: Vec<u32>,
}

impl Graph {
    /// Replaces the edges. Distances have separate filters if there is no grid.
    pub(super) fn set(
        &mut self,
        positions: &[[f64; 3]],
        neighbours: &Neighbours,
        cutoff: f64,
        (grid, first_row): (Option<&Grid>, usize),
        kind: impl Fn(usize, usize) -> u32,
    ) {
        self.set_order(positions, cutoff);
        self.set_pairs(neighbours, grid, first_row);
        self.starts.clear();
        self.starts.push(0);
        self.senders.clear();
        self.stencils.clear();
        self.kinds.clear();
        self.shapes.clear();
        self.vectors.clear();
        for &atom in &self.order {
            for neighbour in neighbours.of(atom as usize) {
                let (stencil, mut u, d) = self.of_pairs[neighbour.pair as usize];
                if neighbour.reversed {
                    u = u.map(|u| -u);
                }
                self.senders.push(self.places[neighbour.atom as usize]);
                self.stencils.push(stencil);
                self.kinds.push(kind(atom as usize, neighbour.atom as usize));
                self.shapes.push(shape_of_direction(u).map(|t| t as f32));
                self.vectors.push((u, d));
            }
            self.starts.push(self.senders.len() as u32);
        }
    }

    fn set_order(&mut self, positions: &[[f64; 3]], cutoff: f64) {
        self.order.clear();
        self.order.extend(0..positions.len() as u32);
        if positions.len() >= FEW {
            let code = |atom: &u32| morton(positions[*atom as usize].map(|x| 2.0 * x / cutoff));
            self.order.sort_by_cached_key(code);
        }
        self.places.clear();
        self.places.resize(positions.len(), 0);
        for (place, atom) in self.order.iter().enumerate() {
            self.places[*atom as usize] = place as u32;
        }
    }

    fn set_pairs(&mut self, neighbours: &Neighbours, grid: Option<&Grid>, first_row: usize) {
        self.exact.clear();
        self.of_pairs.clear();
        for pair in &neighbours.pairs {
            let d = pair.vector.iter().map(|x| x * x).sum::<f64>().sqrt();
            let stencil = grid.and_then(|grid| grid.stencil(d)).unwrap_or_else(|| {
                self.exact.push(d);
                Stencil::at((first_row + self.exact.len() - 1) as u32)
            });
            self.of_pairs.push((stencil, pair.vector.map(|x| x / d), d));
        }
    }

    pub(super) fn edges(&self) -> Edges<'_> {
        Edges { starts: &self.starts, senders: &self.senders, stencils: &self.stencils }
    }

    pub(super) fn embedding<'a>(&'a self, pairs: &'a [f32]) -> EmbeddingEdges<'a> {
        EmbeddingEdges { edges: self.edges(), kinds: &self.kinds, shapes: &self.shapes, pairs }
    }

    /// Bytes of all arrays.
    pub(super) fn bytes(&self) -> usize {
        let of_entry = size_of::<(u32, Stencil, u32, [f32; COMPONENTS], [f64; 4])>();
        let of_pair = size_of::<(Stencil, [f64; 3], f64)>();
        self.entries() * of_entry + self.of_pairs.len() * of_pair + 12 * self.order.len()
    }

    pub(super) fn entries(&self) -> usize {
        self.senders.len()
    }

    /// Entries of the rows of consecutive blocks of atoms.
    pub(super) fn entries_of_blocks(&self, block: usize) -> impl Iterator<Item = usize> {
        let atoms = self.order.len();
        (0..atoms).step_by(block).map(move |first| {
            (self.starts[(first + block).min(atoms)] - self.starts[first]) as usize
        })
    }

    /// Forces and virial, from the gradients of distances by layers, and of distances and shapes by
    /// the embedding. Sums are in double precision and in a fixed order.
    pub(super) fn forces(
        &self,
        distances: &[f32],
        embedding: &[[f32; COMPONENTS]],
        to: &mut Prediction,
    ) {
        to.forces.clear();
        to.forces.resize(self.order.len(), [0.0; 3]);
        to.virial = [[0.0; 3]; 3];
        for (place, &atom) in self.order.iter().enumerate() {
            let mut own = [0.0; 3];
            for entry in self.starts[place] as usize..self.starts[place + 1] as usize {
                let (u, d) = self.vectors[entry];
                let shape = embedding[entry].map(f64::from);
                let along = shape[0] + f64::from(distances[entry]);
                let of_u = gradient_of_direction(u, &shape);
                let radial: f64 = (0..3).map(|x| of_u[x] * u[x]).sum();
                let sender = self.order[self.senders[entry] as usize] as usize;
                for x in 0..3 {
                    let g = along * u[x] + (of_u[x] - u[x] * radial) / d;
                    own[x] -= g;
                    to.forces[sender][x] += g;
                    for (sum, u) in to.virial[x].iter_mut().zip(u) {
                        *sum -= g * u * d;
                    }
                }
            }
            for (sum, own) in to.forces[atom as usize].iter_mut().zip(own) {
                *sum += own;
            }
        }
    }
}

/// The gradient of a direction from that of the numbers 1 to 8 of [`shape_of_direction`].
fn gradient_of_direction([x, y, z]: [f64; 3], g: &[f64; COMPONENTS]) -> [f64; 3] {
    let two = 2.0_f64.sqrt();
    let trace = 1.5_f64.sqrt() * g[5] / 3.0;
    [
        two * (g[1] + g[4] * x + g[6] * y + g[7] * z) - 2.0 * trace * x,
        two * (g[2] - g[4] * y + g[6] * x + g[8] * z) - 2.0 * trace * y,
        two * (g[3] + g[7] * x + g[8] * y) + 4.0 * trace * z,
    ]
}

/// Interleaved bits of the three cell numbers, so that nearby cells have nearby codes.
fn morton(cell: [f64; 3]) -> u64 {
    /// Half the range of cell numbers.
    const MIDDLE: f64 = 524_288.0;
    let [x, y, z] =
        cell.map(|x| spread((x.floor() + MIDDLE).clamp(0.0, 2.0 * MIDDLE - 1.0) as u64));
    x | y << 1 | z << 2
}

/// Twenty bits, three apart.
fn spread(number: u64) -> u64 {
    (0..20).map(|bit| (number >> bit & 1) << (3 * bit)).sum()
}
