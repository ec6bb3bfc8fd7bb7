//! Scores of a store against their definition, and against closed forms.

use super::*;
use crate::tests::{KEY, classified, classifier, map_of, points};
use crate::{
    CacheOptions, Examples, GradientMap, Reduction, Sources, StoreOptions, Top, cache, gradients,
};
use linwright_nets::{Labelled, Net};
use linwright_run::Silent;
use std::path::Path;

struct World {
    net: Net,
    labelled: Labelled,
    map: GradientMap,
}

impl World {
    fn new(compressor: &str, count: usize) -> Self {
        let (net, labelled) = (classifier(1), points(count));
        let map = map_of(&net, compressor, &|_| true);
        Self { net, labelled, map }
    }

    fn store(&self, path: &Path, compressor: &str) -> GradientStore {
        self.store_in(path, compressor, 9)
    }

    fn store_in(&self, path: &Path, compressor: &str, shard_rows: usize) -> GradientStore {
        let examples = classified(&self.labelled);
        let (count, identity) = (examples.count(), examples.identity());
        let sources = Sources { network: "w".into(), examples: identity, count };
        let options = StoreOptions { batch: 4, shard_rows, ..StoreOptions::default() };
        let of = (compressor.parse().unwrap(), KEY);
        let store = GradientStore::create(path, &sources, &self.map, of, options).unwrap();
        let all = (&self.net, &self.map);
        cache(all, &examples, &store, CacheOptions::default(), &mut Silent).unwrap();
        store
    }

    fn rows(&self) -> Mat<f32> {
        let examples = classified(&self.labelled);
        let batch = examples.batch(0..examples.count());
        gradients(&self.net, &self.map, &batch, Reduction::Mean, 0).unwrap().rows
    }
}

fn scores_of(
    attribution: &Attribution<'_>,
    queries: &Mat<f32>,
    comparison: Comparison,
) -> Mat<f64> {
    let mut all = Vec::new();
    let visit = &mut |first: usize, scores: &Mat<f64>| {
        assert_eq!(first * queries.rows(), all.len(), "examples in order");
        all.extend_from_slice(scores.data());
    };
    attribution.scores(queries, comparison, &mut Silent, visit).unwrap();
    Mat::from_vec(all.len() / queries.rows(), queries.rows(), all)
}

#[track_caller]
fn assert_close(found: &Mat<f64>, expected: &Mat<f64>, what: &str) {
    let scale = expected.data().iter().fold(0.0f64, |most, v| most.max(v.abs()));
    assert_eq!((found.rows(), found.cols()), (expected.rows(), expected.cols()), "{what}");
    for (a, b) in found.data().iter().zip(expected.data()) {
        assert!((a - b).abs() <= 1e-5 * scale, "{what}: {a} and {b} of {scale}");
    }
}

/// Scores by preconditioning the stored gradients instead of the queries.
fn by_definition(world: &World, rows: &Mat<f32>, queries: &Mat<f32>, damping: Damping) -> Mat<f64> {
    let mut scores = Mat::zeros(rows.rows(), queries.rows());
    for layer in world.map.layers() {
        let of = |all: &Mat<f32>| -> Mat<f64> {
            all.view().columns(layer.columns.start, layer.columns.len()).to_mat().cast()
        };
        let fisher = Curvature::of_rows("layer", of(rows)).unwrap();
        let (mut conditioned, queries) = (of(rows), of(queries));
        fisher.precondition(&mut conditioned, damping).unwrap();
        for i in 0..scores.rows() {
            for q in 0..queries.rows() {
                let terms = conditioned.row(i).iter().zip(queries.row(q)).map(|(a, b)| a * b);
                *scores.at_mut(i, q) += terms.sum::<f64>();
            }
        }
    }
    scores
}

#[test]
fn preconditioned_queries_give_the_scores_of_preconditioned_examples() {
    // More and fewer examples than numbers of a layer.
    for (compressor, count) in [("factgrass:4", 40), ("factgrass:25", 20)] {
        let (world, dir) = (World::new(compressor, count), tempfile::tempdir().unwrap());
        let store = world.store(&dir.path().join("s"), compressor);
        let attribution = Attribution::open(&store).unwrap();
        let rows = world.rows();
        let queries = rows.view().rows_range(2, 3).to_mat();
        for damping in [Damping::Relative(0.1), Damping::Relative(10.0), Damping::Absolute(1e-3)] {
            let found = scores_of(&attribution, &queries, Comparison::Influence(damping));
            let expected = by_definition(&world, &rows, &queries, damping);
            assert_close(&found, &expected, &format!("{compressor}, {damping}"));
            let own = attribution.self_influence(damping, &mut Silent).unwrap();
            let relative = scores_of(&attribution, &queries, Comparison::RelatIf(damping));
            for (i, own) in own.iter().enumerate() {
                assert!(*own >= 0.0);
                for q in 0..3 {
                    let want = expected.at(i, q) / own.sqrt();
                    assert!((relative.at(i, q) - want).abs() < 1e-4 * (1.0 + want.abs()));
                }
            }
            // A query that is an example: its score on itself is its self-influence.
            for q in 0..3 {
                let (found, own) = (found.at(2 + q, q), own[2 + q]);
                assert!((found - own).abs() < 1e-5 * own, "{found}, {own}");
            }
        }
    }
}

