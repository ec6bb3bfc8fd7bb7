use super::*;
use crate::jobs::kit::Host;
use crate::jobs::kit::source::open_model;
use linwright_evaluate::{Build, DataFile, open_task};
use linwright_run::Silent;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The folder of the built-in model, which a library build does not hold.
fn pocket() -> String {
    format!("{}/../../assets/pocket", env!("CARGO_MANIFEST_DIR"))
}

/// Calls `work` with a session without output.
fn in_session<R>(work: impl FnOnce(&mut Session<'_>) -> R) -> R {
    let host = Host {
        variable: &|_| None,
        cancelled: &|| false,
        build: Build { version: "0", commit: "" },
    };
    work(&mut Session::new(&mut Silent, host))
}

fn asked<'a>(dataset: &'a str, evaluation: &'a EvaluationOptions) -> CalibrationOptions<'a> {
    CalibrationOptions {
        model: POCKET,
        dataset: Some(dataset),
        num_tokens: 400,
        seq_len: 32,
        bos: evaluation.bos,
        split: Split::Contiguous,
        shuffle: false,
        seed: 0,
        dry_run: false,
        evaluation,
    }
}

/// Rows in files of a folder, and these files as data of tasks.
fn data(folder: &TempDir, files: &[(&str, Vec<Value>)]) -> EvaluationOptions {
    let file = |(task, rows): &(&str, Vec<Value>)| -> DataFile {
        let path = folder.path().join(format!("{}.jsonl", task.replace(':', "-")));
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        format!("{task}={}", path.display()).parse().unwrap()
    };
    let data = files.iter().map(file).collect();
    EvaluationOptions { data, ..EvaluationOptions::default() }
}

fn piqa(range: std::ops::Range<usize>) -> Vec<Value> {
    let row = |i| json!({"goal": format!("goal {i}"), "sol1": format!("no {i}"), "sol2": format!("yes {i}"), "label": 1});
    range.map(row).collect()
}

fn texts(dataset: &str, evaluation: &EvaluationOptions) -> Result<Vec<String>, Failure> {
    let source = in_session(|session| asked(dataset, evaluation).open(session))?;
    Ok(source.unwrap().documents.into_iter().map(|document| document.text).collect())
}

#[test]
fn a_name_means_a_file_unless_it_is_one_of_the_others() {
    for (name, dataset, input) in [
        ("a.jsonl", Dataset::File("a.jsonl"), Some("a.jsonl")),
        ("./samples", Dataset::File("./samples"), Some("./samples")),
        ("task:piqa", Dataset::Task("piqa"), Some("piqa")),
        ("pocket", Dataset::Pocket, None),
        ("combination", Dataset::Combination, None),
        ("samples", Dataset::Samples, None),
    ] {
        assert_eq!(Dataset::of(name), dataset);
        assert_eq!(input_of(name), input.map(PathBuf::from));
    }
}

#[test]
fn documents_of_a_task_end_in_their_right_answers_and_training_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let both = data(&folder, &[("piqa", piqa(0..2)), ("piqa:train", piqa(5..7))]);
    let train = ["Question: goal 5\nAnswer: yes 5", "Question: goal 6\nAnswer: yes 6"];
    assert_eq!(texts("task:piqa", &both).unwrap(), train);
    let scored = data(&folder, &[("piqa", piqa(0..1))]);
    assert_eq!(texts("task:piqa", &scored).unwrap(), ["Question: goal 0\nAnswer: yes 0"]);
    let source = in_session(|session| asked("task:piqa", &both).open(session).unwrap().unwrap());
    assert_eq!(
        (source.tasks(), source.data[0].split.as_str()),
        (&["piqa".to_owned()][..], "train")
    );
}

#[test]
fn questions_texts_and_data_of_laser_have_right_answers() {
    let folder = tempfile::tempdir().unwrap();
    let questions = vec![json!({"question": "Who?", "choices": ["Tom", "Mira"], "answer": 1})];
    let claims = vec![json!({"claim": "Tom saw it", "label": "SUPPORTS"})];
    let given = data(
        &folder,
        &[
            ("multiple_choice", questions),
            ("text", vec![json!({"text": "A boat."})]),
            ("laser_fever", claims),
        ],
    );
    assert_eq!(texts("task:multiple_choice", &given).unwrap(), ["Who? Mira"]);
    assert_eq!(texts("task:text", &given).unwrap(), ["A boat."]);
    let claim = texts("task:fever", &given).unwrap().remove(0);
    assert!(claim.contains("Tom saw it") && claim.ends_with(" true"), "{claim}");
}

#[test]
fn what_cannot_be_read_is_refused_with_what_to_give() {
    let none = EvaluationOptions::default();
    let folder = tempfile::tempdir().unwrap();
    let pair = |i: u32| json!({"sentence1": "a", "sentence2": "b", "score": i});
    let pairs = data(&folder, &[("stsb", (0..5).map(pair).collect())]);
    for (dataset, evaluation, words) in [
        ("task:absent", &none, "no task is called \"absent\""),
        ("task:piqa", &none, "--data piqa:train=FILE"),
        ("combination", &none, "--data piqa:train=FILE"),
        ("task:multiple_choice", &none, "multiple_choice has no data"),
        ("task:stsb", &pairs, "stsb has no correct answers"),
    ] {
        let failure = texts(dataset, evaluation).unwrap_err();
        assert!(failure.message().contains(words), "{dataset}: {}", failure.message());
    }
    let few = CalibrationOptions { num_tokens: 100, ..asked("combination", &none) };
    let failure = in_session(|session| few.open(session)).unwrap_err();
    assert!(failure.message().contains("100 tokens are 3 texts of 32"), "{}", failure.message());
}

