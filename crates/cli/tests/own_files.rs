//! Files that the program keeps for itself, in directories that somebody else prepared: links lead
//! nowhere, pipes keep nobody waiting, changed files are noticed.

use crate::molecule::potential;
use crate::recipes::{JOBS, differences};
use crate::workshop::{Outcome, Running, Workshop, names};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A command that takes longer waits for something.
const LONGEST: Duration = Duration::from_secs(120);

/// Reads a pipe meanwhile, so that a full one keeps nobody waiting.
fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// Runs a command that must end.
fn soon(w: &Workshop, args: &str) -> Outcome {
    let mut child = w.command(args).spawn().unwrap();
    let stdout = read_all(child.stdout.take().unwrap());
    let stderr = read_all(child.stderr.take().unwrap());
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > LONGEST {
            child.kill().unwrap();
            panic!("{args}: waits for something");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let outcome = Outcome {
        code: child.wait().unwrap().code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    };
    assert!(!outcome.panicked(), "{args}: {}", outcome.stderr);
    outcome
}

/// Ways to put something else in the place of a file.
const KINDS: [&str; 3] = ["link", "hard link", "pipe"];

/// Puts something in the place of a file: a link to the thesis, a second name of it, or a pipe.
fn put(w: &Workshop, kind: &str, path: &Path) {
    drop(fs::remove_file(path));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "link" => symlink(w.path("thesis"), path).unwrap(),
        "hard link" => fs::hard_link(w.path("thesis"), path).unwrap(),
        _ => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
    }
}

/// A workshop with a file that is not to be changed, empty as a new log or lock is.
fn furnished() -> Workshop {
    let w = Workshop::new();
    w.write("thesis", "");
    w
}

/// Runs a command after something was put in the place of each of some files of a directory that it
/// wrote before: it ends, and changes nothing elsewhere. Returns the reports, by file and kind.
fn attacked(w: &Workshop, args: &str, directory: &str, files: &[&str]) -> Vec<(String, Outcome)> {
    let copy = |from: &str, to: &str| {
        let done = Command::new("cp").arg("-a").arg(w.path(from)).arg(w.path(to)).status();
        assert!(done.unwrap().success());
    };
    drop(fs::remove_dir_all(w.path("untouched")));
    copy(directory, "untouched");
    let mut told = Vec::new();
    for file in files {
        for kind in KINDS {
            put(w, kind, &w.path(&format!("{directory}/{file}")));
            let outcome = soon(w, args);
            assert_eq!(w.read("thesis"), b"", "{args}: {kind} as {file}");
            told.push((format!("{kind} as {file}"), outcome));
            fs::remove_dir_all(w.path(directory)).unwrap();
            copy("untouched", directory);
        }
    }
    told
}

/// Each of these ended with an error that names the file.
fn all_refused(told: &[(String, Outcome)]) {
    for (what, outcome) in told {
        let file = what.rsplit(['/', ' ']).next().unwrap();
        let is_told = outcome.stderr.contains(file) && outcome.stderr.contains("error: ");
        assert!(outcome.code != Some(0) && is_told, "{what}: {outcome:?}");
    }
}

#[test]
fn a_simulation_writes_into_no_file_elsewhere() {
    let w = furnished();
    potential(&w);
    let md = "molecule md potential.ckpt a.xyz --steps 4 --every 2 --temperature 100 -o md";
    w.ok(md);
    let longer = md.replace("--steps 4", "--steps 8");
    all_refused(&attacked(&w, &longer, "md", &["trajectory.xyz", "log.jsonl", ".lock"]));
    // What is replaced as a whole may have a second name, which keeps its content.
    let files = ["state.json", "fingerprint", "final.xyz", "result.json", "measured.json"];
    for (what, outcome) in attacked(&w, &longer, "md", &files) {
        if !what.starts_with("hard link") {
            all_refused(&[(what, outcome)]);
        }
    }
    w.ok(&longer);
    // As it is prepared before the first step.
    for file in ["trajectory.xyz", "log.jsonl", "state.json", ".lock"] {
        for kind in KINDS {
            drop(fs::remove_dir_all(w.path("new")));
            put(&w, kind, &w.path(&format!("new/{file}")));
            let outcome = soon(&w, &md.replace("-o md", "-o new"));
            assert!(outcome.code != Some(0), "{kind} as {file}: {outcome:?}");
            assert_eq!(w.read("thesis"), b"", "{kind} as {file}");
        }
    }
}

