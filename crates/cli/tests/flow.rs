//! `flow train`, `flow eval`, `flow sample`: normalizing flows on points and images.

use crate::compare_images::images;
use crate::interruption::stop_at;
use crate::workshop::{Workshop, names};
use linwright::files::NpzArray;
use serde_json::{Value, json};

/// A small flow of points, so that steps take milliseconds.
pub(crate) const MOONS: &str = "flow train --data moons --architecture depth=4,hidden=16 --rate 0.01 --seed 3 --training batch=64";

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// A file of raw idx images of 28 x 28, blurred squares.
fn digits(count: usize) -> Vec<u8> {
    let mut bytes = [0x803_u32, count as u32, 28, 28].map(u32::to_be_bytes).concat();
    for image in 0..count {
        let (top, left) = (4 + image % 7, 4 + image / 7 % 7);
        for (row, column) in (0..784).map(|pixel| (pixel / 28, pixel % 28)) {
            let inside = (top..top + 12).contains(&row) && (left..left + 12).contains(&column);
            let noise = (image * 31 + row * 17 + column * 7) * 2_654_435_761 % 41;
            bytes.push(noise as u8 + if inside { 200 } else { 0 });
        }
    }
    bytes
}

#[test]
fn points_are_learnt_scored_and_drawn() {
    let w = Workshop::new();
    let said = w.ok_json(&format!(
        "{MOONS},validate_every=50,warmup=10,clip=5,average=0.9,optimizer=adamax,patience=100 \
         --layer cd:2 --steps 150 -o flow"
    ));
    let found = w.json("flow/results.json");
    assert_eq!((&found["steps"], &found["data"]["path"]), (&json!(150), &json!("moons")));
    assert_eq!(found["bits_per_dim"], said["bits_per_dim"]);
    assert!(number(&said, "seconds") > 0.0 && found["seconds"] == json!(null));
    let curve = w.text("flow/curves.jsonl");
    let first: Value = serde_json::from_str(curve.lines().next().unwrap()).unwrap();
    assert!(number(&found, "bits_per_dim") < number(&first, "validation") - 0.05, "{curve}");
    let files = names(&w.path("flow"));
    for file in ["README.md", "SHA256SUMS", "config.json", "measured.json", "recipe.yaml"] {
        assert!(files.iter().any(|name| name == file), "{file} in {files:?}");
    }
    let again = w.ok("reproduce flow -o again");
    assert!(again.contains("have the same bytes"), "{again}");

    let scores = w.ok_json("flow eval flow --data moons --limit 500 --seed 2 -o scores.json");
    assert_eq!(w.json("scores.json"), scores);
    assert_eq!((&scores["examples"], &scores["draws"]), (&json!(500), &json!(1)));
    let off = number(&scores, "bits_per_dim") - number(&found, "bits_per_dim");
    assert!(off.abs() < 0.2 && number(&scores, "stderr") > 0.0, "{scores}");
    let nats = number(&scores, "nll") / (2.0 * std::f64::consts::LN_2);
    assert!((nats - number(&scores, "bits_per_dim")).abs() < 1e-9, "{scores}");
    assert_eq!(scores["mixes"].as_array().unwrap().len(), 4);

    let said = w.ok_json("flow sample flow -n 300 -o moons.png --points moons.npy");
    assert_eq!(said["samples"], 300);
    assert!(w.read("moons.png").starts_with(b"\x89PNG"));
    let points = NpzArray::open(&w.path("moons.npy")).unwrap();
    assert_eq!(points.shape, [300, 2]);
    w.ok("flow sample flow --count 2 --temperature 0 --points two.csv");
    let lines: Vec<String> = w.text("two.csv").lines().map(str::to_owned).collect();
    assert!(lines.len() == 2 && lines[0] == lines[1] && lines[0].contains(','), "{lines:?}");
    w.ok("flow sample flow -n 3 --seed 1 --between moons --points path.csv");
    let told = w.fails("flow sample flow --points two.csv", 2, &["two.csv", "choose another name"]);
    assert!(!told.contains("--force"), "{told}");
    w.fails("flow sample flow -o moons.png --force --points two.csv", 2, &["remove the file"]);
    w.fails("flow sample flow --points two.txt", 2, &["--points two.txt", ".npy or .csv"]);
    w.fails("flow sample flow", 2, &["--output", "--points"]);
    w.fails("flow sample flow -o moons.png", 2, &["moons.png", "--force"]);
    w.ok("flow sample flow -o moons.png --force");
    // Points of one's own.
    let report = w.ok_json("flow eval flow --data moons.npy");
    assert_eq!((&report["examples"], &report["dimensions"]), (&json!(300), &json!(2)));
}

