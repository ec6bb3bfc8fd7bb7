//! The examples, run on the tiny model.

use crate::workshop::Workshop;

#[path = "../examples/03_compress_and_export.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod compress_and_export;
#[path = "../examples/02_fit_one_layer.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod fit_one_layer;
#[path = "../examples/01_load_and_look.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod load_and_look;
#[path = "../examples/04_own_task.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod own_task;
#[path = "../examples/05_sweep.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod sweep;

#[test]
fn a_model_is_looked_at() {
    let w = Workshop::new();
    let text = load_and_look::look(&w.path("model")).unwrap();
    assert!(text.contains("model.layers.0.mlp.gate_proj: gate,"), "{text}");
    assert!(text.contains("Singular values"), "{text}");
}

#[test]
fn one_layer_is_fitted() {
    let w = Workshop::new();
    let text = fit_one_layer::fit(&w.path("model"), &w.path("calibration.jsonl"), 64).unwrap();
    let errors: Vec<f64> =
        text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(errors.len(), 3);
    assert!(errors[0] > errors[1] && errors[1] > errors[2], "{text}");
}

#[test]
fn a_model_is_compressed_and_exported() {
    let w = Workshop::new();
    let said = compress_and_export::compress(&w.path("model"), &w.path("out")).unwrap();
    assert!(said.contains(" parameters, now "), "{said}");
    assert!(w.ok("eval out --text text.jsonl --window 64").contains("perplexity"));
}

#[test]
fn a_task_of_ones_own_is_scored() {
    let accuracy = own_task::accuracy(&Workshop::new().path("model")).unwrap();
    assert!((0.0..=1.0).contains(&accuracy) && (accuracy * 4.0).fract() == 0.0, "{accuracy}");
}

#[test]
fn a_sweep_finds_its_best_cell() {
    let w = Workshop::new();
    let run = w.path("run");
    let verdict = sweep::judge(&w.path("model"), &w.path("questions.jsonl"), &run).unwrap();
    assert!(verdict.contains("fc_"), "{verdict}");
    assert!(w.text("run/report.html").contains("rgba("));
}
