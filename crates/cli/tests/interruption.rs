//! Ctrl-C, `kill -9` and a full disk in every stage, and the same command again: what it then gives
//! is what it gives undisturbed, bit for bit.

use crate::compare_runs::RECIPE;
use crate::recipes::{JOBS, differences};
use crate::workshop::{Outcome, Workshop};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;

/// Rotor networks on both layers: five stages of capture, eight fits, a save.
const PLAN: &str = "compress model --method rotor:epochs=25 --roles query,key,value \
                    --calibration calibration.jsonl:num_tokens=1500,seq_len=64";

pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(name).arg(child.id().to_string()).status().unwrap();
    assert!(sent.success(), "kill {name}");
}

/// Starts a command and signals it as soon as stderr mentions a stage; returns its exit status and
/// output.
pub(crate) fn stop_at(w: &Workshop, args: &str, stage: &str, name: &str) -> (ExitStatus, String) {
    let mut child = w.command(args).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.lines().last().is_some_and(|line| line.contains(stage)) {
        let count = stderr.read_line(&mut said).unwrap();
        assert!(count > 0, "no stage {stage:?} in {said}");
    }
    signal(&child, name);
    stderr.read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert!(!said.contains("panicked"), "{said}");
    (status, said)
}

/// Weights of the plan when nothing disturbs it.
fn undisturbed() -> &'static [u8] {
    static WEIGHTS: OnceLock<Vec<u8>> = OnceLock::new();
    WEIGHTS.get_or_init(|| {
        let w = Workshop::new();
        w.ok(&format!("{PLAN} -o out"));
        w.weights("out")
    })
}

fn only_the_output_remains(w: &Workshop) {
    assert_eq!(w.unfinished(), [Value::Null; 0]);
    let expected = ["calibration.jsonl", "model", "out", "questions.jsonl", "text.jsonl"];
    assert_eq!(w.names(), expected);
}

#[test]
fn ctrl_c_says_that_the_same_command_goes_on_and_it_does() {
    let expected = undisturbed();
    let command = format!("{PLAN} -o out");
    let w = Workshop::new();
    for (stage, name) in [
        ("loading", "-INT"),
        ("layer 0: capturing", "-TERM"),
        ("layers.0.self_attn.q_proj: fitting", "-INT"),
        ("layers.0.self_attn.v_proj: fitting", "-INT"),
        ("layers.0.self_attn.o_proj: fitting", "-TERM"),
        ("layers.1.self_attn.k_proj: fitting", "-INT"),
    ] {
        let (status, said) = stop_at(&w, &command, stage, name);
        assert_eq!(status.code(), Some(75), "{stage}: {said}");
        assert!(said.contains("same command again"), "{stage}: {said}");
        assert!(!w.path("out").exists(), "{stage}");
        let began = stage.contains("fitting");
        let expected = if began { &["compress to out"][..] } else { &[] };
        assert_eq!(w.unfinished().iter().map(|work| &work["what"]).collect::<Vec<_>>(), expected);
    }
    let last = w.run(&command);
    assert!(!last.stderr.contains("layers.0.self_attn.q_proj: fitting"), "{}", last.stderr);
    last.succeeded("the last");
    assert!(w.weights("out") == expected, "other bits than undisturbed");
    only_the_output_remains(&w);
}

