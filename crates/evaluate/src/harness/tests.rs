//! Tasks of five documents, scored the slow way.

use super::*;
use crate::overlap;
use crate::tests::{Fake, log_likelihood, run_with};
use linwright_data::{CalibrationText, Corpus, Format};
use serde_json::json;
use std::fs;
use tempfile::TempDir;

/// A folder with a task file and rows.
fn folder(task: &str, rows: &[Value]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
    fs::write(folder.path().join("rows.jsonl"), lines.join("\n")).unwrap();
    let head = "task: mine\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl, \
                train: rows.jsonl}}\ntest_split: test\n";
    fs::write(folder.path().join("mine.yaml"), format!("{head}{task}")).unwrap();
    folder
}

fn open(folder: &TempDir, options: &HarnessOptions<'_>) -> Result<HarnessTask, EvaluationError> {
    HarnessTask::open(folder.path().join("mine.yaml").to_str().unwrap(), options)
}

fn result(folder: &TempDir, options: &HarnessOptions<'_>) -> TaskResult {
    run_with(&open(folder, options).unwrap(), &Fake::default(), 100).unwrap()
}

fn figure(result: &TaskResult, name: &str) -> f64 {
    result.metric(name).unwrap_or_else(|| panic!("no {name} in {:?}", result.metrics)).value
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} and {b}");
}

fn rows() -> Vec<Value> {
    let row = |i: usize| json!({"q": format!("What {i}?"), "a": ["yes", "no no", "x"], "gold": i % 3, "name": "no no"});
    (0..5).map(row).collect()
}

const CHOICE: &str = "output_type: multiple_choice\ndoc_to_text: \"{{q}} A:\"\ndoc_to_choice: a\n\
                      metadata: {version: 1.5}\n";

fn best(scores: &[f64]) -> usize {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap()
}

#[test]
fn choices_are_scored_as_by_hand() {
    let folder = folder(
        &format!(
            "{CHOICE}doc_to_target: gold\nmetric_list:\n- {{metric: acc}}\n- {{metric: acc_norm}}\n\
             - {{metric: acc_mutual_info}}\n- {{metric: brier_score}}\n"
        ),
        &rows(),
    );
    let result = result(&folder, &HarnessOptions::default());
    let choices = ["yes", "no no", "x"];
    let (mut acc, mut norm, mut gain, mut brier) = (0.0, 0.0, 0.0, 0.0);
    for i in 0..5 {
        let scores = choices.map(|c| log_likelihood(&format!("What {i}? A:"), &format!(" {c}")));
        let lengths = [3.0, 5.0, 1.0];
        let shares: Vec<f64> = scores.iter().zip(lengths).map(|(s, l)| s / l).collect();
        let alone = choices.map(|c| log_likelihood("", &format!(" {c}")));
        let gains: Vec<f64> = scores.iter().zip(alone).map(|(s, a)| s - a).collect();
        let is_right = |scores: &[f64]| f64::from(u8::from(best(scores) == i % 3));
        acc += is_right(&scores) / 5.0;
        norm += is_right(&shares) / 5.0;
        gain += is_right(&gains) / 5.0;
        let sum: f64 = scores.iter().map(|s| s.exp()).sum();
        let truth = |c: usize| f64::from(u8::from(c == i % 3));
        brier += (0..3).map(|c| (scores[c].exp() / sum - truth(c)).powi(2)).sum::<f64>() / 5.0;
    }
    close(figure(&result, "acc"), acc);
    close(figure(&result, "acc_norm"), norm);
    close(figure(&result, "acc_mutual_info"), gain);
    close(figure(&result, "brier_score"), brier);
    assert_eq!((result.version, result.original, result.samples.len()), (1.5, 5, 5));
    assert_eq!(result.metric("acc").unwrap().filter, "none");
    let record = &result.samples[1].record;
    assert_eq!(
        record["arguments"]["gen_args_1"],
        json!({"arg_0": "What 1? A:", "arg_1": " no no"})
    );
    assert_eq!((&record["doc_id"], &record["target"]), (&json!(1), &json!("1")));
}

#[test]
fn answers_are_found_by_name_and_several_may_be_right() {
    let by_name = folder(&format!("{CHOICE}doc_to_target: \"{{{{name}}}}\"\n"), &rows());
    let several = folder(&format!("{CHOICE}doc_to_target: [0, 1, 2]\n"), &rows());
    let result_by_name = result(&by_name, &HarnessOptions::default());
    let right = (0..5).filter(|i| {
        let score = |c: &&str| log_likelihood(&format!("What {i}? A:"), &format!(" {c}"));
        best(&["yes", "no no", "x"].iter().map(score).collect::<Vec<_>>()) == 1
    });
    close(figure(&result_by_name, "acc"), right.count() as f64 / 5.0);
    close(figure(&result(&several, &HarnessOptions::default()), "acc"), 1.0);
}

