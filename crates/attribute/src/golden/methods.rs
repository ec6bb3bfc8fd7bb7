//! TRAK, TracIn, K-FAC and EK-FAC of small networks.

use super::attribution::{batch, network};
use super::{Case, cases, number};
use crate::damping::Precondition;
use crate::maps::{Dense, Identity, Mask};
use crate::{
    CompressorKey, CompressorSpec, Curvature, Damping, ExampleBatch, Examples, GradientMap,
    GradientStore, Kronecker, LayerMap, LayerShape, Moments, Objective, Reduction, Sources,
    StoreOptions, Target, Trak, cache, datamodelling_scores, detection_area, gradients, moments,
    shape_of,
};
use linwright_nets::{Batch, Net};
use linwright_ops::{LinearSlot, Network};
use linwright_run::Silent;
use linwright_tensor::Mat;
use std::ops::Range;

/// Checks numbers within an absolute tolerance and one relative to the largest expected one.
#[track_caller]
fn close(case: &Case, name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    let most = expected.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    assert_eq!(found.len(), expected.len(), "{}: {name}", case.name);
    for (found, expected) in found.iter().zip(expected) {
        let off = (found - expected).abs();
        assert!(off <= tolerance * most, "{}: {name}: {found}, {expected} of {most}", case.name);
    }
}

/// Tolerance relative to the largest number, for outputs of a network in single precision.
fn of_network(case: &Case) -> f64 {
    let tolerance = &case.about["tolerance"];
    let found = tolerance["rel_to_max"].as_f64().or_else(|| tolerance["rtol"].as_f64());
    found.unwrap_or_else(|| panic!("{}: no tolerance", case.name))
}

/// Tolerance relative to the largest number, for algebra in double precision on stored numbers.
const ALGEBRA: f64 = 1e-6;
/// Tolerance relative to the largest number, for gradients of a network in single precision.
const GRADIENTS: f64 = 1e-5;

fn identity(slot: &LinearSlot) -> Result<LayerMap, crate::AttributeError> {
    let shape = shape_of(slot);
    let map = |size| Box::new(Identity::new(size));
    LayerMap::new(shape, map(shape.width()), map(shape.out), Vec::new())
}

/// For each number of a row of whole gradients, its index among the parameters of the reference:
/// weight and bias of one layer after the other.
fn places(map: &GradientMap) -> Vec<usize> {
    let (mut all, mut before) = (Vec::new(), 0);
    for layer in map.layers() {
        let LayerShape { out, inp, bias } = layer.map.shape();
        for o in 0..out {
            all.extend((0..inp).map(|i| before + o * inp + i));
            all.extend(bias.then_some(before + out * inp + o));
        }
        before += layer.map.shape().numbers();
    }
    all
}

/// Whole gradients in the order of the reference.
fn whole(case: &Case, prefix: &str, of: &str, target: Target) -> Mat<f64> {
    let (net, batch) = (network(case, 1, prefix), batch(case, of));
    let map = GradientMap::of(&net, &|_| true, &identity).expect("maps");
    let objective = Objective { target, reduction: Reduction::Mean };
    let rows = gradients(&net, &map, &batch, objective, 0).expect("gradients").rows;
    let mut ordered = Mat::zeros(rows.rows(), rows.cols());
    for row in 0..rows.rows() {
        for (at, place) in places(&map).into_iter().enumerate() {
            *ordered.at_mut(row, place) = f64::from(rows.at(row, at));
        }
    }
    ordered
}

/// Checkpoints of a case.
fn checkpoints(case: &Case) -> Range<usize> {
    let is_there = |index: &usize| case.tensors.contains_key(&format!("ckpt{index}.fc1.weight"));
    0..(0..).take_while(is_there).count()
}

fn negative(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| -value).collect()
}

