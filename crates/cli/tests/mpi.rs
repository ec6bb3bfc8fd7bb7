//! The command built with MPI, as ranks that `mpirun` starts. It must be on the path.

#[allow(dead_code, reason = "shared with the program that tests the rest")]
mod transcript;
#[allow(dead_code, reason = "shared with the program that tests the rest")]
mod workshop;

use serde_json::Value;
use std::process::Command;
use workshop::{Outcome, Workshop};

/// The command with `--mpi` on this number of ranks of this machine.
fn ranks(w: &Workshop, count: usize, args: &str) -> Outcome {
    let own = w.command(args);
    let mut command = Command::new("mpirun");
    command.args(["-n", &count.to_string()]).arg(own.get_program()).arg("--mpi");
    command.args(own.get_args()).current_dir(own.get_current_dir().unwrap());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // A user named root in a container with fewer cores than ranks.
    for name in ["ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe"] {
        command.env(format!("OMPI_{name}"), "1");
    }
    Outcome::of(command)
}

#[test]
fn a_compressed_model_has_the_same_bytes_from_one_to_four_ranks() {
    let w = Workshop::new();
    // Sums, samples, weights alone; with an evaluation, which the first rank does.
    for (method, evaluation) in [
        ("low-rank --keep 0.4", " --text text.jsonl --evaluation window=64"),
        ("rotor --epochs 1", ""),
        ("low-rank --keep 0.4 --offload", ""),
    ] {
        let line = format!(
            "compress model --method {method} --calibration calibration.jsonl:num_tokens=1500 --threads 1 \
             --force{evaluation}"
        );
        w.ok(&format!("{line} -o alone"));
        assert!(w.weights("alone") != w.weights("model"), "{method}");
        for count in 1..=4 {
            let told = ranks(&w, count, &format!("{line} -o out --json")).succeeded(&line);
            let told: Value = serde_json::from_str(&told).expect("one rank prints");
            assert_eq!(told["output"], "out");
            for entry in std::fs::read_dir(w.path("alone")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if name != "measured.json" {
                    let [alone, out] = ["alone", "out"].map(|of| w.read(&format!("{of}/{name}")));
                    assert!(alone == out, "{method} on {count} ranks: {name}");
                }
            }
        }
    }
}

#[test]
fn shards_of_ranks_are_merged_by_the_first() {
    let w = Workshop::new();
    let line = "eval model --text text.jsonl --window 64 --tasks questions --data questions=questions.jsonl -b 1";
    let whole = w.ok_json(line);
    for count in [1, 3] {
        let output = format!("merged{count}.json");
        ranks(&w, count, &format!("{line} --threads 1 -o {output}")).succeeded(line);
        assert_eq!(w.json(&output)["results"], whole["results"], "{count} ranks");
    }
    let line =
        "attribute cache model --train text.jsonl --compress sjlt:64 --shard-rows 1 --threads 1";
    w.ok(&format!("{line} -o whole"));
    ranks(&w, 3, &format!("{line} -o store")).succeeded(line);
    let manifest = |folder: &str| w.read(&format!("{folder}/manifest.json"));
    assert_eq!(manifest("store"), manifest("whole"));
    // What the first rank prints is of the run after all shards.
    let told = ranks(&w, 2, "attribute fisher store --json").succeeded("fisher");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["computed"], told["layers"].as_array().unwrap().len() > 2),
        (&0.into(), true)
    );
    let told = ranks(&w, 2, &format!("{line} -o other --dry-run --json")).succeeded(line);
    assert!(told.contains("\"estimate\"") && !w.path("other").exists(), "{told}");
}

#[test]
fn ranks_of_a_search_exchange_through_the_folder_of_its_output() {
    let w = Workshop::new();
    w.write("many.jsonl", w.text("questions.jsonl").repeat(20));
    for (line, files) in [
        (
            "search model --roles fc_in,fc_out --tasks questions --data questions=many.jsonl --calibration calibration.jsonl:num_tokens=1500,seq_len=64 --threads 1",
            ["model.safetensors", "decisions.jsonl", "report.html"],
        ),
        (
            "compose model --roles fc_in,fc_out --size rate=9,5,3 --text text.jsonl --evaluation window=64 --threads 1",
            ["edits.json", "result.json", "recipe.yaml"],
        ),
    ] {
        let folder = line.split(' ').next().unwrap();
        w.ok(&format!("{line} -o {folder}"));
        let output = format!("{folder}-ranks");
        let told = ranks(&w, 3, &format!("{line} -o {output}")).succeeded(line);
        assert!(!told.contains("has done its part"), "the first rank prints: {told}");
        for file in files {
            let [alone, ranks] = [folder, &output].map(|of| w.read(&format!("{of}/{file}")));
            assert!(alone == ranks, "{line}: {file}");
        }
    }
}

#[test]
fn what_is_not_divided_is_refused_once_before_any_work() {
    let w = Workshop::new();
    for (args, code, words) in [
        ("export model -o r", 2, "export cannot be sharded"),
        ("eval model --text text.jsonl", 2, "no --output"),
        ("eval model --text text.jsonl -o r --force", 2, "a merge does not replace outputs"),
        (
            "compress model --calibration calibration.jsonl --keep 0.5 --recover 5 -o r",
            2,
            "--recover is not divided",
        ),
        ("eval model --text text.jsonl -o text.jsonl", 2, "output text.jsonl exists already"),
        ("eval model --text text.jsonl -o r --shard 0/2", 2, "--mpi cannot be used with --shard"),
        ("compress absent --calibration calibration.jsonl --keep 0.5 -o r", 1, "absent"),
    ] {
        let outcome = ranks(&w, 2, args);
        assert_eq!(outcome.code, Some(code), "{args}: {outcome:?}");
        assert_eq!(outcome.stderr.matches("error: ").count(), 1, "{args}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{args}: {}", outcome.stderr);
        assert!(!w.path("r").exists(), "{args}");
    }
}