#[test]
fn inner_products_and_cosines_are_those_of_the_gradients() {
    let (world, dir) = (World::new("logra:9", 20), tempfile::tempdir().unwrap());
    let store = world.store(&dir.path().join("s"), "logra:9");
    let attribution = Attribution::open(&store).unwrap();
    let rows = world.rows();
    let queries = rows.view().rows_range(0, 2).to_mat();
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let expected = Mat::from_fn(20, 2, |i, q| dot(rows.row(i), queries.row(q)));
    assert_close(&scores_of(&attribution, &queries, Comparison::GradDot), &expected, "dot");
    let norm = |row: &[f32]| dot(row, row).sqrt();
    let cosines =
        Mat::from_fn(20, 2, |i, q| expected.at(i, q) / norm(rows.row(i)) / norm(queries.row(q)));
    let found = scores_of(&attribution, &queries, Comparison::GradCos);
    assert_close(&found, &cosines, "cosine");
    assert!((found.at(0, 0) - 1.0).abs() < 1e-6 && (found.at(1, 1) - 1.0).abs() < 1e-6);
    let mut top = Top::largest(2, 1);
    attribution
        .scores(&queries, Comparison::GradCos, &mut Silent, &mut |first, part| top.add(first, part))
        .unwrap();
    assert_eq!([top.best()[0][0].index, top.best()[1][0].index], [0, 1]);
}

#[test]
fn scores_with_relative_damping_do_not_depend_on_the_scale_of_a_layer() {
    let world = World::new("factgrass:4", 30);
    let rows = world.rows();
    let scaled = {
        let mut scaled = rows.clone();
        let columns = world.map.layers()[0].columns.clone();
        for i in 0..30 {
            scaled.row_mut(i)[columns.clone()].iter_mut().for_each(|number| *number *= 64.0);
        }
        scaled
    };
    let first = |all: &Mat<f32>| all.view().rows_range(0, 2).to_mat();
    let of = |rows: &Mat<f32>, damping| by_definition(&world, rows, &first(rows), damping);
    let damping = Damping::Relative(0.1);
    assert_close(&of(&scaled, damping), &of(&rows, damping), "relative");
    let damping = Damping::Absolute(0.1);
    let (changed, before) = (of(&scaled, damping), of(&rows, damping));
    let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 0.1 * b.abs();
    assert!(changed.data().iter().zip(before.data()).any(differs), "an absolute one does");
}

#[test]
fn a_stopped_pass_is_told() {
    let (world, dir) = (World::new("factgrass:4", 12), tempfile::tempdir().unwrap());
    let store = world.store(&dir.path().join("s"), "factgrass:4");
    let attribution = Attribution::open(&store).unwrap();
    let queries = world.rows();
    let mut stop = linwright_run::Stopped;
    for comparison in [Comparison::GradDot, Comparison::Influence(Damping::Relative(1.0))] {
        let stopped = attribution.scores(&queries, comparison, &mut stop, &mut |_, _| {});
        assert!(matches!(stopped, Err(AttributeError::Interrupted)), "{comparison:?}");
    }
}

