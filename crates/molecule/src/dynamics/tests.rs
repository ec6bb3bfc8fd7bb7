use super::*;
use crate::toy::{Argon, Springs, solid_argon, triangle};
use linwright_run::{Monitor, Silent};
use std::cell::Cell;

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

#[test]
fn momenta_of_a_frame_are_the_velocities_that_another_run_starts_with() {
    let mut potential = Springs;
    let mut run =
        Dynamics::new(&mut potential, triangle(), MASSES.to_vec(), plan(Ensemble::Nve), None)
            .unwrap();
    run.thermalise(300.0);
    run.advance().unwrap();
    let (frame, thermo, before) = (run.frame(), run.thermo(), run.state());
    let momenta = frame.momenta.as_ref().unwrap().iter().zip(&MASSES);
    // In the units of ASE, p² / 2m is an energy in electron volts.
    let kinetic: f64 =
        momenta.map(|(p, mass)| p.iter().map(|p| p * p).sum::<f64>() / (2.0 * mass)).sum();
    assert!((kinetic - thermo.kinetic_energy).abs() < 1e-12 * kinetic);
    assert_eq!(frame.labels.energy, Some(thermo.potential_energy));
    assert_eq!((frame.info["step"].as_str(), frame.labels.stress), ("1", None));
    let mut other = Springs;
    let again = Dynamics::new(&mut other, frame, MASSES.to_vec(), plan(Ensemble::Nve), None);
    let again = again.unwrap().state();
    for (a, b) in again.velocities.iter().flatten().zip(before.velocities.iter().flatten()) {
        assert!((a - b).abs() < 1e-15 * b.abs().max(1e-3), "{a} {b}");
    }
}

#[test]
fn own_masses_are_those_of_the_simulation() {
    let mut structure = triangle();
    assert_eq!(masses(&structure).unwrap(), MASSES);
    structure.masses = Some(vec![12.0, 2.014, 18.0]);
    structure.momenta = Some(vec![[1.0, 0.0, 0.0]; 3]);
    let own = masses(&structure).unwrap();
    assert_eq!(own, [12.0, 2.014, 18.0]);
    let mut potential = Springs;
    let run = Dynamics::new(&mut potential, structure, own.clone(), plan(Ensemble::Nve), None);
    let run = run.unwrap();
    let kinetic: f64 = own.iter().map(|mass| 0.5 / mass).sum();
    assert!((run.thermo().kinetic_energy - kinetic).abs() < 1e-12);
    assert_eq!(run.frame().masses, Some(own));
}

#[test]
fn held_coordinates_stay_in_every_ensemble() {
    let held = vec![[true; 3], [false, true, false], [false; 3]];
    for ensemble in [Ensemble::Nve, langevin()] {
        let start = Structure {
            held: Some(held.clone()),
            momenta: Some(vec![[1.0, 2.0, 3.0]; 3]),
            ..triangle()
        };
        let mut potential = Springs;
        let mut run =
            Dynamics::new(&mut potential, start.clone(), MASSES.to_vec(), plan(ensemble), None)
                .unwrap();
        // Five coordinates are free, of which four have momentum in ASE's units.
        let kinetic = (1.0 + 9.0) / (2.0 * MASSES[1]) + (1.0 + 4.0 + 9.0) / (2.0 * MASSES[2]);
        let thermo = run.thermo();
        assert!((thermo.kinetic_energy - kinetic).abs() < 1e-12 * kinetic);
        let temperature = 2.0 * kinetic / (5.0 * BOLTZMANN);
        assert!((thermo.temperature - temperature).abs() < 1e-9 * temperature);
        run.thermalise(300.0);
        (0..50).for_each(|_| run.advance().unwrap());
        let frame = run.frame();
        assert_eq!(frame.held, Some(held.clone()));
        for (atom, held) in held.iter().enumerate() {
            for (axis, is_held) in held.iter().enumerate() {
                let [before, after] = [&start, &frame].map(|one| one.positions[atom][axis]);
                assert_eq!(before.to_bits() == after.to_bits(), *is_held, "{atom} {axis}");
                let momentum = frame.momenta.as_ref().unwrap()[atom][axis];
                assert_eq!(momentum == 0.0, *is_held, "{atom} {axis}");
            }
        }
    }
    let still = Structure { held: Some(vec![[true; 3]; 3]), ..triangle() };
    let mut potential = Springs;
    let told = Dynamics::new(&mut potential, still, MASSES.to_vec(), plan(Ensemble::Nve), None);
    assert!(told.err().unwrap().to_string().contains("held by move_mask"));
}

#[test]
fn frames_keep_what_belongs_to_the_atoms_and_drop_labels_of_other_positions() {
    let column = |name: &str| crate::Column {
        name: name.into(),
        kind: "I".into(),
        width: 1,
        text: "1\n2\n3\n".into(),
    };
    let mut start = Structure {
        columns: ["tags", "forces", "velo", "stresses", "magmoms"].map(column).to_vec(),
        ..triangle()
    };
    for name in ["REF_energy", "virial", "free_energy", "name"] {
        start.info.insert(name.into(), "1".into());
    }
    let mut potential = Springs;
    let run = Dynamics::new(&mut potential, start, MASSES.to_vec(), plan(Ensemble::Nve), None);
    let frame = run.unwrap().frame();
    let names: Vec<&str> = frame.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["tags", "magmoms"]);
    let keys: Vec<&str> = frame.info.keys().map(String::as_str).collect();
    assert_eq!(keys, ["name", "step", "time_fs"]);
}

