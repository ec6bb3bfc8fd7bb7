//! The whole way from a task to its result, with a made-up model.

use super::*;
use linwright_data::{Corpus, Format, QuestionSet};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Transformer, TransformerConfig};
use linwright_tensor::RngKey;
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::path::Path;

const BOS: u32 = 256;

/// Bytes as tokens; the loss of a token depends on all tokens before it in its sequence, so that a
/// window cut in the wrong place changes the figures.
pub(super) struct Fake {
    bos: Option<u32>,
    adds_bos: bool,
    pub positions: usize,
    /// A token whose loss is NaN, and one that the model refuses.
    nan: Option<u32>,
    refused: Option<u32>,
    batches: RefCell<Vec<usize>>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            bos: Some(BOS),
            adds_bos: true,
            positions: 64,
            nan: None,
            refused: None,
            batches: RefCell::default(),
        }
    }
}

/// A loss between 0.5 and 2.5 made from the tokens up to and including the judged one.
fn loss(history: &[u32]) -> f64 {
    let mixed = history.iter().fold(0x9e37_79b9_u32, |hash, token| {
        (hash ^ token).wrapping_mul(0x0100_0193).rotate_left(9)
    });
    0.5 + f64::from(mixed % 1000) / 500.0
}

impl LanguageModel for Fake {
    fn encode(&self, text: &str) -> Result<Vec<u32>, Box<dyn Error + Send + Sync>> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn bos(&self) -> Option<u32> {
        self.bos
    }

    fn eos(&self) -> Option<u32> {
        None
    }

    fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    fn max_positions(&self) -> Option<usize> {
        Some(self.positions)
    }

