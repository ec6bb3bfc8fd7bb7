//! SIGTERM in the middle of work: every verb that can take long ends within two seconds, with the
//! exit code of an interruption, and leaves no output.

use crate::interruption::signal;
use crate::numbers::furnished;
use crate::workshop::Workshop;
use linwright::jobs::{STREAMED, VERBS};
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longest time between the signal and the end; a machine that runs other tests may take as long
/// again.
const MOST: Duration = Duration::from_secs(2 + 2);
/// Time after which a command is in the middle of its work.
const MIDDLE: Duration = Duration::from_millis(1200);

/// Calibration on a little text.
const CALIBRATION: &str = "--calibration=calibration.jsonl:num_tokens=1500,seq_len=64";
/// Evaluation of a long text.
const TEXT: &str = "--text=long.jsonl --evaluation=window=64,stride=8";

/// Commands that work for much longer than the test waits, of each verb that can. `OUT` is a place
/// of their own.
const LONG: &[&str] = &[
    "compress model --method rotor:epochs=100000 --roles query,key,value CALIBRATION -o OUT",
    "compare model --keep 0.6 --methods slicegpt --no-controls --recover 1000000 CALIBRATION TEXT -o OUT",
    "prune model --keep 0.9 --recover 1000000 CALIBRATION TEXT -o OUT",
    "laser model --lname fc_in --lnum 0 --rate 9 TEXT -o OUT",
    "sweep model --roles fc_in,fc_out --size rate=9,5 TEXT -o OUT",
    "compose model --roles fc_in,fc_out --size rate=9,5 TEXT -o OUT",
    "search model --roles fc_in,fc_out --tasks questions --data questions=many.jsonl CALIBRATION -o OUT",
    "eval model --text=long.jsonl --window=64 --stride=8 -o OUT",
    "run -r long.yaml -o OUT",
    "fit normal:2048 --operator low_rank --keep 0.5 -o OUT",
    "train-lm -o OUT",
    "train-lm --text text.jsonl --architecture hidden=8,layers=1,context=16 --vocab 280 --steps 10000000 -o OUT",
    "train-net mlp:8 --images a-images-idx3-ubyte --steps 10000000 -o OUT",
    "compare-net net --calibration a-images-idx3-ubyte:examples=0-59 --images a-images-idx3-ubyte:examples=60-119 --methods low_rank_trained:epochs=100000 --no-controls -o OUT",
    "attribute cache model --train long.jsonl --compress factgrass:16 -o OUT",
    "attribute lds netstore --images a-images-idx3-ubyte --subsets 10000 --steps 1000 -o OUT",
    "attribute world --stories 2000000 -o OUT",
    "molecule md potential a.xyz --steps 100000000 --every 1000 -o OUT",
    "molecule relax potential a.xyz --steps 100000000 --fmax 1e-300 -o OUT",
    "molecule bench potential a.xyz --repeats 10000",
    "molecule compare potential --calibration a.xyz --test b.xyz --methods low_rank_trained:epochs=100000 --no-controls -o OUT",
    "molecule train --data a.xyz --architecture channels=8,layers=1,radial=8,cutoff=3 --training batch=4 --steps 10000000 -o OUT",
    "collapse measure --features all.safetensors --resamples 1000000",
    "collapse merge sums.safetensors --resamples 1000000",
    "collapse ufm --classes 100 --check 10000",
    "collapse gufm --classes 100 --check 10000",
    "collapse depth --depths 400 --steps 1000000 --classes 10 --per-class 50 --architecture rn1:width=64",
    "collapse lm model --text text.jsonl --window 32 --resamples 1000000",
    "flow train --data moons --architecture depth=1,hidden=4 --steps 10000000 --training batch=8 -o OUT",
    "flow eval flow --data moons --limit 2000000",
    "flow sample flow --count 1000000 --points OUT.npy",
    "flow match --data moons --architecture hidden=16,depth=1 --steps 2 --training pairs=64,batch=8 --count 1000000 -o OUT",
    "bench operators low_rank --dims 4096 --rounds 10000",
    "rotor convergence --seeds 10000",
    "serve model --port 0",
];

/// Verbs that take long only on large inputs, which they read between questions whether to stop, or
/// which run others.
const SHORT: &[&str] = &[
    "attribute-best",
    "attribute-fisher",
    "attribute-recall",
    "attribute-score",
    "attribute-self",
    "attribute-show",
    "collapse-relate",
    "collapse-watch",
    "eval-net",
    "export",
    "generate",
    "import",
    "inspect",
    "merge",
    "molecule-compress",
    "molecule-convert",
    "molecule-eval",
    "molecule-info",
    "plan",
    "reproduce",
    "select",
];

/// What is wrong with how a command ends after a signal in its middle.
fn fault(w: &Workshop, line: &str) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    let (out, said) = (place.path().join("out"), place.path().join("stderr"));
    let line = line.replace("CALIBRATION", CALIBRATION).replace("TEXT", TEXT);
    let line = line.replace("OUT", &out.display().to_string());
    let mut command = w.command(&format!("{line} --threads 1"));
    command.env("LINWRIGHT_STORE", place.path().join("store"));
    command.stdout(Stdio::null()).stderr(File::create(&said).unwrap());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(MIDDLE);
    let told = |text: &str| {
        let said = fs::read_to_string(&said).unwrap_or_default();
        Some(format!("{line}: {text}: {}", said.trim()))
    };
    if let Some(status) = child.try_wait().unwrap() {
        return told(&format!("{status} before the signal"));
    }
    signal(&child, "-TERM");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > 15 * MOST {
            child.kill().unwrap();
            child.wait().unwrap();
            return told("deaf");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let took = began.elapsed();
    let is_server = line.starts_with("serve") && status.success();
    if !is_server && !matches!(status.code(), Some(75 | 130)) {
        return told(&status.to_string());
    }
    if took > MOST {
        return told(&format!("{took:?}"));
    }
    left(&out).and_then(|name| told(&format!("leaves {name}")))
}

/// An output of an interrupted command, which has none but what it continues with.
fn left(out: &Path) -> Option<String> {
    let is_result = |name: &str| out.join(name).exists();
    ["model.safetensors", "result.json", "report.html"]
        .into_iter()
        .find(|name| is_result(name))
        .map(str::to_owned)
}

#[test]
fn every_verb_that_can_take_long_ends_soon_after_a_signal() {
    let w = furnished();
    w.write("long.jsonl", w.text("text.jsonl").repeat(2000));
    w.write("many.jsonl", w.text("questions.jsonl").repeat(2000));
    let eval = "version: 1\neval: {model: model, text: long.jsonl, window: 64, stride: 8}\n";
    w.write("long.yaml", eval);
    for verb in VERBS.iter().chain(STREAMED) {
        let is_tried = LONG.iter().any(|line| line.starts_with(&format!("{} ", verb.words())));
        assert!(is_tried != SHORT.contains(&verb.name), "{}: in LONG or in SHORT", verb.name);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut faults = Vec::new();
        while let Some(line) = LONG.get(next.fetch_add(1, Ordering::Relaxed)) {
            faults.extend(fault(&w, line));
        }
        faults
    };
    let faults: Vec<String> = std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(work));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{faults:#?}");
}
