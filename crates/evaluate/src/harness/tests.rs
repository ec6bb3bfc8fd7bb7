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
        (
            own("doc_to_target: gold\n"),
            no_choices,
            "line 1: doc_to_choice of task mine: is an empty list",
        ),
        (own("doc_to_target: gold\n"), empty, "choice 1 is empty"),
        (
            own("doc_to_target: gold\n"),
            missing,
            "line 2: doc_to_choice of task mine: the field a is missing",
        ),
        (
            own("doc_to_target: \"{{nothing}}\"\n"),
            rows(),
            "doc_to_target of task mine: line 1 of the template",
        ),
        (
            own("doc_to_target: gold\n"),
            outside,
            "line 2: doc_to_target of task mine: is 3, expected the index of a choice, 0 to 2",
        ),
        (
            own("doc_to_target: '{{nobody}}'\n"),
            named,
            "is \"nobody\", expected the index of a choice",
        ),
        (own("doc_to_target: gold\nmetric_list: [{metric: bleu}]\n"), rows(), "metric \"bleu\""),
        (
            own("doc_to_target: gold\nprocess_docs: !function mnli.doc_to_text\n"),
            rows(),
            "does not change documents",
        ),
        (
            "output_type: multiple_choice\ndoc_to_target: gold\n".into(),
            rows(),
            "doc_to_choice is missing",
        ),
        (
            "output_type: multiple_choice\ndoc_to_choice: a\n".into(),
            rows(),
            "doc_to_target is missing",
        ),
        (
            "output_type: generate_until\ndoc_to_target: gold\ngeneration_kwargs: {num_beams: 4}\n"
                .into(),
            rows(),
            "num_beams: 4 is not supported",
        ),
    ] {
        let message =
            open(&folder(&task, &rows), &HarnessOptions::default()).unwrap_err().to_string();
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

#[test]
fn sampled_answers_depend_on_seed_and_document_only() {
    let row = |i: usize| json!({"q": "abcab"[i..].to_owned(), "answer": "a"});
    let rows: Vec<Value> = (0..4).map(row).collect();
    let task = "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: answer\nrepeats: 3\n\
                generation_kwargs: {max_gen_toks: 6, do_sample: true, temperature: 0.9, top_p: 0.95}\n\
                filter_list:\n\
                - {name: vote, filter: [{function: majority_vote}, {function: take_first}]}\n";
    let folder = folder(task, &rows);
    let (decoder, tokenizer) = crate::tests::subject();
    let model = crate::Subject::new(&decoder, &tokenizer);
    let answers = |options: &HarnessOptions<'_>, max_batch_tokens: usize| {
        let task = open(&folder, options).unwrap();
        let mut hooks = crate::Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
        let run = crate::RunOptions { max_batch_tokens, ..crate::RunOptions::default() };
        crate::evaluate(&task, &model, &run, &mut hooks).unwrap().complete().unwrap()
    };
    let replied = |result: &TaskResult| -> Vec<Value> {
        result.samples.iter().map(|sample| sample.record["resps"][0].clone()).collect()
    };
    let whole = answers(&HarnessOptions::default(), 4096);
    let each = replied(&whole);
    assert_eq!((each.len(), each[0].as_array().unwrap().len()), (4, 3));
    assert!(each.iter().any(|three| three[0] != three[1]), "{each:?}");
    assert_eq!(replied(&answers(&HarnessOptions::default(), 1)), each, "one prompt a batch");
    let some = HarnessOptions {
        samples: [("mine".to_owned(), vec![2])].into(),
        ..HarnessOptions::default()
    };
    assert_eq!(replied(&answers(&some, 4096)), each[2..3], "document 2 alone");
    let other = HarnessOptions { sampling_seed: Some(5), ..HarnessOptions::default() };
    let other = answers(&other, 4096);
    assert_ne!(replied(&other), each);
    assert!(other.protocol.ends_with("_sampled-with-seed-5"), "{}", other.protocol);
    let note = "answers are sampled with seed 1234, temperature 0.9, top-k 50, top-p 0.95, answers \
                of each document: 3";
    assert_eq!(whole.notes, [note]);
    let asked = &whole.samples[0].record["arguments"];
    assert_eq!(asked["gen_args_0"]["arg_1"]["seed"], 1234);
    assert_eq!(asked.as_object().unwrap().len(), 1);
}