    fn score(
        &self,
        sequences: &[Sequence<'_>],
    ) -> Result<Vec<Vec<TokenScore>>, Box<dyn Error + Send + Sync>> {
        self.batches.borrow_mut().push(sequences.iter().map(|s| s.tokens.len()).sum());
        for group in sequences.chunk_by(|_, later| later.shared > 0) {
            for member in &group[1..] {
                let shared = member.shared;
                assert_eq!(member.tokens[..shared], group[0].tokens[..shared], "what is shared");
            }
        }
        sequences
            .iter()
            .map(|&Sequence { tokens, first_counted, .. }| {
                if self.refused.is_some_and(|bad| tokens.contains(&bad)) {
                    return Err("refused".into());
                }
                Ok((first_counted..tokens.len())
                    .map(|index| TokenScore {
                        nll: if self.nan == Some(tokens[index]) {
                            f64::NAN
                        } else {
                            loss(&tokens[..=index])
                        },
                        // The next byte of the alphabet is the most likely one.
                        is_greedy: tokens[index] == tokens[index - 1] + 1,
                    })
                    .collect())
            })
            .collect()
    }

    /// Writes the alphabet on from the last letter.
    fn generate(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Generated>, ModelFailure> {
        let write = |prompt: &Vec<u32>| {
            let letters = (1..=generation.new_tokens as u32).map(|i| prompt[prompt.len() - 1] + i);
            let text: String = letters.filter_map(char::from_u32).collect();
            let stops = generation.until.iter().filter_map(|stop| text.find(stop.as_str()));
            let end = stops.min().unwrap_or(text.len());
            Generated { text: text[..end].to_owned(), tokens: end }
        };
        Ok(prompts.iter().map(write).collect())
    }
}

fn run(task: &dyn Task, model: &Fake) -> Result<TaskResult, EvaluationError> {
    run_with(task, model, 4096)
}

pub(super) fn run_with(
    task: &dyn Task,
    model: &Fake,
    max_batch_tokens: usize,
) -> Result<TaskResult, EvaluationError> {
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
    let options = RunOptions { max_batch_tokens, ..RunOptions::default() };
    evaluate(task, model, &options, &mut hooks)?.complete()
}

fn corpus(texts: &[&str]) -> Corpus {
    let lines: Vec<String> =
        texts.iter().map(|text| serde_json::json!({ "text": text }).to_string()).collect();
    Corpus::from_bytes(Path::new("t.jsonl"), lines.join("\n").as_bytes(), Format::Jsonl, None)
        .unwrap()
}

fn perplexity(texts: &[&str], window: usize, stride: usize, bos: Bos) -> TextPerplexity {
    let protocol = Protocol::new(window, stride, bos, Join::Separate).unwrap();
    TextPerplexity::new(corpus(texts), protocol)
}

fn figure(result: &TaskResult, name: &str) -> f64 {
    result.metric(name).unwrap().value
}

#[test]
fn bos_starts_every_document_and_every_window() {
    let texts = ["abcdefg", "xyz"];
    let result = run(&perplexity(&texts, 4, 4, Bos::Always), &Fake::default()).unwrap();
    let first: Vec<u32> = [BOS].into_iter().chain(texts[0].bytes().map(u32::from)).collect();
    let second: Vec<u32> = [BOS].into_iter().chain(texts[1].bytes().map(u32::from)).collect();
    // Windows: [BOS a b c] [BOS e f g] and [BOS x y z]; three counted tokens each.
    let later = [&[BOS], &first[5..]].concat();
    let nll: f64 = [&first[..4], &later, &second[..]]
        .iter()
        .flat_map(|window| (1..4).map(|index| loss(&window[..=index])))
        .sum();
    assert_eq!(result.counts.tokens_counted, 9);
    assert!((figure(&result, "token_perplexity") - (nll / 9.0).exp()).abs() < 1e-12);
    assert!(result.bos_used);
    // "d" was never counted, so no figure per word or byte is defined.
    assert!(result.metric("word_perplexity").is_none());
}

#[test]
fn overlapping_windows_count_each_token_once() {
    let text = "abcdefghij";
    let result = run(&perplexity(&[text], 6, 2, Bos::Never), &Fake::default()).unwrap();
    let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
    let spans: [(usize, usize, usize); 3] = [(0, 6, 1), (2, 8, 4), (4, 10, 4)];
    let nll: f64 = spans
        .iter()
        .flat_map(|&(start, end, first)| {
            let tokens = &tokens;
            (first..end - start).map(move |index| loss(&tokens[start..=start + index]))
        })
        .sum();
    assert_eq!(result.counts.tokens_counted, 9);
    assert!((figure(&result, "token_perplexity") - (nll / 9.0).exp()).abs() < 1e-12);
    assert!(!result.bos_used);
    // The windows of a single document are its items, in their order.
    let of_window = |&(start, end, first): &(usize, usize, usize)| -> f64 {
        (first..end - start).map(|index| loss(&tokens[start..=start + index])).sum()
    };
    assert_eq!(result.samples.len(), 3);
    for (sample, span) in result.samples.iter().zip(&spans) {
        let found = sample.record["nll"].as_f64().unwrap();
        assert!((found - of_window(span)).abs() < 1e-12, "{}", sample.place);
    }
    let mean = |of: &str| result.samples.iter().map(|s| s.numbers[of]).sum::<f64>() / 3.0;
    assert!((mean("token_perplexity") - figure(&result, "token_perplexity")).abs() < 1e-9);
    let several = run(&perplexity(&[text, "abc"], 6, 2, Bos::Never), &Fake::default()).unwrap();
    assert_eq!(several.samples.len(), 2);
}

#[test]
fn word_and_byte_figures_need_every_token() {
    let text = "two words";
    let result = run(&perplexity(&[text], 16, 16, Bos::Auto), &Fake::default()).unwrap();
    let nll = figure(&result, "token_perplexity").ln() * 9.0;
    assert!((figure(&result, "word_perplexity").ln() * 2.0 - nll).abs() < 1e-9);
    assert!((figure(&result, "byte_perplexity").ln() * 9.0 - nll).abs() < 1e-9);
    assert!((figure(&result, "bits_per_byte") * 9.0 * 2f64.ln() - nll).abs() < 1e-9);
    let without = run(&perplexity(&[text], 16, 16, Bos::Never), &Fake::default()).unwrap();
    assert!(without.metric("byte_perplexity").is_none());
}

#[test]
fn joined_documents_are_one_text() {
    let protocol = Protocol::new(32, 32, Bos::Always, Join::BlankLine).unwrap();
    let joined = run(&TextPerplexity::new(corpus(&["ab", "cd"]), protocol), &Fake::default());
    let whole = run(&perplexity(&["ab\n\ncd"], 32, 32, Bos::Always), &Fake::default());
    assert_eq!(joined.unwrap().metrics, whole.unwrap().metrics);
}

#[test]
fn batches_are_bounded_and_do_not_change_figures() {
    let texts = ["abcdefghijklmnopqrstuvwxyz", "hello", "0123456789", "a"];
    let task = perplexity(&texts, 8, 8, Bos::Always);
    let whole = run(&task, &Fake::default()).unwrap();
    for limit in [1, 8, 17, 30] {
        let model = Fake::default();
        assert_eq!(run_with(&task, &model, limit).unwrap(), whole);
        assert!(model.batches.borrow().iter().all(|&tokens| tokens <= limit.max(8)));
    }
}

#[test]
fn options_of_bos_are_resolved_or_refused() {
    let auto = perplexity(&["abc"], 8, 8, Bos::Auto);
    let plain = Fake { adds_bos: false, ..Fake::default() };
    assert!(!run(&auto, &plain).unwrap().bos_used);
    assert!(run(&auto, &Fake::default()).unwrap().bos_used);
    let none = Fake { bos: None, adds_bos: false, ..Fake::default() };
    let message = run(&perplexity(&["abc"], 8, 8, Bos::Always), &none).unwrap_err().to_string();
    assert!(message.contains("bos always") && message.contains("--bos never"), "{message}");
}

#[test]
fn bad_losses_and_refused_tokens_name_document_and_window() {
    let task = perplexity(&["abcd", "efghijkl"], 4, 4, Bos::Never);
    let model = Fake { nan: Some(u32::from(b'k')), ..Fake::default() };
    let message = run(&task, &model).unwrap_err().to_string();
    assert!(
        message.starts_with("t.jsonl, document at line 2, window 1: the loss of token 2 is NaN"),
        "{message}"
    );
    let model = Fake { refused: Some(u32::from(b'f')), ..Fake::default() };
    let error = run(&task, &model).unwrap_err();
    let said = "t.jsonl, document at line 2, window 0: the model failed: refused";
    assert_eq!(error.to_string(), said);
    assert_eq!(error.source().unwrap().to_string(), "refused");
}

#[test]
fn too_long_windows_and_empty_tasks_are_errors() {
    let long = "x".repeat(80);
    let message =
        run(&perplexity(&[&long], 65, 65, Bos::Never), &Fake::default()).unwrap_err().to_string();
    assert!(message.contains("use --window 64 or less"), "{message}");
    // A short document fits, whatever the window.
    assert!(run(&perplexity(&["abc"], 65, 65, Bos::Never), &Fake::default()).is_ok());
    let message =
        run(&perplexity(&["a"], 8, 8, Bos::Never), &Fake::default()).unwrap_err().to_string();
    assert_eq!(message, "task text has no tokens to score");
}

#[test]
fn progress_reaches_the_end_and_cancelling_stops() {
    let task = perplexity(&["abcdefgh", "ijklmnop"], 4, 4, Bos::Never);
    let mut seen = Vec::new();
    let mut hooks = Hooks {
        progress: &mut |progress| seen.push((progress.done_tokens, progress.total_tokens)),
        cancelled: &|| false,
        journal: None,
    };
    evaluate(
        &task,
        &Fake::default(),
        &RunOptions { max_batch_tokens: 4, ..RunOptions::default() },
        &mut hooks,
    )
    .unwrap();
    assert_eq!(seen, [(4, 16), (8, 16), (12, 16), (16, 16)]);

    let asked = Cell::new(0);
    let cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() > 4
    };
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &cancelled, journal: None };
    let options = RunOptions { max_batch_tokens: 4, ..RunOptions::default() };
    let error = evaluate(&task, &Fake::default(), &options, &mut hooks).unwrap_err();
    assert!(matches!(error, EvaluationError::Interrupted { done_tokens: 8, total_tokens: 16 }));
}