#[test]
fn a_store_of_gradients_leads_nowhere_else() {
    let w = furnished();
    let cache = "attribute cache model --train text.jsonl --compress factgrass:16 -o store";
    w.ok(cache);
    let score = "attribute score store --query text.jsonl --no-baselines";
    w.ok("attribute fisher store");
    let files = ["origin.json", "manifest.json", "shards/000000.grd", "maps/000.safetensors"];
    for args in [score, cache] {
        for (what, outcome) in attacked(&w, args, "store", &files) {
            // What is written again as a whole may have a second name, which keeps its content.
            let may_be_done = args == cache && what.starts_with("hard link");
            assert!(may_be_done || outcome.code != Some(0), "{args}: {what}: {outcome:?}");
        }
    }
    // Folders of the store as links to folders elsewhere.
    for folder in ["shards", "maps"] {
        fs::rename(w.path(&format!("store/{folder}")), w.path("elsewhere")).unwrap();
        symlink(w.path("elsewhere"), w.path(&format!("store/{folder}"))).unwrap();
        w.fails(score, 1, &[folder, "is a link"]);
        fs::remove_file(w.path(&format!("store/{folder}"))).unwrap();
        fs::rename(w.path("elsewhere"), w.path(&format!("store/{folder}"))).unwrap();
    }
    w.ok(score);
}

#[test]
fn every_user_of_the_store_ends_and_follows_no_link() {
    let w = furnished();
    let laser = "laser model --lname mlp --rank 1 --force -o cut";
    w.ok(laser);
    let commands = ["cache list", "cache rm --unfinished --dry-run", laser, "cache rm --all"];
    let kinds = names(w.store());
    let kind = kinds.iter().find(|name| *name != "CACHEDIR.TAG").unwrap();
    let start = &names(&w.store().join(kind))[0];
    let piece = w.store().join(kind).join(start);
    let piece = piece.join(&names(&piece)[0]);
    let work = w.store().join("unfinished").join("0f".repeat(16));
    let elsewhere = w.path("elsewhere");
    for kind in ["link", "pipe"] {
        for command in commands {
            w.ok(laser);
            fs::create_dir_all(&work).unwrap();
            fs::write(work.join("journal"), "lines").unwrap();
            for file in [&piece, &work.join(".lock"), &work.join("what")] {
                put(&w, kind, file);
            }
            soon(&w, command).succeeded(&format!("{command} with {kind}s in the store"));
            assert_eq!(w.read("thesis"), b"", "{command}");
        }
    }
    // Folders of the store as links to those of another one.
    w.ok(laser);
    fs::create_dir_all(elsewhere.join("unfinished").join("0f".repeat(16))).unwrap();
    fs::write(elsewhere.join("unfinished").join("0f".repeat(16)).join("thesis"), "thesis").unwrap();
    drop(fs::remove_dir_all(w.store().join("unfinished")));
    for kind in names(w.store()).iter().filter(|name| *name != "CACHEDIR.TAG") {
        fs::rename(w.store().join(kind), elsewhere.join(kind)).unwrap();
        symlink(elsewhere.join(kind), w.store().join(kind)).unwrap();
    }
    symlink(elsewhere.join("unfinished"), w.store().join("unfinished")).unwrap();
    let before = count(&elsewhere);
    assert_eq!(w.ok_json("cache list")["bytes"], 0);
    assert!(w.ok("cache rm --all").contains("nothing to remove"));
    w.fails(laser, 1, &["is a link", "remove it"]);
    assert_eq!(count(&elsewhere), before);
    // The caches of earlier versions, too.
    fs::create_dir_all(w.path("xdg/linwright")).unwrap();
    let old = format!("{}-v1.safetensors", "0f".repeat(32));
    fs::write(elsewhere.join(&old), "thesis").unwrap();
    symlink(&elsewhere, w.path("xdg/linwright/components")).unwrap();
    let mut command = w.command("cache rm --old");
    command.env("XDG_CACHE_HOME", w.path("xdg"));
    Outcome::of(command).succeeded("cache rm --old");
    assert!(elsewhere.join(old).exists());
}

