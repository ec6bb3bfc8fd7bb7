//! What commands write replaces no input, and with --force only what the program wrote itself.

use crate::collapse::{features, one_class, related};
use crate::compare_images::{images, labels};
use crate::compare_runs::RECIPE;
use crate::molecule::potential;
use crate::molecule_train::waters;
use crate::tasks;
use crate::workshop::{Outcome, Workshop, names};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Commands that write a directory, each with all it needs but the directory.
const DIRECTORIES: [&str; 16] = [
    "compress model --method low-rank --keep 0.5 --calibration calibration.jsonl --output",
    "plan model --no-cache --output",
    "laser model --no-cache --lname mlp --rank 1 --output",
    "prune model --keep 0.7 --calibration calibration.jsonl:num_tokens=2000,seq_len=64 --output",
    "search model --roles fc_in --text text.jsonl --evaluation window=8 --calibration calibration.jsonl --output",
    "export model --output",
    "import model/model.safetensors --output",
    "train-lm --epochs 1 --output",
    "man --output",
    "train-net mlp:2 --images a-images-idx3-ubyte --steps 1 --output",
    "molecule train --data a.xyz --architecture channels=16 --steps 1 --validation 1 --output",
    "molecule compress potential.ckpt --method svd --rank 2 --output",
    "flow train --data moons --architecture depth=1,hidden=2 --steps 1 --training batch=8 --output",
    "flow match --data moons --architecture hidden=4,depth=1 --steps 1 --training pairs=8 --count 4 --output",
    "fit model/model.safetensors --tensor lm_head.weight --operator low_rank --output",
    "attribute world --stories 1 --documents 9 --output",
];

/// Commands that resume in the directory of a run.
const RUNS: [&str; 10] = [
    "sweep model --no-cache --roles fc_in --size rate=9 --tasks questions --data questions=questions.jsonl --output",
    "compose model --no-cache --roles fc_in --size rate=9 --tasks questions --data questions=questions.jsonl --output",
    "run --recipe tiny.yaml --output",
    "molecule md potential.ckpt a.xyz --steps 2 --output",
    "attribute cache model --train text.jsonl --compress factgrass:16 --output",
    "attribute best store --query text.jsonl --output",
    "attribute lds store --images a-images-idx3-ubyte --output",
    "compare model --methods svd --text text.jsonl --evaluation window=64 --calibration calibration.jsonl:num_tokens=2000,seq_len=64 --output",
    "compare-net net --calibration a-images-idx3-ubyte:examples=0-59 --images a-images-idx3-ubyte:examples=60-119 --methods svd --output",
    "molecule compare potential.ckpt --calibration a.xyz --test b.xyz --methods svd --output",
];

/// Commands that run a job of another directory again.
const AGAIN: [&str; 2] = ["merge part0 part1 --output", "reproduce mixed --output"];

/// Commands that write a file.
const FILES: [&str; 20] = [
    "eval model --text text.jsonl --output",
    "select model --sites model.layers.0.self_attn.q_proj --rank 2 --output",
    "inspect model --html",
    "inspect model --output",
    "eval-net net --images a-images-idx3-ubyte --output",
    "molecule eval potential.ckpt a.xyz --output",
    "molecule relax potential.ckpt a.xyz --output",
    "molecule convert potential.ckpt --output",
    "collapse measure --features all.safetensors --output",
    "collapse merge all.sums --output",
    "collapse lm model --text text.jsonl --num-tokens 200 --resamples 0 --no-baselines --output",
    "collapse depth --depths 2 --steps 1 --output",
    "collapse watch step.json --output",
    "collapse relate --measured lm5.json --sweeps swept5.json --draws 10 --output",
    "flow eval flow --data moons --limit 20 --output",
    "flow sample flow -n 4 --output",
    "attribute score store --query text.jsonl --output",
    "attribute self store --output",
    "attribute recall store --query text.jsonl --output",
    "attribute show store --query text.jsonl --html",
];

/// Options that name what is written, of commands that add files of their own names to a directory.
const ADDING: [&str; 3] =
    ["eval --log-samples", "bench operators --out", "rotor convergence --out"];

