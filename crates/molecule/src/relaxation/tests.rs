use super::*;
use crate::toy::{Argon, Springs, solid_argon, triangle};
use linwright_run::Silent;

fn relaxed(minimiser: Minimiser, steps: u64) -> Relaxed {
    let plan = RelaxationPlan { minimiser, force: 1e-6, cell: false, steps };
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
    let plan = RelaxationPlan { minimiser: Minimiser::Lbfgs, force: -1.0, cell: false, steps: 1 };
    let told = relax(&mut Springs, &triangle(), &plan, &mut Silent).unwrap_err();
    assert_eq!(told.to_string(), "largest force: -1; expected a positive number");
}

#[test]
fn a_cell_relaxes_with_its_atoms_to_the_cubic_crystal() {
    for minimiser in [Minimiser::Lbfgs, Minimiser::Fire] {
        let plan = RelaxationPlan { minimiser, force: 1e-5, cell: true, steps: 3_000 };
        let found = relax(&mut Argon, &solid_argon(), &plan, &mut Silent).unwrap();
        assert!(found.is_converged, "{minimiser:?}: {} after {}", found.force, found.steps);
        let rows = found.structure.cell.unwrap().rows;
        let length = |k: usize| dot(&rows[k], &rows[k]).sqrt();
        for k in 0..3 {
            assert!((length(k) - length(0)).abs() < 1e-3, "{minimiser:?} {rows:?}");
            let angle = dot(&rows[k], &rows[(k + 1) % 3]) / (length(0) * length(0));
            assert!(angle.abs() < 1e-3, "{minimiser:?} {rows:?}");
        }
        assert!(found.prediction.virial.iter().flatten().all(|x| x.abs() < 1e-4));
        // In a fixed cell the strain stays.
        let fixed = RelaxationPlan { cell: false, ..plan };
        let fixed = relax(&mut Argon, &solid_argon(), &fixed, &mut Silent).unwrap();
        assert!(fixed.is_converged && fixed.structure.cell == solid_argon().cell);
        assert!(fixed.prediction.energy > found.prediction.energy + 1e-3);
    }
}

#[test]
fn forces_on_coordinates_are_minus_the_slopes_of_the_energy() {
    let start = solid_argon();
    let (coordinates, mut at) = Coordinates::new(&start, true).unwrap();
    // Away from the start, where the deformation is no longer the identity.
    let mut odd = (0..).map(|k| 0.02 * f64::from(k % 7) - 0.06);
    at.iter_mut().flatten().for_each(|x| *x += odd.next().unwrap());
    let energy = |at: &[[f64; 3]]| {
        let structure = coordinates.structure(at);
        Argon.predict(&structure, Wanted { forces: true }).unwrap()
    };
    let forces = coordinates.forces(&at, &energy(&at));
    assert_eq!(forces.len(), at.len());
    for row in 0..at.len() {
        for axis in 0..3 {
            let moved = |by: f64| {
                let mut at = at.clone();
                at[row][axis] += by;
                energy(&at).energy
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let force = forces[row][axis];
            assert!((force + slope).abs() < 1e-7, "{row} {axis}: {force} {slope}");
        }
    }
}

#[test]
fn a_cell_that_does_not_repeat_is_not_relaxed() {
    let plan = RelaxationPlan { minimiser: Minimiser::Lbfgs, force: 0.1, cell: true, steps: 1 };
    let told = relax(&mut Springs, &triangle(), &plan, &mut Silent).unwrap_err().to_string();
    assert!(told.starts_with("cell: a structure without one"), "{told}");
}

#[test]
fn held_coordinates_stay_and_the_others_relax() {
    let held = Some(vec![[true; 3], [false, true, false], [true, false, false]]);
    let start = Structure { held: held.clone(), ..triangle() };
    for minimiser in [Minimiser::Lbfgs, Minimiser::Fire] {
        let plan = RelaxationPlan { minimiser, force: 1e-6, cell: false, steps: 2_000 };
        let found = relax(&mut Springs, &start, &plan, &mut Silent).unwrap();
        assert!(found.is_converged && found.steps > 3, "{minimiser:?} {}", found.steps);
        assert_eq!(found.structure.held, held);
        for (atom, held) in held.iter().flatten().enumerate() {
            for (axis, is_held) in held.iter().enumerate() {
                let [before, after] =
                    [&start, &found.structure].map(|one| one.positions[atom][axis]);
                let force = found.prediction.forces[atom][axis];
                match is_held {
                    true => assert_eq!(before.to_bits(), after.to_bits()),
                    false => assert!(force.abs() < 1e-6 && before != after, "{force}"),
                }
            }
        }
    }
    // Where nothing may move, nothing is to be done.
    let plan = RelaxationPlan { minimiser: Minimiser::Lbfgs, force: 1e-9, cell: false, steps: 9 };
    let still = Structure { held: Some(vec![[true; 3]; 3]), ..triangle() };
    let found = relax(&mut Springs, &still, &plan, &mut Silent).unwrap();
    assert_eq!((found.steps, found.is_converged, found.force), (0, true, 0.0));
    let crystal = Structure { held: Some(vec![[true; 3]; 4]), ..solid_argon() };
    let told = relax(&mut Argon, &crystal, &RelaxationPlan { cell: true, ..plan }, &mut Silent);
    assert!(told.unwrap_err().to_string().contains("move_mask"));
}
