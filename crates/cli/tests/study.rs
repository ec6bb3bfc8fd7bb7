//! `run` and `report`: a recipe with two tables and two seeds.

use crate::workshop::{Workshop, pieces};
use serde_json::Value;

/// A recipe for the tiny model.
pub(crate) const RECIPE: &str = "
version: 1
title: A tiny comparison
model: model
seeds: [0, 1]
calibration: {dataset: calibration.jsonl, num_tokens: 1200, seq_len: 64}
eval: {text: text.jsonl, window: 64, bos: always, questions: questions.jsonl, limit: 3}
tables:
  - title: Nested layers
    layers: [[0], [0, 1]]
    methods:
      - {label: rotor, fit: {method: rotor, training: {epochs: 2}}}
      - {label: LR2-closed, fit: {method: low_rank}, size: {rank: 2}}
  - title: Up and gate
    layers: [[0]]
    targets: [up, gate]
    heal: []
    methods:
      - {label: BH1, fit: {method: block_hadamard, training: {epochs: 2, rate: 0.01}}}
";

/// [`RECIPE`] with the first table compared with one of its rows.
pub(crate) fn compared_recipe() -> String {
    RECIPE.replacen("  - title: Up and gate", "    against: [rotor]\n  - title: Up and gate", 1)
}

/// The rows of a report without the times.
pub(crate) fn rows(report: &Value) -> Vec<Value> {
    let mut rows = report["rows"].as_array().unwrap().clone();
    for row in &mut rows {
        for time in ["seconds", "speed"] {
            row.as_object_mut().unwrap().remove(time);
        }
    }
    rows
}

#[test]
fn a_recipe_gives_a_report_in_three_forms_and_again_the_same() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE);
    let shown = w.ok("run --recipe tiny.yaml --output out");
    for said in ["Nested layers", "Up and gate", "rotor", "LR2-closed", "BH1", "report.html"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    let report = w.json("out/report.json");
    assert_eq!(rows(&report).len(), 2 * (2 * 2 + 1), "seeds x cells");
    assert_eq!(report["title"], "A tiny comparison");
    assert_eq!(report["provenance"]["seeds"], serde_json::json!([0, 1]));
    let markdown = w.text("out/report.md");
    assert!(markdown.contains("A tiny comparison") && markdown.contains("LR2-closed"));
    let html = w.text("out/report.html");
    assert!(html.contains("<svg") && html.contains("Up and gate"));
    assert!(!html.contains("src=\"http") && !html.contains("<script src"));

    let again = w.run("run -r tiny.yaml -o out");
    assert!(!again.stderr.contains("fitting"), "nothing is done twice: {}", again.stderr);
    assert!(!again.stderr.contains("evaluating"), "{}", again.stderr);
    again.succeeded("again");
    assert_eq!(w.json("out/report.json")["rows"], report["rows"]);

    // What a run wrote of its recipe is a recipe, and the same one.
    let kept = w.run("run -r out/recipe.yaml -o out");
    assert!(!kept.stderr.contains("fitting"), "{}", kept.stderr);
    kept.succeeded("with the kept recipe");
    assert_eq!(w.json("out/report.json")["rows"], report["rows"]);
}

#[test]
fn a_study_is_reproduced_byte_for_byte() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE);
    w.ok("run -r tiny.yaml -o out");
    let said = w.ok("reproduce out -o again");
    assert!(said.contains("files have the same bytes"), "{said}");
    let files = ["report.json", "report.html", "report.md", "recipe.yaml", "reproduce.json"];
    for file in files {
        assert!(w.read(&format!("again/{file}")) == w.read(&format!("out/{file}")), "{file}");
    }
    w.write("questions.jsonl", w.text("questions.jsonl") + "\n");
    w.fails("reproduce out -o changed", 6, &["questions.jsonl", "another content"]);
}

