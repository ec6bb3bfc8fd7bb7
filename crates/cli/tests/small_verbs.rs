//! `inspect --slots`, `import`, `ls`, `train-lm`, and what all commands share.

use crate::workshop::{VOCAB, Workshop};
use linwright::tensor::RngKey;
use serde_json::Value;

#[test]
fn slots_are_the_linear_layers() {
    let w = Workshop::new();
    let shown = w.ok("inspect model --slots");
    for said in ["2 layers, hidden 32", "model.layers.1.self_attn.k_proj", "16 x 32", "dense"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    let json = w.ok_json("inspect model --slots --quiet");
    let sites = json["sites"].as_array().unwrap();
    assert_eq!(sites.len(), 15, "seven in each of two layers, and the output matrix");
    let linear = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32);
    assert_eq!(json["linear_parameters"], linear + VOCAB * 32);
    assert_eq!(json["parameters"], linear + 2 * VOCAB * 32 + 5 * 32);
    assert_eq!(sites[1]["site"], "model.layers.0.self_attn.k_proj");
    assert_eq!((&sites[1]["out"], &sites[1]["inp"]), (&16.into(), &32.into()));
    w.fails("inspect nowhere --slots", 1, &["nowhere"]);
    w.fails("inspect model --slots --spectra", 2, &["--slots", "--spectra"]);
}

#[test]
fn notes_go_to_stderr_unless_quiet() {
    let w = Workshop::new();
    let shown = w.run("inspect model --no-progress");
    assert!(shown.stderr.contains("reading"), "{}", shown.stderr);
    for quiet in ["inspect model --quiet", "inspect model -q --json"] {
        assert_eq!(w.run(quiet).stderr, "", "{quiet}");
    }
}

#[test]
fn stages_files_and_fits_are_told_to_who_asks_for_more() {
    let w = Workshop::new();
    let args = "compress model --rank 1 --roles output --layers 0 --calibration calibration.jsonl:num_tokens=300,seq_len=16 -o out --json";
    let run = |more: &str| {
        let outcome = w.run(&format!("{args} {more}"));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        std::fs::remove_dir_all(w.path("out")).unwrap();
        // Whatever is said, stdout holds the result alone.
        let result: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(result["sites"].as_array().unwrap().len(), 1);
        outcome.stderr
    };
    let usual = run("");
    let more = run("-v");
    let all = run("-vv");
    let of_more =
        ["  loading model: 0.", " opened, peak memory ", "  form factored: 1 of 15 ", "llama, "];
    for said in of_more {
        assert!(more.contains(said) && all.contains(said), "{said:?} in {more}");
        assert!(!usual.contains(said), "{usual}");
    }
    for said in ["  opened model/model.safetensors, ", " parameters, relative error "] {
        assert!(all.contains(said), "{said:?} in {all}");
        assert!(!more.contains(said) && !usual.contains(said), "{more}");
    }
    for wrong in [
        "-v -q inspect model",
        "-q inspect model -v",
        "inspect model -vq",
        "inspect model --verbose --quiet",
    ] {
        w.fails(wrong, 2, &["--quiet", "--verbose"]);
    }
}

#[test]
fn what_the_help_says_to_do_next_works() {
    let w = Workshop::new();
    let help = w.ok("--help");
    let next = help.lines().filter_map(|line| line.strip_prefix("  linwright "));
    let commands: Vec<String> = next
        .map(|line| {
            line.replace("OTHER-TEXT", "text.jsonl")
                .replace("TEXT", "calibration.jsonl:num_tokens=2000,seq_len=64")
                .replace("MODEL", "model")
        })
        .collect();
    assert_eq!(commands.len(), 3, "{help}");
    commands.iter().for_each(|command| drop(w.ok(command)));
    assert!(w.names().contains(&"smaller".to_owned()));
}

#[test]
fn ls_lists_all_there_is() {
    let w = Workshop::new();
    for (what, expected) in [
        ("operators", &["dense", "low_rank", "monarch", "rotor_network", "product"][..]),
        ("methods", &["dense", "low_rank", "block_hadamard", "rotor", "structured"]),
        ("tasks", &["text", "multiple_choice", "completion"]),
        ("families", &["llama", "qwen2", "mistral", "gpt2", "gemma3_text", "bert"]),
        ("presets", &["main-job", "rotor-paper-pocket"]),
    ] {
        let listed = w.ok_json(&format!("ls {what}"));
        let names: Vec<&str> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["name"].as_str().unwrap())
            .collect();
        let shown = w.ok(&format!("ls {what}"));
        for name in expected {
            assert!(names.contains(name), "{name} in {names:?}");
            assert!(shown.contains(name), "{name} in {shown}");
        }
    }
    for method in w.ok_json("ls methods").as_array().unwrap() {
        assert!(method["about"].as_str().unwrap().contains(' '), "{method} has no sentence");
    }
    for (command, option, key) in [
        ("molecule train", "--loss", "energy_weight"),
        ("molecule-train", "--architecture", "cutoff"),
        ("compress", "--calibration", "num_tokens"),
        ("serve", "--limits", "tokens"),
        ("", "--training", "batch"),
    ] {
        let listed = w.ok_json(&format!("ls keys {command}"));
        let is_it = |row: &Value| row["option"] == option && row["key"] == key;
        assert!(listed.as_array().unwrap().iter().any(is_it), "{command}: {listed}");
        assert!(w.ok(&format!("ls keys {command}")).contains(key), "{command}");
    }
    assert!(w.ok("ls keys molecule info").contains("have no keys"));
    w.fails("ls keys molecule trian", 2, &["no such command", "molecule train"]);
    w.fails("ls everything", 2, &["everything", "operators"]);
}

