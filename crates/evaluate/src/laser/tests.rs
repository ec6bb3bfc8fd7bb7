//! Five records and more of each form, worked out by hand, with a model that follows rules.

use super::*;
use crate::{
    Generated, Hooks, LanguageModel, ModelFailure, RunOptions, Scored, Sequence, TokenScore,
    TopLogprobs, TopLogprobsRequest, evaluate,
};
use linwright_data::DataError;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::Path;

/// Loss of a word for which there is no rule.
const OTHERWISE: f64 = 9.0;

/// Words as tokens. A rule gives the loss of a word anywhere behind another one; what is written
/// depends on a word of the prompt, too.
#[derive(Default)]
struct Ruled {
    losses: Vec<(&'static str, &'static str, f64)>,
    writes: Vec<(&'static str, &'static str)>,
    vocabulary: RefCell<Vec<String>>,
}

impl Ruled {
    fn id(&self, word: &str) -> u32 {
        let mut vocabulary = self.vocabulary.borrow_mut();
        let known = vocabulary.iter().position(|known| known == word);
        let place = known.unwrap_or_else(|| {
            vocabulary.push(word.to_owned());
            vocabulary.len() - 1
        });
        place as u32
    }

    /// The rules behind these tokens, with the token that each is about.
    fn behind(&self, tokens: &[u32]) -> Vec<(u32, f64)> {
        let holds = |(after, word, loss): &(&str, &str, f64)| {
            tokens.contains(&self.id(after)).then(|| (self.id(word), *loss))
        };
        self.losses.iter().filter_map(holds).collect()
    }

    fn loss(&self, tokens: &[u32], token: u32) -> f64 {
        let rules = self.behind(tokens);
        rules.iter().find(|(id, _)| *id == token).map_or(OTHERWISE, |(_, loss)| *loss)
    }
}

impl LanguageModel for Ruled {
    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelFailure> {
        Ok(text.split_whitespace().map(|word| self.id(word)).collect())
    }

    fn bos(&self) -> Option<u32> {
        None
    }

    fn eos(&self) -> Option<u32> {
        None
    }

    fn adds_bos(&self) -> bool {
        false
    }

    fn max_positions(&self) -> Option<usize> {
        None
    }

    fn score(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<TokenScore>>, ModelFailure> {
        let one = |s: &Sequence<'_>| {
            let tokens = s.first_counted.max(1)..s.tokens.len();
            tokens
                .map(|i| TokenScore {
                    nll: self.loss(&s.tokens[..i], s.tokens[i]),
                    is_greedy: false,
                })
                .collect()
        };
        Ok(sequences.iter().map(one).collect())
    }

