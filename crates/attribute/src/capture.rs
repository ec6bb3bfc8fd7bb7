//! Compressed gradients of examples: a probe that compresses them as they are born.
//!
//! The forward pass keeps of each input the columns that compressors need, once for layers that
//! read the same input; the backward pass multiplies them with the reduced gradients of outputs,
//! one example at a time. It computes gradients of inputs alone and ends below the first chosen
//! layer. Batches have no padding; rows without a target have a loss of zero, so they contribute
//! exactly nothing where the loss is taken, and elsewhere what later targets owe them.

use crate::AttributeError;
use crate::examples::{ExampleBatch, ExampleLosses, Reduction};
use crate::gradient_map::{GradientMap, InputGroup};
use linwright_ops::{Differentiable, ExampleRows, Probe, Seen, SeenGradient, SiteId};
use linwright_tensor::kernels::elementwise::{all_finite, scale};
use linwright_tensor::kernels::select::select_columns;
use linwright_tensor::{Mat, MatMut, MatRef, parallel};
use std::borrow::Cow;

/// Compressed gradients of the examples of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// One row for each example.
    pub rows: Mat<f32>,
    /// Loss of each example in nats, summed or averaged over its targets like its gradient.
    pub losses: Vec<f64>,
    /// Number of targets of each example.
    pub targets: Vec<u64>,
}

/// The compressed gradients of the loss of each example of a batch. `first` is the number of the
/// first example, for messages.
///
/// # Errors
/// [`AttributeError::NoTarget`], [`AttributeError::ZeroGradient`], [`AttributeError::NotFinite`],
/// [`AttributeError::Layers`] for a chosen layer that the loss does not depend on, and
/// [`AttributeError::Network`].
pub fn gradients<N: Differentiable>(
    network: &N,
    map: &GradientMap,
    batch: &ExampleBatch<N::Input>,
    reduction: Reduction,
    first: usize,
) -> Result<Gradients, AttributeError> {
    let targets = batch.counted();
    if let Some(empty) = targets.iter().position(|count| *count == 0) {
        return Err(AttributeError::NoTarget { example: first + empty });
    }
    let (mut loss, mut capture) = (ExampleLosses::new(batch), Capture::new(map, targets.len()));
    let passed = network.loss_to_slots(&batch.input, &mut loss, &mut capture);
    passed.map_err(|error| AttributeError::Network(Box::new(error)))?;
    let (mut rows, mut losses) = (capture.finish()?, loss.losses);
    for (example, &count) in targets.iter().enumerate() {
        let factor = reduction.scale(count);
        losses[example] *= f64::from(factor);
        if factor != 1.0 {
            scale(rows.view_mut().rows_range(example, 1), factor);
        }
        check(map, rows.row(example), first + example)?;
    }
    Ok(Gradients { rows, losses, targets })
}

/// Checks that a gradient is finite and not zero.
fn check(map: &GradientMap, row: &[f32], example: usize) -> Result<(), AttributeError> {
    if !all_finite(row) {
        let bad = map.layers().iter().find(|layer| !all_finite(&row[layer.columns.clone()]));
        let site = bad.map(|layer| layer.site.0.clone()).unwrap_or_default();
        return Err(AttributeError::NotFinite { example, site });
    }
    match row.iter().all(|number| *number == 0.0) {
        true => Err(AttributeError::ZeroGradient { example }),
        false => Ok(()),
    }
}

/// Reduced inputs of a block of rows, for the layers of a group.
struct Kept {
    /// The columns that some layer picks.
    union: Mat<f32>,
    /// Inputs of layers with another map.
    own: Vec<Option<Mat<f32>>>,
    /// Layers that have not read them yet.
    left: usize,
}

impl Kept {
    fn of(map: &GradientMap, group: &InputGroup, x: MatRef<'_, f32>) -> Self {
        let mut union = Mat::zeros(x.rows(), group.union.len());
        select_columns(x, &group.union, union.view_mut());
        let own = group.layers.iter().zip(&group.places).map(|(&layer, places)| match places {
            Some(_) => None,
            None => Some(map.layers()[layer].map.reduce_inputs(x)),
        });
        Self { union, own: own.collect(), left: group.layers.len() }
    }

