//! `cargo xtask fuzz TARGET`: fuzzes one target and records its findings.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool prints its findings"
)]

use linwright_fuzz::{
    Bounds, Finding, Kind, Outcome, Seeds, TARGETS, Target, fuzz, repository_root,
};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("fuzz: {message}");
            ExitCode::from(2)
        }
    }
}

/// Fuzzes the target of the arguments; false if there are findings.
fn run(args: &[String]) -> Result<bool, String> {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let usage = format!(
        "usage: fuzz TARGET [--runs N] [--seconds S] [--seed K]\ntargets: {}",
        names.join(" ")
    );
    let (name, options) = args.split_first().ok_or_else(|| usage.clone())?;
    let mut bounds = Bounds { runs: u64::MAX, seconds: 60.0, seed: 0 };
    let (pairs, odd) = options.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(usage);
    }
    for [option, value] in pairs {
        let wrong = |_| format!("{option} {value}: expected a number\n{usage}");
        match option.as_str() {
            "--runs" => {
                bounds.runs =
                    value.parse().map_err(|e: std::num::ParseIntError| wrong(e.to_string()))?;
                bounds.seconds = f64::INFINITY;
            }
            "--seconds" => {
                let parsed = value.parse();
                bounds.seconds =
                    parsed.map_err(|e: std::num::ParseFloatError| wrong(e.to_string()))?;
            }
            "--seed" => {
                bounds.seed =
                    value.parse().map_err(|e: std::num::ParseIntError| wrong(e.to_string()))?;
            }
            _ => return Err(usage),
        }
    }
    let target = TARGETS.iter().find(|target| target.name == name).ok_or(usage)?;
    drive(target, bounds).map_err(|error| format!("{}: {error}", target.name))
}

fn drive(target: &Target, bounds: Bounds) -> std::io::Result<bool> {
    let root = repository_root();
    let folder = root.join("target/fuzz").join(target.name);
    let found = folder.join("corpus");
    fs::create_dir_all(&found)?;
    let seeds = Seeds::read(target, &root, Some(&found))?;
    let outcome = fuzz(target, &seeds, bounds);
    for (index, input) in outcome.kept.iter().enumerate() {
        fs::write(found.join(format!("{}-{index:04}", bounds.seed)), input)?;
    }
    for finding in &outcome.findings {
        report(finding, &folder, bounds.seed)?;
    }
    println!("{}", summary(target, &seeds, &outcome));
    Ok(outcome.findings.is_empty())
}

fn report(finding: &Finding, folder: &Path, seed: u64) -> std::io::Result<()> {
    let (word, what) = match &finding.kind {
        Kind::Panic(message) => ("panic", message.clone()),
        Kind::Memory(bytes) => ("memory", format!("{bytes} bytes at a time")),
        Kind::Slow(seconds) => ("slow", format!("{seconds:.1} s")),
    };
    let path = folder.join(format!("{word}-{seed}-{}", finding.run));
    fs::write(&path, &finding.input)?;
    println!("{word} on {} bytes, {}: {what}", finding.input.len(), path.display());
    Ok(())
}

fn summary(target: &Target, seeds: &Seeds, outcome: &Outcome) -> String {
    format!(
        "{}: {} runs from {} seeds, {} signatures, {} inputs kept, at most {:.0} % of the allowed \
         memory and {:.3} s a run, {} findings",
        target.name,
        outcome.runs,
        seeds.inputs.len(),
        outcome.signatures.len(),
        outcome.kept.len(),
        100.0 * outcome.memory_share,
        outcome.longest_seconds,
        outcome.findings.len()
    )
}
