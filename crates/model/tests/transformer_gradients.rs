//! Gradients of whole decoders against differences of their loss.

use crate::reference::Set;
use crate::tiny;
use linwright_model::config::{AttentionConfig, LayerConfig};
use linwright_model::{Batch, TrainingMemory, Transformer, TransformerGrads};
use linwright_ops::{LowRankSpec, OpSpec, Sites};
use linwright_tensor::RngKey;
use linwright_tensor::kernels::activation::Activation;
use serde_json::json;

const KEY_BIASES: [&str; 3] = ["k_proj.bias", "self.key.bias", "k_lin.bias"];

fn loss(decoder: &Transformer, batch: &Batch, targets: &[u32]) -> f64 {
    let mut grads = TransformerGrads::zeros(decoder);
    let mut memory = TrainingMemory::default();
    decoder.loss_and_grads(batch, targets, &mut grads, &mut memory).expect("finite loss")
}

/// Moves one tensor at a time along its own gradient and compares the change of the loss with the
/// gradient's length: a wrong gradient would promise more than is there.
fn check(decoder: &Transformer) {
    check_with(decoder, [90, 1, 9], "");
}

fn check_with(decoder: &Transformer, lengths: [usize; 3], what: &str) {
    let vocab = decoder.config().vocab;
    let mut seed = 0;
    let sequences = lengths.map(|length| {
        seed += 1;
        tiny::tokens(length, vocab, seed)
    });
    let batch = Batch::new(&sequences.each_ref().map(Vec::as_slice));
    let mut targets = batch.next_tokens();
    targets[4] = u32::MAX;
    let mut grads = TransformerGrads::zeros(decoder);
    decoder
        .loss_and_grads(&batch, &targets, &mut grads, &mut TrainingMemory::default())
        .expect("finite loss");
    let mut names = Vec::new();
    decoder.for_each_param(&mut |name, values| names.push((name.to_owned(), values.len())));
    assert_eq!(names.len(), grads.slices().len());
    for ((name, len), grad) in names.into_iter().zip(grads.slices()) {
        assert_eq!(grad.len(), len, "{name}");
        let length = grad.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
        // Without rotary positions a bias of the keys moves all scores of a query alike.
        let turns = |layer: &LayerConfig| match layer.attention {
            AttentionConfig::Heads(heads) => heads.rope.is_some(),
            AttentionConfig::Linear | AttentionConfig::Absent => true,
        };
        let matters = decoder.config().layers.iter().all(turns)
            || !KEY_BIASES.iter().any(|end| name.ends_with(end));
        // The loss does not look at the pooler.
        let matters = matters && !name.contains("pooler");
        assert!(!matters || length > 1e-6, "{what}: {name} has no gradient");
        let moved = |by: f64| {
            let mut decoder = decoder.clone();
            decoder.for_each_param_mut(&mut |other, values| {
                if other == name {
                    for (value, grad) in values.iter_mut().zip(grad) {
                        *value += (by * f64::from(*grad) / length) as f32;
                    }
                }
            });
            loss(&decoder, &batch, &targets)
        };
        let difference = |step: f64| (moved(step) - moved(-step)) / (2.0 * step);
        // A kink between the two ends of a step leaves a trace of its own.
        let kinked = decoder.config().activation == Activation::Relu;
        let allowed = if kinked { 2e-2 } else { 2e-3 } * length + 2e-4;
        // Richardson's extrapolation of two steps: large enough for the rounding of f32 not to
        // matter, where the loss is not bent too much for that, else smaller. The smaller ones are
        // only computed where the larger are not near.
        let mut wider = difference(0.04);
        let mut slopes = Vec::new();
        let near = [0.02, 0.01, 0.005, 0.0025].into_iter().any(|step| {
            let narrower = difference(step);
            let slope = (4.0 * narrower - std::mem::replace(&mut wider, narrower)) / 3.0;
            slopes.push(slope);
            (slope - length).abs() < allowed
        });
        assert!(near, "{what}: {name}: slopes {slopes:?}, gradient {length}");
    }
}

#[test]
fn gradients_of_dense_decoders_equal_differences() {
    let tied = json!({ "tie_word_embeddings": true });
    check(&tiny::decoder(tiny::config("llama", tied), 1));
    let biased = json!({ "attention_bias": true, "mlp_bias": true, "head_dim": 10 });
    check(&tiny::decoder(tiny::config("llama", biased), 2));
    check(&tiny::decoder(tiny::config("mistral", json!({ "sliding_window": 5 })), 3));
    check(&tiny::decoder(tiny::config("qwen2", json!({})), 4));
}

/// Whatever parts a family has: those of the reference sets.
#[test]
fn gradients_of_every_family_equal_differences() {
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let model = set.model();
        if model.has_head() {
            let longest = model.config().max_positions.min(20);
            check_with(&model, [longest, 1, 5], &set.stem);
        }
    }
}

#[test]
fn gradients_go_through_structured_operators() {
    let mut decoder = tiny::decoder(tiny::config("llama", json!({})), 5);
    for (index, slot) in decoder.slots_mut().into_iter().enumerate() {
        let spec = OpSpec::LowRank(LowRankSpec { rank: 3 });
        let key = RngKey::new(6).fold_index(index as u64);
        let op = spec.random(slot.shape(), key).expect("a low-rank operator");
        slot.replace(op).expect("the same shape");
    }
    check(&decoder);
}

#[test]
fn gradients_add_up_over_calls_and_clear_to_zero() {
    let decoder = tiny::decoder(tiny::config("llama", json!({})), 7);
    let sequence = tiny::tokens(12, 50, 1);
    let batch = Batch::new(&[&sequence]);
    let (mut grads, mut memory) = (TransformerGrads::zeros(&decoder), TrainingMemory::default());
    let mut step = |grads: &mut TransformerGrads| {
        decoder.loss_and_grads(&batch, &batch.next_tokens(), grads, &mut memory).expect("finite")
    };
    let first = step(&mut grads);
    let once = grads.clone();
    assert_eq!(step(&mut grads), first, "the loss is the same again");
    for (twice, once) in grads.slices().iter().zip(once.slices()) {
        for (twice, once) in twice.iter().zip(once) {
            assert!((twice - 2.0 * once).abs() <= 1e-5 * once.abs() + 1e-7);
        }
    }
    grads.clear();
    assert_eq!(grads, TransformerGrads::zeros(&decoder));
}
