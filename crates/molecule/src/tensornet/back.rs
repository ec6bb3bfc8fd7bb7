//! The backward pass, without a tape: derivatives of each step by hand, from data kept by the
//! forward pass.

use super::batch::Batch;
use super::directed::{Direction, Geometry, directed_gradient, directed_messages};
use super::linear::{Gradients, Packs, Values, backward, backward_rows, gradient_of, parameters};
use super::norm::norm_backward;
use super::number::{Dual, Number, Rows};
use super::parts::{PARTS, harmonics_gradient};
use super::pass::{LayerPass, Pass};
use super::radial::Filters;
use super::weights::TensorNet;
use linwright_ops::LinearSlot;
use linwright_tensor::Scalar;
use linwright_tensor::kernels::gemm::Write;
use linwright_tensor::kernels::irreps::jets::{self, EmbeddingGradients};

/// Gradients of the distances and directions of the pairs.
pub(crate) struct EdgeGradients {
    pub(crate) distance: Vec<f64>,
    pub(crate) unit: Vec<[f64; 3]>,
    /// Gradients of the distances of the pairs of the Coulomb energy.
    pub(crate) far: Vec<f64>,
}

/// Results of a backward pass: gradients of positions without tangents, of parameters with them.
enum Found<'a, T> {
    Edges(&'a mut EdgeGradients),
    Parameters(&'a mut Gradients<T>),
}

impl<T> Found<'_, T> {
    fn parameters(&mut self) -> Option<&mut Gradients<T>> {
        match self {
            Self::Edges(_) => None,
            Self::Parameters(into) => Some(into),
        }
    }
}

/// The slots that mix the parts of a tensor, with their packed weights and known values.
type MixingSlots<'a, T> = (&'a Packs, &'a Values<T>, &'a [LinearSlot<T>]);

/// Gradient of the input of mixing, and those of its weights if wanted.
fn mix_backward<N: Number>(
    (packs, values, slots): MixingSlots<'_, N::Real>,
    x: &Rows<N>,
    dy: &Rows<N>,
    into: Option<&mut Gradients<N::Real>>,
) -> Rows<N> {
    let atoms = x.rows() / 9;
    let parts = || slots.iter().zip(PARTS.map(|(first, n)| first * atoms..(first + n) * atoms));
    if let Some(into) = into {
        parts().for_each(|(slot, rows)| parameters(slot, x, dy, &rows, into));
    }
    Values::product(Some(values), Rows::unset(x.rows(), x.cols()), |dx, from| {
        for (slot, rows) in parts() {
            backward_rows((packs, slot), x, dy, (&mut *dx, from), &rows);
        }
    })
}

