use super::*;
use crate::toy::{Springs, triangle};
use linwright_run::Silent;

fn relaxed(minimiser: Minimiser, steps: u64) -> Relaxed {
    let plan = RelaxationPlan { minimiser, force: 1e-6, steps };
    relax(&mut Springs, &triangle(), &plan, &mut Silent).unwrap()
}

#[test]
fn both_minimisers_find_the_triangle_at_rest() {
    for minimiser in [Minimiser::Lbfgs, Minimiser::Fire] {
        let found = relaxed(minimiser, 2_000);
        assert!(found.is_converged && found.force <= 1e-6, "{minimiser:?} {}", found.force);
        assert!(found.prediction.energy < 1e-11, "{minimiser:?}");
        assert!(found.steps > 3);
    }
}

#[test]
fn a_relaxation_that_ends_early_says_so() {
    let found = relaxed(Minimiser::Fire, 3);
    assert!(!found.is_converged);
    assert_eq!(found.steps, 3);
    assert!(found.force > 1e-6);
}

#[test]
fn a_force_that_is_not_positive_is_refused() {
    let plan = RelaxationPlan { minimiser: Minimiser::Lbfgs, force: -1.0, steps: 1 };
    let told = relax(&mut Springs, &triangle(), &plan, &mut Silent).unwrap_err();
    assert_eq!(told.to_string(), "largest force: -1; expected a positive number");
}
