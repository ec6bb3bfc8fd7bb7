//! What must hold for every decoder, whatever its weights.

use crate::tiny;
use linwright_model::{Batch, ModelError, TrainingMemory, Transformer, TransformerGrads};
use linwright_ops::{ExampleRows, NoProbe, Probe, Seen, SiteId, Sites};
use linwright_tensor::{Mat, MatRef};
use serde_json::json;

fn llama() -> Transformer {
    tiny::decoder(tiny::config("llama", json!({})), 1)
}

fn run(decoder: &Transformer, batch: &Batch) -> Result<Mat<f32>, ModelError> {
    let mut hidden = decoder.embed(batch)?;
    decoder.run_layers(&mut hidden, batch, 0..decoder.config().layers.len(), &mut NoProbe)?;
    Ok(hidden)
}

fn assert_close(found: MatRef<'_, f32>, expected: MatRef<'_, f32>, what: &str) {
    assert_eq!((found.rows(), found.cols()), (expected.rows(), expected.cols()), "{what}");
    for i in 0..found.rows() {
        for (found, expected) in found.row(i).iter().zip(expected.row(i)) {
            let error = (found - expected).abs();
            assert!(error < 1e-4 * (1.0 + expected.abs()), "{what}, row {i}");
        }
    }
}

#[test]
fn a_sequence_does_not_see_its_neighbours_in_the_batch() {
    let decoder = llama();
    let (a, b) = (tiny::tokens(70, 50, 1), tiny::tokens(33, 50, 2));
    let both = run(&decoder, &Batch::new(&[&a, &[], &b])).expect("finite");
    let alone = run(&decoder, &Batch::new(&[&b])).expect("finite");
    assert_close(both.view().rows_range(70, 33), alone.view(), "packed and alone");
}

#[test]
fn a_row_does_not_see_what_comes_after_it() {
    let decoder = llama();
    let tokens = tiny::tokens(90, 50, 1);
    let whole = run(&decoder, &Batch::new(&[&tokens])).expect("finite");
    let start = run(&decoder, &Batch::new(&[&tokens[..40]])).expect("finite");
    assert_close(whole.view().rows_range(0, 40), start.view(), "whole and start");
}

#[test]
fn stopping_between_layers_and_going_on_changes_nothing() {
    let decoder = llama();
    let batch = Batch::new(&[&tiny::tokens(20, 50, 1)]);
    let whole = run(&decoder, &batch).expect("finite");
    let mut hidden = decoder.embed(&batch).expect("tokens");
    decoder.run_layers(&mut hidden, &batch, 0..1, &mut NoProbe).expect("finite");
    decoder.run_layers(&mut hidden, &batch, 1..1, &mut NoProbe).expect("finite");
    decoder.run_layers(&mut hidden, &batch, 1..2, &mut NoProbe).expect("finite");
    assert_eq!(hidden, whole);
    let beyond = decoder.run_layers(&mut hidden, &batch, 1..3, &mut NoProbe);
    assert_eq!(beyond, Err(ModelError::LayersOutOfRange { range: 1..3, layers: 2 }));
}

/// Recomputes what it sees from the slot itself.
struct Recheck<'a> {
    decoder: &'a Transformer,
    seen: Vec<SiteId>,
}

impl Probe for Recheck<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        !site.0.ends_with("up_proj")
    }

    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>) {
        let Seen { x, y, examples } = seen;
        assert_eq!(examples, [ExampleRows { example: 0, rows: 0..x.rows() }]);
        let slot = self.decoder.slot(site).expect("a site of the decoder");
        let weight = slot.op().to_dense().expect("dense weights");
        let bias = slot.bias().expect("a bias in this configuration");
        let expected = Mat::from_fn(x.rows(), weight.rows(), |i, j| {
            let products = x.row(i).iter().zip(weight.row(j));
            bias[j] + products.map(|(x, w)| x * w).sum::<f32>()
        });
        assert_close(y, expected.view(), &site.0);
        self.seen.push(site.clone());
    }
}

#[test]
fn a_probe_sees_input_and_output_of_the_sites_it_wants_in_order() {
    let biased = json!({ "attention_bias": true, "mlp_bias": true });
    let decoder = tiny::decoder(tiny::config("llama", biased), 2);
    let batch = Batch::new(&[&tiny::tokens(20, 50, 1)]);
    let mut probe = Recheck { decoder: &decoder, seen: Vec::new() };
    let mut hidden = decoder.embed(&batch).expect("tokens");
    decoder.run_layers(&mut hidden, &batch, 0..2, &mut probe).expect("finite");
    let wanted = |id: &SiteId| !id.0.ends_with("up_proj") && id.0 != "lm_head";
    let expected: Vec<SiteId> = decoder.slots().iter().map(|slot| slot.id().clone()).collect();
    assert_eq!(probe.seen, expected.into_iter().filter(wanted).collect::<Vec<_>>());
}

