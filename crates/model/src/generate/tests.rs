//! Choices and stop strings.

use super::*;
use crate::config::TransformerConfig;
use serde_json::json;

fn model() -> Transformer {
    let config = TransformerConfig::from_json(&json!({
        "model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "vocab_size": 12,
        "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 24,
    }));
    let mut model = Transformer::random(config.expect("a valid config"), RngKey::new(4));
    // Weights large enough that the choice is not even.
    model.for_each_param_mut(&mut |name, values| {
        if !name.ends_with("norm.weight") {
            values.iter_mut().for_each(|v| *v *= 20.0);
        }
    });
    model
}

fn sampled(temperature: f32) -> Choice {
    Choice { temperature, key: RngKey::new(3), ..Choice::greedy() }
}

fn limits(new_tokens: usize) -> Limits {
    Limits { new_tokens, end_tokens: Vec::new() }
}

fn all(prompts: &[&[u32]], choice: &Choice, limits: &Limits) -> Vec<Continuation> {
    generate(&model(), prompts, choice, limits, &mut |_, _| true).expect("finite numbers")
}

#[test]
fn a_sequence_becomes_the_same_in_any_company() {
    let prompts: [&[u32]; 3] = [&[1, 2, 3], &[4], &[5, 6, 7, 8, 9]];
    for choice in [Choice::greedy(), sampled(0.8)] {
        let together = all(&prompts, &choice, &limits(10));
        // The stream of a sequence is named after its place.
        let first = all(&prompts[..1], &choice, &limits(10));
        assert_eq!(together[0], first[0]);
        assert_eq!(together, all(&prompts, &choice, &limits(10)), "the same again");
    }
    let other = Choice { key: RngKey::new(5), ..sampled(0.8) };
    assert_ne!(all(&prompts, &sampled(0.8), &limits(10)), all(&prompts, &other, &limits(10)));
}

#[test]
fn continuations_end_for_the_reason_they_give() {
    let greedy = Choice::greedy();
    let prompt: [&[u32]; 1] = [&[1, 2, 3]];
    let long = all(&prompt, &greedy, &limits(100));
    // 24 positions: 3 of the prompt, and one more token that nothing follows.
    assert_eq!((long[0].tokens.len(), long[0].finish), (22, Finish::Positions));
    let short = all(&prompt, &greedy, &limits(4));
    assert_eq!((&short[0].tokens[..], short[0].finish), (&long[0].tokens[..4], Finish::Length));
    assert!(all(&prompt, &greedy, &limits(0))[0].tokens.is_empty());
    let ends = Limits { new_tokens: 100, end_tokens: vec![long[0].tokens[2]] };
    let at = long[0].tokens.iter().position(|t| ends.end_tokens.contains(t)).expect("it is there");
    let ended = all(&prompt, &greedy, &ends);
    assert_eq!((&ended[0].tokens[..], ended[0].finish), (&long[0].tokens[..at], Finish::End));
    let mut seen = 0;
    let mut twice = |_, _| {
        seen += 1;
        seen < 2
    };
    let stopped = generate(&model(), &prompt, &greedy, &limits(9), &mut twice).expect("finite");
    assert_eq!((stopped[0].tokens.len(), stopped[0].finish), (2, Finish::Caller));
    let empty = generate(&model(), &[&[1], &[]], &greedy, &limits(9), &mut |_, _| true);
    assert_eq!(empty, Err(ModelError::EmptySequence { sequence: 1 }));
}

fn drawn(logits: &[f32], choice: &Choice) -> Vec<u32> {
    let one = |index| Growing { index, tokens: vec![2], pending: 0, added: 0 };
    (0..400).map(|index| choose(logits, &one(index), choice).expect("finite")).collect()
}

#[test]
fn tokens_are_drawn_as_often_as_they_are_likely_and_within_bounds() {
    let logits = [0.0f32, 1.0, 2.0, -1.0];
    let count = |tokens: &[u32], token| tokens.iter().filter(|&&t| t == token).count() as f64;
    let tokens = drawn(&logits, &sampled(1.0));
    let total: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
    for (token, &logit) in logits.iter().enumerate() {
        let share = f64::from(logit).exp() / total;
        let found = count(&tokens, token as u32) / 400.0;
        assert!((found - share).abs() < 0.08, "{token}: {found} of {share}");
    }
    let within = |choice: &Choice, allowed: &[u32]| {
        let tokens = drawn(&logits, choice);
        assert!(tokens.iter().all(|token| allowed.contains(token)), "{choice:?}");
        assert!(allowed.iter().all(|token| tokens.contains(token)), "{choice:?}");
    };
    within(&Choice { top_k: Some(2), ..sampled(1.0) }, &[1, 2]);
    // Probabilities are 0.64, 0.24, 0.09, 0.03.
    within(&Choice { top_p: Some(0.6), ..sampled(1.0) }, &[2]);
    within(&Choice { top_p: Some(0.7), ..sampled(1.0) }, &[1, 2]);
    within(&Choice { min_p: Some(0.2), ..sampled(1.0) }, &[1, 2]);
    within(&Choice { temperature: 1e-3, ..sampled(1.0) }, &[2]);
    within(&Choice { repetition_penalty: 4.0, ..Choice::greedy() }, &[1]);
    let one = Growing { index: 0, tokens: vec![2], pending: 0, added: 0 };
    assert_eq!(choose(&[0.0, f32::NAN], &one, &Choice::greedy()), None);
}

#[test]
fn settings_say_how_and_wrong_ones_are_named() {
    let settings = |value| Settings::from_json(&value, 100);
    let sampled = settings(json!({
        "do_sample": true, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [3, 9],
    }));
    let sampled = sampled.expect("valid settings");
    assert_eq!((sampled.choice.temperature, sampled.choice.top_p), (0.6, Some(0.9)));
    assert_eq!(sampled.end_tokens, [3, 9]);
    let greedy = settings(json!({ "temperature": 0.6 })).expect("valid settings");
    assert_eq!(greedy.choice, Choice::greedy());
    for (bad, field) in [
        (json!({ "eos_token_id": 100 }), "eos_token_id"),
        (json!({ "do_sample": true, "top_p": 2.0 }), "top_p"),
        (json!({ "do_sample": 1 }), "do_sample"),
    ] {
        let error = settings(bad).expect_err("a wrong field").to_string();
        assert!(error.contains(field), "{error}");
    }
}
