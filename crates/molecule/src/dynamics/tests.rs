use super::*;
use crate::toy::{Springs, triangle};

const MASSES: [f64; 3] = [12.011, 1.008, 15.999];

fn plan(ensemble: Ensemble) -> DynamicsPlan {
    DynamicsPlan { time_step: 0.2, ensemble, seed: 7 }
}

fn langevin() -> Ensemble {
    Ensemble::Langevin { temperature: 300.0, friction: 0.02 }
}

#[test]
fn energy_is_kept_without_friction_and_its_error_falls_with_the_square_of_the_step() {
    let drift = |time_step: f64| {
        let plan = DynamicsPlan { time_step, ..plan(Ensemble::Nve) };
        let mut potential = Springs;
        let mut run =
            Dynamics::new(&mut potential, triangle(), MASSES.to_vec(), plan, None).unwrap();
        run.thermalise(300.0);
        let start = run.thermo().total_energy;
        let mut worst = 0.0_f64;
        for _ in 0..(400.0 / time_step) as usize {
            run.advance().unwrap();
            worst = worst.max((run.thermo().total_energy - start).abs());
        }
        worst
    };
    let (coarse, fine) = (drift(0.8), drift(0.4));
    assert!(coarse < 1e-3, "{coarse}");
    assert!((3.5..4.5).contains(&(coarse / fine)), "{coarse} against {fine}");
}

#[test]
fn a_continued_run_has_the_same_bits() {
    for ensemble in [Ensemble::Nve, langevin()] {
        let (mut one, mut other, mut third) = (Springs, Springs, Springs);
        let masses = || MASSES.to_vec();
        let mut whole =
            Dynamics::new(&mut one, triangle(), masses(), plan(ensemble), None).unwrap();
        whole.thermalise(200.0);
        let start = whole.state();
        (0..60).for_each(|_| whole.advance().unwrap());
        let mut first =
            Dynamics::new(&mut other, triangle(), masses(), plan(ensemble), Some(start)).unwrap();
        (0..25).for_each(|_| first.advance().unwrap());
        let text = serde_json::to_string(&first.state()).unwrap();
        let saved: MdState = serde_json::from_str(&text).unwrap();
        let mut second =
            Dynamics::new(&mut third, triangle(), masses(), plan(ensemble), Some(saved)).unwrap();
        (0..35).for_each(|_| second.advance().unwrap());
        assert_eq!(whole.state(), second.state());
    }
}

#[test]
fn langevin_dynamics_has_the_temperature_that_was_asked_for() {
    let plan = DynamicsPlan {
        time_step: 1.0,
        ensemble: Ensemble::Langevin { temperature: 300.0, friction: 0.1 },
        seed: 1,
    };
    let mut potential = Springs;
    let mut run = Dynamics::new(&mut potential, triangle(), MASSES.to_vec(), plan, None).unwrap();
    (0..2_000).for_each(|_| run.advance().unwrap());
    let mut sum = 0.0;
    let steps = 60_000;
    for _ in 0..steps {
        run.advance().unwrap();
        sum += run.thermo().temperature;
    }
    let mean = sum / f64::from(steps);
    assert!((mean - 300.0).abs() < 12.0, "{mean}");
}

#[test]
fn velocities_are_drawn_without_motion_of_the_whole() {
    let mut potential = Springs;
    let mut run =
        Dynamics::new(&mut potential, triangle(), MASSES.to_vec(), plan(Ensemble::Nve), None)
            .unwrap();
    run.thermalise(300.0);
    for axis in 0..3 {
        let momentum: f64 = MASSES.iter().zip(&run.velocities).map(|(m, v)| m * v[axis]).sum();
        assert!(momentum.abs() < 1e-12);
    }
    assert!(run.thermo().temperature > 10.0);
}

#[test]
fn plans_and_states_that_do_not_fit_are_refused() {
    let mut potential = Springs;
    let mut start = |masses: &[f64], plan: DynamicsPlan, state: Option<MdState>| {
        Dynamics::new(&mut potential, triangle(), masses.to_vec(), plan, state)
            .err()
            .map(|error| error.to_string())
    };
    let bad = DynamicsPlan { time_step: 0.0, ..plan(Ensemble::Nve) };
    assert_eq!(start(&MASSES, bad, None).unwrap(), "time step: 0; expected a positive number");
    let told = start(&MASSES[..2], plan(Ensemble::Nve), None).unwrap();
    assert_eq!(told, "masses: 2 masses; expected one for each of 3 atoms");
    let state = MdState {
        step: 1,
        positions: vec![[0.0, f64::NAN, 0.0]; 3],
        velocities: vec![[0.0; 3]; 3],
    };
    let told = start(&MASSES, plan(Ensemble::Nve), Some(state)).unwrap();
    assert!(told.starts_with("positions: [0.0, NaN, 0.0] of atom 0"), "{told}");
}
