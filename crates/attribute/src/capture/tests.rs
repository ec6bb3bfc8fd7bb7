//! Gradients of examples against those of training, of examples alone and of moved biases.

use super::*;
use crate::tests::{classified, classifier, decoder, documents, encoder, map_of, points};
use crate::{AttributeError, Documents, Examples, NO_TARGET, Reduction};
use linwright_model::{Batch, TrainingMemory, Transformer, TransformerGrads};
use linwright_ops::{LinearSlot, Network, NoProbe, Sites};
use linwright_tensor::Metered;
use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATOR: Metered = Metered;

/// Largest difference of sums in f32, relative to the largest number in them or to 0.01: some
/// gradients, such as those of the biases of keys, are sums that cancel.
const TOLERANCE: f32 = 3e-5;

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    let scale = expected.iter().fold(1e-2f32, |most, v| most.max(v.abs()));
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= TOLERANCE * scale, "{what}: {a} and {b} of {scale}");
    }
}

fn all(_: &LinearSlot) -> bool {
    true
}

fn of_documents(model: &Transformer, map: &GradientMap, documents: &Documents) -> Gradients {
    let batch = documents.batch(0..documents.count());
    gradients(model, map, &batch, Reduction::Sum, 0).expect("gradients")
}

/// Gradients of training by name, of the sum over the tokens of one text.
fn trained(model: &Transformer, text: &[u32]) -> BTreeMap<String, Vec<f32>> {
    let batch = Batch::new(&[text]);
    let (mut grads, mut memory) = (TransformerGrads::zeros(model), TrainingMemory::default());
    let targets = batch.next_tokens();
    model.loss_and_grads(&batch, &targets, &mut grads, &mut memory).expect("finite");
    let counted = (text.len() - 1) as f32;
    let mut names = Vec::new();
    model.for_each_param(&mut |name, _| names.push(name.to_owned()));
    let summed = grads.slices().into_iter().map(|grad| grad.iter().map(|g| counted * g).collect());
    names.into_iter().zip(summed).collect()
}

#[test]
fn whole_gradients_are_those_of_training_with_biases_in_the_last_column() {
    for (model, what) in [(decoder(), "decoder"), (encoder(), "encoder")] {
        let map = map_of(&model, "identity", &|slot| slot.role().name() != "pooler");
        let texts = documents(&[13, 2, 7]);
        let found = of_documents(&model, &map, &texts);
        let mut biases = 0;
        for (example, text) in texts.tokens().iter().enumerate() {
            let want = trained(&model, text);
            for layer in map.layers() {
                let (shape, row) =
                    (layer.map.shape(), &found.rows.row(example)[layer.columns.clone()]);
                let of_row = |part: fn(&[f32], usize) -> &[f32]| -> Vec<f32> {
                    row.chunks(shape.width())
                        .flat_map(|row| part(row, shape.inp))
                        .copied()
                        .collect()
                };
                let what = format!("{what}: {} of text {example}", layer.site);
                let weight = of_row(|row, inp| &row[..inp]);
                assert_close(&weight, &want[&format!("{}.weight", layer.site)], &what);
                if shape.bias {
                    let bias = of_row(|row, inp| &row[inp..]);
                    assert_close(&bias, &want[&format!("{}.bias", layer.site)], &what);
                    biases += 1;
                }
            }
        }
        assert!(biases > 0 && found.targets == [12, 1, 6], "{what}");
    }
}