#[test]
fn a_stopped_recipe_goes_on_at_the_job_where_it_stopped() {
    let whole = Workshop::new();
    whole.write("jobs.yaml", JOBS);
    whole.ok("run -r jobs.yaml -o out");
    let w = Workshop::new();
    w.write("jobs.yaml", JOBS);
    for (stage, name) in [
        ("layers.0.mlp.down_proj: fitting", "-INT"),
        ("cut of Two methods", "-TERM"),
        ("eval-1 of Two methods", "-INT"),
    ] {
        let (status, said) = stop_at(&w, "run -r jobs.yaml -o out", stage, name);
        assert_eq!(status.code(), Some(75), "{stage}: {said}");
        assert!(said.contains("same command again"), "{stage}: {said}");
    }
    let last = w.run("run -r jobs.yaml -o out");
    assert!(!last.stderr.contains("fitting"), "{}", last.stderr);
    last.succeeded("the last");
    for file in ["results.json", "report.html", "export-1/model.safetensors", "eval-1.json"] {
        let file = format!("out/{file}");
        assert!(w.read(&file) == whole.read(&file), "{file}");
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let w = Workshop::new();
    let mut child = w.command("train-lm -o out").spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // For seconds after this line nothing asks whether to stop: the first signal alone gives 130
    // only at the end of it.
    while !line.contains("generating texts") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0);
    }
    signal(&child, "-INT");
    std::thread::sleep(std::time::Duration::from_millis(50));
    signal(&child, "-INT");
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(130));
    line.clear();
    stderr.read_to_string(&mut line).unwrap();
    assert!(!line.contains("interrupted"), "it did not wait for the end of the stage: {line}");
}

#[test]
fn a_killed_command_leaves_no_output_and_goes_on() {
    let expected = undisturbed();
    let command = format!("{PLAN} -o out");
    let w = Workshop::new();
    for stage in [
        "layer 0: capturing",
        "layers.0.self_attn.q_proj: fitting",
        "layers.0.self_attn.v_proj: fitting",
        "layer 1: capturing",
        "layers.1.self_attn.o_proj: fitting",
    ] {
        let (status, said) = stop_at(&w, &command, stage, "-KILL");
        assert_eq!(status.code(), None, "{stage}: {said}");
        assert!(!w.path("out").exists(), "{stage}");
    }
    w.ok(&command);
    assert!(w.weights("out") == expected, "other bits than undisturbed");
    only_the_output_remains(&w);
}

#[test]
fn a_command_killed_while_saving_leaves_all_or_nothing() {
    let expected = undisturbed();
    let w = Workshop::new();
    let command = format!("{PLAN} -o out");
    stop_at(&w, &command, "saving", "-KILL");
    // The signal may come after the rename; then the model is whole.
    if w.path("out").exists() {
        assert!(w.weights("out") == expected);
    }
    w.ok(&format!("{command} --force"));
    assert!(w.weights("out") == expected, "other bits than undisturbed");
    only_the_output_remains(&w);
}

#[test]
fn a_stopped_recipe_of_comparisons_gives_the_same_report() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE);
    w.ok("run -r tiny.yaml -o undisturbed");
    for (stage, name, code) in [
        ("scoring the dense model", "-KILL", None),
        ("layer 1: capturing", "-INT", Some(75)),
        ("fitting rotor", "-KILL", None),
        ("rotor on layers [0, 1], seed 0 (", "-INT", Some(75)),
        ("BH1 on layers [0], seed 0 (", "-KILL", None),
        ("BH1 on layers [0], seed 1 (", "-TERM", Some(75)),
    ] {
        let (status, said) = stop_at(&w, "run -r tiny.yaml -o out", stage, name);
        assert_eq!(status.code(), code, "{stage}: {said}");
        assert!(!w.path("out/report.md").exists(), "{stage}");
    }
    w.ok("run -r tiny.yaml -o out");
    let mut differing = differences(&w, "undisturbed", "out");
    differing.retain(|name| !name.contains("speed/"));
    assert_eq!(differing, [""; 0]);
}

#[test]
fn an_evaluation_without_an_output_goes_on_where_there_is_a_store() {
    let w = Workshop::new();
    let long = w.text("text.jsonl").repeat(200);
    w.write("long.jsonl", long);
    let eval = "eval model --text long.jsonl --window 64 --stride 8";
    let (status, said) = stop_at(&w, eval, "evaluating", "-INT");
    assert_eq!(status.code(), Some(75), "{said}");
    assert!(said.contains("same command again"), "{said}");
    // A second process does not wait for the first, and keeps nothing.
    let lock = hold(&w);
    let second = w.run(&format!("{eval} --limit 2"));
    assert!(!second.stderr.contains("note: "), "another job: {}", second.stderr);
    let (status, said) = stop_at(&w, eval, "evaluating", "-INT");
    assert_eq!(status.code(), Some(130), "{said}");
    for word in ["process 4711 is doing the same work", "cannot be resumed", "interrupted"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("same command again"), "{said}");
    drop(lock);
}

