//! Jobs divided over several processes: what is merged has the bytes of a single one.

use crate::compare_runs::RECIPE;
use crate::recipes::{JOBS, differences};
use crate::workshop::Workshop;
use serde_json::{Value, json};
use std::fs;

/// Runs the shards of a command in some order, each in a directory of its own.
fn shards(w: &Workshop, line: &str, order: &[usize], count: usize) {
    for index in order {
        let said = w.ok(&format!("{line} --shard {index}/{count} -o part{index}"));
        assert!(said.contains(&format!("shard {index}/{count}: ")), "{said}");
    }
}

#[test]
fn a_sweep_has_the_same_bytes_from_shards_in_any_order_and_number() {
    let w = Workshop::new();
    let line =
        "sweep model --roles fc_in,fc_out --size rate=9,5 --text text.jsonl --evaluation window=64";
    w.ok(&format!("{line} -o whole"));
    shards(&w, line, &[2, 0, 1], 3);
    w.ok("merge part1 part0 part2 part1 -o merged");
    assert_eq!(differences(&w, "whole", "merged"), [""; 0]);
    // A shard again, in its own directory, computes nothing; in that of another it is refused.
    let again = w.run(&format!("{line} --shard 1/3 -o part1"));
    assert!(!again.stderr.contains("judging"), "{}", again.stderr);
    w.fails(&format!("{line} --shard 0/3 -o part1"), 6, &["part1", "shard 1/3", "this job"]);
    // A missing shard is named, or computed.
    w.fails("merge part0 part2 -o other", 1, &["shards 1/3 are missing", "--fill"]);
    w.ok("merge part0 part2 -o other --fill");
    w.fails("merge -o none", 2, &["<DIRECTORIES>"]);
    assert_eq!(differences(&w, "whole", "other"), [""; 0]);
    // The folder of a script of Slurm, by name or as a shell expands it, with its logs.
    fs::create_dir(w.path("held")).unwrap();
    for k in 0..3 {
        fs::rename(w.path(&format!("part{k}")), w.path(&format!("held/{k}"))).unwrap();
    }
    w.write("held/0.log", "slurmstepd");
    w.ok("merge held -o inside");
    let expanded = w.run("merge held/0 held/0.log held/1 held/2 -o expanded");
    assert!(expanded.stderr.contains("held/0.log is not a directory"), "{}", expanded.stderr);
    for merged in ["inside", "expanded"] {
        assert_eq!(differences(&w, "whole", merged), [""; 0], "{merged}");
    }
}

#[test]
fn a_shard_that_was_killed_is_completed_by_the_merge() {
    let w = Workshop::new();
    let line =
        "sweep model --roles fc_in,fc_out --size rate=9,5 --text text.jsonl --evaluation window=64";
    w.ok(&format!("{line} -o whole"));
    shards(&w, line, &[0, 1], 2);
    // As if it had been killed before its last cells.
    fs::remove_dir_all(w.path("part1/cell")).unwrap();
    w.ok("merge part0 part1 -o merged");
    assert_eq!(differences(&w, "whole", "merged"), [""; 0]);
}

#[test]
fn an_evaluation_is_divided_over_its_batches() {
    let w = Workshop::new();
    let line = "eval model --text text.jsonl --window 64 --tasks questions --data questions=questions.jsonl --baseline model -b 1";
    let whole = w.ok_json(line);
    shards(&w, line, &[1, 0], 2);
    w.ok("merge part0 part1 -o merged.json");
    let merged: Value = w.json("merged.json");
    for key in ["results", "n-samples", "task_hashes", "versions"] {
        assert_eq!(merged[key], whole[key], "{key}");
    }
    assert_eq!(merged["linwright"]["baseline"], whole["linwright"]["baseline"]);
    assert_eq!(merged["linwright"]["comparisons"], whole["linwright"]["comparisons"]);
}

#[test]
fn a_shard_of_an_evaluation_writes_into_no_directory_of_others() {
    let w = Workshop::new();
    w.write("notes.txt", "mine");
    for (target, words) in [
        ("model", "is the input"),
        (".", "contains the input"),
        ("notes.txt", "is no directory"),
        ("home", "does not belong to a shard"),
    ] {
        fs::create_dir_all(w.path("home")).unwrap();
        w.write("home/a", "mine");
        let before = w.names();
        w.fails(&format!("eval model --text text.jsonl --shard 0/2 -o {target}"), 2, &[words]);
        assert_eq!(w.names(), before, "{target}");
    }
    assert_eq!(w.text("notes.txt"), "mine");
    fs::create_dir(w.path("empty")).unwrap();
    w.ok("eval model --text text.jsonl --window 64 --shard 0/2 -o empty");
}

#[test]
fn spectra_are_divided_over_the_matrices() {
    let w = Workshop::new();
    let line = "inspect model --spectra --no-cache";
    w.ok(&format!("{line} -o whole.json"));
    shards(&w, line, &[2, 0, 1], 3);
    let held = |part: &str| crate::workshop::pieces(&w.path(part), "spectrum").len();
    let all = [held("part0"), held("part1"), held("part2")];
    assert!(all.iter().all(|&count| count > 0), "{all:?}");
    w.ok("merge part1 part0 part2 part1 -o merged.json");
    assert!(w.read("merged.json") == w.read("whole.json"));
    // A shard again computes nothing; values alone are not divided.
    let before = fs::metadata(w.path("part1/spectrum")).unwrap().modified().unwrap();
    w.ok(&format!("{line} --shard 1/3 -o part1"));
    assert_eq!(fs::metadata(w.path("part1/spectrum")).unwrap().modified().unwrap(), before);
    w.fails("inspect model --shard 0/2 -o values", 2, &["--shard", "--spectra"]);
    w.fails(&format!("{line} --shard 0/2"), 2, &["--shard 0/2 needs an output directory"]);
    w.ok(&format!("{line} -o whole.json --force"));
    w.write("whole.json", "mine");
    w.fails(&format!("{line} -o whole.json --force"), 2, &["was not written by linwright"]);
}

