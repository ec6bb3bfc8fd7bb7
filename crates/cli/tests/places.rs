//! Where jobs write: below a recipe nowhere but in its directory, and never where a record says.

use crate::train_net::{MLP, workshop as images};
use crate::workshop::{Workshop, names};
use serde_json::{Value, json};
use std::fs;

/// A sweep of two sizes.
const SWEEP: &str =
    "sweep model --roles fc_in --layers 0 --size rate=9,5 --text text.jsonl --evaluation window=64";

/// Changes a JSON file.
fn change(w: &Workshop, name: &str, change: impl FnOnce(&mut Value)) {
    let mut value = w.json(name);
    change(&mut value);
    w.write(name, value.to_string());
}

#[test]
fn reproduce_trains_again_and_leaves_a_checkpoint_alone() {
    let w = images();
    w.ok(&format!("{MLP} --epochs 20 --checkpoint kept -o mlp"));
    assert!(!w.text("mlp/reproduce.json").contains("kept"), "a place is not a part of the record");
    assert!(!w.text("mlp/recipe.yaml").contains("kept"));
    // A record that names places all the same, of another program or an attacker.
    w.write("kept", "not a checkpoint");
    let outside = w.path("outside.html").display().to_string();
    change(&w, "mlp/reproduce.json", |record| {
        record["job"]["train_net"]["checkpoint"] = json!(w.path("kept"));
        record["job"]["train_net"]["output"] = json!(outside);
        record["job"]["train_net"]["force"] = json!(true);
    });
    w.write("outside.html", "mine");
    let again = w.run("reproduce mlp -o again");
    assert!(again.stderr.contains("record names as checkpoint is not used"), "{}", again.stderr);
    assert!(again.stdout.contains("everything was computed again"), "{}", again.stdout);
    // Only the record differs.
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stdout.contains("8 of 9 files"), "{}", again.stdout);
    assert!(again.stdout.contains("reproduce.json  different"), "{}", again.stdout);
    assert_eq!(
        (w.text("kept"), w.text("outside.html")),
        ("not a checkpoint".into(), "mine".into())
    );
    for verb in ["run", "merge", "reproduce"] {
        change(&w, "mlp/reproduce.json", |record| {
            record["job"] = json!({ verb: {"recipe": "main-job", "directory": "mlp"} });
        });
        w.fails("reproduce mlp -o third", 1, &["its job is of no known kind"]);
    }
    assert!(!w.path("third").exists());
}

#[test]
fn reproduce_uses_pieces_of_the_store_only_if_asked_and_says_so() {
    let w = Workshop::new();
    w.ok(&format!("{SWEEP} -o out"));
    let pieces = w.ok_json("cache list")["pieces"].clone();
    let anew = w.ok_json("reproduce out -o anew");
    assert_eq!(anew["reused"], 0, "{anew}");
    assert_eq!(w.ok_json("cache list")["pieces"], pieces, "its pieces are not kept either");
    let reused = w.ok_json("reproduce out -o reused --reuse");
    assert!(reused["reused"].as_u64().unwrap() > 0, "{reused}");
    let said = w.ok("reproduce out -o told --reuse");
    assert!(said.contains("finished pieces are of the store, not computed again"), "{said}");
    let hidden = w.names().into_iter().filter(|name| name.starts_with('.'));
    assert_eq!(hidden.collect::<Vec<_>>(), [""; 0], "no store is left behind");
}

/// A recipe of a job that writes a page and spectra, with one place instead of another.
fn recipe(place: &str) -> String {
    format!("version: 1\njobs:\n  - inspect: {{model: model, spectra: true, {place}}}\n")
}

#[test]
fn a_recipe_writes_in_its_directory_or_is_refused() {
    let w = Workshop::new();
    let outside = w.path("outside").display().to_string();
    for place in ["html", "output", "cache"] {
        for (given, why) in [
            (outside.as_str(), "is an absolute path"),
            ("../outside", "leaves the directory of the run by .."),
            ("pages/../../outside", "leaves the directory of the run by .."),
            ("''", "is not below"),
            (".", "is not below"),
            ("results.json", "used by a file of the run"),
            (".lock", "used by a file of the run"),
            ("{from: inspect-1}", "refers to another job"),
        ] {
            w.write("r.yaml", recipe(&format!("{place}: {given}, force: true")));
            w.fails("run -r r.yaml -o out", 3, &["inspect-1", place, why]);
            // The same where it stands beside the jobs, and in what a directory records.
            let beside = recipe("by: layer").replace("jobs:", &format!("{place}: {given}\njobs:"));
            w.write("r.yaml", beside);
            w.fails("run -r r.yaml -o out --dry-run", 3, &["inspect-1", place, why]);
        }
    }
    w.write("r.yaml", recipe("html: pages/a.html, output: found.json, cache: spectra"));
    w.ok("run -r r.yaml -o out");
    for name in ["pages/a.html", "found.json", "spectra"] {
        assert!(w.path(&format!("out/{name}")).exists(), "{name}");
    }
    assert_eq!(names(w.store()), [""; 0], "the recipe has a store of its own");
    let again = w.ok_json("reproduce out -o again");
    assert_eq!(again["files"]["pages/a.html"], "same", "{again}");
    // What was removed is made again.
    fs::remove_file(w.path("out/pages/a.html")).unwrap();
    w.ok("run -r r.yaml -o out");
    assert!(w.path("out/pages/a.html").is_file());
    change(&w, "out/reproduce.json", |record| {
        record["recipe"]["jobs"][0]["inspect"]["html"] = json!(outside);
    });
    w.fails("reproduce out -o third", 3, &["html", "is an absolute path"]);
    assert!(!w.path("outside").exists() && !w.path("third").exists());
}

