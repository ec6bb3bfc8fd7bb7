//! `export`: every form, what it says, and what it refuses.

use crate::workshop::{Workshop, names};
use serde_json::json;

const SMALLER: &str = "compress model --keep 0.5 --roles query,key --calibration calibration.jsonl:num_tokens=600,seq_len=64";

/// A text's perplexity under a model.
fn perplexity(w: &Workshop, model: &str) -> f64 {
    let json = w.ok_json(&format!("eval {model} --text text.jsonl --window 64"));
    let results = json["results"].as_object().unwrap().values().next().unwrap();
    let (_, value) =
        results.as_object().unwrap().iter().find(|(k, _)| k.contains("token_perplexity")).unwrap();
    value.as_f64().unwrap()
}

#[test]
fn a_directory_has_no_name_of_a_file_and_other_runtimes_are_named() {
    let w = Workshop::new();
    let compress = "compress model --method svd --keep 0.5 --calibration calibration.jsonl:num_tokens=300,seq_len=16";
    for command in [compress, "export model --form gguf", "laser model --roles fc_in --size rate=9"]
    {
        w.fails(
            &format!("{command} -o small.gguf"),
            2,
            &["small.gguf would be a directory", "gguf"],
        );
    }
    let said = w.run(&format!("{compress} -o small")).stderr;
    assert!(said.contains("form factored") && said.contains("llama.cpp: no"), "{said}");
    let said = w.run("export model --form dense -o plain").stderr;
    assert!(!said.contains("llama.cpp"), "{said}");
}

#[test]
fn auto_says_in_one_line_what_it_chose_and_the_model_is_the_same() {
    let w = Workshop::new();
    let shown = w.ok("export model --output dense");
    assert!(shown.starts_with("form dense: every linear layer is dense"), "{shown}");
    w.ok(&format!("{SMALLER} -o native --form native"));
    let done = w.ok_json("export native -o factored --form auto");
    assert_eq!(
        (&done["form"], done["reason"].as_str().unwrap().lines().count()),
        (&json!("factored"), 1)
    );
    assert!(done["parameters"]["stored"].as_u64() < done["parameters"]["dense"].as_u64(), "{done}");
    assert!(names(&w.path("factored")).contains(&"modeling_linwright.py".to_owned()));
    let expected = perplexity(&w, "native");
    for form in ["dense", "native"] {
        w.ok(&format!("export native -o {form}-again --form {form}"));
        assert!((perplexity(&w, &format!("{form}-again")) / expected - 1.0).abs() < 1e-4);
    }
    assert!((perplexity(&w, "factored") / expected - 1.0).abs() < 1e-6);
    let record = w.json("factored/reproduce.json");
    assert_eq!(record["job"]["export"]["model"], "native");
    assert!(w.text("factored/recipe.yaml").contains("export:\n  model: native"));
    assert_eq!(record["inputs"][0]["sha256"].as_str().map(str::len), Some(64));
}

#[test]
fn gguf_is_one_file_that_is_read_again() {
    let w = Workshop::new();
    let shown = w.ok("export model -o one --form gguf --dtype f32");
    assert!(shown.starts_with("form gguf: asked for"), "{shown}");
    let expected = [
        ".linwright",
        "README.md",
        "SHA256SUMS",
        "measured.json",
        "model-F32.gguf",
        "recipe.yaml",
        "reproduce.json",
    ];
    let sums = w.text("one/SHA256SUMS");
    assert!(sums.contains("recipe.yaml") && !sums.contains("measured.json"), "{sums}");
    assert_eq!(names(&w.path("one")), expected);
    let (own, read) = (perplexity(&w, "model"), perplexity(&w, "one/model-F32.gguf"));
    assert!((own / read - 1.0).abs() < 1e-4, "{own} and {read}");
    assert_eq!(perplexity(&w, "one"), read, "the directory is the model, too");
    // Its tensors are inspected like others; only single ones are not read.
    assert!(w.ok("inspect one/model-F32.gguf").contains("blk.*.attn_q.weight"));
    w.ok("inspect one");
    w.fails(
        "select one --tensor x --rank 1",
        1,
        &["one/model-F32.gguf: this is a GGUF file", "--slots", "export FILE -o DIR"],
    );
    w.ok("inspect one --slots");
    w.ok("export one/model-F32.gguf -o again");
    w.ok("inspect again");
    for (dtype, file) in [("f16", "model-F16.gguf"), ("bf16", "model-BF16.gguf")] {
        w.ok(&format!("export model -o one --form gguf --dtype {dtype} --force"));
        assert!(names(&w.path("one")).contains(&file.to_owned()));
    }
}

