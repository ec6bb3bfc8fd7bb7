//! Every command that takes a model, on a tiny checkpoint of every family: it works, or it says
//! before any work why it cannot, and leaves nothing behind. The commands are those that the help
//! lists, the families those that `ls families` lists, so that no pair can be forgotten.

use crate::workshop::{Outcome, VOCAB, Workshop};
use linwright::model::TransformerConfig;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Decoder,
    Masked,
    Headless,
}

/// How a command must end with a kind of model.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Works,
    /// Refused, and the reason has this word.
    Refuses(&'static str),
    /// Not a command for such folders; either is right.
    Either,
}

use Ends::{Either, Refuses, Works};

/// A command and what must come of it for decoders, masked language models and encoders without a
/// head. `MODEL` is the checkpoint, `LAYER` its layer with most linear ones, `SITE` one of those.
struct Case {
    command: &'static str,
    options: &'static str,
    ends: [Ends; 3],
}

const fn works(command: &'static str, options: &'static str) -> Case {
    Case { command, options, ends: [Works; 3] }
}

/// A command for models that continue texts.
const fn writes(command: &'static str, options: &'static str) -> Case {
    Case { command, options, ends: [Works, Refuses("encoder"), Refuses("encoder")] }
}

/// A command that continues texts.
const fn asks(command: &'static str, options: &'static str) -> Case {
    Case { command, options, ends: [Works, Refuses("masked language model"), Refuses("no head")] }
}

const CASES: [Case; 30] = [
    works("inspect", "MODEL"),
    works("inspect", "MODEL --slots"),
    works(
        "compress",
        "MODEL --rank 1 --roles output --layers LAYER --calibration calibration.jsonl:num_tokens=300,seq_len=16 -o out",
    ),
    works(
        "compress",
        "MODEL --rank 1 --roles output --layers LAYER --calibration calibration.jsonl:num_tokens=300,seq_len=16 -t stsb --data stsb=pairs.tsv -o out",
    ),
    writes(
        "compress",
        "MODEL --method auto --keep 0.7 --roles output --layers LAYER --calibration calibration.jsonl:num_tokens=300,seq_len=16 -o out",
    ),
    writes(
        "compress",
        "MODEL --rank 1 --roles output --layers LAYER --calibration samples:num_tokens=100,seq_len=8 -o out",
    ),
    works(
        "compress",
        "MODEL --allocate spectrum --keep 0.7 --roles output --layers LAYER --calibration calibration.jsonl:num_tokens=300,seq_len=16 -o out",
    ),
    writes(
        "compress",
        "MODEL --method best --keep 0.7 --roles output --layers LAYER --calibration calibration.jsonl:num_tokens=300,seq_len=16 -o out",
    ),
    works(
        "compare",
        "MODEL --keep 0.7 --methods svd,width,modegpt,llm_pruner,slicegpt,drop_layers --calibration calibration.jsonl:num_tokens=300,seq_len=16 -t stsb --data stsb=pairs.tsv -o out",
    ),
    asks(
        "compare",
        "MODEL --keep 0.7 --methods svd --layers LAYER --calibration calibration.jsonl:num_tokens=300,seq_len=16 --text text.jsonl --limit 1 --evaluation window=16 -o out",
    ),
    works(
        "prune",
        "MODEL --keep 0.8 --calibration calibration.jsonl:num_tokens=300,seq_len=16 -o out",
    ),
    works("plan", "MODEL --keep 0.7 --roles output --layers LAYER --no-cache -o out"),
    works(
        "laser",
        "MODEL --no-cache --roles mlp --layers LAYER --rank 1 -t stsb --data stsb=pairs.tsv -o out",
    ),
    asks(
        "laser",
        "MODEL --no-cache --roles mlp --layers LAYER --rank 1 --text text.jsonl --limit 1 --evaluation window=16 -o out",
    ),
    works(
        "sweep",
        "MODEL --no-cache --roles fc_out --layers LAYER --rank 1,2 -t stsb --data stsb=pairs.tsv -o out",
    ),
    asks(
        "sweep",
        "MODEL --no-cache --roles fc_out --layers LAYER --rank 1 --text text.jsonl --limit 2 --evaluation window=16 -o out",
    ),
    works(
        "sweep",
        "MODEL --no-cache --roles output --sites *.LAYER.* --rank 1 -t stsb --data stsb=pairs.tsv -o out",
    ),
    works(
        "compose",
        "MODEL --no-cache --roles fc_out --layers LAYER --rank 1 -t stsb --data stsb=pairs.tsv -o out",
    ),
    asks(
        "search",
        "MODEL --roles fc_out --layers LAYER --ranks 1 --text text.jsonl --evaluation window=8 --calibration calibration.jsonl:num_tokens=600,seq_len=16 -o out",
    ),
    works("eval", "MODEL -t stsb --data stsb=pairs.tsv -o out"),
    asks("eval", "MODEL --text text.jsonl --limit 1 --window 16 -o out"),
    writes("generate", "MODEL -p Tom -n 2"),
    writes("chat", "MODEL -n 2"),
    writes("serve", "MODEL --port 0 --quiet"),
    asks("run", "-r tiny.yaml -m MODEL -o out"),
    works(
        "collapse lm",
        "MODEL --text text.jsonl --layers LAYER --num-tokens 200 --window 16 --resamples 0 --no-baselines",
    ),
    works("select", "MODEL --sites SITE --rank 2"),
    works("export", "MODEL -o out"),
    // The tokenizer of the checkpoints has no mask.
    Case {
        command: "attribute cache",
        options: "MODEL --train text.jsonl --reading max_length=16 --compress factgrass:16 -o out",
        ends: [Works, Refuses("no mask token"), Refuses("without the head")],
    },
    Case { command: "import", options: "MODEL -o out", ends: [Either; 3] },
];

