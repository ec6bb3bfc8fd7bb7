//! `linwright doctor`: checks of the machine and the build.

mod finding;
mod machine;
mod storage;

use super::{print, print_json};
use crate::args::Shared;
use crate::build::VERSION;
use crate::failure::Failure;
use crate::host::variable;
use clap::Args;
use finding::{Finding, Status};
use linwright::bench::check_product;
use linwright::tensor::parallel;
use machine::{Limits, Threads};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Duration of timing a matrix product.
const TIMED: Duration = Duration::from_millis(200);

/// Optional features of a build, with their purpose.
const FEATURES: [(&str, &str, bool, &str); 5] = [
    ("feature pocket", "pocket", cfg!(feature = "pocket"), "the built-in model"),
    ("feature gguf", "gguf", cfg!(feature = "gguf"), "files of llama.cpp"),
    ("feature hdf5", "hdf5", cfg!(feature = "hdf5"), "molecules in HDF5 files"),
    ("feature hub", "hub", cfg!(feature = "hub"), "downloads of models and data sets"),
    ("feature parquet", "parquet", cfg!(feature = "parquet"), "Parquet and Arrow files"),
];

/// Check the machine and the build: processor, threads, memory, caches, disk, features, and the
/// correctness and speed of matrix products.
///
/// Each line is `ok`, `missing` (absent but not needed by the rest) or `broken`, with advice if
/// there is any. The exit code is 1 if something is broken, else 0.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

pub(crate) fn run(DoctorArgs {}: &DoctorArgs, shared: &Shared) -> Result<(), Failure> {
    let findings = examine(shared);
    let broken: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.status == Status::Broken)
        .map(|finding| finding.topic)
        .collect();
    if shared.json {
        let version = version();
        print_json(&json!({"version": version, "findings": findings, "broken": broken.len()}))?;
    } else {
        print(&render(&findings))?;
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::general(format!("broken: {}", broken.join(", ")))
        .hint("follow the advice below each of these lines"))
}

fn examine(shared: &Shared) -> Vec<Finding> {
    let started = shared.set_threads();
    let read = |path: &Path| fs::read_to_string(path);
    let limits = Limits::read(&read);
    let threads = Threads {
        asked: shared.threads,
        variable: variable("RAYON_NUM_THREADS").map(|value| value.to_string_lossy().into_owned()),
        cores: std::thread::available_parallelism().ok().map(usize::from),
        used: started.as_ref().map(|()| parallel::threads()),
    };
    let mut all = vec![build()];
    all.extend(features(FEATURES.map(|(.., has, _)| has)));
    all.push(ranks(cfg!(feature = "mpi")));
    all.push(machine::processor(&read));
    all.push(machine::threads(&threads, limits));
    all.push(machine::memory(&read, limits));
    all.extend(storage::caches(&variable));
    all.push(storage::disk(Path::new("."), storage::free_bytes(Path::new("."))));
    all.push(products());
    all
}

/// The line that `--version` prints.
fn version() -> String {
    format!("linwright {VERSION}")
}

/// Version and kind of this build.
fn build() -> Finding {
    let version = version();
    let data = json!({"optimised": !cfg!(debug_assertions), "target": std::env::consts::ARCH});
    if cfg!(debug_assertions) {
        return Finding::to_mend(
            Status::Missing,
            "version",
            format!("{version}, an unoptimised development build, which is slower"),
            "in a checkout: cargo install --path crates/cli --locked",
            data,
        );
    }
    Finding::ok("version", format!("{version}, optimised"), data)
}

/// The features of this build, and how to add the missing ones.
fn features(has: [bool; FEATURES.len()]) -> Vec<Finding> {
    // One command adds all missing features.
    let wanted = FEATURES.iter().map(|(_, name, ..)| *name).collect::<Vec<_>>().join(",");
    let line = |((topic, _, _, what), has): ((&'static str, &str, bool, &str), bool)| {
        let data = json!({"built_in": has});
        if has {
            return Finding::ok(topic, format!("{what}: built in"), data);
        }
        let advice =
            format!("in a checkout: cargo install --path crates/cli --locked --features {wanted}");
        Finding::to_mend(Status::Missing, topic, format!("{what}: not built in"), advice, data)
    };
    FEATURES.into_iter().zip(has).map(line).collect()
}

/// MPI support, which needs more than a build feature.
fn ranks(has: bool) -> Finding {
    let (topic, what, data) = ("feature mpi", "ranks of MPI", json!({"built_in": has}));
    if has {
        return Finding::ok(topic, format!("{what}: built in"), data);
    }
    let advice =
        "in a checkout: tools/mpi, then cargo install --path crates/cli --locked --features mpi";
    Finding::to_mend(
        Status::Missing,
        topic,
        format!("{what}: not built in"),
        advice.to_owned(),
        data,
    )
}

/// Correctness and speed of matrix products.
fn products() -> Finding {
    let found = check_product(TIMED);
    let data = serde_json::to_value(found).unwrap_or_default();
    let error = format!("within {:.0e} of plain loops", found.largest_error);
    if !found.is_right {
        return Finding::to_mend(
            Status::Broken,
            "products",
            format!("wrong: only {error}"),
            "do not trust results of this machine; report it with the output of linwright doctor --json",
            data,
        );
    }
    let (side, rate) = (found.side, found.gflops);
    let speed = format!("{rate:.1} GFLOP/s at {side} x {side} in f32");
    Finding::ok("products", format!("right, {error}; {speed}"), data)
}

/// One line per finding, and one more for its advice.
fn render(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.topic.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for Finding { topic, status, found, advice, .. } in findings {
        lines.push(format!("{:<7}  {topic:<width$}  {found}", status.name()));
        let indent = " ".repeat(7 + 2 + width + 2);
        lines.extend(advice.iter().map(|advice| format!("{indent}{advice}")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_that_is_missing_comes_with_the_command_that_brings_it() {
        let found = features([true, true, false, false, false]);
        let statuses: Vec<Status> = found.iter().map(|finding| finding.status).collect();
        assert_eq!(statuses[..2], [Status::Ok; 2]);
        assert_eq!(statuses[2..], [Status::Missing; 3]);
        let command =
            "cargo install --path crates/cli --locked --features pocket,gguf,hdf5,hub,parquet";
        assert!(found[2].advice.as_ref().unwrap().ends_with(command), "{found:?}");
        // The names are those of the manifest.
        let manifest = include_str!("../../../Cargo.toml");
        for (_, name, ..) in FEATURES {
            assert!(manifest.contains(&format!("\n{name} = [\"linwright/{name}\"]")), "{name}");
        }
    }

    #[test]
    fn ranks_come_with_a_command_of_their_own() {
        assert_eq!(ranks(true).status, Status::Ok);
        let missing = ranks(false);
        assert_eq!(missing.status, Status::Missing);
        assert!(missing.advice.unwrap().contains("tools/mpi, then cargo install"));
    }

    #[test]
    fn lines_stand_in_columns_and_say_what_to_do_below() {
        let findings = [
            Finding::ok("a", "fine", json!({})),
            Finding::to_mend(Status::Broken, "longer", "bad", "mend it", json!({})),
        ];
        let want = "ok       a       fine\nbroken   longer  bad\n                 mend it";
        assert_eq!(render(&findings), want);
    }
}
