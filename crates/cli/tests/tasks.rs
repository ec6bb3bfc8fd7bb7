//! `eval --tasks`: tasks of files and those that come along.

use crate::workshop::Workshop;
use serde_json::{Value, json};

const TASK: &str = "task: boats\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n\
                    test_split: test\noutput_type: multiple_choice\ndoc_to_text: \"{{question}} A:\"\n\
                    doc_to_target: gold\ndoc_to_choice: choices\nmetadata: {version: 2.0}\n";

/// A workshop with a task of six questions.
pub(crate) fn workshop() -> Workshop {
    let w = Workshop::new();
    let row = |i: usize| json!({"question": format!("Who saw boat {i}?"), "choices": ["Tom", "Mira did"], "gold": i % 2});
    let rows: Vec<String> = (0..6).map(|i| row(i).to_string()).collect();
    w.write("rows.jsonl", rows.join("\n"));
    w.write("boats.yaml", TASK);
    w
}

#[test]
fn a_task_file_gives_the_results_of_the_harness() {
    let w = workshop();
    let result = w.ok_json(
        "eval model --tasks boats.yaml --log-samples samples --bootstrap-iters 100 --max-length 64 \
         --batch-size 1",
    );
    let figures = &result["results"]["boats"];
    assert!((0.0..=1.0).contains(&figures["acc,none"].as_f64().unwrap()), "{result}");
    assert!(figures["acc_norm_stderr,none"].is_number());
    assert_eq!((&figures["name"], &figures["sample_len"]), (&json!("boats"), &json!(6)));
    assert_eq!(
        (&result["versions"]["boats"], &result["n-shot"]["boats"]),
        (&json!(2.0), &json!(0))
    );
    assert_eq!(result["configs"]["boats"]["doc_to_target"], "gold");
    assert_eq!(result["linwright"]["protocols"]["boats"], "lm-eval_0-shot_bos-auto");
    let samples = w.text("samples/samples_boats.jsonl");
    let first: Value = serde_json::from_str(samples.lines().next().unwrap()).unwrap();
    assert_eq!(samples.lines().count(), 6);
    assert_eq!(first["arguments"]["gen_args_1"]["arg_1"], " Mira did");
    let shown = w.ok("eval model --tasks boats.yaml --limit 3");
    assert!(shown.contains("boats") && shown.contains("acc_norm"), "{shown}");
}

#[test]
fn the_standard_tasks_take_their_rows_from_files() {
    let w = workshop();
    w.write("sst2.tsv", "sentence\tlabel\nTom saw a boat\t1\nMira lost the key\t0\n");
    let args = "eval model --tasks sst2 --data sst2=sst2.tsv --data sst2:train=sst2.tsv";
    let plain = w.ok_json(args);
    assert_eq!(plain["n-samples"]["sst2"], json!({"original": 2, "effective": 2}));
    let shots = w.ok_json(&format!("{args} --num-fewshot 1 --fewshot-seed 5 --limit 1"));
    assert_eq!(shots["n-shot"]["sst2"], 1);
    assert_eq!(shots["n-samples"]["sst2"], json!({"original": 2, "effective": 1}));
    w.fails("eval model --tasks sst2", 1, &["--data sst2:validation=FILE"]);
    w.fails("eval model --tasks nothing_like_any", 2, &["arc_easy", ".yaml"]);
    w.fails("eval model --tasks sst", 2, &["nearest are sst2"]);
    w.fails(
        "eval model --tasks boats.yaml --data sst2=x.tsv",
        2,
        &["sst2, which is not a task of this command"],
    );
    w.fails("eval model --tasks boats.yaml --data sst2", 2, &["TASK=FILE"]);
    w.fails("eval model --tasks boats.yaml,boats.yaml", 2, &["names boats.yaml twice"]);
    w.fails("eval model --tasks boats.yaml --batch-size 0", 2, &["thousands of tokens"]);
}

#[test]
fn what_an_interrupted_evaluation_kept_is_used_and_another_is_refused() {
    let w = workshop();
    let args = "eval model --tasks boats.yaml --output result.json --force";
    let whole = w.ok_json(args);
    assert_eq!(w.unfinished(), [Value::Null; 0], "journals go once the result is written");
    std::fs::create_dir(w.path("folder")).unwrap();
    w.fails("eval model --tasks boats.yaml --output folder", 2, &["folder", "is a directory"]);
    // A shard keeps the same journals in its own directory.
    let shard = "eval model --tasks boats.yaml --output part --shard 0/2";
    w.ok(shard);
    let journal = w.path(&format!("part/boats-{}.jsonl", hash(&whole)));
    let lines = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, "{\"evaluation\":{\"version\":\"0\"}}\n").unwrap();
    w.fails(shard, 6, &["another evaluation", "version"]);
    std::fs::write(&journal, lines).unwrap();
    // Two at once would write each other's lines.
    let held = std::fs::File::open(&journal).unwrap();
    held.lock().unwrap();
    w.fails(shard, 1, &["is in use by another process", "another output"]);
    drop(held);
    w.ok(shard);
}