#[test]
fn gradients_of_biases_and_weights_of_a_small_network_are_slopes_of_its_loss() {
    let (net, labelled) = (classifier(1), points(4));
    let (map, examples) = (map_of(&net, "identity", &all), classified(&labelled));
    let batch = examples.batch(0..4);
    let found = gradients(&net, &map, &batch, Reduction::Sum, 0).unwrap();
    for example in 0..4 {
        let one = examples.batch(example..example + 1);
        let loss = |net: &linwright_nets::Net| {
            let mut loss = ExampleLosses::new(&one, crate::Target::Loss);
            net.loss_to_slots(&one.input, &mut loss, &mut NoProbe).unwrap()
        };
        assert!((loss(&net) - found.losses[example]).abs() < 1e-5);
        for layer in map.layers().iter().filter(|layer| layer.map.shape().bias) {
            for o in 0..layer.map.shape().out {
                let at = |by: f32| {
                    let mut moved = net.clone();
                    let mut slots = moved.slots_mut().into_iter();
                    let slot = slots.find(|slot| *slot.id() == layer.site).unwrap();
                    slot.bias_mut().unwrap()[o] += by;
                    loss(&moved)
                };
                let slope = (at(0.02) - at(-0.02)) / 0.04;
                let width = layer.map.shape().width();
                let row = &found.rows.row(example)[layer.columns.clone()];
                let bias = f64::from(row[o * width + width - 1]);
                assert!((slope - bias).abs() < 2e-3, "{}: {slope}, {bias}", layer.site);
            }
        }
    }
}

#[test]
fn the_rows_of_an_example_add_up_to_its_gradient() {
    let model = decoder();
    for compressor in ["identity", "factgrass:16", "logra:16", "grass:25"] {
        let (map, texts) = (map_of(&model, compressor, &all), documents(&[13, 2, 7]));
        let batch = texts.batch(0..3);
        for reduction in Reduction::ALL {
            let whole = gradients(&model, &map, &batch, reduction, 0).unwrap();
            let rows = gradients_by_row(&model, &map, &batch, reduction, 0).unwrap();
            assert_eq!(rows.rows(), 22);
            for (example, span) in batch.spans.iter().enumerate() {
                let mut sum = vec![0.0; map.size()];
                for row in span.clone() {
                    sum.iter_mut().zip(rows.row(row)).for_each(|(sum, part)| *sum += part);
                }
                let what = format!("{compressor}, text {example}");
                assert_close(&sum, whole.rows.row(example), &what);
            }
        }
    }
}

#[test]
fn examples_do_not_depend_on_their_batch_or_order() {
    let model = decoder();
    for compressor in ["identity", "factgrass:16", "grass:25", "logra:16", "sjlt:20", "srht:9"] {
        let map = map_of(&model, compressor, &all);
        let texts = documents(&[13, 2, 7, 20, 1 + 1]);
        let together = of_documents(&model, &map, &texts);
        for (example, text) in texts.tokens().iter().enumerate() {
            let alone = Documents::new(vec![text.clone()]).unwrap();
            let alone = of_documents(&model, &map, &alone);
            let what = format!("{compressor}: text {example}");
            assert_close(together.rows.row(example), alone.rows.data(), &what);
            assert!((together.losses[example] - alone.losses[0]).abs() < 1e-4, "{what}");
        }
        let mut reversed = texts.tokens().to_vec();
        reversed.reverse();
        let reversed = of_documents(&model, &map, &Documents::new(reversed).unwrap());
        for example in 0..5 {
            let what = format!("{compressor}: text {example} reversed");
            assert_close(reversed.rows.row(4 - example), together.rows.row(example), &what);
        }
    }
}

#[test]
fn compressed_gradients_are_maps_of_the_whole_ones() {
    let (model, texts) = (decoder(), documents(&[9, 4]));
    let whole_map = map_of(&model, "identity", &all);
    let whole = of_documents(&model, &whole_map, &texts);
    for kind in crate::CompressorKind::ALL.iter().filter(|kind| !kind.is_learned()) {
        let size = if kind.name() == "identity" { "" } else { ":16" };
        let map = map_of(&model, &format!("{}{size}", kind.name()), &all);
        let found = of_documents(&model, &map, &texts);
        for (layer, of_whole) in map.layers().iter().zip(whole_map.layers()) {
            let shape = layer.map.shape();
            for example in 0..2 {
                // G as the gradients of outputs of `width` rows whose inputs are unit vectors.
                let gradient = &whole.rows.row(example)[of_whole.columns.clone()];
                let gradient = Mat::from_vec(shape.out, shape.width(), gradient.to_vec());
                let units = Mat::<f32>::identity(shape.width());
                let mut expected = vec![0.0; layer.map.size()];
                let plain = reduce_with_ones(&layer.map, &units);
                let dy = layer.map.reduce_gradients(gradient.transpose().view());
                layer.map.add(dy.view(), plain.view(), &mut expected);
                let row = &found.rows.row(example)[layer.columns.clone()];
                assert_close(row, &expected, &format!("{} at {}", kind.name(), layer.site));
            }
        }
    }
}

