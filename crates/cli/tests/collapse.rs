//! `collapse`: neural collapse of features and networks, and where training leads.

use crate::compare_images::{images, labels};
use crate::workshop::Workshop;
use serde_json::{Map, Value, json};

/// A tensor of a file: name, type, shape, bytes.
type Tensor<'a> = (&'a str, &'a str, Vec<usize>, Vec<u8>);

fn safetensors(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, kind, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        let entry = json!({ "dtype": kind, "shape": shape, "data_offsets": offsets });
        header.insert((*name).to_owned(), entry);
        data.extend_from_slice(bytes);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// Numbers without a pattern, between -1 and 1.
fn noise(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn integers(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

const ROWS: usize = 60;
const D: usize = 6;
const K: usize = 4;

fn label(row: usize) -> i64 {
    (row * 7 % 11 % K) as i64
}

/// Features of some rows: a corner for each class, with noise, far from zero.
fn rows(range: std::ops::Range<usize>) -> Vec<f32> {
    let noise = noise(5, ROWS * D);
    let number = |row: usize, j: usize| {
        let corner = if label(row) as usize == j { 2.0 } else { 0.0 };
        10.0 + corner + 0.3 * noise[row * D + j]
    };
    range.flat_map(|row| (0..D).map(move |j| (row, j))).map(|(row, j)| number(row, j)).collect()
}

fn part(range: std::ops::Range<usize>) -> Vec<u8> {
    let labels: Vec<i64> = range.clone().map(label).collect();
    safetensors(&[
        ("features", "F32", vec![range.len(), D], bytes(&rows(range.clone()))),
        ("labels", "I64", vec![range.len()], integers(&labels)),
        ("head", "F32", vec![K, D], bytes(&noise(9, K * D))),
        ("bias", "F32", vec![K], bytes(&noise(3, K))),
    ])
}

/// A workshop with `all.safetensors` and its parts `a` and `b`.
pub(crate) fn features(w: &Workshop) {
    w.write("all.safetensors", part(0..ROWS));
    w.write("a.safetensors", part(0..23));
    w.write("b.safetensors", part(23..ROWS));
}

/// Features of many rows, whose reading takes a while.
pub(crate) fn many_rows(w: &Workshop, times: usize) {
    let labels: Vec<i64> = (0..ROWS).map(label).collect();
    w.write(
        "many.safetensors",
        safetensors(&[
            ("features", "F32", vec![times * ROWS, D], bytes(&rows(0..ROWS)).repeat(times)),
            ("labels", "I64", vec![times * ROWS], integers(&labels).repeat(times)),
        ]),
    );
}

/// Features of one row, so of one class.
pub(crate) fn one_class(w: &Workshop) {
    w.write("one.safetensors", part(0..1));
}

fn metric(result: &Value, name: &str) -> f64 {
    let value = &result["layers"][0]["metrics"][name];
    value.as_f64().unwrap_or_else(|| panic!("{name} in {result}"))
}

#[test]
fn merged_parts_have_the_bits_of_one_pass() {
    let w = Workshop::new();
    features(&w);
    let whole = w.ok_json("collapse measure --features all.safetensors --save-sums all.sums");
    w.ok("collapse measure --features a.safetensors --save-sums a.sums --resamples 0");
    w.ok("collapse measure --features b.safetensors --save-sums b.sums --no-baselines");
    let merged =
        w.ok_json("collapse merge b.sums a.sums --head all.safetensors --output merged.sums");
    let (one, other) = (&whole["layers"][0]["metrics"], &merged["layers"][0]["metrics"]);
    let other = other.as_object().unwrap();
    assert!(other.len() > 30, "{merged}");
    for (name, value) in other {
        assert_eq!(one[name], *value, "{name}");
    }
    assert!(w.read("merged.sums") == w.read("all.sums"), "the files differ");
    // Means of all, decisions of a part.
    let again = w.ok_json("collapse measure --features all.safetensors --sums merged.sums");
    assert_eq!(again["layers"], whole["layers"]);
    let alone = w.ok_json("collapse measure --sums merged.sums --head all.safetensors --seed 1");
    assert_eq!(metric(&alone, "nc1_pinv"), metric(&whole, "nc1_pinv"));
    assert!(alone["layers"][0]["metrics"].get("nc4_agree").is_none());
    let part = w.ok_json("collapse measure --features a.safetensors --sums merged.sums");
    assert_eq!(part["layers"][0]["rows"], ROWS);
    // Traces have no scatter, and neither have sums with a part of them.
    let traces = w.ok_json(
        "collapse measure --features b.safetensors --traces --save-sums t.sums --classes 4",
    );
    assert!(traces["layers"][0]["metrics"].get("nc1_pinv").is_none());
    let merged = w.ok_json("collapse merge a.sums t.sums");
    assert_eq!(metric(&merged, "cdnv_mean"), metric(&whole, "cdnv_mean"));
}

#[test]
fn a_measurement_has_floors_baselines_intervals_and_a_page() {
    let w = Workshop::new();
    features(&w);
    let args = "collapse measure --features all.safetensors --ood a.safetensors --resamples 50 --seed 3 -o c.json";
    let result = w.ok_json(args);
    assert_eq!(result, w.json("c.json"));
    let layer = &result["layers"][0];
    assert_eq!((&layer["classes_present"], &layer["classes_missing"]), (&json!(4), &json!(0)));
    assert!(metric(&result, "nc5_cos") > 0.9, "{result}");
    let shuffled = layer["baselines"]["shuffled_labels"]["nc1_quotient"].as_f64().unwrap();
    assert!(shuffled > 3.0 * metric(&result, "nc1_quotient"));
    assert!(layer["baselines"]["random_frames"]["nc2_etf_err_M"].is_number());
    let interval = &layer["intervals"][0];
    assert!(interval["low"].as_f64() < interval["high"].as_f64(), "{interval}");
    let page = w.ok("report c.json --format html");
    assert!(page.contains("nc1_pinv") && page.contains("Neural collapse"));
    assert!(w.ok("collapse measure --features all.safetensors").contains("tr Sw / tr Sb"));
    w.fails(args, 2, &["c.json", "--force"]);
    w.ok(&format!("{args} --force"));
}

#[test]
fn every_layer_of_a_network_is_measured() {
    let w = Workshop::new();
    w.write("a-images-idx3-ubyte", images());
    w.write("a-labels-idx1-ubyte", labels(3));
    w.ok("train-net mlp:8 --images a-images-idx3-ubyte --steps 60 -o net");
    let args = "collapse measure --net net --images a-images-idx3-ubyte:labels=a-labels-idx1-ubyte,examples=0-99 -o c.json";
    let result = w.ok_json(args);
    let layers = result["layers"].as_array().unwrap();
    assert!(layers.len() > 3, "{result}");
    let quotient = |layer: &Value| layer["metrics"]["nc1_quotient"].as_f64().unwrap();
    assert!(quotient(layers.last().unwrap()) < quotient(&layers[0]), "{result}");
    let with_head: Vec<_> =
        layers.iter().filter(|layer| layer["metrics"].get("nc4_agree").is_some()).collect();
    assert_eq!(with_head.len(), 1, "the head reads one layer");
    // The head of a layer decides as the network does.
    let scored = w.ok_json(
        "eval-net net --images a-images-idx3-ubyte:labels=a-labels-idx1-ubyte,examples=0-99",
    );
    assert_eq!(with_head[0]["metrics"]["acc_lin"], scored["acc"], "{result}");
    assert!(w.ok("report c.json --format html").contains("Collapse through the layers"));
}

#[test]
fn optima_agree_with_minimisation() {
    let w = Workshop::new();
    features(&w);
    for (args, expected) in [
        (
            "collapse gufm --classes 4 --strength 0.005 --norm 1 --dimension 6 --check 1",
            0.143_064_160,
        ),
        ("collapse gufm --classes 4 --strength 0.005 --dimension 32", 0.011_333_261),
    ] {
        let found = w.ok_json(args);
        let objective = found["optimum"]["objective"].as_f64().unwrap();
        assert!((objective - expected).abs() < 1e-9, "{args}: {objective}");
        if let Some(minimised) = found["minimised"]["objective"].as_f64() {
            assert!((minimised - objective).abs() < 1e-8, "{args}: {minimised}");
        }
    }
    let args = "collapse ufm --classes 3 --per-class 5 --strength head=0.01,features=0.01 \
                --loss squared-error --check 2 --dimension 4 --seed 2";
    let found = w.ok_json(args);
    let (closed, minimised) = (&found["optimum"]["objective"], &found["minimised"]["objective"]);
    assert!((closed.as_f64().unwrap() - minimised.as_f64().unwrap()).abs() < 1e-8, "{found}");
    let strong = w.ok("collapse ufm --classes 10 --strength head=0.2,features=0.1");
    assert!(strong.contains("vanish"), "{strong}");
    let compared = w.ok_json("collapse ufm --features all.safetensors");
    assert!(compared["comparison"]["head_ratio"].as_f64().unwrap() > 0.0, "{compared}");
    assert_eq!(compared["model"]["classes"], 4);
    w.fails("collapse ufm --strength head=-1", 2, &["head is -1"]);
    w.fails("collapse gufm --norm 0 --loss squared-error-bias --seed 1", 2, &["norm", "0"]);
}

#[test]
fn depth_experiments_have_slopes_and_repeat_to_the_bit() {
    let w = Workshop::new();
    features(&w);
    let args = "collapse depth --depths 2,4 --seeds 2 --steps 40 --architecture rn1:width=8 --classes 3 --per-class 4 \
                --noise 0.8 --rate 0.01 --strength 0.01:head=0.005 --seed 4";
    let found = w.ok_json(&format!("{args} -o d.json"));
    assert_eq!(found["rows"].as_array().unwrap().len(), 4);
    assert!(found["nc1_slope"]["slope"].is_number() && found["gap_slope"]["interval"].is_array());
    assert_eq!(w.ok_json(&format!("{args} --threads 1"))["rows"], found["rows"]);
    assert!(w.ok("report d.json --format html").contains("Collapse over depth"));
    w.ok(&format!("{args} -o d.json --force"));
    let few = "--depths 2 --steps 3 --classes 2 --per-class 2";
    for other in [
        "--architecture t22:width=6,norming=before,hidden=5 --tokens 3",
        "--architecture rn2:width=6,free_biases,norm=1.5 --strength 0.005:rule=over-depth",
        "--architecture t12:width=6 --loss squared-error",
    ] {
        let found = w.ok_json(&format!("collapse depth {few} {other}"));
        assert_eq!(found["rows"].as_array().unwrap().len(), 1, "{other}");
    }
    let of_file = w.ok_json("collapse depth --depths 2 --steps 3 --features all.safetensors");
    assert_eq!(of_file["examples"], ROWS);
    w.write("a-images-idx3-ubyte", images());
    w.write("a-labels-idx1-ubyte", labels(3));
    let args = "collapse depth --depths 2 --steps 3 --per-class 2 \
                --images a-images-idx3-ubyte:labels=a-labels-idx1-ubyte";
    let of_images = w.ok_json(&format!("{args},resize=4x4 --architecture t11 --tokens 4"));
    assert_eq!((&of_images["examples"], &of_images["tokens"]), (&json!(8), &json!(4)));
    assert_eq!(of_images["plan"]["hidden"], 4);
    w.fails(&format!("{args},resize=4x4 --architecture t11 --tokens 5"), 2, &["--tokens 5", "16"]);
    w.fails(&args.replace("class 2", "class 9999"), 2, &["--per-class 9999", "class 0 has"]);
    w.write("one.txt", "the cat sat on the mat and the dog ran after it ".repeat(4));
    w.write("two.txt", "profits rose in the third quarter of that year ".repeat(5));
    let args = "collapse depth --steps 3 --texts one.txt two.txt --per-class 3";
    let of_texts = w.ok_json(&format!("{args} --depths 2,3 --architecture rn1:width=8"));
    assert_eq!((&of_texts["examples"], &of_texts["classes"]), (&json!(6), &json!(2)));
    assert!(
        w.ok(&format!("{args} --depths 2,5 --architecture rn1:width=8"))
            .contains("NC1 through the deepest networks")
    );
    let of_texts = w.ok_json(&format!("{args} --depths 2 --architecture t12:width=8 --tokens 4"));
    assert_eq!((&of_texts["tokens"], &of_texts["plan"]["hidden"]), (&json!(4), &json!(8)));
    w.fails(&args.replace("class 3", "class 50"), 2, &["--per-class 50", "one.txt", "5 words"]);
    w.fails(&args.replace("two.txt", ""), 2, &["one text is one class"]);
    for (args, word) in [
        ("--depths 0", "depths of 1 or more"),
        ("--strength 0", "--strength 0"),
        ("--strength 0.1:head=0", "--strength head 0"),
        ("--noise -1", "--noise"),
        ("--architecture rn1:norm=0", "--architecture norm 0"),
        ("--architecture rn3", "no architecture rn3"),
        ("--architecture t11:width=4 --features all.safetensors", "leave width out"),
        ("--tokens 3", "rn1 reads single rows"),
    ] {
        w.fails(&format!("collapse depth --steps 1 {args}"), 2, &[word]);
    }
}

#[test]
fn a_depth_experiment_is_divided_over_its_networks() {
    let w = Workshop::new();
    let line = "collapse depth --depths 2,3 --seeds 2 --steps 30 --architecture rn1:width=6 --classes 3 --per-class 3";
    w.ok(&format!("{line} -o whole.json"));
    for index in [2, 0, 1] {
        let said = w.ok(&format!("{line} --shard {index}/3 -o part{index}"));
        assert!(said.contains("of 4 pieces"), "{said}");
    }
    w.ok("merge part1 part0 part2 -o merged.json");
    assert!(w.read("merged.json") == w.read("whole.json"));
    w.fails("merge part0 part2 -o other.json", 1, &["shards 1/3 are missing", "--fill"]);
    w.ok("merge part0 part2 -o other.json --fill");
    assert!(w.read("other.json") == w.read("whole.json"));
    w.fails(&format!("{line} --shard 0/3"), 2, &["needs an output directory"]);
    w.fails(&format!("{line} --shard 0/3 -o whole.json"), 2, &["is no directory"]);
    w.fails(&format!("{line} --seed 1 --shard 0/3 -o part0"), 6, &["part0", "another job"]);
}

#[test]
fn a_language_model_is_measured_by_layer() {
    let w = Workshop::new();
    let args = "collapse lm model --text text.jsonl --window 32 --min-count 5 --resamples 20";
    let found = w.ok_json(&format!("{args} --scatter --decisions -o lm.json"));
    let layers = found["layers"].as_array().unwrap();
    assert_eq!(layers.last().unwrap()["name"], "input of the head");
    assert_eq!((&layers[0]["name"], &layers[1]["name"]), (&json!("embedding"), &json!("layer 0")));
    let classes = found["classes_kept"].as_u64().unwrap();
    assert!(classes > 2 && classes < found["tokens_seen"].as_u64().unwrap(), "{found}");
    assert_eq!(found["classes_are"], "next tokens");
    for layer in layers {
        assert_eq!(layer["classes_missing"], 0);
        assert!(layer["class_sizes"][0].as_u64().unwrap() >= 5);
        for name in ["nc1_pinv", "cdnv_mean", "acc_ncc", "nc1_quotient_class_mean"] {
            assert!(layer["metrics"][name].is_number(), "{name} in {layer}");
        }
        // Next tokens are in the hidden states, and permuted ones are not.
        let quotient = |of: &Value| of["nc1_quotient"].as_f64().unwrap();
        let permuted = quotient(&layer["baselines"]["shuffled_labels"]);
        assert!(permuted > 1.02 * quotient(&layer["metrics"]), "{layer}");
    }
    let last = &layers.last().unwrap()["metrics"];
    assert!(last["nc3_cos_mean"].is_number() && last["nc4_agree"].is_number(), "{found}");
    assert!(layers[0]["metrics"].get("nc3_cos_mean").is_none());
    // One layer alone, on one thread, has the same numbers; without --scatter no nc1_pinv.
    let alone = w.ok_json(&format!("{args} --layers 1 --threads 1"));
    let (one, of_all) = (&alone["layers"][0], &layers[2]);
    assert_eq!(one["name"], of_all["name"]);
    assert_eq!(one["metrics"]["nc1_quotient"], of_all["metrics"]["nc1_quotient"]);
    assert!(one["metrics"].get("nc1_pinv").is_none());
    assert!(w.ok("report lm.json --format html").contains("input of the head"));
    w.ok(&format!("{args} -o lm.json --force"));
    let few = w.ok_json(&format!("{args} --max-count 20 --num-tokens 400 --no-baselines --seed 2"));
    assert!(few["layers"][0]["class_sizes"][1].as_u64().unwrap() <= 20, "{few}");
    w.fails(&format!("{args} --layers 9"), 2, &["no layer 9", "layers 0 to"]);
    w.fails("collapse lm model --text text.jsonl --min-count 100000", 2, &["0 of", "--min-count"]);
}

#[test]
fn an_encoder_is_measured_by_its_own_tokens() {
    let w = crate::encoders::workshop();
    let found = w.ok_json("collapse lm bert-headless --text text.jsonl --window 16 --resamples 0");
    assert_eq!(found["classes_are"], "own tokens");
    let quotient = |layer: usize| found["layers"][layer]["metrics"]["nc1_quotient"].as_f64();
    assert!(quotient(0) < quotient(1), "what a layer adds depends on the context: {found}");
    // With tokens before and after a text, as BERT has them.
    let mut tokenizer = w.json("bert-headless/tokenizer.json");
    let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let special = |id: &str, number: u32| json!({"id": id, "ids": [number], "tokens": [id]});
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [token("cls"), {"Sequence": {"id": "A", "type_id": 0}}, token("sep")],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"cls": special("cls", 0), "sep": special("sep", 1)},
    });
    w.write("bert-headless/tokenizer.json", tokenizer.to_string());
    let line = "collapse lm bert-headless --text text.jsonl --resamples 0 --window";
    w.fails(&format!("{line} 2"), 2, &["--window 2", "leave no room", "give a larger window"]);
    w.ok(&format!("{line} 16"));
}

