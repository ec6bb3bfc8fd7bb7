//! Steps of learning selective masks.

use super::{Case, cases};
use crate::learn::{MaskObjective, Pattern};
use linwright_tensor::Mat;

#[track_caller]
fn check(case: &Case, found: &[f64], name: &str) {
    let numbers: Vec<f32> = found.iter().map(|number| *number as f32).collect();
    case.check(&numbers, name);
}

fn values(case: &Case, name: &str) -> Vec<f64> {
    case.get(name).values.clone()
}

/// Checks losses and gradients at the numbers before each step.
fn check_steps(
    case: &Case,
    objective: &MaskObjective,
    pattern: &dyn Fn(&str) -> Pattern,
    names: &[&str],
) {
    let steps = case.about["steps"].as_array().expect("steps");
    for (index, step) in steps.iter().enumerate() {
        let before = match index {
            0 => "0".to_owned(),
            _ => format!("step{}", index - 1),
        };
        let (loss, gradients) = objective.value(&pattern(&before));
        let expected = step["total_loss"].as_f64().expect("a loss");
        let (relative, absolute) = case.tolerance();
        let is_near = (loss - expected).abs() <= absolute + relative * expected.abs();
        assert!(is_near, "{}: step {index}: {loss}, {expected}", case.name);
        for (gradient, name) in gradients.iter().zip(names) {
            check(case, gradient, &format!("step{index}.{name}"));
        }
    }
}

#[test]
fn losses_and_gradients_of_masks_are_those_of_the_reference() {
    for case in cases("selmask_flat") {
        let rows = |name: &str| case.rows(name).cast::<f64>();
        let size = case.about["k"].as_u64().expect("a size") as usize;
        let penalty = case.about["lambda_reg"].as_f64().expect("a factor");
        let (train, test) = (rows("train"), rows("test"));
        let objective = MaskObjective::new(train, test, vec![size], penalty, 1e-6);
        let pattern = |at: &str| {
            let name = if at == "0" { "S0".into() } else { format!("{at}.S") };
            Pattern::Flat(values(&case, &name))
        };
        check_steps(&case, &objective, &pattern, &["grad"]);
        let last = case.about["steps"].as_array().expect("steps").len() - 1;
        // The reference ranks masks of a temperature at which most of them are 1, so its choice
        // among those is arbitrary; ours is by the numbers themselves.
        let numbers = values(&case, &format!("step{last}.S"));
        let sum = |chosen: &[u32]| chosen.iter().map(|&at| numbers[at as usize]).sum::<f64>();
        let (found, theirs) = (crate::learn::largest(&numbers, size), case.indices("final_idx"));
        let positive = numbers.iter().filter(|number| **number > 0.0).count();
        let inside = theirs.iter().filter(|&&at| numbers[at as usize] > 0.0).count();
        assert_eq!(inside, size.min(positive), "{}", case.name);
        assert!(found.len() == theirs.len() && sum(&found) >= sum(&theirs), "{}", case.name);
    }
    for case in cases("selmask_fact") {
        // Whole gradients, from which the masks of the factors select a block.
        let whole = |of: &str| -> Mat<f64> {
            let (g, a) = (case.get(&format!("g_{of}")), case.get(&format!("a_{of}")));
            let [examples, tokens, out] = [g.shape[0], g.shape[1], g.shape[2]];
            let inp = a.shape[2];
            Mat::from_fn(examples, out * inp, |example, entry| {
                let (o, i) = (entry / inp, entry % inp);
                let rows = example * tokens..(example + 1) * tokens;
                rows.map(|t| g.values[t * out + o] * a.values[t * inp + i]).sum()
            })
        };
        let size = |key: &str| case.about[key].as_u64().expect("a size") as usize;
        let sizes = vec![size("k_out"), size("k_in")];
        let penalty = case.about["lambda_reg"].as_f64().expect("a factor");
        let objective =
            MaskObjective::new(whole("train"), whole("test"), sizes.clone(), penalty, 1e-5);
        let part = |at: &str, side: &str| {
            let name = if at == "0" { format!("S_{side}0") } else { format!("{at}.S_{side}") };
            values(&case, &name)
        };
        let pattern = |at: &str| Pattern::Product { out: part(at, "out"), inp: part(at, "in") };
        check_steps(&case, &objective, &pattern, &["grad_out", "grad_in"]);
        let last = case.about["steps"].as_array().expect("steps").len() - 1;
        for (side, size) in [("out", sizes[0]), ("in", sizes[1])] {
            let found = crate::learn::largest(&part(&format!("step{last}"), side), size);
            assert_eq!(found, case.indices(&format!("final_{side}")), "{}", case.name);
        }
    }
}