#[test]
fn a_continuation_and_a_text_are_scored_as_by_hand() {
    let last = folder(
        "output_type: loglikelihood\ndoc_to_text: \"{{q}}\"\ndoc_to_target: \" {{name}}\"\n",
        &rows(),
    );
    let result_last = result(&last, &HarnessOptions::default());
    let sum: f64 = (0..5).map(|i| log_likelihood(&format!("What {i}?"), " no no")).sum();
    close(figure(&result_last, "perplexity"), (-sum / 5.0).exp());
    assert!(result_last.metric("perplexity").unwrap().stderr.is_some());
    let text = folder("output_type: loglikelihood_rolling\ndoc_to_target: \"{{q}}\"\n", &rows());
    let result_text = result(&text, &HarnessOptions { bos: Bos::Never, ..Default::default() });
    let sum: f64 = (0..5).map(|i| log_likelihood("", &format!("What {i}?"))).sum();
    close(figure(&result_text, "word_perplexity"), (-sum / 10.0).exp());
    close(figure(&result_text, "bits_per_byte"), -sum / 35.0 / std::f64::consts::LN_2);
    // A tokenizer that begins texts by itself has its token predicted, too, as in the harness.
    let twice = result(&text, &HarnessOptions { bos: Bos::Always, ..Default::default() });
    assert_eq!(twice.counts.tokens_counted, result_text.counts.tokens_counted + 5);
}

#[test]
fn what_is_written_is_filtered_and_compared() {
    let row =
        |i: usize| json!({"q": "uvw", "answer": if i.is_multiple_of(2) { "xy" } else { "X" }});
    let rows: Vec<Value> = (0..5).map(row).collect();
    let task = "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: answer\n\
                generation_kwargs: {until: [\"z\"], max_gen_toks: 5, do_sample: false}\n\
                metric_list:\n- {metric: exact_match, ignore_case: true}\nfilter_list:\n\
                - {name: all, filter: [{function: take_first}]}\n\
                - {name: first, filter: [{function: regex, regex_pattern: '(.).'}]}\n";
    let result = result(&folder(task, &rows), &HarnessOptions::default());
    let figures: Vec<(&str, f64)> =
        result.metrics.iter().map(|m| (m.filter.as_str(), m.value)).collect();
    assert_eq!(figures, [("all", 0.6), ("first", 0.4)]);
    assert_eq!(result.samples.len(), 10);
    assert_eq!(result.samples[0].record["resps"], json!([["xy"]]));
}

#[test]
fn examples_come_before_the_document_and_are_not_the_document() {
    let task = format!(
        "{CHOICE}doc_to_target: gold\ntraining_split: train\ndescription: \"Head. \"\n\
         fewshot_config: {{sampler: first_n}}\n"
    );
    let folder_first = folder(&task, &rows());
    let options = HarnessOptions { shots: Some(2), ..Default::default() };
    let task = open(&folder_first, &options).unwrap();
    let context = |index: usize| task.prompts[index].contexts[0].clone();
    assert_eq!(context(4), "Head. What 0? A: yes\n\nWhat 1? A: no no\n\nWhat 4? A:");
    // Without a split of their own the test split is not the one of the examples.
    assert_eq!(context(0), "Head. What 0? A: yes\n\nWhat 1? A: no no\n\nWhat 0? A:");
    let drawn = folder(
        &format!("{CHOICE}doc_to_target: gold\nfewshot_split: test\nnum_fewshot: 4\n"),
        &rows(),
    );
    let task = open(&drawn, &HarnessOptions::default()).unwrap();
    assert_eq!(task.shots(), 4);
    for (index, prompt) in task.prompts.iter().enumerate() {
        let own = format!("What {index}?");
        assert_eq!(prompt.contexts[0].matches(&own).count(), 1, "{}", prompt.contexts[0]);
    }
    let message = open(&drawn, &HarnessOptions { shots: Some(5), ..Default::default() });
    assert!(message.unwrap_err().to_string().contains("5 shots need 6 examples"));
}