/// `lm5.json` and `swept5.json`: results as if a model had five layers, whose cost rises with NC1
/// of their inputs. Those of its two layers are beside them.
pub(crate) fn related(w: &Workshop) {
    w.ok("sweep model --roles mlp,attn --size rate=9 --text text.jsonl --evaluation window=64 -o swept");
    w.ok("collapse lm model --text text.jsonl --window 32 --resamples 0 -o lm.json");
    five_layers(w, "swept/result.json");
}

/// `lm5.json` and `swept5.json` from `lm.json` and the result of a sweep.
pub(crate) fn five_layers(w: &Workshop, sweep: &str) {
    let (mut measured, mut swept) = (w.json("lm.json"), w.json(sweep));
    let first = measured["layers"][0].clone();
    let names = ["embedding", "layer 0", "layer 1", "layer 2", "layer 3"];
    let layer = |(i, name): (usize, &&str)| {
        let mut layer = first.clone();
        layer["name"] = json!(name);
        layer["metrics"]["nc1_quotient"] = json!(2 + i);
        layer["metrics"]["cdnv_mean"] = Value::Null;
        layer
    };
    measured["layers"] = names.iter().enumerate().map(layer).collect();
    let cell = swept["sweep"]["cells"][0].clone();
    let metric = swept["sweep"]["objective"]["metric"].clone();
    let with_cost = |i: usize| {
        let mut cell = cell.clone();
        cell["place"]["layer"] = json!(i);
        let metrics = cell["score"]["metrics"].as_array_mut().unwrap();
        let own = metrics.iter_mut().find(|own| own["name"] == metric).unwrap();
        own["value"] = json!(100 + 10 * i);
        cell
    };
    swept["sweep"]["cells"] = (0..5).map(with_cost).collect();
    w.write("lm5.json", measured.to_string());
    w.write("swept5.json", swept.to_string());
}

