//! Results of all verbs: each has a kind, is read back as it was, and is reported by
//! `linwright report`.

use crate::collapse::five_layers;
use crate::flow::MOONS;
use crate::numbers::{BASES, furnished, with_texts};
use crate::workshop::Workshop;
use linwright::jobs::{STREAMED, VERBS, Verb, result_kinds, saved_result};
use linwright::report::markdown;
use linwright::run::measured::join;
use serde_json::Value;
use std::collections::BTreeSet;

/// Verbs whose results have another format: that of lm-evaluation-harness, and those of recipes.
const UNTYPED: &[&str] = &["eval", "run"];

/// Verbs whose results are those of the jobs that they run.
const OF_OTHERS: &[&str] = &["merge"];

/// Verbs whose command in [`BASES`] has too little data for a result.
const TOO_SMALL: &[&str] = &["collapse-relate"];

/// Commands beside [`BASES`] that have results of other kinds. `OUT` is a place of their own.
const MORE: &[&str] = &[
    "flow train --data=moons --architecture=depth=1,hidden=4 --steps=2 --training=batch=8 --dry-run -o OUT",
    "train-net mlp:8 --images=a-images-idx3-ubyte --steps=2 --dry-run -o OUT",
    "molecule info potential",
    "molecule train --data=a.xyz --architecture=channels=8,layers=1,radial=8 --steps=2 --dry-run -o OUT",
    "molecule compress potential --keep=0.5 --calibration=a.xyz --dry-run -o OUT",
    // Also with what the commands above have none of.
    "molecule compress potential --keep=0.5 --calibration=a.xyz --test=a.xyz --recover=2 -o OUT",
    "inspect model --slots",
    "import model/model.safetensors -o OUT",
    "eval model --text=text.jsonl --window=64 --dry-run",
    "compress model --keep=0.5 --roles=query CALIBRATION --dry-run -o OUT",
    "compress model --method=best --keep=0.5 --roles=query CALIBRATION --dry-run -o OUT",
    "compress model --method=width --keep=0.9 CALIBRATION --dry-run -o OUT",
    "compare model --keep=0.5 --methods=low_rank,slicegpt --roles=query CALIBRATION TEXT --dry-run",
    "compare model --keep=0.5 --methods=low_rank --no-controls --roles=query --seed=0,1 CALIBRATION TEXT -o OUT",
    "compare-net net --calibration=a-images-idx3-ubyte:examples=0-5 --images=a-images-idx3-ubyte:examples=6-9 \
     --keep=0.5 --methods=svd --no-controls --dry-run",
    "export smaller --form=lora --base=model --rank=4 -o OUT",
    "train-lm --text=text.jsonl --architecture=hidden=8,layers=1,context=16 --vocab=280 --steps=2 --dry-run -o OUT",
    "train-lm --steps=1 --dry-run -o OUT",
    "train-lm --steps=1 -o OUT",
    "attribute cache model --train=docs.jsonl --compress=factgrass:16 --dry-run -o OUT",
    "attribute lds netstore --images=a-images-idx3-ubyte:examples=0-2 --remove=2 --steps=2 \
     --methods=cosine -o OUT",
    "attribute lds netstore --images=a-images-idx3-ubyte --subsets=2 --steps=2 --shard=0/2 -o OUT",
    "attribute score store --query=query.jsonl --by-layer --groups=*mlp* -o OUT",
    "collapse depth --depths=2,3 --steps=2 --classes=2 --per-class=3 --architecture=rn1:width=4 --shard=0/2 -o part",
    "merge part --fill -o OUT",
    "collapse measure --sums=sums.safetensors",
    "collapse measure --net=net --images=a-images-idx3-ubyte -o net.json",
    "collapse watch lm.json net.json",
    "collapse relate --measured=lm5.json --sweeps=swept5.json --draws=50",
    "reproduce flow -o OUT",
];

/// Commands that write a result of another kind beside a model, which stands in `OUT`.
const BESIDE: &[&str] = &[
    "compare model --keep=0.5 --methods=low_rank --no-controls --roles=query CALIBRATION TEXT -o OUT-run --save-best OUT",
];

/// Options with which a command of [`BASES`] succeeds.
const GOALS: &[(&str, &str)] =
    &[("molecule-relax", "--fmax=1000"), ("search", "--evaluation=window=64")];

