//! The pass back, without a tape: each step's derivative by hand from what the pass forward kept.

use super::batch::Batch;
use super::config::{Group, Head};
use super::directed::{Geometry, LayerFilter, by_part, directed_gradient};
use super::linear::{
    Gradients, backward, backward_rows, gradient_of, last, norm_backward, parameters,
};
use super::number::{Dual, Number, Rows};
use super::parts::{
    PART_OF, PARTS, Three, compose, decompose, harmonics, harmonics_gradient, plus, scaled,
    through_norm, times, transpose,
};
use super::pass::{Edge, LayerPass, Pass, each, place};
use super::radial::Filter;
use super::weights::TensorNet;
use linwright_ops::LinearSlot;
use linwright_tensor::Scalar;

/// Gradients of the distances and directions of the pairs.
pub(crate) struct EdgeGradients {
    pub(crate) distance: Vec<f64>,
    pub(crate) unit: Vec<[f64; 3]>,
    /// Of the distances of the pairs of the Coulomb energy.
    pub(crate) far: Vec<f64>,
}

/// Where the pass back through a layer adds gradients: of distances, of the latent charges of all
/// stages, and of parameters if wanted.
struct LayerGradients<'a, N: Number> {
    distance: &'a mut [f64],
    charges: &'a mut [Rows<N>],
    parameters: Option<&'a mut Gradients<N::Real>>,
}

/// Gradient of the input of [`super::pass::mix`], and those of its weights if wanted.
fn mix_backward<N: Number>(
    slots: &[LinearSlot<N::Real>],
    x: &Rows<N>,
    dy: &Rows<N>,
    mut into: Option<&mut Gradients<N::Real>>,
) -> Rows<N> {
    let atoms = x.rows() / 9;
    let mut dx = Rows::zeros(x.rows(), x.cols());
    for (slot, (first, count)) in slots.iter().zip(PARTS) {
        let rows = first * atoms..(first + count) * atoms;
        backward_rows(slot, x, dy, &mut dx, &rows);
        if let Some(into) = into.as_deref_mut() {
            parameters(slot, x, dy, &rows, into);
        }
    }
    dx
}

/// `a bᵀ + bᵀ a`.
#[inline(always)]
fn both_sides<N: Number>(a: Three<N>, b: Three<N>) -> Three<N> {
    let b = transpose(b);
    plus(times(a, b), times(b, a))
}

/// Where gradients of filters go: to distances, and to the parameters of the filters.
struct FilterGradient<'a, N: Number> {
    filter: &'a Rows<Dual<N::Real>>,
    edges: &'a [Edge],
    distance: &'a mut [f64],
    /// Of slopes (values) and values (tangents).
    rows: Option<Rows<Dual<N::Real>>>,
}

impl<N: Number> FilterGradient<'_, N> {
    #[inline(always)]
    fn add(&mut self, pair: usize, column: usize, gradient: N) {
        let (value, tangent) = gradient.parts();
        let along = match self.edges.get(pair) {
            Some(edge) => {
                let slope = self.filter.at(pair, column).tangent;
                self.distance[pair] += (value * slope).to_f64();
                N::Real::from_f64(edge.distance_tangent)
            }
            None => N::Real::ZERO,
        };
        if let Some(rows) = &mut self.rows {
            rows.add(pair, column, Dual { value: value * along, tangent });
        }
    }
}

