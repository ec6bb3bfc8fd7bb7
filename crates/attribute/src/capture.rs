//! Compressed gradients of examples: a probe that compresses them on the fly.
//!
//! The forward pass keeps the columns of each input that compressors need, once for layers that
//! read the same input; the backward pass multiplies them with the reduced gradients of outputs,
//! one example at a time. It computes only gradients of inputs and ends below the first chosen
//! layer. Batches have no padding; rows without a target have a loss of zero, so they contribute
//! only through later targets.

use crate::AttributeError;
use crate::examples::{ExampleBatch, ExampleLosses};
use crate::gradient_map::{GradientMap, InputGroup};
use crate::target::Objective;
use linwright_ops::{Differentiable, ExampleRows, Probe, Seen, SeenGradient, SiteId};
use linwright_run::memory;
use linwright_tensor::kernels::elementwise::{all_finite, scale};
use linwright_tensor::kernels::select::select_columns;
use linwright_tensor::{Mat, MatMut, MatRef, Scratch};

/// Compressed gradients of the examples of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// One row for each example.
    pub rows: Mat<f32>,
    /// The differentiated quantity of each example, summed or averaged over its targets like its
    /// gradient: a loss in nats.
    pub losses: Vec<f64>,
    /// Number of targets of each example.
    pub targets: Vec<u64>,
    /// The examples whose compressed gradients are zero although their gradients are not: the
    /// compressor selects no nonzero entry of them.
    pub missed: Vec<usize>,
}

/// The compressed gradients of each example of a batch: those of its loss, or of another
/// [`Objective`]. `first` is the number of the first example, for messages.
///
/// # Errors
/// [`AttributeError::NoTarget`], [`AttributeError::ZeroGradient`], [`AttributeError::NotFinite`],
/// [`AttributeError::Layers`] for a chosen layer that the loss does not depend on, and
/// [`AttributeError::Network`].
pub fn gradients<N: Differentiable>(
    network: &N,
    map: &GradientMap,
    batch: &ExampleBatch<N::Input>,
    objective: impl Into<Objective>,
    first: usize,
) -> Result<Gradients, AttributeError> {
    let (targets, objective) = (batch.counted(), objective.into());
    if let Some(empty) = targets.iter().position(|count| *count == 0) {
        return Err(AttributeError::NoTarget { example: first + empty });
    }
    check_memory(map, targets.len())?;
    let mut loss = ExampleLosses::new(batch, objective.target);
    let mut capture = Capture::new(map, targets.len());
    let passed = network.loss_to_slots(&batch.input, &mut loss, &mut capture);
    passed.map_err(|error| AttributeError::Network(Box::new(error)))?;
    let touched = std::mem::take(&mut capture.touched);
    let (mut rows, mut losses) = (capture.finish()?, loss.losses);
    let mut missed = Vec::new();
    for (example, &count) in targets.iter().enumerate() {
        let factor = objective.reduction.scale(count);
        losses[example] *= f64::from(factor);
        if factor != 1.0 {
            scale(rows.view_mut().rows_range(example, 1), factor);
        }
        let row = rows.row(example);
        check(map, row, first + example)?;
        if row.iter().all(|number| *number == 0.0) {
            if !touched[example] {
                return Err(AttributeError::ZeroGradient { example: first + example });
            }
            missed.push(example);
        }
    }
    Ok(Gradients { rows, losses, targets, missed })
}

/// The contributions of the rows of a batch to the compressed gradients of its examples: row t has
/// `g_t a_tᵀ` of every layer, compressed. The rows of an example add up to its gradient. For
/// networks whose layers have as many rows as the batch has targets, such as language models.
///
/// # Errors
/// As [`gradients`], and [`AttributeError::Layers`] for layers with other rows.
pub fn gradients_by_row<N: Differentiable>(
    network: &N,
    map: &GradientMap,
    batch: &ExampleBatch<N::Input>,
    objective: impl Into<Objective>,
    first: usize,
) -> Result<Mat<f32>, AttributeError> {
    let (targets, objective) = (batch.counted(), objective.into());
    if let Some(empty) = targets.iter().position(|count| *count == 0) {
        return Err(AttributeError::NoTarget { example: first + empty });
    }
    check_memory(map, batch.targets.len())?;
    let mut loss = ExampleLosses::new(batch, objective.target);
    let mut capture = Capture::new(map, batch.targets.len());
    capture.by_row = true;
    let passed = network.loss_to_slots(&batch.input, &mut loss, &mut capture);
    passed.map_err(|error| AttributeError::Network(Box::new(error)))?;
    if let Some(other) = capture.passed.iter().position(|rows| *rows != batch.targets.len()) {
        let (site, found) = (&map.layers()[other].site, capture.passed[other]);
        let expected = batch.targets.len();
        return Err(AttributeError::Layers {
            reason: format!("{site} has {found} rows, expected {expected}, one for each target"),
        });
    }
    let mut rows = capture.finish()?;
    for (span, &count) in batch.spans.iter().zip(&targets) {
        let factor = objective.reduction.scale(count);
        if factor != 1.0 {
            scale(rows.view_mut().rows_range(span.start, span.len()), factor);
        }
    }
    if !all_finite(rows.data()) {
        let site = map.layers()[0].site.0.clone();
        return Err(AttributeError::NotFinite { example: first, site });
    }
    Ok(rows)
}

/// Checks that there is memory for this number of compressed gradients.
fn check_memory(map: &GradientMap, rows: usize) -> Result<(), AttributeError> {
    let what = || format!("{rows} gradients of {} numbers", map.size());
    let factors = [rows as u64, map.size() as u64, size_of::<f32>() as u64];
    Ok(memory::check(what, &factors)?)
}

