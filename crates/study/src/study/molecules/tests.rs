//! Studies of a small potential on generated molecules.

use super::*;
use crate::recipe::parse_molecules;
use crate::study::{self, Outcome};
use linwright_molecule::{Labels, Wanted, XyzWriter};
use linwright_ops::Sites;
use linwright_run::{RunDirectory, Shard, Silent};
use tempfile::TempDir;

fn potential() -> StudiedPotential {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet");
    StudiedPotential::open(&path.join("a_lightning.ckpt")).unwrap()
}

/// Molecules of four atoms whose labels are predictions, forces off by a tenth.
fn molecules(count: usize) -> Vec<Structure> {
    let mut exact = potential().model.potential(true).unwrap();
    let mut stream = RngKey::new(3).stream();
    let mut one = || {
        let corners = [[0.0, 0.0, 0.0], [1.1, 0.0, 0.0], [0.0, 1.2, 0.0], [0.0, 0.0, 1.3]];
        let moved = corners.map(|p| p.map(|x| x + 0.1 * stream.normal()));
        let mut structure = Structure {
            species: vec![6, 1, 8, 1],
            positions: moved.to_vec(),
            ..Structure::default()
        };
        let found = exact.predict(&structure, Wanted { forces: true }).unwrap();
        let forces = found.forces.iter().map(|force| force.map(|x| x + 0.1)).collect();
        let (energy, forces) = (Some(found.energy), Some(forces));
        structure.labels = Labels { energy, forces, ..Labels::default() };
        structure
    };
    (0..count).map(|_| one()).collect()
}

fn folder(structures: &[Structure]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = XyzWriter::new(Vec::new());
    structures.iter().for_each(|structure| writer.frame(structure).unwrap());
    std::fs::write(folder.path().join("a.xyz"), writer.into_inner()).unwrap();
    folder
}

fn recipe(folder: &TempDir, calibration: &str, eval: &str) -> MoleculeRecipe {
    let file = folder.path().join("a.xyz");
    let file = file.display();
    let text = format!(
        "
version: 1
title: Molecules
model: potential
seeds: [0, 1]
calibration: {{structures: '{file}', {calibration}}}
eval: {{structures: '{file}', {eval}}}
tables:
  - title: Channel mixing
    layers: [[0]]
    targets: [mixing]
    methods:
      - {{label: LR1, fit: {{method: low_rank}}, size: {{rank: 1}}}}
      - {{label: LR7, fit: {{method: low_rank}}, size: {{rank: 7}}}}
      - {{label: svd1, fit: {{method: laser}}, size: {{rank: 1}}}}
"
    );
    parse_molecules(Path::new("r.yaml"), &text).unwrap()
}

#[test]
fn a_seed_draws_structures_and_the_last_are_for_validation() {
    let (potential, folder) = (potential(), folder(&molecules(20)));
    let calibration = "examples: 0-11, sample: 8, batch: 3, validation: 0.25";
    let recipe = recipe(&folder, calibration, "examples: 12-19");
    let trial = MoleculeTrial::open(&potential, &recipe).unwrap();
    let [first, again, other] = [0, 0, 1].map(|seed| trial.examples(seed).unwrap());
    assert_eq!((first.training_batches(), first.batches()), (2, 3));
    assert_eq!([0, 1, 2].map(|index| first.batch(index).atoms()), [12, 12, 8]);
    assert_eq!(first.identity(), again.identity());
    assert_ne!(first.identity(), other.identity());
}