#[test]
fn softmax_regression_without_compression_has_its_closed_form() {
    let text = "{input: {channels: 12}, layers: [{linear: {name: only, out: 3}}]}";
    let spec: linwright_nets::NetSpec = serde_saphyr::from_str(text).unwrap();
    let mut net = Net::random(&spec, linwright_tensor::RngKey::new(3)).unwrap();
    for tensor in net.tensors_mut() {
        tensor.values.iter_mut().enumerate().for_each(|(i, value)| *value = (i as f32 * 0.7).sin());
    }
    let labelled = points(60);
    let map = map_of(&net, "identity", &|_| true);
    let (world, dir) = (World { net, labelled, map }, tempfile::tempdir().unwrap());
    let store = world.store(&dir.path().join("s"), "identity");
    let rows = world.rows();
    // By hand: (p - y) times the input with a one.
    let examples = classified(&world.labelled);
    let batch = examples.batch(0..60);
    let logits = world.net.outputs(&batch.input).unwrap();
    let size = 3 * 13;
    let mut gradients = Mat::zeros(60, size);
    for i in 0..60 {
        let exps: Vec<f64> = logits.row(i).iter().map(|z| f64::from(*z).exp()).collect();
        let sum: f64 = exps.iter().sum();
        for (o, exp) in exps.iter().enumerate() {
            let off = exp / sum - f64::from(u8::from(batch.targets[i] as usize == o));
            for (column, x) in batch.input.rows.row(i).iter().chain(&[1.0]).enumerate() {
                *gradients.at_mut(i, o * 13 + column) = off * f64::from(*x);
            }
        }
    }
    assert_close(&rows.cast(), &gradients, "gradients");
    let queries = rows.view().rows_range(0, 4).to_mat();
    let attribution = Attribution::open(&store).unwrap();
    let damping = Damping::Absolute(0.01);
    let found = scores_of(&attribution, &queries, Comparison::Influence(damping));
    // (F + λ) x = q by elimination.
    let fisher = Mat::from_fn(size, size, |a, b| {
        let terms = (0..60).map(|i| gradients.at(i, a) * gradients.at(i, b));
        terms.sum::<f64>() / 60.0 + if a == b { 0.01 } else { 0.0 }
    });
    for q in 0..4 {
        let solved = eliminated(&fisher, gradients.row(q));
        for i in 0..60 {
            let want: f64 = gradients.row(i).iter().zip(&solved).map(|(a, b)| a * b).sum();
            assert!((found.at(i, q) - want).abs() < 1e-3 * (1.0 + want.abs()), "{i} {q}");
        }
    }
}

/// The solution of a symmetric positive system.
fn eliminated(matrix: &Mat<f64>, right: &[f64]) -> Vec<f64> {
    let (n, mut a, mut b) = (right.len(), matrix.clone(), right.to_vec());
    for k in 0..n {
        for row in k + 1..n {
            let factor = a.at(row, k) / a.at(k, k);
            for column in k..n {
                *a.at_mut(row, column) -= factor * a.at(k, column);
            }
            b[row] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|column| a.at(k, column) * b[column]).sum();
        b[k] = (b[k] - known) / a.at(k, k);
    }
    b
}

#[test]
fn parts_of_layers_add_up_and_rows_are_those_of_the_store() {
    let (world, dir) = (World::new("logra:9", 20), tempfile::tempdir().unwrap());
    let store = world.store(&dir.path().join("s"), "logra:9");
    let attribution = Attribution::open(&store).unwrap();
    let (rows, chosen) = (world.rows(), [17, 0, 9]);
    let stored = attribution.rows(&chosen).unwrap();
    for (at, example) in chosen.iter().enumerate() {
        for (a, b) in stored.row(at).iter().zip(rows.row(*example)) {
            assert!((a - b).abs() < 1e-6);
        }
    }
    let queries = rows.view().rows_range(0, 2).to_mat();
    let comparison = Comparison::Influence(Damping::Relative(0.1));
    let prepared = attribution.prepare(&queries, comparison, &mut Silent).unwrap();
    let scores = scores_of(&attribution, &queries, comparison);
    for (at, example) in chosen.iter().enumerate() {
        let parts = attribution.layer_parts(&prepared, 1, stored.row(at));
        let sum: f64 = parts.iter().sum();
        assert_eq!(parts.len(), world.map.layers().len());
        assert!((sum - scores.at(*example, 1)).abs() < 1e-9 * (1.0 + sum.abs()));
    }
}

#[test]
fn saved_decompositions_give_the_same_bits_and_damaged_ones_are_refused() {
    for (compressor, count) in [("factgrass:4", 30), ("factgrass:25", 12)] {
        let (world, dir) = (World::new(compressor, count), tempfile::tempdir().unwrap());
        let path = dir.path().join("s");
        let store = world.store(&path, compressor);
        let attribution = Attribution::open(&store).unwrap();
        let queries = world.rows().view().rows_range(0, 2).to_mat();
        let comparison = Comparison::Influence(Damping::Relative(0.1));
        let before = scores_of(&attribution, &queries, comparison);
        for layer in 0..store.manifest().layers.len() {
            assert!(Curvature::saved(&store, attribution.shards(), layer).unwrap().is_none());
            let fisher = Curvature::of_layer(&store, attribution.shards(), layer).unwrap();
            let bytes = fisher.save(&store, attribution.shards(), layer).unwrap();
            let file = path.join(format!("fisher/{layer:03}.safetensors"));
            assert_eq!(std::fs::metadata(file).unwrap().len(), bytes);
        }
        assert!(scores_of(&attribution, &queries, comparison) == before, "{compressor}");
        let file = path.join("fisher/000.safetensors");
        let good = std::fs::read(&file).unwrap();
        std::fs::write(&file, &good[..good.len() - 8]).unwrap();
        assert!(Curvature::saved(&store, attribution.shards(), 0).is_err());
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            std::fs::write(&file, changed).unwrap();
            let refused = Curvature::saved(&store, attribution.shards(), 0);
            let message = refused.map(drop).expect_err("is refused").to_string();
            assert!(message.contains("000.safetensors"), "byte {at}: {message}");
            assert!(message.contains("remove the file"), "byte {at}: {message}");
        }
        let other = World { labelled: points(count + 1), ..world };
        let store = other.store(&dir.path().join("other"), compressor);
        std::fs::create_dir(dir.path().join("other/fisher")).unwrap();
        std::fs::write(dir.path().join("other/fisher/000.safetensors"), good).unwrap();
        let attribution = Attribution::open(&store).unwrap();
        let refused = attribution.scores(&queries, comparison, &mut Silent, &mut |_, _| {});
        assert!(matches!(refused, Err(AttributeError::OtherStore { .. })), "{refused:?}");
    }
}