#[test]
fn a_study_takes_further_texts_and_tasks() {
    let w = crate::tasks::workshop();
    w.write(
        "verse.yaml",
        "task: verse\ndataset_path: json\ndataset_kwargs: {data_files: {test: text.jsonl}}\n\
         test_split: test\noutput_type: loglikelihood_rolling\ndoc_to_text: \"\"\n\
         doc_to_target: \"{{text}}\"\nmetric_list: [{metric: word_perplexity}]\n",
    );
    let tasks = "limit: 3, tasks: [boats.yaml, verse.yaml], num_fewshot: 0}";
    let recipe = RECIPE.replace("limit: 3}", tasks).replace("seeds: [0, 1]", "seeds: [0]");
    w.write("tiny.yaml", &recipe);
    let report = w.ok_json("run -r tiny.yaml -o out");
    let names = |results: &Value| -> Vec<String> {
        let all = results.as_array().unwrap().iter();
        all.map(|result| result["task"].as_str().unwrap().to_owned()).collect()
    };
    let expected = ["text", "multiple_choice", "boats", "verse"];
    assert_eq!(names(&report["baseline"]), expected);
    assert_eq!(names(&report["rows"][0]["results"]), expected);
    let boats = &report["baseline"][2];
    assert_eq!(boats["counts"]["items"], 3, "the limit holds for tasks: {boats}");
    let shown = w.text("out/report.md");
    for column in ["Accuracy, multiple choice", "Accuracy, boats", "word perplexity"] {
        assert!(shown.contains(&format!("| {column} |")), "{column}: {shown}");
    }
    let again = "tasks: [text], data: [\"text=text.jsonl\"]";
    w.write("twice.yaml", recipe.replace("tasks: [boats.yaml, verse.yaml], num_fewshot: 0", again));
    w.fails("run -r twice.yaml -o other", 3, &["a task text already"]);
    // The token at the start is that of the study.
    assert_eq!(boats["protocol"], "lm-eval_0-shot_bos-always", "{boats}");
    // Another content of a task's data is another study.
    w.write("rows.jsonl", w.text("rows.jsonl").replace("Mira did", "Mira"));
    w.fails("run -r tiny.yaml -o out", 6, &["another run"]);
    w.write("data.yaml", recipe.replace("tasks: [boats.yaml, verse.yaml], ", ""));
    w.fails("run -r data.yaml -o other", 3, &["eval.num_fewshot", "eval.tasks"]);
    assert!(!w.path("other").exists());
}

