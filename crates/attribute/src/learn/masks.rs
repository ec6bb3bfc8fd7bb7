//! Learning selective masks, a layer at a time.

use super::Learned;
use super::objective::{MaskObjective, Pattern, sigmoid};
use crate::maps::MAX_NUMBERS;
use crate::{
    AttributeError, CompressorKind, CompressorSpec, Examples, GradientMap, Learns, Masked,
    Reduction, gradients,
};
use linwright_ops::{Differentiable, LinearSlot, SiteId};
use linwright_run::Monitor;
use linwright_tensor::{Mat, RngKey};
use std::collections::BTreeMap;

/// Settings for learning masks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskLearning {
    /// Share of the examples that are held out.
    pub held_out: f64,
    /// Steps of Adam over all examples.
    pub steps: usize,
    /// Learning rate.
    pub rate: f64,
    /// Factor of the penalty on the size of the mask.
    pub penalty: f64,
    /// Examples of a pass.
    pub batch: usize,
    /// Seed of the first mask.
    pub seed: u64,
}

impl Default for MaskLearning {
    fn default() -> Self {
        Self { held_out: 0.2, steps: 300, rate: 0.05, penalty: 1e-3, batch: 8, seed: 0 }
    }
}

/// The masks of a selective compressor for the layers for which `chosen` holds, of exactly the
/// requested sizes, largest values first. Whole gradients of one layer at a time are in memory, so
/// this is for a few hundred examples.
///
/// # Errors
/// [`AttributeError::Setting`] for a compressor without a mask to learn or too few examples,
/// [`AttributeError::MapTooLarge`] for gradients that are too large for memory, those of
/// [`gradients`], and [`AttributeError::Interrupted`].
pub fn learn_masks<N: Differentiable>(
    network: &N,
    chosen: &dyn Fn(&LinearSlot) -> bool,
    examples: &dyn Examples<N::Input>,
    (compressor, options): (&CompressorSpec, MaskLearning),
    monitor: &mut dyn Monitor,
) -> Result<BTreeMap<SiteId, Learned>, AttributeError> {
    let refused = |name, found: String, expected: &str| AttributeError::Setting {
        name,
        found,
        expected: expected.into(),
    };
    let size = compressor.size.unwrap_or(0);
    let Learns::Positions { of, blown_up } = compressor.kind.learns() else {
        return Err(refused("compressor", compressor.to_string(), "a selective one"));
    };
    let selected = size.saturating_mul(if blown_up { compressor.blow_up } else { 1 });
    let (is_flat, size) = match of {
        Masked::Gradient => (true, selected),
        Masked::Factors => (false, selected.isqrt()),
    };
    let held_out = (examples.count() as f64 * options.held_out).round() as usize;
    if held_out == 0 || held_out + 2 > examples.count() {
        let found = format!("{} examples, {held_out} of them held out", examples.count());
        return Err(refused("examples", found, "at least one held out, and two others"));
    }
    let mut learned = BTreeMap::new();
    let slots: Vec<&LinearSlot> = network.slots().into_iter().filter(|slot| chosen(slot)).collect();
    monitor.step("masks");
    for (done, slot) in slots.iter().enumerate() {
        let rows = whole_gradients(network, slot.id(), examples, options.batch, monitor)?;
        let shape = crate::shape_of(slot);
        let train = rows.rows() - held_out;
        let part =
            |first: usize, count: usize| rows.view().rows_range(first, count).to_mat().cast();
        let parts = if is_flat { vec![shape.numbers()] } else { vec![shape.out, shape.width()] };
        let sizes: Vec<usize> = parts.iter().map(|&length| size.min(length)).collect();
        // The numbers under the root are those of the reference.
        let (penalty, epsilon) = (options.penalty, if is_flat { 1e-6 } else { 1e-5 });
        let (fitted, judged) = (normalised(part(0, train)), normalised(part(train, held_out)));
        let objective = MaskObjective::new(fitted, judged, sizes, penalty, epsilon);
        let key = RngKey::new(options.seed).fold("masks").fold(&slot.id().0);
        let mut found = learn(&objective, &parts, key, options).into_iter();
        let of_layer = match is_flat {
            true => Learned { flat: found.next(), ..Learned::default() },
            false => Learned { out: found.next(), inp: found.next(), ..Learned::default() },
        };
        learned.insert(slot.id().clone(), of_layer);
        monitor.progress(done as u64 + 1, slots.len() as u64);
    }
    Ok(learned)
}

/// The gradients (examples, entries) of one layer.
fn whole_gradients<N: Differentiable>(
    network: &N,
    site: &SiteId,
    examples: &dyn Examples<N::Input>,
    batch: usize,
    monitor: &dyn Monitor,
) -> Result<Mat<f32>, AttributeError> {
    let whole = CompressorSpec::new(CompressorKind::Unchanged, None);
    let key = crate::CompressorKey { seed: 0, checkpoint: 0 };
    let map =
        GradientMap::build(network, &|slot| slot.id() == site, &whole, key, &BTreeMap::new())?;
    let (count, mut rows) = (examples.count(), Vec::new());
    if count.checked_mul(map.size()).is_none_or(|numbers| numbers > MAX_NUMBERS) {
        let too_large =
            AttributeError::MapTooLarge { kind: "of whole gradients", most: MAX_NUMBERS };
        return Err(too_large.of_layer(&site.0));
    }
    for start in (0..count).step_by(batch.max(1)) {
        if monitor.interrupted() {
            return Err(AttributeError::Interrupted);
        }
        let batch = examples.batch(start..count.min(start + batch.max(1)));
        rows.extend(gradients(network, &map, &batch, Reduction::Mean, start)?.rows.into_vec());
    }
    Ok(Mat::from_vec(count, map.size(), rows))
}