#[test]
fn pressure_is_that_of_an_ideal_gas_and_of_the_forces() {
    let start = |spread: f64| {
        let mut gas = solid_argon();
        gas.positions.iter_mut().flatten().for_each(|x| *x *= spread);
        gas.cell.iter_mut().flat_map(|cell| &mut cell.rows).flatten().for_each(|x| *x *= spread);
        gas
    };
    let pressure = |structure: Structure, temperature: f64| {
        let masses = masses(&structure).unwrap();
        let mut potential = Argon;
        let mut run =
            Dynamics::new(&mut potential, structure, masses, plan(Ensemble::Nve), None).unwrap();
        run.thermalise(temperature);
        run.thermo()
    };
    // Beyond the cutoff nothing but motion is left: p V = N k T.
    let thin = start(5.0);
    let volume = thin.cell.unwrap().volume();
    let thermo = pressure(thin, 300.0);
    let ideal = GIGAPASCAL * 4.0 * BOLTZMANN * thermo.temperature / volume;
    assert!((thermo.pressure.unwrap() - ideal).abs() < 1e-12 * ideal);
    // At rest, it is minus the change of the energy with the volume.
    let still = pressure(solid_argon(), 0.0).pressure.unwrap();
    let energy = |spread: f64| {
        let structure = start(spread);
        let volume = structure.cell.unwrap().volume();
        [Argon.predict(&structure, Wanted { forces: true }).unwrap().energy, volume]
    };
    let ([high, more], [low, less]) = (energy(1.0 + 1e-5), energy(1.0 - 1e-5));
    let slope = -GIGAPASCAL * (high - low) / (more - less);
    assert!((still - slope).abs() < 1e-6 * slope.abs(), "{still} {slope}");
    assert_eq!(pressure(triangle(), 300.0).pressure, None);
}

/// Stops a run when it was asked so often.
struct After(Cell<u32>);

impl Monitor for After {
    fn step(&mut self, _: &str) {}
    fn progress(&mut self, _: u64, _: u64) {}
    fn interrupted(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }
    fn seconds(&self) -> f64 {
        0.0
    }
}

/// Runs up to a step in a directory; whether it came there.
fn recorded(directory: &std::path::Path, steps: u64, monitor: &mut dyn Monitor) -> bool {
    let mut recording = Recording::open(directory).unwrap();
    let state = recording.state().cloned();
    let is_new = state.is_none();
    let mut potential = Springs;
    let mut run =
        Dynamics::new(&mut potential, triangle(), MASSES.to_vec(), plan(langevin()), state)
            .unwrap();
    if is_new {
        run.thermalise(300.0);
    }
    match recording.run(&mut run, [steps, 4], monitor) {
        Ok(()) => true,
        Err(MoleculeError::Interrupted { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_recording_that_was_cut_anywhere_has_the_same_bytes() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [whole, cut] = folders.each_ref().map(|folder| folder.path());
    assert!(recorded(whole, 40, &mut Silent));
    let read = |folder: &std::path::Path| {
        [TRAJECTORY, LOG, "state.json"].map(|name| std::fs::read(folder.join(name)).unwrap())
    };
    for (round, steps) in [7, 1, 12, 3].into_iter().enumerate() {
        assert!(!recorded(cut, 40, &mut After(Cell::new(steps))));
        // As after a kill: frames that no state knows of, and half of one.
        for name in [TRAJECTORY, LOG] {
            let path = cut.join(name);
            let mut bytes = std::fs::read(&path).unwrap();
            let more = bytes[..bytes.len() / (round + 2)].to_vec();
            bytes.extend(more);
            std::fs::write(path, bytes).unwrap();
        }
    }
    assert!(recorded(cut, 40, &mut Silent));
    assert_eq!(read(cut), read(whole));
    let frames =
        crate::read_xyz(&cut.join(TRAJECTORY), &crate::LabelKeys::default()).expect("frames");
    let steps: Vec<&str> = frames.iter().map(|frame| frame.info["step"].as_str()).collect();
    assert_eq!(steps, ["0", "4", "8", "12", "16", "20", "24", "28", "32", "36", "40"]);
    let mut logged = Vec::new();
    Recording::open(cut).unwrap().read_log(|thermo| logged.push(thermo.step)).unwrap();
    assert_eq!(logged.len(), frames.len());
    // More steps continue where fewer ended.
    assert!(recorded(cut, 60, &mut Silent) && recorded(whole, 60, &mut Silent));
    assert_eq!(read(cut), read(whole));
}

#[test]
fn damaged_recordings_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    assert!(recorded(folder.path(), 8, &mut Silent));
    let state = folder.path().join("state.json");
    let good = std::fs::read_to_string(&state).unwrap();
    let told = || Recording::open(folder.path()).unwrap_err().to_string();
    let whole = Recording::open(folder.path()).unwrap().state().cloned();
    std::fs::write(&state, good.replacen("positions", "places", 1)).unwrap();
    assert!(told().contains("state.json: its checksum differs"), "{}", told());
    std::fs::write(&state, &good).unwrap();
    let path = folder.path().join(TRAJECTORY);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(told().contains("trajectory.xyz: has") && told().contains("remove"), "{}", told());
    std::fs::write(&path, &bytes).unwrap();
    // A changed byte anywhere, of any of the files.
    for name in [TRAJECTORY, LOG, "state.json"] {
        let path = folder.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            match Recording::open(folder.path()) {
                // The last digit of a number may be another one of the same number.
                Ok(same) => assert!(name == "state.json" && same.state() == whole.as_ref(), "{at}"),
                Err(_) => {
                    assert!(told().contains(name) && told().contains("start over"), "{at}");
                }
            }
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    std::fs::write(folder.path().join(LOG), vec![b'x'; 1 << 14]).unwrap();
    assert!(told().contains("log.jsonl"), "{}", told());
}