#[test]
fn text_that_the_fit_saw_too_is_told() {
    let w = Workshop::new();
    let notes_of = |name: &str| {
        w.write("tiny.yaml", RECIPE);
        let report = w.ok_json(&format!("run -r tiny.yaml -o {name} --quiet"));
        let notes = report["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap());
        notes.filter(|note| note.contains("in common")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(notes_of("apart"), Vec::<String>::new());
    let of = |name: &str, line: usize| -> Value {
        serde_json::from_str(w.text(name).lines().nth(line).unwrap()).unwrap()
    };
    // The second document is one of the calibration text with another before it.
    let (own, seen) = (of("text.jsonl", 1), of("calibration.jsonl", 3));
    let mixed = format!("{} {}", own["text"].as_str().unwrap(), seen["text"].as_str().unwrap());
    let mut lines: Vec<String> = w.text("text.jsonl").lines().map(str::to_owned).collect();
    lines[1] = serde_json::json!({ "text": mixed }).to_string();
    w.write("text.jsonl", lines.join("\n"));
    let notes = notes_of("common");
    assert_eq!(notes.len(), 1, "{notes:?}");
    for said in ["1 of ", "13 words in a row", "line 2", "calibration.jsonl, line 4"] {
        assert!(notes[0].contains(said), "{said}: {notes:?}");
    }

    // A recipe can leave it out: of three documents two are scored, and no warning is left.
    w.write("apart.yaml", RECIPE.replace("limit: 3}", "limit: 3, exclude_overlap: true}"));
    let report = w.ok_json("run -r apart.yaml -o left-out --quiet");
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("2 of 3 documents of task text are scored; the other 1 are left out"),
        "{notes}"
    );
    assert!(!notes.contains("flatters"), "{notes}");
    for result in [&report["baseline"][0], &report["rows"][0]["results"][0]] {
        assert_eq!((&result["task"], &result["counts"]["items"]), (&"text".into(), &2.into()));
    }
    let joined = "limit: 3, join: space, exclude_overlap: true}";
    w.write("joined.yaml", RECIPE.replace("limit: 3}", joined));
    w.fails("run -r joined.yaml", 3, &["eval.exclude_overlap", "join: separate"]);
    // Nothing would be left of text that is the calibration text itself.
    let same = RECIPE.replace("limit: 3}", "exclude_overlap: true}");
    w.write("same.yaml", same.replace("text: text.jsonl", "text: calibration.jsonl"));
    w.fails(
        "run -r same.yaml",
        1,
        &["text", "documents without overlap with the calibration text"],
    );
}

#[test]
fn rows_tell_what_the_replaced_sites_compute_and_how_long_beside_the_dense_ones() {
    let w = Workshop::new();
    let one = RECIPE.replace("seeds: [0, 1]", "seeds: [0]");
    w.write(
        "tiny.yaml",
        one.replace("label: BH1", "label: BH2").replace(
            "training: {epochs: 2, rate",
            "depth: 2, block: 4, training: {epochs: 2, rate",
        ),
    );
    let report = w.ok_json("run -r tiny.yaml -o out --quiet");
    let row = |method: &str, layers: usize| {
        let mut rows = report["rows"].as_array().unwrap().iter();
        let own = |row: &&Value| {
            row["method"] == method && row["layers"].as_array().unwrap().len() == layers
        };
        rows.find(own).unwrap().clone()
    };
    for (method, layers) in [("rotor", 1), ("rotor", 2), ("LR2-closed", 2), ("BH2", 1)] {
        let row = row(method, layers);
        let number = |group: &str, name: &str| row[group][name].as_f64().unwrap();
        assert_eq!(number("macs", "targeted_dense"), number("parameters", "targeted_dense"));
        assert!(
            number("speed", "milliseconds") > 0.0 && number("speed", "milliseconds_dense") > 0.0
        );
        // A product with a thin matrix takes each number once; a network of rotors takes many
        // times.
        let (macs, numbers) = (number("macs", "targeted"), number("parameters", "targeted"));
        assert_eq!(macs > numbers, method != "LR2-closed", "{method}: {macs}, {numbers}");
    }
    let both = |name: &str| row(name, 2)["macs"]["targeted"].as_u64().unwrap();
    assert_eq!(both("rotor"), 2 * row("rotor", 1)["macs"]["targeted"].as_u64().unwrap());
    let shown = w.ok("report out");
    let page = w.ok("report out --format html");
    for said in ["Multiply-adds (dense)", "ms for 256 rows (dense)"] {
        assert!(shown.contains(said) && page.contains(said), "{said}: {shown}");
        let is_time = !said.starts_with("Multiply");
        for file in ["report.html", "report.md"] {
            assert_eq!(w.text(&format!("out/{file}")).contains(said), !is_time, "{said}: {file}");
        }
    }
    // Times alone are taken again where they are gone, from the fits that are there.
    std::fs::remove_dir_all(w.path("out/speed")).unwrap();
    let again = w.run("run -r tiny.yaml -o out --json");
    assert!(!again.stderr.contains("fitting") && !again.stderr.contains("evaluating"));
    again.succeeded("again");
    assert_eq!(rows(&w.json("out/report.json")), rows(&report));
    let measured = &w.json("out/measured.json")["measured"]["rows"][0];
    assert!(measured["speed"]["milliseconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn nested_sets_share_fits_and_seeds_differ() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE);
    let report = w.ok_json("run -r tiny.yaml -o out --quiet");
    let rows = rows(&report);
    let figures = |method: &str, layers: usize, seed: u64| {
        let row = rows.iter().find(|row| {
            row["method"] == method
                && row["layers"].as_array().unwrap().len() == layers
                && row["seed"] == seed
        });
        row.unwrap()["results"].clone()
    };
    assert_ne!(figures("rotor", 1, 0), figures("rotor", 1, 1));
    assert_ne!(figures("rotor", 1, 0), figures("rotor", 2, 0));
    // One file a fit: for each seed 2 methods x 2 layers x (3 and the output), and 2 of the MLP.
    assert_eq!(pieces(&w.path("out"), "fit").len(), 2 * (2 * 2 * 4 + 2));
    assert_eq!(pieces(&w.path("out"), "cell").len(), 1 + 2 * 5);
}

#[test]
fn a_dry_run_shows_every_row_and_writes_nothing() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE.replace("model: model", "model: elsewhere"));
    let before = w.names();
    let costs = w.ok_json("run -r tiny.yaml --model model --dry-run");
    assert_eq!(costs["cells"].as_array().unwrap().len(), 5);
    assert!(costs["cells"][0]["estimate"]["targeted"].as_u64().unwrap() > 0);
    assert!(w.ok("run -r tiny.yaml -m model --dry-run").contains("fits of all seeds"));
    w.fails("run -r tiny.yaml --dry-run", 1, &["elsewhere"]);
    assert_eq!(w.names(), before);
}

#[test]
fn another_recipe_in_the_same_directory_is_refused() {
    let w = Workshop::new();
    let short = RECIPE.replace("seeds: [0, 1]", "seeds: [0]");
    w.write("tiny.yaml", &short);
    w.ok("run -r tiny.yaml -o out");
    let report = w.text("out/report.json");
    w.write("tiny.yaml", short.replace("rank: 2", "rank: 3"));
    w.fails("run -r tiny.yaml -o out", 6, &["out", "another run", "choose another directory"]);
    assert_eq!(w.text("out/report.json"), report, "the other run is untouched");
}

#[test]
fn report_renders_a_finished_run_again() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE.replace("seeds: [0, 1]", "seeds: [3]"));
    w.ok("run -r tiny.yaml -o out");
    let (html, markdown) = (w.text("out/report.html"), w.text("out/report.md"));
    std::fs::remove_file(w.path("out/report.html")).unwrap();
    let shown = w.ok("report out");
    assert!(shown.contains("Nested layers") && shown.contains("report.html"), "{shown}");
    assert_eq!(w.text("out/report.html"), html);
    // What is printed has the times of measured.json; the files have the same bytes again.
    let machine = "threads";
    for format in ["markdown", "html"] {
        assert!(w.ok(&format!("report out --format {format}")).contains(machine), "{format}");
    }
    assert!(!html.contains(machine) && !markdown.contains(machine));
    assert!(w.ok("report out --format terminal").contains("LR2-closed"));
    let (whole, alone) = (w.ok_json("report out"), w.json("out/report.json"));
    assert_eq!(rows(&whole), rows(&alone));
    assert!(whole["rows"][0]["seconds"].is_f64() && alone["rows"][0]["seconds"].is_null());
    let times = w.text("out/measured.json");
    std::fs::remove_file(w.path("out/measured.json")).unwrap();
    assert_eq!(w.ok("report out --format markdown").trim_end(), markdown.trim_end());
    assert_eq!(w.ok("report out --format html").trim_end(), html.trim_end());
    w.write("out/measured.json", &times[..times.len() / 2]);
    w.fails("report out", 1, &["measured.json", "not a file of times", "remove it"]);
    w.write("out/measured.json", times);
    w.fails("report model", 1, &["report.json", "directory of a finished run"]);
    w.write("other.json", "{\"model\": \"m\", \"sweep\": {}}");
    w.fails("report other.json", 1, &["not a saved report"]);
    w.write("out/report.json", "{\"schema\": 1}");
    w.fails("report out", 1, &["report"]);
}