#[test]
fn jobs_of_a_recipe_do_not_write_over_each_other() {
    let w = Workshop::new();
    for (one, other) in
        [("html: a", "html: a"), ("html: a/b", "output: a"), ("output: a", "cache: a/c")]
    {
        let second = format!("  - inspect: {{model: model, {other}}}\n");
        w.write("r.yaml", recipe(one) + &second);
        w.fails("run -r r.yaml -o out", 3, &["inspect-1 writes a", "inspect-2 writes a"]);
    }
    w.write(
        "r.yaml",
        recipe("cache: a") + "  - inspect: {model: model, spectra: true, cache: a}\n",
    );
    w.ok("run -r r.yaml -o out");
    let job = "export: {model: model, form: dense}";
    w.write("r.yaml", format!("version: 1\njobs:\n  - {job}\n    name: fingerprint\n"));
    w.ok("run -r r.yaml -o other");
    assert!(w.path("other/jobs/fingerprint").is_dir(), "beside the file of the run itself");
}

#[test]
#[cfg(unix)]
fn a_link_leads_out_of_no_recipe() {
    use std::os::unix::fs::symlink;
    let w = Workshop::new();
    fs::create_dir(w.path("elsewhere")).unwrap();
    w.write("r.yaml", recipe("html: pages/a.html"));
    for (out, link) in [("one", "pages"), ("two", "pages/a.html"), ("three", "inspect-1.json")] {
        w.ok(&format!("run -r r.yaml -o {out}"));
        // What was removed is made again, but not through a link.
        let path = w.path(&format!("{out}/{link}"));
        match path.is_dir() {
            true => fs::remove_dir_all(&path).unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
        let target = if link == "pages" { "elsewhere" } else { "elsewhere/a.html" };
        symlink(w.path(target), &path).unwrap();
        // What a finished job wrote is looked at before its places are.
        let code = if link == "pages" { 3 } else { 1 };
        w.fails(&format!("run -r r.yaml -o {out}"), code, &["inspect-1", "is a link"]);
        assert_eq!(names(&w.path("elsewhere")), [""; 0], "{link}");
    }
}

#[test]
fn sweeps_of_a_recipe_keep_their_store_in_its_directory() {
    let w = Workshop::new();
    let text = |cache: &str| {
        format!(
            "version: 1\ntitle: t\nmodel: model\njobs:\n  - sweep: {{text: text.jsonl, evaluation: {{window: 64}}, \
             roles: fc_in, layers: 0, size: rate=9, cache: {cache}}}\n    name: one\n"
        )
    };
    w.write("r.yaml", text("/tmp/linwright-outside"));
    w.fails("run -r r.yaml -o out", 3, &["one", "cache", "is an absolute path"]);
    w.write("r.yaml", text("pieces"));
    w.ok("run -r r.yaml -o out");
    assert!(w.path("out/pieces").is_dir() && w.path("out/one/result.json").is_file());
}

#[test]
fn what_a_job_changes_in_place_was_made_by_its_recipe() {
    let w = Workshop::new();
    let cache = "attribute_cache: {model: model, train: text.jsonl, compress: 'factgrass:16'}";
    w.write("r.yaml", format!("version: 1\njobs:\n  - {cache}\n"));
    w.ok("run -r r.yaml -o first");
    let store = "first/attribute-cache-1";
    let before = names(&w.path(store));
    w.write("r.yaml", format!("version: 1\njobs:\n  - attribute_fisher: {{store: {store}}}\n"));
    w.fails("run -r r.yaml -o out", 3, &["attribute-fisher-1", "store", "{from: NAME}"]);
    assert_eq!(names(&w.path(store)), before);
    let fisher = "attribute_fisher: {store: {from: attribute-cache-1}}";
    w.write("r.yaml", format!("version: 1\njobs:\n  - {cache}\n  - {fisher}\n"));
    w.ok("run -r r.yaml -o out");
}

#[test]
fn a_merge_writes_beside_its_output_what_the_shards_named() {
    let w = Workshop::new();
    let inspect = "inspect model --spectra --html page.html";
    for shard in ["0/2", "1/2"] {
        w.ok(&format!("{inspect} --shard {shard} -o s{}", &shard[..1]));
    }
    fs::create_dir(w.path("to")).unwrap();
    w.ok("merge s0 s1 -o to/all.json");
    assert_eq!(names(&w.path("to")), ["all.json", "page.html"]);
    let outside = w.path("outside.html").display().to_string();
    for place in [outside.as_str(), "../outside.html"] {
        for shard in ["s0", "s1"] {
            change(&w, &format!("{shard}/shard.json"), |record| {
                record["places"]["html"] = json!(place);
                record["job"]["inspect"]["force"] = json!(true);
            });
        }
        fs::remove_dir_all(w.path("to")).unwrap();
        fs::create_dir(w.path("to")).unwrap();
        let merged = w.run("merge s0 s1 -o to/all.json");
        assert!(merged.stderr.contains("html of the shards is"), "{merged:?}");
        assert_eq!(names(&w.path("to")), ["all.json"]);
        assert!(!w.path("outside.html").exists());
    }
}

#[test]
fn a_printed_recipe_has_no_place_that_it_could_not_have() {
    let w = Workshop::new();
    let outside = w.path("out").display().to_string();
    let printed = w.run(&format!("inspect model --html page.html -o {outside} --print-recipe"));
    assert!(printed.stderr.contains("output is left out"), "{printed:?}");
    assert!(!printed.stdout.contains(&outside), "{printed:?}");
    w.write("r.yaml", &printed.stdout);
    w.ok("run -r r.yaml -o run");
    assert!(w.path("run/page.html").is_file() && w.path("run/inspect-1.json").is_file());
}
