//! `compare`: every method at every size; `compress --method best`: the best of them.

use crate::molecule_train::{SMALL, waters};
use crate::recipes::differences;
use crate::train_net::{MLP, workshop};
use crate::workshop::{Workshop, names};
use serde_json::{Value, json};

const CALIBRATION: &str = "--calibration calibration.jsonl:num_tokens=2000,seq_len=64";
const TEXT: &str = "--text text.jsonl --evaluation window=64";

/// The cells of a result as method, size and what was found.
fn cells(result: &Value) -> Vec<(String, Value, Value)> {
    let cells = result["compare"]["cells"].as_array().unwrap();
    let cell = |own: &Value| {
        let method = own["method"].as_str().unwrap().to_owned();
        (method, own["asked"].clone(), own["found"].clone())
    };
    cells.iter().map(cell).collect()
}

#[test]
fn a_comparison_has_every_method_at_every_size_and_is_not_done_twice() {
    let w = Workshop::new();
    let args = format!(
        "compare model --keep 0.6,0.4 --methods low_rank,svd,width {TEXT} --tasks questions \
         --data questions=questions.jsonl {CALIBRATION} --title Smaller --seed 1 -o out"
    );
    let found = w.ok_json(&args);
    let cells = cells(&found);
    let names: Vec<(&str, f64)> =
        cells.iter().map(|(name, asked, _)| (&**name, asked.as_f64().unwrap_or(1.0))).collect();
    assert_eq!(
        names,
        [
            ("low_rank", 0.6),
            ("low_rank", 0.4),
            ("svd", 0.6),
            ("svd", 0.4),
            ("width", 0.6),
            ("width", 0.4),
            ("random", 0.6),
            ("random", 0.4),
            ("q8_0", 1.0),
            ("q4_0", 1.0),
            ("quantised", 0.6),
            ("quantised", 0.4)
        ]
    );
    let dense = &found["compare"]["dense"];
    for (name, asked, found) in &cells {
        let model = &found["model"];
        let counts = &model["parameters"];
        let kept = |part: &str| counts[part].as_u64().unwrap();
        assert_eq!(model["results"].as_array().unwrap().len(), 3, "{name}: {found}");
        assert!(!model["comparisons"].as_array().unwrap().is_empty());
        assert!(model["macs"]["linear"].as_u64() < model["macs"]["with_attention"].as_u64());
        if let (Some(share), false) = (asked.as_f64(), name == "quantised") {
            assert!(kept("targeted") as f64 <= share * kept("targeted_dense") as f64, "{name}");
            assert!(model["bytes"].as_u64() < dense["bytes"].as_u64(), "{name}");
            assert!(model["speed"][1]["prompt"].as_f64().unwrap() > 0.0);
        }
    }
    assert!(w.text("out/report.md").starts_with("# Smaller"));
    assert!(w.text("out/report.html").contains("share of the parameters kept"));
    // Times stand apart.
    assert!(!w.text("out/result.json").contains("\"prompt\""));
    assert!(w.text("out/measured.json").contains("\"prompt\""));
    let shown = w.ok("report out --format markdown");
    assert!(shown.contains("low\\_rank") && shown.contains("from dense, 95 %"), "{shown}");
    let again = w.run(&args);
    assert!(again.code == Some(0) && !again.stderr.contains("fitting"), "{}", again.stderr);
}