fn questions(lines: &[serde_json::Value]) -> QuestionSet {
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    QuestionSet::from_bytes(Path::new("q.jsonl"), text.join("\n").as_bytes()).unwrap()
}

/// Log-likelihood of `continuation` after `context`, the slow way.
pub(super) fn log_likelihood(context: &str, continuation: &str) -> f64 {
    let tokens: Vec<u32> = [BOS]
        .into_iter()
        .chain(format!("{context}{continuation}").bytes().map(u32::from))
        .collect();
    let start = 1 + context.len();
    -(start..tokens.len()).map(|index| loss(&tokens[..=index])).sum::<f64>()
}

#[test]
fn choices_are_judged_by_summed_and_by_normalised_likelihood() {
    let choices = ["red", "blue and green", "x", "no"];
    let lines: Vec<serde_json::Value> = (0..12)
        .map(|index| {
            serde_json::json!({
                "question": format!("Question {index}:"), "choices": choices,
                "answer": index % 4, "band": if index < 5 { "often" } else { "rarely" },
            })
        })
        .collect();
    let result = run(&MultipleChoice::new(questions(&lines), Bos::Always), &Fake::default());
    let result = result.unwrap();
    let best = |index: usize, normalise: bool| {
        let scores: Vec<f64> = choices
            .iter()
            .map(|choice| {
                let score = log_likelihood(&format!("Question {index}:"), &format!(" {choice}"));
                if normalise { score / choice.len() as f64 } else { score }
            })
            .collect();
        (0..4).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap()
    };
    let share = |range: std::ops::Range<usize>, normalise| {
        let right = range.clone().filter(|&index| best(index, normalise) == index % 4).count();
        right as f64 / range.len() as f64
    };
    assert!((figure(&result, "acc") - share(0..12, false)).abs() < 1e-12);
    assert!((figure(&result, "acc_norm") - share(0..12, true)).abs() < 1e-12);
    let p = figure(&result, "acc");
    let stderr = result.metric("acc").unwrap().stderr.unwrap();
    assert!((stderr - (p * (1.0 - p) / 11.0).sqrt()).abs() < 1e-12);
    let often = &result.groups[0];
    assert_eq!((often.group.as_str(), often.items), ("often", 5));
    assert!((often.metrics[0].value - share(0..5, false)).abs() < 1e-12);
    assert_eq!((result.groups[1].items, result.counts.ties), (7, 0));
}

