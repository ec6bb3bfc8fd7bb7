//! Gradients of whole decoders against differences of their loss.

use crate::tiny;
use linwright_model::{Batch, TrainingMemory, Transformer, TransformerGrads};
use linwright_ops::{LowRankSpec, OpSpec, Sites};
use linwright_tensor::RngKey;
use serde_json::json;

fn loss(decoder: &Transformer, batch: &Batch, targets: &[u32]) -> f64 {
    let mut grads = TransformerGrads::zeros(decoder);
    let mut memory = TrainingMemory::default();
    decoder.loss_and_grads(batch, targets, &mut grads, &mut memory).expect("finite loss")
}

/// Moves one tensor at a time along its own gradient and compares the change of the loss with the
/// gradient's length: a wrong gradient would promise more than is there.
fn check(decoder: &Transformer) {
    let vocab = decoder.config().vocab;
    let sequences =
        [tiny::tokens(90, vocab, 1), tiny::tokens(1, vocab, 2), tiny::tokens(9, vocab, 3)];
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
        assert!(length > 1e-6, "{name} has no gradient");
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
        // Two steps and Richardson's extrapolation: steps large enough for the rounding of f32 not
        // to matter bend the loss.
        let slope = (4.0 * difference(0.02) - difference(0.04)) / 3.0;
        let error = (slope - length).abs();
        assert!(error < 2e-3 * length + 2e-4, "{name}: slope {slope}, gradient {length}");
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
