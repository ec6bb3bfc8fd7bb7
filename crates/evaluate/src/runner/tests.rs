//! Interrupted, resumed and sharded evaluations have the bits of an undisturbed one.

use super::*;
use crate::{
    Cloze, Cut, DetailRequest, FileJournal, Join, Protocol, Request, Subject, TokenScore,
    TopLogprobs, merge_journals, requests_digest,
};
use crate::{Generated, Generation};
use linwright_model::checkpoint::Sentence;
use linwright_model::transformer::Pooling;
use linwright_run::JournalError;
use serde_json::{Value, json};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// A model whose every answer depends on all inputs of the batch, so that another division into
/// batches changes all bits.
#[derive(Clone, Copy)]
struct Touchy {
    seed: u64,
    is_masked: bool,
}

/// A number between 0 and 1 from what a batch holds and the place of the answer in it.
fn mixed(seed: u64, parts: impl Iterator<Item = u32>) -> f64 {
    let mixed = parts.fold(seed ^ 0x9e37_79b9_7f4a_7c15, |hash, part| {
        (hash ^ u64::from(part)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    });
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

impl Touchy {
    /// One number for each of `counts` answers of a batch with these tokens.
    fn numbers(self, tokens: impl Iterator<Item = u32> + Clone, count: usize) -> Vec<f64> {
        (0..count as u32).map(|at| mixed(self.seed, tokens.clone().chain([at]))).collect()
    }
}

impl LanguageModel for Touchy {
    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelFailure> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn bos(&self) -> Option<u32> {
        Some(256)
    }

    fn eos(&self) -> Option<u32> {
        None
    }

    fn adds_bos(&self) -> bool {
        true
    }

    fn max_positions(&self) -> Option<usize> {
        Some(64)
    }

    fn score(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<TokenScore>>, ModelFailure> {
        Ok(self.score_with_top_logprobs(sequences, &vec![None; sequences.len()])?.scores)
    }

    fn score_with_top_logprobs(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Scored, ModelFailure> {
        let tokens = sequences.iter().flat_map(|sequence| sequence.tokens.iter().copied());
        let count = sequences.iter().map(|sequence| sequence.tokens.len()).sum();
        let mut numbers = self.numbers(tokens, count).into_iter();
        let score = |nll: f64| TokenScore { nll, is_greedy: nll < 0.9 };
        let scores = sequences
            .iter()
            .map(|Sequence { tokens, first_counted, .. }| {
                numbers.by_ref().take(tokens.len() - first_counted).map(score).collect()
            })
            .collect();
        let top = |request: &Option<TopLogprobsRequest>| {
            let count = request.as_ref()?.count;
            let tokens = numbers.by_ref().take(count).map(|nats| ("x".to_owned(), -nats));
            Some(TopLogprobs { rank: 1, tokens: tokens.collect() })
        };
        Ok(Scored {
            scores,
            top_logprobs: top_requests.iter().map(top).collect(),
            ..Scored::default()
        })
    }

    fn is_masked(&self) -> bool {
        self.is_masked
    }

    fn encode_cloze(&self, cloze: &Cloze<'_>, masks: usize) -> Result<MaskedInput, ModelFailure> {
        let mut tokens = self.encode(&cloze.context)?;
        let first = tokens.len();
        tokens.extend(vec![0; masks]);
        Ok(MaskedInput {
            tokens,
            first,
            masks,
            truncated: 0,
            answers: Vec::new(),
            top_logprobs: 0,
            gold: 0,
        })
    }

    fn infill(&self, texts: &[MaskedInput]) -> Result<Vec<Infilled>, ModelFailure> {
        let tokens = texts.iter().flat_map(|text| text.tokens.iter().copied());
        let count = texts.iter().map(|text| text.answers.len() + 1).sum();
        let mut numbers = self.numbers(tokens, count).into_iter();
        let infilled = |text: &MaskedInput| Infilled {
            log_likelihoods: numbers.by_ref().take(text.answers.len()).map(|nats| -nats).collect(),
            text: numbers.by_ref().take(1).map(|number| number.to_string()).collect(),
            top_logprobs: TopLogprobs { rank: text.gold, tokens: Vec::new() },
        };
        Ok(texts.iter().map(infilled).collect())
    }

    fn pooling(&self) -> Option<String> {
        Some("mean".into())
    }

    fn encode_whole(&self, text: &str) -> Result<(Vec<u32>, usize), ModelFailure> {
        Ok((self.encode(text)?, 0))
    }

    fn cosines(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<f64>, ModelFailure> {
        Ok(self.numbers(pairs.iter().flatten().flatten().copied(), pairs.len()))
    }

    fn generate(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Generated>, ModelFailure> {
        let numbers = self.numbers(prompts.iter().flatten().copied(), prompts.len());
        let generated =
            |number: f64| Generated { text: number.to_string(), tokens: generation.new_tokens };
        Ok(numbers.into_iter().map(generated).collect())
    }
}

/// Two models, and the number of batches that they were asked for.
struct Both {
    models: [Touchy; 2],
    batches: Cell<usize>,
}

impl Both {
    fn new(is_masked: bool) -> Self {
        let models = [1, 2].map(|seed| Touchy { seed, is_masked });
        Self { models, batches: Cell::new(0) }
    }

    fn each<R>(
        &self,
        ask: impl Fn(&Touchy) -> Result<R, ModelFailure>,
    ) -> Result<Vec<R>, ModelFailure> {
        self.batches.set(self.batches.get() + 1);
        self.models.iter().map(ask).collect()
    }
}

impl LanguageModels for Both {
    fn first(&self) -> &dyn LanguageModel {
        &self.models[0]
    }

    fn count(&self) -> usize {
        self.models.len()
    }

    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Vec<Scored>, ModelFailure> {
        self.each(|model| model.score_with_top_logprobs(sequences, top_requests))
    }

    fn infill_each(&self, texts: &[MaskedInput]) -> Result<Vec<Vec<Infilled>>, ModelFailure> {
        self.each(|model| model.infill(texts))
    }

    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure> {
        self.each(|model| model.cosines(pairs))
    }

    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Generated>>, ModelFailure> {
        self.each(|model| model.generate(prompts, generation))
    }
}

/// Requests of one item each or all of one item, whose result is the JSON of all responses.
struct Asked {
    items: Vec<Vec<Request<'static>>>,
}

impl Task for Asked {
    fn id(&self) -> String {
        "asked".to_owned()
    }

    fn version(&self) -> f64 {
        1.0
    }

    fn bos(&self) -> Bos {
        Bos::Auto
    }

    fn items(&self) -> Vec<Item<'_>> {
        let item = |(index, requests): (usize, &Vec<Request<'static>>)| Item {
            place: format!("item {index}"),
            requests: requests.clone(),
            own: &[],
        };
        self.items.iter().enumerate().map(item).collect()
    }

    fn cloze_items(&self) -> Option<Vec<Item<'_>>> {
        Some(self.items())
    }

    fn score(&self, replies: &[Vec<Reply>], _: bool) -> Result<TaskResult, EvaluationError> {
        Ok(TaskResult { protocol: json!(replies).to_string(), ..TaskResult::default() })
    }
}

fn text(length: usize, seed: usize) -> String {
    (0..length).map(|at| char::from(b'a' + ((at * 7 + seed * 11) % 26) as u8)).collect()
}

fn rolling(length: usize, seed: usize) -> Request<'static> {
    let protocol = Protocol::new(16, 8, Bos::Auto, Join::Separate).unwrap();
    Request::Rolling { text: text(length, seed).into(), cut: Cut::Protocol(protocol) }
}

fn choice(question: usize, choice: usize, details: Option<DetailRequest>) -> Request<'static> {
    Request::LogLikelihood {
        context: text(9 + question, question).into(),
        continuation: text(2 + choice, choice).into(),
        details,
    }
}

/// Tasks of each kind of request, with whether a masked language model answers them.
fn tasks() -> Vec<(&'static str, Asked, bool)> {
    let each =
        |ask: &dyn Fn(usize) -> Vec<Request<'static>>| Asked { items: (0..9).map(ask).collect() };
    let generate = |seed: usize| Request::Generate {
        context: text(5 + seed, seed).into(),
        // Neighbours with equal conditions share a batch.
        generation: Generation::greedy(vec!["z".into()], 3 + seed / 4),
    };
    let cloze = |seed: usize| {
        Request::Cloze(Cloze {
            context: text(8 + seed, seed).into(),
            max_context_tokens: None,
            before: "".into(),
            after: "".into(),
            answers: vec!["a".into(), "bc".into(), "de".into()],
            gold: 1,
            top_logprobs: 0,
            filled_masks: 3,
        })
    };
    let details = Some(DetailRequest { top_logprobs: 2, context: true });
    vec![
        ("one document", Asked { items: vec![vec![rolling(150, 1)]] }, false),
        ("documents", each(&|at| vec![rolling(5 + 9 * at, at)]), false),
        ("choices", each(&|at| (0..4).map(|other| choice(at, other, None)).collect()), false),
        ("details", each(&|at| (0..2).map(|other| choice(at, other, details)).collect()), false),
        ("texts", each(&|at| vec![generate(at)]), false),
        ("blanks", each(&|at| vec![cloze(at)]), true),
        (
            "pairs",
            each(&|at| vec![Request::Similarity([text(6, at).into(), text(9 + at, at).into()])]),
            false,
        ),
        (
            "all kinds",
            each(&|at| match at % 3 {
                0 => vec![rolling(40, at), choice(at, 0, None)],
                1 => vec![generate(at), choice(at, 1, details), generate(at + 1)],
                _ => vec![Request::Similarity([text(6, at).into(), text(9, at).into()])],
            }),
            false,
        ),
    ]
}

const OPTIONS: RunOptions =
    RunOptions { max_batch_tokens: 40, longest: None, divergence: false, shard: Shard::WHOLE };

/// The bits of the results of both models.
type Bits = Vec<String>;

fn run(
    task: &Asked,
    models: &Both,
    shard: Shard,
    hooks: &mut Hooks<'_>,
) -> Result<Outcome<Bits>, EvaluationError> {
    evaluate_each(task, models, &RunOptions { shard, ..OPTIONS }, hooks, |found| found.protocol)
}

fn undisturbed(task: &Asked, is_masked: bool) -> (Bits, usize) {
    let models = Both::new(is_masked);
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
    let bits = run(task, &models, Shard::WHOLE, &mut hooks).unwrap().complete().unwrap();
    assert_ne!(bits[0], bits[1]);
    (bits, models.batches.get())
}

fn fingerprint(task: &Asked) -> Value {
    json!({"requests": requests_digest(task), "max_batch_tokens": OPTIONS.max_batch_tokens})
}

/// A journal that counts what is kept.
struct Counting<'a>(FileJournal, &'a Cell<usize>);

impl Journal for Counting<'_> {
    fn find(&self, batch: usize) -> Option<&BatchAnswers> {
        self.0.find(batch)
    }

    fn keep(&mut self, batch: usize, answers: &BatchAnswers) -> Result<(), EvaluationError> {
        self.1.set(self.1.get() + 1);
        self.0.keep(batch, answers)
    }
}

