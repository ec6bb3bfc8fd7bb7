//! A table of damaged files, impossible options and impossible outputs: each is refused with its
//! exit code and a message that names the trouble, without a panic and with nothing left behind.

use crate::compare_runs::RECIPE;
use crate::workshop::{Outcome, Workshop};
use serde_json::{Value, json};
use std::fs;

const WEIGHTS: &str = "model/model.safetensors";
const CONFIG: &str = "model/config.json";
const QUERY: &str = "model.layers.0.self_attn.q_proj.weight";
const EVAL: &str = "eval model --text text.jsonl --window 64";
const COMPRESS: &str = "compress model --keep 0.5 --calibration calibration.jsonl -o out";
const RUN: &str = "run -r tiny.yaml -o out";

/// What is done to a good workshop, the command, and what must come of it.
struct Case {
    name: &'static str,
    damage: fn(&Workshop),
    command: &'static str,
    code: i32,
    words: &'static [&'static str],
}

fn case(
    name: &'static str,
    damage: fn(&Workshop),
    command: &'static str,
    code: i32,
    words: &'static [&'static str],
) -> Case {
    Case { name, damage, command, code, words }
}

/// The header of the weights, as JSON, and the data.
fn open(w: &Workshop) -> (Value, Vec<u8>) {
    let file = w.read(WEIGHTS);
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header = serde_json::from_slice(&file[8..8 + length]).unwrap();
    (header, file[8 + length..].to_vec())
}

fn write_weights(w: &Workshop, name: &str, header: &Value, data: &[u8]) {
    let header = header.to_string();
    let length = (header.len() as u64).to_le_bytes();
    w.write(name, [&length, header.as_bytes(), data].concat());
}

fn configure(w: &Workshop, change: impl FnOnce(&mut Value)) {
    let mut config = w.json(CONFIG);
    change(&mut config);
    w.write(CONFIG, config.to_string());
}

/// Cuts the weights into two shards with an index; the second one is not there.
fn shard(w: &Workshop) {
    let (header, data) = open(w);
    let mut map = serde_json::Map::new();
    for name in header.as_object().unwrap().keys().filter(|name| *name != "__metadata__") {
        let part = if name.contains("layers.1.") { 2 } else { 1 };
        map.insert(name.clone(), json!(format!("model-0000{part}-of-00002.safetensors")));
    }
    let index = json!({"metadata": {"total_size": data.len()}, "weight_map": map});
    w.write("model/model.safetensors.index.json", index.to_string());
    fs::remove_file(w.path(WEIGHTS)).unwrap();
    write_weights(w, "model/model-00001-of-00002.safetensors", &header, &data);
}

/// One long document in place of many short ones.
fn long_documents(w: &Workshop) {
    for name in ["text.jsonl", "calibration.jsonl"] {
        let text = "Mira lost the key by the lake. ".repeat(200);
        w.write(name, json!({ "text": text }).to_string());
    }
}

fn recipe(w: &Workshop, from: &str, to: &str) {
    assert!(RECIPE.contains(from), "{from}");
    w.write("tiny.yaml", RECIPE.replacen(from, to, 1));
}

fn files() -> Vec<Case> {
    vec![
        case("no model", |_| {}, "inspect nowhere", 1, &["nowhere", "No such file"]),
        case("a file for a model", |_| {}, "inspect text.jsonl --slots", 1, &["not a directory"]),
        case("no weight file", |_| {}, "inspect text.jsonl", 1, &["text.jsonl", "safetensors"]),
        case(
            "no weights",
            |w| fs::remove_file(w.path(WEIGHTS)).unwrap(),
            EVAL,
            1,
            &["holds no weights", "model.safetensors"],
        ),
        case(
            "truncated weights",
            |w| {
                let file = w.read(WEIGHTS);
                w.write(WEIGHTS, &file[..file.len() - 10]);
            },
            EVAL,
            1,
            &[WEIGHTS, "truncated"],
        ),
        case("empty weights", |w| w.write(WEIGHTS, ""), COMPRESS, 1, &[WEIGHTS, "truncated"]),
        case(
            "too many bytes",
            |w| w.write(WEIGHTS, [w.read(WEIGHTS), vec![0; 5]].concat()),
            EVAL,
            1,
            &[WEIGHTS, "describes"],
        ),
        case(
            "a header longer than the file",
            |w| {
                let mut file = w.read(WEIGHTS);
                file[..8].copy_from_slice(&40_000_000u64.to_le_bytes());
                w.write(WEIGHTS, file);
            },
            EVAL,
            1,
            &[WEIGHTS, "header claims 40000000"],
        ),
        case(
            "a header of all ones",
            |w| {
                let mut file = w.read(WEIGHTS);
                file[..8].copy_from_slice(&[0xff; 8]);
                w.write(WEIGHTS, file);
            },
            EVAL,
            1,
            &[WEIGHTS, "header claims 18446744073709551615"],
        ),
    ]
}

