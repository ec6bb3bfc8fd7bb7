//! Trials of a small potential on generated molecules.

use super::*;
use crate::judge::{PassMacs, PassSpeed, TrialJudge};
use linwright_compare::{Asking, Compared, Comparison, Pieces, Place, Row, SlotMethod, Slots};
use linwright_compress::{Edit, Plan, Size, SlotSet};
use linwright_evaluate::Outcome;
use linwright_molecule::{LabelKeys, Labels, Wanted, XyzWriter};
use linwright_ops::Sites;
use linwright_run::{Fingerprint, Shard, Silent, Store};
use linwright_tensor::dtype::DType;
use tempfile::TempDir;

fn potential() -> TrialPotential {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet");
    TrialPotential::open(&path.join("a_lightning.ckpt")).unwrap()
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

/// Opens a trial on these structures of the file, those to fit to and those that are scored.
fn open<'a>(
    potential: &'a TrialPotential,
    folder: &TempDir,
    [fitted, scored]: [&str; 2],
    drawn: &'a StructureCalibration,
) -> Result<MoleculeTrial<'a>, MoleculeTrialError> {
    let path = folder.path().join("a.xyz");
    let chosen = [fitted, scored].map(|list| Indices::parse(list).unwrap());
    let [fitted, scored] = chosen.each_ref().map(|examples| StructureSource {
        path: &path,
        examples: Some(examples),
        units: None,
        keys: LabelKeys::default(),
    });
    let names = StructureNames { calibration: "--calibration", eval: "--test" };
    MoleculeTrial::new(potential, [&fitted, &scored], drawn, names)
}

/// Compares rows of channel mixing in the first layer, with two seeds.
fn compared(trial: &MoleculeTrial<'_>, store: &Store) -> Compared<PassMacs, PassSpeed> {
    let row = |label: &str, name, rank| Row {
        label: Some(label.to_owned()),
        size: Some(Size::Rank(rank)),
        ..Row::of(SlotMethod::named(name).unwrap())
    };
    let rows = [row("LR1", "low_rank", 1), row("LR7", "low_rank", 7), row("svd1", "laser", 1)];
    let places = [0, 1].map(|seed| Place { layers: vec![0], seed });
    let asking = Asking { rows: &rows, keeps: &[], places: &places, against: &[] };
    let (print, fits) = (Fingerprint::of(&[("molecules", &1)]), Store::none());
    let pieces = Pieces { store, shard: Shard::WHOLE, print: &print };
    let mut comparison = Comparison::new(asking, pieces);
    let sites = SlotSet::with_roles(&["mixing"], Some(vec![0]));
    for Place { seed, .. } in &places {
        let examples = trial.examples(*seed).unwrap();
        let plan_of = |edit: Edit| Plan { seed: *seed, edits: vec![edit] };
        let slots = Slots {
            network: trial.network(),
            hash: trial.hash(),
            sites: &sites,
            plan_of: &plan_of,
            examples: Some(examples.as_ref()),
            dtype: DType::F32,
            fits: &fits,
        };
        let judge = TrialJudge::new(trial, examples.as_ref(), slots);
        comparison.at(&judge, &mut Silent).unwrap();
    }
    match comparison.finish() {
        Outcome::Complete(found) => found,
        Outcome::Part { .. } => panic!("it is no shard"),
    }
}

#[test]
fn a_seed_draws_structures_and_the_last_are_for_validation() {
    let (potential, folder) = (potential(), folder(&molecules(20)));
    let drawn = StructureCalibration { sample: Some(8), batch: 3, validation: 0.25 };
    assert_eq!([50, 3, 2, 1].map(|count| for_validation(drawn.validation, count)), [13, 1, 1, 1]);
    let trial = open(&potential, &folder, ["0-11", "12-19"], &drawn).unwrap();
    let [first, again, other] = [0, 0, 1].map(|seed| trial.examples(seed).unwrap());
    assert_eq!((first.training_batches(), first.batches()), (2, 3));
    assert_eq!([0, 1, 2].map(|index| first.batch(index).atoms()), [12, 12, 8]);
    assert_eq!(first.identity(), again.identity());
    assert_ne!(first.identity(), other.identity());
}

