//! Task files, damaged documents, and texts that are loosely followed.

use super::super::{DataFile, HarnessOptions, HarnessTask};
use super::*;
use crate::tests::{Fake, run_with};
use crate::{EvaluationError, TaskResult};
use serde_json::json;
use std::fs;

fn fields(names: Value, kwargs: Value) -> Fields {
    let row = json!({"key": 1, "prompt": "uvw", "instruction_id_list": names, "kwargs": kwargs});
    row.as_object().unwrap().clone()
}

/// The task file of the harness, as it names its functions.
const FILE: &str = "task: ifeval\ndataset_path: json\noutput_type: generate_until\n\
    dataset_kwargs: {data_files: {train: rows.jsonl}}\ntest_split: train\nnum_fewshot: 0\n\
    doc_to_text: prompt\ndoc_to_target: 0\ngeneration_kwargs: {until: [], do_sample: false, \
    temperature: 0.0, max_gen_toks: 1280}\nprocess_results: !function utils.process_results\n\
    metric_list:\n\
    - metric: prompt_level_strict_acc\n  aggregation: mean\n  higher_is_better: true\n\
    - metric: inst_level_strict_acc\n  aggregation: !function utils.agg_inst_level_acc\n  higher_is_better: true\n\
    - metric: prompt_level_loose_acc\n  aggregation: mean\n  higher_is_better: true\n\
    - metric: inst_level_loose_acc\n  aggregation: !function utils.agg_inst_level_acc\n  higher_is_better: true\n";

fn scored(task: Result<HarnessTask, EvaluationError>) -> TaskResult {
    let mut model = Fake::default();
    // Room for 1280 tokens.
    model.positions = 2048;
    run_with(&task.unwrap(), &model, 100).unwrap()
}

/// Rows of which the answers, `xyz{|}` and so on, follow three of four instructions.
fn rows() -> String {
    let rows = [
        fields(
            json!(["punctuation:no_comma", "detectable_format:title", "keywords:existence"]),
            json!([null, {"keywords": null, "num_words": 0}, {"keywords": ["XY"]}]),
        ),
        fields(
            json!(["change_case:capital_word_frequency"]),
            json!([{"capital_frequency": 1, "capital_relation": "less than"}]),
        ),
    ];
    rows.map(|row| Value::Object(row).to_string()).join("\n")
}

#[test]
fn the_built_in_task_and_the_file_of_the_harness_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("ifeval.yaml"), folder.path().join("rows.jsonl"));
    fs::write(&file, FILE).unwrap();
    fs::write(&path, rows()).unwrap();
    let theirs = scored(HarnessTask::open(file.to_str().unwrap(), &HarnessOptions::default()));
    let data = vec![DataFile { task: "ifeval".into(), split: None, path }];
    let options = HarnessOptions { data, ..Default::default() };
    let task = HarnessTask::open("ifeval", &options);
    assert_eq!(task.as_ref().unwrap().answers.generation(0, 0).new_tokens, 1280);
    assert!(task.as_ref().unwrap().answers.generation(0, 0).until.is_empty());
    // There are no correct answers to learn from.
    assert!(crate::Task::answered(task.as_ref().unwrap()).is_none());
    let ours = scored(task);
    assert_eq!(ours.metrics, theirs.metrics);
    let figures: Vec<(&str, f64)> =
        ours.metrics.iter().map(|m| (m.name.as_str(), m.value)).collect();
    assert_eq!(
        figures,
        [
            ("prompt_level_strict_acc", 0.5),
            ("inst_level_strict_acc", 0.75),
            ("prompt_level_loose_acc", 0.5),
            ("inst_level_loose_acc", 0.75),
        ]
    );
    // Residuals of 3/4: -1/4 and 1/4; sqrt(2 / 1 * 1/8) / 4.
    let error = ours.metrics[1].stderr.unwrap();
    assert!((error - 0.125).abs() < 1e-12, "{error}");
    assert_eq!(ours.samples[0].record["inst_level_strict_acc"], json!([true, false, true]));
}