#[test]
fn equal_choices_are_a_tie_and_the_first_wins() {
    let lines = [
        serde_json::json!({"question": "Q", "choices": ["a", "a"], "answer": 0}),
        serde_json::json!({"question": "Q", "choices": ["a", "a"], "answer": 1}),
    ];
    let result = run(&MultipleChoice::new(questions(&lines), Bos::Auto), &Fake::default()).unwrap();
    assert_eq!((result.counts.ties, figure(&result, "acc")), (2, 0.5));
}

#[test]
fn spaces_of_the_context_go_to_the_continuation_and_long_contexts_lose_their_start() {
    let long = format!("{}  ", "y".repeat(70));
    let lines = [serde_json::json!({"question": long, "choices": ["a", "b"], "answer": 0})];
    let result =
        run(&MultipleChoice::new(questions(&lines), Bos::Always), &Fake::default()).unwrap();
    // Two spaces, the delimiter and the letter are counted for both choices.
    assert_eq!((result.counts.truncated, result.counts.tokens_counted), (2, 8));
    let endless = "z".repeat(64);
    let lines = [serde_json::json!({"question": "Q", "choices": [endless, "b"], "answer": 0})];
    let message = run(&MultipleChoice::new(questions(&lines), Bos::Always), &Fake::default())
        .unwrap_err()
        .to_string();
    assert!(message.contains("line 1, choice 0: the continuation has 65 tokens"), "{message}");
}

#[test]
fn an_empty_context_is_the_bos_token() {
    let lines = [serde_json::json!({"question": "", "choices": ["a", "b"], "answer": 0})];
    let task = MultipleChoice::new(questions(&lines), Bos::Never);
    assert!(run(&task, &Fake::default()).is_ok());
    let none = Fake { bos: None, ..Fake::default() };
    let message = run(&task, &none).unwrap_err().to_string();
    assert!(message.contains("whose context is empty"), "{message}");
}

