//! What runs keep for the next one: nobody else writes there at the same time, changes are noticed,
//! and what can never be finished leaves nothing.

use crate::recipes::JOBS;
use crate::workshop::{Workshop, pieces};
use std::fs::{self, File};

const SWEEP: &str = "sweep model --no-cache --roles fc_in --layers 0 --size rate=9 --text text.jsonl --evaluation window=64";

/// Holds a run directory as a command at work does.
fn held(w: &Workshop, directory: &str) -> File {
    fs::create_dir_all(w.path(directory)).unwrap();
    let file = File::create(w.path(&format!("{directory}/.lock"))).unwrap();
    file.try_lock().unwrap();
    w.write(&format!("{directory}/.lock"), "4711");
    file
}

#[test]
fn a_second_command_in_the_same_directory_is_told_who_works_there() {
    let w = Workshop::new();
    let compose = SWEEP.replace("sweep", "compose");
    w.write("jobs.yaml", JOBS);
    for (line, directory) in [
        (format!("{SWEEP} -o run"), "run"),
        (format!("{compose} -o run"), "run"),
        ("run -r jobs.yaml -o run".to_owned(), "run"),
    ] {
        let lock = held(&w, directory);
        w.fails(&line, 1, &[directory, "in use by process 4711", "wait for it to end"]);
        drop(lock);
        w.ok(&line);
        fs::remove_dir_all(w.path(directory)).unwrap();
    }
}

#[test]
fn a_changed_number_in_a_finished_part_is_told_and_computed_again() {
    let w = Workshop::new();
    let line = format!("{SWEEP} -o run");
    let said = w.ok(&line);
    assert_eq!(w.ok(&line), said);
    let parts = pieces(&w.path("run"), "cell");
    assert!(!parts.is_empty());
    for path in parts {
        let whole = fs::read(&path).unwrap();
        let mut changed = whole.clone();
        // The last digit of the first figure.
        let text = b"\"value\":";
        let at = whole.windows(text.len()).position(|window| window == text).unwrap();
        let end = at + whole[at..].iter().position(|&byte| byte == b',').unwrap() - 1;
        changed[end] = if whole[end] == b'1' { b'2' } else { b'1' };
        fs::write(&path, &changed).unwrap();
        let again = w.run(&line);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!((again.code, &again.stdout), (Some(0), &said));
        for word in ["note: ", name, "checksum differs", "moved aside", "computed again"] {
            assert!(again.stderr.contains(word), "{word}: {}", again.stderr);
        }
        assert_eq!(fs::read(format!("{}.damaged", path.display())).unwrap(), changed);
        assert_eq!(fs::read(&path).unwrap(), whole, "the same bytes");
    }
    assert!(!w.run(&line).stderr.contains("note: "));
}

#[test]
fn a_run_that_can_never_be_finished_leaves_nothing() {
    let w = Workshop::new();
    let before = w.names();
    w.fails(&format!("{SWEEP},metric=charm -o run"), 2, &["charm", "token_perplexity"]);
    let compose = SWEEP.replace("sweep", "compose");
    w.fails(&format!("{compose},metric=charm -o run"), 2, &["charm"]);
    assert_eq!(w.names(), before);
}

#[test]
fn a_cell_is_better_only_where_the_interval_says_so() {
    let w = Workshop::new();
    let said = w.ok(&format!("{SWEEP} -o run"));
    let json = w.ok_json(&format!("{SWEEP} -o run"));
    let sweep = &json["sweep"];
    let own = &sweep["cells"][0]["score"]["comparisons"];
    let of = |c: &&serde_json::Value| c["metric"] == "token_perplexity";
    let own = own.as_array().unwrap().iter().find(of).unwrap();
    let below = own["interval"][1].as_f64().unwrap() < 0.0;
    assert_eq!(sweep["is_better"], below, "{own}");
    assert_eq!(said.contains("no cell is significantly better"), !below, "{said}");
    assert!(said.contains("on validation items token_perplexity"), "{said}");
}