#[test]
fn samples_that_overflow_are_drawn_again_and_counted() {
    let w = Workshop::new();
    w.ok(&format!("{MOONS} --layer cd:2 --steps 2 -o flow"));
    // Its weights are changed by hand.
    std::fs::remove_file(w.path("flow/SHA256SUMS")).unwrap();
    let set = |exponent: f32| {
        let mut bytes = w.read("flow/model.safetensors");
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let place = header["prior.logstd"]["data_offsets"][0].as_u64().unwrap() as usize;
        bytes[8 + length + place..][..4].copy_from_slice(&exponent.to_le_bytes());
        w.write("flow/model.safetensors", bytes);
    };
    // From some deviation on a few samples overflow, and then all.
    let some = (0..89).find_map(|exponent| {
        set(exponent as f32);
        let run = w.run(&format!("flow sample flow -n 64 --points {exponent}.csv --json"));
        let said: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        let redrawn = said["redrawn"].as_u64().filter(|redrawn| *redrawn > 0)?;
        Some((run, redrawn, w.text(&format!("{exponent}.csv"))))
    });
    let (run, redrawn, many) = some.expect("some overflow before all do");
    assert!(run.code == Some(0) && redrawn < 64, "{run:?}");
    let note = format!("{redrawn} of 64 samples were not finite and were drawn again");
    assert!(run.stderr.contains(&note) && run.stderr.contains("--temperature"), "{}", run.stderr);
    assert_eq!(many.lines().count(), 64);
    assert!(!many.contains("inf") && !many.contains("NaN"), "{many}");
    // The first ones are the same whatever the count.
    w.ok("flow sample flow -n 20 --points few.csv");
    assert!(many.starts_with(&w.text("few.csv")));
    set(200.0);
    let words = ["sample 0 is not finite in 16 draws", "--temperature below 1"];
    w.fails("flow sample flow -n 4 --points none.csv", 1, &words);
    assert!(!w.path("none.csv").exists());
}

#[test]
fn raw_images_of_28_by_28_are_resized_learnt_and_drawn() {
    let w = Workshop::new();
    w.write("digits-images-idx3-ubyte", digits(60));
    let train = "flow train --data digits-images-idx3-ubyte --training batch=16 --seed 1 \
                 --architecture depth=1,hidden=4";
    let run = w.run(&format!("{train} --steps 30 -o flow"));
    assert!(run.stderr.contains("28 x 28 are resized by area to 16 x 16"), "{}", run.stderr);
    let said = run.succeeded(train);
    assert!(said.contains("bits per dimension"), "{said}");
    let found = w.json("flow/results.json");
    assert_eq!(found["flow"]["input"], json!({"channels": 1, "height": 16, "width": 16}));
    assert_eq!((&found["data"]["training"], &found["data"]["held_out"]), (&json!(54), &json!(6)));
    let scores = w.ok_json("flow eval flow --data digits-images-idx3-ubyte --draws 3 --limit 40");
    assert!((1.0..8.0).contains(&number(&scores, "bits_per_dim")), "{scores}");
    assert!(number(&scores, "stderr") < number(&scores, "stderr_examples"), "{scores}");
    assert_eq!((&scores["draws"], &scores["examples"]), (&json!(3), &json!(40)));
    let nats = number(&scores, "nll") / (256.0 * std::f64::consts::LN_2) + 8.0;
    assert!((nats - number(&scores, "bits_per_dim")).abs() < 1e-9, "{scores}");
    w.ok("flow sample flow -n 5 -o five.png --points five.npy");
    assert_eq!(NpzArray::open(&w.path("five.npy")).unwrap().shape, [5, 16, 16, 1]);
    w.ok("flow sample flow -n 4 --between digits-images-idx3-ubyte -o path.png");
    // Another size, another architecture, another mix.
    let dry = w.ok_json(&format!(
        "{train},levels=2,squeeze=place-major,shuffle --resize 8,16 --layer plu --limit 20 \
         --held-out-share 0.5 --steps 7 -o none --dry-run"
    ));
    assert_eq!((&dry["planned_steps"], &dry["flow"]["levels"]), (&json!(7), &json!(2)));
    assert_eq!((&dry["data"]["training"], &dry["data"]["held_out"]), (&json!(10), &json!(10)));
    assert_eq!(dry["flow"]["input"], json!({"channels": 1, "height": 8, "width": 16}));
    assert!(!w.path("none").exists());
}