/// Reduced inputs that have their column of ones already.
fn reduce_with_ones(map: &crate::LayerMap, x: &Mat<f32>) -> Mat<f32> {
    let mut reduced = Mat::zeros(x.rows(), map.kept());
    map.inp_side().apply(crate::maps::Rows::plain(x.view()), reduced.view_mut());
    reduced
}

#[test]
fn tokens_without_a_target_change_nothing() {
    let (model, text) = (decoder(), documents(&[20]).tokens()[0].clone());
    let map = map_of(&model, "identity", &all);
    let short = Documents::new(vec![text[..8].to_vec()]).unwrap();
    let expected = of_documents(&model, &map, &short);
    let mut batch = Documents::new(vec![text]).unwrap().batch(0..1);
    batch.targets[7..].fill(NO_TARGET);
    let found = gradients(&model, &map, &batch, Reduction::Sum, 0).unwrap();
    assert_close(found.rows.data(), expected.rows.data(), "a causal model does not look back");
    assert_eq!(found.targets, [7]);

    // At the head itself the rows are exactly zero: neither they nor how many there are matter.
    let head = map_of(&model, "factgrass:16", &|slot| slot.role().name() == "head");
    let of = |batch: &ExampleBatch<Batch>| gradients(&model, &head, batch, Reduction::Sum, 0);
    let (padded, mut more) = (of(&batch).unwrap(), batch.clone());
    let all = 0..20;
    more.spans = vec![all];
    assert_eq!(of(&more).unwrap(), padded);
}

#[test]
fn means_are_sums_over_the_number_of_targets() {
    let (model, texts) = (decoder(), documents(&[5, 9]));
    let map = map_of(&model, "factgrass:16", &all);
    let batch = texts.batch(0..2);
    let [sum, mean] = [Reduction::Sum, Reduction::Mean]
        .map(|reduction| gradients(&model, &map, &batch, reduction, 0).unwrap());
    for (example, targets) in [(0, 4.0f32), (1, 8.0)] {
        for (a, b) in mean.rows.row(example).iter().zip(sum.rows.row(example)) {
            assert_eq!(*a, b * (1.0 / targets));
        }
        let ratio = sum.losses[example] / mean.losses[example];
        assert!((ratio - f64::from(targets)).abs() < 1e-5, "{ratio}");
    }
}

#[test]
fn layers_of_one_input_share_a_gather_and_what_is_left_out_is_told() {
    let model = decoder();
    let map = map_of(&model, "factgrass:4", &|slot| slot.layer().is_some());
    // Of a layer: query, key, value; output; gate, up; down.
    assert_eq!((map.groups().len(), map.layers().len()), (8, 14));
    let of_attention = &map.groups()[0];
    assert_eq!(of_attention.layers.len(), 3);
    let picked: usize = of_attention.layers.iter().map(|&l| map.layers()[l].map.kept()).sum();
    assert!(of_attention.union.len() < picked && picked == 12, "{:?}", of_attention.union);
    let kept: usize = map.groups().iter().map(|group| group.union.len()).sum();
    assert_eq!(map.kept_bytes_per_row(), 4 * kept as u64);
    let left_out = map.left_out();
    assert_eq!(left_out.layers.len(), 1);
    assert_eq!(left_out.layers[0].0, "lm_head");
    let head = 50 * 24;
    let expected = left_out.seen_parameters + head + left_out.other_parameters;
    assert_eq!(left_out.parameters, expected, "{left_out:?}");
    assert!(left_out.summary().contains("left out: 1 linear layers"), "{}", left_out.summary());
}

