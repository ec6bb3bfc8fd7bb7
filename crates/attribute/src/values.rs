//! Values of an objective without gradients.

use crate::examples::ExampleLosses;
use crate::{AttributeError, Examples, Objective};
use linwright_ops::{Differentiable, NoProbe};

/// Values of an [`Objective`] for each example, such as minus its margin. Examples are processed in
/// batches of `batch`.
///
/// # Errors
/// [`AttributeError::NoTarget`], [`AttributeError::Network`], and [`AttributeError::NotFinite`].
pub fn values<N: Differentiable>(
    network: &N,
    examples: &dyn Examples<N::Input>,
    objective: impl Into<Objective>,
    batch: usize,
) -> Result<Vec<f64>, AttributeError> {
    let (objective, mut all) = (objective.into(), Vec::with_capacity(examples.count()));
    for start in (0..examples.count()).step_by(batch.max(1)) {
        let part = examples.batch(start..examples.count().min(start + batch.max(1)));
        let targets = part.counted();
        let mut loss = ExampleLosses::new(&part, objective.target);
        let passed = network.loss_to_slots(&part.input, &mut loss, &mut NoProbe);
        passed.map_err(|error| AttributeError::Network(Box::new(error)))?;
        for (example, (value, count)) in loss.losses.iter().zip(targets).enumerate() {
            let example = start + example;
            if count == 0 {
                return Err(AttributeError::NoTarget { example });
            }
            if !value.is_finite() {
                return Err(AttributeError::NotFinite { example, site: "the output".into() });
            }
            all.push(value * f64::from(objective.reduction.scale(count)));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{classified, classifier, decoder, documents, map_of, points};
    use crate::{Reduction, Target, gradients};

    #[test]
    fn values_are_those_that_gradients_are_taken_of() {
        let (net, labelled) = (classifier(1), points(5));
        let examples = classified(&labelled);
        let (model, texts) = (decoder(), documents(&[4, 9, 3]));
        for target in Target::ALL {
            for reduction in Reduction::ALL {
                let objective = Objective { target, reduction };
                let map = map_of(&net, "mask:4", &|_| true);
                let with = gradients(&net, &map, &examples.batch(0..5), objective, 0).unwrap();
                let found = values(&net, &examples, objective, 2).unwrap();
                let close = |a: &f64, b: &f64| (a - b).abs() < 1e-5 * (1.0 + b.abs());
                assert!(found.iter().zip(&with.losses).all(|(a, b)| close(a, b)), "{target}");
                let map = map_of(&model, "mask:64", &|_| true);
                let with = gradients(&model, &map, &texts.batch(0..3), objective, 0).unwrap();
                let found = values(&model, &texts, objective, 1).unwrap();
                assert!(found.iter().zip(&with.losses).all(|(a, b)| close(a, b)), "{target}");
            }
        }
    }
}