#[test]
fn contexts_may_hold_the_choices() {
    let row = |answer: &str| json!({"sentence": "Ann met Bea as _ left .", "option1": "Ann", "option2": "Bea", "answer": answer});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.jsonl");
    fs::write(&path, format!("{}\n{}\n", row("1"), row("2"))).unwrap();
    let data = vec![DataFile { task: "winogrande".into(), split: None, path }];
    let options = HarnessOptions { data, ..Default::default() };
    let task = HarnessTask::open("winogrande", &options).unwrap();
    let result = run_with(&task, &Fake::default(), 100).unwrap();
    let score = |option| log_likelihood(&format!("Ann met Bea as {option}"), " left .");
    let first_wins = score("Ann") > score("Bea");
    close(figure(&result, "acc"), 0.5);
    let right = result.samples[usize::from(!first_wins)].numbers["acc"];
    close(right, 1.0);
}

#[test]
fn what_does_not_fit_is_refused_by_place() {
    let own = |lines: &str| format!("{CHOICE}{lines}");
    let no_choices = vec![json!({"q": "Q", "a": [], "gold": 0})];
    let empty = vec![json!({"q": "Q", "a": ["x", ""], "gold": 0})];
    let missing = vec![json!({"q": "Q", "a": ["x"], "gold": 0}), json!({"q": "Q", "gold": 0})];
    let mut outside = rows();
    outside[1]["gold"] = json!(3);
    let mut named = rows();
    named[0]["nobody"] = json!("nobody");
    for (task, rows, want) in [
        (own("doc_to_target: gold\n"), no_choices, "line 1: doc_to_choice of task mine: is an empty list"),
        (own("doc_to_target: gold\n"), empty, "choice 1 is empty"),
        (own("doc_to_target: gold\n"), missing, "line 2: doc_to_choice of task mine: the field a is missing"),
        (own("doc_to_target: \"{{nothing}}\"\n"), rows(), "doc_to_target of task mine: line 1 of the template"),
        (own("doc_to_target: gold\n"), outside, "line 2: doc_to_target of task mine: is 3, expected the index of a choice, 0 to 2"),
        (own("doc_to_target: '{{nobody}}'\n"), named, "is \"nobody\", expected the index of a choice"),
        (own("doc_to_target: gold\nmetric_list: [{metric: bleu}]\n"), rows(), "metric \"bleu\""),
        (own("doc_to_target: gold\nprocess_docs: !function mnli.doc_to_text\n"), rows(), "does not change documents"),
        ("output_type: multiple_choice\ndoc_to_target: gold\n".into(), rows(), "doc_to_choice is missing"),
        ("output_type: multiple_choice\ndoc_to_choice: a\n".into(), rows(), "doc_to_target is missing"),
        (
            "output_type: generate_until\ndoc_to_target: gold\ngeneration_kwargs: {temperature: 0.7}\n".into(),
            rows(),
            "only greedy decoding",
        ),
    ] {
        let message = open(&folder(&task, &rows), &HarnessOptions::default()).unwrap_err().to_string();
        assert!(message.contains(want), "{message:?} lacks {want:?}");
    }
    let message =
        HarnessTask::open("arc_easy", &HarnessOptions::default()).unwrap_err().to_string();
    assert!(message.contains("--data arc_easy:test=FILE"), "{message}");
}

#[test]
fn documents_can_be_named_by_index() {
    let folder = folder(&format!("{CHOICE}doc_to_target: gold\n"), &rows());
    let chosen = |indices: &[usize]| HarnessOptions {
        samples: [("mine".to_owned(), indices.to_vec())].into(),
        limit: Some(1),
        ..Default::default()
    };
    let result = result(&folder, &chosen(&[4, 1]));
    let ids: Vec<&Value> = result.samples.iter().map(|s| &s.record["doc_id"]).collect();
    assert_eq!((ids, result.original), (vec![&json!(1), &json!(4)], 5));
    for (indices, want) in [
        (&[1, 5][..], "samples name document 5, there are 0 to 4"),
        (&[1, 1], "a document twice"),
        (&[], "no document"),
    ] {
        let message = open(&folder, &chosen(indices)).unwrap_err().to_string();
        assert!(message.contains(want), "{message:?} lacks {want:?}");
    }
    // Those of another task change nothing.
    let other =
        HarnessOptions { samples: [("x".to_owned(), vec![9])].into(), ..Default::default() };
    assert_eq!(open(&folder, &other).unwrap().prompts.len(), 5);
}

