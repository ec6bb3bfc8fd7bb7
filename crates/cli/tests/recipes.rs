//! Recipes of jobs: references, stages, values from outside, resumption, reproduction.

use crate::workshop::{Workshop, names};
use serde_json::{Value, json};
use std::fs;

/// Two methods, one evaluated, the other exported.
pub(crate) const JOBS: &str = "
version: 1
title: Two methods
model: model
text: text.jsonl
evaluation: {window: 64}
jobs:
  - compress: {rank: 2, calibration: {dataset: calibration.jsonl, num_tokens: 1200, seq_len: 64}, layers: 0}
  - compress: {method: laser, rank: 3, roles: [up, gate]}
    name: cut
  - eval: {model: {from: cut}, baseline: model, window: 64}
  - export: {model: {from: compress-1}, form: dense}
";

/// Files below a directory with their content, but for times and locks.
pub(crate) fn contents(w: &Workshop, directory: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in names(&w.path(directory)) {
        let path = format!("{directory}/{name}");
        if w.path(&path).is_dir() {
            let below = contents(w, &path).into_iter();
            found.extend(below.map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else if name != "measured.json" && name != ".lock" && name != "shard.json" {
            found.push((name, w.read(&path)));
        }
    }
    found
}

/// Names of the files in which two directories differ.
pub(crate) fn differences(w: &Workshop, one: &str, other: &str) -> Vec<String> {
    let (one, other) = (contents(w, one), contents(w, other));
    let differs = |of: &[(String, Vec<u8>)], from: &[(String, Vec<u8>)]| -> Vec<String> {
        let changed = of.iter().filter(|file| !from.contains(file));
        changed.map(|(name, _)| name.clone()).collect()
    };
    let mut all = [differs(&one, &other), differs(&other, &one)].concat();
    all.sort();
    all.dedup();
    all
}

#[test]
fn a_list_of_jobs_writes_a_directory_that_can_be_reproduced() {
    let w = Workshop::new();
    w.write("jobs.yaml", JOBS);
    let shown = w.ok("run -r jobs.yaml -o out");
    for said in ["compress-1: compress", "cut: compress", "eval-1: eval", "export-1: export"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    for file in ["recipe.yaml", "reproduce.json", "measured.json", "results.json", "report.html"] {
        assert!(w.path(&format!("out/{file}")).is_file(), "{file}");
    }
    for file in ["recipe.yaml", "reproduce.json", "measured.json", "README.md", "config.json"] {
        assert!(w.path(&format!("out/export-1/{file}")).is_file(), "export-1/{file}");
    }
    // What the first model was made of is carried along.
    let export = w.json("out/export-1/reproduce.json");
    assert_eq!(export["source"]["job"]["compress"]["rank"], 2, "{export}");
    let record = w.json("out/reproduce.json");
    let read: Vec<&Value> =
        record["data"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
    // In the order in which jobs name them; what one writes for another is left out.
    assert_eq!(read, ["model", "calibration.jsonl", "text.jsonl"], "{record}");
    let report = w.text("out/report.md");
    assert!(report.contains("wrote compress-1;") && !report.contains("out/"), "{report}");
    let results = w.json("out/results.json");
    let perplexity = &results["jobs"]["eval-1"]["results"]["text"]["token_perplexity,none"];
    assert!(perplexity.as_f64().unwrap() > 1.0, "{results}");
    assert_eq!(results["jobs"]["eval-1"]["date"], json!(null), "times stand elsewhere");
    let measured = w.json("out/measured.json");
    assert!(measured["measured"]["jobs"]["eval-1"]["date"].as_f64().unwrap() > 1e9);

    // Nothing is done twice.
    let again = w.run("run -r jobs.yaml -o out");
    assert!(!again.stderr.contains("fitting"), "{}", again.stderr);
    again.succeeded("again");

    let said = w.ok("reproduce out -o again");
    assert!(said.contains("have the same bytes"), "{said}");
    assert_eq!(differences(&w, "out", "again"), [""; 0]);
    // A command with the same options writes the same directory.
    w.ok("compress model --method laser --rank 3 --roles up,gate --text text.jsonl --evaluation window=64 -o flags");
    assert_eq!(differences(&w, "out/cut", "flags"), [""; 0]);
    // The recipe that a directory holds is one.
    w.ok("run -r out/recipe.yaml -o third");
    assert_eq!(differences(&w, "out", "third"), [""; 0]);
}

#[test]
fn what_changed_since_is_told() {
    let w = Workshop::new();
    w.ok("compress model --rank 2 --calibration calibration.jsonl:num_tokens=1200,seq_len=64 -o a");
    w.ok("reproduce a -o b");
    fs::write(w.path("a/config.json"), "{}").unwrap();
    let other = w.run("reproduce a -o c");
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stdout.contains("config.json  different"), "{other:?}");
    assert!(other.stderr.contains("files have the same bytes as in a"), "{other:?}");
    let text = w.text("calibration.jsonl");
    w.write("calibration.jsonl", text + "{\"text\": \"more\"}\n");
    w.fails("reproduce a -o d", 6, &["calibration.jsonl", "another content"]);
    w.fails("reproduce model -o d", 1, &["reproduce.json", "give a directory that"]);
    assert!(!w.path("d").exists());
}

#[test]
fn stages_work_on_what_was_written_before() {
    let w = Workshop::new();
    w.write(
        "stages.yaml",
        "version: 1\nmodel: model\nstages:\n  - laser: {lname: mlp, rate: 9}\n  - eval: {text: \
         text.jsonl, window: 64, baseline: true}\n  - export: {form: dense}\n",
    );
    w.ok("run -r stages.yaml -o out");
    let recipe = w.text("out/recipe.yaml");
    assert!(recipe.contains("from: laser-1") && recipe.contains("baseline: model"), "{recipe}");
    let eval = w.json("out/eval-1.json");
    assert!(eval["linwright"]["baseline"].is_object(), "{eval}");
    // A factored model is exported as dense weights.
    assert_eq!(w.json("out/export-1/reproduce.json")["form"], "dense");
}

#[test]
fn a_command_is_a_recipe_and_values_come_from_outside() {
    let w = Workshop::new();
    let line =
        "laser model --lname fc_in --lnum 0 --rate 9 --text text.jsonl --evaluation window=64";
    let recipe = w.ok(&format!("{line} --print-recipe"));
    w.write("laser.yaml", &recipe);
    let (one, other) = (w.ok_json(line), w.ok_json("run -r laser.yaml -o out"));
    assert_eq!(one["sites"], other["jobs"]["laser-1"]["sites"]);
    assert_eq!(one["results"], other["jobs"]["laser-1"]["results"]);
    let other = w.ok_json("run -r laser.yaml -o more --set laser.rate=5 --set laser.lnum=1");
    let site = &other["jobs"]["laser-1"]["sites"][0];
    assert_eq!((&site["layer"], &site["size"]["rate"]), (&json!(1), &json!(5.0)), "{site}");
    let shown = w.ok("run -r laser.yaml --dry-run");
    assert!(shown.contains("linwright laser model --lname=fc_in"), "{shown}");
    w.fails("ls operators --print-recipe", 2, &["not a job of recipes"]);
}

#[test]
fn a_dry_run_tells_what_the_evaluations_cost_and_writes_nothing() {
    let w = Workshop::new();
    w.write("jobs.yaml", JOBS);
    let before = w.names();
    let tasks = "--text text.jsonl --window 64 --tasks questions --data questions=questions.jsonl";
    let eval = w.ok_json(&format!("eval model {tasks} --baseline model --dry-run -o out.json"));
    let real = w.ok_json(&format!("eval model {tasks}"));
    let counts = &real["linwright"]["counts"];
    for (index, task) in ["text", "multiple_choice"].into_iter().enumerate() {
        let cost = &eval["tasks"][index];
        assert_eq!((&cost["task"], &cost["models"]), (&json!(task), &json!(2)), "{eval}");
        // Contexts are read, too.
        let tokens = cost["tokens"].as_u64().unwrap();
        let counted = counts[task]["tokens_counted"].as_u64().unwrap();
        assert!(tokens > counted, "{task}: {eval} {real}");
    }
    let both = |of: &Value| {
        of["tasks"].as_array().unwrap().iter().map(|t| t["tokens"].as_u64().unwrap()).sum::<u64>()
    };
    let seconds = 2.0 * both(&eval) as f64 / eval["tokens_per_second"].as_f64().unwrap();
    assert!((eval["seconds"].as_f64().unwrap() / seconds - 1.0).abs() < 1e-9, "{eval}");
    let cut = "model --roles fc_in,fc_out --size rate=9,5 --text text.jsonl --evaluation window=64";
    for verb in ["sweep", "compose"] {
        let cost = w.ok_json(&format!("{verb} {cut} --dry-run -o out"));
        // Two weights in two layers at two sizes, and the dense model.
        assert_eq!(cost["tasks"][0]["models"], 9, "{verb}: {cost}");
    }
    let laser = w.ok_json("laser model --lname mlp --rate 9 --text text.jsonl --dry-run -o out");
    assert_eq!(laser["tasks"][0]["models"], 2, "{laser}");
    let list = w.ok_json("run -r jobs.yaml --dry-run");
    let names: Vec<&String> = list["costs"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["compress-1", "cut"], "the others read what these write");
    assert_eq!(list["commands"].as_array().unwrap().len(), 4);
    assert_eq!(w.names(), before);
}

#[test]
fn an_output_that_a_recipe_names_is_in_its_directory() {
    let w = Workshop::new();
    w.write(
        "job.yaml",
        "version: 1\njobs:\n  - laser: {model: model, lname: fc_in, lnum: 0, rate: 9, output: saved}\n  \
         - export: {model: {from: laser-1}, form: dense}\n",
    );
    w.ok("run -r job.yaml -o out");
    assert!(w.path("out/saved/config.json").is_file() && !w.path("out/laser-1").exists());
    assert!(!w.path("saved").exists());
    let again = w.run("run -r job.yaml -o out");
    assert!(!again.stderr.contains("loading model"), "{}", again.stderr);
    again.succeeded("the model that it wrote is none of its data");
    let said = w.ok("reproduce out -o again");
    assert!(said.contains("have the same bytes"), "{said}");
    assert!(w.path("again/saved/config.json").is_file());
}

#[test]
fn the_schema_and_the_page_are_printed() {
    let w = Workshop::new();
    let schema: serde_json::Value = serde_json::from_str(&w.ok("run --print-schema")).unwrap();
    assert_eq!(schema, w.ok_json("run --print-schema"));
    let keep = &schema["$defs"]["compress"]["properties"]["keep"]["anyOf"][0]["description"];
    assert!(keep.as_str().unwrap().contains("Share of parameters"), "{keep}");
    assert!(w.ok("run --print-reference").starts_with("# Recipes"));
    w.fails("run", 2, &["no recipe is given", "--recipe"]);
}

#[test]
fn wrong_recipes_are_refused_before_any_work() {
    let w = Workshop::new();
    let job = "version: 1\njobs:\n  - eval: {model: model, text: text.jsonl}\n";
    let cases = [
        ("version: 2\neval: {model: model}", &["version is 2"][..]),
        ("version: 1\njobs: []", &["empty"]),
        ("version: 1\njobs: 3", &["not a list"]),
        ("version: 1\neval: {model: model}\nlaser: {}", &["expected one of"]),
        ("version: 1\njobs: [{evl: {}}]", &["no job evl", "eval"]),
        ("version: 1\njobs: [{eval: {}, laser: {}}]", &["second job"]),
        ("version: 1\njobs: [{eval: 3}]", &["expected its options"]),
        ("version: 1\njobs: [{run: {recipe: a}}]", &["no job run"]),
        ("version: 1\njobs: [{name: a}]", &["names no job"]),
        ("version: 1\njobs: [{eval: {}, name: ../a}]", &["name is", "letters"]),
        (
            "version: 1\njobs: [{eval: {model: m}, name: a}, {eval: {model: m}, name: a}]",
            &["two jobs"],
        ),
        ("version: 1\njobs: [{eval: {model: {from: a}}}]", &["not an earlier job"]),
        (
            "version: 1\njobs: [{compress: {model: m, keep: 0.5, calibration: {dataset: {from: a}, num_tokens: 3}}}]",
            &["calibration refers to", "not an earlier job"],
        ),
        (
            "version: 1\njobs: [{eval: {model: m, text: t}}, {export: {model: {from: eval-1}}}]",
            &["writes no model"],
        ),
        (
            "version: 1\njobs: [{sweep: {model: m}}, {compose: {model: m, sweep: {from: sweep-1, file: ../a}}}]",
            &["below the directory"],
        ),
        ("version: 1\nmodel: model\nlimt: 3\njobs: [{eval: {text: t}}]", &["limt", "limit"]),
        (
            "version: 1\nmodel: model\nwindow: 64\njobs: [{eval: {text: t}}, {compress: {keep: 0.5}}]",
            &["window of compress was renamed: --evaluation window=VALUE"],
        ),
        ("version: 1\njobs: [{eval: {model: m, windw: 3}}]", &["eval-1", "windw", "window"]),
        ("version: 1\njobs: [{eval: {model: m, window: many}}]", &["eval-1", "window"]),
    ];
    for (recipe, words) in cases {
        w.write("wrong.yaml", recipe);
        let words = [&["error"][..], words].concat();
        w.fails("run -r wrong.yaml -o out", 3, &words);
        assert!(!w.path("out").exists(), "{recipe}");
    }
    w.write("job.yaml", job);
    w.fails("run -r job.yaml --set jobs.4.a=1", 2, &["--set", "not an item of a list of 1"]);
    w.fails("run -r job.yaml --set a", 2, &["expected key=value"]);
}

#[test]
fn another_recipe_in_the_same_directory_is_refused() {
    let w = Workshop::new();
    w.write("job.yaml", "version: 1\nlaser: {model: model, lname: fc_in, lnum: 0, rate: 9}\n");
    w.ok("run -r job.yaml -o out");
    w.fails(
        "run -r job.yaml -o out --set laser.rate=8",
        6,
        &["belongs to another run", "rate is 9 there and 8 here"],
    );
    // So are changed texts and models: the jobs would not belong together.
    let config = w.text("model/config.json");
    w.write("model/config.json", config.clone() + "\n");
    w.fails(
        "run -r job.yaml -o out",
        6,
        &["belongs to another run", "content.model is", "its data"],
    );
    w.write("model/config.json", config);
    // A job whose output was removed runs again, and the others do not.
    fs::remove_dir_all(w.path("out/laser-1")).unwrap();
    w.ok("run -r job.yaml -o out");
    assert!(w.path("out/laser-1/config.json").is_file());
}