#[test]
fn collapse_is_related_to_what_layers_cost() {
    let w = Workshop::new();
    related(&w);
    w.ok("sweep model --roles mlp --layers all --size rate=9 --text text.jsonl --evaluation window=64 -o together");
    let args = "collapse relate --measured lm5.json --sweeps swept5.json --draws 400";
    let found = w.ok_json(&format!("{args} --seed 1 -o relation.json"));
    for found in [&found["all"], &found["groups"][0]] {
        assert!((found["rho"].as_f64().unwrap() - 1.0).abs() < 1e-12, "{found}");
    }
    // Two of the 120 orders of five layers.
    let p = found["all"]["p"].as_f64().unwrap();
    assert!((0.003..0.04).contains(&p), "{found}");
    assert_eq!(found["rows"][0]["metric"], json!([2.0, 3.0, 4.0, 5.0, 6.0]));
    assert!(found["all"]["random_order"][1].as_f64().unwrap() < 1.0, "{found}");
    assert!(w.ok("report relation.json --format html").contains("permuted classes"));
    w.ok(&format!("{args} -o relation.json --force"));
    // In a recipe, where a sweep is known by its directory.
    w.write(
        "relate.yaml",
        "version: 1\njobs:\n\
         - collapse_lm: {model: model, text: text.jsonl, window: 32, resamples: 0}\n  name: lm\n\
         - sweep: {model: model, roles: [mlp, attn], size: rate=9, text: text.jsonl, evaluation: {window: 64}}\n  name: swept\n\
         - collapse_relate: {measured: [{from: lm}], sweeps: [{from: swept}], draws: 50}\n",
    );
    // Its two layers are too few, which it finds after both were read.
    w.fails("run -r relate.yaml -o related", 2, &["number of layers is 2", "3 or more"]);
    let few = "--measured lm.json --sweeps swept";
    for (args, code, words) in [
        (few, 2, ["number of layers is 2", "3 or more"]),
        ("--measured lm.json --sweeps together/result.json", 1, ["together", "at once"]),
        ("--measured lm.json lm.json --sweeps swept5.json", 2, ["2 measurements", "1 sweeps"]),
        (
            "--measured swept5.json --sweeps swept5.json",
            1,
            ["swept5.json", "not a result of `coll"],
        ),
        ("--measured lm5.json --sweeps lm5.json", 1, ["lm5.json", "not a result of a sweep"]),
        ("--measured lm5.json --sweeps swept5.json --metric x", 2, ["--metric x", "nc1_quotient"]),
        (
            "--measured lm5.json --sweeps swept5.json --metric cdnv_mean",
            1,
            ["no cdnv_mean", "input of layer 0"],
        ),
    ] {
        w.fails(&format!("collapse relate {args}"), code, &words);
    }
}