#[test]
fn a_completion_counts_only_if_every_token_is_greedy() {
    let line = |completion: &str, band: &str| {
        serde_json::json!({
            "question": "Q", "choices": ["a", "b"], "answer": 0,
            "prompt": "a", "completion": completion, "band": band,
        })
    };
    let mut lines = vec![line("bcd", "often"), line("bce", "often"), line("b", "rarely")];
    lines.push(serde_json::json!({"question": "Q", "choices": ["a", "b"], "answer": 0}));
    let result = run(&Completion::new(questions(&lines), Bos::Auto), &Fake::default()).unwrap();
    assert_eq!(result.counts.items, 3);
    assert!((figure(&result, "exact_match") - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(result.groups[0].metrics[0].value, 0.5);
    assert_eq!(result.groups[1].metrics[0].stderr, None);
    let message = run(&Completion::new(questions(&lines[3..]), Bos::Auto), &Fake::default())
        .unwrap_err()
        .to_string();
    assert!(message.contains("no questions with `prompt`"), "{message}");
}

#[test]
fn the_list_opens_tasks_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, "abcdef").unwrap();
    let task = open_task("text", &path, &TaskOptions::default()).unwrap();
    assert_eq!((task.id().as_str(), task.version()), ("text", 1.0));
    assert_eq!(run(task.as_ref(), &Fake::default()).unwrap().counts.tokens_counted, 6);
    let message = open_task("poetry", &path, &TaskOptions::default()).err().unwrap().to_string();
    assert!(message.contains("no task is called \"poetry\""), "{message}");
}