#[test]
fn every_layer_trains_and_is_opened_again() {
    let w = Workshop::new();
    w.write("a-images-idx3-ubyte", images());
    for layer in [
        "cd:1",
        "cd:3:raw",
        "cd:2:time",
        "dense",
        "plu",
        "permutation",
        "householder:2",
        "exponential",
        "rotor",
        "woodbury:1",
        "butterfly",
    ] {
        w.ok(&format!(
            "flow train --data a-images-idx3-ubyte --layer {layer} --architecture depth=1,hidden=4 --steps 3 \
             --training batch=8,last --force -o flow"
        ));
        let scores = w.ok_json("flow eval flow --data a-images-idx3-ubyte --limit 8");
        assert_eq!(scores["layer"], layer);
        assert!((1.0..12.0).contains(&number(&scores, "bits_per_dim")), "{layer}: {scores}");
    }
}

#[test]
fn stopped_and_killed_a_training_ends_with_the_same_bytes() {
    let command = format!("{MOONS},validate_every=25 --steps 400 -o flow");
    let undisturbed = Workshop::new();
    undisturbed.ok(&command);
    let w = Workshop::new();
    for (name, code) in [("-INT", Some(75)), ("-KILL", None), ("-TERM", Some(75))] {
        let (status, said) = stop_at(&w, &command, "training", name);
        assert_eq!(status.code(), code, "{name}: {said}");
        assert!(!w.path("flow").exists(), "{name}");
    }
    w.ok(&command);
    for file in ["model.safetensors", "config.json", "results.json", "curves.jsonl"] {
        let file = format!("flow/{file}");
        assert!(w.read(&file) == undisturbed.read(&file), "{file}");
    }
    assert_eq!(w.unfinished(), [Value::Null; 0]);
    // On one thread, too.
    let alone = command.replace("-o flow", "-o alone --threads 1");
    w.ok(&alone.replace("400", "50"));
    w.ok(&command.replace("400", "50").replace("-o flow", "-o both"));
    assert!(w.weights("alone") == w.weights("both"));
    // With a checkpoint of one's own, which stays.
    let own = format!("{MOONS} --steps 2 --checkpoint flow.ckpt -o own");
    w.ok(&own);
    assert!(w.path("flow.ckpt").is_file());
    w.fails(&format!("{own} --force").replace("batch=64", "batch=64,warmup=2"), 6, &["flow.ckpt"]);
}

#[test]
fn what_cannot_be_trained_or_scored_is_refused_by_name() {
    let w = Workshop::new();
    w.write("a-images-idx3-ubyte", images());
    w.write("cut-images-idx3-ubyte", &images()[..3000]);
    w.write("bad.npy", NpzArray::file_of(&[2, 2], &[0.0, 1.0, f32::NAN, 2.0]));
    w.write("line.npy", NpzArray::file_of(&[4], &[0.0; 4]));
    w.write("three.npy", NpzArray::file_of(&[3, 3], &[0.5; 9]));
    let before = w.names();
    let train = "flow train --steps 1 -o flow --architecture depth=1,hidden=4";
    for (more, code, words) in [
        ("missing", 1, &["missing"][..]),
        ("cut-images-idx3-ubyte", 1, &["cut-images", "truncated"]),
        ("bad.npy", 1, &["bad.npy", "number 2 is NaN"]),
        ("line.npy", 1, &["line.npy", "has shape [4]"]),
        ("moons --layer wavelet", 2, &["wavelet", "householder[:R]"]),
        ("moons --layer cd:0", 2, &["cd:0"]),
        ("three.npy --layer rotor", 2, &["for 3 channels", "power of two"]),
        ("moons --rate 0", 2, &["--rate 0"]),
        ("moons --training average=1", 2, &["--training average=1"]),
        ("moons --training clip=0", 2, &["--training clip=0"]),
        ("moons --resize 8,8", 2, &["--resize", "points"]),
        ("moons --limit 5", 2, &["--limit", "drawn"]),
        ("moons levels=2", 2, &["levels is 2", "1 for points"]),
        ("a-images-idx3-ubyte levels=4", 2, &["multiples of 16"]),
        ("a-images-idx3-ubyte --resize 9,9", 2, &["9 x 9", "multiples of"]),
        ("a-images-idx3-ubyte --resize 9", 2, &["--resize 9", "16,16"]),
        ("a-images-idx3-ubyte --held-out-share 1", 2, &["--held-out-share 1"]),
    ] {
        let (data, levels) = more.split_once(" levels=").unwrap_or((more, ""));
        let line = match levels {
            "" => format!("{train} --data {data}"),
            levels => format!("{train},levels={levels} --data {data}"),
        };
        w.fails(&line, code, words);
        assert_eq!(w.names(), before, "{more}: nothing is written");
    }
    w.ok(&format!("{train} --data a-images-idx3-ubyte"));
    w.fails("flow eval flow --data moons", 2, &["1 x 1 x 2", "8 x 8 x 1"]);
    w.fails("flow eval model --data moons", 1, &["config.json", "not a flow"]);
    w.fails("flow eval missing --data moons", 1, &["missing"]);
    w.fails("flow sample flow -o a.png --temperature=-1", 2, &["temperature"]);
    let weights = w.weights("flow");
    w.write("flow/model.safetensors", &weights[..weights.len() - 9]);
    w.fails("flow sample flow -o a.png", 1, &["model.safetensors"]);
    assert!(!w.path("a.png").exists());
}

