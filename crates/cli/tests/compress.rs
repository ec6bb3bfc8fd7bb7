//! `compress`: methods, forms, plans.

use crate::workshop::Workshop;
use linwright::compress::{MethodSpec, Plan};
use serde_json::{Value, json};

const DATA: &str = "--calibration calibration.jsonl:num_tokens=1500,seq_len=64";

/// Operators of the sites of a model, by `inspect --slots`.
fn operators(w: &Workshop, model: &str) -> Vec<(String, String, u64)> {
    let json = w.ok_json(&format!("inspect {model} --slots"));
    let sites = json["sites"].as_array().unwrap().iter();
    sites
        .map(|site| {
            let text = |key: &str| site[key].as_str().unwrap().to_owned();
            (text("role"), text("operator"), site["parameters"].as_u64().unwrap())
        })
        .collect()
}

fn share(summary: &Value) -> f64 {
    summary["targeted"].as_f64().unwrap() / summary["targeted_dense"].as_f64().unwrap()
}

#[test]
fn keep_on_all_linears_saves_its_share_and_shows_it() {
    let w = Workshop::new();
    let result = w.ok_json(&format!("compress model --keep 0.5 {DATA} -o out"));
    let summary = &result["summary"];
    assert_eq!(result["sites"].as_array().unwrap().len(), 14);
    assert!((0.3..=0.5).contains(&share(summary)), "{summary}");
    assert!(
        summary["weight_bytes"].as_u64() < summary["weight_bytes_before"].as_u64(),
        "{summary}"
    );
    for speed in ["tokens_per_second_before", "tokens_per_second"] {
        assert!(result[speed].as_f64().unwrap() > 0.0, "{result}");
    }
    let saved = summary["model_dense"].as_u64().unwrap() - summary["model"].as_u64().unwrap();
    let less = summary["targeted_dense"].as_u64().unwrap() - summary["targeted"].as_u64().unwrap();
    assert_eq!(saved, less);
    for (role, kind, _) in operators(&w, "out") {
        assert_eq!(kind, if role == "head" { "dense" } else { "low_rank" }, "{role}");
    }
    assert_eq!(w.json("out/config.json")["linwright"]["schema"], 1);
    // Without a word about the form it is one that other programs load rightly or refuse.
    assert_eq!(result["saved"]["form"], "factored", "{}", result["saved"]);
    assert_eq!(w.json("out/config.json")["model_type"], "linwright");
    assert!(w.ok("eval out --text text.jsonl --window 64").contains("token_perplexity"));
    // Tokens that are few for the inputs of a layer are named, and enough are not.
    let few = format!("compress model --keep 0.5 {} --method svd", DATA.replace("1500", "100"));
    assert!(!w.run(&format!("{few} -o few")).stderr.contains("are few"), "no text is fitted");
    let few = w.run(&format!("{} -o few --force", few.replace("--method svd", "")));
    assert!(few.stderr.contains("calibration tokens are few for layers of"), "{}", few.stderr);
    assert!(!w.run(&format!("compress model --keep 0.5 {DATA} -o enough")).stderr.contains("few"));
    // What takes more memory than is allowed is refused before the work.
    let refused = format!("compress model --keep 0.5 {DATA} -o refused --max-memory 20MB");
    w.fails(&refused, 5, &["--max-memory 20000000 allows", "--offload"]);
    let shown = w.ok(&format!("compress model --keep 0.5 {DATA} -o again --max-memory 8GB"));
    for said in ["LR-keep0.5", "loaded back", "wrote again", "fit error", "tokens/s"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
}

#[test]
fn a_dense_form_keeps_the_names_and_shapes_of_the_model() {
    let w = Workshop::new();
    for method in ["low-rank --rank 4", "block-hadamard:epochs=1"] {
        let targets = "--roles query,key,value --form dense --dtype f32 --force";
        let plan = format!("compress model --method {method} {targets} {DATA}");
        w.ok(&format!("{plan} -o dense"));
        assert!(operators(&w, "dense").iter().all(|(_, kind, _)| kind == "dense"));
        assert!(w.json("dense/config.json").get("linwright").is_none());
        assert_eq!(w.weights("dense").len(), w.weights("model").len());
        let perplexity = |model: &str| {
            let result = w.ok_json(&format!("eval {model} --text text.jsonl --window 64"));
            result["results"]["text"]["token_perplexity,none"].as_f64().unwrap()
        };
        w.ok(&format!(
            "compress model --method {method} --roles query,key,value --force {DATA} -o native --form native"
        ));
        let (dense, native) = (perplexity("dense"), perplexity("native"));
        assert!((dense / native - 1.0).abs() < 1e-4, "{method}: {dense} and {native}");
    }
}

#[test]
fn rotor_networks_go_where_they_are_asked_for_and_the_output_heals() {
    let w = Workshop::new();
    let plan = format!("compress model --method rotor:epochs=1 --roles query,key {DATA}");
    for (heal, healed) in [("ridge", true), ("trained", true), ("none", false)] {
        let json = w.ok_json(&format!("{plan} --layers 1 --heal {heal} -o {heal}"));
        let sites = json["sites"].as_array().unwrap();
        assert_eq!(sites.len(), if healed { 3 } else { 2 }, "{heal}");
        assert_eq!(sites[2.min(sites.len() - 1)]["role"] == "output", healed, "{heal}");
        let found = operators(&w, heal);
        let rotors = found.iter().filter(|(_, kind, _)| kind == "rotor_network");
        assert_eq!(rotors.count(), 2, "{heal}");
        assert_eq!(found[0].1, "dense", "layer 0 is as it was");
        assert_eq!(found[7].1, "rotor_network");
        assert!(found[7].2 < 1024, "{} parameters in a rotor network", found[7].2);
    }
    assert!(w.weights("ridge") != w.weights("none"));
}

#[test]
fn any_operator_replaces_layers_is_saved_and_evaluated() {
    let w = Workshop::new();
    let specs = [
        ("--method monarch", "monarch"),
        ("--method diagonal_low_rank --keep 0.5", "diagonal_low_rank"),
        ("--method structured:operator=kronecker", "kronecker"),
        (
            r#"--method structured:operator={"kind":"diagonal_low_rank","rank":2}"#,
            "diagonal_low_rank",
        ),
        (
            r#"--method structured:operator={"kind":"sum","terms":[{"kind":"monarch"},{"kind":"low_rank","rank":1}]}"#,
            "sum",
        ),
    ];
    for (method, kind) in specs {
        let plan = format!("compress model {method} --layers 1 --roles query,up {DATA} --force");
        let json = w.ok_json(&format!("{plan} --form native -o out"));
        for site in json["sites"].as_array().unwrap().iter().filter(|site| site["heals"] == false) {
            let error = site["fit"]["relative_error"].as_f64().unwrap();
            assert!(error > 0.0 && error < 1.0, "{method}: {site}");
        }
        let found = operators(&w, "out");
        assert_eq!(found.iter().filter(|(_, found, _)| found == kind).count(), 2, "{found:?}");
        let evaluated = w.ok_json("eval out --text text.jsonl --window 64");
        assert!(evaluated["results"]["text"]["token_perplexity,none"].as_f64().unwrap() > 1.0);
        w.ok(&format!("{plan} --form dense -o dense"));
        assert!(operators(&w, "dense").iter().all(|(_, kind, _)| kind == "dense"));
    }
}

#[test]
fn trained_low_rank_and_storage_types() {
    let w = Workshop::new();
    let plan = format!("compress model --rank 2 --roles up {DATA} --evaluation bos=never");
    let trained = w.ok_json(&format!("{plan} --method low_rank:fit=trained,epochs=2 -o trained"));
    let closed = w.ok_json(&format!("{plan} --dtype bf16 -o closed"));
    let error = |json: &Value| json["sites"][0]["fit"]["relative_error"].as_f64().unwrap();
    assert!(error(&closed) <= error(&trained), "closed form is the optimum");
    assert!(w.weights("closed").len() < w.weights("trained").len() * 6 / 10);
    assert_eq!(w.json("closed/config.json")["torch_dtype"], "bfloat16");
}

#[test]
fn a_dry_run_counts_what_the_run_then_does_and_writes_nothing() {
    let w = Workshop::new();
    let before = w.names();
    let plan = format!("compress model --rank 3 --layers 0-1 --roles query,gate {DATA} -o out");
    let dry = w.ok_json(&format!("{plan} --dry-run"));
    let shown = w.ok(&format!("{plan} --dry-run"));
    assert!(shown.contains("memory: about") && shown.contains("time: about"), "{shown}");
    assert_eq!(w.names(), before);
    let wet = w.ok_json(&plan);
    assert_eq!(dry["plan"], wet["plan"]);
    assert_eq!(dry["estimate"]["targeted"], wet["summary"]["targeted"]);
    assert_eq!(dry["estimate"]["targeted_dense"], wet["summary"]["targeted_dense"]);
}

#[test]
fn every_method_takes_a_share_and_a_dry_run_tells_what_it_reaches() {
    let w = Workshop::new();
    for (method, reached) in [
        ("low-rank", 0.2..=0.3),
        ("low_rank:fit=trained,epochs=1", 0.2..=0.3),
        ("block-hadamard:epochs=1", 0.25..=0.25),
        ("block_hadamard:epochs=1", 0.25..=0.25),
        ("rotor:epochs=1", 0.01..=0.9),
        ("monarch", 0.2..=0.4),
        ("kronecker", 0.25..=0.35),
        ("structured:operator=diagonal-low-rank", 0.25..=0.35),
        ("diagonal_low_rank", 0.25..=0.35),
        ("feature", 0.2..=0.3),
        ("svd", 0.2..=0.3),
        ("whitened-svd", 0.2..=0.3),
        ("asvd", 0.2..=0.3),
        ("swift_svd", 0.2..=0.3),
        ("butterfly", 0.3..=0.32),
        ("circulant_diagonal", 0.25..=0.35),
    ] {
        // Query and output are square.
        let plan = format!(
            "compress model --method {method} --keep 0.3 --roles q_proj,o_proj --layers 1 {DATA} -o out --force"
        );
        let dry = w.ok_json(&format!("{plan} --dry-run"));
        let sites = dry["estimate"]["sites"].as_array().unwrap();
        assert_eq!(sites.len(), 2);
        for site in sites {
            assert_eq!(site["asked"], 0.3, "{method}: {site}");
            assert!(reached.contains(&site["reached"].as_f64().unwrap()), "{method}: {site}");
        }
        if ["monarch", "block_hadamard:epochs=1"].contains(&method) {
            let shown = w.ok(&format!("{plan} --dry-run"));
            assert!(shown.contains("asked") && shown.contains("reached"), "{shown}");
            let wet = w.ok_json(&plan);
            for (site, done) in sites.iter().zip(wet["sites"].as_array().unwrap()) {
                assert_eq!(site["parameters"], done["parameters"], "{method}");
            }
        }
    }
}

#[test]
fn options_of_a_method_change_its_fits_and_are_in_the_plan() {
    let w = Workshop::new();
    let fitted = |options: &str| {
        let found = w.ok_json(&format!(
            "compress model --method {options} --keep 0.3 --roles gate --layers 1 {DATA} -o out \
             --force"
        ));
        let site = &found["sites"][0];
        (found["plan"]["edits"][0]["method"].clone(), site["fit"]["relative_error"].clone())
    };
    for (method, option, key) in [
        ("feature", "shrinkage=0.2", "shrinkage"),
        ("whitened_svd", "shrinkage=0.2", "shrinkage"),
        ("swift_svd", "shrinkage=0.2", "shrinkage"),
        ("low_rank", "ridge=0.3", "ridge"),
        ("asvd", "alpha=1", "alpha"),
    ] {
        let (standard, own) = (fitted(method), fitted(&format!("{method}:{option}")));
        assert!(standard.0[key] != own.0[key], "{method} {option}: {}", own.0);
        assert!(standard.1 != own.1, "{method} {option}: {}", own.1);
    }
    // Both roots have one optimum, and this layer has no bias that the released code could lose.
    assert_eq!(fitted("whitened_svd:whitening=cholesky").0["whitening"], "cholesky");
    assert_eq!(fitted("feature:compat").0["compat"], true);
}

#[test]
fn every_method_of_the_registry_is_applied_or_refused_before_any_work() {
    let w = Workshop::new();
    for id in MethodSpec::IDS {
        let plan =
            format!("compress model --roles q_proj --layers 1 --heal none {DATA} --method {id}");
        let sites = |args: &str| w.ok_json(&format!("{plan}{args} -o {id}"))["sites"].clone();
        let before = w.names();
        let sites = match *id {
            "low_rank" | "laser" | "random" | "feature" | "svd" | "whitened_svd" | "asvd"
            | "swift_svd" => {
                w.fails(&format!("{plan} -o {id}"), 2, &["needs a size: keep, rank", "--keep"]);
                assert_eq!(w.names(), before);
                sites(" --size rho=0.25")
            }
            "structured" => {
                w.fails(&format!("{plan} -o {id}"), 2, &["needs an operator"]);
                w.fails(&format!("{plan}:operator=monarch --size rho=0.5 -o {id}"), 2, &["keep"]);
                assert_eq!(w.names(), before);
                sites(":operator=diagonal_low_rank --size rate=8")
            }
            "dense" => {
                w.fails(&format!("{plan} --keep 0.5 -o {id}"), 2, &["leave the size out"]);
                assert_eq!(w.names(), before);
                sites(":fit=trained,epochs=1")
            }
            _ => {
                w.fails(
                    &format!("{plan} --size energy=0.5 -o {id}"),
                    2,
                    &["has no energy", "keep"],
                );
                assert_eq!(w.names(), before);
                sites(":epochs=1")
            }
        };
        assert_eq!(sites.as_array().unwrap().len(), 1, "{id}");
        let error = sites[0]["fit"]["relative_error"].as_f64().unwrap();
        assert!(error > 0.0 && error < 3.0, "{id}: {sites}");
        let role = operators(&w, id).remove(7);
        assert_eq!(sites[0]["parameters"], role.2, "{id}: {role:?}");
    }
}

#[test]
fn cuts_need_no_text_and_are_those_of_laser() {
    let w = Workshop::new();
    let cut = w.ok_json("compress model --method laser --size rho=0.25 --roles gate -o one");
    w.ok("laser model --no-cache --lname fc_in --size rho=0.25 -o other");
    assert_eq!(w.weights("one"), w.weights("other"));
    let report = &cut["sites"][0]["fit"]["cut"];
    assert_eq!(report["relative_error"], cut["sites"][0]["fit"]["relative_error"]);
    assert!(cut["tokens_per_second"].as_f64().unwrap() > 0.0);
    let dry = "compress model --method laser:intervention=dropout --size rate=5 -o out --dry-run";
    assert_eq!(w.ok_json(dry)["estimate"]["sites"].as_array().unwrap().len(), 14);
    // With text the error is that of the outputs.
    let text = w.ok_json(&format!(
        "compress model --method laser --size rho=0.25 --roles gate {DATA} -o two"
    ));
    assert_eq!(w.weights("one"), w.weights("two"));
    assert_ne!(text["sites"][0]["fit"]["relative_error"], report["relative_error"]);
    for (args, expected) in [
        (
            "--method rotor:intervention=zero --keep 0.5",
            "rotor has no option intervention; nearest are",
        ),
        ("--method laser:intervention=dropout --rank 2", "dropout has no rank"),
        ("--method laser:fit=trained --rank 2", "laser has no option fit"),
        ("--method laser --rank 2 --roles q_proj --heal ridge", "no calibration text"),
    ] {
        w.fails(&format!("compress model {args} -o refused"), 2, &[expected]);
    }
}

#[test]
fn sites_are_chosen_by_name_and_sizes_by_spectrum() {
    let w = Workshop::new();
    let plan = format!("compress model {DATA} --sites *.mlp.* --sites re:q_proj$ --ignore *.1.*");
    let chosen = |args: &str| {
        let json = w.ok_json(&format!("{plan} {args} --heal none --force -o out"));
        let sites = json["sites"].as_array().unwrap().clone();
        assert_eq!(sites.len(), 4, "{args}");
        assert!(sites.iter().all(|site| site["layer"] == 0), "{args}");
        sites.iter().map(|site| site["parameters"].as_u64().unwrap()).sum::<u64>()
    };
    assert!(chosen("--size energy=0.2") <= chosen("--size energy=0.3"));
    let edge = w.ok_json("compress model --method laser --size mp --layers 0 -o edge");
    assert_eq!(edge["sites"].as_array().unwrap().len(), 7);
    let wrong = [("--sites *.q_prj", "*.q_prj matches no slot"), ("--ignore re:(", "re:(")];
    for (args, expected) in wrong {
        w.fails(&format!("compress model --keep 0.5 {DATA} {args} -o refused"), 2, &[expected]);
    }
}

#[test]
fn a_plan_gives_layers_their_own_methods_and_sizes() {
    let w = Workshop::new();
    let low_rank = |layer: u32, rank: u32| {
        json!({
            "sites": {"roles": ["query"], "layers": [layer]},
            "method": {"method": "low_rank"}, "size": {"rank": rank},
        })
    };
    let cut = json!({"sites": {"lnames": ["fc_out"], "layers": [1]}, "method": {"method": "laser"}, "size": {"rho": 0.25}});
    let plan = json!({"seed": 1, "edits": [low_rank(0, 2), low_rank(1, 3), cut]});
    w.write("plan.json", plan.to_string());
    let done = w.ok_json(&format!("compress model --plan plan.json {DATA} -o out --form native"));
    let read = |plan: &Value| serde_json::from_value::<Plan>(plan.clone()).unwrap();
    assert_eq!(read(&done["plan"]), read(&plan));
    let labels: Vec<&str> = done["sites"]
        .as_array()
        .unwrap()
        .iter()
        .map(|site| site["method"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["LR2-closed", "LR3-closed", "rank-reduction at rho 0.25"]);
    let found = operators(&w, "out");
    let low_rank: Vec<_> = found.iter().filter(|(_, kind, _)| kind == "low_rank").collect();
    assert_eq!(low_rank.len(), 3, "{found:?}");
    let yaml = "edits:\n  - {sites: {roles: [up]}, method: {method: laser}, size: {keep: 0.5}}\n";
    w.write("plan.yaml", yaml);
    let cuts = w.ok_json("compress model --plan plan.yaml -o cuts");
    let same = w.ok_json("laser model --no-cache --plan plan.yaml");
    assert_eq!(cuts["sites"].as_array().unwrap().len(), same["sites"].as_array().unwrap().len());
    w.write("typo.yaml", yaml.replace("size:", "siz:"));
    w.write("none.yaml", "edits: []\n");
    w.write("rotor.yaml", "edits: [{sites: {}, method: {method: rotor}}]\n");
    let before = w.names();
    for (args, expected) in [
        ("--plan typo.yaml", "did you mean `size`?"),
        ("--plan none.yaml", "selects no layer"),
        ("--plan missing.yaml", "missing.yaml"),
        ("--plan plan.json", "no calibration text"),
        ("--plan plan.yaml --keep 0.5", "cannot be used with"),
        ("--plan plan.yaml --seed 3", "cannot be used with"),
        ("--plan rotor.yaml --form dense --calibration calibration.jsonl", "not linear"),
    ] {
        w.fails(&format!("compress model {args} -o refused"), 2, &[expected]);
    }
    w.fails("laser model --plan plan.json --no-cache", 2, &["LR2-closed", "compress --plan"]);
    assert_eq!(w.names(), before);
}

#[test]
fn options_that_do_not_go_together_are_a_matter_of_usage() {
    let w = Workshop::new();
    let before = w.names();
    for (args, words) in [
        ("--keep 0.5 --rank 3", &["--keep", "--rank"][..]),
        ("", &["low_rank needs a size", "--keep SHARE or --rank N"]),
        ("--method rotor --rank 3", &["rotor has no rank", "given by keep"]),
        ("--method block-hadamard --keep 1.5", &["'1.5'", "--keep", "from 0 to 1"]),
        ("--method rotor:fit=trained", &["rotor has no option fit", "epochs"]),
        ("--keep 0.5 --layers 1-x", &["--layers", "27-17 or 0,3"]),
        ("--keep 0.5 --layers 1,1", &["twice"]),
        ("--keep 0.5 --roles head", &["head", "query"]),
        ("--method rotor --form dense", &["dense", "native", "rotor"]),
        ("--method rotor:operator=monarch", &["rotor has no option operator"]),
        ("--method structured", &["operator", "ls operators"]),
        ("--method monarch --keep 0.5 --size rank=3", &["--keep", "--size"]),
        ("--size kept=0.5", &["--size", "kept=0.5", "expected keep=SHARE, rank=N"]),
        ("--method monarc", &["there is no method monarc", "nearest are monarch"]),
        ("--method structured:operator=monarc", &["monarc", "did you mean `monarch`"]),
        ("--method structured:operator=rotor_network", &["not linear", "method rotor"]),
        ("--method monarch --rank 3", &["monarch has no rank", "given by keep"]),
        ("--method structured:operator=butterfly", &["butterfly", "power of two"]),
        (
            "--method structured:operator=circulant_diagonal --keep 0.2",
            &["circulant_diagonal", "square", "k_proj"],
        ),
    ] {
        w.fails(&format!("compress model {args} {DATA} -o out"), 2, words);
    }
    w.fails("compress model --keep 0.5 -o out", 2, &["calibration", "--calibration"]);
    assert_eq!(w.names(), before);
}

#[test]
fn force_replaces_an_output() {
    let w = Workshop::new();
    let plan = format!("compress model --rank 1 --layers 0 --roles up {DATA} -o out");
    w.ok(&plan);
    let first = w.weights("out");
    w.fails(&plan, 2, &["out exists already", "--force"]);
    let other = plan.replace("--rank 1", "--rank 2");
    w.ok(&format!("{other} --force"));
    assert!(w.weights("out") != first);
    assert_eq!(w.names(), ["calibration.jsonl", "model", "out", "questions.jsonl", "text.jsonl"]);
}