/// Files and folders below a folder.
fn count(folder: &Path) -> usize {
    let below = |name: String| folder.join(name);
    let paths: Vec<PathBuf> = names(folder).into_iter().map(below).collect();
    paths.iter().map(|path| 1 + if path.is_dir() { count(path) } else { 0 }).sum()
}

/// Two jobs that finish quickly.
const SMALL: &str = "
version: 1
model: model
jobs:
  - laser: {lname: mlp, rank: 1, no_cache: true}
  - select: {sites: model.layers.0.self_attn.q_proj, rank: 2}
    name: rows
";

#[test]
fn a_recipe_trusts_none_of_the_files_that_it_finds() {
    let w = furnished();
    w.write("small.yaml", SMALL);
    let run = "run -r small.yaml -o out";
    w.ok(run);
    let measured = w.text("out/measured.json");
    for text in ["[]", "null", "1", "{}", "{\"measured\": []}", "{\"measured\": {\"jobs\": 1}}", ""]
    {
        w.write("out/measured.json", text);
        soon(&w, run).succeeded(text);
    }
    // The report of a run adds the times.
    for text in ["[]", "null", "1", "{}", ""] {
        w.write("out/measured.json", text);
        soon(&w, "report out").failed(text, 1, &["out/measured.json is not a file of times"]);
    }
    w.write("out/measured.json", measured);
    let files = ["recipe.yaml", "results.json", "reproduce.json", "report.md", "report.html"];
    for (what, outcome) in attacked(&w, run, "out", &[&files[..], &["measured.json"]].concat()) {
        if !what.starts_with("hard link") {
            all_refused(&[(what, outcome)]);
        }
    }
    all_refused(&attacked(&w, run, "out", &[".lock"]));
    for (what, outcome) in attacked(&w, run, "out", &["fingerprint"]) {
        assert!(outcome.code != Some(0), "{what}: {outcome:?}");
    }
    // Finished pieces as links or pipes are computed again, folders of them as links refused.
    let start = names(&w.path("out/job"))[0].clone();
    let piece = format!("job/{start}/{}", names(&w.path(&format!("out/job/{start}")))[0]);
    for (what, outcome) in attacked(&w, run, "out", &[&piece]) {
        assert_eq!(outcome.code, Some(0), "{what}: {outcome:?}");
    }
    fs::rename(w.path("out/job"), w.path("elsewhere")).unwrap();
    symlink(w.path("elsewhere"), w.path("out/job")).unwrap();
    w.fails(run, 1, &["job", "is a link"]);
}

