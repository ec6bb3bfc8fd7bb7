//! Jobs whose shards exchange what they find through a folder: what the first one writes has the
//! bytes of a single process, also if shards come late, are killed, or come again.

use crate::interruption::signal;
use crate::recipes::differences;
use crate::workshop::{Running, Workshop};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const TEXT: &str = "--calibration calibration.jsonl:num_tokens=1500,seq_len=64 --threads 1";

/// Commands without their calibration text and their output: sums, samples, weights alone, files in
/// place of memory, a search by answers and by a text, a composition.
const CASES: [&str; 8] = [
    "compress model --method low-rank --keep 0.4 --text text.jsonl --evaluation window=64",
    "compress model --method low-rank --keep 0.5 --allocate sensitivity",
    "compress model --method rotor:epochs=1",
    "compress model --method svd --keep 0.4",
    "compress model --method low-rank --keep 0.4 --offload",
    "search model --roles fc_in,fc_out --tasks questions --data questions=many.jsonl",
    "search model --roles fc_in --text text.jsonl --evaluation window=32 --growth 1.05",
    "compose model --roles fc_in,fc_out --size rate=9,5,3 --text text.jsonl --evaluation window=64",
];

fn whole(case: &str) -> String {
    match case.starts_with("compose") {
        true => format!("{case} --threads 1"),
        false => format!("{case} {TEXT}"),
    }
}

fn workshop() -> Workshop {
    let w = Workshop::new();
    w.write("many.jsonl", w.text("questions.jsonl").repeat(20));
    w
}