/// Runs a shard with a journal in a file, which stops after `patience` batches, and returns the
/// outcome and the number of batches computed.
fn run_in(
    path: &Path,
    task: &Asked,
    is_masked: bool,
    shard: Shard,
    patience: usize,
) -> (Result<Outcome<Bits>, EvaluationError>, usize) {
    let kept = Cell::new(0);
    let mut journal = Counting(FileJournal::open(path, &fingerprint(task)).unwrap(), &kept);
    let models = Both::new(is_masked);
    let mut hooks = Hooks {
        progress: &mut |_| {},
        cancelled: &|| kept.get() == patience,
        journal: Some(&mut journal),
    };
    let outcome = run(task, &models, shard, &mut hooks);
    assert_eq!(models.batches.get(), kept.get(), "every batch is kept");
    (outcome, kept.get())
}

#[test]
fn answers_depend_on_the_division_into_batches() {
    for (name, task, is_masked) in tasks() {
        let (bits, batches) = undisturbed(&task, is_masked);
        assert!(batches > 3, "{name}: {batches}");
        let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
        let options = RunOptions { max_batch_tokens: 4096, ..OPTIONS };
        let models = Both::new(is_masked);
        let outcome = evaluate_each(&task, &models, &options, &mut hooks, |found| found.protocol);
        assert_ne!(
            outcome.unwrap().complete().unwrap(),
            bits,
            "{name}: or the tests prove nothing"
        );
    }
}