#[test]
fn a_changed_output_of_a_finished_job_is_noticed() {
    let w = furnished();
    w.write("small.yaml", SMALL);
    let run = "run -r small.yaml -o out";
    w.ok(run);
    let changed = |file: &str, change: &dyn Fn(&mut Value)| {
        let whole = w.read(file);
        let mut json: Value = serde_json::from_slice(&whole).unwrap();
        change(&mut json);
        w.write(file, format!("{json:#}\n"));
        let stderr = w.fails(run, 6, &[file, "another content", "SHA-256", "remove out/"]);
        w.write(file, whole);
        stderr
    };
    changed("out/rows.json", &|json| json["rows"] = json!([0, 1]));
    changed("out/laser-1/config.json", &|json| json["hidden_size"] = json!(64));
    w.ok(run);
    let weights = w.read("out/laser-1/model.safetensors");
    let mut other = weights.clone();
    *other.last_mut().unwrap() ^= 1;
    w.write("out/laser-1/model.safetensors", other);
    w.fails(run, 6, &["model.safetensors", "another content"]);
    fs::remove_file(w.path("out/laser-1/model.safetensors")).unwrap();
    w.fails(run, 1, &["model.safetensors"]);
    // As it says.
    fs::remove_dir_all(w.path("out/laser-1")).unwrap();
    w.ok(run);
    assert!(w.read("out/laser-1/model.safetensors") == weights);
    // A file that appeared in it is not ours.
    w.write("out/laser-1/notes.txt", "notes");
    w.ok(run);
    assert_eq!(w.text("out/laser-1/notes.txt"), "notes");
}

#[test]
fn a_merge_takes_what_the_jobs_wrote_and_nothing_else() {
    let w = furnished();
    w.write("small.yaml", SMALL);
    w.ok("run -r small.yaml -o whole");
    for index in [0, 1] {
        w.ok(&format!("run -r small.yaml -o part{index} --shard {index}/2"));
    }
    let merge = "merge part0 part1 -o out";
    w.ok(merge);
    assert_eq!(differences(&w, "whole", "out"), [""; 0]);
    let fails = |code: i32, words: &[&str]| {
        drop(fs::remove_dir_all(w.path("out")));
        let outcome = soon(&w, merge);
        outcome.failed(merge, code, words);
        let left = [w.path("out/laser-1"), w.path("out/rows.json")];
        assert!(left.iter().any(|path| !path.exists()), "nothing changed is brought");
    };
    // A number of a result, and a byte of a model.
    let result = w.text("part1/rows.json");
    w.write("part1/rows.json", result.replacen(": 2", ": 3", 1));
    assert_ne!(w.text("part1/rows.json"), result);
    fails(6, &["part1/rows.json", "another content", "remove part1/rows.json"]);
    w.write("part1/rows.json", &result);
    let weights = w.read("part0/laser-1/model.safetensors");
    let mut other = weights.clone();
    other[weights.len() / 2] ^= 1;
    w.write("part0/laser-1/model.safetensors", other);
    fails(6, &["part0/laser-1/model.safetensors", "another content"]);
    w.write("part0/laser-1/model.safetensors", &weights);
    // Content from elsewhere: folders with two links each would be a thousand million copies.
    for name in ["a", "b"] {
        symlink(w.path("part0"), w.path(&format!("part0/laser-1/{name}"))).unwrap();
    }
    fails(1, &["is a link"]);
    for name in ["a", "b"] {
        fs::remove_file(w.path(&format!("part0/laser-1/{name}"))).unwrap();
    }
    put(&w, "pipe", &w.path("part0/laser-1/pipe"));
    fails(1, &["is a pipe"]);
    fs::remove_file(w.path("part0/laser-1/pipe")).unwrap();
    fs::rename(w.path("part0/laser-1"), w.path("elsewhere")).unwrap();
    symlink(w.path("elsewhere"), w.path("part0/laser-1")).unwrap();
    fails(1, &["laser-1", "is a link"]);
    fs::remove_file(w.path("part0/laser-1")).unwrap();
    fs::rename(w.path("elsewhere"), w.path("part0/laser-1")).unwrap();
    for kind in ["link", "pipe"] {
        let own = w.read("part1/shard.json");
        put(&w, kind, &w.path("part1/shard.json"));
        fails(1, &["shard.json", &format!("is a {kind}")]);
        fs::remove_file(w.path("part1/shard.json")).unwrap();
        w.write("part1/shard.json", own);
    }
    w.write("part1/measured.json", "[]");
    w.ok(merge);
    assert_eq!(differences(&w, "whole", "out"), [""; 0]);
    // What was removed there is computed here.
    fs::remove_dir_all(w.path("part0/laser-1")).unwrap();
    fs::remove_dir_all(w.path("out")).unwrap();
    w.ok(merge);
    assert_eq!(differences(&w, "whole", "out"), [""; 0]);
}