fn started(w: &Workshop, line: &str, index: usize, count: usize) -> Running {
    let mut command = w.command(&format!("{line} -o out --shard {index}/{count}"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    Running::new(command)
}

fn ended(child: Running, what: &str) {
    let ended = child.wait_with_output();
    assert!(ended.status.success(), "{what}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Number of messages in the folder of the shards.
fn messages(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.map(|path| if path.is_dir() { messages(&path) } else { 1 }).sum()
}

/// Files that differ. A composition keeps its cells in its own directory, those of a part of them
/// where it was divided.
fn differing(w: &Workshop, case: &str) -> Vec<String> {
    let mut files = differences(w, "whole", "out");
    if case.starts_with("compose") {
        files.retain(|name| name.ends_with(".json"));
    }
    files
}

#[test]
fn shards_that_start_at_any_time_write_the_bytes_of_one_process() {
    for case in CASES {
        let (w, line) = (workshop(), whole(case));
        w.ok(&format!("{line} -o whole"));
        for count in [2, 3] {
            let last = started(&w, &line, count - 1, count);
            std::thread::sleep(Duration::from_millis(100));
            let others: Vec<_> =
                (0..count - 1).map(|index| started(&w, &line, index, count)).collect();
            for child in others.into_iter().chain([last]) {
                ended(child, case);
            }
            assert_eq!(differing(&w, case), [""; 0], "{case} in {count} shards");
            // Messages and pieces are gone.
            let left = std::fs::read_dir(w.path("out.shards")).unwrap();
            let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut left: Vec<_> = left.filter(|name| name.parse::<usize>().is_err()).collect();
            left.sort();
            assert_eq!(left, ["began", "finished"], "{case}");
            // As if the first one had been killed before it reported that the output is written.
            std::fs::remove_file(w.path("out.shards/finished")).unwrap();
            // A shard that is started twice is told so, like one that is late.
            let again = w.ok(&format!("{line} -o out --shard 0/{count}"));
            assert!(again.contains("out is finished"), "{again}");
            w.ok(&format!("{line} -o out --shard 1/{count}"));
            for folder in ["out", "out.shards"] {
                std::fs::remove_dir_all(w.path(folder)).unwrap();
            }
        }
    }
}

#[test]
fn shards_that_are_killed_go_on_where_they_stopped() {
    for case in CASES {
        let (w, line) = (workshop(), whole(case));
        w.ok(&format!("{line} -o whole"));
        let (count, mut kills) = (3, 0);
        let mut children: Vec<Running> =
            (0..count).map(|index| started(&w, &line, index, count)).collect();
        // Each shard is killed in turn as soon as there are some more messages.
        for index in [0, 1, 2, 0, 2, 1] {
            let before = messages(&w.path("out.shards/messages"));
            let child = &mut children[index];
            while messages(&w.path("out.shards/messages")) <= before + 1
                && child.try_wait().unwrap().is_none()
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                kills += usize::from(child.wait().unwrap().code().is_none());
                children[index] = started(&w, &line, index, count);
            }
        }
        assert!(kills > 0, "{case}: none was killed");
        for child in children {
            ended(child, case);
        }
        assert_eq!(differing(&w, case), [""; 0], "{case} after {kills} kills");
    }
}

#[test]
fn a_shard_that_waits_can_be_interrupted_and_other_work_is_refused() {
    let (w, line) = (workshop(), whole(CASES[0]));
    let waiting = started(&w, &line, 1, 2);
    while !w.path("out.shards/1/job").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let busy = w.fails(&format!("{line} -o out --shard 1/2"), 1, &["shard 1/2 is already running"]);
    assert!(busy.contains("each shard runs once"), "{busy}");
    w.fails(&format!("{line} -o out --shard 0/3"), 6, &["another number of shards", "out.shards"]);
    w.fails(&format!("{line} --seed 5 -o out --shard 0/2"), 6, &["another job"]);
    signal(&waiting, "-INT");
    let stopped = waiting.wait_with_output();
    let said = String::from_utf8_lossy(&stopped.stderr);
    assert_eq!(stopped.status.code(), Some(75), "{said}");
    assert!(said.contains("run the same command again"), "{said}");
    // The other one fails, and the error reaches the shard that waits for it.
    let waiting = started(&w, &line, 1, 2);
    // It counts failures from when it came, and then holds its place.
    while w.run(&format!("{line} --seed 5 -o out --shard 1/2")).code != Some(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::create_dir(w.path("out")).unwrap();
    w.write("out/mine.txt", "mine");
    w.fails(&format!("{line} -o out --shard 0/2"), 2, &["output out exists already"]);
    let told = waiting.wait_with_output();
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(!told.status.success() && said.contains("it failed: "), "{said}");
    // Then both do it.
    std::fs::remove_dir_all(w.path("out")).unwrap();
    let both = [0, 1].map(|index| started(&w, &line, index, 2));
    both.into_iter().for_each(|child| ended(child, "both"));
    w.ok(&format!("{line} -o whole"));
    assert_eq!(differences(&w, "whole", "out"), [""; 0]);
    // The output of another job is not taken for that of this one.
    let told = w.read("out.shards/finished");
    std::fs::remove_file(w.path("out.shards/finished")).unwrap();
    w.write("out/recipe.yaml", "version: 1\n");
    w.fails(&format!("{line} -o out --shard 0/2"), 2, &["output out exists already"]);
    w.write("out.shards/finished", told);
    std::fs::remove_dir_all(w.path("out")).unwrap();
    w.fails(&format!("{line} -o out --shard 0/2"), 2, &["it is gone", "remove"]);
}

#[test]
fn what_shards_cannot_exchange_is_refused_before_any_work() {
    let w = Workshop::new();
    let line = whole(CASES[0]);
    w.fails(&format!("{line} -o out --force --shard 0/2"), 2, &["--force", "remove"]);
    let composing =
        "compose model --roles fc_in --size rate=9 --text text.jsonl --evaluation window=64";
    w.fails(&format!("{composing} --shard 0/2"), 2, &["no --output"]);
    w.fails(&format!("{line} --recover 2 -o out --shard 0/2"), 2, &["--recover is not divided"]);
    assert!(!w.path("out").exists());
}