#[test]
fn functions_have_to_match_their_fields() {
    for (from, to, want) in [
        (
            "generate_until",
            "loglikelihood",
            "scores generated answers, which only generate_until has",
        ),
        ("!function utils.process_results", "!function mnli.doc_to_text", "scores no documents"),
        (
            "!function utils.process_results",
            "!function wikitext.process_results",
            "scores log-likelihoods",
        ),
        (
            "!function utils.agg_inst_level_acc",
            "!function mnli.doc_to_text",
            "is not an aggregation",
        ),
        ("!function utils.agg_inst_level_acc", "!function utils.other", "known are"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ifeval.yaml");
        fs::write(&file, FILE.replacen(from, to, 1)).unwrap();
        fs::write(folder.path().join("rows.jsonl"), rows()).unwrap();
        let error = HarnessTask::open(file.to_str().unwrap(), &HarnessOptions::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn damaged_documents_are_refused_when_the_task_is_opened() {
    let of = |name: &str, kwargs: Value| fields(json!([name]), json!([kwargs]));
    let words = |number: Value| {
        of("length_constraints:number_words", json!({"relation": "at least", "num_words": number}))
    };
    let keywords = |list: Value| of("keywords:existence", json!({"keywords": list}));
    let letter = |letter: &str| {
        let kwargs = json!({"letter": letter, "let_frequency": 1, "let_relation": "at least"});
        of("keywords:letter_frequency", kwargs)
    };
    let paragraph = |nth: u64| {
        let kwargs = json!({"num_paragraphs": 2, "nth_paragraph": nth, "first_word": "a"});
        of("length_constraints:nth_paragraph_first_word", kwargs)
    };
    for (document, want) in [
        (
            of("keywords:rhyme", json!({})),
            "the instruction \"keywords:rhyme\" is unknown; known are keywords:existence, ",
        ),
        (fields(json!([3]), json!([{}])), "contains 3, expected a name"),
        (fields(json!([]), json!([])), "instruction_id_list is empty"),
        (fields(json!("x"), json!([])), "field instruction_id_list is \"x\", expected a list"),
        (fields(json!(["punctuation:no_comma"]), json!([])), "1 instructions have 0 kwargs"),
        (fields(json!(["punctuation:no_comma"]), json!([3])), "are 3, expected an object"),
        (
            of("punctuation:no_comma", json!({"num_words": 3})),
            "has the argument num_words (3), which it does not take; it takes none",
        ),
        (words(Value::Null), "length_constraints:number_words: the argument num_words is missing"),
        (words(json!("3")), "is \"3\", expected a whole number"),
        (words(json!(-3)), "is -3, expected a whole number"),
        (words(json!(2.5)), "is 2.5, expected a whole number"),
        (words(json!(1e300)), "expected a whole number"),
        (words(json!(u64::MAX)), "expected a whole number from 0 to 2^53"),
        (
            of("length_constraints:number_words", json!({"num_words": 1, "relation": "at most"})),
            "is \"at most\", expected \"less than\" or \"at least\"",
        ),
        (keywords(json!([])), "is an empty list"),
        (keywords(json!("cat")), "expected a list of texts"),
        (keywords(json!(["a", 3])), "expected a list of texts"),
        (keywords(json!(["(a"])), "the pattern \"(a\""),
        (keywords(json!(["(((a{9999}){9999}){9999})"])), "the pattern"),
        (letter("ab"), "expected one character"),
        (letter(""), "the argument letter is empty"),
        (paragraph(0), "nth_paragraph is 0, expected 1 to 2"),
        (paragraph(3), "nth_paragraph is 3, expected 1 to 2"),
        (
            of("language:response_language", json!({"language": "xx"})),
            "is \"xx\", expected one of en, es",
        ),
        (
            of(
                "detectable_format:multiple_sections",
                json!({"section_spliter": "*", "num_sections": 1}),
            ),
            "the pattern",
        ),
    ] {
        let error = check(&document).err().unwrap_or_else(|| panic!("{document:?}"));
        assert!(error.contains(want), "{error:?} is without {want:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    fs::write(&path, Value::Object(of("a:b", json!({}))).to_string()).unwrap();
    let data = vec![DataFile { task: "ifeval".into(), split: None, path }];
    let options = HarnessOptions { data, ..Default::default() };
    let error = HarnessTask::open("ifeval", &options).unwrap_err().to_string();
    assert!(error.contains("rows.jsonl, line 1: process_results of task ifeval"), "{error}");
}

#[test]
fn counts_may_be_floats_huge_or_zero() {
    let of = |number: Value| {
        let kwargs = json!([{"relation": "at least", "num_words": number}]);
        score(&fields(json!(["length_constraints:number_words"]), kwargs), "one two").unwrap()
    };
    let truth = |number: Value| of(number)["inst_level_strict_acc"].clone();
    assert_eq!(truth(json!(2.0)), Measured::Truths(vec![true]));
    assert_eq!(truth(json!(9_007_199_254_740_992u64)), Measured::Truths(vec![false]));
    assert_eq!(truth(json!(0)), Measured::Truths(vec![true]));
}

#[test]
fn a_search_without_end_is_an_error() {
    let document =
        fields(json!(["keywords:existence"]), json!([{"keywords": [r"^(?:(a+)\1?)+$"]}]));
    assert!(score(&document, &("a".repeat(64) + "c")).unwrap_err().contains("the pattern"));
}

#[test]
fn variants_leave_lines_and_asterisks_out() {
    let want = ["a *\nb\n c", "b\n c", "a *\nb", "b", "a \nb\n c", "b\n c", "a \nb", "b"];
    assert_eq!(variants("a *\nb\n c"), want);
    assert_eq!(variants("*x*"), ["*x*", "", "", "", "x", "", "", ""]);
}