fn tensors() -> Vec<Case> {
    vec![
        case(
            "overlapping tensors",
            |w| {
                let last = |name: &str| name.ends_with("1.self_attn.v_proj.weight");
                let (mut header, data) = open(w);
                let tensors = header.as_object_mut().unwrap();
                let end = tensors.iter_mut().find(|(name, _)| last(name)).unwrap().1;
                let offsets = &mut end["data_offsets"];
                let [from, to] = [0, 1].map(|i| offsets[i].as_u64().unwrap() - 64);
                *offsets = json!([from, to]);
                write_weights(w, WEIGHTS, &header, &data);
            },
            EVAL,
            1,
            &[WEIGHTS, "overlap"],
        ),
        case(
            "eight-bit weights",
            |w| {
                let (mut header, data) = open(w);
                let names: Vec<String> = header.as_object().unwrap().keys().cloned().collect();
                let (mut start, mut kept) = (0, Vec::new());
                for name in names.iter().filter(|name| *name != "__metadata__") {
                    let offsets = header[name]["data_offsets"].clone();
                    let [from, to] = [0, 1].map(|i| offsets[i].as_u64().unwrap() as usize);
                    let mut bytes = data[from..to].to_vec();
                    if name == QUERY {
                        header[name]["dtype"] = json!("I8");
                        bytes.truncate(32 * 32);
                    }
                    header[name]["data_offsets"] = json!([start, start + bytes.len()]);
                    start += bytes.len();
                    kept.extend(bytes);
                }
                write_weights(w, WEIGHTS, &header, &kept);
            },
            EVAL,
            1,
            &[QUERY, "I8", "expected F32"],
        ),
        case(
            "a tensor of another shape",
            |w| {
                let (mut header, data) = open(w);
                header[QUERY]["shape"] = json!([16, 64]);
                write_weights(w, WEIGHTS, &header, &data);
            },
            EVAL,
            1,
            &[QUERY, "[16, 64]", "[32, 32]"],
        ),
        case(
            "NaN among the weights",
            |w| {
                let (header, mut data) = open(w);
                let start = header[QUERY]["data_offsets"][0].as_u64().unwrap() as usize;
                data[start + 20..start + 24].copy_from_slice(&f32::NAN.to_le_bytes());
                write_weights(w, WEIGHTS, &header, &data);
            },
            COMPRESS,
            1,
            &[QUERY, "NaN at index 5"],
        ),
        case("a missing shard", shard, EVAL, 1, &["model-00002-of-00002", "missing"]),
    ]
}