#[test]
fn an_evaluation_that_was_killed_goes_on() {
    let w = workshop();
    let row = |i: usize| json!({"question": format!("Who saw boat {i} of Tom, and the garden?"), "choices": ["Tom", "Mira did"], "gold": i % 2});
    let rows: Vec<String> = (0..4000).map(|i| row(i).to_string()).collect();
    w.write("rows.jsonl", rows.join("\n"));
    let args =
        "eval model --tasks boats.yaml --output result.json --batch-size 1 --bootstrap-iters 9";
    let lines_of = |folder: std::fs::DirEntry| {
        let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
        let text = |file: std::fs::DirEntry| std::fs::read_to_string(file.path());
        files.map(|file| text(file).unwrap_or_default().lines().count()).sum::<usize>()
    };
    let kept = || {
        let works = std::fs::read_dir(w.store().join("unfinished")).into_iter().flatten().flatten();
        works.map(lines_of).sum()
    };
    let killed = || {
        let mut child = w.command(args).spawn().unwrap();
        let (mut lines, began): (usize, _) = (kept(), std::time::Instant::now());
        while lines < 50 {
            let is_at_work = child.try_wait().unwrap().is_none();
            assert!(began.elapsed().as_secs() < 120 && is_at_work, "{lines}");
            std::thread::sleep(std::time::Duration::from_millis(5));
            lines = kept();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    };
    killed();
    assert!(!w.path("result.json").exists());
    let again = w.run(args);
    assert!(again.stderr.contains(" batches are already computed"), "{}", again.stderr);
    again.succeeded(args);
    let undisturbed = w.ok_json("eval model --tasks boats.yaml --batch-size 1 --bootstrap-iters 9");
    assert_eq!(w.json("result.json")["results"], undisturbed["results"]);
    assert_eq!(w.unfinished(), [Value::Null; 0]);
    // If a file of the model has changed, it starts over.
    std::fs::remove_file(w.path("result.json")).unwrap();
    killed();
    let works = std::fs::read_dir(w.store().join("unfinished")).unwrap().flatten();
    let files = works.flat_map(|work| std::fs::read_dir(work.path()).unwrap().flatten());
    let journal = files.map(|file| file.path()).find(|path| path.extension().is_some()).unwrap();
    let text = std::fs::read_to_string(&journal).unwrap();
    assert!(text.starts_with("{\"evaluation\":{\""), "{}", &text[..80]);
    std::fs::write(&journal, text.replacen("{\"evaluation\":{", "{\"evaluation\":{\"was\":1,", 1))
        .unwrap();
    let anew = w.run(args);
    assert!(anew.stderr.contains("what an earlier try computed is left out"), "{}", anew.stderr);
    anew.succeeded(args);
    assert_eq!(w.json("result.json")["results"], undisturbed["results"]);
}

#[test]
fn groups_have_the_means_of_their_tasks() {
    let w = workshop();
    w.write("more.yaml", "include: boats.yaml\ntask: more\nnum_fewshot: 1\nfewshot_config: {sampler: first_n, split: test}\n");
    w.write(
        "all.yaml",
        "group: all\ngroup_alias: everything\ntask: [boats, more]\naggregate_metric_list: [{metric: acc}]\n",
    );
    let result = w.ok_json("eval model --tasks all.yaml");
    let of = |task: &str| result["results"][task]["acc,none"].as_f64().unwrap();
    let mean = (of("boats") + of("more")) / 2.0;
    assert!((result["groups"]["all"]["acc,none"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert_eq!(result["groups"]["all"]["alias"], "everything");
    assert_eq!(result["groups"]["all"]["sample_len"], 12);
    assert_eq!(result["group_subtasks"]["all"], json!(["boats", "more"]));
    assert_eq!(result["n-shot"]["more"], 1);
    let shown = w.ok("eval model --tasks all.yaml");
    assert!(shown.contains("everything"), "{shown}");
    w.write("all.yaml", "group: all\ntask: [boats, absent]\n");
    w.fails("eval model --tasks all.yaml", 2, &["no task is called \"absent\""]);
}

#[test]
fn prompts_can_be_conversations() {
    let w = workshop();
    w.fails("eval model --tasks boats.yaml --apply-chat-template", 2, &["no chat template"]);
    w.fails("eval model --tasks boats.yaml --fewshot-as-multiturn", 2, &["--apply-chat-template"]);
    w.write(
        "model/chat_template.jinja",
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}\
         {% if add_generation_prompt %}[assistant] {% endif %}",
    );
    let first = |args: &str| {
        let all =
            "eval model --tasks boats.yaml --log-samples samples --force --apply-chat-template";
        let result = w.ok_json(&format!("{all} {args}"));
        let samples = w.text("samples/samples_boats.jsonl");
        let sample: Value = serde_json::from_str(samples.lines().next().unwrap()).unwrap();
        (sample["arguments"]["gen_args_1"].clone(), result)
    };
    let (asked, result) = first("--system-instruction Brief!");
    assert_eq!(asked["arg_0"], "[system] Brief!\n[user] Who saw boat 0? A:\n[assistant] ");
    assert_eq!(asked["arg_1"], "Mira did", "a choice begins the answer");
    assert_eq!(result["system_instruction"], "Brief!");
    assert!(result["chat_template"].as_str().unwrap().contains("m.role"));
    let protocol = &result["linwright"]["protocols"]["boats"];
    assert_eq!(protocol, "lm-eval_0-shot_bos-auto_chat_system-instruction");
    let config = "fewshot_config: {sampler: first_n, split: test}\n";
    w.write("boats.yaml", format!("{TASK}{config}"));
    let question = "Who saw boat 0? A:";
    let (asked, _) = first("--num-fewshot 1");
    // The first example is the document itself, which is left out where its split is the same.
    let other = "Who saw boat 1? A:";
    assert_eq!(asked["arg_0"], format!("[user] {other} Mira did\n\n{question}\n[assistant] "));
    let (asked, result) = first("--num-fewshot 1 --fewshot-as-multiturn");
    let want = format!("[user] {other}\n[assistant] Mira did\n[user] {question}\n[assistant] ");
    assert_eq!(asked["arg_0"], want);
    assert_eq!(result["fewshot_as_multiturn"], true);
}

#[test]
fn sentences_are_compared_by_their_vectors() {
    let w = workshop();
    let line = |i: usize| format!("g\tf\ty\t{i}\t{}\tTom saw boat {i}\tMira lost the key\n", i % 6);
    w.write("pairs.tsv", (0..12).map(line).collect::<String>());
    let result = w.ok_json("eval model --tasks stsb --data stsb=pairs.tsv --log-samples samples");
    let spearman = result["results"]["stsb"]["cosine_spearman,none"].as_f64().unwrap();
    assert!((-1.0..=1.0).contains(&spearman), "{result}");
    assert_eq!(result["linwright"]["protocols"]["stsb"], "sentence-pairs_cosine_pool-mean");
    assert_eq!(w.text("samples/samples_stsb.jsonl").lines().count(), 12);
    // The order of pairs and the size of batches change nothing.
    let small = w.ok_json("eval model --tasks stsb --data stsb=pairs.tsv --batch-size 1");
    assert_eq!(small["results"], result["results"]);
    w.fails("eval model --tasks stsb", 2, &["--data stsb=FILE"]);
    w.write("model/modules.json", "[{\"type\": \"x.Odd\", \"path\": \"\"}]");
    let words = ["modules.json lists x.Odd, which is not a module of sentence-transformers"];
    w.fails("eval model --tasks stsb --data stsb=pairs.tsv", 1, &words);
}

#[test]
fn task_files_are_validated() {
    let w = workshop();
    let shown = w.ok("validate boats.yaml arc_easy");
    for word in ["boats", "multiple_choice", "Who saw boat 0? A:", "Mira did", "only its file"] {
        assert!(shown.contains(word), "{word:?} is not in {shown}");
    }
    let all = w.ok_json("validate --tasks boats.yaml");
    assert_eq!(
        (&all[0]["documents"], &all[0]["first_continuations"][0]),
        (&json!(6), &json!(" Tom"))
    );
    w.fails("validate", 2, &["TASK"]);
    w.write("broken.yaml", TASK.replace("A:", "{{ A:"));
    w.fails("validate broken.yaml", 1, &["broken.yaml", "doc_to_text", "line 1 of the template"]);
}

#[test]
fn a_result_is_rendered_again() {
    let w = workshop();
    w.ok("eval model --tasks boats.yaml --output result.json");
    let shown = w.ok("report result.json");
    assert!(shown.contains("Evaluation of model") && shown.contains("acc_norm"), "{shown}");
    assert!(w.ok("report result.json --format markdown").contains("| boats | 2.0 | none | 0 |"));
    assert!(w.ok("report result.json --format html").contains("<h1>model</h1>"));
    w.write("other.json", "{}");
    w.fails("report other.json", 1, &["is not a saved result"]);
}

#[test]
fn memory_is_bounded() {
    let w = workshop();
    let args = "eval model --tasks boats.yaml";
    let free = w.ok_json(args);
    assert!(free["linwright"]["peak_resident_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20));
    let bounded = w.ok_json(&format!("{args} --max-memory 2GB"));
    assert_eq!(bounded["results"], free["results"]);
    w.fails(&format!("{args} --max-memory 1MB"), 5, &["--max-memory", "allow"]);
    w.fails(&format!("{args} --max-memory 1XB"), 2, &["unknown unit"]);
    // A tokenizer takes more than a hundred times a text, so a long one is refused before it is
    // read.
    w.write("long.txt", "the boat went home. ".repeat(100_000));
    w.write(
        "long.jsonl",
        format!("{{\"text\": \"{}\"}}\n", "the boat went home. ".repeat(100_000)),
    );
    for text in ["long.txt", "long.jsonl"] {
        let args = format!("eval model --text {text} --window 64 --max-memory 300MB");
        w.fails(&args, 5, &["2000", "more than --max-memory", "cut the text"]);
    }
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_without_waiting() {
    let w = workshop();
    let pipe = w.path("pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", w.path("zero.txt")).unwrap();
    w.write("zero.yaml", "include: zero.txt\n");
    for (args, found) in [
        ("eval model --text pipe.jsonl", "a pipe, expected a regular file"),
        ("eval model --text zero.txt", "a device, expected a regular file"),
        ("eval pipe.jsonl --text text.jsonl", "pipe.jsonl"),
        ("eval model --tasks zero.yaml", "a device, expected a regular file"),
        ("eval model --tasks boats.yaml --data boats=pipe.jsonl", "a pipe"),
        ("generate model --prompt-file pipe.jsonl", "a pipe"),
        ("run --recipe pipe.jsonl", "a pipe"),
        ("report pipe.jsonl", "pipe.jsonl"),
    ] {
        let outcome = w.run(args);
        assert!(outcome.code.is_some_and(|code| code != 0), "{args}: {outcome:?}");
        assert!(outcome.stderr.contains(found), "{args}: {}", outcome.stderr);
    }
}

/// The first letters of the hash of the model.
fn hash(result: &Value) -> String {
    result["linwright"]["model_sha256"].as_str().unwrap()[..12].to_owned()
}

#[test]
fn two_models_are_compared_item_by_item() {
    let w = workshop();
    w.ok("compress model --keep 0.4 --calibration calibration.jsonl -o small --quiet");
    let result = w.ok_json("eval small --baseline model --tasks boats.yaml");
    let compared = result["linwright"]["comparisons"].as_array().unwrap();
    assert_eq!(compared.len(), 2, "{result}");
    assert_eq!((&compared[0]["metric"], &compared[0]["items"]), (&json!("acc"), &json!(6)));
    assert!(compared[0]["mcnemar_p"].as_f64().unwrap() <= 1.0);
    let shown = w.ok("eval small --baseline model --tasks boats.yaml");
    assert!(shown.contains("McNemar"), "{shown}");
}

#[test]
fn the_protocols_of_papers_are_tasks() {
    let w = workshop();
    let args =
        "eval model --tasks wikitext2_token_ppl_128 --data wikitext2_token_ppl_128=text.jsonl";
    let result = w.ok_json(args);
    assert_eq!(
        result["linwright"]["protocols"]["wikitext2_token_ppl_128"],
        "wikitext2_token_ppl_128"
    );
    let counted = result["linwright"]["tokens_counted"].as_u64().unwrap();
    assert!(counted > 0 && counted.is_multiple_of(127), "{counted}");
    w.fails("eval model --tasks rotor_paper", 2, &["--data rotor_paper=FILE"]);
}

#[test]
fn broken_rows_are_named_by_line() {
    let w = workshop();
    for (rows, said) in [
        ("{\"question\": \"Q\", \"choices\": [\"a\"], \"gold\": 0}\n{", "rows.jsonl, line 2"),
        ("{\"question\": \"Q\", \"choices\": [], \"gold\": 0}", "doc_to_choice of task boats"),
        ("{\"choices\": [\"a\"], \"gold\": 0}", "doc_to_text of task boats"),
        ("[1]", "expected an object"),
    ] {
        w.write("rows.jsonl", rows);
        w.fails("eval model --tasks boats.yaml", 1, &[said]);
    }
    w.write("boats.yaml", "task: boats\nprocess_docs: !function os.system\ntest_split: test\n");
    w.fails("eval model --tasks boats.yaml", 1, &["boats.yaml", "never executed"]);
}
