//! `run` with a recipe that compares methods on images: a small network with given weights
//! separates four classes.

use crate::recipes::differences;
use crate::workshop::Workshop;
use serde_json::{Value, json};

pub(crate) const RECIPE: &str = "
version: 1
title: A small network
net: net.yaml
seed: [0, 1]
keep: []
no_controls: true
calibration: {images: a-images-idx3-ubyte, examples: 0-79, batch: 16, validation: 0.2}
images: {images: a-images-idx3-ubyte, labels: a-labels-idx1-ubyte, examples: 80-119}
jobs:
  - compare_net:
      layers: 0/1
      methods: &methods
        - {method: low_rank, size: rank=1, label: LR1}
        - {method: rotor, epochs: 1}
        - {method: block_hadamard_trained, epochs: 1, rate: 0.01, label: BH1}
    name: replaced
  - compare_net:
      layers: 0
      roles: conv
      heal: [{roles: linear, layers: 1}]
      methods: *methods
    name: healed
";

pub(crate) const NET: &str = "
weights: net.safetensors
input: {channels: 1, height: 8, width: 8, mean: [0.2], std: [0.5]}
layers:
  - conv: {name: conv, out: 4, kernel: 3, padding: 1}
  - relu
  - mean_pool: {size: 4}
  - flatten
  - linear: {name: fc, out: 4}
";

const RUN: &str = "run -r images.yaml -o out";

/// 120 images of 8 x 8 pixels, of which one quarter is bright: it is the class.
pub(crate) fn images() -> Vec<u8> {
    let mut bytes = [0x803_u32, 120, 8, 8].map(u32::to_be_bytes).concat();
    for image in 0..120_usize {
        for (row, column) in (0..64).map(|pixel| (pixel / 8, pixel % 8)) {
            let is_bright = row / 4 * 2 + column / 4 == image % 4;
            let noise = (image * 31 + row * 17 + column * 7) * 2_654_435_761 % 97;
            bytes.push(noise as u8 + if is_bright { 100 } else { 0 });
        }
    }
    bytes
}

pub(crate) fn labels(last: u8) -> Vec<u8> {
    let mut bytes = [0x801_u32, 120].map(u32::to_be_bytes).concat();
    bytes.extend((0..120).map(|image| if image == 119 { last } else { image % 4 }));
    bytes
}

/// Weights that take the mean of each quarter; other channels add little.
fn weights() -> Vec<u8> {
    let small = |i: usize| ((i * 29 % 13) as f32 - 6.0) / 60.0;
    let conv = (0..36).map(|i| if i < 9 { 1.0 / 9.0 } else { small(i) });
    let fc = (0..64).map(|i| if i % 16 == i / 16 { 8.0 } else { small(i) });
    let zeros = std::iter::repeat_n(0.0, 4);
    let tensors: [(&str, &[usize], Vec<f32>); 4] = [
        ("conv.weight", &[4, 1, 3, 3], conv.collect()),
        ("conv.bias", &[4], zeros.clone().collect()),
        ("fc.weight", &[4, 16], fc.collect()),
        ("fc.bias", &[4], zeros.collect()),
    ];
    let (mut header, mut bytes) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = bytes.len();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let offsets = [start, bytes.len()];
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
        header.insert(name.to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes].concat()
}

pub(crate) fn workshop() -> Workshop {
    let w = Workshop::new();
    w.write("images.yaml", RECIPE);
    w.write("net.yaml", NET);
    w.write("net.safetensors", weights());
    w.write("a-images-idx3-ubyte", images());
    w.write("a-labels-idx1-ubyte", labels(3));
    w
}

fn metric(results: &Value, name: &str) -> f64 {
    let metrics = results[0]["metrics"].as_array().unwrap();
    metrics.iter().find(|metric| metric["name"] == name).unwrap()["value"].as_f64().unwrap()
}

