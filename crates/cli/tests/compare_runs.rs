//! `compare` over several seeds and sets of layers, with rows of their own sizes, healed, against
//! named rows: of text, images and molecules.

use crate::recipes::differences;
use crate::workshop::Workshop;
use serde_json::{Value, json};

/// The options of a comparison of the tiny model.
const COMPARE: &str = "compare model --keep 0.5 --no-controls --layers 0/0,1 --roles query,key,value --heal ridge \
    --seed 0,1 --methods low_rank_trained:epochs=2,low_rank:size=rank=2,label=LR2 --against LR2 \
    --calibration calibration.jsonl:num_tokens=1200,seq_len=64,shuffle=true --limit 3 \
    --text text.jsonl --evaluation window=64,bos=always --tasks questions --data questions=questions.jsonl";

/// A recipe of two comparisons of the tiny model.
pub(crate) const RECIPE: &str = "
version: 1
title: A tiny comparison
model: model
seed: [0, 1]
keep: []
no_controls: true
calibration: {dataset: calibration.jsonl, num_tokens: 1200, seq_len: 64, bos: auto, shuffle: true}
text: text.jsonl
tasks: [multiple_choice]
data: [multiple_choice=questions.jsonl]
limit: 3
evaluation: {window: 64, bos: always}
jobs:
  - compare:
      layers: 0/0,1
      roles: [query, key, value]
      heal: ridge
      methods:
        - {method: rotor, epochs: 2}
        - {method: low_rank, size: rank=2}
        - {method: dense, label: untouched}
        - {method: laser, intervention: zero, label: nothing}
      against: [rotor]
    name: nested
  - compare:
      layers: 0
      roles: [up, gate]
      heal: none
      methods: [{method: block_hadamard_trained, epochs: 2, rate: 0.01, label: BH1}]
    name: up-and-gate
";

/// Cells of a comparison as row, layers and seed, with their models.
fn cells(result: &Value) -> Vec<(String, Value, u64, Value)> {
    let cells = result["compare"]["cells"].as_array().unwrap();
    let cell = |own: &Value| {
        let name = if own["label"].is_null() { &own["method"] } else { &own["label"] };
        let place = &own["place"];
        let seed = place["seed"].as_u64().unwrap();
        let model = own["found"]["model"].clone();
        (name.as_str().unwrap().to_owned(), place["layers"].clone(), seed, model)
    };
    cells.iter().map(cell).collect()
}

fn metric(results: &Value, task: usize, name: &str) -> f64 {
    let metrics = results[task]["metrics"].as_array().unwrap();
    metrics.iter().find(|own| own["name"] == name).unwrap()["value"].as_f64().unwrap()
}

#[test]
fn seeds_sets_of_layers_and_rows_of_their_own_sizes_make_runs_with_means() {
    let w = Workshop::new();
    let found = w.ok_json(&format!("{COMPARE} -o out"));
    let runs = cells(&found);
    assert_eq!(runs.len(), 2 * 2 * 2, "seeds x sets x rows");
    assert_eq!((&runs[0].0[..], &runs[1].0[..]), ("low_rank_trained", "LR2"));
    assert_eq!(found["provenance"]["seeds"], json!([0, 1]));
    let of = |row: &str, layers: Value, seed: u64| {
        let is_it = |own: &&(String, Value, u64, Value)| {
            (own.0.as_str(), &own.1, own.2) == (row, &layers, seed)
        };
        runs.iter().find(is_it).unwrap().3.clone()
    };
    let perplexity =
        |row, layers, seed| metric(&of(row, layers, seed)["results"], 0, "token_perplexity");
    assert_ne!(perplexity("LR2", json!([0]), 0), perplexity("LR2", json!([0]), 1));
    assert_ne!(perplexity("LR2", json!([0]), 0), perplexity("LR2", json!([0, 1]), 0));
    // Errors of fits, multiply-adds of the replaced layers; the curve of a trained fit.
    let trained = of("low_rank_trained", json!([0, 1]), 0);
    let fits = &trained["fits"];
    assert_eq!(fits["sites"].as_array().unwrap().len(), 6, "{fits}");
    assert!(!fits["sites"][0]["curve"].as_array().unwrap().is_empty());
    assert_eq!(fits["macs"]["targeted_dense"], trained["parameters"]["targeted_dense"]);
    assert!(fits["speed"]["milliseconds"].as_f64().unwrap() > 0.0);

    // Paired differences are those of the means over seeds, also from the dense model.
    let pairs = found["compare"]["pairs"].as_array().unwrap();
    let names: Vec<(&str, &str)> = pairs
        .iter()
        .map(|pair| (pair["method"].as_str().unwrap(), pair["against"].as_str().unwrap()))
        .collect();
    let line = "low_rank_trained at 0.5";
    let expected =
        [(line, "LR2"); 2].into_iter().chain([(line, "dense"), ("LR2", "dense")].repeat(2));
    assert_eq!(names, expected.collect::<Vec<_>>());
    for (pair, layers) in pairs.iter().zip([json!([0]), json!([0, 1])]) {
        assert_eq!(pair["layers"], layers);
        for (task, name) in [(0, "nll_nats_per_token"), (1, "acc")] {
            let mean = |row: &str| -> f64 {
                let of = |seed| metric(&of(row, layers.clone(), seed)["results"], task, name);
                (of(0) + of(1)) / 2.0
            };
            let mut differences = pair["differences"].as_array().unwrap().iter();
            let own = differences.find(|own| own["metric"] == name).unwrap();
            let difference = own["difference"].as_f64().unwrap();
            assert!(
                (difference - (mean("low_rank_trained") - mean("LR2"))).abs() < 1e-9,
                "{name}: {own}"
            );
        }
    }
    let page = w.text("out/report.md");
    for said in [
        "Means",
        "| low\\_rank\\_trained at 0.5 | 1 |",
        "Difference from LR2",
        "Difference from dense",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("ms for 256 rows"), "{page}");
    let shown = w.ok("report out");
    assert!(shown.contains("ms for 256 rows (dense)") && shown.contains("±"), "{shown}");

    // Again nothing is done; another row against which is a choice of the report.
    let again = w.run(&format!("{COMPARE} -o out --no-progress"));
    assert!(again.code == Some(0) && !again.stderr.contains("fitting"), "{}", again.stderr);
    let planned = w.ok(&format!("{COMPARE} --dry-run"));
    assert!(planned.contains("[0, 1]") && planned.contains("LR2"), "{planned}");
}

