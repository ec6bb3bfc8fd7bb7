//! Second moments of layer inputs and of gradients of layer outputs, over all rows of all examples:
//! the factors of K-FAC.
//!
//! `A = mean a aᵀ` of reduced inputs, with the 1 of a bias, and `S = mean g gᵀ` of reduced
//! gradients of outputs, for the loss of the example. Means are over rows: tokens, or images. Sums
//! are in f64.

use crate::examples::ExampleLosses;
use crate::target::Objective;
use crate::{AttributeError, Examples, GradientMap};
use linwright_ops::{Differentiable, ExampleRows, Probe, Seen, SeenGradient, SiteId};
use linwright_run::Monitor;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::{Mat, MatRef};

/// The moments of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// Of reduced inputs.
    pub inp: Mat<f64>,
    /// Of reduced gradients of outputs.
    pub out: Mat<f64>,
}

/// The moments of every layer of `map`, whose compressors must map the two factors separately.
///
/// # Errors
/// [`AttributeError::Compressor`] for maps of the product, which mix the two factors;
/// [`AttributeError::Network`], [`AttributeError::NotFinite`], [`AttributeError::Interrupted`].
pub fn moments<N: Differentiable>(
    (network, map): (&N, &GradientMap),
    examples: &dyn Examples<N::Input>,
    (objective, batch): (Objective, usize),
    monitor: &mut dyn Monitor,
) -> Result<Vec<Moments>, AttributeError> {
    if let Some(layer) = map.layers().iter().find(|layer| layer.map.factors().is_none()) {
        return Err(AttributeError::Compressor {
            found: "a map of the product".into(),
            reason: "K-FAC and EK-FAC need a compressor of the two factors alone, such as identity, logra:256 or factorised_mask:256".into(),
        }
        .of_layer(&layer.site.0));
    }
    let mut sums = Sums::new(map);
    monitor.step("moments");
    for start in (0..examples.count()).step_by(batch.max(1)) {
        if monitor.interrupted() {
            return Err(AttributeError::Interrupted);
        }
        let end = examples.count().min(start + batch.max(1));
        let part = examples.batch(start..end);
        sums.scales =
            part.counted().iter().map(|&count| objective.reduction.scale(count)).collect();
        let mut loss = ExampleLosses::new(&part, objective.target);
        let passed = network.loss_to_slots(&part.input, &mut loss, &mut sums);
        passed.map_err(|error| AttributeError::Network(Box::new(error)))?;
        monitor.progress(end as u64, examples.count() as u64);
    }
    sums.finish()
}

/// The probe that accumulates moments.
struct Sums<'a> {
    map: &'a GradientMap,
    layers: Vec<Moments>,
    /// Rows of inputs and of gradients that were added, for each layer.
    rows: Vec<[usize; 2]>,
    /// Factor of the gradient of each example of the batch.
    scales: Vec<f32>,
}

impl<'a> Sums<'a> {
    fn new(map: &'a GradientMap) -> Self {
        let layers: Vec<Moments> = map
            .layers()
            .iter()
            .map(|layer| {
                let (out, inp) = layer.map.factors().unwrap_or_default();
                Moments { inp: Mat::zeros(inp, inp), out: Mat::zeros(out, out) }
            })
            .collect();
        let rows = vec![[0; 2]; layers.len()];
        Self { map, layers, rows, scales: Vec::new() }
    }

    fn finish(mut self) -> Result<Vec<Moments>, AttributeError> {
        for ((layer, moments), rows) in
            self.map.layers().iter().zip(&mut self.layers).zip(&self.rows)
        {
            for (sum, &rows) in [&mut moments.inp, &mut moments.out].into_iter().zip(rows) {
                let count = rows.max(1) as f64;
                sum.data_mut().iter_mut().for_each(|number| *number /= count);
                if !sum.data().iter().all(|number| number.is_finite()) {
                    let site = layer.site.0.clone();
                    let reason = "the moments of its inputs or gradients are not finite".into();
                    return Err(AttributeError::Curvature { site, reason });
                }
            }
        }
        Ok(self.layers)
    }
}

fn add(sum: &mut Mat<f64>, rows: MatRef<'_, f32>) {
    let wide: Mat<f64> = rows.to_mat().cast();
    let (left, right) = (Arg::Transposed(wide.view()), Arg::Plain(wide.view()));
    product(1.0, left, right, sum.view_mut(), Write::Add);
}

impl Probe for Sums<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        self.map.index(site).is_some()
    }

    fn needs_inputs_alone(&self) -> bool {
        true
    }

    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>) {
        if let Some(index) = self.map.index(site) {
            let reduced = self.map.layers()[index].map.reduce_inputs(seen.x);
            add(&mut self.layers[index].inp, reduced.view());
            self.rows[index][0] += reduced.rows();
        }
    }

    fn wants_gradient(&self, site: &SiteId) -> bool {
        self.map.index(site).is_some()
    }

    fn on_backward(&mut self, site: &SiteId, seen: SeenGradient<'_>) {
        let Some(index) = self.map.index(site) else { return };
        let mut reduced = self.map.layers()[index].map.reduce_gradients(seen.dy);
        for ExampleRows { example, rows } in seen.examples {
            for row in rows.clone() {
                let scale = self.scales[*example];
                reduced.row_mut(row).iter_mut().for_each(|number| *number *= scale);
            }
        }
        add(&mut self.layers[index].out, reduced.view());
        self.rows[index][1] += reduced.rows();
    }
}