/// Checks that a gradient is finite.
fn check(map: &GradientMap, row: &[f32], example: usize) -> Result<(), AttributeError> {
    if !all_finite(row) {
        let bad = map.layers().iter().find(|layer| !all_finite(&row[layer.columns.clone()]));
        let site = bad.map(|layer| layer.site.0.clone()).unwrap_or_default();
        return Err(AttributeError::NotFinite { example, site });
    }
    Ok(())
}

/// Whether each row has a number that is not zero.
fn nonzero(rows: MatRef<'_, f32>) -> Vec<bool> {
    (0..rows.rows()).map(|i| rows.row(i).iter().any(|number| *number != 0.0)).collect()
}

/// Reduced inputs of a block of rows, for the layers of a group.
struct Kept {
    /// The columns (rows, union) selected by at least one layer.
    union: Scratch<f32>,
    rows: usize,
    /// Inputs of layers with another map.
    own: Vec<Option<Mat<f32>>>,
    /// Whether each whole input has a number that is not zero.
    nonzero: Vec<bool>,
    /// Number of layers that have not read them yet.
    left: usize,
}

impl Kept {
    fn of(map: &GradientMap, group: &InputGroup, x: MatRef<'_, f32>) -> Self {
        let (rows, columns) = (x.rows(), group.union.len());
        let mut union = Scratch::new(rows * columns);
        select_columns(x, &group.union, MatMut::new(&mut union, rows, columns));
        let own = group.layers.iter().zip(&group.places).map(|(&layer, places)| match places {
            Some(_) => None,
            None => Some(map.layers()[layer].map.reduce_inputs(x)),
        });
        let (own, nonzero) = (own.collect(), nonzero(x));
        Self { union, rows, own, nonzero, left: group.layers.len() }
    }

    /// The reduced inputs of a member of the group, gathered into `chosen` if necessary.
    fn of_member<'b>(
        &'b self,
        group: &InputGroup,
        member: usize,
        chosen: &'b mut Mat<f32>,
    ) -> MatRef<'b, f32> {
        if let Some(own) = &self.own[member] {
            return own.view();
        }
        let union = MatRef::new(&self.union, self.rows, group.union.len());
        let places = group.places[member].as_deref().unwrap_or_default();
        let is_all = places.len() == union.cols()
            && places.iter().enumerate().all(|(at, &place)| at == place as usize);
        if is_all {
            return union;
        }
        select_columns(union, places, chosen.view_mut_of(self.rows, places.len()));
        chosen.view()
    }
}

/// The compressing probe. Blocks of rows of a slot arrive in the same order in the forward and the
/// backward pass.
struct Capture<'a> {
    map: &'a GradientMap,
    /// For each group the blocks of its input, until all of its layers have read them.
    kept: Vec<Vec<Option<Kept>>>,
    /// For each layer the number of blocks whose gradient arrived, and of their rows.
    seen: Vec<usize>,
    passed: Vec<usize>,
    /// Compressed gradients of examples, or of rows.
    rows: Mat<f32>,
    by_row: bool,
    /// Whether an example, or a row, has a nonzero gradient in some layer, ignoring cancellation
    /// between rows.
    touched: Vec<bool>,
    /// Memory for the inputs of a layer.
    chosen: Mat<f32>,
}

impl<'a> Capture<'a> {
    /// A capture of this number of examples, or rows.
    fn new(map: &'a GradientMap, examples: usize) -> Self {
        let kept = map.groups().iter().map(|_| Vec::new()).collect();
        let (seen, passed) = (vec![0; map.layers().len()], vec![0; map.layers().len()]);
        let rows = Mat::zeros(examples, map.size());
        let (touched, chosen) = (vec![false; examples], Mat::default());
        Self { map, kept, seen, passed, rows, by_row: false, touched, chosen }
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

    /// The group whose input is captured at this site.
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
        let kept = place.as_mut().unwrap_or_else(|| panic!("{site}: rows were captured twice"));
        let group = &self.map.groups()[layer.group];
        let x = kept.of_member(group, layer.member, &mut self.chosen);
        let dy = seen.dy;
        let before = self.passed[index];
        self.passed[index] += dy.rows();
        let parts = match self.by_row {
            true => each_row(seen.examples, before, self.rows.rows()),
            false => seen.examples.to_vec(),
        };
        for part in &parts {
            let of_row = |row: usize| {
                let (x, bias) = (kept.nonzero[row], layer.map.shape().bias);
                (x || bias) && dy.row(row).iter().any(|number| *number != 0.0)
            };
            let touched = &mut self.touched[part.example];
            *touched = *touched || part.rows.clone().any(of_row);
        }
        let (first, count) = (layer.columns.start, layer.columns.len());
        let rows = self.rows.view_mut().columns(first, count);
        layer.map.add_examples(dy, x, &parts, rows);
        kept.left -= 1;
        if kept.left == 0 {
            *place = None;
        }
    }
}

/// Every row of a block as a separate example, numbered within the batch of `most` rows, `before`
/// of which precede the block.
fn each_row(examples: &[ExampleRows], before: usize, most: usize) -> Vec<ExampleRows> {
    let rows = examples.iter().flat_map(|part| part.rows.clone());
    let row = |row: usize| ExampleRows { example: before + row, rows: row..row + 1 };
    rows.map(row).filter(|part| part.example < most).collect()
}

#[cfg(test)]
mod tests;