/// Prompts of standard tasks and scores of given answers, by `tools/golden/harness_prompts.py`.
#[test]
fn prompts_and_scores_of_standard_tasks_are_those_of_the_harness() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/harness-prompts");
    for name in ["gsm8k", "mmlu_anatomy", "mmlu_pro_computer_science"] {
        let golden = fs::read_to_string(format!("{root}/{name}.json")).unwrap();
        let golden: Value = serde_json::from_str(&golden).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let group = group_with_data(name).unwrap_or(name);
        let mut data = Vec::new();
        for (split, rows) in golden["rows"].as_object().unwrap() {
            let path = folder.path().join(format!("{split}.jsonl"));
            let rows = rows.as_array().unwrap().iter().map(|row| format!("{row}\n"));
            fs::write(&path, rows.collect::<String>()).unwrap();
            data.push(DataFile { task: group.into(), split: Some(split.clone()), path });
        }
        let shots = golden["shots"].as_u64().map(|shots| shots as usize);
        let task = HarnessTask::open(name, &HarnessOptions { data, shots, ..Default::default() });
        let task = task.unwrap();
        let documents = golden["documents"].as_array().unwrap();
        assert!(task.prompts.len() == documents.len() && documents.len() >= 6, "{name}");
        let mut replies = Vec::new();
        for (item, document) in task.items().iter().zip(documents) {
            assert_eq!(item.requests[0].text(), document["context"], "{name}, {}", item.place);
            let continuation = |request: &Request<'_>| match request {
                Request::LogLikelihood { continuation, .. } => Some(json!(continuation)),
                Request::Generate { generation, .. } => {
                    let asked = &document["asked"];
                    assert_eq!(json!(generation.until), asked["until"]);
                    let most = asked.get("max_gen_toks").map_or(256, |most| most.as_u64().unwrap());
                    assert_eq!(generation.new_tokens as u64, most);
                    None
                }
                _ => panic!("{name}"),
            };
            let continuations: Vec<Value> = item.requests.iter().filter_map(continuation).collect();
            assert_eq!(json!(continuations), document["continuations"]);
            let text = document["answer"].as_str().unwrap_or_default().to_owned();
            replies.push(vec![Reply::Generated { text, tokens: 1, truncated: 0 }]);
        }
        if documents[0].get("filters").is_none() {
            continue;
        }
        let result = task.score(&replies, false).unwrap();
        for sample in &result.samples {
            let document = sample.record["doc_id"].as_u64().unwrap() as usize;
            let wanted = &documents[document]["filters"][&sample.filter];
            assert_eq!(sample.record["filtered_resps"][0], wanted["filtered"], "{name}");
            assert_eq!(sample.record["exact_match"], wanted["exact_match"], "{name}: {wanted}");
        }
    }
}

#[test]
fn a_group_is_scored_from_one_file_with_its_subjects() {
    let row = |subject: &str, i: usize| {
        json!({"question": format!("What {i}?"), "subject": subject, "answer": i % 4,
               "choices": ["yes", "no", "perhaps", "never"]})
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.jsonl");
    let write = |rows: &[Value]| {
        fs::write(&path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    };
    let of_mmlu = DataFile { task: "mmlu".into(), split: None, path: path.clone() };
    let options = HarnessOptions { data: vec![of_mmlu], ..HarnessOptions::default() };
    let open = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Selection::open(&names, &options)
    };
    let all = Selection::open(&["mmlu".to_owned()], &HarnessOptions::default()).unwrap_err();
    assert!(all.to_string().contains("mmlu_abstract_algebra"), "{all}");
    let names: Vec<String> = {
        let mut found = group::Found::default();
        found.add("mmlu", std::path::Path::new(""), 0).unwrap();
        found.files.iter().map(|file| file.description.task.clone()).collect()
    };
    assert_eq!(names.len(), 57);
    let subject = |index: usize| names[index].strip_prefix("mmlu_").unwrap();
    write(&(0..171).map(|i| row(subject(i % 57), i)).collect::<Vec<_>>());
    let selection = open(&["mmlu"]).unwrap();
    assert_eq!((selection.tasks.len(), selection.groups.len()), (57, 5));
    assert!(selection.tasks.iter().all(|task| task.prompts.len() == 3));
    let results: Vec<TaskResult> = selection
        .tasks
        .iter()
        .map(|task| run_with(task, &Fake::default(), 1000).unwrap())
        .collect();
    let group = selection.groups.last().unwrap();
    let acc = results.iter().map(|result| figure(result, "acc")).sum::<f64>() / 57.0;
    assert_eq!((group.name.as_str(), group.items(&results)), ("mmlu", 171));
    close(group.metrics(&results)[0].value, acc);
    write(&[row("anatomy", 1), row("virology", 2)]);
    assert_eq!(open(&["mmlu_anatomy"]).unwrap().tasks[0].prompts.len(), 1);
    let error = open(&["mmlu_stem"]).unwrap_err().to_string();
    assert!(error.contains("no row with subject \"abstract_algebra\""), "{error}");
    write(&[json!({"question": "x"})]);
    let error = open(&["mmlu_anatomy"]).unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("subject"), "{error}");
}
