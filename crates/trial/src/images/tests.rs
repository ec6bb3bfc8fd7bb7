//! Trials of a small network on generated images.

use super::*;
use crate::judge::{PassMacs, PassSpeed, TrialJudge};
use linwright_compare::{Compared, Pieces, SlotMethod, Slots, Way};
use linwright_compress::{Edit, Plan, SlotSet};
use linwright_data::images::ImageSource;
use linwright_evaluate::Outcome;
use linwright_nets::NetSpec;
use linwright_run::{Fingerprint, Shard, Silent, Store};
use linwright_tensor::dtype::DType;
use tempfile::TempDir;

const NET: &str = "
input: {channels: 1, height: 6, width: 6, mean: [0.5], std: [0.5]}
layers: [{conv: {name: conv, out: 4, kernel: 3}}, relu, flatten, {linear: {name: fc, out: 4}}]
";

fn net() -> Net {
    let spec: NetSpec = serde_saphyr::from_str(NET).unwrap();
    Net::random(&spec, RngKey::new(1)).unwrap()
}

/// A folder with 60 images of 6 x 6 pixels in idx files, of four classes.
fn folder(labels: impl Fn(usize) -> u8) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut images = [0x803_u32, 60, 6, 6].map(u32::to_be_bytes).concat();
    images.extend((0..60 * 36).map(|i: usize| (i * 37 % 251 + i / 36) as u8));
    let mut bytes = [0x801_u32, 60].map(u32::to_be_bytes).concat();
    bytes.extend((0..60).map(labels));
    std::fs::write(folder.path().join("a-images-idx3-ubyte"), images).unwrap();
    std::fs::write(folder.path().join("a-labels-idx1-ubyte"), bytes).unwrap();
    folder
}

fn source(folder: &TempDir) -> ImageSource {
    ImageSource::new(folder.path().join("a-images-idx3-ubyte"))
}

fn indices(list: &str) -> Option<Indices> {
    Some(Indices::parse(list).unwrap())
}

/// Images to fit to, and those that are scored.
fn data(folder: &TempDir, fitted: &str, scored: &str) -> (ImageCalibration, ImageEvaluation) {
    let standard = ImageCalibration::new(source(folder));
    let calibration = ImageCalibration { examples: indices(fitted), ..standard };
    (calibration, ImageEvaluation { source: source(folder), examples: indices(scored) })
}

fn open<'a>(
    net: &'a Net,
    (calibration, eval): &'a (ImageCalibration, ImageEvaluation),
) -> Result<ImageTrial<'a>, ImageTrialError> {
    let names = ImageNames { calibration: "--calibration", eval: "--images" };
    ImageTrial::new(net, "weights", calibration, eval, names)
}

#[test]
fn a_seed_draws_the_order_of_images_and_the_last_are_for_validation() {
    let (net, folder) = (net(), folder(|i| (i % 4) as u8));
    let mut data = data(&folder, "0-29", "30-59");
    (data.0.batch, data.0.validation) = (8, 0.2);
    assert_eq!(
        [100, 3, 2, 1].map(|images| for_validation(data.0.validation, images)),
        [20, 1, 1, 1]
    );
    let trial = open(&net, &data).unwrap();
    let [first, again, other] = [0, 0, 1].map(|seed| trial.examples(seed).unwrap());
    assert_eq!((first.training_batches(), first.batches()), (3, 4));
    let sizes: Vec<usize> = (0..4).map(|index| first.batch(index).examples).collect();
    assert_eq!(sizes, [8, 8, 8, 6]);
    assert_eq!((first.rows(3), first.all_rows()), (6 * 36, 30 * 36));
    assert_eq!(first.identity(), again.identity());
    assert_ne!(first.identity(), other.identity());
    let one = first.batch(0).rows;
    assert!(one.data().iter().all(|x| (0.0..=1.0).contains(x)), "pixels are divided by 255");
    assert_ne!(one.data(), other.batch(0).rows.data());
}

#[test]
fn scores_are_those_of_the_outputs() {
    let (net, folder) = (net(), folder(|i| (i % 4) as u8));
    let data = data(&folder, "0-29", "30-59");
    let trial = open(&net, &data).unwrap();
    let scores = trial.scores(&net, &mut Silent).unwrap();
    let [result] = &scores[..] else { panic!("{scores:?}") };
    let metric = |name| result.metric(name).unwrap();
    let images = linwright_nets::labelled(
        &linwright_nets::open_images("--images", &data.1.source, None).unwrap(),
    )
    .unwrap();
    let (mut loss, mut right) = (0.0, 0);
    for index in 30..60 {
        let (outputs, _) = net.pass(&images.batch(&[index as u32]), None).unwrap();
        let exps: Vec<f64> = outputs.data().iter().map(|x| f64::from(*x).exp()).collect();
        loss -= (exps[index % 4] / exps.iter().sum::<f64>()).ln() / 30.0;
        right += usize::from(exps.iter().all(|x| *x <= exps[index % 4]));
    }
    assert!((metric("cross_entropy").value - loss).abs() < 1e-4, "{result:?}");
    assert_eq!(metric("acc").value, right as f64 / 30.0);
    assert!(metric("cross_entropy").stderr.unwrap() > 0.0 && result.counts.items == 30);
    assert_eq!(result.protocol, "image_classification_6x6x1");
}

