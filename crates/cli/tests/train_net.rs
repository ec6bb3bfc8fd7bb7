//! `train-net`: small networks on labelled images.

use crate::compare_images::{NET, RECIPE, images, labels};
use crate::interruption::stop_at;
use crate::workshop::{Workshop, names};
use serde_json::{Value, json};

/// Four classes of 8 x 8 images, of which the first 80 are trained on.
pub(crate) const MLP: &str = "train-net mlp:16,12 --images a-images-idx3-ubyte:examples=0-79 \
                   --rate 0.01 --held-out-share 0.2 --training batch=16";

pub(crate) fn workshop() -> Workshop {
    let w = Workshop::new();
    w.write("a-images-idx3-ubyte", images());
    w.write("a-labels-idx1-ubyte", labels(3));
    w
}

#[test]
fn an_mlp_is_trained_and_its_layers_are_replaced_by_the_recipe_of_other_networks() {
    let w = workshop();
    let said = w.ok_json(&format!("{MLP} --epochs 30 -o mlp"));
    let found = w.json("mlp/results.json");
    assert_eq!((said["acc"].as_f64(), &found["acc"]), (Some(1.0), &json!(1.0)));
    assert!(said["images_per_second"].as_f64().unwrap() > 0.0 && found["seconds"] == json!(null));
    assert_eq!(found["images"]["training"], 64);
    assert_eq!(found["parameters"], 64 * 16 + 16 + 16 * 12 + 12 + 12 * 4 + 4);
    let curve = w.text("mlp/curves.jsonl");
    let losses: Vec<f64> = curve
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["validation"].as_f64().unwrap())
        .collect();
    assert!(losses.len() > 10 && losses[losses.len() - 1] < 0.2 * losses[0], "{curve}");
    let files = names(&w.path("mlp"));
    for file in ["README.md", "SHA256SUMS", "config.json", "measured.json", "recipe.yaml"] {
        assert!(files.iter().any(|name| name == file), "{file} in {files:?}");
    }
    let again = w.ok("reproduce mlp -o again");
    assert!(again.contains("have the same bytes"), "{again}");

    let scores = w.ok_json("eval-net mlp --images a-images-idx3-ubyte -o scores.json");
    assert_eq!((&scores["examples"], &scores["acc"]), (&json!(120), &json!(1.0)));
    assert_eq!((&scores["net_sha256"], &scores), (&said["sha256"], &w.json("scores.json")));
    let slots = w.ok_json("inspect mlp --slots");
    assert_eq!(slots["sites"].as_array().unwrap().len(), 3);
    assert_eq!((&slots["parameters"], &slots["family"]), (&found["parameters"], &json!("net")));
    for command in ["compress mlp --method low-rank --keep 0.5 -o no", "export mlp -o no"] {
        w.fails(command, 2, &["small network", "eval-net"]);
    }

    let recipe = RECIPE.replace("net.yaml", "mlp").replace("roles: conv", "roles: linear");
    w.write("images.yaml", recipe);
    w.ok("run -r images.yaml -o out");
    let result = w.json("out/replaced/result.json");
    assert_eq!(result["compare"]["cells"].as_array().unwrap().len(), 12);
    let accuracy = &result["compare"]["dense"]["results"][0]["metrics"][1];
    assert_eq!((&accuracy["name"], &accuracy["value"]), (&json!("acc"), &json!(1.0)));
}

#[test]
fn a_described_network_is_trained_with_either_loss() {
    let w = workshop();
    let layers = "  - conv: {name: conv, out: 4, kernel: 3}\n  - batch_norm: {name: norm}\n";
    let net = NET
        .replace("weights: net.safetensors\n", "")
        .replace("  - conv: {name: conv, out: 4, kernel: 3, padding: 1}\n", layers)
        .replace("mean_pool: {size: 4}", "max_pool: {size: 3}")
        + "operators:\n  fc: {kind: low_rank, rank: 2}\n";
    w.write("cnn.yaml", net);
    for loss in ["cross_entropy", "squared_error"] {
        let command = format!("{MLP},loss={loss} --epochs 20 -o {loss}");
        let said = w.ok_json(&command.replace("mlp:16,12", "cnn.yaml"));
        assert!(said["acc"].as_f64().unwrap() > 0.9, "{said}");
        let weights = w.weights(loss);
        let header = String::from_utf8_lossy(&weights[8..2000.min(weights.len())]);
        for name in ["conv.weight", "norm.running_var", "fc.u", "fc.bias"] {
            assert!(header.contains(name), "{name} in {header}");
        }
        assert!(!header.contains("fc.weight"), "an operator: {header}");
    }
}