/// Commands of more than one word, and those of one kind of model only.
const MORE: [Case; 1] = [Case {
    command: "bench model",
    options: "MODEL --tokens 4 --rounds 1",
    ends: [Works, Refuses("causal"), Refuses("causal")],
}];

const RECIPE: &str = "
version: 1
title: One row
model: model
calibration: {dataset: calibration.jsonl, num_tokens: 300, seq_len: 16}
text: text.jsonl
limit: 1
evaluation: {window: 16}
keep: []
no_controls: true
jobs:
  - compare: {layers: LAYER, roles: output, methods: [{method: low_rank, size: rank=1, label: LR1}]}
";

/// A tiny checkpoint.
pub(crate) struct Tiny {
    pub(crate) name: String,
    kind: Kind,
    config: Value,
    weights: PathBuf,
}

impl Tiny {
    /// Of every family and kind that the reference sets know, the first set.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
        let files = ["decoder", "encoder"].iter().flat_map(|kind| {
            fs::read_dir(folder.join(kind)).unwrap().map(|entry| entry.unwrap().path())
        });
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
        files.sort();
        let mut all: Vec<Self> = Vec::new();
        for file in files {
            let record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            let config = record["config"].clone();
            let read = TransformerConfig::from_json(&config).unwrap();
            let kind = match (read.is_causal(), read.masked_head) {
                (true, _) => Kind::Decoder,
                (false, true) => Kind::Masked,
                (false, false) => Kind::Headless,
            };
            let name = format!("{}-{kind:?}", read.family.model_type).to_lowercase();
            if !all.iter().any(|known| known.name == name) {
                all.push(Self { name, kind, config, weights: file.with_extension("safetensors") });
            }
        }
        all
    }

    /// Writes it into a workshop, with the tokenizer from there.
    pub(crate) fn write(&self, w: &Workshop) {
        let file = |name: &str| format!("{}/{name}", self.name);
        fs::create_dir(w.path(&self.name)).unwrap();
        let mut config = self.config.clone();
        config["vocab_size"] = json!(VOCAB);
        w.write(&file("config.json"), config.to_string());
        let vocab = self.config["vocab_size"].as_u64().unwrap();
        w.write(&file("model.safetensors"), enlarged(&fs::read(&self.weights).unwrap(), vocab));
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            w.write(&file(name), w.read(&format!("model/{name}")));
        }
        let template = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
        w.write(&file("chat_template.jinja"), template);
    }
}

/// A safetensors file in which what has a row for each token has as many as the workshop's
/// tokenizer knows.
fn enlarged(file: &[u8], vocab: u64) -> Vec<u8> {
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut header: Map<String, Value> = serde_json::from_slice(&file[8..8 + length]).unwrap();
    let mut data = Vec::new();
    for (name, tensor) in header.iter_mut().filter(|(name, _)| *name != "__metadata__") {
        let [from, to] = [0, 1].map(|i| tensor["data_offsets"][i].as_u64().unwrap() as usize);
        let own = &file[8 + length + from..8 + length + to];
        let start = data.len();
        // Names in layers have numbers.
        if tensor["shape"][0].as_u64() == Some(vocab) && !name.contains(char::is_numeric) {
            tensor["shape"][0] = json!(VOCAB);
            let bytes = own.len() / vocab as usize * VOCAB;
            data.extend(own.iter().cycle().take(bytes));
        } else {
            data.extend_from_slice(own);
        }
        tensor["data_offsets"] = json!([start, data.len()]);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes(), header.as_slice(), &data].concat()
}