#[test]
fn an_evaluation_stopped_after_any_number_of_batches_resumes_to_the_same_bits() {
    for (name, task, is_masked) in tasks() {
        let (bits, batches) = undisturbed(&task, is_masked);
        for patience in 1..=batches {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.jsonl");
            let (mut computed, mut runs) = (0, 0);
            let found = loop {
                let (outcome, kept) = run_in(&path, &task, is_masked, Shard::WHOLE, patience);
                (computed, runs) = (computed + kept, runs + 1);
                match outcome {
                    Ok(outcome) => break outcome.complete().unwrap(),
                    Err(error) => {
                        assert!(matches!(error, EvaluationError::Interrupted { .. }), "{error}");
                    }
                }
            };
            assert_eq!((found, computed), (bits.clone(), batches), "{name}, {patience}");
            assert_eq!(runs, batches.div_ceil(patience), "{name}, {patience}");
        }
    }
}

fn shard(text: &str) -> Shard {
    text.parse().unwrap()
}

/// Journals of shards of a task, computed one after the other.
fn sharded(folder: &Path, task: &Asked, is_masked: bool, count: usize) -> Vec<PathBuf> {
    let journal = |index| {
        let path = folder.join(format!("{index}-of-{count}.jsonl"));
        let shard = Shard::new(index, count).unwrap();
        let (outcome, kept) = run_in(&path, task, is_masked, shard, usize::MAX);
        let (_, total) = undisturbed(task, is_masked);
        assert_eq!(outcome.unwrap(), Outcome::Part { known: kept, total });
        path
    };
    (0..count).map(journal).collect()
}

