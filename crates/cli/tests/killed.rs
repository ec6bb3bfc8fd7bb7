//! Commands that are killed at any finished piece, again and again: the last one gives the bytes of
//! an undisturbed one.

use crate::molecule::potential;
use crate::recipes::JOBS;
use crate::workshop::{Workshop, names};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Commands, and the outputs to compare beside their stdout; no output has a time in it.
const CASES: &[(&str, &[&str])] = &[
    ("inspect model --spectra --json", &[]),
    ("laser model --lname mlp --rank 3 -o out --force --json", &["out/model.safetensors"]),
    (
        "sweep model --roles fc_in,fc_out --size rate=9,5 --text text.jsonl --evaluation window=64 -o out",
        &["out/cells.jsonl"],
    ),
    (
        "compose model --roles fc_in,fc_out --size rate=9,5 --text text.jsonl --evaluation window=64 -o out",
        &["out/edits.json"],
    ),
    (
        "compress model --keep 0.5 --calibration calibration.jsonl:num_tokens=1500,seq_len=64 -o out --force",
        &["out/model.safetensors"],
    ),
    (
        "prune model --keep 0.5 --calibration calibration.jsonl:num_tokens=1500,seq_len=64 -o out --force",
        &["out/model.safetensors"],
    ),
    (
        "compare model --keep 0.5 --methods svd --text text.jsonl --evaluation window=64 --calibration calibration.jsonl:num_tokens=1500,seq_len=64 -o out",
        &["out/report.html", "out/result.json"],
    ),
    (
        "compare model --keep 0.6 --methods slicegpt,drop_layers,llm_pruner,modegpt --no-controls --recover 2 --text text.jsonl --evaluation window=64 --calibration calibration.jsonl:num_tokens=1500,seq_len=64 -o out",
        &["out/report.html", "out/result.json"],
    ),
    (
        "search model --roles fc_in,fc_out --tasks questions --data questions=many.jsonl --calibration calibration.jsonl:num_tokens=1500,seq_len=64 -o out --force",
        &["out/model.safetensors", "out/decisions.jsonl", "out/report.html", "out/results.json"],
    ),
    (
        "run -r jobs.yaml -o out",
        &["out/results.json", "out/report.html", "out/export-1/model.safetensors"],
    ),
    (
        "molecule md potential.ckpt a.xyz --steps 20000 --every 100 --seed 2 -o out",
        &[
            "out/trajectory.xyz",
            "out/log.jsonl",
            "out/final.xyz",
            "out/result.json",
            "out/report.html",
        ],
    ),
    (
        "attribute cache model --train long.jsonl --compress factgrass:16 --batch 2 --shard-rows 4 -o out",
        &[
            "out/manifest.json",
            "out/origin.json",
            "out/maps/003.safetensors",
            "out/shards/000000.grd",
            "out/shards/000007.grd",
            "out/shards/000029.grd",
        ],
    ),
    (
        "collapse depth --depths 2,5,9 --seeds 6 --steps 400 --architecture rn1:width=12 -o out.json --force",
        &["out.json"],
    ),
    // As a recipe, since only then the result has no times.
    ("run -r eval.yaml -o out", &["out/eval-1.json", "out/results.json"]),
];

/// Recipes that the cases run.
const RECIPES: [(&str, &str); 2] = [("jobs.yaml", JOBS), ("eval.yaml", EVAL)];

/// An evaluation of many batches.
const EVAL: &str = "
version: 1
eval: {model: model, text: long.jsonl, window: 64, stride: 16, batch_size: 1, baseline: model}
";

/// A workshop with the recipes.
fn workshop() -> Workshop {
    let w = Workshop::new();
    RECIPES.iter().for_each(|(name, recipe)| w.write(name, recipe));
    potential(&w);
    w.write("long.jsonl", w.text("text.jsonl").repeat(20));
    w.write("many.jsonl", w.text("questions.jsonl").repeat(20));
    w
}

/// Finished pieces to wait for before a kill, in addition to those that are there.
const STEPS: [usize; 7] = [1, 2, 1, 3, 1, 5, 2];

/// Number of finished pieces below a directory: files with a fingerprint as their name, files of
/// stores of gradients, and the lines of journals and of logs of simulations.
fn pieces_below(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let paths = entries.flatten().map(|entry| entry.path());
    let count = |path: std::path::PathBuf| {
        let name = path.file_name().map_or(0, |name| name.len());
        match path.extension() {
            _ if path.is_dir() => pieces_below(&path),
            Some(end) if end == "jsonl" && is_journal(&path) => {
                std::fs::read(&path).map_or(0, |text| lines(&text))
            }
            Some(end) if end == "grd" => usize::from(!is_hidden(&path)),
            _ => usize::from(name == 32),
        }
    };
    paths.map(count).sum()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn is_journal(path: &Path) -> bool {
    path.ends_with("log.jsonl") || path.to_string_lossy().contains("unfinished")
}

fn lines(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte == b'\n').count()
}

/// Finished pieces of the store and below the workshop.
fn finished(w: &Workshop) -> usize {
    pieces_below(w.store()) + pieces_below(&w.path("."))
}

/// Runs a command and kills it as soon as this many pieces are finished; returns whether it was
/// killed.
fn killed(w: &Workshop, line: &str, pieces: usize) -> bool {
    let mut command = w.command(line);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{line}: {status}");
            return false;
        }
        if finished(w) >= pieces {
            child.kill().unwrap();
            return child.wait().unwrap().code().is_none();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn killed_at_any_piece_a_command_ends_with_the_same_bytes() {
    for (line, outputs) in CASES {
        let undisturbed = workshop();
        let stdout = undisturbed.ok(line);
        let w = workshop();
        let mut kills = 0;
        for step in STEPS {
            let before = finished(&w);
            if !killed(&w, line, before + step) {
                break;
            }
            assert!(finished(&w) >= before, "{line}: finished pieces stay");
            kills += 1;
        }
        assert!(kills > 0, "{line}: was never killed");
        let last = w.run(line);
        let said = &last.stderr;
        assert!(!said.contains("computed again"), "{line}: nothing is damaged: {said}");
        let found = last.succeeded(line);
        if line.contains("--json") && !line.contains("-o out") {
            assert_eq!(found, stdout, "{line}");
        }
        for output in *outputs {
            assert!(w.read(output) == undisturbed.read(output), "{line}: {output} differs");
        }
        assert_eq!(names(&w.path(".")), names(&undisturbed.path(".")), "{line}: nothing is left");
        let list = w.ok_json("cache list");
        let kinds = list["kinds"].as_array().unwrap().iter().map(|kind| kind["kind"].to_string());
        let mut odd = kinds.filter(|kind| kind.contains('('));
        assert_eq!(odd.next(), None, "{line}: neither damage nor waste");
        assert_eq!(list["unfinished"].as_array().unwrap().len(), 0, "{line}");
    }
}