/// Rows divided by their root mean square, so that ε and the penalty have the same meaning for
/// every layer.
fn normalised(mut rows: Mat<f64>) -> Mat<f64> {
    let count = rows.rows().max(1) as f64;
    let square = rows.data().iter().map(|number| number * number).sum::<f64>() / count;
    if square > 0.0 {
        let factor = 1.0 / square.sqrt();
        rows.data_mut().iter_mut().for_each(|number| *number *= factor);
    }
    rows
}

/// Steps of Adam from nearly equal numbers; the indices of the largest of each part.
fn learn(
    objective: &MaskObjective,
    parts: &[usize],
    key: RngKey,
    options: MaskLearning,
) -> Vec<Vec<u32>> {
    let mut starts = parts
        .iter()
        .enumerate()
        .map(|(part, &length)| key.fold_index(part as u64).stream().normals::<f64>(length, 0.01));
    let mut pattern = match (starts.next(), starts.next()) {
        (Some(out), Some(inp)) => Pattern::Product { out, inp },
        (flat, _) => Pattern::Flat(flat.unwrap_or_default()),
    };
    let mut moments: Vec<Vec<[f64; 2]>> = parts.iter().map(|&n| vec![[0.0; 2]; n]).collect();
    for step in 1..=options.steps {
        let (_, gradients) = objective.value(&pattern);
        let (first, second) = (1.0 - 0.9f64.powi(step as i32), 1.0 - 0.999f64.powi(step as i32));
        for ((part, gradient), moments) in
            pattern.parts_mut().into_iter().zip(&gradients).zip(&mut moments)
        {
            for ((number, gradient), [m, v]) in part.iter_mut().zip(gradient).zip(moments) {
                *m = 0.9 * *m + 0.1 * gradient;
                *v = 0.999 * *v + 0.001 * gradient * gradient;
                *number -= options.rate * (*m / first) / ((*v / second).sqrt() + 1e-8);
            }
        }
        keep_active(&mut pattern, &objective.sizes);
    }
    let parts = pattern.parts().into_iter().zip(&objective.sizes);
    parts.map(|(part, &size)| largest(part, size)).collect()
}

/// Raises the largest numbers of a part with fewer active numbers than required.
fn keep_active(pattern: &mut Pattern, sizes: &[usize]) {
    for (part, &size) in pattern.parts_mut().into_iter().zip(sizes) {
        if part.iter().filter(|number| sigmoid(**number) > 0.5).count() < size {
            largest(part, size).into_iter().for_each(|index| part[index as usize] = 2.0);
        }
    }
}

/// The indices of the `count` largest numbers, descending; ties in index order.
pub(crate) fn largest(numbers: &[f64], count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
    order.sort_by(|&a, &b| numbers[b as usize].total_cmp(&numbers[a as usize]).then(a.cmp(&b)));
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{KEY, classified, classifier, points};
    use linwright_run::Silent;

    #[test]
    fn planted_coordinates_are_found_and_sizes_are_exact() {
        let informative = [3u32, 17, 20, 29];
        let mut stream = RngKey::new(4).stream();
        let mut draw = |rows: usize| {
            Mat::from_fn(rows, 30, |_, p| {
                let scale = if informative.contains(&(p as u32)) { 3.0 } else { 0.1 };
                scale * stream.normal()
            })
        };
        let (train, held_out) = (normalised(draw(40)), normalised(draw(12)));
        let objective = MaskObjective::new(train, held_out, vec![4], 1e-3, 1e-6);
        let found = learn(&objective, &[30], RngKey::new(1), MaskLearning::default());
        let mut found = found[0].clone();
        found.sort_unstable();
        assert_eq!(found, informative);
    }

    #[test]
    fn selective_compressors_are_built_of_what_was_learned() {
        let (net, labelled) = (classifier(1), points(20));
        let examples = classified(&labelled);
        for text in [
            "selective_mask:9",
            "selective_grass:9",
            "selective_factorised_mask:9",
            "selective_factgrass:4",
        ] {
            let spec: CompressorSpec = text.parse().unwrap();
            let options = MaskLearning { steps: 5, ..MaskLearning::default() };
            let of = |_: &LinearSlot| true;
            let learned = learn_masks(&net, &of, &examples, (&spec, options), &mut Silent).unwrap();
            let map = GradientMap::build(&net, &of, &spec, KEY, &learned).unwrap();
            assert_eq!(map.layers().len(), 3, "{text}");
        }
        let spec: CompressorSpec = "factgrass:4".parse().unwrap();
        let of = (&spec, MaskLearning::default());
        let error = learn_masks(&net, &|_| true, &examples, of, &mut Silent).unwrap_err();
        assert!(error.to_string().contains("expected a selective one"), "{error}");
        let spec: CompressorSpec = "selective_mask:4".parse().unwrap();
        let of = (&spec, MaskLearning { held_out: 0.97, ..MaskLearning::default() });
        let error = learn_masks(&net, &|_| true, &examples, of, &mut Silent).unwrap_err();
        assert!(error.to_string().contains("19 of them held out"), "{error}");
    }
}