    fn score_with_top_logprobs(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Scored, ModelFailure> {
        let found = sequences.iter().zip(top_requests).map(|(sequence, top_request)| {
            let top_request = (*top_request)?;
            let (before, rest) = sequence.tokens.split_at(top_request.token);
            self.behind(before);
            let words = self.vocabulary.borrow().clone();
            let mut all: Vec<(f64, u32)> =
                (0..words.len() as u32).map(|id| (self.loss(before, id), id)).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            let rank = all.iter().position(|(_, id)| *id == rest[0])?;
            let text = |id: u32| format!(" {}", words[id as usize]);
            let tokens = all.into_iter().take(top_request.count);
            Some(TopLogprobs { rank, tokens: tokens.map(|(loss, id)| (text(id), -loss)).collect() })
        });
        Ok(Scored {
            scores: self.score(sequences)?,
            top_logprobs: found.collect(),
            ..Scored::default()
        })
    }

    fn generate(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Generated>, ModelFailure> {
        assert!(generation.until.is_empty() && generation.new_tokens > 1);
        let write = |prompt: &Vec<u32>| {
            let known = self.writes.iter().find(|(word, _)| prompt.contains(&self.id(word)));
            let text = known.map_or(String::new(), |(_, text)| (*text).to_owned());
            Generated { tokens: text.split_whitespace().count(), text }
        };
        Ok(prompts.iter().map(write).collect())
    }
}

fn table(rows: &[Value]) -> Table {
    let text = rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    let path = Path::new("set.jsonl");
    Table::from_bytes(path, text.as_bytes(), TableFormat::Json, None).unwrap()
}

fn task(name: &str, rows: &[Value], options: &LaserOptions) -> Result<LaserTask, EvaluationError> {
    LaserTask::new(LaserSet::named(name).unwrap(), options, &[table(rows)])
}

fn run(name: &str, rows: &[Value], options: &LaserOptions, model: &Ruled) -> TaskResult {
    let task = task(name, rows, options).unwrap();
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
    evaluate(&task, model, &RunOptions::default(), &mut hooks).unwrap().complete().unwrap()
}

fn with(scoring: Scoring) -> LaserOptions {
    LaserOptions { scoring, ..LaserOptions::default() }
}

fn figure(result: &TaskResult, name: &str) -> f64 {
    result.metric(name).unwrap_or_else(|| panic!("{name} of {:?}", result.metrics)).value
}

fn assert_figures(result: &TaskResult, want: &[(&str, f64)]) {
    for (name, want) in want {
        let found = figure(result, name);
        assert!((found - want).abs() < 1e-12, "{}: {name} is {found}, not {want}", result.protocol);
    }
}

fn correct(result: &TaskResult) -> Vec<bool> {
    result.samples.iter().map(|sample| sample.record["correct"] == true).collect()
}

fn claims() -> (Vec<Value>, Ruled) {
    let claim = |claim: &str, label: &str| json!({"claim": claim, "label": label});
    let rows = vec![
        claim("Alpha flies", "SUPPORTS"),
        claim(" Beta swims. ", "REFUTES"),
        claim("Gamma sings?", "REFUTES"),
        claim("Alpha flies", "SUPPORTS"),
        claim("Delta waits", "SUPPORTS"),
        claim("Nobody knows", "NOT ENOUGH INFO"),
        claim("Sigma is both", "SUPPORTS"),
        claim("Omega rests", "SUPPORTS"),
        claim("Sigma is both", "REFUTES"),
    ];
    let losses = vec![
        ("Alpha", "true", 0.5),
        ("Alpha", "false", 1.0),
        ("Beta", "true", 0.25),
        ("Beta", "false", 2.0),
        ("Gamma", "true", 3.0),
        ("Gamma", "false", 1.0),
        ("Delta", "true", 1.5),
        ("Delta", "false", 1.5),
        ("Omega", "true", 1.0),
        // Equal to that in half precision.
        ("Omega", "false", 1.000_01),
    ];
    (rows, Ruled { losses, ..Ruled::default() })
}

#[test]
fn claims_by_hand() {
    let (rows, model) = claims();
    let result = run("laser_fever", &rows, &with(Scoring::Correct), &model);
    // Delta is a tie, of which the first word is taken.
    assert_eq!(correct(&result), [true, false, true, true, true]);
    let want = [
        ("acc", 0.8),
        // (0.5 + 2 + 1 + 1.5 + 1) / 5, each of one token.
        ("log_loss", 1.2),
        ("answer_perplexity", 1.2f64.exp()),
        // Beta's "false" is the second.
        ("top1", 0.8),
        ("top5", 1.0),
    ];
    assert_figures(&result, &want);
    assert_eq!((result.counts.items, result.counts.ties, result.original), (5, 1, 5));
    let left_out = json!({
        "neither true nor false": 1, "duplicate claims": 1, "claims with both labels": 2,
    });
    assert_eq!(result.description["left_out"], left_out);
    assert_eq!(result.protocol, "laser-correct_split-all_bos-auto");
    let first = &result.samples[0].record;
    let prompt =
        "Consider the following claim: Alpha flies. Is this claim true or false. The claim is";
    assert_eq!(first["prompted-question"], prompt);
    assert_eq!((&first["true_logprob"], &first["false_logprob"]), (&json!(-0.5), &json!(-1.0)));
    assert_eq!(result.samples[2].record["question"], "Gamma sings?");
    // Of equals in half precision neither is right.
    let result = run("laser_fever", &rows, &with(Scoring::Compat), &model);
    assert_eq!(correct(&result), [true, false, true, false, false]);
    assert_figures(&result, &[("acc", 0.4), ("log_loss", 1.2)]);
    assert_eq!(result.protocol, "laser-compat_split-all_bos-auto");
}

#[test]
fn splits_are_the_first_fifth_and_the_rest() {
    let (rows, model) = claims();
    let of = |split, limit| LaserOptions { split, limit, ..LaserOptions::default() };
    let first = run("laser_fever", &rows, &of(Split::Validation, None), &model);
    assert_figures(&first, &[("acc", 1.0), ("log_loss", 0.5)]);
    assert_eq!((first.counts.items, first.original), (1, 5));
    let rest = run("laser_fever", &rows, &of(Split::Test, None), &model);
    assert_figures(&rest, &[("acc", 0.75), ("log_loss", 5.5 / 4.0)]);
    assert_eq!(rest.protocol, "laser-correct_split-test_bos-auto");
    let second = run("laser_fever", &rows, &of(Split::Test, Some(1)), &model);
    assert_eq!(correct(&second), [false]);
    let none = task("laser_fever", &rows[..3], &of(Split::Validation, None)).unwrap_err();
    assert_eq!(none.to_string(), "task laser_fever has no records to score");
}

#[test]
fn professions_by_hand() {
    let row = |text: &str, profession: Value| json!({"hard_text": text, "profession": profession, "gender": 0});
    let rows = [
        row("Ada writes.", json!("poet")),
        row("Bo draws", json!(1)),
        row("Cy cures.", json!("physician")),
        row("Di reads.", json!("21")),
        row("Ed plays.", json!("composer")),
        row("Flo walks.", json!(12)),
    ];
    let losses = vec![
        ("Ada", "poet", 0.5),
        ("Ada", "model", 0.75),
        ("Bo", "painter", 1.0),
        ("Bo", "architect", 1.0),
        ("Di", "teacher", 1.0),
        ("Di", "professor", 2.0),
        ("Ed", "composer", 0.5),
        ("Flo", "the", 0.25),
        ("Flo", "model", 2.0),
    ];
    let model = Ruled { losses, ..Ruled::default() };
    let result = run("laser_bios_profession", &rows, &with(Scoring::Correct), &model);
    // Bo: of architect and painter the first is taken. Flo: "the" is not a choice.
    assert_eq!(correct(&result), [true, true, false, true, true]);
    let want = [("acc", 0.8), ("log_loss", 6.0 / 5.0), ("top1", 0.6), ("top5", 1.0)];
    assert_figures(&result, &want);
    assert_eq!(result.description["left_out"], json!({"other professions": 1}));
    assert_eq!(result.samples[2].record["predicted-answer-ix"], 4);
    // Among several words the first of equals is right in either way.
    let compat = run("laser_bios_profession", &rows, &with(Scoring::Compat), &model);
    assert_eq!(correct(&compat), correct(&result));
    let prompt = "Consider the following text: Bo draws. What is the profession of the person in \
                  this text? The profession of this person is";
    assert_eq!(result.samples[1].record["prompted-question"], prompt);
}

#[test]
fn written_answers_by_hand() {
    let row = |question: &str, answer: &str| json!({"question": question, "answer": answer});
    let long = "one two three four five six seven eight nine ten eleven twelve 13 14 15";
    let rows = [
        row("Where does Alpha live?", "Paris"),
        row("Who sang Yes Please", "Yes"),
        row("What did Gamma see.", "Lake House"),
        row("Who counts?", long),
        row("Where is Delta?", "Rome"),
        row("How many of Omega?", "3,677 seated"),
    ];
    let losses = vec![("Alpha", "Paris", 1.0), ("Gamma", "Lake", 2.0), ("Lake", "House", 0.5)];
    let writes = vec![
        ("Alpha", " it is paris ."),
        ("Please?", " nobody"),
        ("Gamma", " the lake house was"),
        ("Omega?", " about 3,677 Seated people"),
    ];
    let model = Ruled { losses, writes, ..Ruled::default() };
    let result = run("laser_hotpotqa", &rows, &with(Scoring::Correct), &model);
    assert_eq!(correct(&result), [true, false, true, false, true]);
    let want = [
        ("acc", 0.6),
        // {it, is, paris, .}: p = 1/4, r = 1; {the, lake, house, was}: 1/2, 1; {about, 3,677,
        // seated, people}: 1/2, 1.
        ("f1", (0.4 + 2.0 / 3.0 + 2.0 / 3.0) / 5.0),
        // Per token: 1, 9, (2 + 0.5) / 2, 9, 9.
        ("log_loss", (1.0 + 9.0 + 1.25 + 9.0 + 9.0) / 5.0),
        // Tokens: 1, 1, 2, 1, 2.
        ("answer_perplexity", ((1.0 + 9.0 + 2.5 + 9.0 + 18.0) / 7.0f64).exp()),
    ];
    assert_figures(&result, &want);
    let left_out = json!({"answers of more than 14 tokens": 1});
    assert_eq!(result.description["left_out"], left_out);
    assert_eq!(result.samples[1].record["prompted-question"], "Who sang Yes Please? The answer is");
    assert_eq!(result.samples[4].record["ix"], 5);
    // The question of "Yes" has the answer in it. Of {what, did, gamma, see, ., the, answer, is,
    // lake, house, was} two are {lake, house}.
    let result = run("laser_hotpotqa", &rows, &with(Scoring::Compat), &model);
    assert_eq!(correct(&result), [true, true, true, false, true]);
    let third = &result.samples[2].record;
    let f1 = 2.0 * (2.0 / 11.0) / (1.0 + 2.0 / 11.0);
    assert!((third["f1_score"].as_f64().unwrap() - f1).abs() < 1e-12, "{third:?}");
    assert_eq!(result.protocol, "laser-compat_new-15_split-all_bos-auto");
}

#[test]
fn next_tokens_by_hand() {
    let fact = |prompt: &str, other: &str, answer: &str| json!({"prompt": prompt, "rephrase_prompt": other, "ground_truth": answer, "target_new": "x"});
    let rows = [
        fact("Alpha speaks", "The tongue of Beta is", "French"),
        fact("Gamma plays", "Delta plays", "chess"),
        fact("Omega lives in", "Sigma lives in", "New York"),
    ];
    let losses = vec![
        ("Alpha", "French", 0.5),
        ("Beta", "french", 0.5),
        ("Beta", "French", 1.5),
        ("Gamma", "go", 0.5),
        ("Gamma", "chess", 1.0),
        ("Omega", "New", 0.5),
        ("New", "York", 0.25),
    ];
    let model = Ruled { losses, ..Ruled::default() };
    let options =
        |scoring| LaserOptions { new_tokens: Some(1), whole_texts: true, ..with(scoring) };
    let result = run("laser_counterfact", &rows, &options(Scoring::Correct), &model);
    // Case is folded; the most likely token alone is never "New York".
    assert_eq!(correct(&result), [true, true, false, false, false, false]);
    assert_figures(&result, &[("acc", 2.0 / 6.0), ("top1", 2.0 / 6.0), ("top5", 4.0 / 6.0)]);
    let groups: Vec<&str> = result.groups.iter().map(|group| group.group.as_str()).collect();
    assert_eq!(groups, ["main", "paraphrase"]);
    assert_eq!(result.groups[0].metrics[0].value, 1.0 / 3.0);
    let first = &result.samples[0].record;
    assert_eq!(
        (&first["generation"], &first["top_10_tokens"][0]),
        (&json!(" French"), &json!(" French"))
    );
    assert_eq!(first["top_10_logprob"][0], -0.5);
    // "speaks" has no rule; "Alpha" is predicted by nothing.
    assert_eq!(first["question_logprob"], -OTHERWISE);
    assert_eq!(first["total_logprob"], -OTHERWISE - 0.5);
    assert_eq!((&first["answer_length"], &first["question_answer_length"]), (&json!(1), &json!(3)));
    let fifth = &result.samples[4].record;
    assert_eq!((&fifth["answer_logprob"], &fifth["answer_length"]), (&json!(-0.75), &json!(2)));
    // The paper's code looks for whole answers among tokens, whatever their case.
    let compat = run("laser_counterfact", &rows, &options(Scoring::Compat), &model);
    assert_eq!(correct(&compat), correct(&result));
    assert_figures(&compat, &[("top1", 2.0 / 6.0), ("top5", 3.0 / 6.0)]);
}

#[test]
fn two_answers_of_several_forms_by_hand() {
    let rows = [
        json!({"input": "Alpha? ", "target_scores": {"Yes": 1, "No": 0}}),
        json!({"inputs": "Beta?", "multiple_choice_targets": ["Yes", "No"], "multiple_choice_scores": [0, 1], "targets": ["No"]}),
        json!({"input": "Gamma?", "target": "no"}),
        json!({"input": "Delta?", "target_scores": {"No": 0, "Yes": 1}}),
        json!({"input": "Omega?", "targets": ["Yes"]}),
    ];
    let losses = vec![
        ("Alpha?", "Yes", 0.5),
        ("Beta?", "Yes", 0.5),
        ("Beta?", "No", 1.0),
        ("Gamma?", "No", 0.25),
        ("Delta?", "No", 2.0),
        ("Delta?", "Yes", 1.75),
    ];
    let model = Ruled { losses, ..Ruled::default() };
    let result = run("laser_web_of_lies", &rows, &with(Scoring::Correct), &model);
    assert_eq!(correct(&result), [true, false, true, true, true]);
    assert_figures(&result, &[("acc", 0.8), ("log_loss", (0.5 + 1.0 + 0.25 + 1.75 + 9.0) / 5.0)]);
    assert_eq!(result.samples[0].record["prompted-question"], "Alpha? ");
    // The texts of the other sets with two answers are read by the same code.
    let row = json!({"input": "Alpha?", "target_scores": {"entailment": 0, "non-entailment": 1.0}});
    let other = task("laser_epistemic_reasoning", &[row], &with(Scoring::Correct)).unwrap();
    assert_eq!(other.records[0].answer, "non-entailment");
    let row = json!({"input": "Alpha?", "target_scores": {"Yes": 0, "No": 1}});
    let other = task("laser_causal_judgement", &[row], &with(Scoring::Correct)).unwrap();
    assert_eq!((other.records[0].gold, other.requests(&other.records[0]).len()), (1, 2));
}

fn records(name: &str, rows: &[Value]) -> Vec<Record> {
    task(name, rows, &with(Scoring::Correct)).unwrap().records
}

#[test]
fn facts_of_rome_have_three_prompts() {
    let row = json!({
        "case_id": 0,
        "requested_rewrite": {"prompt": "The mother tongue of {} is", "subject": "Ann", "target_true": {"str": "French", "id": "Q150"}},
        "paraphrase_prompts": ["Someone. Ann was born in", "Ann speaks "],
    });
    let found = records("laser_counterfact", &[row]);
    let prompts: Vec<&str> = found.iter().map(|record| record.prompt.as_str()).collect();
    assert_eq!(prompts, ["The mother tongue of Ann is", "Someone. Ann was born in", "Ann speaks"]);
    assert!(found.iter().all(|record| record.answer == "French"));
    assert_eq!(found[2].place, "set.jsonl, line 1, prompt 2");
}

#[test]
fn statements_are_made_of_either_form_of_truthfulqa() {
    let row = json!({
        "question": "Why?", "mc2_targets": {"choices": ["So", "Not so."], "labels": [1, 0]},
    });
    let columns = json!({
        "Question": "Why?", "Best Answer": "So", "Correct Answers": "So; ", "Incorrect Answers": "Not so.",
    });
    let (found, others) =
        (records("laser_truthfulqa", &[row]), records("laser_truthfulqa", &[columns]));
    assert_eq!(found, others);
    let prompts: Vec<&str> = found.iter().map(|record| record.prompt.as_str()).collect();
    let end = "Is this statement true or false? This statement is";
    assert_eq!(prompts, [format!("Why? So.{end}"), format!("Why? Not so.{end}")]);
    assert_eq!((found[0].gold, found[1].gold), (0, 1));
}

#[test]
fn targets_of_wikidata_are_single() {
    let rows = [
        json!({"context": " The tongue of Ann is ", "continuation": "French"}),
        json!({"input": "The home of Ann is", "target": ["Rome"]}),
        json!({"input": "The homes of Ann are", "target": ["Rome", "Paris"]}),
        json!({"inputs": "The game of Ann is", "targets": ["go"]}),
    ];
    let made = task("laser_qa_wikidata", &rows, &with(Scoring::Correct)).unwrap();
    let answers: Vec<&str> = made.records.iter().map(|record| record.answer.as_str()).collect();
    assert_eq!(answers, ["French", "Rome", "go"]);
    assert_eq!(made.records[0].prompt, "The tongue of Ann is");
    assert_eq!(made.left_out, [("several targets", 1)]);
}

/// Rows that cannot be used, with their sets and what is said of them.
fn bad_rows() -> [(&'static str, Value, &'static str); 18] {
    let bios = |gender: Value, profession: Value| json!({"hard_text": "a", "gender": gender, "profession": profession});
    let rewrite = |prompt: &str| json!({"requested_rewrite": {"prompt": prompt, "subject": "a", "target_true": {"str": "b"}}});
    [
        (
            "laser_fever",
            json!({"label": "SUPPORTS"}),
            "field `claim` is missing; the fields are [\"label\"]",
        ),
        (
            "laser_fever",
            json!({"claim": "a", "label": "maybe"}),
            "field `label` is \"maybe\", expected SUPPORTS, REFUTES or NOT ENOUGH INFO",
        ),
        (
            "laser_fever",
            json!({"claim": " ", "label": "REFUTES"}),
            "field `claim` is \" \", expected a text that is not empty",
        ),
        (
            "laser_bios_gender",
            bios(json!(2), json!(1)),
            "field `gender` is 2, expected 0 or male, 1 or female",
        ),
        (
            "laser_bios_profession",
            bios(json!(1), json!(28)),
            "field `profession` is 28, expected a profession",
        ),
        ("laser_bios_profession", bios(json!(1), json!("king")), "field `profession` is \"king\""),
        (
            "laser_counterfact",
            json!({"subject": "a"}),
            "field `requested_rewrite` or `prompt` is missing",
        ),
        ("laser_counterfact", rewrite("no place"), "expected {} in place of the subject"),
        ("laser_counterfact", rewrite("a {}"), "field `paraphrase_prompts` is missing"),
        (
            "laser_counterfact",
            json!({"requested_rewrite": {"prompt": "{}"}}),
            "field `requested_rewrite.subject` is null",
        ),
        (
            "laser_truthfulqa",
            json!({"question": "a"}),
            "field `Correct Answers` or `mc2_targets` is missing",
        ),
        (
            "laser_truthfulqa",
            json!({"question": "a", "mc2_targets": {"choices": ["b"], "labels": [1, 0]}}),
            "expected a list of 1 labels",
        ),
        (
            "laser_truthfulqa",
            json!({"question": "a", "mc2_targets": {"choices": ["b"], "labels": [3]}}),
            "field `mc2_targets.labels` is 3, expected 0 or 1",
        ),
        ("laser_hotpotqa", json!({"question": "a"}), "field `answer` is missing"),
        (
            "laser_causal_judgement",
            json!({"input": "a", "target_scores": {"Yes": 1, "No": 1}}),
            "expected one of Yes and No as the correct one",
        ),
        (
            "laser_causal_judgement",
            json!({"input": "a", "target_scores": {"True": 1, "False": 0}}),
            "field `target_scores` is \"True\", expected Yes or No",
        ),
        ("laser_web_of_lies", json!({"input": "a", "target": 3}), "field `target` is 3"),
        (
            "laser_qa_wikidata",
            json!({"context": "a", "continuation": []}),
            "expected at least one text",
        ),
    ]
}

#[test]
fn bad_rows_are_named() {
    let good = json!({"claim": "a", "label": "SUPPORTS"});
    for (name, row, want) in bad_rows() {
        let first = if name == "laser_fever" { good.clone() } else { row.clone() };
        let line = if name == "laser_fever" { 2 } else { 1 };
        let error = task(name, &[first, row], &with(Scoring::Correct)).unwrap_err();
        assert!(matches!(error, EvaluationError::Data(DataError::BadRecord { .. })), "{error:?}");
        let message = error.to_string();
        assert!(message.starts_with(&format!("set.jsonl, line {line}: ")), "{message}");
        assert!(message.contains(want), "{message:?} lacks {want:?}");
    }
}

#[test]
fn files_are_named_and_read_in_order() {
    let set = LaserSet::named("laser_fever").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, claim: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, json!({"claim": claim, "label": "REFUTES"}).to_string()).unwrap();
        path
    };
    let files = vec![file("b.jsonl", "first"), file("a.jsonl", "second")];
    let options = LaserOptions { files, ..LaserOptions::default() };
    let opened = LaserTask::open(set, &options).unwrap();
    let questions: Vec<&str> =
        opened.records.iter().map(|record| record.question.as_str()).collect();
    assert_eq!(questions, ["first", "second"]);
    let none = LaserTask::open(set, &LaserOptions::default()).unwrap_err().to_string();
    assert_eq!(none, "laser_fever: there are no records; give --data laser_fever=FILE");
    let options = LaserOptions { files: vec!["claims.txt".into()], ..LaserOptions::default() };
    let text = LaserTask::open(set, &options).unwrap_err().to_string();
    assert!(text.contains("claims.txt: expected a .jsonl, .json, .csv, "), "{text}");
}