#[test]
fn another_selection_goes_on_with_the_cells_that_are_there() {
    let w = Workshop::new();
    let of = |selection: &str, seed: u64| {
        format!("compare model {selection} {TEXT} {CALIBRATION} --seed {seed} --layers 0 -o out")
    };
    let first = w.ok_json(&of("--keep 0.6 --methods low_rank,svd --no-controls", 1));
    let more = of("--keep 0.6,0.4 --methods svd,width", 1);
    let run = w.run(&more);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    // The SVD at 0.6 is not fitted again, the one at 0.4 is.
    let is_fitted = |name: &str| run.stderr.contains(name);
    assert!(!is_fitted("svd at 0.6 (") && is_fitted("svd at 0.4 ("), "{}", run.stderr);
    assert!(!is_fitted("scoring the dense model"), "{}", run.stderr);
    let second = w.ok_json(&more);
    let of_cell = |of: &Value| {
        let is_cell = |own: &&(String, Value, Value)| own.0 == "svd" && own.1 == 0.6;
        cells(of).iter().find(is_cell).unwrap().clone()
    };
    assert_eq!(of_cell(&first), of_cell(&second));
    // What changes cells is refused, by name.
    w.fails(
        &of("--keep 0.6 --methods svd", 2),
        6,
        &["out belongs to another run", "seed is 1 there and 2 here"],
    );
    w.write("text.jsonl", w.text("text.jsonl") + "\n");
    w.fails(&more, 6, &["text.jsonl is", "there and"]);
}

#[test]
fn the_best_model_is_saved_and_scores_as_it_was_told() {
    let w = Workshop::new();
    let args = format!(
        "compare model --keep 0.6 --methods low_rank,svd --no-controls {TEXT} {CALIBRATION} --layers 0 \
         --roles up,down -o out"
    );
    let found = w.ok_json(&format!("{args} --save-best best --form native --dtype f32 --force"));
    assert_eq!(cells(&found).len(), 2);
    let scores_as_told = |found: &Value, saved: &str| {
        let best = found["saved"]["method"].as_str().unwrap();
        let told = cells(found);
        let (_, _, own) = told.iter().find(|(name, ..)| name == best).unwrap();
        let told = own["model"]["results"][0]["metrics"][0]["value"].as_f64().unwrap();
        let scored = w.ok_json(&format!("eval {saved} --text text.jsonl --window 64 --limit 200"));
        let scored = scored["results"].to_string();
        assert!(scored.contains(&format!("{told}")[..7]), "{told} in {scored}");
        told
    };
    let wide = scores_as_told(&found, "best");
    // Models are judged, and their bytes counted, in the type that is asked for.
    let halves = w.ok_json(&format!("{args}2 --save-best half --form native --dtype bf16"));
    assert_ne!(scores_as_told(&halves, "half"), wide);
    let bytes = |result: &Value| result["compare"]["dense"]["bytes"].as_u64().unwrap();
    assert_eq!(bytes(&found), 2 * bytes(&halves));
    // Methods that narrow whole layers do not suit a subset of roles, and this is reported.
    let shown = w.ok(&format!(
        "compare model --keep 0.6 --methods width --no-controls {TEXT} {CALIBRATION} --roles up -o none"
    ));
    assert!(shown.contains("width at 0.6: no model"), "{shown}");
}

#[test]
fn sizes_that_a_method_lacks_are_told_with_the_nearest() {
    let w = Workshop::new();
    let shown = w.ok(&format!(
        "compare model --keep 0.01 --methods low_rank --no-controls {TEXT} {CALIBRATION} -o out"
    ));
    assert!(shown.contains("low_rank at 0.01: no such size"), "{shown}");
    let planned = w.ok(&format!("compare model --methods all {TEXT} {CALIBRATION} --dry-run"));
    for name in ["kronecker", "rotor", "width", "random", "quantised", "time of the evaluations"] {
        assert!(planned.contains(name), "{name} in {planned}");
    }
}

#[test]
fn sizes_that_save_nothing_are_left_out_by_name() {
    let w = Workshop::new();
    let line = "compare pocket --keep 0.9 --methods monarch,block_hadamard,low_rank --no-controls \
                --dry-run";
    let found = w.ok_json(line);
    assert_eq!(found["models"], 2, "{found}");
    for (index, kept) in ["keeps 1.0039", "keeps 1.0000"].into_iter().enumerate() {
        let reason = found["left_out"][index].as_str().unwrap();
        assert!(reason.contains(kept) && reason.contains("saves nothing"), "{reason}");
        assert_eq!(found["fit_seconds"][index], Value::Null);
    }
    assert_eq!(found["left_out"][2], Value::Null);
    assert!(found["fit_seconds"][2].as_f64().unwrap() > 0.0, "{found}");
    let shown = w.ok(line);
    assert_eq!(shown.matches("which saves nothing").count(), 2, "{shown}");
}