#[test]
fn scores_are_errors_of_forces_and_a_comparison_keeps_its_cells() {
    let (potential, folder) = (potential(), folder(&molecules(20)));
    let drawn = StructureCalibration::default();
    let trial = open(&potential, &folder, ["0-11", "12-19"], &drawn).unwrap();
    let scores = trial.scores(&potential.network, &mut Silent).unwrap();
    let [result] = &scores[..] else { panic!("{scores:?}") };
    let metric = |name| result.metric(name).unwrap().value;
    assert!((metric("force_mae") - 0.1).abs() < 1e-4, "{result:?}");
    assert!((metric("force_rmse") - 0.1).abs() < 1e-4 && metric("energy_mae") < 1e-5);
    assert_eq!((result.counts.items, result.protocol.as_str()), (8, "molecules_eV_A"));

    let kept = tempfile::tempdir().unwrap();
    let store = Store::at(kept.path());
    let found = compared(&trial, &store);
    assert_eq!((&found.dense.results[0].metrics, found.cells.len()), (&result.metrics, 6));
    let model = |name: &str| {
        let cell = found.cells.iter().find(|cell| cell.name() == name).unwrap();
        cell.found.figures().unwrap()
    };
    let error =
        |name: &str| (model(name).results[0].metric("force_mae").unwrap().value - 0.1).abs();
    assert!(error("LR7") < error("LR1"), "{} {}", error("LR7"), error("LR1"));
    let slots = potential.network.slots().into_iter();
    let mixing = slots.filter(|slot| slot.layer().is_some() && slot.role().name() == "mixing");
    let sizes: Vec<usize> = mixing.map(|slot| slot.shape().out + slot.shape().inp).collect();
    let targeted = model("LR1").parameters.targeted;
    assert_eq!((sizes.len(), targeted), (6, sizes.iter().sum::<usize>() as u64));
    // Records of structures are not kept.
    let kept = |found| serde_json::to_value(found).unwrap();
    assert_eq!(kept(&compared(&trial, &store)), kept(&found));
}

#[test]
fn what_does_not_suit_the_potential_is_refused_before_any_work() {
    let potential = potential();
    let refused = |structures: &[Structure], fitted: &str, scored: &str| {
        let (folder, drawn) = (folder(structures), StructureCalibration::default());
        let opened = open(&potential, &folder, [fitted, scored], &drawn);
        match opened.map_err(TrialError::from).and_then(|trial| trial.examples(0).map(drop)) {
            Ok(()) => panic!("{fitted}, {scored} are taken"),
            Err(error) => error.to_string(),
        }
    };
    let good = molecules(10);
    for (fitted, scored, expected) in [
        ("0-4", "5-10", "--test: there is no structure 10"),
        ("0-5", "4-9", "share 2 structures of one file, the first is 4"),
        ("0", "1-9", "--calibration has 1 structures, expected at least 2"),
    ] {
        let message = refused(&good, fitted, scored);
        assert!(message.contains(expected), "{message}");
    }
    let (mut bare, mut gold) = (good.clone(), good.clone());
    bare[7].labels = Labels::default();
    let message = refused(&bare, "0-4", "5-9");
    assert!(message.contains("--test: structure 7 of") && message.contains("forces"), "{message}");
    gold[3].species[0] = 79;
    let message = refused(&gold, "2-4", "5-9");
    assert!(message.contains("structure 3") && message.contains("Au"), "{message}");
    let mut same = good.clone();
    same[4].positions[1] = same[4].positions[0];
    let message = refused(&same, "2-4", "5-9");
    assert!(message.contains("--calibration: structure 4"), "{message}");
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