#[test]
fn merged_shards_have_the_same_bits_in_any_order() {
    for (name, task, is_masked) in tasks() {
        let (bits, batches) = undisturbed(&task, is_masked);
        let folder = tempfile::tempdir().unwrap();
        for (count, order) in [(2, vec![0, 1]), (3, vec![2, 0, 2, 1])] {
            let shards = sharded(folder.path(), &task, is_masked, count);
            let order: Vec<PathBuf> =
                order.into_iter().map(|at: usize| shards[at].clone()).collect();
            let into = folder.path().join(format!("all-{count}.jsonl"));
            let merged = merge_journals(&into, &order).unwrap();
            assert_eq!((merged.batches, merged.damages.len()), (batches, 0), "{name}");
            let (outcome, computed) = run_in(&into, &task, is_masked, Shard::WHOLE, usize::MAX);
            assert_eq!(
                (outcome.unwrap().complete().unwrap(), computed),
                (bits.clone(), 0),
                "{name}"
            );
            // With all batches known, every shard has the result.
            let (outcome, _) = run_in(&into, &task, is_masked, shard("1/2"), usize::MAX);
            assert_eq!(outcome.unwrap(), Outcome::Complete(bits.clone()), "{name}");
        }
    }
}

#[test]
fn a_shard_that_was_killed_is_run_again_or_completed_after_the_merge() {
    for (name, task, is_masked) in tasks() {
        let (bits, batches) = undisturbed(&task, is_masked);
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let [first, second, into] = ["first", "second", "all"].map(path);
        let (stopped, kept) = run_in(&first, &task, is_masked, shard("0/2"), 1);
        assert!(matches!(stopped, Err(EvaluationError::Interrupted { .. })), "{name}");
        assert_eq!(kept, 1);
        run_in(&second, &task, is_masked, shard("1/2"), usize::MAX).0.unwrap();
        // Merged while incomplete: what is missing is computed.
        merge_journals(&into, &[first.clone(), second.clone()]).unwrap();
        std::fs::copy(&into, path("copy")).unwrap();
        let (outcome, computed) = run_in(&path("copy"), &task, is_masked, Shard::WHOLE, usize::MAX);
        assert_eq!(outcome.unwrap().complete().unwrap(), bits, "{name}");
        assert_eq!(computed, batches.div_ceil(2) - 1, "{name}");
        // Run again, and merged into the same journal.
        run_in(&first, &task, is_masked, shard("0/2"), usize::MAX).0.unwrap();
        assert_eq!(merge_journals(&into, &[first]).unwrap().batches, batches);
        let (outcome, computed) = run_in(&into, &task, is_masked, Shard::WHOLE, usize::MAX);
        assert_eq!((outcome.unwrap().complete().unwrap(), computed), (bits, 0), "{name}");
    }
}