#[test]
fn what_is_missing_of_a_comparison_is_one_candidate() {
    let w = Workshop::new();
    let line = format!(
        "compare model --keep 0.6 --methods slicegpt,drop_layers,llm_pruner --no-controls {TEXT} \
         {CALIBRATION} -o out"
    );
    w.ok(&line);
    let whole = w.read("out/result.json");
    let cells = names(&w.path("out/compared"));
    assert_eq!(cells.len(), 3);
    for cell in cells {
        std::fs::remove_dir_all(w.path("out/compared").join(cell)).unwrap();
        let again = w.run(&line);
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        let made = again.stderr.lines().filter(|line| line.contains(" of 3)"));
        assert_eq!(made.count(), 1, "{}", again.stderr);
        assert!(w.read("out/result.json") == whole);
    }
}

#[test]
fn every_model_is_trained_alike_and_methods_take_their_options() {
    let w = Workshop::new();
    let line = format!(
        "compare model --keep 0.6 --methods low_rank,modegpt:temperature=0,width \
         {TEXT} {CALIBRATION}"
    );
    let plain = w.ok_json(&format!("{line} -o plain"));
    let trained = w.ok_json(&format!("{line} --recover 8:rate=0.003 -o trained"));
    let value = |found: &Value| found["model"]["results"][0]["metrics"][0]["value"].clone();
    for ((name, _, before), (_, _, after)) in cells(&plain).iter().zip(&cells(&trained)) {
        let note = after["model"]["note"].as_str().unwrap_or_default();
        let is_rounded = ["q8_0", "q4_0", "quantised"].contains(&name.as_str());
        assert_eq!(note.contains("recovery"), !is_rounded, "{name}: {note}");
        assert_eq!(value(before) == value(after), !note.contains("lowered"), "{name}: {note}");
        assert_eq!(before["model"]["memory"], after["model"]["memory"], "{name}");
    }
    assert!(w.text("trained/report.md").contains("recovery lowered the held-out loss"));
    // The same share for each layer is another model than a division by influence.
    let divided = w.ok_json(&format!(
        "compare model --keep 0.6 --methods modegpt --no-controls {TEXT} {CALIBRATION} -o divided"
    ));
    let (equal, divided) = (&cells(&plain)[1].2, &cells(&divided)[0].2);
    assert_ne!(value(equal), value(divided));
    let planned = w.ok_json(&format!("{line} --recover 8000 --dry-run"));
    let seconds = planned["fit_seconds"].as_array().unwrap();
    let known = |at: usize| seconds[at].as_f64().is_some_and(|seconds| seconds > 0.0);
    // Pruning and rounding have no estimate. Measured speeds differ from run to run, so the
    // recovery is a long one.
    assert_eq!(
        [known(0), known(1), known(2), known(3), known(4)],
        [true, false, false, true, false]
    );
    assert_eq!(planned["cells"].as_array().unwrap().len(), seconds.len());
    let shorter = w.ok_json(&format!("{line} --dry-run"));
    assert!(shorter["fit_seconds"][0].as_f64() < seconds[0].as_f64());
}

#[test]
fn shards_give_the_same_bytes() {
    let w = Workshop::new();
    let line =
        format!("compare model --keep 0.6,0.4 --methods svd --no-controls {TEXT} {CALIBRATION}");
    w.ok(&format!("{line} -o whole"));
    for index in 0..2 {
        w.ok(&format!("{line} --shard {index}/2 -o part{index}"));
    }
    w.ok("merge part1 part0 -o merged");
    let mut differing = differences(&w, "whole", "merged");
    differing.retain(|name| !name.starts_with("speed/"));
    assert_eq!(differing, [""; 0]);
    // The best model is saved from the merged directory.
    w.fails(&format!("{line} --shard 0/2 -o part0 --save-best best"), 2, &["--save-best", "merge"]);
    let saved = w.run(&format!("{line} -o merged --save-best best"));
    assert!(saved.code == Some(0) && !saved.stderr.contains("scoring"), "{}", saved.stderr);
    assert!(w.path("best/config.json").is_file());
}