/// Peak memory of the gradients of a model with this many layers, and of its weights, in bytes.
fn peak_of(layers: usize, compressor: &str) -> [usize; 2] {
    let config = serde_json::json!({
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 4,
        "vocab_size": 50, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
    });
    let config = linwright_model::TransformerConfig::from_json(&config).unwrap();
    let model = Transformer::random(config, linwright_tensor::RngKey::new(1));
    let batch = documents(&[4, 3]).batch(0..2);
    let map = map_of(&model, compressor, &all);
    let work = || gradients(&model, &map, &batch, Reduction::Mean, 0);
    // Maps keep their matrices in the order of products from their first use on.
    work().unwrap();
    model.release_scratch();
    let (outcome, peak) = Metered::peak_bytes(work);
    outcome.unwrap();
    [peak, 4 * model.parameters() as usize]
}

#[test]
fn no_gradient_of_a_weight_is_allocated() {
    for compressor in ["factgrass:16", "grass:64", "logra:16"] {
        let [[few, weights], [many, more]] = [4, 8].map(|layers| peak_of(layers, compressor));
        assert!(few < weights / 4, "{compressor}: {few} bytes beside {weights} of weights");
        // Of a layer its reduced inputs alone are kept.
        let (grown, layers) = (many.saturating_sub(few), more - weights);
        assert!(grown < layers / 20, "{compressor}: {grown} bytes for {layers} of weights");
    }
}

#[test]
fn what_has_no_gradient_is_an_error_that_names_it() {
    let model = decoder();
    assert_eq!(
        Documents::new(vec![vec![1, 2], vec![3]]).unwrap_err().to_string(),
        "example 1 has no target, so it has no loss; leave it out"
    );
    let map = map_of(&model, "factgrass:16", &all);
    let mut batch = documents(&[4, 3]).batch(0..2);
    batch.targets[4..].fill(NO_TARGET);
    let error = gradients(&model, &map, &batch, Reduction::Mean, 100).unwrap_err();
    assert!(matches!(error, AttributeError::NoTarget { example: 101 }), "{error}");

    let error = Capture::new(&map, 1).finish().unwrap_err().to_string();
    let first = &map.layers()[0].site;
    assert_eq!(error, format!("the loss does not depend on layer {first}; leave it out"));

    let nothing = GradientMap::build(
        &model,
        &|_| false,
        &"identity".parse().unwrap(),
        crate::tests::KEY,
        &BTreeMap::new(),
    );
    let error = nothing.unwrap_err().to_string();
    assert!(error.contains("no layer is chosen; there are model.layers.0"), "{error}");
}

#[test]
fn gradients_that_are_zero_or_not_finite_are_errors_that_name_the_example() {
    let (mut net, labelled) = (classifier(1), points(3));
    let batch = classified(&labelled).batch(0..3);
    let first = |slot: &LinearSlot| slot.id().0 == "a";
    let map = map_of(&net, "identity", &first);
    for tensor in net.tensors_mut().into_iter().filter(|tensor| tensor.name == "b.weight") {
        tensor.values.fill(0.0);
    }
    let error = gradients(&net, &map, &batch, Reduction::Sum, 40).unwrap_err();
    assert!(matches!(error, AttributeError::ZeroGradient { example: 40 }), "{error}");

    let map = map_of(&classifier(1), "identity", &all);
    let mut row = vec![1.0; map.size()];
    row[map.layers()[1].columns.start] = f32::NAN;
    let error = check(&map, &row, 7).unwrap_err().to_string();
    assert_eq!(error, "example 7: the gradient of b is not finite");
}