#[test]
fn a_recipe_of_comparisons_is_divided_over_them() {
    let w = Workshop::new();
    w.write("tiny.yaml", RECIPE);
    w.ok("run -r tiny.yaml -o whole");
    shards(&w, "run -r tiny.yaml", &[0, 1], 2);
    w.ok("merge part0 part1 -o merged");
    // Times differ.
    let mut differing = differences(&w, "whole", "merged");
    differing.retain(|name| !name.contains("/speed/"));
    assert_eq!(differing, [""; 0]);
}

#[test]
fn a_recipe_is_divided_over_its_jobs() {
    let w = Workshop::new();
    w.write("jobs.yaml", JOBS);
    w.ok("run -r jobs.yaml -o whole");
    shards(&w, "run -r jobs.yaml", &[0, 1], 2);
    assert!(w.path("part0/export-1").is_dir() && !w.path("part0/cut").exists());
    w.ok("merge part1 part0 -o merged");
    assert_eq!(differences(&w, "whole", "merged"), [""; 0]);
    // What they read is no longer what the merge would record.
    w.write("text.jsonl", w.text("text.jsonl") + "{\"text\": \"more\"}\n");
    w.fails("merge part1 part0 -o late", 6, &["text.jsonl", "another content"]);
}

#[test]
fn shards_of_different_jobs_are_not_merged_and_other_commands_have_none() {
    let w = Workshop::new();
    let line = "sweep model --roles fc_in --layers 0 --size rate=9 --text text.jsonl --evaluation window=64";
    w.ok(&format!("{line} --shard 0/2 -o part0"));
    w.ok(&format!("{} --shard 1/2 -o part1", line.replace("rate=9", "rate=8")));
    w.fails("merge part0 part1 -o out", 6, &["part0", "part1", "different jobs"]);
    w.fails("merge model part0 -o out", 1, &["shard.json", "--shard"]);
    w.fails(&format!("{line} --shard 0/2"), 2, &["needs an output directory"]);
    w.fails("eval model --text text.jsonl --shard 2/2 -o a", 2, &["--shard", "less than"]);
    w.fails(
        "laser model --lname fc_in --rate 9 --shard 0/2",
        2,
        &["laser is not divided", "sweep"],
    );
    w.fails("ls operators --shard 0/2", 2, &["no work to divide"]);
    assert!(!w.path("out").exists());
}

#[test]
fn a_record_that_names_no_job_with_shards_is_not_merged() {
    let w = Workshop::new();
    fs::create_dir(w.path("f")).unwrap();
    for job in [
        json!({"merge": {"directories": ["f"]}}),
        json!({"reproduce": {"directory": "f"}}),
        json!({"export": {"model": "model"}}),
        json!({"nothing": {}}),
    ] {
        let version = env!("CARGO_PKG_VERSION");
        let record = json!({"linwright": version, "shard": "0/1", "job": job, "data": []});
        w.write("f/shard.json", record.to_string());
        w.fails("merge f -o out", 1, &["name no job that is divided by shards"]);
    }
    assert!(!w.path("out").exists());
}

#[test]
fn scores_of_a_store_have_the_same_bytes_from_shards() {
    let w = Workshop::new();
    w.ok("attribute cache model --train text.jsonl --compress sjlt:64 --shard-rows 1 -o store");
    w.write("queries.jsonl", w.text("text.jsonl").lines().take(2).collect::<Vec<_>>().join("\n"));
    for method in ["influence --by-layer", "cosine", "relatif --no-baselines", "tracin"] {
        let line = format!("attribute score store --query queries.jsonl --method {method} --top 4");
        w.ok(&format!("{line} -o whole.json --force"));
        for index in [2, 0, 1] {
            let said = w.ok(&format!("{line} --shard {index}/3 -o part{index}"));
            assert!(said.contains(&format!("shard {index}/3: 2 of 6 pieces")), "{said}");
        }
        let merge = || {
            let merged = w.run("merge part0 part1 part2 -o merged.json");
            assert_eq!(merged.code, Some(0), "{method}: {}", merged.stderr);
            assert!(w.read("merged.json") == w.read("whole.json"), "{method}");
            fs::remove_file(w.path("merged.json")).unwrap();
            merged.stderr
        };
        let said = merge();
        assert!(!said.contains("gradients of the queries"), "{said}");
        // As if one had been killed.
        fs::remove_dir_all(w.path("part2/scores")).unwrap();
        // What the queries need is kept apart from shards.
        fs::remove_dir_all(w.store().join("queries")).unwrap();
        assert!(merge().contains("gradients of the queries"), "{method}");
        for index in 0..3 {
            fs::remove_dir_all(w.path(&format!("part{index}"))).unwrap();
        }
    }
    for (options, words) in [
        ("--method trak", "trak are not read from the store alone"),
        ("--method bm25", "bm25 are not read from the store alone"),
        ("--groups *mlp*", "--groups take another pass"),
        ("--checkpoints store", "--checkpoints are added up"),
    ] {
        let line = format!("attribute score store --query queries.jsonl {options}");
        w.fails(&format!("{line} --shard 0/2 -o part"), 2, &[words]);
        assert!(!w.path("part").exists(), "{options}");
    }
}
