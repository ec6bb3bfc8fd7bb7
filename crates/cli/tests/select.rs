//! `select`: rows of a tensor or of a layer, what is printed and written, and what is refused.

use crate::workshop::Workshop;
use linwright::tensor::{RngKey, little_endian_bytes};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Command;

const QUERY: &str = "model.layers.0.self_attn.q_proj.weight";

/// Matrices in one file: name, rows, columns, numbers.
fn weight_file(matrices: &[(&str, [usize; 2], Vec<f32>)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, numbers) in matrices {
        let start = data.len();
        data.extend(little_endian_bytes(numbers));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

fn random(rows: usize, cols: usize, scale: f64) -> Vec<f32> {
    RngKey::new(5).stream().normals(rows * cols, scale)
}

fn indices(json: &Value) -> Vec<u64> {
    json["indices"].as_array().unwrap().iter().map(|index| index.as_u64().unwrap()).collect()
}

fn numbers(json: &Value) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Rows on a line, at 0, 1, 3 and 3: chosen by hand.
fn line(w: &Workshop) {
    w.write("line.safetensors", weight_file(&[("line", [4, 1], vec![0.0, 1.0, 3.0, 3.0])]));
}

#[test]
fn rows_on_a_line_are_chosen_as_by_hand() {
    let w = Workshop::new();
    line(&w);
    let json = w.ok_json("select line.safetensors --tensor line -r 3");
    // The first is a full tie; then the farthest, the first of two; then the one between.
    assert_eq!(indices(&json), [0, 2, 1]);
    let far = (-4.5f64).exp();
    let two: f64 = [(1.0 + far) / 2.0, (1.0 - far) / 2.0].iter().map(|p| -p * p.ln()).sum();
    let scores = numbers(&json["scores"]);
    assert!((scores[0] - 1.0).abs() < 1e-12 && (scores[1] - two.exp()).abs() < 1e-12, "{json}");
    assert_eq!((&json["gamma"], &json["duplicates"]), (&json!(1.0), &json!(0)));
    assert_eq!(json["projection"], Value::Null, "three rows of one column depend on each other");
    assert!(
        json["no_projection"].as_str().unwrap().contains("selected row 0 (number 1)"),
        "{json}"
    );
    let least = w.ok_json("select line.safetensors --tensor line -r 3 --minimise");
    assert_eq!(indices(&least), [0, 1, 2]);
    let twins = w.ok_json("select line.safetensors --tensor line -r 4 --order 2 --gamma median");
    assert_eq!((&twins["duplicates"], &twins["options"]["gamma"]), (&json!(1), &json!("median")));
    // Squared distances 0, 1, 4, 4, 9 and 9.
    assert_eq!(twins["gamma"], 0.25);
    // With quality the shortest row comes first, and exp(-0) is the best of all.
    let quality = w.ok_json("select line.safetensors --tensor line -r 1 --quality");
    assert_eq!((indices(&quality)[0], &quality["log_mean_quality"]), (0, &json!(0.0)));
}

#[test]
fn a_tensor_and_its_layer_give_the_same_rows() {
    let w = Workshop::new();
    let tensor = w.ok_json(&format!("select model --tensor {QUERY} -r 8"));
    let slots = w.ok_json("inspect model --slots");
    let site = slots["sites"][0]["site"].as_str().unwrap().to_owned();
    let layer = w.ok_json(&format!("select model --sites {site} -r 8 --threads 1"));
    for key in ["indices", "scores", "projection", "effort", "gamma", "version"] {
        assert_eq!(tensor[key], layer[key], "{key}");
    }
    let (matrix, own) = (&tensor["matrix"], &layer["matrix"]);
    assert_eq!((&matrix["name"], &own["name"]), (&json!(QUERY), &json!(site)));
    assert_eq!((&matrix["sha256"], &matrix["dtype"]), (&own["sha256"], &json!("f32")));
    assert_eq!((&matrix["rows"], &matrix["cols"]), (&json!(32), &json!(32)));
    assert_eq!(matrix["sha256"].as_str().unwrap().len(), 64);
    let residual = tensor["projection"]["relative_residual"].as_f64().unwrap();
    assert!((0.1..1.0).contains(&residual), "{residual}");
    assert!(tensor["projection"]["condition"].as_f64().unwrap() >= 1.0);
    assert!(tensor["seconds"]["selection"].as_f64().unwrap() >= 0.0);
}

#[test]
fn every_way_to_say_how_many() {
    let w = Workshop::new();
    let matrix = ("m", [40, 20], random(40, 20, 0.3));
    w.write("m.safetensors", weight_file(&[matrix]));
    for (option, count) in [
        ("--rank 7", 7),
        ("-r 40", 40),
        ("--size rho=0.25", 5),
        ("--size rho=1", 20),
        // 6 rows make factors of 6 (40 + 20) numbers; 7 would make more than half of 800.
        ("--keep 0.5", 6),
        ("--size rate=8.9", 2),
    ] {
        let json = w.ok_json(&format!("select m.safetensors --tensor m {option}"));
        assert_eq!(indices(&json).len(), count, "{option}");
        assert_eq!(json["options"]["rank"], count, "{option}");
    }
    let full = w.ok_json("select m.safetensors --tensor m --size rate=0");
    assert!(full["projection"]["relative_residual"].as_f64().unwrap() < 1e-6, "all of the space");
    for (option, words) in [
        ("--rank 0", &["--rank 0 asks for 0 rows", "1 to 40"][..]),
        ("--rank 41", &["41 rows", "40 x 20"]),
        ("--keep 0", &["--keep 0 asks for 0 rows"]),
        ("--keep 1.5", &["'1.5'", "--keep", "from 0 to 1"]),
        ("--size rho=NaN", &["--size", "rho=NaN"]),
        ("--size rho=-1", &["rho is -1"]),
        ("--keep 0.01", &["asks for 0 rows"]),
        ("--size rate=10", &["rate 10 asks for 0 rows"]),
        ("--size rate=11", &["--size", "rate is 11", "from 0 to 10"]),
        ("--size rate=9.99", &["asks for 0 rows"]),
        ("", &["--rank"]),
        ("--rank 3 --keep 0.5", &["cannot be used with"]),
        ("--rank 3 --gamma 0", &["--gamma 0", "median"]),
        ("--rank 3 --gamma -2", &["--gamma -2"]),
        ("--rank 3 --gamma inf", &["--gamma inf"]),
        ("--rank 3 --gamma mean", &["--gamma mean"]),
        ("--rank 3 --order 3", &["--order", "3"]),
        ("--rank 3 --sites x", &["cannot be used with"]),
    ] {
        w.fails(&format!("select m.safetensors --tensor m {option}"), 2, words);
    }
    w.fails("select m.safetensors --rank 3", 2, &["--tensor"]);
}

#[test]
fn impossible_matrices_are_refused() {
    let w = Workshop::new();
    let mut broken = random(5, 3, 1.0);
    broken[7] = f32::NAN;
    w.write(
        "m.safetensors",
        weight_file(&[("whole", [5, 3], random(5, 3, 1.0)), ("broken", [5, 3], broken)]),
    );
    let equal = weight_file(&[("equal", [4, 2], vec![1.0; 8])]);
    w.write("equal.safetensors", equal);
    for (args, code, words) in [
        ("m.safetensors --tensor whale", 2, &["\"whale\"", "nearest are whole", "2 tensors"][..]),
        ("m.safetensors --tensor broken", 1, &["broken", "NaN"]),
        ("model --tensor model.norm.weight", 2, &["model.norm.weight", "[32]"]),
        ("model --tensor q_proj", 2, &["nearest are", QUERY]),
        ("model --sites layer", 2, &["15 linear layers", "nearest are", "--slots"]),
        ("nowhere --tensor a", 1, &["nowhere"]),
        ("equal.safetensors --tensor equal --gamma median", 1, &["median", "gamma"]),
    ] {
        w.fails(&format!("select {args} -r 2"), code, words);
    }
    let json = w.ok_json("select equal.safetensors --tensor equal -r 2");
    assert_eq!((indices(&json), &json["duplicates"]), (vec![0, 1], &json!(1)));
    let said = json["no_projection"].as_str().unwrap();
    assert!(said.contains("selected row 1 (number 2)"), "{said}");
}

#[test]
fn results_are_shown_and_written() {
    let w = Workshop::new();
    let args = format!("select model --tensor {QUERY} -r 22");
    let shown = w.ok(&args);
    for said in ["32 x 32, 22 of 32 rows", "pick", "and 2 more", "relative residual", "condition"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    let printed = w.ok_json(&format!("{args} --output rows.json"));
    let mut written = w.json("rows.json");
    assert_eq!(printed, written);
    w.fails(&format!("{args} -o rows.json"), 2, &["rows.json", "--force"]);
    w.ok(&format!("{args} -o rows.json --force --min-diversity"));
    assert_eq!(w.json("rows.json")["options"]["minimise"], true);
    w.fails(&format!("{args} -o none/rows.json"), 1, &["none"]);
    w.fails(&format!("{args} --force"), 2, &["--output"]);
    written["indices"].as_array_mut().unwrap().truncate(5);
    let fewer = w.ok_json(&format!("select model --tensor {QUERY} -r 5"));
    assert_eq!(fewer["indices"], written["indices"], "fewer rows are the first of more");
}

#[test]
fn ctrl_c_ends_it_with_its_code() {
    let w = Workshop::new();
    let big = ("big", [3000, 200], random(3000, 200, 0.07));
    w.write("big.safetensors", weight_file(&[big]));
    let mut child = w.command("select big.safetensors --tensor big -r 2000").spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("selecting") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let sent = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
}

#[test]
fn a_selection_is_a_job_of_recipes() {
    let w = Workshop::new();
    let line = format!("select model --tensor {QUERY} -r 3 --order 2");
    w.write("rows.yaml", w.ok(&format!("{line} --print-recipe")));
    let own = w.ok_json(&line);
    let run = w.ok_json("run -r rows.yaml -o out");
    assert_eq!(run["jobs"]["select-1"]["indices"], own["indices"]);
    // Times are apart; a number is a name, too.
    let kept = w.json("out/select-1.json");
    assert_eq!((&kept["seconds"], &kept["threads"]), (&Value::Null, &Value::Null));
    let times = &w.json("out/measured.json")["measured"]["jobs"]["select-1"]["seconds"];
    assert!(times["selection"].is_f64(), "{times}");
    w.write("rows.yaml", w.text("rows.yaml").replace("\"2\"", "2"));
    let again = w.ok_json("run -r rows.yaml -o number");
    assert_eq!(again["jobs"], run["jobs"]);
}