#[test]
fn every_file_is_told_and_repeated_ids_are_noted() {
    let mut rows = rows();
    rows[0]["id"] = json!("a");
    rows[3]["id"] = json!("a");
    let folder = folder(&format!("{CHOICE}doc_to_target: gold\ntraining_split: train\n"), &rows);
    let options = HarnessOptions { shots: Some(0), ..Default::default() };
    let alone = result(&folder, &options);
    let splits = |result: &TaskResult| -> Vec<String> {
        result.files.iter().map(|file| file.split.clone()).collect()
    };
    assert_eq!((splits(&alone), &alone.files[0].sha256), (vec!["test".into()], &alone.data_sha256));
    let [note] = alone.notes.as_slice() else { panic!("{:?}", alone.notes) };
    assert!(note.ends_with("rows.jsonl, line 4: id \"a\" is that of line 1 as well"), "{note}");
    let with_examples = HarnessOptions { shots: Some(1), ..Default::default() };
    let result_with = result(&folder, &with_examples);
    assert_eq!(splits(&result_with), ["test", "train"]);
    // Both splits are one file, so one note each.
    assert_eq!(result_with.notes.len(), 2);
}

#[test]
fn overlap_leaves_examples_out() {
    let row = |i: usize| json!({"q": format!("Document {i} tells of a lamp that somebody lit by the old mill at night, and"), "a": ["went", "left"], "gold": 0});
    let folder = folder(
        &format!(
            "{CHOICE}doc_to_target: gold\ntraining_split: train\nfewshot_config: {{sampler: first_n}}\n"
        ),
        &(0..4).map(row).collect::<Vec<_>>(),
    );
    let options = HarnessOptions { shots: Some(1), ..Default::default() };
    let task = open(&folder, &options).unwrap();
    let text = "{\"text\": \"Once document 2 tells of a lamp that somebody lit by the old mill.\"}";
    let path = std::path::Path::new("c.jsonl");
    let corpus = Corpus::from_bytes(path, text.as_bytes(), Format::Jsonl, None).unwrap();
    let found = overlap(&task, &CalibrationText::new(&[corpus]));
    assert_eq!((found.documents, found.overlapping), (4, 1));
    assert!(found.first[0].document.ends_with("line 3"), "{found:?}");
    let text = "{\"text\": \"document 0 tells of a lamp that somebody lit by the old mill\"}";
    let corpus = Corpus::from_bytes(path, text.as_bytes(), Format::Jsonl, None).unwrap();
    let found = overlap(&task, &CalibrationText::new(&[corpus]));
    assert_eq!(found.overlapping, 1, "document 0 stands before all others as an example");
}

/// Texts to learn from of a task file with these lines.
fn learned(task: &str, rows: &[Value]) -> Option<Vec<String>> {
    let folder = folder(task, rows);
    let options =
        HarnessOptions { shots: Some(0), to_learn_from: true, ..HarnessOptions::default() };
    let found = open(&folder, &options).unwrap().answered()?;
    Some(found.documents.into_iter().map(|document| document.text).collect())
}

#[test]
fn right_answers_stand_where_the_model_reads_them() {
    let row = |q: &str, a: Value, gold: Value| vec![json!({"q": q, "a": a, "gold": gold})];
    let plain = || row("What?", json!(["yes", "no"]), json!(1));
    let choice = format!("{CHOICE}doc_to_target: gold\n");
    let generated = "output_type: generate_until\ndoc_to_text: \"{{q}} A:\"\ndoc_to_target: a\n";
    for (task, rows, want) in [
        (choice.as_str(), plain(), "What? A: no"),
        // With both spaces, as it is scored.
        (&choice.replace("A:", "A: "), plain(), "What? A:  no"),
        (generated, row("What?", json!("yes"), json!(0)), "What? A: yes"),
        (generated, row("What?", json!(["first", "second"]), json!(0)), "What? A: first"),
        (
            "output_type: loglikelihood\ndoc_to_text: \"{{q}}\"\ndoc_to_target: \" {{a}}\"\n",
            row("What?", json!("yes"), json!(0)),
            "What? yes",
        ),
        (
            "output_type: loglikelihood_rolling\ndoc_to_text: \"\"\ndoc_to_target: \"{{q}}\"\n",
            row("What is this?", json!(""), json!(0)),
            "What is this?",
        ),
    ] {
        assert_eq!(learned(task, &rows), Some(vec![want.to_owned()]), "{task}");
    }
}

#[test]
fn documents_to_learn_from_are_of_the_first_split_with_data() {
    let lines = format!("{CHOICE}doc_to_target: gold\n");
    let of = |split: &str| -> String {
        let folder = folder(&format!("{lines}{split}\n"), &rows());
        let options = HarnessOptions { to_learn_from: true, ..HarnessOptions::default() };
        open(&folder, &options).unwrap().answered().unwrap().data[0].split.clone()
    };
    assert_eq!(of("training_split: train"), "train");
    // There are no files of these.
    assert_eq!(of("training_split: absent"), "test");
    assert_eq!(of("validation_split: absent"), "test");
}