/// A random decoder and a tokenizer of single letters.
pub(super) fn subject() -> (Transformer, Tokenizer) {
    let config = serde_json::json!({
        "model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 28, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 32, "tie_word_embeddings": true, "hidden_act": "silu",
    });
    let config = TransformerConfig::from_json(&config).unwrap();
    let mut vocabulary = serde_json::Map::new();
    for (id, token) in ["<s>", " "].into_iter().enumerate() {
        vocabulary.insert(token.to_owned(), id.into());
    }
    for (id, letter) in ('a'..='z').enumerate() {
        vocabulary.insert(letter.to_string(), (id + 2).into());
    }
    let json = serde_json::json!({
        "version": "1.0",
        "added_tokens": [{
            "id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        }],
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
        },
    });
    let settings = serde_json::json!({"bos_token": "<s>"});
    let bytes = json.to_string().into_bytes();
    let tokenizer = Tokenizer::from_bytes(Path::new("t.json"), &bytes, Some(&settings)).unwrap();
    (Transformer::random(config, RngKey::new(7)), tokenizer)
}

#[test]
fn a_real_decoder_gives_the_same_figures_in_any_batches() {
    let (decoder, tokenizer) = subject();
    let model = Subject::new(&decoder, &tokenizer);
    let task =
        perplexity(&["some letters without sense", "abc", "and more of them"], 8, 4, Bos::Auto);
    let figures = |max_batch_tokens| {
        let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
        let options = RunOptions { max_batch_tokens, ..RunOptions::default() };
        evaluate(&task, &model, &options, &mut hooks).unwrap().complete().unwrap()
    };
    let whole = figures(4096);
    assert!(whole.bos_used);
    assert_eq!(whole.counts.tokens_counted, 26 + 3 + 16);
    // A random model knows next to nothing of 28 tokens.
    let perplexity = figure(&whole, "token_perplexity");
    assert!((14.0..56.0).contains(&perplexity), "{perplexity}");
    for limit in [1, 20] {
        let nll = figure(&figures(limit), "nll_nats_per_token");
        assert!((nll - figure(&whole, "nll_nats_per_token")).abs() < 1e-5);
    }
}

#[test]
fn what_a_group_shares_is_computed_once_and_changes_nothing() {
    let (decoder, tokenizer) = subject();
    let model = Subject::new(&decoder, &tokenizer);
    let encode = |text: &str| [vec![0], model.encode(text).unwrap()].concat();
    let all: Vec<Vec<u32>> =
        ["what is it a", "what is it bcd", "what is it", "what was that", "z"].map(encode).into();
    let alone: Vec<Vec<TokenScore>> = all
        .iter()
        .map(|tokens| {
            let one = [Sequence { tokens, first_counted: 4, shared: 0 }];
            model.score(&one).unwrap().remove(0)
        })
        .collect();
    for shared in [[0, 12, 11, 0, 0], [0, 5, 6, 6, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]] {
        let sequences: Vec<Sequence<'_>> = all
            .iter()
            .zip(shared)
            .map(|(tokens, shared)| Sequence { tokens, first_counted: 4, shared })
            .collect();
        let together = model.score(&sequences).unwrap();
        for (together, alone) in together.iter().zip(&alone) {
            assert_eq!(together.len(), alone.len());
            for (a, b) in together.iter().zip(alone) {
                assert!((a.nll - b.nll).abs() < 1e-5 * b.nll.max(1.0), "{a:?} {b:?}");
                assert_eq!(a.is_greedy, b.is_greedy);
            }
        }
    }
}

#[test]
fn a_closer_look_changes_no_score_and_finds_the_likeliest() {
    let (decoder, tokenizer) = subject();
    let model = Subject::new(&decoder, &tokenizer);
    let encode = |text: &str| [vec![0], model.encode(text).unwrap()].concat();
    let all: Vec<Vec<u32>> = ["what is it a", "what is it bcd", "what was that"].map(encode).into();
    let sequences: Vec<Sequence<'_>> = all
        .iter()
        .zip([0, 11, 0])
        .map(|(tokens, shared)| Sequence { tokens, first_counted: 4, shared })
        .collect();
    let top_requests = [
        None,
        Some(TopLogprobsRequest { token: 12, count: 28 }),
        Some(TopLogprobsRequest { token: 4, count: 3 }),
    ];
    let Scored { scores, top_logprobs: found, .. } =
        model.score_with_top_logprobs(&sequences, &top_requests).unwrap();
    assert_eq!(scores, model.score(&sequences).unwrap());
    assert_eq!(found[0], None);
    for (index, place, count) in [(1, 12, 28), (2, 4, 3)] {
        let found = found[index].as_ref().unwrap();
        assert_eq!(found.tokens.len(), count);
        // Every token in that place, scored by itself.
        let alone = |token: u32| {
            let tokens = [&all[index][..place], &[token]].concat();
            let one = [Sequence { tokens: &tokens, first_counted: place, shared: 0 }];
            -model.score(&one).unwrap()[0][0].nll
        };
        let mut sorted: Vec<(f64, u32)> = (0..28).map(|token| (alone(token), token)).collect();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
        let target = sorted.iter().position(|(_, token)| *token == all[index][place]);
        assert_eq!(Some(found.rank), target);
        for ((text, log_prob), (want, token)) in found.tokens.iter().zip(&sorted) {
            assert!((log_prob - want).abs() < 1e-5, "{log_prob} {want}");
            assert_eq!(*text, tokenizer.decode(&[*token], false).unwrap());
        }
    }
    let sum: f64 = found[1].as_ref().unwrap().tokens.iter().map(|(_, nats)| nats.exp()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    let message =
        Fake::default().score_with_top_logprobs(&sequences, &top_requests).unwrap_err().to_string();
    assert!(message.contains("top log-probabilities"), "{message}");
}

#[test]
fn speeds_are_measured_in_turns_and_can_be_interrupted() {
    let (decoder, _) = subject();
    let windows = vec![vec![1; 30], vec![2; 9]];
    let speeds = tokens_per_second(&[&decoder, &decoder], &windows, &|| false).unwrap();
    assert_eq!(speeds.len(), 2);
    assert!(speeds.iter().all(|speed| speed.is_finite() && *speed > 0.0), "{speeds:?}");
    // A model without a head is timed up to its last layer.
    let headless = serde_json::json!({
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 16,
        "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
        "vocab_size": 30, "max_position_embeddings": 64, "hidden_act": "gelu",
        "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    });
    let config = linwright_model::TransformerConfig::from_json(&headless).unwrap();
    let encoder = linwright_model::Transformer::random(config, linwright_tensor::RngKey::new(1));
    assert!(!encoder.has_head());
    assert!(tokens_per_second(&[&encoder], &windows, &|| false).unwrap()[0] > 0.0);
    let stopped = tokens_per_second(&[&decoder], &windows, &|| true).unwrap_err();
    assert!(matches!(stopped, EvaluationError::Interrupted { .. }), "{stopped}");
}

/// Log-probabilities (28) of the token after `before`, each scored by itself.
fn log_probabilities(model: &Subject<'_>, before: &[u32]) -> Vec<f64> {
    let alone = |token: u32| {
        let tokens = [before, &[token]].concat();
        let one = [Sequence { tokens: &tokens, first_counted: before.len(), shared: 0 }];
        -model.score(&one).unwrap()[0][0].nll
    };
    (0..28).map(alone).collect()
}

#[test]
fn texts_are_compared_token_by_token_with_another_model() {
    let (dense, tokenizer) = subject();
    let edited = Transformer::random(dense.config().clone(), RngKey::new(9));
    let [other, own] = [&dense, &edited].map(|model| Subject::new(model, &tokenizer));
    let texts = ["what is it that was", "what was that", "is it what it was"];
    let task = perplexity(&texts, 6, 6, Bos::Always);
    let run = |divergence: bool, journal: Option<&mut FileJournal>| {
        let journal = journal.map(|journal| journal as &mut dyn Journal);
        let options = RunOptions { max_batch_tokens: 20, divergence, ..RunOptions::default() };
        let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal };
        let both: [&dyn LanguageModel; 2] = [&other, &own];
        let results = evaluate_each(&task, &Several(&both), &options, &mut hooks, |one| one);
        results.unwrap().complete().unwrap()
    };
    let (plain, compared) = (run(false, None), run(true, None));
    // Nothing that was there changes, and the first model is compared with none.
    assert_eq!(compared[0], plain[0]);
    let count = plain[1].metrics.len();
    assert_eq!(compared[1].metrics[..count], plain[1].metrics);
    let (mut kl, mut delta, mut same) = (Vec::new(), Vec::new(), Vec::new());
    for text in texts {
        let tokens = [vec![0], own.encode(text).unwrap()].concat();
        for (range, first) in task.protocol().windows(tokens.len()) {
            let mut window = tokens[range].to_vec();
            window[0] = 0;
            for end in first..window.len() {
                let [p, q] = [&other, &own].map(|model| log_probabilities(model, &window[..end]));
                kl.push(p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>());
                let target = window[end] as usize;
                delta.push(q[target].exp() - p[target].exp());
                let top = |of: &[f64]| (0..28).max_by(|a, b| of[*a].total_cmp(&of[*b]));
                same.push(f64::from(u8::from(top(&p) == top(&q))));
            }
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let squares: Vec<f64> = delta.iter().map(|delta| delta * delta).collect();
    for (name, want) in [
        ("kl_mean", mean(&kl)),
        ("delta_p_mean", mean(&delta)),
        ("delta_p_rms", mean(&squares).sqrt()),
        ("same_top_token", mean(&same)),
    ] {
        let found = figure(&compared[1], name);
        assert!((found - want).abs() < 1e-5, "{name}: {found} is not {want}");
        assert!(compared[1].metric(name).unwrap().stderr.is_some(), "{name}");
    }
    assert!(figure(&compared[1], "kl_p99_9") >= figure(&compared[1], "kl_median"));
    let scores = compared[1].samples.iter().map(|sample| sample.numbers["kl_mean"]);
    assert!((mean(&scores.collect::<Vec<_>>()) - mean(&kl)).abs() < 1e-5);
    // A journal restores them bit for bit.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    for _ in 0..2 {
        let mut journal = FileJournal::open(&path, &serde_json::json!({})).unwrap();
        assert_eq!(run(true, Some(&mut journal)), compared);
    }
    let identical: [&dyn LanguageModel; 2] = [&own, &own];
    let options = RunOptions { divergence: true, ..RunOptions::default() };
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
    let same = evaluate_each(&task, &Several(&identical), &options, &mut hooks, |one| one);
    let same = &same.unwrap().complete().unwrap()[1];
    assert_eq!((figure(same, "kl_mean"), figure(same, "same_top_token")), (0.0, 1.0));
}