#[test]
fn velocities_are_matched_with_any_operator_in_the_hidden_layers() {
    let w = Workshop::new();
    let small = "flow match --data circles --architecture hidden=32,depth=2 --seed 1 --rate 0.005 \
                 --training pairs=4096,batch=128";
    let said = w.ok_json(&format!("{small} --layer cd:2 --steps 300 -n 300 --ode-steps 20 -o cd"));
    let curve = w.text("cd/curves.jsonl");
    let first: Value = serde_json::from_str(curve.lines().next().unwrap()).unwrap();
    assert!(number(&said, "loss") < 0.95 * number(&first, "validation"), "{said}");
    assert!((0.0..3.0).contains(&number(&said, "bits_per_dim")), "{said}");
    assert!(w.read("cd/samples.png").starts_with(b"\x89PNG"));
    let dense = w.ok_json(&format!("{small} --layer dense --steps 5 -o dense"));
    assert!(number(&dense, "parameters") > 2.0 * number(&said, "parameters"), "{dense}");
    let other = "{\"kind\":\"monarch\"}";
    w.ok(&format!("{small} --layer {other} --steps 5 -o other"));
    // Stopped, the same command gives the same bytes.
    let command = format!("{small} --steps 400 --checkpoint own -o out");
    let whole = Workshop::new();
    whole.ok(&command);
    let (status, said) = stop_at(&w, &command, "training", "-INT");
    assert_eq!(status.code(), Some(75), "{said}");
    w.ok(&command);
    assert!(w.weights("out") == whole.weights("out"));
    assert!(w.path("own").is_file());
    w.fails(&format!("{small} --layer wavelet -o no"), 2, &["--layer wavelet", "cd:M"]);
    w.fails("flow match --data circles --rate 0 -o no", 2, &["--rate 0"]);
}

/// A linear flow reaches the entropy of a Gaussian whose covariance its layer can represent.
#[test]
fn linear_flows_show_what_a_layer_can_represent() {
    let w = Workshop::new();
    let gap = |data: &str, layer: &str| {
        w.ok(&format!(
            "flow train --data gaussian:{data} --layer {layer} --architecture depth=1,hidden=0 --steps 400 \
             --rate 0.02 --training batch=256 --force -o flow"
        ));
        let scores = w.ok_json(&format!("flow eval flow --data gaussian:{data} --limit 4000"));
        number(&scores, "bits_per_dim") - number(&scores, "entropy")
    };
    assert!(gap("circulant:8", "cd:2") < 0.03);
    let (own, permuted) = (gap("toeplitz:8", "cd:2"), gap("toeplitz:8:permuted", "cd:2"));
    assert!(own < 0.05 && permuted > own + 0.03, "{own}, {permuted}");
    assert!(gap("generic:8", "plu") < 0.06);
    w.fails("flow train --data gaussian:odd:8 -o no", 2, &["gaussian:odd:8", "toeplitz"]);
}