/// The command of a verb in [`BASES`], which succeeds.
fn base(verb: &Verb) -> Option<String> {
    let (_, base) = BASES.iter().find(|(name, _)| *name == verb.name)?;
    if TOO_SMALL.contains(&verb.name) {
        return None;
    }
    let word = |word: &str| match word.trim_matches(['{', '}']).split_once('=') {
        Some((_, value)) if word.starts_with('{') => value.to_owned(),
        _ => word.to_owned(),
    };
    let goal = GOALS.iter().find(|(name, _)| *name == verb.name).map(|(_, goal)| *goal);
    let base = with_texts(base);
    let words: Vec<String> = base.split_whitespace().chain(goal).map(word).collect();
    Some(format!("{} {}", verb.words(), words.join(" ")))
}

/// Runs a command; gives the kind of its result, after it was read back and reported.
fn kind_of(w: &Workshop, line: &str) -> String {
    let result = w.ok_json(line);
    let kind = kind_of_result(line, &result);
    w.write("result-of-verb.json", result.to_string());
    let Value::Object(map) = result else { panic!("{line}: {result}") };
    let again = saved_result(map).unwrap();
    let shown = w.ok("report result-of-verb.json --format markdown");
    let mut document = again.document();
    document.blocks.extend(again.times());
    assert_eq!(shown.trim(), markdown::render(&document).trim(), "{line}");
    kind
}

/// The kind of a result, which is the same when it is read back, and has a report.
fn kind_of_result(line: &str, result: &Value) -> String {
    let Value::Object(map) = result.clone() else { panic!("{line}: {result}") };
    let again = saved_result(map).unwrap_or_else(|error| panic!("{line}: {error}"));
    let mut bytes = Vec::new();
    again.write(&mut bytes).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), *result, "{line}");
    assert!(!again.document().blocks.is_empty(), "{line}: an empty report");
    result["kind"].as_str().unwrap().to_owned()
}

#[test]
fn results_of_all_verbs_are_read_back_and_reported() {
    let w = furnished();
    w.ok("compress model --rank=2 --roles=query --method=svd -o smaller");
    five_layers(&w, "sweep/result.json");
    let verbs: Vec<&Verb> = VERBS.iter().chain(STREAMED).collect();
    for verb in &verbs {
        let is_typed = !verb.results.is_empty();
        let is_listed = UNTYPED.contains(&verb.name) || OF_OTHERS.contains(&verb.name);
        assert_ne!(is_typed, is_listed, "{}", verb.name);
    }
    let typed = verbs.iter().filter(|verb| !verb.results.is_empty());
    let lines = typed.filter_map(|verb| base(verb)).chain(MORE.iter().map(|line| with_texts(line)));
    let mut seen = BTreeSet::new();
    for (at, line) in lines.enumerate() {
        let place = format!("out-{at}");
        seen.insert(kind_of(&w, &line.replace("OUT", &place)));
    }
    for line in BESIDE {
        w.ok(&with_texts(line).replace("OUT", "beside"));
        let mut result = w.json("beside/results.json");
        join(&mut result, w.json("beside/measured.json")["measured"].take());
        seen.insert(kind_of_result(line, &result));
    }
    let all: BTreeSet<String> = result_kinds().map(|kind| kind.name.to_owned()).collect();
    assert_eq!(seen, all, "a command for each kind stands in BASES, MORE or BESIDE");
}

#[test]
fn a_result_of_no_kind_or_of_another_version_is_refused() {
    let w = Workshop::new();
    let whole = r#"{"kind": "flow-evil", "version": 1, "linwright": "0.1.0"}"#;
    w.write("other.json", whole);
    w.fails("report other.json", 1, &["flow-evil", "flow-eval"]);
    w.write("newer.json", whole.replace("evil", "eval").replace(": 1", ": 2"));
    w.fails("report newer.json", 1, &["version 2", "version 1"]);
    w.write("part.json", whole.replace("evil", "eval"));
    w.fails("report part.json", 1, &["missing field `flow`"]);
}

#[test]
fn a_file_without_times_shows_none_and_one_without_a_kind_says_what_to_do() {
    let w = Workshop::new();
    w.ok(&format!("{MOONS} --steps 2 -o flow"));
    let (alone, whole) = (w.ok("report flow/results.json"), w.ok("report flow"));
    assert!(alone.contains("2 steps of training") && !alone.contains("training: "), "{alone}");
    assert!(whole.contains(alone.trim()) && whole.contains("training: "), "{whole}");
    w.write("old.json", r#"{"schema": 1, "linwright": "0.1.0", "flow": "flow"}"#);
    w.fails("report old.json", 1, &["is not a saved result", "`kind`", "run the command again"]);
}