fn settings() -> Vec<Case> {
    vec![
        case(
            "no config",
            |w| fs::remove_file(w.path(CONFIG)).unwrap(),
            EVAL,
            1,
            &[CONFIG, "cannot read"],
        ),
        case("a broken config", |w| w.write(CONFIG, "{\"a\": "), EVAL, 1, &[CONFIG, "JSON"]),
        case(
            "a config without a field",
            |w| configure(w, |c| drop(c.as_object_mut().unwrap().remove("hidden_size"))),
            EVAL,
            3,
            &[CONFIG, "no field hidden_size"],
        ),
        case(
            "zero heads",
            |w| configure(w, |c| c["num_attention_heads"] = json!(0)),
            EVAL,
            3,
            &[CONFIG, "num_attention_heads is 0"],
        ),
        case(
            "an unknown family",
            |w| configure(w, |c| c["model_type"] = json!("tapir")),
            EVAL,
            3,
            &[CONFIG, "tapir", "llama"],
        ),
        case(
            "a model with fewer tokens than its tokenizer",
            |w| {
                let mut tokenizer = w.json("model/tokenizer.json");
                tokenizer["model"]["vocab"]["extra"] = json!(300);
                w.write("model/tokenizer.json", tokenizer.to_string());
            },
            EVAL,
            1,
            &["tokenizer.json", "300"],
        ),
        case(
            "no tokenizer",
            |w| fs::remove_file(w.path("model/tokenizer.json")).unwrap(),
            EVAL,
            1,
            &["model has no tokenizer.json"],
        ),
        case(
            "a broken tokenizer",
            |w| w.write("model/tokenizer.json", "[]"),
            COMPRESS,
            1,
            &["tokenizer.json"],
        ),
    ]
}