/// Rows of the six tasks of the combination.
fn six(folder: &TempDir) -> EvaluationOptions {
    let arc = |i: usize| json!({"question": format!("q {i}"), "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "B"});
    let boolq = |i: usize| json!({"passage": format!("p {i}"), "question": "is it", "label": 1});
    let winogrande = |i: usize| json!({"sentence": format!("The _ is {i}."), "option1": "boat", "option2": "key", "answer": "1"});
    let hellaswag = |i: usize| json!({"ctx_a": format!("He {i}"), "ctx_b": "then", "activity_label": "Boats", "endings": ["goes", "stays"], "label": "0"});
    data(
        folder,
        &[
            ("piqa:train", piqa(0..9)),
            ("boolq:train", (0..9).map(boolq).collect()),
            ("arc_challenge:train", (0..9).map(arc).collect()),
            ("arc_easy:train", (0..1).map(arc).collect()),
            ("winogrande:train", (0..9).map(winogrande).collect()),
            ("hellaswag:train", (0..9).map(hellaswag).collect()),
        ],
    )
}

#[test]
fn a_combination_draws_each_document_at_most_once_and_the_rest_of_hellaswag() {
    let folder = tempfile::tempdir().unwrap();
    let given = six(&folder);
    let drawn = |seed| {
        let options =
            CalibrationOptions { num_tokens: 15 * 32, seed, ..asked("combination", &given) };
        in_session(|session| options.open(session).unwrap().unwrap())
    };
    let source = drawn(3);
    // 15 / 6 = 2 of each, but only one question of arc_easy, and 15 - 10 = 5 of hellaswag.
    assert_eq!(source.documents.len(), 2 + 2 + 2 + 1 + 2 + 5);
    let of = |part: &str| source.documents.iter().filter(|one| one.text.contains(part)).count();
    assert_eq!(
        [of("goal"), of("Answer: yes"), of("Answer: b"), of("boat is"), of("Boats")],
        [2, 4, 3, 2, 5]
    );
    let mut places: Vec<&String> = source.documents.iter().map(|one| &one.place).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), source.documents.len(), "each at most once");
    assert_eq!((source.data.len(), source.longest), (6, Some(32)));
    assert_eq!(drawn(3).documents, source.documents);
    assert_ne!(drawn(4).documents, source.documents);
}

#[test]
fn samples_are_the_same_for_a_seed_and_begin_as_documents_do() {
    let none = EvaluationOptions::default();
    in_session(|session| {
        let model = open_model(&pocket(), session).unwrap();
        let mut written = |seed| {
            let options = CalibrationOptions { seed, ..asked("samples", &none) };
            let source = options.open(session).unwrap();
            options.windows(source, &model, session).unwrap()
        };
        let (one, again, other) = (written(0), written(0), written(1));
        assert_eq!(one.windows, again.windows);
        assert_eq!(one.record, again.record);
        assert_ne!(one.windows, other.windows);
        let bos = model.tokenizer().unwrap().bos();
        assert!(one.windows.windows().iter().all(|window| window.first().copied() == bos));
        let tokens = one.windows.tokens();
        assert!((390..=400).contains(&tokens), "{tokens}");
        assert!(one.record.line().contains("written by the model"), "{}", one.record.line());
        // An estimate writes nothing and has the same size.
        let options = CalibrationOptions { dry_run: true, ..asked("samples", &none) };
        let source = options.open(session).unwrap();
        assert_eq!(options.windows(source, &model, session).unwrap().windows.tokens(), 400);
    });
}

#[test]
fn windows_are_recorded_and_compared_with_the_documents_of_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let line = |i: usize| json!({"text": format!("A lamp that somebody lit by mill {i} tells of night at the sea.")});
    let given = data(&folder, &[("text", (0..40).map(line).collect())]);
    let path = given.data[0].path.display().to_string();
    in_session(|session| {
        let model = open_model(&pocket(), session).unwrap();
        let options = asked(&path, &given);
        let source = options.open(session).unwrap();
        let mut text = options.windows(source, &model, session).unwrap();
        let used = text.documents.len();
        assert!((1..40).contains(&used), "only documents that were read count: {used}");
        let task = open_task("text", Path::new(&path), &linwright_evaluate::TaskOptions::default());
        text.compare([task.unwrap().as_ref()], "scores flatter", session);
        let record = serde_json::to_value(&text.record).unwrap();
        assert_eq!((&record["kind"], &record["name"]), (&json!("file"), &json!(path)));
        assert_eq!(record["data"][0]["sha256"].as_str().unwrap().len(), 64);
        assert_eq!(record["documents"], json!(used));
        assert_eq!(record["overlap"][0]["overlapping"], json!(used));
        assert!(text.notes[0].ends_with("so scores flatter"), "{:?}", text.notes);
        assert!(record.get("seed").is_none());
    });
}