#[test]
fn scores_of_groups_that_divide_the_layers_add_up_to_the_score() {
    let (world, dir) = (World::new("factgrass:9", 21), tempfile::tempdir().unwrap());
    let store = world.store(&dir.path().join("s"), "factgrass:9");
    let attribution = Attribution::open(&store).unwrap();
    let queries = world.rows().view().rows_range(2, 5).to_mat();
    let comparison = Comparison::Influence(Damping::Relative(0.1));
    let all = scores_of(&attribution, &queries, comparison);
    let prepared = attribution.prepare(&queries, comparison, &mut Silent).unwrap();
    // The last group is every layer, the one before none.
    let groups = [vec![1], vec![0, 2], vec![], vec![0, 1, 2]];
    let mut found = Vec::new();
    let visit = &mut |_: usize, scores: &Mat<f64>| found.extend_from_slice(scores.data());
    attribution.scores_of_groups(&prepared, &groups, &mut Silent, visit).unwrap();
    let found = Mat::from_vec(21, 20, found);
    for (i, q) in (0..21).flat_map(|i| (0..5).map(move |q| (i, q))) {
        let of = |group: usize| found.at(i, group * 5 + q);
        assert!((of(0) + of(1) - all.at(i, q)).abs() < 1e-9 * (1.0 + all.at(i, q).abs()));
        assert_eq!((of(2), of(3)), (0.0, all.at(i, q)));
    }
    // One query alone, and any number of threads, have the same bits.
    let one = scores_of(&attribution, &queries.view().rows_range(3, 1).to_mat(), comparison);
    let few = linwright_tensor::parallel::with_threads(1, || {
        scores_of(&attribution, &queries, comparison)
    });
    assert_eq!(few.unwrap(), all);
    assert!((0..21).all(|i| one.at(i, 0) == all.at(i, 3)));
}

#[test]
fn a_number_that_is_not_finite_is_found_by_the_scores() {
    let (world, dir) = (World::new("mask:8", 12), tempfile::tempdir().unwrap());
    let store = world.store(&dir.path().join("s"), "mask:8");
    let attribution = Attribution::open(&store).unwrap();
    let mut queries = world.rows().view().rows_range(0, 1).to_mat();
    queries.row_mut(0)[3] = f32::NAN;
    let prepared = attribution.prepare(&queries, Comparison::GradDot, &mut Silent).unwrap();
    let mut visited = 0;
    let visit = &mut |_: usize, scores: &Mat<f64>| visited += scores.rows();
    let error = attribution.scores_of(&prepared, &mut Silent, visit).unwrap_err();
    // The store is fine, so it is not blamed.
    let AttributeError::Score { example, query, site } = error else { panic!("{error}") };
    assert_eq!((example, query, site.as_str(), visited), (0, 0, "a", 0));
}

#[test]
fn the_fisher_matrix_is_positive_and_does_not_depend_on_shards() {
    // More and fewer examples than numbers of a layer.
    for (compressor, count) in [("factgrass:4", 40), ("factgrass:36", 20)] {
        let (world, dir) = (World::new(compressor, count), tempfile::tempdir().unwrap());
        let of = |shard_rows: usize| {
            let path = dir.path().join(shard_rows.to_string());
            let store = world.store_in(&path, compressor, shard_rows);
            let shards = store.all_shards().unwrap();
            assert_eq!(shards.len(), count.div_ceil(shard_rows));
            Curvature::of_layer(&store, &shards, 0).unwrap()
        };
        let [one, others @ ..] = [count, 9, 1].map(of);
        let most = one.values.last().copied().unwrap();
        assert!(one.values.iter().all(|value| *value > -1e-12 * most), "{:?}", one.values);
        for other in others {
            assert!((one.trace - other.trace).abs() < 1e-12 * one.trace);
            for (a, b) in one.values.iter().zip(&other.values) {
                assert!((a - b).abs() < 1e-11 * most, "{compressor}: {a} and {b}");
            }
        }
    }
}