#[test]
fn bad_comparisons_are_refused_before_any_work() {
    let w = Workshop::new();
    for (args, words) in [
        (format!("--keep 1 {TEXT} {CALIBRATION}"), vec!["--keep 1", "between 0 and 1"]),
        (format!("--keep 0.5,0.5 {TEXT} {CALIBRATION}"), vec!["0.5 twice"]),
        (CALIBRATION.to_owned(), vec!["nothing to compare", "--text"]),
        (TEXT.to_owned(), vec!["no calibration text"]),
        (format!("--methods nothing {TEXT}"), vec!["nothing"]),
        (format!("--save-best out/best {TEXT} {CALIBRATION}"), vec!["--save-best"]),
        (format!("--methods modegpt:3 {TEXT} {CALIBRATION}"), vec!["--methods", "no option 3"]),
        (
            format!("--methods svd,asvd:alpha=1,asvd:alpha=0.5 {TEXT} {CALIBRATION}"),
            vec!["asvd:alpha=1 and asvd:alpha=0.5 are one row"],
        ),
        (
            format!("--methods modegpt:heat=2 {TEXT} {CALIBRATION}"),
            vec!["modegpt has no option heat", "temperature"],
        ),
        (format!("--recover 0 {TEXT} {CALIBRATION}"), vec!["0"]),
    ] {
        let before = w.names();
        w.fails(&format!("compare model {args} -o out"), 2, &words);
        assert_eq!(w.names(), before, "{args}");
    }
}

#[test]
fn a_budget_is_spent_on_what_has_the_least_loss_and_the_model_loads() {
    let w = Workshop::new();
    let args = format!("compress model --method best --keep 0.6 {CALIBRATION}");
    let found = w.ok_json(&format!("{args} {TEXT} -o out"));
    let budget = &found["budget"];
    let tried = budget["tried"].as_array().unwrap();
    let losses: Vec<f64> = tried
        .iter()
        .filter(|own| own["reason"].is_null())
        .map(|own| own["loss"].as_f64().unwrap())
        .collect();
    assert!(losses.len() > 5 && losses.is_sorted(), "{losses:?}");
    assert!(tried.iter().any(|own| own["method"].as_str().unwrap().contains("divided")));
    assert!(found["summary"]["keep"].as_f64().unwrap() <= 0.605);
    assert!(found["results"][0]["task"] == json!("text"), "{}", found["results"]);
    w.ok("eval out --text text.jsonl --window 64");
    let shown = w.ok(&format!("{args} --allocate uniform -o uniform"));
    assert!(shown.contains("has the least loss on") && shown.contains("won"), "{shown}");
    assert!(!shown.contains("divided over"), "{shown}");
    let planned = w.ok(&format!("{args} -o none --dry-run"));
    assert!(planned.contains("swift_svd") && planned.contains("divided over"), "{planned}");
    for (options, words) in [
        ("--heal none", vec!["--heal", "--method best"]),
        ("--allocate spectrum", vec!["--allocate spectrum", "sensitivity"]),
        ("--offload", vec!["--offload", "--method best"]),
    ] {
        w.fails(&format!("{args} {options} -o none"), 2, &words);
    }
    w.fails(
        &format!("compress model --method best --rank 2 {CALIBRATION} -o none"),
        2,
        &["--method best", "--keep SHARE"],
    );
}