#[test]
fn scores_are_errors_of_forces_and_a_study_keeps_its_cells() {
    let (potential, folder) = (potential(), folder(&molecules(20)));
    let recipe = recipe(&folder, "examples: 0-11", "examples: 12-19");
    let trial = MoleculeTrial::open(&potential, &recipe).unwrap();
    let scores = trial.scores(&potential.network, &mut Silent).unwrap();
    let [result] = &scores[..] else { panic!("{scores:?}") };
    let metric = |name| result.metric(name).unwrap().value;
    assert!((metric("force_mae") - 0.1).abs() < 1e-4, "{result:?}");
    assert!((metric("force_rmse") - 0.1).abs() < 1e-4 && metric("energy_mae") < 1e-5);
    assert_eq!((result.counts.items, result.protocol.as_str()), (8, "molecules_eV_A"));

    let runs = tempfile::tempdir().unwrap();
    let print = study::fingerprint(&recipe, &trial, &[]);
    let run = || {
        let directory = RunDirectory::open(runs.path(), &print).unwrap();
        match study::run(&recipe, &trial, &directory, Shard::WHOLE, &mut Silent).unwrap() {
            Outcome::Complete(findings) => findings,
            Outcome::Part { .. } => panic!("it is no shard"),
        }
    };
    let findings = run();
    // A study keeps the scores of items apart.
    let whole = study::without_items(scores);
    assert_eq!((&findings.baseline, findings.rows.len()), (&whole, 6));
    let error = |method: &str| {
        let row = findings.rows.iter().find(|row| row.method == method).unwrap();
        (row.results[0].metric("force_mae").unwrap().value - 0.1).abs()
    };
    assert!(error("LR7") < error("LR1"), "{} {}", error("LR7"), error("LR1"));
    let row = findings.rows.iter().find(|row| row.method == "LR1").unwrap();
    let slots = potential.network.slots().into_iter();
    let mixing = slots.filter(|slot| slot.layer().is_some() && slot.role().name() == "mixing");
    let sizes: Vec<usize> = mixing.map(|slot| slot.shape().out + slot.shape().inp).collect();
    assert_eq!((sizes.len(), row.parameters.targeted), (6, sizes.iter().sum::<usize>() as u64));
    assert_eq!(run(), findings);
}

#[test]
fn what_does_not_suit_the_potential_is_refused_before_any_work() {
    let potential = potential();
    let refused = |structures: &[Structure], calibration: &str, eval: &str| {
        let folder = folder(structures);
        let recipe = recipe(&folder, calibration, eval);
        let opened = MoleculeTrial::open(&potential, &recipe);
        match opened.map_err(StudyError::from).and_then(|trial| trial.examples(0).map(drop)) {
            Ok(()) => panic!("{calibration}, {eval} are taken"),
            Err(error) => error.to_string(),
        }
    };
    let good = molecules(10);
    for (calibration, eval, expected) in [
        ("examples: 0-4", "examples: 5-10", "eval.examples: there is no structure 10"),
        ("examples: 0-5", "examples: 4-9", "share 2 structures of one file, the first is 4"),
        ("examples: 0", "examples: 1-9", "calibration has 1 structures, expected at least 2"),
    ] {
        let message = refused(&good, calibration, eval);
        assert!(message.contains(expected), "{message}");
    }
    let (mut bare, mut gold) = (good.clone(), good.clone());
    bare[7].labels = Labels::default();
    let message = refused(&bare, "examples: 0-4", "examples: 5-9");
    assert!(message.contains("eval: structure 7 of") && message.contains("forces"), "{message}");
    gold[3].species[0] = 79;
    let message = refused(&gold, "examples: 2-4", "examples: 5-9");
    assert!(message.contains("structure 3") && message.contains("Au"), "{message}");
    let mut same = good.clone();
    same[4].positions[1] = same[4].positions[0];
    let message = refused(&same, "examples: 2-4, validation: 0.5", "examples: 5-9");
    assert!(message.contains("calibration: structure 4"), "{message}");
}

#[test]
fn structures_that_are_scored_too_are_told() {
    let structures = molecules(4);
    let note = common_note(&structures[..3], &structures[2..]).unwrap();
    assert!(note.starts_with("1 of 2 scored structures"), "{note}");
    assert_eq!(common_note(&structures[..2], &structures[2..]), None);
}

#[test]
fn labels_are_compared_without_the_priors_of_the_model() {
    let mut model = potential().model;
    let structure = molecules(1).remove(0);
    model.priors = vec![linwright_molecule::Prior::Zbl { cutoff: 3.0 }];
    let mut own = structure.clone();
    without_priors(&mut own, &model).unwrap();
    let mut with = model.potential(true).unwrap();
    let whole = with.predict(&structure, Wanted { forces: true }).unwrap();
    model.priors.clear();
    let alone =
        model.potential(true).unwrap().predict(&structure, Wanted { forces: true }).unwrap();
    let of_prior = whole.energy - alone.energy;
    let labels = [&structure, &own].map(|one| one.labels.energy.unwrap());
    assert!(of_prior.abs() > 1e-3 && (labels[0] - labels[1] - of_prior).abs() < 1e-10);
    let force = |one: &Structure| one.labels.forces.as_ref().unwrap()[1][0];
    let of_prior = whole.forces[1][0] - alone.forces[1][0];
    assert!((force(&structure) - force(&own) - of_prior).abs() < 1e-10);
}
