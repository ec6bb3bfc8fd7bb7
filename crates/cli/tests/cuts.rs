//! `laser`, `sweep`, `compose` and recipes of sweeps.

use crate::workshop::{Workshop, pieces};
use serde_json::{Value, json};

/// A workshop with questions.
fn workshop(count: usize) -> Workshop {
    let w = Workshop::new();
    let line = |i: usize| json!({"question": format!("Tom {i} has"), "choices": ["a boat", "tea", format!("{i} dogs")], "answer": i % 3, "band": (["rare", "frequent"][i % 2])});
    w.write("q.jsonl", (0..count).map(|i| format!("{}\n", line(i))).collect::<String>());
    w
}

/// What a command that fails says.
fn err(w: &Workshop, args: &str, code: i32) -> String {
    w.fails(args, code, &[])
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn weights_are_cut_judged_and_saved_smaller() {
    let w = workshop(6);
    let args = "laser model --no-cache --lname mlp --lnum -1 --rank 1 --tasks questions --data questions=q.jsonl -o cut";
    let json = w.ok_json(args);
    let sites = json["sites"].as_array().unwrap();
    assert!(
        sites
            .iter()
            .all(|site| site["report"]["kept"]["rank"] == 1 && site["report"]["factored"] == true)
    );
    let sum = |of: &str| sites.iter().map(|site| number(&site["report"][of])).sum::<f64>();
    assert_eq!(
        (number(&json["targeted"]), number(&json["targeted_dense"])),
        (sum("parameters"), sum("dense_parameters"))
    );
    assert_eq!(number(&json["keep"]), sum("parameters") / sum("dense_parameters"));
    assert_eq!(json["dense"].as_array().unwrap().len(), 1);
    assert!(json["comparisons"].as_array().unwrap().iter().any(|c| c["metric"] == "acc"), "{json}");
    // What was saved is what was judged.
    let again = w.ok_json("eval cut --tasks questions --data questions=q.jsonl");
    let metric = |name: &str| {
        let metrics = json["results"][0]["metrics"].as_array().unwrap();
        number(&metrics.iter().find(|m| m["name"] == name).unwrap()["value"])
    };
    for name in ["acc", "log_loss"] {
        let found = number(&again["results"]["multiple_choice"][format!("{name},none")]);
        assert!((found - metric(name)).abs() < 1e-4, "{name}: {found} {}", metric(name));
    }
    // Bytes of weights: the factors, and all that was not cut.
    let whole = w.ok_json("laser model --no-cache --lname dont --rate 9 -o whole");
    let saved = |json: &Value| number(&json["saved"]["parameters"]);
    assert_eq!(
        saved(&whole) - saved(&json),
        number(&json["targeted_dense"]) - number(&json["targeted"])
    );
    let dense = w.ok_json("laser model --no-cache --lname mlp --rank 1 -o dense --form dense");
    assert_eq!(saved(&dense), saved(&whole));
    let error = err(&w, args, 2);
    assert!(error.contains("cut exists"), "{error}");
}

#[test]
fn factors_beyond_break_even_are_spoken_of_or_not_written() {
    let w = workshop(2);
    let cut = "laser model --no-cache --lname mlp --rank 31 --intervention rank-reduction:storage=factored --json";
    let native = w.run(&format!("{cut} -o native --form native"));
    for said in ["hold no fewer parameters than a dense weight", "larger than in dense form"] {
        assert!(native.stderr.contains(said), "{said}: {}", native.stderr);
    }
    let native: Value = serde_json::from_str(&native.stdout).unwrap();
    assert_eq!(native["saved"]["warnings"].as_array().unwrap().len(), 2, "{native}");
    // Without a word about the form nothing is larger than it need be.
    let auto = w.ok_json(&format!("{} -o auto", cut.trim_end_matches(" --json")));
    assert_eq!(auto["saved"]["form"], "dense");
    assert!(auto["saved"]["reason"].as_str().unwrap().contains("no gain"), "{auto}");
    assert!(number(&auto["saved"]["parameters"]) < number(&native["saved"]["parameters"]));
}

#[test]
fn models_compare_document_by_document_and_what_is_the_same_says_so() {
    let w = workshop(6);
    let cut = "laser model --no-cache --lname mlp --lnum 1 --rank 1 --text text.jsonl --evaluation window=64";
    let json = w.ok_json(cut);
    let of = |name: &str| {
        let all = json["comparisons"].as_array().unwrap();
        all.iter().find(|one| one["metric"] == name).unwrap().clone()
    };
    for name in ["token_perplexity", "nll_nats_per_token"] {
        let value = |part: &str| {
            let metrics = json[part][0]["metrics"].as_array().unwrap();
            number(&metrics.iter().find(|metric| metric["name"] == name).unwrap()["value"])
        };
        let difference = number(&of(name)["difference"]);
        assert!((difference - value("results") + value("dense")).abs() < 1e-9, "{name}");
        assert!(number(&of(name)["interval"][0]) < difference && difference != 0.0);
    }
    let shown = w.ok(cut);
    let rows = shown.split("95 % interval").nth(1).unwrap();
    assert!(rows.contains("nll_nats_per_token") && rows.contains(" to "), "{shown}");
    // The items of a single document are its windows.
    let windows = w.ok_json(&format!("{} --limit 1", cut.replace("window=64", "window=16")));
    let interval = &windows["comparisons"][0];
    assert!(interval["items"].as_u64().is_some_and(|items| items > 1), "{interval}");
    let one = w.ok(&format!("{} --limit 1", cut.replace("window=64", "window=128")));
    assert!(one.contains("no paired comparison") && !one.contains("95 %"), "{one}");
    let same = w.ok(
        "laser model --no-cache --lname dont --rate 9 --tasks questions --data questions=q.jsonl",
    );
    assert!(same.contains("no item differs") && !same.contains("+0.0000"), "{same}");
}

#[test]
fn a_text_of_several_documents_is_split_and_all_of_it_is_judged_where_asked() {
    let w = workshop(20);
    let text = w.text("text.jsonl").lines().next().unwrap().to_owned() + "\n";
    w.write("many.jsonl", text.repeat(12));
    w.write("few.jsonl", text.repeat(9));
    let args = "sweep model --roles fc_in --size rate=9 --evaluation window=64";
    let counts = |args: &str| {
        let sweep = &w.ok_json(args)["sweep"];
        let of = |part: &Value| part["dense"]["counts"]["items"].as_u64();
        (of(sweep), of(&sweep["test"]))
    };
    assert_eq!(counts(&format!("{args} --text many.jsonl -o split")), (Some(2), Some(10)));
    assert_eq!(counts(&format!("{args} --text many.jsonl --no-split -o all")), (Some(12), None));
    // A fifth of few documents is one, which has no interval; joined ones are one document.
    assert_eq!(counts(&format!("{args} --text few.jsonl -o few")), (Some(9), None));
    assert_eq!(counts(&format!("{args},join=space --text many.jsonl -o one")), (Some(1), None));
    let both = format!("{args},shuffle=1 --text many.jsonl --no-split -o no");
    assert!(err(&w, &both, 2).contains("--no-split leaves nothing to shuffle"));
}

#[test]
fn a_sweep_leaves_its_files_and_goes_on() {
    let w = workshop(20);
    let args = "sweep model --cache spectra --roles fc_in,out_proj --size rate=9,5 --tasks questions --data questions=q.jsonl --evaluation shuffle=3 -o run";
    let json = w.ok_json(args);
    let cells = json["sweep"]["cells"].as_array().unwrap();
    let lines: Vec<Value> =
        w.text("run/cells.jsonl").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(&lines, cells);
    assert_eq!(json["sweep"]["dense"]["counts"]["items"], 4);
    assert_eq!(json["sweep"]["test"]["dense"]["counts"]["items"], 16);
    assert!(cells[0]["score"]["groups"].as_array().unwrap().len() == 2, "bands: {}", cells[0]);
    let best = json["sweep"]["best"].as_u64().unwrap() as usize;
    let acc = |cell: &Value| number(&cell["score"]["metrics"][0]["value"]);
    assert!(cells.iter().all(|cell| acc(cell) <= acc(&cells[best])));
    let page = w.text("run/report.html");
    assert!(page.contains("acc of fc_in (rank-reduction)") && page.contains("rgba("), "{page}");
    assert!(w.text("run/report.md").contains("| layer | rate 9 | rate 5 |"));
    let groups = json["sweep"]["test"]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "differences in both bands: {groups:?}");
    let of_band = &groups[1]["comparisons"][0];
    assert!(of_band["interval"].as_array().unwrap().len() == 2 && of_band["items"] == 8);
    assert!(w.ok(args).contains("acc, rare"), "bands are rows");
    // The same command reads what it found; nothing was left open.
    assert_eq!(w.ok_json(args)["sweep"], json["sweep"]);
    let error = err(&w, &args.replace("--size rate=9,5", "--size rate=8"), 6);
    assert!(error.contains("run belongs to another run"), "{error}");
    assert!(error.contains(r#"size is ["rate=9","rate=5"] there and ["rate=8"] here"#), "{error}");
    // Components are kept for the next command.
    assert_eq!(pieces(&w.path("spectra"), "components").len(), cells.len() / 2);
    let alone = w.ok_json(&format!("{} --no-share", args.replace("-o run", "-o alone")));
    assert_eq!(alone["sweep"]["best"], json["sweep"]["best"]);
    let composed = w.ok_json(&format!(
        "compose {} --sweep run/result.json",
        args.trim_start_matches("sweep ").replace("-o run", "-o composed")
    ));
    assert_eq!(composed["compose"]["steps"].as_array().unwrap().len(), cells.len() / 2);
    // Both are rendered again from what was saved.
    let again = w.ok("report run --format markdown");
    let tables = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(tables(again.trim_end()), tables(w.text("run/report.md").trim_end()));
    let steps = w.ok("report composed");
    assert!(steps.contains("Composed cuts of model") && steps.contains("accepted"), "{steps}");
    let edits: Value = serde_json::from_str(&w.text("composed/edits.json")).unwrap();
    assert_eq!(edits, composed["compose"]["edits"]);
    // A folder of a sweep is not a place for a composition, though the grid is the same.
    let mixed = args.replacen("sweep", "compose", 1);
    let error = err(&w, &mixed, 6);
    assert!(error.contains("run belongs to another run"), "{error}");
    let made = w.ok_json("laser model --no-cache --plan composed/edits.json -o made");
    assert_eq!(made["edits"], edits);
}

#[test]
fn weights_are_swept_by_role_and_by_pattern() {
    let w = workshop(10);
    let task = "--layers 1 --rank 2 --tasks questions --data questions=q.jsonl";
    let places = |json: &Value| -> Vec<Value> {
        let cells = json["sweep"]["cells"].as_array().unwrap().iter();
        cells.map(|cell| json!([cell["place"], cell["kept"][0]["rank"]])).collect()
    };
    let json = w.ok_json(&format!("sweep model --no-cache --roles gate,key {task} -o roles"));
    let of = |role: &str, site: &str| {
        let sites = [format!("model.layers.1.{site}")];
        json!([{"role": role, "layer": 1, "sites": sites}, 2])
    };
    let expected = [of("gate", "mlp.gate_proj"), of("key", "self_attn.k_proj")];
    assert_eq!(places(&json), expected);
    assert!(w.text("roles/report.md").contains("acc of key (rank-reduction)"));
    let pattern = "*.self_attn.?_proj";
    let swept = format!("model --no-cache --sites {pattern} {task}");
    let json = w.ok_json(&format!("sweep {swept} -o site"));
    let cell = &json["sweep"]["cells"][0];
    assert_eq!(cell["place"]["sites"].as_array().unwrap().len(), 4);
    assert_eq!(cell["place"]["pattern"], pattern);
    // The composition of the same weights visits them in the order of the sweep.
    let composed = w.ok_json(&format!("compose {swept} --sweep site/result.json -o composed"));
    assert_eq!(composed["compose"]["steps"][0]["place"], cell["place"]);
    let other =
        format!("compose model --no-cache --roles key {task} --sweep site/result.json -o no");
    assert!(err(&w, &other, 2).contains("the sweep does not cover all weights of this grid"));
}

#[test]
fn recipes_of_sweeps_run_and_show_their_commands() {
    let w = workshop(20);
    w.write(
        "r.yaml",
        "version: 1
title: two sweeps
model: model
tasks: questions
data: {questions: q.jsonl}
roles: [fc_in, fc_out]
size: {rate: [9, 5]}
no-cache: true
jobs:
  - {name: rank-reduction, note: 'published: 50 to 51.5 %', sweep: {}}
  - {name: vendi, sweep: {intervention: vendi}}
",
    );
    let plan = w.ok("run -r r.yaml --dry-run");
    let first = "linwright sweep model --roles=fc_in,fc_out --size=rate=9,rate=5 --no-cache --tasks=questions \
                 --data=questions=q.jsonl";
    assert!(plan.lines().any(|line| line.contains(first)), "{plan}");
    let json = w.ok_json("run -r r.yaml -o out");
    assert_eq!(json["jobs"]["vendi"]["sweep"]["grid"]["method"]["intervention"], "vendi");
    let page = w.text("out/report.md");
    assert!(page.contains("published: 50 to 51.5 %"), "{page}");
    assert!(w.text("out/rank-reduction/report.html").len() > 100);
    w.ok("run -r r.yaml --shard 0/2 -o part0");
    w.ok("run -r r.yaml --shard 1/2 -o part1");
    w.ok("merge part0 part1 -o merged");
    assert_eq!(w.json("merged/results.json")["jobs"], json["jobs"]);
    w.write("wrong.yaml", w.text("r.yaml").replace("size: {rate: [9, 5]}", "sise: 9"));
    w.fails("run -r wrong.yaml", 3, &["sise is an option of none of its jobs", "size"]);
    w.write("older.yaml", "version: 1\nruns: [{title: a}]\n");
    w.fails("run -r older.yaml", 3, &["`runs` was replaced by `jobs`", "- sweep: {"]);
}

#[test]
fn the_built_in_recipe_runs() {
    let json = Workshop::new().ok_json("run -r laser-pocket -o out");
    let sweep = &json["jobs"]["rank-reduction"]["sweep"];
    assert_eq!(sweep["cells"].as_array().unwrap().len(), 48);
    let dense = number(&sweep["dense"]["metrics"][0]["value"]);
    assert!(dense > 0.75, "the dense model answers {dense}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_there_is() {
    let w = workshop(20);
    let base = "laser model --no-cache";
    for (args, expected) in [
        ("--lname fc_in --rate 10.5", "expected a number from 0 to 10"),
        ("--lname fc_inn --rate 9", "[possible values: k_proj, q_proj, v_proj"),
        ("--rate 9", "no weights are selected"),
        (
            "--intervention rank-reduction:part=key --rate 9",
            "no layer has a slot of role query_key_value",
        ),
        (
            "--intervention rank-reduction:part=[key,up] --rate 9",
            "key, up are several parts, expected one",
        ),
        (
            "--intervention rank-reduction:part=key,storage=factored --rate 9",
            "has no factors to store",
        ),
        (
            "--lname fc_in --intervention rank-reduction:part=up --rate 9",
            "mlp.gate_proj has no part up",
        ),
        ("--lname fc_in", "no size is given"),
        ("--lname fc_in --rank 0", "rank is 0"),
        ("--lname fc_in --rank 9999", "above the full rank"),
        ("--lname fc_in --lnum 99 --rate 9", "layer 99 is out of range"),
        ("--lname fc_in --lnum x --rate 9", "expected layers from zero"),
        ("--sites nothing* --rate 9", "pattern nothing* matches no slot"),
        ("--sites re:no{1,2} --rate 9", "pattern re:no{1,2} matches no slot"),
        ("--lname fc_in --size rate=9,8", "expected one"),
        ("--lname fc_in --intervention dropout --rank 3", "dropout has no rank"),
        ("--plan q.jsonl", "is not a plan of edits"),
        (
            "--lname fc_in --intervention bottom-k:decomposition=randomised --size rho=0.5",
            "needs all components",
        ),
        ("--lname fc_in --rate 9 --intervention dropout:storage=factored", "no factors to store"),
        ("--lname fc_in --rate 9 --intervention rank-reduction:gamma=2", "selects no rows"),
        ("--lname fc_in --rate 9 --intervention zero:compat", "already equals the paper's code"),
        (
            "--lname fc_in --rate 9 --intervention zero:decomposition=randomised",
            "needs no decomposition",
        ),
        (
            "--lname fc_in --rate 9 --tasks questions --data questions=q.jsonl --evaluation apply_chat_template",
            "does not support",
        ),
    ] {
        let error = err(&w, &format!("{base} {args}"), 2);
        assert!(error.contains(expected), "{args}: {error}");
    }
}

#[test]
fn sweeps_and_compositions_that_make_no_sense_are_refused() {
    let w = workshop(20);
    for (args, expected) in [
        ("sweep model --roles fc_in --size rate=9", "0 evaluation tasks, expected one"),
        (
            "sweep model --roles fc_in --size rate=9 --tasks questions --data questions=q.jsonl --limit 4",
            "at least 5 are needed",
        ),
        (
            "sweep model --roles fc_in --size rate=9,9 --tasks questions --data questions=q.jsonl",
            "rate 9 is given twice",
        ),
        (
            "sweep model --roles fc_in --size rate=9 --tasks questions --data questions=q.jsonl --evaluation samples=s.jsonl",
            "does not support --samples",
        ),
        (
            "sweep model --roles fc_in --size rate=9 --tasks questions --data questions=q.jsonl --evaluation metric=f1",
            "has no metric f1; it has acc",
        ),
        (
            "sweep model --size rate=9 --tasks questions --data questions=q.jsonl",
            "no weights are selected",
        ),
        (
            "compose model --roles fc_in --size rate=9 --tasks questions --data questions=q.jsonl --sweep q.jsonl",
            "is not the result of a sweep",
        ),
    ] {
        let error = err(&w, &format!("{args} --no-cache -o refused"), 2);
        assert!(error.contains(expected), "{args}: {error}");
    }
}

#[test]
fn what_is_above_noise_stays() {
    let w = workshop(6);
    let json = w.ok_json("laser model --no-cache --lname q_proj,fc_out --lnum 1 --size mp");
    let sites = json["sites"].as_array().unwrap();
    assert_eq!(sites.len(), 2);
    for site in sites {
        let name = site["site"].as_str().unwrap();
        let inspected =
            w.ok_json(&format!("inspect model --spectra --no-cache --filter {name}.weight"));
        let above = number(&inspected["groups"][0]["spectra"]["above_edge"]);
        assert_eq!(number(&site["report"]["kept"]["rank"]), above, "{name}");
    }
}
