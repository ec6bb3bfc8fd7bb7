//! Times what `collapse measure` does first, or the class-distance normalised variance alone, for
//! `tools/bench/collapse.py`.
//!
//! Reads features with labels from the file that is its first argument and computes with as many
//! threads as the second says. With `traces` or `scatter` it prints the seconds of adding all rows,
//! reading included; with `pairs` those of some rounds of the variance, and its value.

#![allow(clippy::print_stdout, reason = "figures and nothing else go to the output")]

use linwright_collapse::{ClassSums, FeatureFile, Keep, Source, metrics};
use linwright_run::Silent;
use linwright_tensor::parallel;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Rounds that are timed, after one that is not.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, threads, kind] = arguments.as_slice() else {
        return Err("expected a file, a number of threads, and traces, scatter or pairs".into());
    };
    parallel::set_threads(threads.parse()?)?;
    let file = FeatureFile::open(Path::new(path), None, None)?;
    let keep = if kind == "scatter" { Keep::Scatter } else { Keep::Traces };
    let began = Instant::now();
    let mut sums = ClassSums::new(file.classes, file.features(), keep);
    sums.add_all(&file, &mut Silent)?;
    let seconds = began.elapsed().as_secs_f64();
    if kind != "pairs" {
        println!("{{\"seconds\": [{seconds}]}}");
        return Ok(());
    }
    let statistics = sums.finish()?;
    let (mut seconds, mut mean) = (Vec::new(), 0.0);
    for _ in 0..=ROUNDS {
        let began = Instant::now();
        mean = metrics::class_distance(&statistics).mean;
        seconds.push(began.elapsed().as_secs_f64());
    }
    println!("{{\"seconds\": {:?}, \"mean\": {mean}}}", &seconds[1..]);
    Ok(())
}