#[test]
fn a_recipe_of_images_gives_a_report_and_again_the_same() {
    let w = workshop();
    let shown = w.ok(RUN);
    for said in ["cross-entropy", "replaced", "healed", "Kept", "Accuracy"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    let [replaced, healed] = ["replaced", "healed"].map(|job| {
        let result = w.json(&format!("out/{job}/result.json"));
        result["compare"].clone()
    });
    let dense = &replaced["dense"];
    assert_eq!(replaced["cells"].as_array().unwrap().len(), 2 * 2 * 3, "seeds x sets x rows");
    assert_eq!(healed["cells"].as_array().unwrap().len(), 2 * 3);
    assert_eq!(dense["results"][0]["counts"]["items"], 40);
    assert_eq!(metric(&dense["results"], "acc"), 1.0, "the weights tell the classes apart");
    let mean = |job: &Value, row: &str, layer: usize| {
        let cells = job["cells"].as_array().unwrap().iter();
        let values: Vec<f64> = cells
            .filter(|own| {
                let name = if own["label"].is_null() { &own["method"] } else { &own["label"] };
                (name, &own["place"]["layers"]) == (&json!(row), &json!([layer]))
            })
            .map(|own| metric(&own["found"]["model"]["results"], "cross_entropy"))
            .collect();
        assert_eq!(values.len(), 2, "{row}");
        values.iter().sum::<f64>() / 2.0
    };
    assert!(mean(&replaced, "LR1", 1) > metric(&dense["results"], "cross_entropy"));
    for row in ["LR1", "rotor", "BH1"] {
        let [plain, healed] = [&replaced, &healed].map(|job| mean(job, row, 0));
        assert!(healed < plain, "{row}: {healed} healed, {plain} not");
    }
    let result = w.json("out/replaced/result.json");
    let model = &replaced["cells"][0]["found"]["model"];
    assert_eq!(model["parameters"]["targeted_dense"], 36);
    let data = result["provenance"]["data"].as_array().unwrap();
    let purposes: Vec<&str> = data.iter().map(|one| one["purpose"].as_str().unwrap()).collect();
    assert_eq!(purposes, ["evaluation", "calibration"], "{data:?}");
    assert!(w.text("out/replaced/report.md").contains(data[1]["sha256"].as_str().unwrap()));

    let again = w.run(RUN);
    assert!(!again.stderr.contains("fitting"), "nothing is done twice: {}", again.stderr);
    again.succeeded("again");
    assert_eq!(w.json("out/replaced/result.json"), result);
    let said = w.ok("reproduce out -o copy");
    assert!(said.contains("files have the same bytes"), "{said}");
    // Another description is another network, even with the same weights.
    w.write("net.yaml", NET.replace("relu", "tanh"));
    w.fails(RUN, 6, &["another run"]);
}

#[test]
fn a_dry_run_writes_nothing_and_shards_give_the_same_report() {
    let w = workshop();
    w.write("other.yaml", NET);
    let before = w.names();
    let costs = w.ok("run -r images.yaml --model other.yaml --set seed=[3] --dry-run");
    for said in ["other.yaml", "--seed=3", "LR1", "BH1", "fits of all seeds"] {
        assert!(costs.contains(said), "{said}: {costs}");
    }
    assert_eq!(w.names(), before);
    w.ok(RUN);
    w.ok("run -r images.yaml -o one --shard 0/2");
    w.ok("run -r images.yaml -o two --shard 1/2");
    w.ok("merge one two -o both");
    // Times differ.
    let mut differing = differences(&w, "out", "both");
    differing.retain(|name| !name.contains("/speed/"));
    assert_eq!(differing, [""; 0]);
}

#[test]
fn unusable_images_and_networks_are_refused_before_anything_is_written() {
    let whole = images();
    let cases: [(&str, Vec<u8>, i32, &[&str]); 8] = [
        ("a-images-idx3-ubyte", whole[..5000].to_vec(), 1, &["a-images", "is truncated"]),
        ("a-labels-idx1-ubyte", labels(9), 1, &["label of image 119 is 9", "0 to 3"]),
        (
            "net.yaml",
            NET.replace("height: 8", "height: 9").into(),
            2,
            &["8 x 8 places", "9 x 8 places"],
        ),
        ("net.yaml", NET.replace("kernel: 3", "kernel: 30").into(), 3, &["0 (conv)"]),
        ("net.yaml", NET.replace("name: fc", "name: f").into(), 1, &["f.weight"]),
        ("images.yaml", RECIPE.replace("80-119", "80-120").into(), 2, &["no image 120"]),
        ("images.yaml", RECIPE.replace("80-119", "70-119").into(), 2, &["share 10 images"]),
        ("images.yaml", RECIPE.replace("layers: 0/1", "layers: 0/9").into(), 2, &["9"]),
    ];
    for (name, content, code, words) in cases {
        let w = workshop();
        w.write(name, content);
        w.fails(RUN, code, words);
        assert!(!w.path("out").exists(), "{words:?}");
    }
    let w = workshop();
    std::fs::remove_file(w.path("a-labels-idx1-ubyte")).unwrap();
    w.write("images.yaml", RECIPE.replace("labels: a-labels-idx1-ubyte, ", ""));
    w.fails(RUN, 2, &["--calibration", "has no labels", "labels=FILE"]);
}

/// An array of bytes in a file of numpy.
fn array(shape: &str, content: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), content].concat()
}

#[test]
fn arrays_with_channels_first_are_refused_wherever_images_are_read() {
    let w = Workshop::new();
    let pixels = &images()[16..];
    w.write("first.npy", array("(120, 1, 8, 8)", pixels));
    w.write("last.npy", array("(120, 8, 8, 1)", pixels));
    w.write("batch.npy", array("(40, 3, 8, 8)", pixels));
    let label: Vec<u8> = (0..120).map(|image| image % 4).collect();
    w.write("y.npy", array("(120,)", &label));
    w.write("net.yaml", NET);
    w.write("net.safetensors", weights());
    w.ok("train-net mlp:4 --images last.npy:labels=y.npy --steps 2 -o net");
    w.ok(
        "attribute cache net --train last.npy --reading labels=y.npy --compress identity -o store",
    );
    let recipe =
        RECIPE.replace("a-images-idx3-ubyte", "first.npy").replace("a-labels-idx1-ubyte", "y.npy");
    w.write("images.yaml", recipe);
    let words = ["channels first", "(images, channels, height, width)", "transpose(0, 2, 3, 1)"];
    for command in [
        "train-net mlp:4 --images first.npy:labels=y.npy --steps 2 -o no",
        "eval-net net --images first.npy:labels=y.npy",
        "flow train --data first.npy --steps 1 -o no",
        "flow train --data batch.npy --steps 1 -o no",
        "flow match --data batch.npy --steps 1 -o no",
        "attribute cache net --train first.npy --reading labels=y.npy --compress identity -o no",
        "attribute score store --query first.npy --reading labels=y.npy",
        "collapse measure --net net --images first.npy:labels=y.npy",
        "run -r images.yaml -o no",
    ] {
        let code = w.run(command).code.unwrap();
        w.fails(command, code, &words);
        assert!(!w.path("no").exists(), "{command}");
    }
    w.write("set.npz", b"PK\x03\x04");
    w.fails("flow train --data set.npz --steps 1 -o no", 1, &["set.npz", ".npz", "save the one"]);
}