#[test]
fn names_are_told_apart() {
    let mut names: Vec<&str> = LASER_TASKS.iter().map(|set| set.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 10);
    assert!(names.iter().all(|name| name.starts_with("laser_")));
}

/// Replies of a masked model to one record each: likelihoods of the choices or the answer with its
/// tokens, and what was written.
fn filled(replies: &[(&[(f64, usize)], &str)]) -> Vec<Vec<Reply>> {
    let reply = |(answers, text): &(&[(f64, usize)], &str)| {
        vec![Reply::Infilled {
            answers: answers.to_vec(),
            text: (*text).to_owned(),
            details: Box::default(),
            truncated: 0,
        }]
    };
    replies.iter().map(reply).collect()
}

#[test]
fn cloze_by_hand() {
    let rows: Vec<Value> = (0..5)
        .map(|i| {
            json!({
                "question": format!("Where is {i}"), "answer": "New York",
                "prompt": format!("It {i} is"), "rephrase_prompt": "x", "ground_truth": "Rome",
            })
        })
        .collect();
    let replies = filled(&[
        (&[(-2.0, 2)], " in New York , ,"),
        (&[(-4.0, 2)], " New , York , ,"),
        (&[(-6.0, 2)], "new york"),
        (&[(-1.0, 2)], ""),
        (&[(-3.0, 2)], " York"),
    ]);
    let result = |scoring| {
        let opened = task("laser_hotpotqa", &rows, &with(scoring)).unwrap();
        opened.score(&replies, false).unwrap()
    };
    let found = result(Scoring::Correct);
    assert_eq!(correct(&found), [true, false, true, false, false]);
    assert_figures(&found, &[("acc", 0.4), ("log_loss", 8.0 / 5.0)]);
    assert_eq!(found.protocol, "laser-correct_masked_new-5_split-all_bos-auto");
    // The masks are counted from one on: three for each answer.
    assert_figures(&result(Scoring::Compat), &[("log_loss", 16.0 / 15.0)]);
    // What is asked: the prompt, and five masks to write in.
    let opened = task("laser_hotpotqa", &rows, &with(Scoring::Correct)).unwrap();
    let Some(Request::Cloze(cloze)) = opened.cloze_items().unwrap()[0].requests.first().cloned()
    else {
        panic!("a cloze request was expected");
    };
    assert_eq!(cloze.context, "Where is 0? The answer is");
    assert_eq!((cloze.filled_masks, cloze.answers[0].as_str()), (5, " New York"));
    // One mask in CounterFact: the most likely token must be the answer.
    let opened = task("laser_counterfact", &rows[..2], &with(Scoring::Correct)).unwrap();
    let replies = filled(&[
        (&[(-1.0, 1)], " rome"),
        (&[(-1.0, 1)], " Romeo"),
        (&[(-1.0, 1)], "Rome"),
        (&[(-1.0, 1)], ""),
    ]);
    let found = opened.score(&replies, false).unwrap();
    assert_eq!(correct(&found), [true, false, true, false]);
    assert_eq!(found.protocol, "laser-correct_masked_new-1_split-all_bos-auto");
    let bios = json!({"hard_text": "He sings", "gender": 0, "profession": 5});
    let opened = task("laser_bios_gender", &[bios], &with(Scoring::Correct)).unwrap();
    let Some(Request::Cloze(cloze)) = opened.cloze_items().unwrap()[0].requests.first().cloned()
    else {
        panic!("a cloze request was expected");
    };
    assert_eq!(cloze.context, "Consider the following text: He sings.");
    assert_eq!((cloze.before.as_ref(), cloze.after.as_ref()), ("This person is", "."));
    assert_eq!(
        (cloze.max_context_tokens, cloze.answers),
        (Some(50), vec![" male".to_owned(), " female".to_owned()])
    );
    let other = json!({"input": "Is it?", "target": "Yes"});
    assert!(
        task("laser_web_of_lies", &[other], &with(Scoring::Correct))
            .unwrap()
            .cloze_items()
            .is_none()
    );
}
