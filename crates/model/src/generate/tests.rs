//! Choices and stop strings.

use super::*;
use crate::batch::Batch;
use crate::config::TransformerConfig;
use crate::transformer::Ranked;
use linwright_ops::NoProbe;
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
    let one = |index| Choice { key: choice.key.fold_index(index), ..choice.clone() };
    (0..400).map(|index| choose(logits, &[2], 0, &one(index)).expect("finite")).collect()
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
    assert_eq!(choose(&[0.0, f32::NAN], &[2], 0, &Choice::greedy()), None);
}

#[test]
fn settings_say_how_and_wrong_ones_are_named() {
    let settings = |value| SamplingSettings::from_json(&value, 100);
    let sampled = settings(json!({
        "do_sample": true, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [3, 9],
    }));
    let sampled = sampled.expect("valid settings");
    assert_eq!((sampled.choice.temperature, sampled.choice.top_p), (0.6, Some(0.9)));
    assert_eq!(sampled.end_tokens, [3, 9]);
    let greedy = settings(json!({ "temperature": 0.6 })).expect("valid settings");
    assert_eq!(greedy.choice, Choice::greedy());
    let unknown = settings(json!({ "eos_token_id": [100, -1, 7] })).expect("valid settings");
    assert_eq!(unknown.end_tokens, [7], "what is not a token is left out");
    for (bad, field) in [
        (json!({ "do_sample": true, "top_p": 2.0 }), "top_p"),
        (json!({ "do_sample": 1 }), "do_sample"),
    ] {
        let error = settings(bad).expect_err("a wrong field").to_string();
        assert!(error.contains(field), "{error}");
    }
}

fn ask(prompt: &[u32], choice: Choice, new_tokens: usize, ranks: Option<Ranks>) -> Ask {
    Ask { prompt: prompt.to_vec(), choice, limits: limits(new_tokens), ranks }
}

/// Steps until a session is empty; what each sequence did.
fn run(session: &mut Session<'_>, count: usize) -> Vec<Vec<Step>> {
    let mut steps = vec![Vec::new(); count];
    while !session.is_empty() {
        for (id, step) in session.step() {
            steps[id as usize].push(step.expect("finite numbers"));
        }
    }
    steps
}

#[test]
fn who_joins_later_becomes_what_it_would_have_become() {
    let model = model();
    let mut session = Session::new(&model);
    session.admit(ask(&[1, 2, 3], sampled(0.8), 9, None)).expect("a good prompt");
    session.admit(ask(&[7], Choice::greedy(), 3, None)).expect("a good prompt");
    let mut first: Vec<_> = session.step().into_iter().map(|(_, step)| step).collect();
    assert_eq!(session.room(), 12 + 4);
    session.admit(ask(&[4, 5], Choice::greedy(), 6, None)).expect("a good prompt");
    let rest = run(&mut session, 3);
    first.truncate(1);
    let tokens = |steps: &[Step]| steps.iter().filter_map(|step| step.token).collect::<Vec<_>>();
    let alone = all(&[&[4, 5]], &Choice::greedy(), &limits(6));
    assert_eq!(tokens(&rest[2]), alone[0].tokens);
    let mut alone = Session::new(&model);
    alone.admit(ask(&[1, 2, 3], sampled(0.8), 9, None)).expect("a good prompt");
    let alone = tokens(&run(&mut alone, 1)[0]);
    let begun = first[0].as_ref().expect("finite").token;
    assert_eq!(begun.into_iter().chain(tokens(&rest[0])).collect::<Vec<_>>(), alone);
    assert_eq!(rest[0].last().and_then(|step| step.finish), Some(Finish::Length));
}

#[test]
fn ranks_of_a_prompt_and_of_what_follows_are_those_of_one_scoring() {
    let model = model();
    let ranks = Some(Ranks { top: 3, prompt: true });
    let mut session = Session::new(&model);
    session.admit(ask(&[1, 2, 3], Choice::greedy(), 4, ranks)).expect("a good prompt");
    session.admit(ask(&[9, 8], Choice::greedy(), 0, ranks)).expect("a good prompt");
    session.admit(ask(&[9], Choice::greedy(), 0, ranks)).expect("a good prompt");
    let steps = run(&mut session, 3);
    let mut tokens = vec![1, 2, 3];
    tokens.extend(steps[0].iter().filter_map(|step| step.token));
    let mut found: Vec<Ranked> = steps[0][0].prompt.clone();
    found.extend(steps[0].iter().filter_map(|step| step.rank.clone()));
    let batch = Batch::new(&[&tokens]);
    let mut hidden = model.embed(&batch).expect("known tokens");
    model.run_layers(&mut hidden, &batch, 0..2, &mut NoProbe).expect("finite");
    let wanted: Vec<(usize, u32)> = (0..).zip(tokens[1..].iter().copied()).collect();
    let expected = model.rank_rows(&hidden, &wanted, 3).expect("finite");
    assert_eq!(found.len(), 6);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.chosen.token, expected.chosen.token);
        assert!((found.chosen.log_prob - expected.chosen.log_prob).abs() < 1e-5);
        assert_eq!(found.top.len(), 3);
    }
    // Greedy sampling takes the most likely token.
    assert!(
        steps[0]
            .iter()
            .all(|step| { step.rank.as_ref().is_some_and(|rank| rank.top[0] == rank.chosen) })
    );
    assert_eq!((steps[1].len(), steps[1][0].prompt.len(), steps[1][0].token), (1, 1, None));
    assert!(steps[2][0].prompt.is_empty());
}

#[test]
fn a_sequence_that_fails_leaves_the_others_alone() {
    let mut model = model();
    // Only a sequence that holds token 11 meets this number.
    model.for_each_param_mut(&mut |name, values| {
        if name.contains("embed_tokens") {
            let width = values.len() / 12;
            values[11 * width..].fill(f32::NAN);
        }
    });
    let mut session = Session::new(&model);
    for prompt in [&[1, 2][..], &[3, 11], &[4]] {
        session.admit(ask(prompt, Choice::greedy(), 3, None)).expect("a good prompt");
    }
    let steps = session.step();
    let failed: Vec<bool> = steps.iter().map(|(_, step)| step.is_err()).collect();
    assert_eq!(failed, [false, true, false]);
    let error = steps[1].1.as_ref().expect_err("not numbers").to_string();
    assert!(error.contains("non-finite number"), "{error}");
    let mut alone = Session::new(&model);
    alone.admit(ask(&[4], Choice::greedy(), 3, None)).expect("a good prompt");
    let alone = run(&mut alone, 1);
    let rest = run(&mut session, 3);
    let tokens = |steps: &[Step]| steps.iter().filter_map(|step| step.token).collect::<Vec<_>>();
    assert_eq!(tokens(&rest[2]), tokens(&alone[0])[1..]);
}

#[test]
fn what_cannot_be_continued_is_refused_at_the_door() {
    let model = model();
    let mut session = Session::new(&model);
    let greedy = |prompt: &[u32], count| ask(prompt, Choice::greedy(), count, None);
    let refused = |error: Result<u64, ModelError>| error.expect_err("refused").to_string();
    assert!(refused(session.admit(greedy(&[], 1))).contains("is empty"));
    assert!(refused(session.admit(greedy(&[1; 25], 1))).contains("25 tokens"));
    assert!(refused(session.admit(greedy(&[1, 12], 1))).contains("token 12 at row 1"));
    assert!(session.is_empty());
    // The last token of a text that is only scored is not an input.
    assert_eq!(session.admit(greedy(&[1; 25], 0)), Ok(0));
    session.end(0);
    assert!(session.is_empty());
}