#[test]
fn jobs_may_have_the_names_of_the_files_of_a_recipe() {
    let w = furnished();
    let job = |name: &str| {
        format!("  - laser: {{lname: mlp, rank: 1, no_cache: true}}\n    name: {name}\n")
    };
    let file = |name: &str| {
        format!(
            "  - select: {{sites: model.layers.0.self_attn.q_proj, rank: 2}}\n    name: {name}\n"
        )
    };
    let jobs: String = ["fingerprint", "job", "jobs", "unfinished", "recipe"].map(job).concat();
    let files: String = ["results", "measured", "reproduce", "shard", "report"].map(file).concat();
    let last = "  - export: {model: {from: fingerprint}, form: dense}\n";
    w.write("names.yaml", format!("version: 1\nmodel: model\njobs:\n{jobs}{files}{last}"));
    w.ok("run -r names.yaml -o out");
    for name in ["fingerprint", "job", "jobs", "unfinished", "results.json", "measured.json"] {
        assert!(w.path(&format!("out/jobs/{name}")).exists(), "{name}");
    }
    assert!(w.path("out/recipe").is_dir() && w.path("out/report.json").is_file());
    let again = w.run("run -r names.yaml -o out");
    assert!(!again.stderr.contains("fitting") && again.code == Some(0), "{again:?}");
    for index in [0, 1] {
        w.ok(&format!("run -r names.yaml -o part{index} --shard {index}/2"));
    }
    w.ok("merge part0 part1 -o merged");
    assert_eq!(differences(&w, "out", "merged"), [""; 0]);
    w.ok("reproduce out -o again");
    assert_eq!(differences(&w, "out", "again"), [""; 0]);
    // Where case makes no difference they would be one.
    w.write("twice.yaml", JOBS.replace("name: cut", "name: Compress-1"));
    w.fails("run -r twice.yaml -o twice", 3, &["two jobs are named"]);
}

/// Puts a file in the place of an output when a command has opened a file whose name has `word`:
/// the command says that it exists, and leaves it.
fn appears(w: &Workshop, args: &str, output: &str, word: &str) {
    let mut child = w.command(&format!("{args} {output} -vv")).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.lines().last().unwrap_or_default().contains(word) {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{args}: {word} is not in {said}");
    }
    fs::File::create_new(w.path(output)).unwrap_or_else(|e| panic!("{args}: {e}; {said}"));
    w.write(output, "thesis");
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{args}: {said}");
    assert!(said.contains(&format!("output {output} exists already")), "{args}: {said}");
    assert_eq!(w.text(output), "thesis");
    let partial = w.names().into_iter().find(|name| name.contains(".partial-"));
    assert_eq!(partial, None, "{args}");
}

#[test]
fn a_file_that_appears_during_the_work_stays() {
    let w = furnished();
    w.write("long.jsonl", w.text("text.jsonl").repeat(40));
    potential(&w);
    let weights = "model.safetensors";
    appears(&w, "eval model --text long.jsonl --window 64 --output", "result.json", weights);
    appears(&w, "inspect model --spectra --no-cache --html", "page.html", weights);
    appears(
        &w,
        "select model --sites model.layers.0.self_attn.q_proj --rank 2 --output",
        "rows.json",
        weights,
    );
    appears(&w, "molecule relax potential.ckpt a.xyz --steps 2 --output", "b.xyz", "a.xyz");
    appears(&w, "laser model --lname mlp --rank 1 --no-cache --output", "cut", weights);
}

/// Everything that shards said.
fn said(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { said(&path) } else { vec![path] }).collect()
}

