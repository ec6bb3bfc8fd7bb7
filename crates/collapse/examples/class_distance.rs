//! Times the class-distance normalised variance of random means, for `tools/bench/collapse.py`.
//!
//! Reads features with labels, as `collapse measure` does, from the file that is its first argument,
//! computes with as many threads as the second says, and prints the seconds of some rounds and the
//! value as JSON.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that prints times")]

use linwright_collapse::{ClassSums, CollapseError, FeatureFile, Keep, Source, metrics};
use linwright_run::Silent;
use linwright_tensor::parallel;
use std::path::Path;
use std::time::Instant;

/// Rounds that are timed, after one that is not.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("expected a file and a number of threads")?;
    let threads = arguments.next().ok_or("expected a number of threads")?.parse()?;
    let (seconds, mean) = parallel::with_threads(threads, || timed(Path::new(&path)))??;
    println!("{{\"seconds\": {seconds:?}, \"mean\": {mean}}}");
    Ok(())
}

fn timed(path: &Path) -> Result<(Vec<f64>, f64), CollapseError> {
    let file = FeatureFile::open(path, None, None)?;
    let mut sums = ClassSums::new(file.classes, file.features(), Keep::Traces);
    sums.add_all(&file, &mut Silent)?;
    let statistics = sums.finish()?;
    let (mut seconds, mut mean) = (Vec::new(), 0.0);
    for _ in 0..=ROUNDS {
        let began = Instant::now();
        mean = metrics::class_distance(&statistics).mean;
        seconds.push(began.elapsed().as_secs_f64());
    }
    seconds.remove(0);
    Ok((seconds, mean))
}
