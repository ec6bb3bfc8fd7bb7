//! Filters of the messages of a layer of TensorNet2, which depend on the distance and on the latent
//! charges of receiver and sender.
//!
//! They have a row for each direction of each pair, `2 pair + reversed`, then one for each atom and
//! itself.

use super::batch::Batch;
use super::graph::Edge;
use super::linear::Gradients;
use super::number::{Dual, Number, Rows};
use super::parts::PARTS;
use super::radial::{Perceptron, Radial};
use super::weights::TensorNet;
use linwright_tensor::Scalar;
use linwright_tensor::kernels::irreps::PART_OF;
use std::ops::Range;

/// Directed rows that go through the perceptron at a time. The backward pass recomputes them, so
/// that a layer keeps only its filters.
const BLOCK: usize = 1024;

/// Which messages go along directed edges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Messages received by atoms.
    Received,
    /// Messages in the opposite direction, for the backward pass.
    Opposite,
}

/// Adds messages `out_i += Σ_j f_ij y_j + f_ii y_i`, or with `f_ji` the opposite ones.
pub(crate) fn directed_messages<N: Number>(
    out: &mut Rows<N>,
    y: &Rows<N>,
    (batch, filters): (&Batch, &Rows<N>),
    direction: Direction,
) {
    let (h, pairs) = (y.cols(), batch.neighbours.pairs.len());
    let opposite = direction == Direction::Opposite;
    let mut add = |to: usize, from: usize, row: usize| {
        for channel in 0..h {
            let f: [N; 3] = std::array::from_fn(|part| filters.at(row, part * h + channel));
            let (sent, mut sums) = (y.nine(from, channel), out.nine(to, channel));
            (0..9).for_each(|c| sums[c] += f[PART_OF[c]] * sent[c]);
            out.set_nine(to, channel, sums);
        }
    };
    for atom in 0..batch.atoms() {
        add(atom, atom, 2 * pairs + atom);
        for entry in batch.neighbours.of(atom) {
            let reversed = usize::from(entry.reversed != opposite);
            add(atom, entry.atom as usize, 2 * entry.pair as usize + reversed);
        }
    }
}

/// Every row and column.
pub(crate) fn each(rows: usize, columns: usize, mut work: impl FnMut(usize, usize)) {
    for i in 0..rows {
        (0..columns).for_each(|j| work(i, j));
    }
}

/// Gradients of directed filters from those of the messages, by row.
pub(crate) fn directed_gradient<N: Number>(
    batch: &Batch,
    y: &Rows<N>,
    of_message: &Rows<N>,
) -> Rows<N> {
    let (h, pairs) = (y.cols(), &batch.neighbours.pairs);
    let mut rows = Rows::zeros(2 * pairs.len() + batch.atoms(), 3 * h);
    let mut set = |row: usize, to: usize, from: usize| {
        for j in 0..h {
            let found = by_part(of_message.nine(to, j), y.nine(from, j));
            (0..3).for_each(|part| rows.set(row, part * h + j, found[part]));
        }
    };
    for (pair, ends) in pairs.iter().enumerate() {
        let (first, second) = (ends.first as usize, ends.second as usize);
        set(2 * pair, first, second);
        set(2 * pair + 1, second, first);
    }
    (0..batch.atoms()).for_each(|atom| set(2 * pairs.len() + atom, atom, atom));
    rows
}

/// `Σ g_c y_c` of each part.
#[inline(always)]
fn by_part<N: Number>(g: [N; 9], y: [N; 9]) -> [N; 3] {
    PARTS.map(|(first, count)| {
        let mut sum = N::ZERO;
        (first..first + count).for_each(|c| sum += g[c] * y[c]);
        sum
    })
}

/// Geometry for computing filters.
#[derive(Clone, Copy)]
pub(crate) struct Geometry<'a, T: Scalar> {
    pub(crate) batch: &'a Batch,
    pub(crate) edges: &'a [Edge],
    pub(crate) radial: &'a Radial<T>,
}