/// Holds the only unfinished work as a command at work does.
fn hold(w: &Workshop) -> File {
    let [work] = &w.unfinished()[..] else { panic!("{:?}", w.unfinished()) };
    let lock = Path::new(work["directory"].as_str().unwrap()).join(".lock");
    let file = File::create(&lock).unwrap();
    file.try_lock().unwrap();
    std::fs::write(lock, "4711").unwrap();
    file
}

#[test]
fn a_second_command_with_the_same_output_is_told_who_is_at_work() {
    for (command, stage) in [
        (format!("{PLAN} -o out"), "layers.0.self_attn.k_proj: fitting"),
        ("eval model --text long.jsonl --window 64 --stride 8 -o out.json".into(), "evaluating"),
        ("train-lm --epochs 1 -o out".to_owned(), "training"),
    ] {
        let w = Workshop::new();
        w.write("long.jsonl", w.text("text.jsonl").repeat(200));
        stop_at(&w, &command, stage, "-KILL");
        let lock = hold(&w);
        w.fails(&command, 1, &["process 4711 is doing the same work", "wait for it to end"]);
        drop(lock);
    }
}

#[test]
fn another_plan_does_not_take_over_what_was_left() {
    let w = Workshop::new();
    let command = format!("{PLAN} -o out");
    stop_at(&w, &command, "layers.0.self_attn.k_proj: fitting", "-INT");
    let other = format!("{PLAN} --seed 9 -o out");
    let done = w.run(&other);
    assert!(done.stderr.contains("q_proj: fitting"), "{}", done.stderr);
    done.succeeded(&other);
    let left = w.unfinished();
    assert_eq!(left[0]["what"], "compress to out", "what the first began stays: {left:?}");
    let last = w.run(&format!("{command} --force"));
    assert!(!last.stderr.contains("layers.0.self_attn.q_proj: fitting"), "{}", last.stderr);
    last.succeeded("the first plan");
    assert!(w.weights("out") == undisturbed());
    only_the_output_remains(&w);
}

/// Runs a command that can write files of at most `kib` KiB.
fn limited(w: &Workshop, args: &str, kib: u32) -> Outcome {
    let mut command = Command::new("bash");
    let script = format!("ulimit -f {kib} && exec {} {args}", env!("CARGO_BIN_EXE_linwright"));
    command.arg("-c").arg(script).current_dir(w.path("."));
    command.env_remove("RAYON_NUM_THREADS").env("LINWRIGHT_STORE", w.store());
    Outcome::of(command)
}

#[test]
fn a_full_disk_has_a_code_of_its_own_and_room_lets_the_command_finish() {
    let w = Workshop::new();
    let plan = PLAN.replace("epochs=25", "epochs=3");
    w.ok(&format!("{plan} -o expected"));
    let before = w.names();
    for kib in [1, 40, 100] {
        let outcome = limited(&w, &format!("{plan} -o out"), kib);
        outcome.failed("a full disk", 5, &["File too large"]);
        assert_eq!(w.names(), before, "{kib} KiB");
        // At 1 KiB there is no room for a fit, and so nothing worth keeping.
        assert_eq!(w.unfinished().is_empty(), kib == 1, "{kib} KiB");
    }
    let roomy = w.run(&format!("{plan} -o out"));
    assert!(!roomy.stderr.contains("fitting"), "the fits were kept: {}", roomy.stderr);
    roomy.succeeded("with room");
    assert!(w.weights("out") == w.weights("expected"));
    assert_eq!(w.unfinished(), [Value::Null; 0]);
    let eval = "eval model --text text.jsonl --window 64 --output big.json";
    let outcome = limited(&w, eval, 0);
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    assert!(outcome.stderr.contains("big.json"), "{outcome:?}");
    assert!(outcome.stdout.contains("token_perplexity"), "the figures are shown: {outcome:?}");
    assert!(!w.names().iter().any(|name| name.contains("big.json")), "{:?}", w.names());
}