#[test]
fn journals_of_other_evaluations_and_contradictions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let all = tasks();
    let (one, other) = (&all[1].1, &all[2].1);
    let shards = sharded(folder.path(), one, false, 2);
    let into = folder.path().join("all");
    let foreign = folder.path().join("foreign");
    run_in(&foreign, other, false, Shard::WHOLE, usize::MAX).0.unwrap();
    let error = merge_journals(&into, &[shards[0].clone(), foreign]).unwrap_err();
    assert!(matches!(error, EvaluationError::Journal(JournalError::OtherRun { .. })), "{error}");
    assert!(error.to_string().contains("requests is "), "{error}");
    std::fs::write(folder.path().join("text"), "some text\n").unwrap();
    let error = merge_journals(&into, &[folder.path().join("text")]).unwrap_err();
    assert!(error.to_string().contains("not a journal"), "{error}");
    // The answers of another model under the same fingerprint.
    let contrary = folder.path().join("contrary");
    let mut journal = FileJournal::open(&contrary, &fingerprint(one)).unwrap();
    let known = FileJournal::open(&shards[0], &fingerprint(one)).unwrap();
    let mut answers = known.find(2).unwrap().clone();
    let Answer::Scored { nll, .. } = &mut answers[1][0] else { panic!("scores") };
    *nll = nll.next_up();
    journal.keep(2, &answers).unwrap();
    drop((journal, known));
    let before = std::fs::read(&into).unwrap();
    let error = merge_journals(&into, &[contrary]).unwrap_err();
    assert!(matches!(error, EvaluationError::Contradiction { batch: 2, .. }), "{error}");
    assert_eq!(std::fs::read(&into).unwrap(), before);
}