/// Everything in a directory, with the content of files and the target of links.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in names(dir) {
        let path = dir.join(&name);
        let data = path.symlink_metadata().unwrap();
        if data.is_dir() {
            found.insert(name.clone(), Vec::new());
            found.extend(tree(&path).into_iter().map(|(below, b)| (format!("{name}/{below}"), b)));
        } else if data.is_symlink() {
            found.insert(name, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

/// A workshop with things that are not to be lost.
fn furnished() -> Workshop {
    let w = Workshop::new();
    fs::create_dir_all(w.path("thesis/chapters")).unwrap();
    w.write("thesis/chapters/one.tex", "chapter");
    w.write("notes.txt", "notes");
    w.write("others.json", "{\"results\": {}}");
    w.write("others.html", "<html>linwright</html>");
    std::os::unix::fs::symlink(w.path("thesis"), w.path("link")).unwrap();
    std::os::unix::fs::symlink(w.path("notes.txt"), w.path("filelink")).unwrap();
    fs::create_dir_all(w.path("house/.config")).unwrap();
    w.write("a-images-idx3-ubyte", images());
    w.write("a-labels-idx1-ubyte", labels(3));
    w.ok("train-net mlp:2 --images a-images-idx3-ubyte --steps 1 -o net");
    w.ok("export model -o mixed --form native");
    w.write("mixed/my-results.csv", "1,2");
    potential(&w);
    w.write("b.xyz", waters(3));
    features(&w);
    w.ok("collapse measure --features all.safetensors --save-sums all.sums --resamples 0 -o step.json");
    related(&w);
    w.ok("flow train --data moons --architecture depth=1,hidden=2 --steps 1 --training batch=8 -o flow");
    w
}

/// Runs a command whose home is `house`; it must fail with a code of its own and leave all as it
/// is.
fn refused(w: &Workshop, args: &str, codes: &[i32]) -> String {
    let before = tree(w.path("").as_path());
    let mut command = w.command(args);
    command.env("HOME", w.path("house")).env_remove("XDG_CACHE_HOME");
    let outcome = Outcome::of(command);
    assert!(codes.contains(&outcome.code.unwrap_or(-1)), "{args}: {outcome:?}");
    let after = tree(w.path("").as_path());
    let lost: Vec<_> =
        before.iter().filter(|(name, data)| after.get(*name) != Some(data)).collect();
    assert!(lost.is_empty() && before.len() == after.len(), "{args}: {lost:?}");
    outcome.stderr
}

#[test]
fn directories_replace_nothing_that_is_not_ours() {
    let w = furnished();
    for command in DIRECTORIES {
        for target in [
            "thesis",
            "notes.txt",
            "link",
            "filelink",
            "mixed",
            "house",
            "model",
            ".",
            "..",
            "/dev/null",
            "questions.jsonl",
            "/",
        ] {
            // The model is not an input of these, and was written here.
            if target != "model" || !DIRECTORIES[5..].contains(&command) {
                refused(&w, &format!("{command} {target} --force"), &[1, 2]);
            }
        }
        // The message distinguishes outputs without permission from impossible ones.
        assert!(refused(&w, &format!("{command} mixed"), &[2]).contains("exists already"));
        let stderr = refused(&w, &format!("{command} mixed --force"), &[2]);
        assert!(stderr.contains("my-results.csv"), "{stderr}");
    }
    // The temporary files of the tests: what holds all inputs.
    let above = w.path("").parent().unwrap().display().to_string();
    refused(&w, &format!("export model --force -o {above}"), &[2]);
}

#[test]
fn runs_begin_in_no_directory_that_holds_something() {
    let w = furnished();
    w.write("tiny.yaml", RECIPE);
    for command in RUNS {
        for target in ["thesis", "notes.txt", "link", "model", "mixed", "house", "/dev/null"] {
            refused(&w, &format!("{command} {target}"), &[1, 2]);
        }
    }
}

#[test]
fn jobs_are_run_again_in_no_directory_that_holds_something() {
    let w = furnished();
    let sweep = "sweep model --no-cache --roles fc_in --size rate=9 --text text.jsonl --evaluation window=64";
    w.ok(&format!("{sweep} --shard 0/2 --output part0"));
    w.ok(&format!("{sweep} --shard 1/2 --output part1"));
    for command in AGAIN {
        for target in ["thesis", "notes.txt", "link", "model", "mixed", "house", "/dev/null"] {
            refused(&w, &format!("{command} {target}"), &[1, 2]);
        }
    }
}

#[test]
fn files_replace_nothing_that_is_not_ours() {
    let w = furnished();
    for command in FILES {
        for target in [
            "thesis",
            "notes.txt",
            "filelink",
            "mixed/my-results.csv",
            "others.json",
            "others.html",
            "model/config.json",
            "model/model.safetensors",
            "text.jsonl",
            "questions.jsonl",
        ] {
            let stderr = refused(&w, &format!("{command} {target}"), &[2]);
            assert!(stderr.contains(target), "{stderr}");
            refused(&w, &format!("{command} {target} --force"), &[2]);
        }
    }
}

#[test]
fn an_output_is_never_an_input() {
    let w = furnished();
    w.write("rows.jsonl", "{\"question\": \"Who?\", \"choices\": [\"a\", \"b\"], \"answer\": 0}\n");
    fs::hard_link(w.path("text.jsonl"), w.path("hard.jsonl")).unwrap();
    w.ok("eval model --text text.jsonl -o result.json");
    for args in [
        "eval model --text text.jsonl -o text.jsonl --force",
        "eval model --text text.jsonl -o ./model/../text.jsonl --force",
        "eval model --text text.jsonl -o hard.jsonl --force",
        "eval model --tasks questions --data questions=rows.jsonl -o rows.jsonl --force",
        "eval model --text text.jsonl --overlap-with notes.txt -o notes.txt --force",
        "export model --results result.json --form native -o result.json --force",
        "export model -o model --force",
        "export mixed --base model --form lora -o model --force",
        "import model/model.safetensors -o model --force",
        "laser model --no-cache --lname mlp --rank 1 -o model --force",
        "compress model --method low-rank --keep 0.5 --calibration calibration.jsonl -o model --force",
    ] {
        let stderr = refused(&w, args, &[2]);
        assert!(stderr.contains("the input"), "{args}: {stderr}");
    }
}

#[test]
fn an_output_is_in_no_input_by_whatever_name() {
    let w = furnished();
    w.write("tiny.yaml", RECIPE);
    fs::create_dir(w.path("potentials")).unwrap();
    fs::copy(w.path("potential.ckpt"), w.path("potentials/a.ckpt")).unwrap();
    fs::create_dir(w.path("single")).unwrap();
    w.ok("molecule convert potential.ckpt -o single/model.safetensors");
    w.ok("attribute cache model --train text.jsonl --compress factgrass:16 -o store");
    std::os::unix::fs::symlink(w.path("model"), w.path("other")).unwrap();
    std::os::unix::fs::symlink(w.path("."), w.path("here")).unwrap();
    let sweep = "sweep model --no-cache --roles fc_in --size rate=9 --text text.jsonl --evaluation window=64";
    w.ok(&format!("{sweep} --shard 0/2 -o part0"));
    w.ok(&format!("{sweep} --shard 1/2 -o part1"));
    for (command, input) in [
        ("eval model --text text.jsonl -o", "model"),
        ("eval model --text text.jsonl --log-samples", "model"),
        ("inspect model -o", "model"),
        ("inspect model --html", "model"),
        ("select model --sites model.layers.0.self_attn.q_proj --rank 2 -o", "model"),
        ("eval-net net --images a-images-idx3-ubyte -o", "net"),
        ("flow eval flow --data moons --limit 20 -o", "flow"),
        ("flow sample flow -n 4 -o", "flow"),
        ("flow sample flow -n 4 --points", "flow"),
        ("molecule convert single -o", "single"),
        ("molecule convert potentials -o", "potentials"),
        ("molecule eval potentials a.xyz -o", "potentials"),
        ("molecule relax single a.xyz -o", "single"),
        ("molecule md single a.xyz --steps 2 -o", "single"),
        ("molecule compress single --method svd --rank 2 -o", "single"),
        ("attribute score store --query text.jsonl -o", "store"),
        ("attribute show store --query text.jsonl --html", "store"),
        ("attribute self store -o", "store"),
        ("attribute cache model --train text.jsonl --compress factgrass:16 -o", "model"),
        ("export model -o", "model"),
        ("compress model --rank 2 --calibration calibration.jsonl -o", "model"),
        ("plan model --no-cache -o", "model"),
        (
            "compare model --methods svd --text text.jsonl --calibration calibration.jsonl -o",
            "model",
        ),
        (sweep, "model"),
        ("compose model --no-cache --roles fc_in --size rate=9 --text text.jsonl -o", "model"),
        ("run --recipe tiny.yaml -o", "model"),
        ("reproduce mixed -o", "mixed"),
        ("merge part0 part1 -o", "part1"),
    ] {
        let command = command
            .replace(" --window 64", " --window 64 -o")
            .replace(" --evaluation window=64", " --evaluation window=64 -o");
        for below in ["model.safetensors", "new.json", "new/deep/er", "../{}/new.npy", "x/../new"] {
            let below = below.replace("{}", input);
            for output in [format!("{input}/{below}"), format!("here/{input}/{below}")] {
                let stderr = refused(&w, &format!("{command} {output}"), &[1, 2]);
                let is_told = stderr.contains("the input") || stderr.contains("no shard");
                assert!(is_told, "{command} {output}: {stderr}");
            }
        }
    }
    let forced = "molecule convert single -o single/model.safetensors --force";
    assert!(refused(&w, forced, &[2]).contains("is inside the input single"));
    let linked = "eval model --text text.jsonl -o other/new.json";
    assert!(refused(&w, linked, &[2]).contains("is inside the input model"));
}

#[test]
fn own_formats_are_compared_with_their_list_of_hashes() {
    let w = furnished();
    w.ok("compress model --method low-rank --keep 0.5 --calibration calibration.jsonl --form native -o small");
    w.ok(
        "molecule train --data a.xyz --architecture channels=16 --steps 1 --validation 1 -o field",
    );
    for (folder, command) in [
        ("flow", "flow eval flow --data moons --limit 20"),
        ("net", "eval-net net --images a-images-idx3-ubyte"),
        ("small", "eval small --text text.jsonl --window 64"),
        ("small", "export small --form native -o again"),
        ("field", "molecule info field"),
        ("field", "molecule info field/model.safetensors"),
    ] {
        let (path, list) = (format!("{folder}/model.safetensors"), format!("{folder}/SHA256SUMS"));
        let (whole, sums) = (w.read(&path), w.read(&list));
        w.ok(command);
        let _ = fs::remove_dir_all(w.path("again"));
        let mut bytes = whole.clone();
        // The lowest bit of a number.
        let last = bytes.len() - 4;
        bytes[last] ^= 1;
        w.write(&path, &bytes);
        w.fails(command, 1, &["model.safetensors is not the file", "SHA256SUMS"]);
        fs::remove_file(w.path(&list)).unwrap();
        w.ok(command);
        let _ = fs::remove_dir_all(w.path("again"));
        w.write(&path, &whole);
        w.write(&list, &sums);
    }
    // Files of others may stand beside any list.
    w.write("model/SHA256SUMS", format!("{}  model.safetensors\n", "0".repeat(64)));
    w.ok("eval model --text text.jsonl --window 64");
}

#[test]
fn a_pipe_that_nothing_reads_ends_the_command() {
    let w = Workshop::new();
    assert!(std::process::Command::new("mkfifo").arg(w.path("pipe")).status().unwrap().success());
    let args = "eval model --text text.jsonl --window 64 -o pipe";
    let told = w.run(args);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.stderr.contains("open pipe: nothing reads this pipe"), "{told:?}");
}

#[test]
fn work_is_kept_in_no_input() {
    let w = furnished();
    for (command, input) in [
        ("inspect model --spectra --cache", "model"),
        ("plan model --cache", "model"),
        (
            "sweep model --roles fc_in --size rate=9 --text text.jsonl --evaluation window=64 --cache",
            "model",
        ),
    ] {
        for place in [input.to_owned(), format!("{input}/new"), format!("{input}/new/er")] {
            let stderr = refused(&w, &format!("{command} {place}"), &[2]);
            assert!(stderr.contains("the input model"), "{command} {place}: {stderr}");
        }
    }
}

#[test]
fn two_outputs_of_one_command_have_two_places() {
    let w = furnished();
    let text = "--text text.jsonl --window 64";
    for (command, places) in [
        ("collapse measure --features all.safetensors", ["--save-sums", "--output"]),
        ("inspect model", ["--output", "--html"]),
        ("inspect model --spectra", ["--cache", "--output"]),
        ("plan model", ["--cache", "--output"]),
        ("flow sample flow -n 4", ["--points", "--output"]),
        (format!("eval model {text}").as_str(), ["--log-samples", "--output"]),
        (
            "sweep model --roles fc_in --size rate=9 --text text.jsonl --evaluation window=64",
            ["--cache", "--output"],
        ),
        (
            "compare model --methods svd --text text.jsonl --calibration calibration.jsonl",
            ["--save-best", "--output"],
        ),
        ("train-lm --epochs 1", ["--checkpoint", "--output"]),
        ("train-net mlp:2 --images a-images-idx3-ubyte --steps 1", ["--checkpoint", "--output"]),
        (
            "molecule train --data a.xyz --architecture channels=16 --steps 1 --validation 1",
            ["--checkpoint", "--output"],
        ),
        (
            "flow train --data moons --architecture depth=1,hidden=2 --steps 1",
            ["--checkpoint", "--output"],
        ),
        (
            "flow match --data moons --architecture hidden=4,depth=1 --steps 1",
            ["--checkpoint", "--output"],
        ),
    ] {
        let [one, other] = places;
        for (a, b) in [("new", "new"), ("new", "./new"), ("new/in", "new"), ("new", "new/in")] {
            if one == "--log-samples" && a != "new/in" && b == "new/in" {
                continue;
            }
            let line = format!("{command} {one} {a} {other} {b}");
            let stderr = refused(&w, &line, &[2]);
            assert!(stderr.contains(one) && stderr.contains(other), "{line}: {stderr}");
        }
    }
    fs::create_dir(w.path("samples")).unwrap();
    let train = "train-net mlp:2 --images a-images-idx3-ubyte --steps 1 -o new --checkpoint";
    let over = refused(&w, &format!("{train} a-images-idx3-ubyte"), &[2]);
    assert!(over.contains("the input"), "{over}");
    let taken = format!("eval model {text} --log-samples samples -o samples/samples_text.jsonl");
    assert!(refused(&w, &taken, &[2]).contains("--log-samples"));
    w.ok(&format!("eval model {text} --log-samples samples -o samples/result.json"));
    w.ok("inspect model -o /dev/null --html /dev/null");
}

#[test]
fn a_command_that_fails_leaves_no_output() {
    let w = furnished();
    // Of one class sums can be added, and collapse not measured.
    one_class(&w);
    let one =
        "collapse measure --features one.safetensors --classes 4 --save-sums one.sums -o one.json";
    let before = w.names();
    w.fails(one, 1, &["class"]);
    assert_eq!(w.names(), before);
    w.ok("collapse measure --features all.safetensors --save-sums all2.sums --resamples 0");
    let before = w.names();
    w.fails("collapse merge all2.sums --head notes.txt -o merged.sums", 1, &["notes.txt"]);
    assert_eq!(w.names(), before);
    // A member named as a single model is not an obstacle: before, what was written was read as it.
    fs::create_dir(w.path("models")).unwrap();
    for name in ["models/model.ckpt", "models/b.ckpt"] {
        fs::copy(w.path("potential.ckpt"), w.path(name)).unwrap();
    }
    w.ok("molecule convert models -o ensemble");
    assert_eq!(w.ok_json("molecule info ensemble")["members"], 2);
    // Two outputs appear together.
    w.write("mine.npy", "mine");
    let sample = "flow sample flow -n 4 -o fresh.png --points mine.npy";
    w.fails(sample, 2, &["mine.npy"]);
    assert!(!w.path("fresh.png").exists());
}

#[test]
fn figures_are_replaced_if_forced() {
    let w = Workshop::new();
    for (args, file) in [
        (
            "bench operators rotor --growth --dims 64,128 --rows 2 --rounds 1 -q --out plots",
            "plots/operator-growth.csv",
        ),
        ("rotor convergence --dims 16 --seeds 1 -q --out found", "found/rotor-convergence.json"),
    ] {
        w.ok(args);
        w.write(file, "mine");
        w.fails(args, 2, &["exists already", "--force"]);
        assert_eq!(w.text(file), "mine");
        w.ok(&format!("{args} --force"));
        assert_ne!(w.text(file), "mine");
    }
}

#[test]
fn results_samples_and_pages_are_replaced_if_forced() {
    let w = tasks::workshop();
    for (args, file) in [
        ("eval model --text text.jsonl --output result.json", "result.json"),
        ("eval model --tasks boats.yaml --log-samples samples", "samples/samples_boats.jsonl"),
        ("select model --tensor lm_head.weight --rank 2 --output rows.json", "rows.json"),
        ("inspect model --html page.html", "page.html"),
        ("inspect model --output tensors.json", "tensors.json"),
    ] {
        w.ok(args);
        let first = w.read(file);
        w.fails(args, 2, &["exists already", "--force"]);
        assert_eq!(w.read(file), first);
        w.ok(&format!("{args} --force"));
        w.write(file, "mine");
        w.fails(&format!("{args} --force"), 2, &[file, "was not written by linwright"]);
        assert_eq!(w.text(file), "mine");
    }
}

/// The options of a command that name what it writes.
fn writing(help: &str) -> BTreeSet<String> {
    let names = ["--output", "--out", "--html", "--log-samples"];
    let options = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = options.flat_map(|line| line.split([' ', ',']).take(3));
    words.filter(|word| names.contains(word)).map(str::to_owned).collect()
}

#[test]
fn no_command_that_writes_is_forgotten() {
    let w = Workshop::new();
    let top = w.ok("--help");
    let listed = top.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let commands = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let commands = commands.filter(|line| !line.starts_with(' '));
    let tables = [&DIRECTORIES[..], &RUNS, &AGAIN, &FILES, &ADDING].concat();
    let mut seen = 0;
    for command in commands.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help")
    {
        let subs: &[&str] = match command {
            "bench" => &["bench operators", "bench model"],
            "rotor" => &["rotor convergence"],
            "molecule" => &[
                "molecule eval",
                "molecule md",
                "molecule relax",
                "molecule convert",
                "molecule compare",
                "molecule train",
                "molecule compress",
            ],
            "collapse" => &[
                "collapse measure",
                "collapse merge",
                "collapse depth",
                "collapse lm",
                "collapse watch",
                "collapse relate",
            ],
            "flow" => &["flow train", "flow eval", "flow sample", "flow match"],
            "attribute" => &[
                "attribute best",
                "attribute cache",
                "attribute lds",
                "attribute recall",
                "attribute score",
                "attribute self",
                "attribute show",
                "attribute world",
            ],
            other => &[other],
        };
        for sub in subs {
            for option in writing(&w.ok(&format!("{sub} --help"))) {
                seen += 1;
                let is_tried = |entry: &&str| entry.starts_with(sub) && entry.ends_with(&option);
                assert!(tables.iter().any(is_tried), "{sub} {option}");
            }
        }
    }
    assert_eq!(seen, tables.len());
}

#[test]
fn a_directory_of_its_name_does_not_replace_the_built_in_model() {
    let w = Workshop::new();
    fs::create_dir_all(w.path("assets")).unwrap();
    fs::rename(w.path("model"), w.path("assets/pocket")).unwrap();
    let other = w.ok_json("inspect ./assets/pocket");
    let built_in = w.ok_json("inspect pocket");
    assert_ne!(other["totals"]["parameters"], built_in["totals"]["parameters"]);
}
