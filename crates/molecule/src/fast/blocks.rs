//! Computation for the atoms of one block, on one thread.

use super::dense::{apply_curve, apply_slope};
use super::model::Model;
use linwright_tensor::kernels::irreps::{
    COMPONENTS, PARTS, Square, normalise, normalise_backward, product, product_backward,
    scale_parts, scale_parts_backward, squares, squares_backward, update, update_backward,
};
use linwright_tensor::kernels::norm::{norm, norm_backward};
use linwright_tensor::{MatMut, MatRef, Scratch};

/// Data of the embedding for the backward pass, for some atoms.
#[derive(Debug)]
pub(super) struct EmbeddingBlock<'a> {
    pub embedded: &'a mut [f32],
    pub mixed: &'a mut [f32],
    pub norms: &'a mut [f32],
    pub hidden: &'a mut [f32],
    pub scales: &'a mut [f32],
}

/// Data of a layer, for some atoms; its updates are written in the forward pass and read in the
/// backward pass.
#[derive(Debug)]
pub(super) struct LayerBlock<'a, U> {
    pub normal: &'a [f32],
    pub features: &'a [f32],
    pub messages: &'a [f32],
    pub updates: U,
}

/// Input data of a layer, for some atoms.
#[derive(Debug)]
pub(super) struct LayerStart<'a> {
    pub normal: &'a mut [f32],
    pub inverse: &'a mut [f32],
    pub features: &'a mut [f32],
}

/// Weights and the constants of one structure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass<'a> {
    pub model: &'a Model,
    pub square: Square<f32>,
    /// Factor of the square of updates.
    pub factor: f32,
    /// Gradient of the energy with respect to the output of an atom.
    pub seed: f32,
    pub forces: bool,
}

fn rows(numbers: &[f32], cols: usize) -> MatRef<'_, f32> {
    MatRef::new(numbers, numbers.len() / cols, cols)
}

fn rows_mut(numbers: &mut [f32], cols: usize) -> MatMut<'_, f32> {
    let count = numbers.len() / cols;
    MatMut::new(numbers, count, cols)
}

/// Consecutive parts of these lengths.
pub(super) fn split<T>(mut rest: &mut [T], lens: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    lens.map(|len| {
        let (part, others) = std::mem::take(&mut rest).split_at_mut(len);
        rest = others;
        part
    })
    .collect()
}