#[test]
fn checkpoints_become_rows_of_one_table() {
    let w = Workshop::new();
    features(&w);
    for (file, name) in [("all", "step-1"), ("a", "step-2"), ("b", "step-3")] {
        w.ok(&format!(
            "collapse measure --features {file}.safetensors --resamples 0 -o {name}.json"
        ));
    }
    let all = w.ok_json("collapse watch step-1.json step-2.json step-3.json");
    w.ok("collapse watch step-1.json step-2.json --output two.json");
    let later = w.ok_json("collapse watch two.json step-3.json -o three.json");
    assert_eq!(all["rows"], later["rows"]);
    assert_eq!(all["rows"][2]["checkpoint"], "step-3");
    assert_eq!(all["rows"][1]["metrics"], w.json("step-2.json")["layers"][0]["metrics"]);
    assert!(w.ok("report three.json --format html").contains("features over checkpoints"));
    w.fails("collapse watch two.json step-2.json", 2, &["step-2", "twice"]);
    w.fails("collapse watch text.jsonl", 1, &["text.jsonl", "not a result of collapse"]);
    w.ok("collapse watch two.json -o three.json --force");
}

#[test]
fn items_of_a_list_refer_to_earlier_jobs() {
    let w = Workshop::new();
    features(&w);
    let recipe = "
version: 1
resamples: 0
jobs:
  - collapse_measure: {features: a.safetensors}
    name: step-1
  - collapse_measure: {features: b.safetensors}
    name: step-2
  - collapse_watch: {results: [{from: step-1}, {from: step-2}]}
    name: all
";
    w.write("watch.yaml", recipe);
    w.ok("run -r watch.yaml -o out");
    let rows = w.json("out/all.json");
    assert_eq!(
        (&rows["rows"][0]["checkpoint"], &rows["rows"][1]["checkpoint"]),
        (&json!("step-1"), &json!("step-2"))
    );
    // Jobs that refer to one another stay together.
    w.ok("run -r watch.yaml -o part0 --shard 0/2");
    assert!(w.path("part0/all.json").is_file() && w.path("part0/step-2.json").is_file());
    w.write("unknown.yaml", recipe.replace("{from: step-2}]", "{from: step-3}]"));
    w.fails("run -r unknown.yaml -o other", 3, &["results refers to step-3", "not an earlier job"]);
}

