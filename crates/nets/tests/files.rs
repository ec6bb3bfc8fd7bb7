//! Saved networks and descriptions.

use linwright_nets::{Batch, Net, NetError, NetSpec};
use linwright_ops::Sites;
use linwright_tensor::{Mat, RngKey};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SPEC: &str = "
input: {channels: 1, height: 6, width: 6, mean: [0.5], std: [2.0]}
layers:
  - conv: {name: conv, out: 4, kernel: 3}
  - batch_norm: {name: norm}
  - residual: {layers: [{attention: {name: mix, heads: 2}}, {layer_norm: {name: after}}]}
  - flatten
  - linear: {name: fc1, out: 64}
  - gelu
  - linear: {name: fc2, out: 3}
operators:
  conv: {kind: low_rank, rank: 2}
  fc1: {kind: block_hadamard, blocks: 4, depth: 2}
";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn spec(text: &str) -> NetSpec {
    serde_saphyr::from_str(text).expect("a description")
}

fn net() -> Net {
    Net::random(&spec(SPEC), RngKey::new(3)).expect("random numbers")
}

fn batch() -> Batch {
    let rows = Mat::from_vec(72, 1, RngKey::new(4).stream().normals(72, 1.0));
    Batch { rows, examples: 2 }
}

fn message(error: &NetError) -> String {
    error.to_string()
}

#[test]
fn a_network_is_saved_with_its_operators_and_read_back() {
    let (dir, net) = (folder(), net());
    let out = dir.path().join("net");
    let saved = net.save(&out, false, &[("note.txt".into(), b"hello".to_vec())]).expect("saves");
    assert!(Net::is_saved_at(&out) && !Net::is_saved_at(dir.path()));
    let opened = Net::open(&out).expect("opens");
    assert_eq!(opened.hash, saved.hash);
    assert_eq!(opened.net.spec(), net.spec());
    let [a, b] = [&net, &opened.net].map(|net| net.outputs(&batch()).expect("runs"));
    assert_eq!(a, b);
    let kinds: Vec<&str> =
        opened.net.slots().iter().map(|slot| slot.op().map().spec().kind()).collect();
    assert_eq!(kinds[0], "low_rank");
    assert_eq!(kinds.iter().filter(|kind| **kind == "block_hadamard").count(), 1);
    let again = net.save(&out, false, &[]).expect_err("is there");
    assert!(message(&again).contains("net"), "{again}");
    net.save(&out, true, &[]).expect("replaces");
    assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 1);
}

/// A description beside the weights of a saved network.
fn described(dir: &Path, change: impl Fn(&str) -> String) -> PathBuf {
    let saved = dir.join("net");
    let plain = spec(SPEC.split("operators").next().expect("the layers"));
    Net::random(&plain, RngKey::new(3)).expect("is random").save(&saved, true, &[]).expect("saves");
    let text = format!("weights: net/model.safetensors{SPEC}");
    let text = text.split("operators").next().expect("the layers").to_owned();
    let path = dir.join("net.yaml");
    std::fs::write(&path, change(&text)).expect("writes");
    path
}

#[test]
fn a_description_names_its_weights() {
    let dir = folder();
    let opened = Net::open(&described(dir.path(), str::to_owned)).expect("opens");
    let saved = Net::open(&dir.path().join("net")).expect("opens");
    assert_eq!(opened.hash, saved.hash);
}

#[test]
fn what_is_wrong_in_a_description_is_named() {
    let dir = folder();
    for (from, to, expected) in [
        ("kernel: 3", "kernel: 7", "layer 0 (conv): windows of size 7"),
        ("kernel: 3", "kernl: 3", "kernl"),
        ("gelu", "glu", "glu"),
        ("weights: net/model.safetensors", "", "names no weights"),
        ("model.safetensors", "absent.safetensors", "absent.safetensors"),
        ("name: fc1", "name: fc3", "fc3.weight"),
        ("out: 64", "out: 63", "fc1.weight"),
        ("- gelu", "- batch_norm: {name: more}", "more.weight"),
        ("out: 64", "out: 64, bias: false", "fc1.bias belongs to no layer"),
        ("out: 64", "out: 18446744073709551615", "layer 4 (fc1)"),
        ("name: fc2", "name: mix.key", "a second tensor mix.key.weight"),
        ("std: [2.0]", "std: [0.0]", "layer input: std 0"),
        ("input:", "input: {", ""),
    ] {
        let path = described(dir.path(), |text| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        let error = Net::open(&path).expect_err("is refused");
        assert!(message(&error).contains(expected), "{to}: {error}");
    }
}

#[test]
fn operators_of_no_slot_or_the_wrong_shape_are_refused() {
    for (from, to, expected) in [
        ("  fc1:", "  fc9:", "fc9: an operator; expected a slot"),
        ("rank: 2", "rank: 0", "slot conv"),
        ("rank: 2", "rank: 4000000000", "layer 0 (conv): conv.weight with shape"),
    ] {
        let text = SPEC.replacen(from, to, 1);
        let error = Net::<f32>::random(&spec(&text), RngKey::new(1)).expect_err("is refused");
        assert!(message(&error).contains(expected), "{to}: {error}");
    }
}

#[test]
fn other_directories_are_no_networks() {
    let dir = folder();
    std::fs::write(dir.path().join("config.json"), "{\"model_type\": \"llama\"}").expect("writes");
    let error = Net::open(dir.path()).expect_err("a language model");
    assert!(message(&error).contains("model_type is not linwright_net"), "{error}");
    let config = "{\"model_type\": \"linwright_net\", \"version\": 2, \"input\": {\"channels\": 1}, \"layers\": []}";
    std::fs::write(dir.path().join("config.json"), config).expect("writes");
    let error = Net::open(dir.path()).expect_err("of the future");
    assert!(message(&error).contains("version is 2"), "{error}");
}