impl<T: Scalar> TensorNet<T> {
    /// Gradients of `Σ seed_i output_i` by the distances and directions of pairs.
    pub(crate) fn back_to_edges<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        (filters, pass): (&Filters<T>, &Pass<N>),
        seeds: Rows<N>,
    ) -> EdgeGradients {
        let pairs = pass.graph.edges.len();
        let (distance, unit) = (vec![0.0; pairs], vec![[0.0; 3]; pairs]);
        let mut found = EdgeGradients { distance, unit, far: Vec::new() };
        self.back(batch, (filters, pass), seeds, Found::Edges(&mut found));
        found
    }

    /// Gradients of all parameters of the tangent of `Σ seed_i output_i`.
    pub(crate) fn back_to_parameters(
        &self,
        batch: &Batch,
        of: (&Filters<T>, &Pass<Dual<T>>),
        seeds: Rows<Dual<T>>,
    ) -> Gradients<T> {
        let mut found = Gradients::new();
        self.back(batch, of, seeds, Found::Parameters(&mut found));
        found
    }

    fn back<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        (filters, pass): (&Filters<T>, &Pass<N>),
        seeds: Rows<N>,
        mut found: Found<'_, T>,
    ) {
        let [read, head] = self.readout_nets(filters);
        let (of_read, of_head) = pass.readout_pass.split_at(1);
        let mut of_charges = self.charges_back(batch, pass, &seeds, &mut found);
        let dy = head.backward(of_head, seeds, found.parameters());
        let dy = read.backward(of_read, dy, found.parameters());
        let dy = norm_backward(&self.readout.norm, &pass.out_norm, &dy, found.parameters());
        let h = self.config.channels;
        let mut gradient = Rows::<N>::unset(pass.last.rows(), h);
        jets::squares_backward(h, pass.last.jets(), dy.jets(), gradient.jets_mut());
        let mut x = &pass.last;
        for (layer, kept) in pass.layers.iter().enumerate().rev() {
            self.stage_back(layer + 1, (batch, pass, x), &of_charges, &mut gradient, &mut found);
            let of = (batch, filters, pass, kept);
            gradient = self.layer_back(layer, &gradient, of, (&mut of_charges[..], &mut found));
            x = &kept.input;
        }
        self.stage_back(0, (batch, pass, x), &of_charges, &mut gradient, &mut found);
        self.embedding_back((batch, filters, pass), &gradient, found);
    }

    /// Gradients of the latent charges of all stages from those of the outputs; adds those of the
    /// distances of far pairs.
    fn charges_back<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        pass: &Pass<N>,
        seeds: &Rows<N>,
        found: &mut Found<'_, T>,
    ) -> Vec<Rows<N>> {
        if !self.config.head.has_coulomb() {
            let zeros = |charges: &Rows<N>| Rows::zeros(charges.rows(), charges.cols());
            return pass.charges.iter().map(|stage| zeros(&stage.charges)).collect();
        }
        let (of_charges, far) = self.coulomb_back(batch, (&pass.far, &pass.charges), seeds);
        if let Found::Edges(edges) = found {
            edges.far = far;
        }
        of_charges
    }

    /// Adds the contribution of the charges, if any, to the gradient of the tensors x of a stage.
    fn stage_back<N: Number<Real = T>>(
        &self,
        stage: usize,
        (batch, pass, x): (&Batch, &Pass<N>, &Rows<N>),
        of_charges: &[Rows<N>],
        gradient: &mut Rows<N>,
        found: &mut Found<'_, T>,
    ) {
        if let (Some(kept), Some(of)) = (pass.charges.get(stage), of_charges.get(stage)) {
            self.charge_back(stage, (batch, x, kept), of, (gradient, found.parameters()));
        }
    }

    fn layer_back<N: Number<Real = T>>(
        &self,
        layer: usize,
        gradient: &Rows<N>,
        (batch, filters, pass, kept): (&Batch, &Filters<T>, &Pass<N>, &LayerPass<N>),
        (of_charges, found): (&mut [Rows<N>], &mut Found<'_, T>),
    ) -> Rows<N> {
        let (rows, h) = (gradient.rows(), self.config.channels);
        let mixing = &self.layers[layer].mixing;
        let mut of_update = Rows::<N>::unset(rows, h);
        let inputs = [kept.update.jets(), gradient.jets()];
        jets::update_backward(h, &pass.factors, inputs, of_update.jets_mut());
        let of = |slots| (&self.packs, &filters.values, slots);
        let of_product =
            mix_backward(of(&mixing[3..]), &kept.product, &of_update, found.parameters());
        let mut of_mixed = Rows::<N>::unset(rows, h);
        let mut of_message = Rows::<N>::unset(rows, h);
        jets::product_backward(
            h,
            self.square(&pass.factors),
            [kept.mixed.jets(), kept.message.jets(), of_product.jets()],
            [of_mixed.jets_mut(), of_message.jets_mut()],
        );
        match &kept.directed {
            Some(rows) => {
                let of = (batch, filters, pass, kept);
                self.directed_back(layer, of, &of_message, (&mut of_charges[layer], &mut *found));
                let opposite = Direction::Opposite;
                directed_messages(&mut of_mixed, &of_message, (batch, rows), opposite);
            }
            None => {
                self.filter_back(layer, (filters, pass, kept), &of_message, found);
                let (filter, to) = (filters.layers[layer].rows.jets(), of_mixed.jets_mut());
                jets::gather(pass.graph.rows(), filter, of_message.jets(), to, Write::Add);
            }
        }
        let of_normalised =
            mix_backward(of(&mixing[..3]), &kept.normalised, &of_mixed, found.parameters());
        let mut result = Rows::<N>::unset(rows, h);
        let both = [of_normalised.jets(), gradient.jets()];
        jets::normalise_backward(h, kept.input.jets(), both, result.jets_mut());
        result
    }

    /// Adds the gradients through the filters of a layer, which are those of distances.
    fn filter_back<N: Number<Real = T>>(
        &self,
        layer: usize,
        (filters, pass, kept): (&Filters<T>, &Pass<N>, &LayerPass<N>),
        of_message: &Rows<N>,
        found: &mut Found<'_, T>,
    ) {
        let (rows, h) = (of_message.rows(), of_message.cols());
        let filter = filters.layers[layer].rows.jets();
        let ends = (&pass.graph.ends[..], rows / 9);
        match found {
            Found::Edges(edges) => {
                let inputs = [kept.mixed.jets().value, of_message.jets().value];
                jets::distance_gradients(ends, filter, inputs, &mut edges.distance);
            }
            Found::Parameters(into) => {
                let mut to = Rows::<Dual<T>>::unset(ends.0.len() + 1, 3 * h);
                let inputs = [kept.mixed.jets(), of_message.jets()];
                jets::filter_gradients(ends, &pass.graph.along, inputs, to.jets_mut());
                self.layer_filter_parameters(layer, filters, to, into);
            }
        }
    }

    /// Adds the gradients through the directed filters of a layer.
    fn directed_back<N: Number<Real = T>>(
        &self,
        layer: usize,
        (batch, filters, pass, kept): (&Batch, &Filters<T>, &Pass<N>, &LayerPass<N>),
        of_message: &Rows<N>,
        (of_charges, found): (&mut Rows<N>, &mut Found<'_, T>),
    ) {
        let of_filters = directed_gradient(batch, &kept.mixed, of_message);
        let geometry = Geometry { batch, edges: &pass.graph.edges, radial: &filters.radial };
        let of = (geometry, &pass.charges[layer].charges);
        let to = match found {
            Found::Edges(edges) => (&mut edges.distance[..], None),
            Found::Parameters(into) => (&mut [][..], Some(&mut **into)),
        };
        let own = self.directed_filter_back(layer, of, &of_filters, to);
        for i in 0..own.rows() {
            (0..own.cols()).for_each(|k| of_charges.add(i, k, own.at(i, k)));
        }
    }

    fn embedding_back<N: Number<Real = T>>(
        &self,
        (batch, filters, pass): (&Batch, &Filters<T>, &Pass<N>),
        gradient: &Rows<N>,
        mut found: Found<'_, T>,
    ) {
        let (atoms, h) = (batch.atoms(), self.config.channels);
        let mut of_mixed = Rows::<N>::unset(9 * atoms, h);
        let mut of_scales = Rows::<N>::unset(atoms, 3 * h);
        jets::scale_parts_backward(
            h,
            [pass.scales.jets(), pass.mixed.jets(), gradient.jets()],
            [of_mixed.jets_mut(), of_scales.jets_mut()],
        );
        let mixing = (&self.packs, &filters.values, &self.embedding.mixing[..]);
        let mut of_sums = mix_backward(mixing, &pass.sums, &of_mixed, found.parameters());
        let dy = self.scale_net(filters).backward(&pass.scale_pass, of_scales, found.parameters());
        let norm = &self.embedding.norm;
        let of_norms = norm_backward(norm, &pass.init_norm, &dy, found.parameters());
        jets::norms_backward(h, pass.sums.jets(), of_norms.jets(), of_sums.jets_mut());
        match found {
            Found::Edges(edges) => sums_to_edges(batch, (filters, pass), &of_sums, edges),
            Found::Parameters(into) => self.sums_to_parameters((filters, pass), &of_sums, into),
        }
    }

    fn sums_to_parameters<N: Number<Real = T>>(
        &self,
        (filters, pass): (&Filters<T>, &Pass<N>),
        of_sums: &Rows<N>,
        into: &mut Gradients<T>,
    ) {
        let (h, filter) = (self.config.channels, &filters.embedding);
        let mut of_filter = Rows::<Dual<T>>::zeros(filter.rows(), 3 * h);
        let mut of_pairs = Rows::<Dual<T>>::zeros(pass.pairs.rows(), h);
        let of = pass.graph.embedding(pass.pairs.planes[0].data());
        let to = EmbeddingGradients {
            filters: of_filter.jets_mut(),
            species: of_pairs.planes[1].data_mut(),
        };
        jets::embed_gradients(pass.graph.rows(), of, filter.jets(), of_sums.jets(), to);
        self.embedding_filter_parameters(&filters.radial, of_filter, into);
        self.species_parameters(pass, &of_pairs, into);
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
        let dx = backward((&self.packs, slot), &pass.pair_input, of_pairs);
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

fn sums_to_edges<N: Number>(
    batch: &Batch,
    (filters, pass): (&Filters<N::Real>, &Pass<N>),
    of_sums: &Rows<N>,
    found: &mut EdgeGradients,
) {
    let graph = &pass.graph;
    let of = graph.embedding(pass.pairs.planes[0].data());
    let mut of_shapes = vec![[0.0; 9]; batch.neighbours.entries.len()];
    let to = (&mut found.distance[..], &mut of_shapes[..]);
    let dx = of_sums.jets().value;
    jets::embed_distances(graph.rows(), of, filters.embedding.jets(), dx, to);
    for (entry, of_shape) in batch.neighbours.entries.iter().zip(of_shapes) {
        let (pair, sign) = (entry.pair as usize, if entry.reversed { -1.0 } else { 1.0 });
        let u = harmonics_gradient(of_shape, graph.edges[pair].unit.map(|x| sign * x));
        (0..3).for_each(|a| found.unit[pair][a] += sign * u[a]);
    }
}