#[test]
fn rows_are_compared_item_by_item_with_one_that_the_recipe_names() {
    let w = Workshop::new();
    w.write("tiny.yaml", compared_recipe());
    let shown = w.ok("run -r tiny.yaml -o out");
    assert!(shown.contains("Nested layers: difference from rotor"), "{shown}");
    let report = w.json("out/report.json");
    let pairs = report["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2, "one other method on two sets of layers");
    for (pair, layers) in pairs.iter().zip([1, 2]) {
        assert_eq!((&pair["method"], &pair["against"]), (&"LR2-closed".into(), &"rotor".into()));
        assert_eq!(pair["layers"].as_array().unwrap().len(), layers);
        // The mean over items and seeds is the difference of the rows' means.
        let of = |method: &str, task: usize, metric: &str| -> f64 {
            let rows = report["rows"].as_array().unwrap().iter();
            let own = rows.filter(|row| row["method"] == method && row["layers"] == pair["layers"]);
            let values = own.map(|row| {
                let metrics = row["results"][task]["metrics"].as_array().unwrap();
                let own = metrics.iter().find(|own| own["name"] == metric).unwrap();
                own["value"].as_f64().unwrap()
            });
            values.sum::<f64>() / 2.0
        };
        for (task, name, metric) in
            [(0, "text", "nll_nats_per_token"), (1, "multiple_choice", "acc")]
        {
            let mut differences = pair["differences"].as_array().unwrap().iter();
            let own =
                differences.find(|own| own["task"] == name && own["metric"] == metric).unwrap();
            let difference = own["difference"].as_f64().unwrap();
            let expected = of("LR2-closed", task, metric) - of("rotor", task, metric);
            assert!((difference - expected).abs() < 1e-9, "{metric}: {difference}, {expected}");
        }
    }
    // Resumed, the scores of items are read.
    let again = w.run("run -r tiny.yaml -o out");
    assert!(!again.stderr.contains("evaluating"), "{}", again.stderr);
    assert_eq!(w.json("out/report.json")["pairs"], report["pairs"]);
    w.write("wrong.yaml", compared_recipe().replace("[rotor]", "[rotors]"));
    w.fails("run -r wrong.yaml -o other", 3, &["tables[0].against", "rotors"]);
}