#[test]
fn shards_of_runs_give_the_same_bytes() {
    let w = Workshop::new();
    w.ok(&format!("{COMPARE} -o whole"));
    for index in 0..2 {
        w.ok(&format!("{COMPARE} --shard {index}/2 -o part{index}"));
    }
    w.ok("merge part1 part0 -o merged");
    let mut differing = differences(&w, "whole", "merged");
    differing.retain(|name| !name.starts_with("speed/"));
    assert_eq!(differing, [""; 0]);
}

#[test]
fn a_recipe_of_comparisons_gives_a_report_again_the_same_and_is_reproduced() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE);
    w.write("elsewhere.yaml", RECIPE.replace("model: model", "model: elsewhere"));
    let before = w.names();
    w.fails("run -r elsewhere.yaml --dry-run", 1, &["elsewhere"]);
    let costs = w.ok("run -r elsewhere.yaml --model model --dry-run");
    assert!(costs.contains("LR2-closed") && costs.contains("time of the fits"), "{costs}");
    assert_eq!(w.names(), before);
    let shown = w.ok("run --recipe tiny.yaml --output out");
    for said in ["nested", "up-and-gate", "rotor", "LR2-closed", "BH1", "report.html"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    let nested = w.json("out/nested/result.json");
    let rows = cells(&nested);
    assert_eq!(rows.len(), 2 * 2 * 4, "seeds x sets x rows");
    // A zero in place of query, key and value is no better than what is left untouched.
    let of = |row: &str| {
        metric(&rows.iter().find(|own| own.0 == row).unwrap().3["results"], 0, "token_perplexity")
    };
    let dense = metric(&nested["compare"]["dense"]["results"], 0, "token_perplexity");
    assert!((of("untouched") / dense - 1.0).abs() < 0.05 && of("nothing") != of("untouched"));
    // A product with a thin matrix takes each number once; a network of rotors takes many times.
    for (row, layers) in
        [("rotor", json!([0])), ("rotor", json!([0, 1])), ("LR2-closed", json!([0]))]
    {
        let own = rows.iter().find(|own| own.0 == row && own.1 == layers).unwrap();
        let (macs, kept) = (&own.3["fits"]["macs"], &own.3["parameters"]["targeted"]);
        assert_eq!(
            macs["targeted"].as_u64() > kept.as_u64(),
            row == "rotor",
            "{row}: {macs}, {kept}"
        );
    }
    let perplexity = |row: &str, layers: Value, seed: u64| {
        let own = rows.iter().find(|own| (&own.0[..], &own.1, own.2) == (row, &layers, seed));
        metric(&own.unwrap().3["results"], 0, "token_perplexity")
    };
    assert_ne!(perplexity("rotor", json!([0]), 0), perplexity("rotor", json!([0]), 1));
    assert_ne!(perplexity("rotor", json!([0]), 0), perplexity("rotor", json!([0, 1]), 0));
    assert!(w.text("out/nested/report.html").contains("<svg"));
    let report = w.ok("report out");
    assert!(report.contains("A tiny comparison") && report.contains("ms for 256 rows"), "{report}");
    let again = w.run("run -r tiny.yaml -o out");
    assert!(!again.stderr.contains("fitting"), "nothing is done twice: {}", again.stderr);
    again.succeeded("again");
    let kept = w.run("run -r out/recipe.yaml -o out");
    assert!(!kept.stderr.contains("fitting"), "{}", kept.stderr);
    kept.succeeded("with the kept recipe");
    let said = w.ok("reproduce out -o copy");
    assert!(said.contains("files have the same bytes"), "{said}");
    w.write("tiny.yaml", RECIPE.replace("rank=2", "rank=3"));
    w.fails("run -r tiny.yaml -o out", 6, &["another run"]);
}