impl<T: Scalar> TensorNet<T> {
    /// Gradients of `Σ seed_i output_i`; with tangents also, if wanted, those of parameters of the
    /// tangent of that sum.
    pub(crate) fn back<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        pass: &Pass<N>,
        seeds: Rows<N>,
        mut into: Option<&mut Gradients<T>>,
    ) -> EdgeGradients {
        let [read, head] = self.readout_nets();
        let (of_read, of_head) = pass.readout_pass.split_at(1);
        let (of_read, of_head) = (of_read.to_vec(), of_head.to_vec());
        let (mut of_charges, far) = self.charges_back(batch, pass, &seeds);
        let dy = head.backward(&of_head, seeds, into.as_deref_mut());
        let dy = read.backward(&of_read, dy, into.as_deref_mut());
        let dy = norm_backward(&self.readout.norm, &pass.out_norm, &dy, into.as_deref_mut());
        let (atoms, h) = (batch.atoms(), self.config.channels);
        let mut gradient = Rows::zeros(9 * atoms, h);
        each(atoms, h, |i, j| {
            let t = pass.last.nine(i, j);
            let of = |c: usize| dy.at(i, PART_OF[c] * h + j) * t[c] * N::real(2.0);
            gradient.set_nine(i, j, std::array::from_fn(of));
        });
        let pairs = pass.edges.len();
        let mut of_edges =
            EdgeGradients { distance: vec![0.0; pairs], unit: vec![[0.0; 3]; pairs], far };
        let mut x = &pass.last;
        for (layer, kept) in pass.layers.iter().enumerate().rev() {
            if let (Some(stage), Some(of)) =
                (pass.charges.get(layer + 1), of_charges.get(layer + 1))
            {
                let to = (&mut gradient, into.as_deref_mut());
                self.charge_back(layer + 1, (batch, x, stage), of, to);
            }
            let to = LayerGradients {
                distance: &mut of_edges.distance,
                charges: &mut of_charges,
                parameters: into.as_deref_mut(),
            };
            gradient = self.layer_back(layer, gradient, (batch, pass, kept), to);
            x = &kept.input;
        }
        if let (Some(stage), Some(of)) = (pass.charges.first(), of_charges.first()) {
            let to = (&mut gradient, into.as_deref_mut());
            self.charge_back(0, (batch, x, stage), of, to);
        }
        self.embedding_back((batch, pass), &gradient, &mut of_edges, into);
        of_edges
    }

    /// Gradients of the latent charges of all stages, and of the distances of far pairs, from
    /// those of the outputs.
    fn charges_back<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        pass: &Pass<N>,
        seeds: &Rows<N>,
    ) -> (Vec<Rows<N>>, Vec<f64>) {
        if self.config.head == Head::WeightedCoulomb {
            return self.coulomb_back(batch, (&pass.far, &pass.charges), seeds);
        }
        let zeros = |charges: &Rows<N>| Rows::zeros(charges.rows(), charges.cols());
        (pass.charges.iter().map(|stage| zeros(&stage.charges)).collect(), Vec::new())
    }

    fn layer_back<N: Number<Real = T>>(
        &self,
        layer: usize,
        gradient: Rows<N>,
        (batch, pass, kept): (&Batch, &Pass<N>, &LayerPass<N>),
        mut to: LayerGradients<'_, N>,
    ) -> Rows<N> {
        let (atoms, h) = (batch.atoms(), self.config.channels);
        let mixing = &self.layers[layer].mixing;
        let mut of_update = Rows::zeros(9 * atoms, h);
        each(atoms, h, |i, j| {
            let (g, d) = (compose(gradient.nine(i, j)), compose(kept.update.nine(i, j)));
            let k = N::real(self.charge_factor(batch, i));
            of_update.set_nine(i, j, decompose(plus(g, scaled(both_sides(g, d), k))));
        });
        let parameters = to.parameters.as_deref_mut();
        let of_product = mix_backward(&mixing[3..], &kept.product, &of_update, parameters);
        let (mut of_mixed, mut of_message) = (Rows::zeros(9 * atoms, h), Rows::zeros(9 * atoms, h));
        each(atoms, h, |i, j| {
            let k = self.charge_factor(batch, i);
            let (y, m) = (kept.mixed.nine(i, j), kept.message.nine(i, j));
            let p = through_norm(self.product(y, m, k), of_product.nine(i, j));
            let (p, y, m) = (compose(p), compose(y), compose(m));
            let (gy, gm) = match self.config.group {
                Group::Orthogonal => {
                    let p = scaled(p, N::real(k));
                    (both_sides(p, m), both_sides(p, y))
                }
                Group::Rotations => {
                    let p = scaled(p, N::real(2.0));
                    (times(p, transpose(m)), times(transpose(y), p))
                }
            };
            of_mixed.set_nine(i, j, decompose(gy));
            of_message.set_nine(i, j, decompose(gm));
        });
        self.filter_back(layer, (batch, pass, kept), &of_message, &mut to);
        kept.filter.messages(&mut of_mixed, &of_message, (batch, &pass.edges), true);
        let of_hat = mix_backward(&mixing[..3], &kept.normalised, &of_mixed, to.parameters);
        let mut result = Rows::zeros(9 * atoms, h);
        each(atoms, h, |i, j| {
            let (t, g) = (of_hat.nine(i, j), gradient.nine(i, j));
            let sum = std::array::from_fn(|c| t[c] + g[c]);
            result.set_nine(i, j, through_norm(kept.input.nine(i, j), sum));
        });
        result
    }

    /// Adds the gradients through the filters of a layer.
    fn filter_back<N: Number<Real = T>>(
        &self,
        layer: usize,
        (batch, pass, kept): (&Batch, &Pass<N>, &LayerPass<N>),
        of_message: &Rows<N>,
        to: &mut LayerGradients<'_, N>,
    ) {
        let (edges, radial) = (&pass.edges[..], &pass.radial);
        let mut parameters = to.parameters.as_deref_mut();
        match &kept.filter {
            LayerFilter::Shared(filter) => {
                let rows = parameters.is_some();
                let rows = rows.then(|| Rows::zeros(filter.rows.rows(), filter.rows.cols()));
                let (filter_rows, distance) = (&filter.rows, &mut *to.distance);
                let mut of = FilterGradient { filter: filter_rows, edges, distance, rows };
                filter_gradient(&mut of, batch, &kept.mixed, of_message);
                if let (Some(rows), Some(into)) = (of.rows, parameters.as_deref_mut()) {
                    self.layer_filter_parameters(layer, (radial, filter), &rows, into);
                }
            }
            LayerFilter::Directed(_) => {
                let rows = directed_gradient(batch, &kept.mixed, of_message);
                let of = (Geometry { batch, edges, radial }, &pass.charges[layer].charges);
                let into = (&mut *to.distance, parameters);
                let own = self.directed_filter_back(layer, of, &rows, into);
                let charges = &mut to.charges[layer];
                each(own.rows(), own.cols(), |i, k| charges.add(i, k, own.at(i, k)));
            }
        }
    }

    fn embedding_back<N: Number<Real = T>>(
        &self,
        (batch, pass): (&Batch, &Pass<N>),
        gradient: &Rows<N>,
        of_edges: &mut EdgeGradients,
        mut into: Option<&mut Gradients<T>>,
    ) {
        let (atoms, h) = (batch.atoms(), self.config.channels);
        let (mut of_mixed, mut of_scales) = (Rows::zeros(9 * atoms, h), Rows::zeros(atoms, 3 * h));
        each(atoms, h, |i, j| {
            let (g, t) = (gradient.nine(i, j), pass.mixed.nine(i, j));
            for (c, g) in g.into_iter().enumerate() {
                of_scales.add(i, PART_OF[c] * h + j, g * t[c]);
                of_mixed.set(c * atoms + i, j, g * pass.scales.at(i, PART_OF[c] * h + j));
            }
        });
        let mixing = &self.embedding.mixing;
        let mut of_sums = mix_backward(mixing, &pass.sums, &of_mixed, into.as_deref_mut());
        let dy = self.scale_net().backward(&pass.scale_pass, of_scales, into.as_deref_mut());
        let norm = &self.embedding.norm;
        let squares = norm_backward(norm, &pass.init_norm, &dy, into.as_deref_mut());
        each(atoms, h, |i, j| {
            let (g, t, n) = (of_sums.nine(i, j), pass.sums.nine(i, j), squares.at(i, j));
            let sum = std::array::from_fn(|c| g[c] + t[c] * n * N::real(2.0));
            of_sums.set_nine(i, j, sum);
        });
        self.sums_back((batch, pass), &of_sums, of_edges, into);
    }

    fn sums_back<N: Number<Real = T>>(
        &self,
        (batch, pass): (&Batch, &Pass<N>),
        of_sums: &Rows<N>,
        of_edges: &mut EdgeGradients,
        into: Option<&mut Gradients<T>>,
    ) {
        let (h, present) = (self.config.channels, &pass.present);
        let Filter { rows: filter, .. } = &pass.filter;
        let itself = filter.rows() - 1;
        let rows = into.is_some().then(|| Rows::zeros(filter.rows(), 3 * h));
        let EdgeGradients { distance, unit, .. } = of_edges;
        let mut of_filter = FilterGradient { filter, edges: &pass.edges, distance, rows };
        let mut of_pairs = Rows::<Dual<T>>::zeros(pass.pairs.rows(), h);
        let index = |atom: usize| place(present, batch.species[atom]);
        let root = N::real(3.0_f64.sqrt());
        for atom in 0..batch.atoms() {
            let own = index(atom) * present.len() + index(atom);
            for j in 0..h {
                let g = of_sums.at(atom, j) * root;
                of_filter.add(itself, j, g * N::of(pass.pairs.at(own, j).value));
                let of_pair = last(g * N::of(filter.at(itself, j).value));
                of_pairs.add(own, j, Dual { value: T::ZERO, tangent: of_pair });
            }
            for entry in batch.neighbours.of(atom) {
                let (pair, sign) = (entry.pair as usize, if entry.reversed { -1.0 } else { 1.0 });
                let edge = &pass.edges[pair];
                let basis = harmonics::<N>(edge.unit(entry.reversed));
                let row = index(atom) * present.len() + index(entry.atom as usize);
                let mut of_basis = [0.0; 9];
                for j in 0..h {
                    let (g, z) = (of_sums.nine(atom, j), N::of(pass.pairs.at(row, j).value));
                    let mut of_pair = N::ZERO;
                    for (part, (first, count)) in PARTS.into_iter().enumerate() {
                        let f: N = edge.of(filter.at(pair, part * h + j));
                        let mut sum = N::ZERO;
                        for c in first..first + count {
                            sum += g[c] * basis[c];
                            of_basis[c] += (g[c] * f * z).parts().0.to_f64();
                        }
                        of_pair += sum * f;
                        of_filter.add(pair, part * h + j, sum * z);
                    }
                    of_pairs.add(row, j, Dual { value: T::ZERO, tangent: last(of_pair) });
                }
                let u = harmonics_gradient(of_basis, edge.unit.map(|x| sign * x));
                (0..3).for_each(|a| unit[pair][a] += sign * u[a]);
            }
        }
        if let (Some(rows), Some(into)) = (of_filter.rows, into) {
            self.embedding_filter_parameters(&pass.radial, &rows, into);
            self.species_parameters(pass, &of_pairs, into);
        }
    }

    fn species_parameters<N: Number<Real = T>>(
        &self,
        pass: &Pass<N>,
        of_pairs: &Rows<Dual<T>>,
        into: &mut Gradients<T>,
    ) {
        let (h, present) = (self.config.channels, &pass.present);
        let slot = &self.embedding.pair;
        parameters(slot, &pass.pair_input, of_pairs, &(0..of_pairs.rows()), into);
        let dx = backward(slot, &pass.pair_input, of_pairs);
        let name = "representation_model.tensor_embedding.emb.weight";
        let numbers = gradient_of(into, name, self.embedding.species.data().len());
        for i in 0..dx.rows() {
            for j in 0..2 * h {
                let of = if j < h { i / present.len() } else { i % present.len() };
                numbers[usize::from(present[of]) * h + j % h] += dx.at(i, j).tangent;
            }
        }
    }
}

/// Adds the gradients of filters: `<gradient of message i, y_j>` for both directions of each pair.
fn filter_gradient<N: Number>(
    into: &mut FilterGradient<'_, N>,
    batch: &Batch,
    y: &Rows<N>,
    of_message: &Rows<N>,
) {
    let h = y.cols();
    let itself = into.filter.rows() - 1;
    for j in 0..h {
        for atom in 0..batch.atoms() {
            let found = by_part(of_message.nine(atom, j), y.nine(atom, j));
            (0..3).for_each(|part| into.add(itself, part * h + j, found[part]));
        }
        for (pair, ends) in batch.neighbours.pairs.iter().enumerate() {
            let (first, second) = (ends.first as usize, ends.second as usize);
            for (to, from) in [(first, second), (second, first)] {
                let found = by_part(of_message.nine(to, j), y.nine(from, j));
                (0..3).for_each(|part| into.add(pair, part * h + j, found[part]));
            }
        }
    }
}