fn data() -> Vec<Case> {
    vec![
        case("no text", |_| {}, "eval model --text none.txt", 1, &["cannot read none.txt"]),
        case("a directory for a text", |_| {}, "eval model --text model", 1, &["is a directory"]),
        case("an empty text", |w| w.write("text.jsonl", ""), EVAL, 1, &["text.jsonl", "has no"]),
        case(
            "an empty text file",
            |w| w.write("e.txt", ""),
            "eval model --text e.txt",
            1,
            &["e.txt", "empty"],
        ),
        case(
            "a document without text",
            |w| w.write("text.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"\"}\n"),
            EVAL,
            1,
            &["text.jsonl, line 2", "empty"],
        ),
        case(
            "a broken line",
            |w| w.write("text.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"th\n"),
            EVAL,
            1,
            &["text.jsonl, line 2", "not valid JSON"],
        ),
        case(
            "a line without the field",
            |w| w.write("calibration.jsonl", "{\"body\": \"one two\"}\n"),
            COMPRESS,
            1,
            &["calibration.jsonl, line 1", "text"],
        ),
        case(
            "bytes that are not UTF-8",
            |w| w.write("text.jsonl", b"{\"text\": \"a\xff\"}\n"),
            EVAL,
            1,
            &["text.jsonl, line 1", "UTF-8"],
        ),
        case(
            "too little calibration text",
            |w| w.write("calibration.jsonl", "{\"text\": \"Mira.\"}\n"),
            COMPRESS,
            1,
            &["calibration text gives"],
        ),
        case(
            "an answer out of range",
            |w| {
                let line = "{\"question\": \"q\", \"choices\": [\" a\", \" b\"], \"answer\": 2}\n";
                w.write("questions.jsonl", line);
            },
            "eval model --tasks questions --data questions=questions.jsonl",
            1,
            &["questions.jsonl, line 1", "`answer` is 2", "0 to 1"],
        ),
    ]
}

fn options() -> Vec<Case> {
    vec![
        case(
            "a layer out of range",
            |_| {},
            "compress model --keep 0.5 --layers 1,2 --calibration calibration.jsonl -o out",
            2,
            &["layer 2 is out of range", "0 to 1"],
        ),
        case(
            "keep out of range",
            |_| {},
            "compress model --keep 1.5 --calibration calibration.jsonl -o out",
            2,
            &["'1.5'", "--keep", "from 0 to 1"],
        ),
        case(
            "keep that is no number",
            |_| {},
            "compress model --keep NaN --calibration calibration.jsonl -o out",
            2,
            &["--keep", "not finite"],
        ),
        case(
            "a rank that saves nothing",
            |_| {},
            "compress model --rank 16 --calibration calibration.jsonl -o out",
            2,
            &["rank 16", "largest rank with fewer parameters is 15"],
        ),
        case(
            "rank zero",
            |_| {},
            "compress model --rank 0 --calibration calibration.jsonl -o out",
            2,
            &["rank is 0"],
        ),
        case(
            "the dense form of a rotor network",
            |_| {},
            "compress model --method rotor --form dense --calibration calibration.jsonl -o out",
            2,
            &["rotor", "--form native"],
        ),
        case(
            "a window longer than the model",
            long_documents,
            "eval model --text text.jsonl --window 300",
            2,
            &["300 tokens", "256 positions"],
        ),
        case(
            "calibration windows longer than the model",
            long_documents,
            "compress model --keep 0.5 --calibration calibration.jsonl:seq_len=300 -o out",
            2,
            &["300", "256 positions"],
        ),
        case(
            "calibration windows of nothing",
            |_| {},
            "compress model --keep 0.5 --calibration calibration.jsonl:seq_len=0 -o out",
            2,
            &["--calibration", "seq_len is 0"],
        ),
        case(
            "no epochs",
            |_| {},
            "compress model --method rotor:epochs=0 --calibration calibration.jsonl -o out",
            2,
            &["--method", "epochs is 0", "from 1 to 1000000"],
        ),
    ]
}

/// Options of methods.
fn method_options() -> Vec<Case> {
    vec![
        case(
            "layers measured in a model that stays in its files",
            |_| {},
            "compress model --keep 0.5 --allocate sensitivity --offload \
             --calibration calibration.jsonl -o out",
            2,
            &["the weights stay in files", "--allocate spectrum"],
        ),
        case(
            "a shrinkage that is not a share",
            |_| {},
            "compress model --method feature:shrinkage=1.5 --keep 0.5 \
             --calibration calibration.jsonl -o out",
            2,
            &["--method", "shrinkage is 1.5", "from 0 to 1"],
        ),
        case(
            "the option of another method",
            |_| {},
            "compress model --method asvd:whitening=cholesky --keep 0.5 \
             --calibration calibration.jsonl -o out",
            2,
            &["asvd has no option whitening; nearest are alpha"],
        ),
    ]
}

fn flags() -> Vec<Case> {
    vec![
        case("an unknown flag", |_| {}, "inspect model --jsn", 2, &["--jsn", "--json"]),
        case("an unknown verb", |_| {}, "inspekt model", 2, &["inspekt", "inspect"]),
        case(
            "more threads than any machine has",
            |_| {},
            "eval model --text text.jsonl --threads 100000",
            2,
            &["100000", "--threads", "1024"],
        ),
        case(
            "a gate that is no number",
            |_| {},
            "eval model --text text.jsonl --max-ppl nan",
            2,
            &["nan", "--max-ppl", "from 1 to"],
        ),
        case(
            "an operator without its size",
            |_| {},
            "compress model --method diagonal_low_rank --calibration calibration.jsonl -o out",
            2,
            &["diagonal_low_rank", "needs a size", "--keep SHARE"],
        ),
        case("no documents", |_| {}, "eval model --text text.jsonl -L 0", 2, &["0", "--limit"]),
        case(
            "a role that no layer has",
            |_| {},
            "compress model --keep 0.5 --roles head --calibration calibration.jsonl -o out",
            2,
            &["head", "query"],
        ),
        case(
            "a JSON file without a text",
            |w| w.write("text.json", "[]"),
            "eval model --text text.json",
            1,
            &["text.json", "no rows"],
        ),
        case(
            "a trained model over something else",
            |w| w.write("thesis.txt", "years of work"),
            "train-lm -o thesis.txt",
            2,
            &["thesis.txt", "--force"],
        ),
    ]
}

fn recipes() -> Vec<Case> {
    vec![
        case("no recipe", |_| {}, RUN, 3, &["tiny.yaml"]),
        case(
            "a typo in a key",
            |w| recipe(w, "num_tokens", "num_token"),
            RUN,
            3,
            &["num_token", "num_tokens"],
        ),
        case(
            "a typo in a method",
            |w| recipe(w, "method: rotor", "method: rotr"),
            RUN,
            3,
            &["rotr", "rotor"],
        ),
        case(
            "another version",
            |w| recipe(w, "version: 1", "version: 9"),
            RUN,
            3,
            &["tiny: version is 9", "supports 1"],
        ),
        case("no YAML", |w| w.write("tiny.yaml", "[1, {"), RUN, 3, &["tiny.yaml"]),
        case(
            "a recipe of tables",
            |w| recipe(w, "jobs:", "tables: []\njobs:"),
            RUN,
            3,
            &["tiny.yaml: `tables` was replaced", "- compare: {"],
        ),
        case(
            "a layer that the model lacks",
            |w| recipe(w, "layers: 0/0,1", "layers: 0/7"),
            RUN,
            2,
            &["7"],
        ),
        case(
            "windows longer than the model",
            |w| {
                long_documents(w);
                recipe(w, "seq_len: 64", "seq_len: 300");
            },
            RUN,
            2,
            &["300", "256"],
        ),
        case(
            "a size inside its method",
            |w| recipe(w, "size: rank=2", "rank: 2"),
            RUN,
            3,
            &["rank", "size"],
        ),
    ]
}

fn recipe_values() -> Vec<Case> {
    vec![
        case(
            "healing of no slots",
            |w| recipe(w, "heal: ridge", "heal: [{ridge: 0.1}]"),
            RUN,
            3,
            &["nested: heal is {\"ridge\":0.1}", "expected one of ridge, trained, none"],
        ),
        case(
            "two jobs of one name",
            |w| recipe(w, "name: up-and-gate", "name: nested"),
            RUN,
            3,
            &["two jobs", "nested"],
        ),
        case("a seed twice", |w| recipe(w, "[0, 1]", "[4, 4]"), RUN, 2, &["seed", "4 twice"]),
        case(
            "a set of layers twice",
            |w| recipe(w, "layers: 0/0,1", "layers: 1/1"),
            RUN,
            2,
            &["the set 1 is named twice"],
        ),
        case(
            "no passes over the samples",
            |w| recipe(w, "epochs: 2", "epochs: 0"),
            RUN,
            3,
            &["epochs"],
        ),
        case("nothing to evaluate", |w| recipe(w, "limit: 3", "limit: 0"), RUN, 3, &["limit"]),
        case(
            "a row against which nothing is compared",
            |w| recipe(w, "against: [rotor]", "against: [rotors]"),
            RUN,
            2,
            &["rotors", "no row"],
        ),
    ]
}

fn outputs() -> Vec<Case> {
    vec![
        case(
            "an output that exists",
            |w| fs::create_dir(w.path("out")).unwrap(),
            COMPRESS,
            2,
            &["out exists already", "--force"],
        ),
        case(
            "a run in a directory of the user",
            |w| {
                w.write("tiny.yaml", RECIPE);
                fs::create_dir(w.path("out")).unwrap();
                w.write("out/report.json", "mine");
            },
            RUN,
            1,
            &["out", "not empty", "new one"],
        ),
        case(
            "an output under a file",
            |_| {},
            "compress model --keep 0.5 --calibration calibration.jsonl -o text.jsonl/out",
            1,
            &["text.jsonl"],
        ),
        case(
            "a run under a file",
            |w| w.write("tiny.yaml", RECIPE),
            "run -r tiny.yaml -o text.jsonl/out",
            1,
            &["text.jsonl"],
        ),
        case(
            "an output without a name",
            |_| {},
            "compress model --keep 0.5 --calibration calibration.jsonl -o ..",
            2,
            &["..", "contains the input"],
        ),
        case(
            "a result under a file",
            |_| {},
            "eval model --text text.jsonl --window 64 -o text.jsonl/result.json",
            1,
            &["text.jsonl/result.json"],
        ),
    ]
}

#[test]
fn every_bad_input_is_refused_with_code_and_reason() {
    let parts = [
        files(),
        tensors(),
        settings(),
        data(),
        options(),
        method_options(),
        flags(),
        recipes(),
        recipe_values(),
        outputs(),
    ];
    let mut wrong = Vec::new();
    for case in parts.into_iter().flatten() {
        let w = Workshop::new();
        (case.damage)(&w);
        let before = w.names();
        let outcome = Outcome::with_panics(w.command(case.command));
        let said = case.words.iter().all(|word| outcome.stderr.contains(word))
            && outcome.stderr.contains("error: ");
        let refused = outcome.code == Some(case.code) && outcome.stdout.is_empty();
        if !refused || !said || outcome.panicked() {
            wrong.push(format!(
                "{}: expected {} and {:?}, found {outcome:?}",
                case.name, case.code, case.words
            ));
        }
        if w.names() != before {
            wrong.push(format!("{}: left {:?}", case.name, w.names()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
