//! Filters of the messages of a layer: of the distance alone, which both directions of a pair
//! share, or of the latent charges of receiver and sender too, as TensorNet2 has them.
//!
//! Directed filters have a row for each direction of each pair, `2 pair + reversed`, then one for
//! each atom and itself.

use super::batch::Batch;
use super::curve::activated;
use super::linear::Gradients;
use super::number::{Dual, Number, Rows};
use super::parts::{PART_OF, PARTS};
use super::pass::{Edge, messages};
use super::radial::{Filter, Kept, Perceptron, Radial};
use super::weights::TensorNet;
use linwright_tensor::Scalar;

/// Directed filters with what their gradients need.
pub(crate) struct DirectedFilter<N: Number> {
    pub(crate) rows: Rows<N>,
    kept: Kept<N>,
}

/// Filters of a layer with what their gradients need.
pub(crate) enum LayerFilter<N: Number> {
    /// Of the distance.
    Shared(Filter<N::Real>),
    /// Of distance and charges.
    Directed(DirectedFilter<N>),
}

impl<N: Number> LayerFilter<N> {
    /// Adds messages `out_i += Σ_j f_ij y_j + f_ii y_i`, or with `f_ji` those of the pass back.
    pub(crate) fn messages(
        &self,
        out: &mut Rows<N>,
        y: &Rows<N>,
        (batch, edges): (&Batch, &[Edge]),
        opposite: bool,
    ) {
        let filter = match self {
            Self::Shared(filter) => return messages(out, y, &filter.rows, (batch, edges)),
            Self::Directed(filter) => &filter.rows,
        };
        let h = y.cols();
        let mut add = |to: usize, from: usize, row: usize| {
            for channel in 0..h {
                let f: [N; 3] = std::array::from_fn(|part| filter.at(row, part * h + channel));
                let (sent, mut sums) = (y.nine(from, channel), out.nine(to, channel));
                (0..9).for_each(|c| sums[c] += f[PART_OF[c]] * sent[c]);
                out.set_nine(to, channel, sums);
            }
        };
        for atom in 0..batch.atoms() {
            add(atom, atom, 2 * edges.len() + atom);
            for entry in batch.neighbours.of(atom) {
                let reversed = usize::from(entry.reversed != opposite);
                add(atom, entry.atom as usize, 2 * entry.pair as usize + reversed);
            }
        }
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
pub(crate) fn by_part<N: Number>(g: [N; 9], y: [N; 9]) -> [N; 3] {
    PARTS.map(|(first, count)| {
        let mut sum = N::ZERO;
        (first..first + count).for_each(|c| sum += g[c] * y[c]);
        sum
    })
}

/// Geometry that filters are made of.
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
        Perceptron { slots, activation: self.config.activation, ends_active: true }
    }

    /// Filters of a layer from distances and charges.
    pub(crate) fn directed_filter<N: Number<Real = T>>(
        &self,
        layer: usize,
        geometry: Geometry<'_, T>,
        charges: &Rows<N>,
    ) -> DirectedFilter<N> {
        let (radial, width) = (self.config.radial, charges.cols());
        let input = |row: usize, k: usize| {
            let (place, ends) = geometry.ends(row);
            match k.checked_sub(radial) {
                None => geometry.of(place, geometry.radial.functions.at(place, k)),
                Some(k) => charges.at(ends[k / width], k % width),
            }
        };
        let input = Rows::from_fn(geometry.rows(), radial + 2 * width, input);
        let (mut rows, kept) = self.filter_net(layer).forward(input);
        for row in 0..rows.rows() {
            let (place, _) = geometry.ends(row);
            let factor: N = geometry.of(place, geometry.radial.cutoffs[place]);
            (0..rows.cols()).for_each(|j| rows.set(row, j, rows.at(row, j) * factor));
        }
        DirectedFilter { rows, kept }
    }

    /// Gradients of the charges (atoms, q_dim) from those of the filters; adds those of distances.
    pub(crate) fn directed_filter_back<N: Number<Real = T>>(
        &self,
        layer: usize,
        (geometry, filter): (Geometry<'_, T>, &DirectedFilter<N>),
        mut of_rows: Rows<N>,
        (distance, into): (&mut [f64], Option<&mut Gradients<T>>),
    ) -> Rows<N> {
        let value = |number: N| number.parts().0.to_f64();
        let last = &filter.kept[filter.kept.len() - 1].1;
        for row in 0..of_rows.rows() {
            let (place, _) = geometry.ends(row);
            let cutoff = geometry.radial.cutoffs[place];
            let factor: N = geometry.of(place, cutoff);
            let mut along = N::ZERO;
            for j in 0..of_rows.cols() {
                let g = of_rows.at(row, j);
                along += g * activated(self.config.activation, last.at(row, j));
                of_rows.set(row, j, g * factor);
            }
            if let Some(distance) = distance.get_mut(place) {
                *distance += value(along) * cutoff.tangent.to_f64();
            }
        }
        let dx = self.filter_net(layer).backward(&filter.kept, of_rows, into);
        let radial = self.config.radial;
        let width = (dx.cols() - radial) / 2;
        let mut of_charges = Rows::zeros(geometry.batch.atoms(), width);
        for row in 0..dx.rows() {
            let (place, ends) = geometry.ends(row);
            if let Some(distance) = distance.get_mut(place) {
                let slope = |k: usize| geometry.radial.functions.at(place, k).tangent.to_f64();
                *distance += (0..radial).map(|k| value(dx.at(row, k)) * slope(k)).sum::<f64>();
            }
            for k in 0..2 * width {
                of_charges.add(ends[k / width], k % width, dx.at(row, radial + k));
            }
        }
        of_charges
    }
}