impl<T: Scalar> Geometry<'_, T> {
    /// Number of directed rows.
    fn rows(&self) -> usize {
        2 * self.edges.len() + self.batch.atoms()
    }

    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let rows = self.rows();
        (0..rows).step_by(BLOCK).map(move |start| start..rows.min(start + BLOCK))
    }

    /// Row among the radial functions, receiver and sender of a directed row.
    fn ends(&self, row: usize) -> (usize, [usize; 2]) {
        match self.batch.neighbours.pairs.get(row / 2) {
            Some(pair) => {
                let (first, second) = (pair.first as usize, pair.second as usize);
                (row / 2, if row.is_multiple_of(2) { [first, second] } else { [second, first] })
            }
            None => (self.edges.len(), [row - 2 * self.edges.len(); 2]),
        }
    }

    /// A function of the distance of a row among the radial functions.
    fn of<N: Number<Real = T>>(&self, place: usize, function: Dual<T>) -> N {
        match self.edges.get(place) {
            Some(edge) => edge.of(function),
            None => N::of(function.value),
        }
    }
}

impl<T: Scalar> TensorNet<T> {
    fn filter_net(&self, layer: usize) -> Perceptron<'_, T> {
        let slots = self.layers[layer].filters.iter().collect();
        let (packs, activation) = (&self.packs, self.config.activation);
        Perceptron { slots, packs, values: None, activation, ends_active: true }
    }

    /// Input of the perceptron for some directed rows: radial functions, then charges of receiver
    /// and sender.
    fn filter_input<N: Number<Real = T>>(
        &self,
        geometry: Geometry<'_, T>,
        charges: &Rows<N>,
        rows: &Range<usize>,
    ) -> Rows<N> {
        let (radial, width) = (self.config.radial, charges.cols());
        Rows::from_fn(rows.len(), radial + 2 * width, |i, k| {
            let (place, ends) = geometry.ends(rows.start + i);
            match k.checked_sub(radial) {
                None => geometry.of(place, geometry.radial.functions.at(place, k)),
                Some(k) => charges.at(ends[k / width], k % width),
            }
        })
    }

    /// Filters of a layer from distances and charges.
    pub(crate) fn directed_filter<N: Number<Real = T>>(
        &self,
        layer: usize,
        geometry: Geometry<'_, T>,
        charges: &Rows<N>,
    ) -> Rows<N> {
        let mut filters = Rows::zeros(geometry.rows(), 3 * self.config.channels);
        let net = self.filter_net(layer);
        for rows in geometry.blocks() {
            let (active, _) = net.forward(self.filter_input(geometry, charges, &rows));
            for (i, row) in rows.enumerate() {
                let (place, _) = geometry.ends(row);
                let factor: N = geometry.of(place, geometry.radial.cutoffs[place]);
                (0..active.cols()).for_each(|j| filters.set(row, j, active.at(i, j) * factor));
            }
        }
        filters
    }

    /// Gradients of the charges (atoms, q_dim) from those of the filters; adds those of distances.
    pub(crate) fn directed_filter_back<N: Number<Real = T>>(
        &self,
        layer: usize,
        (geometry, charges): (Geometry<'_, T>, &Rows<N>),
        gradient: &Rows<N>,
        (distance, mut into): (&mut [f64], Option<&mut Gradients<T>>),
    ) -> Rows<N> {
        let value = |number: N| number.parts().0.to_f64();
        let (radial, width) = (self.config.radial, charges.cols());
        let mut of_charges = Rows::zeros(charges.rows(), width);
        let net = self.filter_net(layer);
        for rows in geometry.blocks() {
            let (active, kept) = net.forward(self.filter_input(geometry, charges, &rows));
            let mut dy = Rows::zeros(rows.len(), active.cols());
            for (i, row) in rows.clone().enumerate() {
                let (place, _) = geometry.ends(row);
                let cutoff = geometry.radial.cutoffs[place];
                let (factor, mut along): (N, N) = (geometry.of(place, cutoff), N::ZERO);
                for j in 0..active.cols() {
                    let g = gradient.at(row, j);
                    along += g * active.at(i, j);
                    dy.set(i, j, g * factor);
                }
                if let Some(distance) = distance.get_mut(place) {
                    *distance += value(along) * cutoff.tangent.to_f64();
                }
            }
            let dx = net.backward(&kept, dy, into.as_deref_mut());
            for (i, row) in rows.enumerate() {
                let (place, ends) = geometry.ends(row);
                if let Some(distance) = distance.get_mut(place) {
                    let slope = |k: usize| geometry.radial.functions.at(place, k).tangent.to_f64();
                    *distance += (0..radial).map(|k| value(dx.at(i, k)) * slope(k)).sum::<f64>();
                }
                for k in 0..2 * width {
                    of_charges.add(ends[k / width], k % width, dx.at(i, radial + k));
                }
            }
        }
        of_charges
    }
}