const TOGETHER: &str = "compress model --method low-rank --keep 0.4 --calibration calibration.jsonl:num_tokens=1500,seq_len=64 --threads 1 -o out";

#[test]
fn a_changed_message_between_shards_is_named_and_said_again() {
    let w = furnished();
    w.ok(&TOGETHER.replace("-o out", "-o whole"));
    let shard = |index: usize| format!("{TOGETHER} --shard {index}/2");
    let change = |bytes: &mut Vec<u8>, how: usize| match how {
        0 => *bytes.last_mut().unwrap() ^= 1,
        1 => {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
        }
        2 => bytes.truncate(bytes.len() - 1),
        _ => bytes.clear(),
    };
    let said_by = |child: &mut Running, name: &str| {
        let began = Instant::now();
        loop {
            let said = said(&w.path("out.shards/messages"));
            if let Some(path) = said.into_iter().find(|path| path.ends_with(name)) {
                return path;
            }
            assert!(child.try_wait().unwrap().is_none(), "it ended before it said {name}");
            assert!(began.elapsed() < LONGEST, "it does not say {name}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    for how in 0..4 {
        // The first one is killed when it waits, so that the second one says its sums, and waits.
        let mut first = Running::new(w.command(&shard(0)));
        said_by(&mut first, "0-all-0");
        first.kill().unwrap();
        first.wait().unwrap();
        let mut second = Running::new(w.command(&shard(1)));
        let path = said_by(&mut second, "1-0-0");
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes, how);
        fs::write(&path, bytes).unwrap();
        let first = soon(&w, &shard(0));
        first.failed("a changed message", 1, &["1-0-0", "is damaged", "computed again"]);
        let second = second.wait_with_output();
        let told = String::from_utf8_lossy(&second.stderr);
        assert!(second.status.code() == Some(1) && told.contains("it failed"), "{told}");
        assert!(!w.path("out").exists());
        let first = Running::new(w.command(&shard(0)));
        soon(&w, &shard(1)).succeeded("started again");
        assert!(first.wait_with_output().status.success());
        assert_eq!(differences(&w, "whole", "out"), [""; 0]);
        // The result that is reported to others.
        let mut finished = w.read("out.shards/finished");
        change(&mut finished, how);
        w.write("out.shards/finished", finished);
        w.fails(&shard(1), 1, &["finished", "remove it"]);
        for folder in ["out", "out.shards"] {
            fs::remove_dir_all(w.path(folder)).unwrap();
        }
    }
}

#[test]
fn shards_write_through_no_link_and_wait_for_no_pipe() {
    let w = furnished();
    let shard = |index: usize| format!("{TOGETHER} --shard {index}/2");
    for file in ["0/.lock", "0/job", "1/job", "finished", "began", "0/failed"] {
        for kind in ["link", "pipe"] {
            put(&w, kind, &w.path(&format!("out.shards/{file}")));
            // Alone it waits for the other one, unless it is refused.
            let mut child = Running::new(w.command(&shard(0)));
            let began = Instant::now();
            while child.try_wait().unwrap().is_none()
                && said(&w.path("out.shards/messages")).is_empty()
            {
                assert!(began.elapsed() < LONGEST, "{kind} as {file}");
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(child.kill());
            child.wait().unwrap();
            assert_eq!(w.read("thesis"), b"", "{kind} as {file}");
            fs::remove_dir_all(w.path("out.shards")).unwrap();
        }
    }
    fs::create_dir(w.path("elsewhere")).unwrap();
    for folder in ["", "/0", "/messages", "/pieces", "/0/run"] {
        let link = w.path(&format!("out.shards{folder}"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(w.path("elsewhere"), &link).unwrap();
        soon(&w, &shard(0)).failed(folder, 1, &["is a link"]);
        assert_eq!(names(&w.path("elsewhere")), [""; 0]);
        fs::remove_file(&link).unwrap();
        drop(fs::remove_dir_all(w.path("out.shards")));
    }
}