    /// The reduced inputs of a member of the group.
    fn of_member(&self, group: &InputGroup, member: usize) -> Cow<'_, Mat<f32>> {
        if let Some(own) = &self.own[member] {
            return Cow::Borrowed(own);
        }
        let places = group.places[member].as_deref().unwrap_or_default();
        let is_all = places.len() == self.union.cols()
            && places.iter().enumerate().all(|(at, &place)| at == place as usize);
        if is_all {
            return Cow::Borrowed(&self.union);
        }
        let mut chosen = Mat::zeros(self.union.rows(), places.len());
        select_columns(self.union.view(), places, chosen.view_mut());
        Cow::Owned(chosen)
    }
}

/// Compresses what it sees. Blocks of rows of a slot come back in the order in which they came.
struct Capture<'a> {
    map: &'a GradientMap,
    /// For each group the blocks of its input; none once all of its layers have read them.
    kept: Vec<Vec<Option<Kept>>>,
    /// For each layer the number of blocks whose gradient came.
    seen: Vec<usize>,
    rows: Mat<f32>,
}

impl<'a> Capture<'a> {
    fn new(map: &'a GradientMap, examples: usize) -> Self {
        let kept = map.groups().iter().map(|_| Vec::new()).collect();
        let seen = vec![0; map.layers().len()];
        Self { map, kept, seen, rows: Mat::zeros(examples, map.size()) }
    }

    fn finish(self) -> Result<Mat<f32>, AttributeError> {
        match self.seen.iter().position(|blocks| *blocks == 0) {
            None => Ok(self.rows),
            Some(unseen) => Err(AttributeError::Layers {
                reason: format!(
                    "the loss does not depend on layer {}; leave it out",
                    self.map.layers()[unseen].site
                ),
            }),
        }
    }

    /// The group whose input is seen at this site.
    fn led(&self, site: &SiteId) -> Option<usize> {
        let group = self.map.layers()[self.map.index(site)?].group;
        (self.map.groups()[group].leader == *site).then_some(group)
    }
}

impl Probe for Capture<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        self.led(site).is_some()
    }

    fn needs_inputs_alone(&self) -> bool {
        true
    }

    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>) {
        if let Some(group) = self.led(site) {
            let kept = Kept::of(self.map, &self.map.groups()[group], seen.x);
            self.kept[group].push(Some(kept));
        }
    }

    fn wants_gradient(&self, site: &SiteId) -> bool {
        self.map.index(site).is_some()
    }

    fn on_backward(&mut self, site: &SiteId, seen: SeenGradient<'_>) {
        let Some(index) = self.map.index(site) else { return };
        let layer = &self.map.layers()[index];
        let block = self.seen[index];
        self.seen[index] += 1;
        let place = self.kept[layer.group].get_mut(block);
        let place = place.unwrap_or_else(|| panic!("{site}: a gradient of rows without an input"));
        let kept = place.as_mut().unwrap_or_else(|| panic!("{site}: rows came twice"));
        let x = kept.of_member(&self.map.groups()[layer.group], layer.member);
        let dy = layer.map.reduce_gradients(seen.dy);
        let mut of_examples: Vec<(MatMut<'_, f32>, Vec<&ExampleRows>)> =
            self.rows.view_mut().row_blocks(1).into_iter().map(|row| (row, Vec::new())).collect();
        seen.examples.iter().for_each(|part| of_examples[part.example].1.push(part));
        of_examples.retain(|(_, parts)| !parts.is_empty());
        let columns = layer.columns.clone();
        parallel::for_each(of_examples, |_, (mut row, parts)| {
            for ExampleRows { rows, .. } in parts {
                let (dy, x) = (dy.view(), x.view());
                let (dy, x) =
                    (dy.rows_range(rows.start, rows.len()), x.rows_range(rows.start, rows.len()));
                layer.map.add(dy, x, &mut row.row_mut(0)[columns.clone()]);
            }
        });
        drop(x);
        kept.left -= 1;
        if kept.left == 0 {
            *place = None;
        }
    }
}

#[cfg(test)]
mod tests;