#[test]
fn unusable_features_are_named() {
    let w = Workshop::new();
    features(&w);
    let labels = |first: i64| {
        integers(&(0..10).map(|i| if i == 0 { first } else { i % 2 }).collect::<Vec<_>>())
    };
    let x = noise(1, 30);
    let mut spoilt = x.clone();
    spoilt[3 * 7 + 2] = f32::NAN;
    let write = |name: &str, x: &[f32], labels: Vec<u8>, more: &[Tensor<'_>]| {
        let mut tensors =
            vec![("features", "F32", vec![10, 3], bytes(x)), ("labels", "I64", vec![10], labels)];
        tensors.extend_from_slice(more);
        w.write(name, safetensors(&tensors));
    };
    let head = |rows: usize, cols: usize| {
        [("head", "F32", vec![rows, cols], bytes(&noise(2, rows * cols)))]
    };
    write("nan", &spoilt, labels(0), &[]);
    write("negative", &x, labels(-3), &[]);
    write("large", &x, labels(7), &head(2, 3));
    write("identifiers", &x, labels(4_000_000_000), &[]);
    write("wide", &x, labels(0), &head(2, 4));
    write("one", &x, integers(&[1; 10]), &[]);
    write("good", &x, labels(0), &[]);
    let fractions: Vec<f32> = (0..10).map(|i| i as f32 / 2.0).collect();
    w.write(
        "fractions",
        safetensors(&[
            ("features", "F32", vec![10, 3], bytes(&x)),
            ("labels", "F32", vec![10], bytes(&fractions)),
        ]),
    );
    w.write("none", safetensors(&[("x", "F32", vec![1], bytes(&[1.0]))]));
    for (file, words) in [
        ("nan", ["row 7", "column 2"]),
        ("negative", ["label -3", "row 0"]),
        ("large", ["label 7", "0 to 1"]),
        ("identifiers", ["label 4000000000", "row 0"]),
        ("wide", ["head has shape [2, 4]", "a column for each feature"]),
        ("one", ["1 of 2 classes", "2 or more"]),
        ("fractions", ["label 0.5", "row 1"]),
        ("none", ["no tensor features", "found: x"]),
        ("text.jsonl", ["text.jsonl", ""]),
    ] {
        w.fails(&format!("collapse measure --features {file}"), 1, &words);
    }
    w.fails("collapse measure", 2, &["nothing to measure", "--features"]);
    w.ok("collapse measure --features good --save-sums good.sums --resamples 10");
    w.ok("collapse measure --features all.safetensors --save-sums all.sums --resamples 0");
    w.fails("collapse merge good.sums all.sums", 2, &["4 classes, 6 features"]);
    w.fails("collapse measure --features good --sums all.sums", 2, &["4 classes and 6 features"]);
    w.fails("collapse merge good -o merged.sums", 1, &["sums written by", "good"]);
    let sums = w.read("all.sums");
    w.write("cut.sums", &sums[..sums.len() - 9]);
    w.fails("collapse merge cut.sums", 1, &["cut.sums"]);
    assert!(!w.path("merged.sums").exists());
    let onto_text = "collapse measure --features good --save-sums text.jsonl --force";
    w.fails(onto_text, 2, &["text.jsonl"]);
}