#[test]
fn golden_gradients_of_margins_and_trak_are_those_of_the_reference() {
    for case in cases("trak") {
        let lambda = case.about["regularization"].as_f64().expect("a ridge");
        for index in checkpoints(&case) {
            for of in ["train", "test"] {
                let name = format!("margin_grad_{of}_ckpt{index}");
                // Ours is minus the margin.
                let found = whole(&case, &format!("ckpt{index}"), of, Target::Margin);
                close(&case, &name, found.data(), &negative(&case.get(&name).values), GRADIENTS);
            }
        }
        for kind in case.before(".score_f64", 2) {
            let mut sums = Mat::zeros(batch(&case, "train").spans.len(), 0);
            for index in checkpoints(&case) {
                let of = |of: &str| -> Mat<f64> {
                    case.rows(&format!("{kind}.phi_{of}_ckpt{index}")).cast()
                };
                let (train, mut queries) = (of("train"), of("test"));
                let count = train.rows() as f64;
                let fisher = Curvature::of_rows("all", train.clone()).expect("a curvature");
                fisher
                    .precondition(&mut queries, Damping::Absolute(lambda / count))
                    .expect("damped");
                if sums.cols() == 0 {
                    sums = Mat::zeros(train.rows(), queries.rows());
                }
                for i in 0..train.rows() {
                    for q in 0..queries.rows() {
                        let terms = train.row(i).iter().zip(queries.row(q)).map(|(a, b)| a * b);
                        *sums.at_mut(i, q) += terms.sum::<f64>() / count;
                    }
                }
            }
            let means = checkpoints(&case).len() as f64;
            for (i, doubt) in case.get("Q_mean").values.iter().enumerate() {
                sums.row_mut(i).iter_mut().for_each(|sum| *sum *= doubt / means);
            }
            let name = format!("{kind}.score_f64");
            close(&case, &name, sums.data(), &case.get(&name).values, ALGEBRA);
        }
    }
}

/// Examples of a case.
struct Fixed(ExampleBatch<Batch>);

impl Examples<Batch> for Fixed {
    fn count(&self) -> usize {
        self.0.spans.len()
    }

    fn batch(&self, examples: Range<usize>) -> ExampleBatch<Batch> {
        let columns = self.0.input.rows.cols();
        let rows = self.0.input.rows.view().rows_range(examples.start, examples.len()).to_mat();
        assert_eq!(rows.cols(), columns, "rows of examples");
        let count = examples.len();
        let input = Batch { rows, examples: count };
        let targets = self.0.targets[examples].to_vec();
        ExampleBatch { input, targets, spans: (0..count).map(|at| at..at + 1).collect() }
    }

    fn identity(&self) -> String {
        "golden".into()
    }
}

/// The mask of a case as a map of each layer of which it has numbers.
fn masked(case: &Case, net: &Net, name: &str) -> GradientMap {
    let all = GradientMap::of(net, &|_| true, &identity).expect("maps");
    let (places, chosen) = (places(&all), case.indices(name));
    let own = |slot: &LinearSlot| -> Vec<u32> {
        let layer = all.layers().iter().find(|layer| layer.site == *slot.id()).expect("a layer");
        let is_chosen = |at: &usize| chosen.contains(&(places[*at] as u32));
        let start = layer.columns.start;
        layer.columns.clone().filter(is_chosen).map(|at| (at - start) as u32).collect()
    };
    let build = |slot: &LinearSlot| {
        let shape = shape_of(slot);
        let map = |size| Box::new(Identity::new(size));
        let flat = Box::new(Mask::new(shape.numbers(), own(slot))?);
        LayerMap::new(shape, map(shape.width()), map(shape.out), vec![flat])
    };
    GradientMap::of(net, &|slot| !own(slot).is_empty(), &build).expect("maps")
}

#[test]
fn golden_trak_of_stores_is_that_of_the_reference() {
    for case in cases("trak") {
        for kind in case.before(".idx_ckpt0", 1) {
            let found = trak_of_stores(&case, kind);
            let name = format!("{kind}.score_f64");
            let allowed = of_inverse(&case, kind).min(of_network(&case));
            close(&case, &name, found.data(), &case.get(&name).values, allowed);
        }
    }
}

/// Tolerance of scores from gradients in single precision: their rounding error, amplified at most
/// by the inverse of their ridged Gram matrix.
fn of_inverse(case: &Case, kind: &str) -> f64 {
    let ridge = case.about["regularization"].as_f64().expect("a ridge");
    let squares = |index: usize| -> f64 {
        case.get(&format!("{kind}.phi_train_ckpt{index}")).values.iter().map(|x| x * x).sum()
    };
    let most = checkpoints(case).map(squares).fold(0.0, f64::max);
    4.0 * f64::from(f32::EPSILON) * (1.0 + most / ridge)
}

