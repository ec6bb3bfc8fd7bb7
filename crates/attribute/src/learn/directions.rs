//! Principal directions of inputs and gradients of outputs, for LoGra.
//!
//! The leading eigenvectors of the uncentred moments `Σ a aᵀ` (with the 1 of a bias) and `Σ g gᵀ`
//! over the rows of some examples, summed in f64 from products of blocks in f32. Source: LoGra,
//! arXiv:2405.13954, whose moments are those of K-FAC.

use super::Learned;
use crate::examples::ExampleLosses;
use crate::{AttributeError, Examples, shape_of};
use linwright_ops::{Differentiable, InputId, LinearSlot, Probe, Seen, SeenGradient, SiteId};
use linwright_run::Monitor;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::eigh_leading;
use linwright_tensor::{Mat, MatRef};
use std::collections::BTreeMap;

/// The `count` leading directions of inputs and gradients of the layers for which `chosen` holds,
/// or all of them, from all examples in batches of `batch`.
///
/// # Errors
/// [`AttributeError::Network`], [`AttributeError::Curvature`] for moments without eigenvectors,
/// [`AttributeError::Interrupted`].
pub fn principal_directions<N: Differentiable>(
    network: &N,
    chosen: &dyn Fn(&LinearSlot) -> bool,
    examples: &dyn Examples<N::Input>,
    count: usize,
    batch: usize,
    monitor: &mut dyn Monitor,
) -> Result<BTreeMap<SiteId, Learned>, AttributeError> {
    let mut moments = Moments::default();
    for slot in network.slots().into_iter().filter(|slot| chosen(slot)) {
        let shape = shape_of(slot);
        moments.inputs.entry(slot.reads().clone()).or_insert_with(|| {
            moments.leaders.insert(slot.id().clone(), slot.reads().clone());
            // All layers that read an input have the column of ones if one of them has a bias; its
            // direction is dropped for layers without a bias.
            Mat::zeros(shape.inp + 1, shape.inp + 1)
        });
        moments.gradients.insert(slot.id().clone(), Mat::zeros(shape.out, shape.out));
    }
    monitor.step("moments");
    for start in (0..examples.count()).step_by(batch.max(1)) {
        if monitor.interrupted() {
            return Err(AttributeError::Interrupted);
        }
        let end = examples.count().min(start + batch.max(1));
        let batch = examples.batch(start..end);
        let mut loss = ExampleLosses::new(&batch, crate::Target::Loss);
        let passed = network.loss_to_slots(&batch.input, &mut loss, &mut moments);
        passed.map_err(|error| AttributeError::Network(Box::new(error)))?;
        monitor.progress(end as u64, examples.count() as u64);
    }
    let mut learned = BTreeMap::new();
    for slot in network.slots().into_iter().filter(|slot| chosen(slot)) {
        let site = slot.id();
        let refused = |error: String| AttributeError::Curvature {
            site: site.0.clone(),
            reason: format!("no principal directions: {error}"),
        };
        let leading = |moment: MatRef<'_, f64>| {
            let found = eigh_leading(moment.to_mat(), count).map_err(|e| refused(e.to_string()))?;
            Ok::<Mat<f32>, AttributeError>(found.rows.transpose().cast())
        };
        let width = shape_of(slot).width();
        let of_inputs = moments.inputs[slot.reads()].view();
        let of_inputs = of_inputs.rows_range(0, width).columns(0, width);
        let of_layer = Learned {
            inp_directions: Some(leading(of_inputs)?),
            out_directions: Some(leading(moments.gradients[site].view())?),
            ..Learned::default()
        };
        learned.insert(site.clone(), of_layer);
    }
    Ok(learned)
}

/// Sums of outer products.
#[derive(Default)]
struct Moments {
    /// The input captured at a site.
    leaders: BTreeMap<SiteId, InputId>,
    inputs: BTreeMap<InputId, Mat<f64>>,
    gradients: BTreeMap<SiteId, Mat<f64>>,
}