#[test]
fn answers_of_another_form_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, task, is_masked) in tasks() {
        let path = folder.path().join(name);
        let scored = Answer::Scored {
            nll: 1.0,
            tokens: 999,
            is_greedy: true,
            context_nll: None,
            top_logprobs: None,
            divergence: None,
        };
        for answers in [Vec::new(), vec![Vec::new(); 2], vec![vec![scored; 3]; 2]] {
            let mut journal = FileJournal::open(&path, &fingerprint(&task)).unwrap();
            journal.keep(1, &answers).unwrap();
            drop(journal);
            let (outcome, _) = run_in(&path, &task, is_masked, Shard::WHOLE, usize::MAX);
            let error = outcome.unwrap_err();
            assert!(
                matches!(error, EvaluationError::JournalAnswers { batch: 1 }),
                "{name}: {error}"
            );
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_shard_needs_a_journal_and_gives_no_result_alone() {
    let (_, task, _) = tasks().swap_remove(1);
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
    let alone = run(&task, &Both::new(false), shard("0/2"), &mut hooks).unwrap_err();
    let message = alone.to_string();
    assert!(message.contains("shard 0/2") && message.contains("output file"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let (outcome, kept) = run_in(&path, &task, false, shard("0/2"), usize::MAX);
    let message = outcome.unwrap().complete().unwrap_err().to_string();
    assert!(message.starts_with(&format!("{kept} of ")) && message.contains("merge"), "{message}");
}

#[test]
fn batches_from_a_damaged_line_on_are_computed_again() {
    let (_, task, _) = tasks().swap_remove(1);
    let (bits, batches) = undisturbed(&task, false);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    run_in(&path, &task, false, Shard::WHOLE, usize::MAX).0.unwrap();
    let lines: Vec<String> =
        std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    // The first line is the fingerprint.
    let mut damaged = lines.clone();
    damaged[3] = damaged[3].replacen("\"nll\":", "\"nll\":1", 1);
    assert!(damaged != lines);
    std::fs::write(&path, damaged.join("\n") + "\n").unwrap();
    let journal = FileJournal::open(&path, &fingerprint(&task)).unwrap();
    assert_eq!((journal.len(), journal.damages()[0].line), (2, 4));
    drop(journal);
    let (outcome, computed) = run_in(&path, &task, false, Shard::WHOLE, usize::MAX);
    assert_eq!((outcome.unwrap().complete().unwrap(), computed), (bits, batches - 2));
    assert!(std::fs::read_to_string(&path).unwrap() == lines.join("\n") + "\n");
}

#[test]
fn progress_counts_what_is_computed_here() {
    let (_, task, _) = tasks().swap_remove(1);
    let folder = tempfile::tempdir().unwrap();
    let mut totals = Vec::new();
    for index in 0..2 {
        let path = folder.path().join(index.to_string());
        let mut journal = FileJournal::open(&path, &fingerprint(&task)).unwrap();
        let mut last = Progress { done_tokens: 0, total_tokens: 0 };
        let mut hooks = Hooks {
            progress: &mut |progress| last = progress,
            cancelled: &|| false,
            journal: Some(&mut journal),
        };
        let options = RunOptions { shard: Shard::new(index, 2).unwrap(), ..OPTIONS };
        evaluate_each(&task, &Both::new(false), &options, &mut hooks, |_| ()).unwrap();
        assert_eq!(last.done_tokens, last.total_tokens);
        totals.push(last.total_tokens);
    }
    let mut all = 0;
    let mut hooks = Hooks {
        progress: &mut |progress| all = progress.total_tokens,
        cancelled: &|| false,
        journal: None,
    };
    evaluate_each(&task, &Both::new(false), &OPTIONS, &mut hooks, |_| ()).unwrap();
    assert!(totals.iter().all(|part| *part > 0));
    assert_eq!(totals.iter().sum::<u64>(), all);
}

/// Bits of the results of one model, whose batches other shards may have computed, and the number
/// of batches known.
fn bits_of(
    task: &Asked,
    model: &dyn LanguageModel,
    shard: Shard,
    path: Option<&Path>,
) -> Outcome<String> {
    let mut journal = path.map(|path| FileJournal::open(path, &fingerprint(task)).unwrap());
    let mut hooks = Hooks {
        progress: &mut |_| {},
        cancelled: &|| false,
        journal: journal.as_mut().map(|journal| journal as &mut dyn Journal),
    };
    let options = RunOptions { shard, ..OPTIONS };
    match evaluate(task, model, &options, &mut hooks).unwrap() {
        Outcome::Complete(result) => Outcome::Complete(result.protocol),
        Outcome::Part { known, total } => Outcome::Part { known, total },
    }
}

#[test]
fn real_decoders_and_encoders_resume_and_merge_to_the_same_bits() {
    let (decoder, letters) = crate::tests::subject();
    let (encoder, characters) = crate::cloze::tests::parts(true);
    let decoder = Subject::new(&decoder, &letters);
    let mean = Sentence::of(Pooling::Mean);
    let encoder = Subject::new(&encoder, &characters).with_sentence(Some(&mean));
    for (name, task, is_masked) in tasks() {
        let model: &dyn LanguageModel = match name {
            // The decoder has no pooling.
            "all kinds" => continue,
            "pairs" => &encoder,
            _ if is_masked => &encoder,
            _ => &decoder,
        };
        let whole = bits_of(&task, model, Shard::WHOLE, None);
        assert!(matches!(whole, Outcome::Complete(_)), "{name}");
        let folder = tempfile::tempdir().unwrap();
        let paths = ["0", "1"].map(|name| folder.path().join(name));
        for (index, path) in paths.iter().enumerate() {
            let part = bits_of(&task, model, Shard::new(index, 2).unwrap(), Some(path));
            assert!(matches!(part, Outcome::Part { known: 1.., .. }), "{name}: {part:?}");
        }
        // The second half on top of the first, as after an interruption.
        let resumed = folder.path().join("resumed");
        std::fs::copy(&paths[1], &resumed).unwrap();
        assert_eq!(bits_of(&task, model, Shard::WHOLE, Some(&resumed)), whole, "{name}");
        let merged = folder.path().join("merged");
        merge_journals(&merged, &paths).unwrap();
        assert_eq!(bits_of(&task, model, Shard::WHOLE, Some(&merged)), whole, "{name}");
    }
}