#[test]
fn a_report_of_comparisons_is_rendered_again() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE.replace("seed: [0, 1]", "seed: 3"));
    w.ok("run -r tiny.yaml -o out");
    let (html, markdown) = (w.text("out/report.html"), w.text("out/report.md"));
    assert!(html.contains("up-and-gate") && markdown.contains("LR2-closed"));
    assert!(!html.contains("src=\"http") && !html.contains("<script src"));
    // What is printed has the times of measured.json; the files have the same bytes again.
    for format in ["terminal", "markdown", "html"] {
        let shown = w.ok(&format!("report out --format {format}"));
        assert!(shown.contains("ms for 256 rows") && shown.contains("LR2-closed"), "{format}");
    }
    assert!(!html.contains("ms for 256 rows") && !markdown.contains("ms for 256 rows"));
    assert_eq!((w.text("out/report.html"), w.text("out/report.md")), (html, markdown));
    let whole = w.text("out/results.json");
    w.write("out/results.json", &whole[..whole.len() / 2]);
    w.fails("report out", 1, &["results.json is not a saved result"]);
    w.fails("report model", 1, &["model", "directory of a finished run"]);
    w.write("other.json", "{\"model\": \"m\", \"sweep\": {}}");
    w.fails("report other.json", 1, &["other.json is not a saved result"]);
}

#[test]
fn a_comparison_takes_further_texts_and_tasks() {
    let w = crate::tasks::workshop();
    w.write(
        "verse.yaml",
        "task: verse\ndataset_path: json\ndataset_kwargs: {data_files: {test: text.jsonl}}\n\
         test_split: test\noutput_type: loglikelihood_rolling\ndoc_to_text: \"\"\n\
         doc_to_target: \"{{text}}\"\nmetric_list: [{metric: word_perplexity}]\n",
    );
    let tasks = "tasks: [multiple_choice, boats.yaml, verse.yaml]";
    let few = RECIPE.replace("window: 64,", "window: 64, num_fewshot: 0,");
    let recipe = few.replace("tasks: [multiple_choice]", tasks).replace("seed: [0, 1]", "seed: 0");
    w.write("tiny.yaml", &recipe);
    w.ok("run -r tiny.yaml -o out");
    let found = w.json("out/up-and-gate/result.json")["compare"].clone();
    let names = |results: &Value| -> Vec<String> {
        let all = results.as_array().unwrap().iter();
        all.map(|result| result["task"].as_str().unwrap().to_owned()).collect()
    };
    let expected = ["text", "multiple_choice", "boats", "verse"];
    assert_eq!(names(&found["dense"]["results"]), expected);
    assert_eq!(names(&found["cells"][0]["found"]["model"]["results"]), expected);
    let boats = &found["dense"]["results"][2];
    assert_eq!(boats["counts"]["items"], 3, "the limit holds for tasks: {boats}");
    // The token at the start is that of the recipe.
    assert_eq!(boats["protocol"], "lm-eval_0-shot_bos-always", "{boats}");
    let shown = w.text("out/report.md");
    for column in ["Accuracy, multiple choice", "Accuracy, boats", "word perplexity"] {
        assert!(shown.contains(column), "{column}: {shown}");
    }
    let twice = recipe.replace("tasks: [multiple_choice, ", "tasks: [text, multiple_choice, ");
    w.write("twice.yaml", twice.replace("data: [", "data: [\"text=text.jsonl\", "));
    w.fails("run -r twice.yaml -o other", 2, &["text"]);
    // Another content of a task's data is another run.
    w.write("rows.jsonl", w.text("rows.jsonl").replace("Mira did", "Mira"));
    w.fails("run -r tiny.yaml -o out", 6, &["rows.jsonl has another content"]);
    assert!(!w.path("other").exists());
}