#[test]
fn weights_are_cut_and_cards_tell_what_they_are_given() {
    let w = Workshop::new();
    w.write("results.json", w.ok("eval model --text text.jsonl --window 64 --json"));
    let flags = "--shard-size 40KB --base-model somebody/tiny --results results.json";
    w.ok(&format!("export model -o out --form dense {flags}"));
    let files = names(&w.path("out"));
    assert!(files.contains(&"model.safetensors.index.json".to_owned()), "{files:?}");
    assert!(files.iter().filter(|name| name.contains("-of-")).count() > 2, "{files:?}");
    let card = w.text("out/README.md");
    for said in ["base_model: \"somebody/tiny\"", "token_perplexity", "| vLLM |"] {
        assert!(card.contains(said), "{said}: {card}");
    }
    assert!((perplexity(&w, "out") / perplexity(&w, "model") - 1.0).abs() < 1e-6);
}

#[test]
fn an_adapter_is_the_difference_from_its_base() {
    let w = Workshop::new();
    w.ok(&format!("{SMALLER} -o edited --form dense"));
    let lora = "export edited --form lora --base model";
    // What was cut from a weight has a high rank.
    w.fails(&format!("{lora} -o adapter"), 1, &["low rank", "--rank", "--energy"]);
    let done = w.ok_json(&format!("{lora} -o adapter --rank 3"));
    // Queries and keys of two layers, and the output projections that were healed after them.
    assert_eq!(done["sites"].as_array().unwrap().len(), 6);
    assert!(done["sites"].as_array().unwrap().iter().all(|site| site["rank"] == 3), "{done}");
    assert_eq!(w.json("adapter/adapter_config.json")["r"], 3);
    let shown = w.ok(&format!("{lora} -o adapter --energy 0.5 --force"));
    assert!(shown.starts_with("form lora: 6 layers of ranks"), "{shown}");
    w.fails("export model -o none --form lora --base model", 1, &["nothing to store"]);
    // What was split is put together again.
    w.ok(&format!("{lora} -o adapter --rank 1000 --force"));
    let eval = |model: &str| {
        let found = w.ok_json(&format!("eval {model} --text text.jsonl --window 64"));
        found["results"]["text"]["nll_nats_per_token,none"].as_f64().unwrap()
    };
    w.write("adapter/tokenizer_config.json", "{}");
    let run = w.run("export model --adapter adapter -o merged");
    let notes = ["merged into 6 layers; 0 tensors", "tokenizer_config.json: differs"];
    assert!(notes.iter().all(|note| run.stderr.contains(note)), "{}", run.stderr);
    run.succeeded("export");
    assert!((eval("merged") - eval("edited")).abs() < 1e-5);
    assert!((eval("model") - eval("edited")).abs() > 1e-3);
    let record = w.json("merged/reproduce.json");
    assert_eq!(record["inputs"][1]["adapter"], "adapter", "{record}");
    w.fails("export model --adapter model -o none", 1, &["adapter_config.json"]);
}

#[test]
fn forms_that_cannot_be_are_refused() {
    let w = Workshop::new();
    w.write("bad.json", "{}");
    w.ok(&format!("{SMALLER} -o native --form native"));
    let before = w.names();
    for (args, code, words) in [
        ("export model -o out --form odd", 2, &["odd", "gguf", "lora"][..]),
        ("export model -o out --form lora", 2, &["--base"]),
        ("export model -o out --form dense --base model", 2, &["--base", "--form lora"]),
        ("export model -o out --form dense --rank 3", 2, &["--base"]),
        ("export model -o out --form lora --base model --rank 0", 2, &["rank is 0"]),
        (
            "export model -o out --form lora --base model --energy 2",
            2,
            &["--energy", "from 0 to 1"],
        ),
        ("export model -o out --form lora --base nowhere", 1, &["nowhere"]),
        ("export model -o out --form gguf --shard-size 1GB", 2, &["--shard-size", "one file"]),
        ("export model -o out.gguf --form gguf", 2, &["out.gguf", "directory"]),
        ("export model -o out --shard-size 5XB", 2, &["5XB", "unknown unit"]),
        ("export model -o out --dtype f8", 2, &["f8", "bf16"]),
        ("export model -o out --results bad.json", 1, &["bad.json", "linwright eval --json"]),
        ("export model -o out --results none.json", 1, &["none.json"]),
        ("export model -o native", 2, &["native exists already", "--force"]),
        (
            "export native -o out --form blocks --dtype f16 --results model/config.json",
            1,
            &["results"],
        ),
        ("export nowhere -o out", 1, &["nowhere"]),
        ("export model -o text.jsonl/out", 1, &["text.jsonl"]),
    ] {
        w.fails(args, code, words);
        assert_eq!(w.names(), before, "{args}");
    }
}