#[test]
fn what_does_not_suit_the_network_is_refused_before_any_work() {
    let (net, good) = (net(), folder(|i| (i % 4) as u8));
    let refused = |data: &(ImageCalibration, ImageEvaluation)| {
        open(&net, data).expect_err("is refused").to_string()
    };
    for (fitted, scored, expected) in [
        ("0-9", "9-60", "--images: there is no image 60: the set has 60"),
        ("0", "1-9", "--calibration has 1 images, expected at least 2"),
        ("0-9", "8-20", "share 2 images of one set, the first is 8"),
        ("0-9", "0-59", "share 10 images"),
    ] {
        let message = refused(&data(&good, fitted, scored));
        assert!(message.contains(expected), "{message}");
    }
    let mut small = data(&good, "0-9", "10-59");
    small.0.source.resize = Some([3, 3]);
    let message = refused(&small);
    assert!(message.contains("--calibration: images have 3 x 3 places"), "{message}");
    let wrong = folder(|i| if i == 33 { 4 } else { 0 });
    let message = refused(&data(&wrong, "0-29", "30-59"));
    assert!(message.contains("--images: label of image 33 is 4, expected 0 to 3"), "{message}");
    std::fs::remove_file(wrong.path().join("a-labels-idx1-ubyte")).unwrap();
    let message = refused(&data(&wrong, "0-29", "30-59"));
    assert!(message.contains("has no labels; name their file as labels=FILE"), "{message}");
}

#[test]
fn networks_that_are_no_classifiers_are_refused_and_numbers_that_are_not_finite_name_a_layer() {
    let folder = folder(|i| (i % 4) as u8);
    let data = data(&folder, "0-29", "30-59");
    let spec: NetSpec = serde_saphyr::from_str(&NET.replace(", flatten,", ",")).unwrap();
    let places = Net::random(&spec, RngKey::new(1)).unwrap();
    let message = open(&places, &data).unwrap_err().to_string();
    assert!(message.contains("the network has 4 x 4 places of 4 channels"), "{message}");
    let net = net();
    let trial = open(&net, &data).unwrap();
    let mut broken = net.clone();
    broken.tensors_mut()[0].values[0] = f32::NAN;
    let message = trial.scores(&broken, &mut Silent).unwrap_err().to_string();
    assert!(message.contains("output of layer 0 (conv) is not finite"), "{message}");
}

#[test]
fn images_that_are_scored_too_are_told() {
    let (net, one, two) = (net(), folder(|i| (i % 4) as u8), folder(|_| 0));
    let mut data = data(&one, "0-29", "0-29");
    data.1.source = source(&two);
    let trial = open(&net, &data).unwrap();
    let notes = trial.notes();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("30 of 30 scored images are also among"), "{notes:?}");
}

#[test]
fn a_comparison_pairs_networks_image_by_image_and_keeps_its_cells() {
    let (net, folder) = (net(), folder(|i| (i % 4) as u8));
    let data = data(&folder, "0-29", "30-59");
    let trial = open(&net, &data).unwrap();
    let examples = trial.examples(0).unwrap();
    let (sites, fits) = (SlotSet::default(), Store::none());
    let kept = tempfile::tempdir().unwrap();
    let store = Store::at(kept.path());
    let plan_of = |edit: Edit| Plan { seed: 0, edits: vec![edit] };
    let slots = Slots {
        network: &net,
        hash: "weights",
        sites: &sites,
        plan_of: &plan_of,
        examples: Some(examples.as_ref()),
        dtype: DType::F32,
        fits: &fits,
    };
    let judge = TrialJudge::new(&trial, examples.as_ref(), slots);
    let names = ["low_rank", "random", "q8_0"];
    let methods = names.map(|name| SlotMethod::named(name).unwrap());
    let print = Fingerprint::of(&[("images", &1)]);
    let compare = || -> Compared<PassMacs, PassSpeed> {
        let pieces = Pieces { store: &store, shard: Shard::WHOLE, print: &print };
        let found = linwright_compare::compare(&judge, &methods, &[0.5], pieces, &mut Silent);
        match found.unwrap() {
            Outcome::Complete(found) => found,
            Outcome::Part { .. } => panic!("it is no shard"),
        }
    };
    let found = compare();
    // Records of items are not kept.
    let kept = |found| serde_json::to_value(found).unwrap();
    assert_eq!(kept(&compare()), kept(&found), "times, too, are those of the first");
    assert_eq!(found.dense.results[0].metrics, trial.scores(&net, &mut Silent).unwrap()[0].metrics);
    assert_eq!(found.cells.len(), 3);
    // 16 positions of 4 x 9, then 4 x 64.
    assert_eq!(found.dense.macs.linear, 16 * 36 + 256);
    for (cell, method) in found.cells.iter().zip(&methods) {
        let figures = cell.found.figures().unwrap_or_else(|| panic!("{cell:?}"));
        let metrics: Vec<&str> = figures.comparisons.iter().map(|own| &*own.metric).collect();
        assert_eq!(metrics, ["acc", "cross_entropy"], "{}", method.name());
        assert!(figures.comparisons.iter().all(|own| own.items == 30), "{cell:?}");
    }
    let (low_rank, _) = found.best(0.5).unwrap();
    assert_eq!(low_rank.method, "low_rank");
    let table = linwright_compare::report::table(&found);
    let heads: Vec<&str> = table.columns.iter().map(|column| &*column.head).collect();
    assert!(heads.contains(&"acc") && heads.contains(&"cross_entropy"), "{heads:?}");
    assert!(!heads.contains(&"memory"), "{heads:?}");
}
