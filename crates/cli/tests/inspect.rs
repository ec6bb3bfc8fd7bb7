//! `inspect`: tensors, spectra, filters, the page and the cache.

use crate::workshop::{Outcome, VOCAB, Workshop, pieces};
use linwright::tensor::{RngKey, little_endian_bytes};
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;

/// Matrices of random numbers, side by side in one file.
fn weight_file(matrices: &[(&str, usize, usize)]) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (seed, (name, rows, cols)) in (0..).zip(matrices) {
        let start = data.len();
        let numbers: Vec<f32> = RngKey::new(seed).stream().normals(rows * cols, 1.0);
        data.extend(little_endian_bytes(&numbers));
        let offsets = [start, data.len()];
        let entry = json!({"dtype": "F32", "shape": [rows, cols], "data_offsets": offsets});
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

fn names(json: &Value) -> Vec<&str> {
    let tensors = json["tensors"].as_array().unwrap().iter();
    tensors.map(|tensor| tensor["name"].as_str().unwrap()).collect()
}

#[test]
fn all_tensors_of_a_model_by_name_layer_and_one_by_one() {
    let w = Workshop::new();
    let parameters = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32) + 2 * VOCAB * 32 + 5 * 32;
    let json = w.ok_json("inspect model");
    assert_eq!((&json["kind"], &json["model"]), (&"inspect".into(), &"model".into()));
    assert_eq!(json["totals"]["parameters"], parameters);
    assert_eq!(json["totals"]["bytes"], 4 * parameters);
    assert_eq!(names(&json).len(), 2 * 9 + 3);
    assert_eq!(json["groups"].as_array().unwrap().len(), 9 + 3);
    assert_eq!(json["tensors"][0]["spectrum"], Value::Null);
    for (by, said) in [
        ("name", "model.layers.*.self_attn.q_proj.weight"),
        ("tensor", "model.layers.1.mlp.down_proj.weight"),
        ("layer", "none"),
    ] {
        let shown = w.ok(&format!("inspect model --by {by}"));
        assert!(shown.contains(said) && shown.contains("21 tensors"), "{said:?} in {shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    }
}

#[test]
fn filters_leave_tensors_out() {
    let w = Workshop::new();
    let q = "model.layers.1.self_attn.q_proj.weight";
    for filter in ["--filter *q_proj* --layers 1", "--filter re:1.*q_proj", "--filter *.1.*q_p*"] {
        let json = w.ok_json(&format!("inspect model {filter} --dtype f32"));
        assert_eq!(names(&json), [q], "{filter}");
        assert!(json["notes"][0].as_str().unwrap().starts_with("1 of 21 tensors"), "{json}");
    }
    w.fails("inspect model --filter *none*", 2, &["21 tensors", "*none*"]);
    w.fails("inspect model --filter re:(", 2, &["re:("]);
    w.fails("inspect model --layers 5-x", 2, &["5-x"]);
    w.fails("inspect model --dtype float", 2, &["float", "bf16"]);
    w.fails("inspect model --dtype bf16", 2, &["BF16"]);
}

#[test]
fn spectra_are_kept_and_give_the_same_result() {
    let w = Workshop::new();
    let plain = w.ok_json("inspect model --spectra --no-cache");
    let first = w.ok_json("inspect model --spectra --cache kept");
    let again = w.ok_json("inspect model --spectra --cache kept --threads 1");
    assert_eq!((&plain, &plain), (&first, &again));
    for kind in ["spectrum", "vendi"] {
        assert_eq!(pieces(&w.path("kept"), kind).len(), 2 * 7 + 2);
    }
    let query = plain["tensors"].as_array().unwrap().iter();
    let query = query.clone().find(|t| t["name"] == "model.layers.0.self_attn.q_proj.weight");
    let spectrum = &query.unwrap()["spectrum"];
    let number = |key: &str| spectrum[key].as_f64().unwrap();
    assert_eq!(number("break_even_rank"), 16.0);
    assert!(number("largest") >= number("smallest") && number("stable_rank") >= 1.0);
    assert!((1.0..=32.0).contains(&number("effective_rank")));
    let shown = w.ok("inspect model --spectra --cache kept");
    for said in ["Singular values", "effect.", "alpha", "Vendi"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    w.fails("inspect model --cache kept", 2, &["--spectra"]);
    w.fails("inspect model --spectra --cache text.jsonl", 1, &["text.jsonl"]);
}

#[test]
fn without_a_name_the_store_is_where_caches_are() {
    let w = Workshop::new();
    let mut command = w.command("inspect model --spectra --layers 0 -q");
    command.env_remove("LINWRIGHT_STORE").env("XDG_CACHE_HOME", w.path("home"));
    Outcome::of(command).succeeded("a cache home");
    assert_eq!(pieces(&w.path("home/linwright/store"), "spectrum").len(), 7);
    w.ok("inspect model --spectra --layers 1 -q");
    assert_eq!(pieces(w.store(), "spectrum").len(), 7);
    let mut command = w.command("inspect model --spectra --layers 0");
    command.env_remove("LINWRIGHT_STORE").env_remove("XDG_CACHE_HOME").env_remove("HOME");
    let outcome = Outcome::of(command);
    assert!(outcome.stderr.contains("finished pieces are not kept"), "{}", outcome.stderr);
    outcome.succeeded("no home");
    let mut command = w.command("inspect model --spectra --layers 0");
    command.env("LINWRIGHT_STORE_BYTES", "20 GB");
    let words = ["LINWRIGHT_STORE_BYTES", "20 GB", "number of bytes"];
    Outcome::of(command).failed("a bound in words", 2, &words);
}

#[test]
fn one_spectrum_serves_inspect_and_laser() {
    let plain = Workshop::new().ok_json("inspect model --spectra --no-cache");
    let laser = "laser model --lname fc_in --lnum 0 --size energy=0.5";
    for first_inspect in [false, true] {
        let w = Workshop::new();
        if first_inspect {
            assert_eq!(w.ok_json("inspect model --spectra"), plain);
        }
        let cut = w.ok_json(laser)["sites"].take();
        let spectra = pieces(w.store(), "spectrum");
        assert_eq!(spectra.len(), if first_inspect { 2 * 7 + 2 } else { 1 });
        assert_eq!(pieces(w.store(), "components").len(), 1);
        // The same bits, whichever came first.
        assert_eq!(w.ok_json("inspect model --spectra"), plain);
        assert_eq!(w.ok_json(laser)["sites"], cut);
        assert_eq!(pieces(w.store(), "spectrum").len(), 2 * 7 + 2);
        assert!(spectra.iter().all(|path| path.exists()));
    }
}

#[test]
fn a_page_is_written_once() {
    let w = Workshop::new();
    w.ok("inspect model --spectra --no-cache --html page.html");
    let page = w.text("page.html");
    assert!(page.contains("Stable rank") && page.contains("<svg") && !page.contains("<script"));
    w.fails("inspect model --html page.html", 2, &["page.html", "--force"]);
    w.ok("inspect model --html page.html --force");
    assert!(!w.text("page.html").contains("<svg"));
    w.fails("inspect model --html none/page.html", 1, &["none"]);
    // What was printed as JSON is rendered again.
    w.write("found.json", w.ok("inspect model --json"));
    assert_eq!(w.ok("report found.json"), w.ok("inspect model"));
}

#[test]
fn ctrl_c_ends_it_with_its_code() {
    let w = Workshop::new();
    w.write("big.safetensors", weight_file(&[("a", 1500, 1500), ("b", 1500, 1501)]));
    let mut child = w.command("inspect big.safetensors --spectra --no-cache").spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("singular values") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let sent = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
}

/// A header of very many tensors without numbers: the output for each must stay small, and JSON
/// must not be held as one string. The pipe holds the command back once it begins to print.
#[cfg(target_os = "linux")]
#[test]
fn many_empty_tensors_take_memory_by_the_size_of_their_header() {
    const TENSORS: usize = 40_000;
    /// What the command takes with an empty file, and some more.
    const FIXED: usize = 8 << 20;
    let w = Workshop::new();
    let entry = json!({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]});
    let header: Map<String, Value> =
        (0..TENSORS).map(|i| (format!("t{i}"), entry.clone())).collect();
    let header = Value::Object(header).to_string().into_bytes();
    w.write("many.safetensors", [&(header.len() as u64).to_le_bytes()[..], &header].concat());
    let mut child = w.command("inspect many.safetensors --json --threads 1 -q").spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    };
    // Pages of the program are not memory that the file makes it take.
    let peak = bytes("VmHWM:") - bytes("RssFile:");
    let most = FIXED + 20 * header.len();
    assert!(peak < most, "{peak} bytes for a header of {}", header.len());
}