/// Scores of the stores of all checkpoints, compressed by the masks of this kind.
fn trak_of_stores(case: &Case, kind: &str) -> Mat<f64> {
    let lambda = case.about["regularization"].as_f64().expect("a ridge");
    let (train, test) = (Fixed(batch(case, "train")), batch(case, "test"));
    let mut trak = Trak::new(train.count(), test.spans.len());
    for index in checkpoints(case) {
        let net = network(case, 1, &format!("ckpt{index}"));
        let map = masked(case, &net, &format!("{kind}.idx_ckpt{index}"));
        let dir = tempfile::tempdir().expect("a folder");
        let (network, examples) = (format!("checkpoint {index}"), train.identity());
        let sources = Sources { network, examples, count: train.count() };
        let options = StoreOptions { target: Target::Margin, batch: 4, ..StoreOptions::default() };
        let spec: CompressorSpec = "mask:7".parse().expect("a compressor");
        let key = CompressorKey { seed: 0, checkpoint: index as u64 };
        let store = GradientStore::create(dir.path(), &sources, &map, (spec, key), options);
        let store = store.expect("a store");
        let all = (&net, &map);
        cache(all, &train, &store, crate::CacheOptions::default(), &mut Silent).expect("cached");
        let objective = store.manifest().objective();
        let queries = gradients(&net, &map, &test, objective, 0).expect("gradients").rows;
        // The reference counts parameters of layers without a number in the mask, too.
        let (all, own) = (net.parameters() as f64, store.manifest().parameters() as f64);
        let damping = Damping::Absolute(lambda * all / own);
        trak.add(&store, &queries, damping, &mut Silent).expect("scored");
    }
    trak.scores()
}

#[test]
fn golden_tracin_is_that_of_the_reference() {
    for case in cases("tracin") {
        let weights = &case.get("weights").values;
        assert_eq!(weights.len(), checkpoints(&case).len());
        for (name, is_cosine) in [("tracin.score", false), ("tracin_cos.score", true)] {
            let expected = &case.get(name).values;
            let mut sums = vec![0.0; expected.len()];
            for (index, weight) in weights.iter().enumerate() {
                let of = |of| whole(&case, &format!("ckpt{index}"), of, Target::Loss);
                let (train, test) = (of("train"), of("test"));
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                for i in 0..train.rows() {
                    for q in 0..test.rows() {
                        let (a, b) = (train.row(i), test.row(q));
                        let norms = if is_cosine { (dot(a, a) * dot(b, b)).sqrt() } else { 1.0 };
                        sums[i * test.rows() + q] += weight * dot(a, b) / norms;
                    }
                }
            }
            close(&case, name, &sums, expected, of_network(&case));
        }
    }
}

#[test]
fn golden_kronecker_products_are_those_of_the_reference() {
    for case in cases("kfac_lora") {
        let wide = |name: &str| case.rows(name).cast::<f64>();
        let (out, inp) = (&case.get("eigval_out").values, &case.get("eigval_in").values);
        let product = Mat::from_fn(out.len(), inp.len(), |i, j| out[i] * inp[j]);
        for (kind, values) in [("kfac", product), ("ekfac", wide("lam"))] {
            let curvature = Kronecker {
                site: kind.into(),
                out: wide("eigvec_out"),
                inp: wide("eigvec_in"),
                values,
            };
            for text in case.after(&format!("{kind}_d"), 2) {
                let damping = number(text).map_or(Damping::Relative(0.1), Damping::Absolute);
                let mut rows = wide("src");
                curvature.precondition(&mut rows, damping).expect("damped");
                let name = format!("{kind}_d{text}");
                close(&case, &name, rows.data(), &case.get(&name).values, of_network(&case));
                // Scores are those of the first damping with a number.
                let score = format!("{kind}_score");
                let with_numbers = case.after(&format!("{kind}_d"), 2).into_iter();
                let is_scored =
                    with_numbers.filter(|name| number(name).is_some()).min() == Some(text);
                if is_scored && case.tensors.contains_key(&score) {
                    let target = wide("tgt");
                    let found = Mat::from_fn(rows.rows(), target.rows(), |i, q| {
                        rows.row(i).iter().zip(target.row(q)).map(|(a, b)| a * b).sum()
                    });
                    let expected = &case.get(&score).values;
                    close(&case, &score, found.data(), expected, of_network(&case));
                }
            }
        }
        // The low-rank layer of the reference gives the same numbers as two dense maps.
        let (a, c) = (case.rows("lora_A"), case.rows("lora_C"));
        let (x, dy) = (case.rows("lora_x"), case.rows("lora_gout"));
        let shape = LayerShape { out: dy.cols(), inp: x.cols(), bias: false };
        let dense = |matrix| Box::new(Dense::directions(matrix).expect("a map"));
        let map = LayerMap::new(shape, dense(a.transpose()), dense(c), Vec::new()).expect("maps");
        let mut found = vec![0.0; map.size()];
        let (dy, x) = (map.reduce_gradients(dy.view()), map.reduce_inputs(x.view()));
        map.add(dy.view(), x.view(), &mut found);
        let found: Vec<f64> = found.into_iter().map(f64::from).collect();
        let expected = &case.get("lora_Bgrad").values;
        close(&case, "lora_Bgrad", &found, expected, of_network(&case));
    }
}