impl Probe for Moments {
    fn wants(&self, site: &SiteId) -> bool {
        self.leaders.contains_key(site)
    }

    fn needs_inputs_alone(&self) -> bool {
        true
    }

    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>) {
        let input = self.leaders.get(site);
        if let Some(sum) = input.and_then(|input| self.inputs.get_mut(input)) {
            let mut x = Mat::zeros(seen.x.rows(), seen.x.cols() + 1);
            for row in 0..x.rows() {
                let (numbers, one) = x.row_mut(row).split_at_mut(seen.x.cols());
                numbers.copy_from_slice(seen.x.row(row));
                one.fill(1.0);
            }
            add_moment(x.view(), sum);
        }
    }

    fn wants_gradient(&self, site: &SiteId) -> bool {
        self.gradients.contains_key(site)
    }

    fn on_backward(&mut self, site: &SiteId, seen: SeenGradient<'_>) {
        if let Some(sum) = self.gradients.get_mut(site) {
            add_moment(seen.dy, sum);
        }
    }
}

fn add_moment(rows: MatRef<'_, f32>, sum: &mut Mat<f64>) {
    let mut block = Mat::zeros(rows.cols(), rows.cols());
    product(1.0, Arg::Transposed(rows), Arg::Plain(rows), block.view_mut(), Write::Set);
    sum.data_mut().iter_mut().zip(block.data()).for_each(|(sum, v)| *sum += f64::from(*v));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{classified, classifier, points};
    use linwright_run::{Silent, Stopped};

    #[test]
    fn directions_are_orthonormal_and_hold_more_of_the_inputs_than_any_others() {
        let (net, labelled) = (classifier(1), points(30));
        let examples = classified(&labelled);
        let of = |size, monitor: &mut dyn Monitor| {
            principal_directions(&net, &|_| true, &examples, 3, size, monitor)
        };
        let learned = of(7, &mut Silent).unwrap();
        assert_eq!(learned.len(), 3);
        let input = learned[&SiteId("a".into())].inp_directions.clone().unwrap();
        assert_eq!((input.rows(), input.cols()), (13, 3));
        let out = learned[&SiteId("b".into())].out_directions.clone().unwrap();
        assert_eq!((out.rows(), out.cols()), (8, 3));
        let without_bias = learned[&SiteId("b".into())].inp_directions.clone().unwrap();
        assert_eq!(without_bias.rows(), 10);
        for directions in [&input, &out, &without_bias] {
            for i in 0..3 {
                for j in 0..3 {
                    let dot: f32 = (0..directions.rows())
                        .map(|r| directions.at(r, i) * directions.at(r, j))
                        .sum();
                    let want = if i == j { 1.0 } else { 0.0 };
                    assert!((dot - want).abs() < 1e-5, "({i}, {j}): {dot}");
                }
            }
        }
        let power = |direction: &dyn Fn(usize) -> f32| -> f64 {
            let rows = examples.batch(0..30).input.rows;
            let of = |i: usize| {
                (0..13)
                    .map(|j| direction(j) * if j < 12 { rows.at(i, j) } else { 1.0 })
                    .sum::<f32>()
            };
            (0..30).map(|i| f64::from(of(i)).powi(2)).sum()
        };
        let powers = [0, 1, 2].map(|at| power(&|j| input.at(j, at)));
        assert!(powers[0] >= powers[1] && powers[1] >= powers[2], "{powers:?}");
        let single = (0..13).map(|axis| power(&|j| f32::from(u8::from(j == axis))));
        assert!(single.fold(0.0, f64::max) <= powers[0] + 1e-6);
        assert_eq!(of(30, &mut Silent).unwrap().len(), 3);
        assert!(matches!(of(7, &mut Stopped), Err(AttributeError::Interrupted)));
    }
}