#[test]
fn a_recipe_that_is_nearly_built_in_is_named() {
    let w = Workshop::new();
    w.fails("run -r main-jb", 3, &["main-jb", "did you mean main-job?"]);
    let said = w.fails("run -r my/recipe.yaml", 3, &["my/recipe.yaml", "laser-pocket"]);
    assert!(!said.contains("did you mean"), "{said}");
}

#[test]
fn things_have_one_name_and_their_other_names_work_everywhere() {
    let w = Workshop::new();
    let data = "--calibration calibration.jsonl:seq_len=48 --rank 2 --layers 0 -o out --dry-run";
    let roles = |targets: &str| {
        let json = w.ok_json(&format!("compress model --roles {targets} {data}"));
        json["plan"]["edits"].clone()
    };
    assert_eq!(roles("q_proj,gate_proj"), roles("query,gate"));
    let plan = |method: &str| {
        w.ok_json(&format!("compress model --method {method} {data}"))["plan"].clone()
    };
    assert_eq!(plan("low-rank"), plan("low_rank"));
    let edits = |slots: &str| {
        w.ok_json(&format!("laser model {slots} --size rho=0.5 --lnum 0"))["sites"].clone()
    };
    for (one, other) in [
        ("--lname q_proj", "--lname query"),
        ("--lname fc_in", "--lname gate"),
        ("--lname fc_out", "--lname down-proj"),
        ("--roles query,gate", "--roles q_proj,gate_proj"),
    ] {
        assert_eq!(edits(one), edits(other), "{one} and {other}");
    }
    for command in [
        "eval model",
        "sweep model --roles fc_in --size rho=0.5 -o cells",
        "laser model --lname fc_in --size rho=0.5",
    ] {
        for name in ["fever", "laser_fever"] {
            w.fails(
                &format!("{command} --tasks {name} --data fever=none.jsonl"),
                1,
                &["none.jsonl"],
            );
        }
    }
    w.fails("bench operators low-rnk --rounds 1", 2, &["low_rnk", "did you mean `low_rank`"]);
    let one = w.ok("bench operators low-rank --dims 128 --rows 4 --rounds 1 --no-memory");
    assert!(one.contains("low_rank"), "{one}");
}