#[test]
fn every_text_has_its_own_row() {
    let w = Workshop::new();
    let [calibration, text] = [CALIBRATION, TEXT].map(|option| option.split(' ').nth(1).unwrap());
    let calibration = calibration.split_once(':').unwrap().0;
    std::fs::copy(w.path(calibration), w.path("other.jsonl")).unwrap();
    let args = format!("compare model --keep 0.6 --methods svd --no-controls {CALIBRATION} {TEXT}");
    let found = w.ok_json(&format!("{args},more_texts=other.jsonl -o out"));
    let tasks = |results: &Value| -> Vec<(String, f64)> {
        let result = |own: &Value| {
            let figure = own["metrics"][0]["value"].as_f64().unwrap();
            (own["task"].as_str().unwrap().to_owned(), figure)
        };
        results.as_array().unwrap().iter().map(result).collect()
    };
    let dense = tasks(&found["compare"]["dense"]["results"]);
    assert_eq!([&*dense[0].0, &dense[1].0], ["text", "text:other"]);
    assert_ne!(dense[0].1, dense[1].1);
    let alone = w.ok_json("eval model --text other.jsonl --window 64 --limit 200");
    assert_eq!(alone["results"]["text"]["token_perplexity,none"], json!(dense[1].1));
    let edited = &cells(&found)[0].2;
    assert_eq!(tasks(&edited["model"]["results"]).len(), 2, "{edited}");
    for (options, words) in [
        (
            format!(
                "--text {text} --more-texts other.jsonl --more-texts {text} --more-texts {text}"
            ),
            "text:",
        ),
        ("--more-texts other.jsonl".to_owned(), "--text"),
    ] {
        w.fails(&format!("eval model {options} -o none"), 2, &["--more-texts", words]);
    }
}

#[test]
fn a_budget_with_an_evaluation_text_fits_to_the_other_text() {
    let w = Workshop::new();
    let [calibration, text] = [CALIBRATION, TEXT].map(|option| option.split(' ').nth(1).unwrap());
    let args = "compress model --method best --keep 0.6 --allocate uniform";
    let found = w.ok_json(&format!("{args} --calibration {calibration} --text {text} -o out"));
    assert_eq!(found["calibration"]["name"], "calibration.jsonl", "{found}");
    assert!(found["budget"]["tried"][0]["loss"].as_f64().unwrap() > 0.0);
    assert!(found["results"].as_array().is_some_and(|results| !results.is_empty()), "{found}");
    let told = ["--eval was renamed: --calibration", "--text"];
    w.fails(&format!("{args} --text {calibration} --eval {text} -o none"), 2, &told);
}

/// Images to fit to, and others to score on.
const IMAGES: &str = "--calibration a-images-idx3-ubyte:labels=a-labels-idx1-ubyte,examples=0-59 \
                      --images a-images-idx3-ubyte:examples=60-119";

/// Names and shares of the cells with a model, each paired with the dense network in a metric.
fn models<'a>(cells: &'a [(String, Value, Value)], metric: &str) -> Vec<(&'a str, f64)> {
    let is_pair = |pair: &Value| pair["metric"] == metric && pair["items"].as_u64() > Some(1);
    let with_model = cells.iter().filter(|(_, _, found)| {
        let pairs = found["model"]["comparisons"].as_array();
        pairs.is_some_and(|pairs| pairs.iter().any(is_pair))
    });
    with_model.map(|(name, asked, _)| (&**name, asked.as_f64().unwrap_or(1.0))).collect()
}