#[test]
fn golden_ek_fac_has_the_true_directions() {
    for case in cases("ekfac") {
        let (x, classes) = (case.rows("x"), case.indices("y"));
        let count = x.rows();
        let spans = (0..count).map(|at| at..at + 1).collect();
        let all =
            ExampleBatch { input: Batch { rows: x, examples: count }, targets: classes, spans };
        let net = network(&case, 1, "w");
        let map = GradientMap::of(&net, &|_| true, &identity).expect("maps");
        let objective = Objective::from(Reduction::Mean);
        let found =
            moments((&net, &map), &Fixed(all), (objective, 7), &mut Silent).expect("moments");
        for (index, layer) in map.layers().iter().enumerate() {
            let name = |of: &str| format!("{}.{of}", layer.site);
            let stored = |of: &str| {
                let (tensor, columns) = (case.get(&name(of)), case.rows(&name(of)).cols());
                let values = tensor.values.clone();
                Mat::from_vec(values.len() / columns, columns, values)
            };
            let (inp, out) = (stored("A"), stored("S"));
            close(&case, &name("A"), found[index].inp.data(), inp.data(), GRADIENTS);
            close(&case, &name("S"), found[index].out.data(), out.data(), GRADIENTS);
            let numbers = inp.rows() * out.rows();
            let gradients = Mat::from_vec(count, numbers, case.get(&name("G")).values.clone());
            let moments = Moments { inp, out };
            let curvature = Kronecker::of_moments(&layer.site.0, &moments).expect("a curvature");
            let product: f64 = curvature.values().data().iter().sum();
            let curvature = curvature.corrected(&gradients);
            let mut sorted = curvature.values().data().to_vec();
            sorted.sort_by(f64::total_cmp);
            let mut expected = case.get(&name("lam_sorted")).values.clone();
            expected.sort_by(f64::total_cmp);
            close(&case, &name("lam_sorted"), &sorted, &expected, case.tolerance().0);
            // The trace is that of the Fisher matrix for any directions.
            let trace: f64 = gradients.data().iter().map(|g| g * g).sum::<f64>() / count as f64;
            let sum: f64 = sorted.iter().sum();
            assert!((sum - trace).abs() < 1e-9 * trace && product > 0.0);
            let start = name("ihvp_d");
            for text in case.after(&start, 1) {
                let damping = Damping::Absolute(number(text).expect("a damping"));
                let mut query = Mat::from_vec(1, numbers, case.get(&name("query")).values.clone());
                curvature.precondition(&mut query, damping).expect("damped");
                let name = format!("{start}{text}");
                let expected = &case.get(&name).values;
                close(&case, &name, query.data(), expected, case.tolerance().0);
            }
        }
    }
}

#[test]
fn golden_quality_is_that_of_the_reference() {
    for case in cases("metric") {
        let scores: Mat<f64> = case.rows("score").cast();
        let subsets = case.rows("subset_idx");
        let subsets: Vec<Vec<usize>> = (0..subsets.rows())
            .map(|row| subsets.row(row).iter().map(|index| *index as usize).collect())
            .collect();
        let outcomes: Mat<f64> = case.rows("gt").cast();
        let (relative, absolute) = case.tolerance();
        let near = |found: f64, expected: f64| {
            (found - expected).abs() <= absolute + relative * expected.abs()
        };
        let found = datamodelling_scores(&scores, &subsets, &outcomes);
        for (found, expected) in found.iter().zip(&case.get("lds").values) {
            match found {
                Some(found) => assert!(near(*found, *expected), "{found}, {expected}"),
                None => assert!(expected.is_nan(), "{expected}"),
            }
        }
        let noise: Vec<bool> = case.get("noise").values.iter().map(|bad| *bad > 0.0).collect();
        let area = detection_area(&case.get("self_score").values, &noise).expect("bad and good");
        let expected = case.get("auc").values[0];
        assert!(near(area, expected), "{area}, {expected}");
    }
}