#[test]
fn ls_operators_tells_equations_and_costs() {
    let w = Workshop::new();
    let shown = w.ok("ls operators");
    for said in ["equation", "W = U V", "r (out + inp)", "t (o1 i1 + o2 i2)", "W = sum_k W_k"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    let of = |json: &serde_json::Value, name: &str| {
        json.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap().clone()
    };
    let json = w.ok_json("ls operators");
    let monarch = of(&json, "monarch");
    assert_eq!(monarch["parameters"], "out inp / b + out b");
    assert_eq!(monarch["at"]["shape"], serde_json::json!({"out": 2048, "inp": 2048}));
    assert_eq!(monarch["at"]["options"], serde_json::json!({"kind": "monarch", "blocks": 32}));
    assert_eq!(monarch["at"]["parameters"], 2048 * (64 + 32));
    assert_eq!(monarch["at"]["macs_per_row"], 2048 * (64 + 32));
    assert_eq!(monarch["at"]["keep"], 96.0 / 2048.0);

    let json = w.ok_json("ls operators --shape 12x10");
    assert_eq!(of(&json, "dense")["at"]["parameters"], 120);
    let reason = |name| of(&json, name)["at"]["reason"].as_str().unwrap().to_owned();
    assert!(reason("butterfly").contains("nearest: 8 x 8"));
    assert!(reason("low_rank").contains("missing field `rank`"));
    let json = w.ok_json("ls operators --shape 4000000000x4000000000");
    assert!(of(&json, "dense")["at"]["reason"].as_str().unwrap().contains("at most"));
    for bad in ["12", "12x", "ax3", "-1x3", "99999999999999999999x1"] {
        w.fails(&format!("ls operators --shape={bad}"), 2, &[bad, "512x2048"]);
    }
}

#[test]
fn import_makes_a_directory_that_evaluates() {
    let w = Workshop::new();
    w.write("tiny.bin", llama2c_weights());
    w.write("tok.bin", llama2c_tokenizer());
    let json = w.ok_json("import tiny.bin --tokenizer tok.bin --output imported");
    assert_eq!(json["parameters"], 270 * 16 + 2 * (768 + 960 + 32) + 16);
    let inspected = w.ok_json("inspect imported --slots");
    assert_eq!((&inspected["layers"], &inspected["hidden"]), (&2.into(), &16.into()));
    let text = "--text text.jsonl --window 24 --limit 1 --quiet";
    let result = w.ok_json(&format!("eval imported {text}"));
    assert!(result["results"]["text"]["token_perplexity,none"].as_f64().unwrap() > 1.0);
    let said = w.ok("reproduce imported -o reproduced");
    assert!(said.starts_with("9 of 9 files have the same bytes"), "{said}");
    let card = w.text("reproduced/README.md");
    assert!(card.contains("linwright import") && card.contains("tiny.bin"), "{card}");
    let again = "import tiny.bin --tokenizer tok.bin --output imported";
    w.fails(again, 2, &["imported", "exists", "--force"]);
    assert!(w.ok(&format!("{again} --force")).contains("wrote imported"));
    w.write("tiny.bin", &llama2c_weights()[..999]);
    w.fails("import tiny.bin --tokenizer tok.bin -o other", 1, &["tiny.bin", "truncated"]);
    assert!(!w.path("other").exists());
}

#[test]
fn import_makes_a_directory_of_weights_without_a_tokenizer() {
    let w = Workshop::new();
    let numbers: Vec<u8> = (0..6u8).flat_map(|n| f32::from(n).to_be_bytes()).collect();
    w.write("numbers", &numbers);
    w.write(
        "tensors.json",
        r#"{"tensors": [{"name": "a", "file": "numbers", "shape": [2, 3], "dtype": "f32",
            "byte_order": "big", "transpose": true}]}"#,
    );
    let json = w.ok_json("import tensors.json --output weights");
    assert_eq!((&json["parameters"], &json["tensors"]["a"]), (&6.into(), &vec![3, 2].into()));
    assert!(w.path("weights").join("model.safetensors").exists());
    assert!(w.ok("import weights/model.safetensors -o copy").contains("1 tensors, 6 parameters"));
    w.fails("import tensors.json -o weights", 2, &["weights", "exists", "--force"]);
    assert!(w.ok("reproduce weights -o reproduced").starts_with("6 of 6 files"));
    w.write("tensors.json", w.text("tensors.json") + "\n");
    w.fails("reproduce weights -o changed", 6, &["tensors.json", "another content"]);
    w.write("tiny.bin", llama2c_weights());
    w.fails("import tiny.bin -o other", 1, &["tiny.bin", "--tokenizer"]);
    assert!(!w.path("other").exists());
}

/// Seven sizes and the tensors of a model with tied embeddings.
fn llama2c_weights() -> Vec<u8> {
    let (dim, hidden, layers, heads, kv_heads, vocab, positions) = (16, 20, 2, 4, 2, 270, 24);
    let sizes: [i32; 7] = [dim, hidden, layers, heads, kv_heads, vocab, positions];
    let per_layer = 2 * dim * dim + 2 * dim * 8 + 3 * dim * hidden + 2 * dim;
    let count = vocab * dim + layers * per_layer + dim + positions * dim / heads;
    let values = RngKey::new(3).stream().normals::<f32>(count as usize, 0.3);
    let sizes = sizes.into_iter().flat_map(i32::to_le_bytes);
    sizes.chain(values.into_iter().flat_map(f32::to_le_bytes)).collect()
}

/// Special tokens, bytes and eleven pieces.
fn llama2c_tokenizer() -> Vec<u8> {
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].map(str::to_owned);
    let bytes = (0..256).map(|b| format!("<0x{b:02X}>"));
    let pieces = ["he", " t", " the", " a", "th", " ", "t", "h", "e", "a", "n"].map(str::to_owned);
    let mut file = 7i32.to_le_bytes().to_vec();
    for (id, piece) in special.into_iter().chain(bytes).chain(pieces).enumerate() {
        let score = if id < 259 { 0.0 } else { 259.0 - id as f32 };
        file.extend(score.to_le_bytes());
        file.extend((piece.len() as i32).to_le_bytes());
        file.extend(piece.as_bytes());
    }
    file
}

#[test]
fn the_world_of_train_lm_comes_from_its_seed() {
    let w = Workshop::new();
    let plan = "train-lm --seed 3 --epochs 1 --checkpoint lm.ckpt --output lm --dry-run";
    let json = w.ok_json(plan);
    assert!(json["training_tokens"].as_u64().unwrap() > 1_000_000);
    assert_eq!(json["corpus_sha256"].as_str().unwrap().len(), 64);
    assert!(!w.path("lm").exists() && !w.path("lm.ckpt").exists());
    w.fails("train-lm --dry-run", 2, &["--output"]);
}

#[test]
fn without_a_reader_a_command_ends_quietly() {
    let w = Workshop::new();
    let mut child = w.command("inspect model").spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !stderr.contains("error"), "{stderr}");
}