#[test]
fn scores_of_tokens_follow_from_the_logits() {
    let decoder = llama();
    let (a, b) = (tiny::tokens(30, 50, 1), tiny::tokens(5, 50, 2));
    let batch = Batch::new(&[&a, &b, &[], &[7]]);
    let hidden = run(&decoder, &batch).expect("finite");
    let scores = decoder.token_nll(&hidden, &batch, &[0, 3, 0, 0]).expect("finite");
    assert_eq!(scores.iter().map(Vec::len).collect::<Vec<_>>(), [29, 2, 0, 0]);
    let logits = decoder.logits(hidden.view()).cast::<f64>();
    let counted = scores[0].iter().zip(1..30).chain(scores[1].iter().zip(33..35));
    for (score, row) in counted {
        let (z, target) = (logits.row(row - 1), batch.tokens()[row] as usize);
        let nll = z.iter().map(|v| (v - z[target]).exp()).sum::<f64>().ln();
        assert!((score.nll - nll).abs() < 1e-5, "row {row}: {} is not {nll}", score.nll);
        assert_eq!(score.is_greedy, z.iter().all(|&v| v <= z[target]), "row {row}");
    }
}

#[test]
fn mean_score_equals_the_loss_of_training() {
    let decoder = llama();
    let batch = Batch::new(&[&tiny::tokens(30, 50, 1), &tiny::tokens(12, 50, 2)]);
    let hidden = run(&decoder, &batch).expect("finite");
    let scores = decoder.token_nll(&hidden, &batch, &[0, 0]).expect("finite").concat();
    let mean = scores.iter().map(|score| score.nll).sum::<f64>() / scores.len() as f64;
    let mut grads = TransformerGrads::zeros(&decoder);
    let loss = decoder
        .loss_and_grads(&batch, &batch.next_tokens(), &mut grads, &mut TrainingMemory::default())
        .expect("finite");
    assert!((mean - loss).abs() < 1e-6, "{mean} is not {loss}");
}

#[test]
fn names_and_shapes_are_those_of_the_configuration() {
    for (family, changes) in [
        ("llama", json!({ "tie_word_embeddings": true })),
        ("llama", json!({ "attention_bias": true, "mlp_bias": true })),
        ("qwen2", json!({})),
        ("mistral", json!({})),
    ] {
        let config = tiny::config(family, changes);
        let decoder = tiny::decoder(config.clone(), 1);
        let (mut names, mut total) = (Vec::new(), 0);
        decoder.for_each_param(&mut |name, values| {
            names.push(name.to_owned());
            total += values.len() as u64;
        });
        let expected = config.tensor_shapes().into_iter().map(|(name, _)| name);
        assert_eq!(names, expected.collect::<Vec<_>>(), "{family}");
        assert_eq!(total, config.parameters(), "{family}");
    }
}

#[test]
fn bad_tokens_lengths_and_weights_are_errors_that_name_the_place() {
    let mut decoder = tiny::decoder(tiny::config("llama", json!({})), 1);
    let outside = run(&decoder, &Batch::new(&[&[1, 50]]));
    assert_eq!(outside, Err(ModelError::TokenOutOfRange { token: 50, row: 1, vocab: 50 }));
    let long = run(&decoder, &Batch::new(&[&[1], &[2; 257]]));
    assert_eq!(long, Err(ModelError::SequenceTooLong { sequence: 1, length: 257, max: 256 }));
    let nothing = decoder.loss_and_grads(
        &Batch::new(&[&[1]]),
        &[u32::MAX],
        &mut TransformerGrads::zeros(&decoder),
        &mut TrainingMemory::default(),
    );
    assert_eq!(nothing, Err(ModelError::NoTargets));
    for broken in ["model.layers.1.self_attn.k_proj", "model.layers.0.mlp.up_proj"] {
        let mut decoder = decoder.clone();
        poison(&mut decoder, &format!("{broken}.weight"));
        let site = SiteId(broken.to_owned());
        let found = run(&decoder, &Batch::new(&[&[1, 2, 3]]));
        assert_eq!(found, Err(ModelError::NonFinite { site, what: "output" }));
    }
    poison(&mut decoder, "lm_head.weight");
    let batch = Batch::new(&[&[1, 2, 3]]);
    let hidden = run(&decoder, &batch).expect("finite");
    let site = SiteId("lm_head".to_owned());
    let found = decoder.token_nll(&hidden, &batch, &[0]);
    assert_eq!(found, Err(ModelError::NonFinite { site, what: "logits" }));
}

fn poison(decoder: &mut Transformer, parameter: &str) {
    decoder.for_each_param_mut(&mut |name, values| {
        if name == parameter {
            values[0] = f32::NAN;
        }
    });
}