impl Pass<'_> {
    fn channels(&self) -> usize {
        self.model.channels
    }

    /// From sums over edges to the first tensors `x`.
    pub(super) fn embed(&self, of: &mut EmbeddingBlock<'_>, x: &mut [f32]) {
        let (h, weights, f) = (self.channels(), &self.model.embedding, self.model.activation);
        let atoms = x.len() / (COMPONENTS * h);
        let mut parts = Scratch::<f32>::new(atoms * PARTS * h);
        squares(h, of.embedded, &mut parts);
        for (norms, parts) in of.norms.chunks_exact_mut(h).zip(parts.chunks_exact(PARTS * h)) {
            for (c, sum) in norms.iter_mut().enumerate() {
                *sum = parts[c] + parts[h + c] + parts[2 * h + c];
            }
        }
        let mut normal = Scratch::<f32>::new(atoms * h);
        norm(rows(of.norms, h), &weights.norm.norm(), rows_mut(&mut normal, h));
        let mut hidden = Scratch::<f32>::new(atoms * 2 * h);
        weights.scales[0].forward(1, rows(&normal, h), rows_mut(of.hidden, 2 * h));
        apply_curve(f, rows(of.hidden, 2 * h), rows_mut(&mut hidden, 2 * h));
        weights.scales[1].forward(1, rows(&hidden, 2 * h), rows_mut(of.scales, 3 * h));
        apply_curve(f, rows(of.scales, 3 * h), rows_mut(&mut parts, 3 * h));
        weights.mixing.forward(h, of.embedded, of.mixed);
        scale_parts(h, &parts, of.mixed, x);
    }

    /// Overwrites the gradient `g` of the first tensors by that of the sums over edges.
    pub(super) fn embed_backward(&self, of: EmbeddingBlock<'_>, g: &mut [f32]) {
        let (h, weights, f) = (self.channels(), &self.model.embedding, self.model.activation);
        let atoms = g.len() / (COMPONENTS * h);
        let mut scales = Scratch::<f32>::new(atoms * PARTS * h);
        let mut of_scales = Scratch::<f32>::new(atoms * PARTS * h);
        apply_curve(f, rows(of.scales, 3 * h), rows_mut(&mut scales, 3 * h));
        scale_parts_backward(h, &scales, of.mixed, g, &mut of_scales);
        apply_slope(f, rows_mut(of.scales, 3 * h), rows(&of_scales, 3 * h));
        let mut of_hidden = Scratch::<f32>::new(atoms * 2 * h);
        weights.scales[1].backward(1, rows(of.scales, 3 * h), rows_mut(&mut of_hidden, 2 * h));
        apply_slope(f, rows_mut(of.hidden, 2 * h), rows(&of_hidden, 2 * h));
        let mut of_normal = Scratch::<f32>::new(atoms * h);
        weights.scales[0].backward(1, rows(of.hidden, 2 * h), rows_mut(&mut of_normal, h));
        let mut of_norms = Scratch::<f32>::zeros(atoms * h);
        norm_backward(
            rows(of.norms, h),
            &weights.norm.norm(),
            rows(&of_normal, h),
            rows_mut(&mut of_norms, h),
            None,
            None,
        );
        for (to, from) in of_scales.chunks_exact_mut(PARTS * h).zip(of_norms.chunks_exact(h)) {
            to.chunks_exact_mut(h).for_each(|to| to.copy_from_slice(from));
        }
        weights.mixing.backward(h, g, of.mixed);
        g.copy_from_slice(of.mixed);
        squares_backward(h, of.embedded, &of_scales, g);
    }

    /// Normalises and mixes the tensors `x` at the start of a layer.
    pub(super) fn begin(&self, layer: usize, x: &[f32], of: LayerStart<'_>) {
        let h = self.channels();
        normalise(h, x, of.normal, of.inverse);
        self.model.layers[layer].before.forward(h, of.normal, of.features);
    }

    /// From messages to the tensors `x` after a layer.
    pub(super) fn interact(&self, layer: usize, of: LayerBlock<'_, &mut [f32]>, x: &mut [f32]) {
        let h = self.channels();
        let mut products = Scratch::<f32>::new(x.len());
        product(h, self.square, of.features, of.messages, &mut products);
        self.model.layers[layer].after.forward(h, &products, of.updates);
        update(h, self.factor, of.normal, of.updates, x);
    }

    /// From the gradient `g` of [`Self::interact`]'s result to those of messages and features.
    pub(super) fn interact_backward(
        &self,
        layer: usize,
        of: LayerBlock<'_, &[f32]>,
        g: &[f32],
        of_messages: &mut [f32],
        of_features: &mut [f32],
    ) {
        let h = self.channels();
        let mut of_updates = Scratch::<f32>::new(g.len());
        update_backward(h, self.factor, of.updates, g, &mut of_updates);
        self.model.layers[layer].after.backward(h, &of_updates, of_messages);
        product_backward(h, self.square, of.features, of.messages, of_messages, of_features);
    }

    /// From the gradients of features and of a layer's result, `g`, to that of its input in `g`.
    pub(super) fn normalise_backward(
        &self,
        layer: usize,
        normal: &[f32],
        inverse: &[f32],
        of_features: &[f32],
        g: &mut [f32],
    ) {
        let h = self.channels();
        let mut mixed = Scratch::<f32>::new(g.len());
        self.model.layers[layer].before.backward(h, of_features, &mut mixed);
        g.iter_mut().zip(&*mixed).for_each(|(g, mixed)| *g += mixed);
        normalise_backward(h, normal, inverse, g);
    }

    /// Outputs of atoms; overwrites their tensors `x` by the gradient of the energy.
    pub(super) fn read_out(&self, x: &mut [f32], energies: &mut [f32]) {
        let (h, weights, f) = (self.channels(), &self.model.readout, self.model.activation);
        let (atoms, half) = (energies.len(), weights.last.len());
        let scratch = |width: usize| Scratch::<f32>::new(atoms * width);
        let (mut parts, mut normal) = (scratch(PARTS * h), scratch(PARTS * h));
        squares(h, x, &mut parts);
        norm(rows(&parts, 3 * h), &weights.norm.norm(), rows_mut(&mut normal, 3 * h));
        let (mut first, mut active) = (scratch(h), scratch(h));
        weights.linear.forward(1, rows(&normal, 3 * h), rows_mut(&mut first, h));
        apply_curve(f, rows(&first, h), rows_mut(&mut active, h));
        let (mut second, mut last) = (scratch(half), scratch(half));
        weights.hidden.forward(1, rows(&active, h), rows_mut(&mut second, half));
        apply_curve(f, rows(&second, half), rows_mut(&mut last, half));
        for (energy, last) in energies.iter_mut().zip(last.chunks_exact(half)) {
            let sum: f32 = last.iter().zip(&weights.last).map(|(a, b)| a * b).sum();
            *energy = sum + weights.bias;
        }
        if !self.forces {
            return;
        }
        for row in last.chunks_exact_mut(half) {
            row.iter_mut().zip(&weights.last).for_each(|(g, weight)| *g = self.seed * weight);
        }
        apply_slope(f, rows_mut(&mut second, half), rows(&last, half));
        weights.hidden.backward(1, rows(&second, half), rows_mut(&mut active, h));
        apply_slope(f, rows_mut(&mut first, h), rows(&active, h));
        weights.linear.backward(1, rows(&first, h), rows_mut(&mut normal, 3 * h));
        let mut of_parts = Scratch::<f32>::zeros(atoms * PARTS * h);
        norm_backward(
            rows(&parts, 3 * h),
            &weights.norm.norm(),
            rows(&normal, 3 * h),
            rows_mut(&mut of_parts, 3 * h),
            None,
            None,
        );
        let mut g = Scratch::<f32>::zeros(x.len());
        squares_backward(h, x, &of_parts, &mut g);
        x.copy_from_slice(&g);
    }
}