#[test]
fn stopped_and_killed_the_same_command_ends_with_the_same_bytes() {
    let command = format!("{MLP},validate_every=50 --steps 6000 -o net");
    let undisturbed = workshop();
    undisturbed.ok(&command);
    let w = workshop();
    for (name, code) in [("-INT", Some(75)), ("-KILL", None), ("-TERM", Some(75))] {
        let (status, said) = stop_at(&w, &command, "training on", name);
        assert_eq!(status.code(), code, "{name}: {said}");
        assert!(!w.path("net").exists(), "{name}");
    }
    w.ok(&command);
    for file in ["model.safetensors", "results.json", "curves.jsonl"] {
        let file = format!("net/{file}");
        assert!(w.read(&file) == undisturbed.read(&file), "{file}");
    }
    assert_eq!(w.unfinished(), [Value::Null; 0]);
    let fast = MLP.replace("--rate 0.01", "--rate 0.3 --steps 40");
    let last = w.ok_json(&format!("{fast},last -o last"));
    let best = w.ok_json(&format!("{fast} -o best"));
    assert_eq!((&last["best_step"], last["best_step"] == best["best_step"]), (&json!(40), false));
    assert!(best["cross_entropy"].as_f64() <= last["cross_entropy"].as_f64(), "{best}");
    // With a checkpoint of one's own, which stays.
    let own = format!("{MLP} --steps 2 --checkpoint net.ckpt -o own");
    w.ok(&own);
    assert!(w.path("net.ckpt").is_file());
    w.fails(&format!("{own} --force").replace("batch=16", "batch=16,warmup=2"), 6, &["net.ckpt"]);
}

#[test]
fn what_cannot_be_trained_is_refused_before_anything_is_written() {
    let w = workshop();
    w.write("net.yaml", NET);
    w.write("conv.yaml", "input: {channels: 1, height: 8, width: 8}\nlayers: [relu]");
    w.write("odd.yaml", "input: {channels: 1, height: 8, width: 8}\nlayers: [relux]");
    w.write("cut-images-idx3-ubyte", &images()[..5000]);
    w.write("cut-labels-idx1-ubyte", labels(3));
    w.write("far-labels-idx1-ubyte", labels(200));
    let before = w.names();
    for (from, to, code, words) in [
        ("mlp:16,12", "mlp:16,x", 2, &["mlp:16,x", "mlp:512,256"][..]),
        ("mlp:16,12", "mlp:0", 3, &["1 (fc1)"]),
        ("mlp:16,12", "net.yaml", 2, &["names weights", "weights"]),
        ("mlp:16,12", "conv.yaml", 2, &["8 x 8 places", "flatten"]),
        ("mlp:16,12", "odd.yaml", 3, &["odd.yaml", "relux"]),
        ("mlp:16,12", "absent.yaml", 1, &["absent.yaml"]),
        ("a-images", "cut-images", 1, &["cut-images", "is truncated"]),
        ("examples=0-79", "labels=far-labels-idx1-ubyte", 0, &[]),
        ("0-79", "0-120", 2, &["no image 120"]),
        ("0-79", "7", 2, &["at least two"]),
        ("0-79", "x", 2, &["--images examples=x"]),
        ("0.2", "1.5", 2, &["--held-out-share", "from 0 to 1"]),
        ("0.01", "0", 2, &["--rate 0"]),
        ("batch=16", "weight_decay=nan", 2, &["weight_decay is nan"]),
        ("examples=0-79", "resize=8", 2, &["--images resize=8", "16x16"]),
        ("examples=0-79", "format=png", 1, &["PNG"]),
        ("examples=0-79", "formats=png", 2, &["images has no option formats", "format"]),
    ] {
        let command = format!("{MLP} --dry-run -o out").replacen(from, to, 1);
        match code {
            0 => drop(w.ok(&command)),
            code => drop(w.fails(&command, code, words)),
        }
        assert_eq!(w.names(), before, "{command}");
    }
    w.fails(&format!("{MLP} --steps 2 -o a-images-idx3-ubyte --force"), 2, &["a-images"]);
}