#[test]
fn methods_are_compared_on_an_image_network() {
    let w = workshop();
    w.ok(&format!("{MLP} --epochs 20 -o net"));
    let of =
        |selection: &str| format!("compare-net net {IMAGES} {selection} --title Smaller -o out");
    let first = of("--keep 0.6,0.4 --methods low_rank,svd");
    let found = w.ok_json(&first);
    let found_cells = cells(&found);
    assert_eq!(
        models(&found_cells, "acc"),
        [
            ("low_rank", 0.6),
            ("low_rank", 0.4),
            ("svd", 0.6),
            ("svd", 0.4),
            ("random", 0.6),
            ("random", 0.4),
            ("q8_0", 1.0),
            ("q4_0", 1.0),
            ("quantised", 0.6),
            ("quantised", 0.4)
        ]
    );
    let dense = &found["compare"]["dense"];
    assert_eq!(dense["macs"]["linear"], 64 * 16 + 16 * 12 + 12 * 4);
    assert_eq!(dense["results"][0]["metrics"][1]["name"], "acc");
    assert!(w.text("out/report.md").starts_with("# Smaller"));
    assert!(!w.text("out/result.json").contains("\"examples\""));
    let shown = w.ok("report out --format markdown");
    assert!(shown.contains("cross\\_entropy") && shown.contains("examples/s"), "{shown}");
    // The same again computes nothing, another selection what is new.
    let again = w.run(&first);
    assert!(again.code == Some(0) && !again.stderr.contains(" at 0."), "{}", again.stderr);
    let more = w.run(&of("--keep 0.4,0.2 --methods svd --no-controls"));
    assert_eq!(more.code, Some(0), "{}", more.stderr);
    assert!(more.stderr.contains("svd at 0.2 (") && !more.stderr.contains("svd at 0.4 ("));
    w.fails(
        &of("--keep 0.4 --seed 2"),
        6,
        &["out belongs to another run", "seed is not given there and 2 here"],
    );
    // Shards are merged to the same bytes.
    for shard in 0..2 {
        let line = first.replace("-o out", &format!("--shard {shard}/2 -o part{shard}"));
        w.ok(&line);
    }
    w.ok(&first.replace("-o out", "-o whole"));
    w.ok("merge part0 part1 -o merged");
    assert_eq!(w.json("merged/result.json")["compare"], w.json("whole/result.json")["compare"]);
}

#[test]
fn what_suits_no_comparison_of_images_is_refused_by_option() {
    let w = workshop();
    w.ok(&format!("{MLP} --epochs 1 -o net"));
    for (line, words) in [
        (format!("compare-net net {IMAGES} --keep 1.5"), &["--keep"][..]),
        (format!("compare-net net {IMAGES} --keep 0.5,0.5"), &["--keep names 0.5 twice"]),
        (format!("compare-net net {IMAGES} --methods width"), &["no method width"]),
        (format!("compare-net net {IMAGES} --sites nothing"), &["nothing"]),
        (format!("compare-net net {IMAGES} --layers 9"), &["9"]),
        (
            IMAGES.replace("60-119", "50-119"),
            &["--calibration and --images share 10 images", "the first is 50"],
        ),
        (IMAGES.replace("60-119", "60-200"), &["there is no image 200"]),
        (IMAGES.replace("0-59", "x"), &["--calibration examples=x"]),
    ] {
        let line =
            if line.starts_with("compare") { line } else { format!("compare-net net {line}") };
        w.fails(&format!("{line} -o none"), 2, words);
        assert!(!w.path("none").exists(), "{line}");
    }
}

#[test]
fn linear_methods_are_compared_on_a_potential() {
    let w = Workshop::new();
    w.write("a.xyz", waters(24));
    w.write("b.xyz", waters(30));
    w.ok(&format!("{SMALL} --steps 20 -o potential"));
    let command = "molecule compare potential --calibration a.xyz --test b.xyz --num-structures 20 \
                   --keep 0.5 --roles mixing";
    let found = w.ok_json(&format!("{command} --methods low_rank,svd -o out"));
    let found_cells = cells(&found);
    let expected = [("low_rank", 0.5), ("svd", 0.5), ("random", 0.5), ("q8_0", 1.0), ("q4_0", 1.0)];
    assert_eq!(models(&found_cells, "force_mae")[..5], expected);
    assert_eq!(models(&found_cells, "energy_mae")[..5], expected);
    let notes = found["compare"]["notes"].to_string();
    assert!(notes.contains("errors of forces in eV/A"), "{notes}");
    assert!(w.ok("report out --format markdown").contains("force\\_mae"));
    // Operators that are not linear are refused by name, and no part of `all`.
    w.fails(&format!("{command} --methods rotor -o none"), 2, &["rotor", "not linear"]);
    w.fails(
        "molecule compare potential --calibration a.xyz --test a.xyz -o none",
        2,
        &["--calibration and --test share 24 structures"],
    );
}