#[test]
fn documents_that_the_calibration_text_holds_are_left_out() {
    let w = Workshop::new();
    let line = "compare model --keep 0.5 --no-controls --methods svd --text text.jsonl --limit 3 \
                --evaluation window=64 --calibration calibration.jsonl:num_tokens=1200,seq_len=64 --exclude-overlap";
    let items = |found: &Value| found["compare"]["dense"]["results"][0]["counts"]["items"].clone();
    assert_eq!(items(&w.ok_json(&format!("{line} -o apart"))), 3);
    let of = |name: &str, line: usize| -> Value {
        serde_json::from_str(w.text(name).lines().nth(line).unwrap()).unwrap()
    };
    let (own, seen) = (of("text.jsonl", 1), of("calibration.jsonl", 3));
    let mixed = format!("{} {}", own["text"].as_str().unwrap(), seen["text"].as_str().unwrap());
    let mut lines: Vec<String> = w.text("text.jsonl").lines().map(str::to_owned).collect();
    lines[1] = json!({ "text": mixed }).to_string();
    w.write("text.jsonl", lines.join("\n"));
    // It is told, or left out.
    let told = w.ok_json(&format!("{} -o told", line.replace("--exclude-overlap", "")));
    assert_eq!(items(&told), 3);
    let notes = told["compare"]["notes"].to_string();
    for said in
        ["1 of 3 documents share 13 consecutive words", "with the calibration text", "too good"]
    {
        assert!(notes.contains(said), "{said}: {notes}");
    }
    // Nothing would be left of text that is the calibration text itself.
    let same = line.replace("--text text.jsonl", "--text calibration.jsonl");
    w.fails(&format!("{same} -o no"), 1, &["documents without overlap with the calibration text"]);
    let found = w.ok_json(&format!("{line} -o common"));
    assert_eq!(items(&found), 2);
    let notes = found["compare"]["notes"].to_string();
    assert!(
        notes.contains("2 of 3 documents of task text are scored; the other 1 are left out"),
        "{notes}"
    );
    assert!(!notes.contains("too good"), "{notes}");
}

#[test]
fn networks_of_images_and_potentials_have_the_same_axes() {
    let w = crate::compare_images::workshop();
    let line = "compare-net net.yaml --keep 0.5 --no-controls --methods svd,low_rank:size=rank=1,label=LR1 \
                --calibration a-images-idx3-ubyte:examples=0-79,batch=16,validation=0.2 \
                --images a-images-idx3-ubyte:labels=a-labels-idx1-ubyte,examples=80-119";
    let runs = format!("{line} --layers 0/0-1 --seed 0,1 --against LR1");
    let found = w.ok_json(&format!("{runs} -o out"));
    assert_eq!(cells(&found).len(), 2 * 2 * 2);
    assert_eq!(found["compare"]["pairs"].as_array().unwrap().len(), 2 + 4);
    let planned = w.ok(&format!("{runs} --dry-run"));
    assert!(planned.contains("fits of all seeds") && planned.contains("[0, 1]"), "{planned}");
    // A refitted last layer makes up for what the first one lost.
    let loss = |heal: &str, output: &str| {
        let found = w.ok_json(&format!("{line} --roles conv --seed 0,1 {heal} -o {output}"));
        let runs = cells(&found);
        let of = runs.iter().filter(|own| own.0 == "LR1");
        of.map(|own| metric(&own.3["results"], 0, "cross_entropy")).sum::<f64>()
    };
    assert!(loss("--heal roles=linear,layers=1", "healed") < loss("", "plain"));
    for (options, words) in [
        ("--heal roles=linear,layers=9", vec!["9"]),
        ("--heal ridge=0.1", vec!["--heal", "selects no layers"]),
        ("--against rotor", vec!["--against rotor", "no row", "svd at 0.5, LR1"]),
        ("--seed 1,1", vec!["--seed names 1 twice"]),
        ("--layers 0/0", vec!["the set 0 is named twice"]),
    ] {
        let run = w.run(&format!("{line} {options} -o other"));
        assert!(
            run.code != Some(0) && words.iter().all(|word| run.stderr.contains(word)),
            "{run:?}"
        );
        assert!(!w.path("other").exists(), "{options}");
    }

    let w = Workshop::new();
    crate::molecule::waters(&w);
    let line = "molecule compare potential.ckpt --keep 0.5 --no-controls --methods svd,low_rank:size=keep=0.5,label=low --roles mixing \
                --calibration waters.xyz:examples=0-7,batch=3 --num-structures 6 --test waters.xyz:examples=8-11";
    let found = w.ok_json(&format!("{line} --seed 0,1 --against low -o run"));
    assert_eq!(cells(&found).len(), 4);
    assert_eq!(found["compare"]["dense"]["results"][0]["metrics"][0]["name"], "force_mae");
    assert!(w.ok(&format!("{line} --dry-run")).contains("Rows"));
    let common = line.replace("8-11", "7-11");
    w.fails(&format!("{common} -o common"), 2, &["share 1 structures"]);
}