/// Pairs of sentences with scores.
pub(crate) fn pairs(count: usize) -> String {
    let line = |i: usize| {
        let score = (i * 7 % 11) as f64 / 2.0;
        format!(
            "g\tf\ty\t{i}\t{score}\tTom saw boat {i}\tMira lost the key by the lake {}\n",
            i / 2
        )
    };
    (0..count).map(line).collect()
}

/// The words behind a heading of a help, until an empty line.
fn commands_of(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    // A name is indented by two columns; continuation lines are indented further.
    let named = list
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names =
        named.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// Commands without commands of their own that take a model, by their help.
fn commands_with_a_model(w: &Workshop) -> BTreeSet<String> {
    let (mut open, mut found) = (commands_of(&w.ok("--help")), BTreeSet::new());
    assert!(open.len() > 10, "{open:?}");
    while let Some(command) = open.pop() {
        let help = w.ok(&format!("{command} --help"));
        let inner = commands_of(&help);
        if inner.is_empty() && help.contains("<MODEL>") {
            found.insert(command);
        } else {
            open.extend(inner.iter().map(|inner| format!("{command} {inner}")));
        }
    }
    found
}

#[test]
fn every_family_and_every_command_with_a_model_is_tried() {
    let w = Workshop::new();
    let tried: BTreeSet<String> =
        CASES.iter().chain(&MORE).map(|case| case.command.to_owned()).collect();
    assert_eq!(tried, commands_with_a_model(&w));
    let listed = w.ok_json("ls families");
    let listed: BTreeSet<&str> =
        listed.as_array().unwrap().iter().map(|family| family["name"].as_str().unwrap()).collect();
    let all = Tiny::all();
    let known: BTreeSet<&str> =
        all.iter().map(|tiny| tiny.name.rsplit_once('-').unwrap().0).collect();
    assert_eq!(known, listed);
    assert_eq!(all.iter().map(|tiny| tiny.kind).max(), Some(Kind::Headless));
}

#[test]
fn every_command_works_on_every_family_or_says_before_any_work_why_not() {
    let (all, next, wrong) = (Tiny::all(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(tiny) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = tried(tiny);
            wrong.lock().unwrap().extend(found);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with any command on a checkpoint.
fn tried(tiny: &Tiny) -> Vec<String> {
    let w = Workshop::new();
    tiny.write(&w);
    let slots = w.ok_json(&format!("inspect {} --slots", tiny.name));
    let sites = slots["sites"].as_array().unwrap();
    // The first number of a name is that of the layer.
    let of =
        |site: &Value| site["site"].as_str().unwrap().split('.').find_map(|part| part.parse().ok());
    let in_layer = |layer: usize| sites.iter().filter(move |site| of(site) == Some(layer));
    let layers = 0..slots["layers"].as_u64().unwrap() as usize;
    let layer = layers.max_by_key(|layer| in_layer(*layer).count()).unwrap();
    let site = in_layer(layer).next().unwrap()["site"].as_str().unwrap().to_owned();
    let with_names = |text: &str| {
        text.replace("MODEL", &tiny.name)
            .replace("SITE", &site)
            .replace("LAYER", &layer.to_string())
    };
    w.write("pairs.tsv", pairs(40));
    w.write("tiny.yaml", with_names(RECIPE));
    w.write("lines.txt", "Tom\n");
    let before = w.names();
    let mut wrong = Vec::new();
    for case in CASES.iter().chain(&MORE) {
        let line = format!("{} {} --threads 1", case.command, with_names(case.options));
        let outcome = ended(&w, &line, case.command == "serve");
        let expected = case.ends[tiny.kind as usize];
        if let Some(fault) = fault(expected, &outcome) {
            wrong.push(format!("{line}: {fault}: {outcome:?}"));
        }
        if outcome.code == Some(0) {
            for created in w.names().iter().filter(|name| !before.contains(name)) {
                let path = w.path(created);
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
                    .unwrap();
            }
        } else if w.names() != before {
            wrong.push(format!("{line}: left {:?}", w.names()));
        }
    }
    wrong
}

/// How a command ended. One that serves is ended by us once it says where it listens.
fn ended(w: &Workshop, line: &str, serves: bool) -> Outcome {
    let mut command = w.command(line);
    command.stdin(fs::File::open(w.path("lines.txt")).unwrap());
    if !serves {
        return Outcome::with_panics(command);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    let said = child.stdout.as_mut().unwrap().read(&mut first).unwrap();
    if said == 0 {
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        return Outcome { code: output.status.code(), stdout: String::new(), stderr };
    }
    child.kill().unwrap();
    child.wait().unwrap();
    Outcome { code: Some(0), stdout: String::new(), stderr: String::new() }
}

/// What is wrong with an outcome.
fn fault(expected: Ends, outcome: &Outcome) -> Option<String> {
    const DOCUMENTED: [i32; 8] = [1, 2, 3, 4, 5, 6, 75, 130];
    let refused = outcome.code.is_some_and(|code| DOCUMENTED.contains(&code))
        && outcome.stderr.contains("error: ")
        && outcome.stdout.is_empty();
    // Before the error there are only notes, the name of a job, and a line about loading or
    // unpacking the model.
    let stages = outcome.stderr.lines().take_while(|line| !line.starts_with("error: "));
    let mut work = stages.filter(|line| {
        !["loading ", "note: ", "compare-1 of "].iter().any(|start| line.starts_with(start))
    });
    match expected {
        _ if outcome.panicked() => Some("panicked".into()),
        Works if outcome.code != Some(0) => Some("expected to work".into()),
        Refuses(_) | Either if outcome.code == Some(0) => {
            matches!(expected, Refuses(_)).then(|| "expected to be refused".into())
        }
        Refuses(_) | Either if !refused => Some("expected a documented code and a reason".into()),
        Refuses(word) if !outcome.stderr.contains(word) => Some(format!("no word of {word:?}")),
        Refuses(_) => work.next().map(|line| format!("worked before the refusal: {line}")),
        Works | Either => None,
    }
}

#[test]
fn a_part_of_a_fused_weight_is_cut_where_a_family_has_one() {
    let mut fuse = BTreeSet::new();
    for tiny in Tiny::all() {
        let (w, name) = (Workshop::new(), &tiny.name);
        tiny.write(&w);
        let slots = w.ok_json(&format!("inspect {name} --slots"));
        let has = |role: &str| slots.to_string().contains(&format!("\"{role}\""));
        for (part, fused) in [
            ("query", "query_key_value"),
            ("key", "query_key_value"),
            ("value", "query_key_value"),
            ("gate", "gate_up"),
            ("up", "gate_up"),
        ] {
            let line = format!(
                "laser {name} --no-cache --intervention rank-reduction:part={part} --rank 1 -o {part}"
            );
            if !has(fused) {
                let error = w.fails(&line, 2, &[]);
                assert!(error.contains(&format!("no layer has a slot of role {fused}")), "{error}");
                assert!(error.contains("select them by --roles"), "{error}");
                assert!(!w.path(part).exists(), "{name}");
                continue;
            }
            fuse.insert((name.clone(), part));
            let cut = w.ok_json(&line);
            // The weight stays in one piece.
            assert_eq!(cut["keep"], 1.0, "{name} {part}");
            let sites = cut["sites"].as_array().unwrap();
            let ranks: BTreeSet<u64> =
                sites.iter().map(|s| s["report"]["kept"]["rank"].as_u64().unwrap()).collect();
            assert_eq!((ranks, &sites[0]["role"]), (BTreeSet::from([1]), &json!(fused)));
            w.write("plan.json", cut["edits"].to_string());
            let planned = w.ok_json(&format!("compress {name} --plan plan.json -o planned"));
            assert_eq!(planned["sites"].as_array().unwrap().len(), sites.len());
            let weights =
                |folder: &str| fs::read(w.path(folder).join("model.safetensors")).unwrap();
            assert!(weights("planned") == weights(part), "{name} {part}");
            w.ok(&format!("compress {name} --plan plan.json --dry-run -o no"));
            fs::remove_dir_all(w.path("planned")).unwrap();
            let again = w.ok_json(&format!("inspect {part}"));
            assert_eq!(again["linear"], w.ok_json(&format!("inspect {name}"))["linear"]);
        }
    }
    let with = |part: &str| fuse.iter().filter(|(_, own)| *own == part).count();
    assert!(with("key") > 2 && with("up") > 0, "{fuse:?}");
}
