//! `slurm`: the text of the script, and its run with a stand-in for sbatch.

use crate::recipes::differences;
use crate::workshop::Workshop;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs the tasks of an array, the last one first, and prints its arguments.
const SBATCH: &str = r#"#!/usr/bin/env bash
set -euo pipefail
echo "$*" >> calls.txt
script="$(cat)"
number="$(wc -l < calls.txt)"
last=0
for argument in "$@"; do
    case "$argument" in
    --array=*) last="${argument#--array=0-}"; last="${last%%%*}" ;;
    --ntasks=*) export SLURM_NTASKS="${argument#--ntasks=}" ;;
    esac
done
for task in $(seq "$last" -1 0); do
    SLURM_ARRAY_TASK_ID="$task" bash -c "$script" > "task-$number-$task.log" 2>&1
done
echo "10$number;cluster"
"#;

/// Runs the tasks of a job at the same time.
const SRUN: &str = r#"#!/usr/bin/env bash
shift
for task in $(seq 0 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID="$task" "$@" &
    pids+=("$!")
done
for pid in "${pids[@]}"; do wait "$pid" || exit; done
"#;

/// Runs a script where sbatch and srun are stand-ins.
#[allow(clippy::disallowed_methods, reason = "shells find their programs by PATH")]
fn submitted(w: &Workshop, script: &str) -> String {
    std::fs::create_dir(w.path("bin")).unwrap();
    w.write("bin/sbatch", SBATCH);
    w.write("bin/srun", SRUN);
    w.write("submit.sh", script);
    let ours = Path::new(env!("CARGO_BIN_EXE_linwright")).parent().unwrap();
    let path = format!(
        "{}:{}:{}",
        w.path("bin").display(),
        ours.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let done = Command::new("bash")
        .args(["-c", "chmod +x bin/* && bash submit.sh"])
        .current_dir(w.path(""))
        .env("PATH", path)
        .env("SLURM_CPUS_PER_TASK", "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn the_script_is_this_one() {
    let w = Workshop::new();
    let line = "slurm --at-once 2 --sbatch=--partition=long eval model --text text.jsonl --window 64 \
                --output result.json --shards 3";
    let script = w.ok(line);
    let here = w.path("").canonicalize().unwrap();
    let expected = "#!/usr/bin/env bash
# 3 shards of a job of linwright as an array of Slurm, and their merge after them.
# Run it again after a failure: shards that are done compute nothing, others resume.
set -eu
cd HERE
mkdir -p -- result.json.shards
shard() {
    cat << 'SHARD'
#!/usr/bin/env bash
exec linwright eval --threads=\"${SLURM_CPUS_PER_TASK:-0}\" \\
    --shard=\"$SLURM_ARRAY_TASK_ID/3\" --output=result.json.shards/\"$SLURM_ARRAY_TASK_ID\" \\
    model --text=text.jsonl --window=64
SHARD
}
merge() {
    cat << 'MERGE'
#!/usr/bin/env bash
while [ \"$#\" -lt 3 ]; do
    set -- \"$@\" result.json.shards/\"$#\"
done
exec linwright merge --output=result.json -- \"$@\"
MERGE
}
array=\"$(shard | sbatch --parsable --job-name=linwright-eval --requeue \\
    --array=0-2%2 --output=result.json.shards/%a.log --partition=long)\"
merge=\"$(merge | sbatch --parsable --job-name=linwright-merge --kill-on-invalid-dep=yes \\
    --dependency=afterok:\"${array%%;*}\" --output=result.json.shards/merge.log --partition=long)\"
echo \"array $array, then merge $merge\"
";
    let expected = expected.replace("HERE", &here.display().to_string());
    assert_eq!(script.trim_end(), expected.trim_end());
}

#[test]
fn shards_and_merge_give_what_one_command_gives() {
    let w = Workshop::new();
    let line = "eval model --text text.jsonl --window 64 -b 1";
    let whole = w.ok_json(line);
    let script = w.ok_json(&format!("slurm --shards 3 {line} -o result.json --threads 2"));
    let typed = format!("slurm --shards 3 -- linwright {line} -o result.json --threads 2");
    assert_eq!(w.ok_json(&typed)["script"], script["script"]);
    assert_eq!((&script["job"], &script["shards"]), (&"eval".into(), &3.into()));
    let said = submitted(&w, script["script"].as_str().unwrap());
    assert_eq!(said.trim(), "array 101;cluster, then merge 102;cluster");
    let merged: Value = w.json("result.json");
    assert_eq!(merged["results"], whole["results"]);
    let calls = w.text("calls.txt");
    assert!(calls.lines().nth(1).unwrap().contains("--dependency=afterok:101 "), "{calls}");
}

#[test]
fn shards_of_a_store_share_it_and_the_same_command_finishes_it() {
    let w = Workshop::new();
    let line = "attribute cache model --train text.jsonl --compress sjlt:64 --shard-rows 1";
    w.ok(&format!("{line} -o whole"));
    let script = w.ok_json(&format!("slurm --shards 2 {line} -o store --threads 1"));
    submitted(&w, script["script"].as_str().unwrap());
    let shards = std::fs::read_dir(w.path("whole/shards")).unwrap().count();
    assert!(shards > 1, "a store of {shards} shards of examples shows nothing");
    assert_eq!(differences(&w, "whole", "store"), [""; 0]);
    // Fisher matrices are written beside it: there is no output.
    let script = w.ok_json("slurm --shards 3 attribute fisher store");
    std::fs::remove_dir_all(w.path("bin")).unwrap();
    submitted(&w, script["script"].as_str().unwrap());
    let last = std::fs::read_dir(w.path("")).unwrap().map(|entry| entry.unwrap().path());
    let logs = last.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let told = logs.map(|path| std::fs::read_to_string(path).unwrap()).collect::<Vec<_>>();
    let idle = told
        .iter()
        .filter(|log| log.lines().any(|line| line.starts_with("0 layers computed")))
        .count();
    assert_eq!(idle, 1, "the shards computed all layers, the last command none: {told:?}");
    w.ok("attribute fisher whole");
    assert_eq!(differences(&w, "whole", "store"), [""; 0]);
}

#[test]
fn shards_that_wait_for_each_other_are_the_tasks_of_one_job() {
    let w = Workshop::new();
    let line = "compress model --keep 0.5 --calibration calibration.jsonl:num_tokens=1500";
    let script = w.ok(&format!("slurm --shards 3 --sbatch=--nodes=3 {line} -o out --threads 1"));
    let here = w.path("").canonicalize().unwrap();
    let expected = "#!/usr/bin/env bash
# 3 shards of a job of linwright, which wait for each other, as the tasks of a job of Slurm.
# Run it again after a failure: it resumes where it stopped.
set -eu
cd HERE
mkdir -p -- out.shards
shards() {
    cat << 'SHARDS'
#!/usr/bin/env bash
export SRUN_CPUS_PER_TASK=\"${SLURM_CPUS_PER_TASK:-1}\"
exec srun --kill-on-bad-exit=1 bash -c \\
    'exec linwright compress --threads=1 --shard=\"$SLURM_PROCID/3\" model --keep=0.5 --calibration=calibration.jsonl:num_tokens=1500 --output=out'
SHARDS
}
job=\"$(shards | sbatch --parsable --job-name=linwright-compress --ntasks=3 --requeue \\
    --output=out.shards/%j.log --nodes=3)\"
echo \"job $job\"
";
    let expected = expected.replace("HERE", &here.display().to_string());
    assert_eq!(script.trim_end(), expected.trim_end());
    w.ok(&format!("{line} --threads 1 -o whole"));
    let said = submitted(&w, &script);
    assert_eq!(said.trim(), "job 101;cluster");
    assert_eq!(differences(&w, "whole", "out"), [""; 0]);
    w.fails(&format!("slurm --shards 3 --at-once 2 {line} -o r"), 2, &["wait for each other"]);
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let w = Workshop::new();
    let job = "eval model --text text.jsonl";
    w.fails(&format!("slurm {job} -o r"), 2, &["--shards is missing"]);
    w.fails(&format!("slurm --shards 2 {job}"), 2, &["no --output"]);
    w.fails(&format!("slurm {job} -o r --shards 0"), 2, &["--shards is \"0\""]);
    w.fails(&format!("slurm --shards 2 {job} -o r --shards=2"), 2, &["given twice"]);
    w.fails(&format!("slurm --shards 2 {job} -o r --shard 0/2"), 2, &["--shard"]);
    w.fails("slurm --shards 2 export model -o r", 2, &["export cannot be sharded", "eval"]);
    w.fails("slurm --shards 2 doctor", 2, &["this command cannot be sharded"]);
    w.fails("slurm --shards 2 eval model --txt text.jsonl -o r", 2, &["the job: ", "--txt"]);
}

/// Writes its arguments, each with a zero behind it, to a new file.
const DUMMY: &str = r#"#!/bin/sh
set -C
n=0
until true > "$CALLS/$n" 2> /dev/null; do n=$((n + 1)); done
printf '%s\0' "$@" >> "$CALLS/$n"
"#;

/// What a stand-in for the program is called with when a shell runs the script of a job.
#[allow(clippy::disallowed_methods, reason = "shells find their programs by PATH")]
fn calls(shell: &str, job: &[&str]) -> Vec<Vec<String>> {
    let w = Workshop::new();
    let words = [&["slurm", "--shards", "2", "--quiet"], job].concat();
    let ours = env!("CARGO_BIN_EXE_linwright");
    let script = Command::new(ours).args(&words).current_dir(w.path("")).output().unwrap();
    assert!(script.status.success(), "{words:?}: {}", String::from_utf8_lossy(&script.stderr));
    for folder in ["bin", "calls", "place"] {
        std::fs::create_dir(w.path(folder)).unwrap();
    }
    for (name, text) in [("sbatch", SBATCH), ("srun", SRUN), ("linwright", DUMMY)] {
        w.write(&format!("bin/{name}"), text);
    }
    w.write("submit.sh", &script.stdout);
    let path = format!("{}:{}", w.path("bin").display(), std::env::var("PATH").unwrap());
    let done = Command::new("sh")
        .args(["-c", "chmod +x bin/* && exec \"$0\" submit.sh", shell])
        .current_dir(w.path(""))
        .env("PATH", path)
        .env("CALLS", w.path("calls"))
        .env_remove("SLURM_CPUS_PER_TASK")
        .output()
        .unwrap();
    assert!(done.status.success(), "{job:?}: {}", String::from_utf8_lossy(&done.stderr));
    // Nothing else was run or written.
    let mut found = crate::workshop::names(&w.path(""));
    found.retain(|name| !name.ends_with(".shards") && !name.starts_with("task-"));
    let own = ["calibration.jsonl", "model", "questions.jsonl", "text.jsonl"];
    let known = ["bin", "calls", "calls.txt", "place", "submit.sh"];
    found.retain(|name| !own.contains(&name.as_str()) && !known.contains(&name.as_str()));
    assert_eq!(found, [""; 0], "{job:?}");
    let read = |name: &String| {
        let text = std::fs::read_to_string(w.path("calls").join(name)).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    };
    let mut all: Vec<Vec<String>> =
        crate::workshop::names(&w.path("calls")).iter().map(read).collect();
    all.sort();
    all
}

/// Words that end a text, add a command, vanish, or look like an option.
const HARD: [&str; 14] = [
    "plain",
    "a b",
    "",
    "it's",
    "a\nSHARD\ntouch found\n",
    "SHARD\n)\"\ntouch found",
    "$(touch found)",
    "`touch found`",
    "\\",
    "\"",
    "*",
    "a\rb\tc",
    "\nSHARDS\nMERGE\n",
    "{a,b}~!#;&|<>",
];

#[test]
fn arguments_of_any_characters_reach_the_shards() {
    let shells = ["bash", "dash"].into_iter().filter(|shell| {
        Command::new(shell).args(["-c", ":"]).output().is_ok_and(|done| done.status.success())
    });
    for shell in shells {
        for (index, word) in HARD.into_iter().enumerate() {
            let other = HARD[(index + 5) % HARD.len()];
            let text = format!("--text={other}");
            let output = format!("place/r{word}");
            let own = calls(shell, &["eval", word, &text, "-o", &output]);
            let shard = |number: usize| -> Vec<String> {
                let folder = format!("{output}.shards");
                let own =
                    ["eval", "--threads=0", &format!("--shard={number}/2")].map(str::to_owned);
                let place = format!("--output={folder}/{number}");
                [&own[..], &[place, word.to_owned(), text.clone()]].concat()
            };
            let merge = ["merge", &format!("--output={output}"), "--"].map(str::to_owned);
            let parts = [0, 1].map(|number| format!("{output}.shards/{number}"));
            let expected = [shard(0), shard(1), [&merge[..], &parts].concat()];
            assert_eq!(own, expected, "{shell}: {word:?}");
            // Shards of one job, whose command stands within another.
            let data = format!("--text={other}");
            let own = calls(shell, &["compress", word, &data, "--keep=0.5", "-o", &output]);
            for (number, own) in own.iter().enumerate() {
                let first = ["compress", "--threads=0", &format!("--shard={number}/2"), word];
                assert_eq!(own[..4], first, "{shell}: {word:?}");
                let rest = [data.clone(), format!("--output={output}")];
                assert!(rest.iter().all(|word| own.contains(word)), "{shell}: {own:?}");
            }
            assert_eq!(own.len(), 2);
        }
        // Behind `--` no word is an option, not even one of this command.
        for word in ["--x", "--shards", "--json", "-", "--"] {
            let own = calls(shell, &["eval", "--text=t", "-o", "place/r", "--", word]);
            assert_eq!(own.len(), 3);
            assert_eq!(own[0][4..], ["--text=t", "--", word], "{shell}: {word}");
        }
    }
}
