//! Numbers of options: whatever is given, no command panics, is killed, or takes gigabytes for it.
//!
//! The options are those of the schemas, so that a new one is tried without a line here. Numbers
//! out of bounds are refused where options are read, which `face.rs` tests; here commands run with
//! the least and the largest numbers that they take, and with texts that hold numbers, on little
//! data, with little memory.

use crate::attribute::workshop as texts;
use crate::compare_images::{images, labels};
use crate::flow::MOONS;
use crate::molecule_train::{SMALL, waters};
use crate::workshop::Workshop;
use linwright::jobs::{Catalogue, Entry, Field, Key, Kind, STREAMED, VERBS, ValueKind, Verb};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Address space of a command, in kilobytes.
const SPACE: u64 = 4 << 20;
/// Resident memory that no number of a small command may take, in kilobytes.
const MOST_RESIDENT: u64 = 1 << 20;
/// Time after which a command that works is ended: what it allocates it has allocated.
const PATIENCE: Duration = Duration::from_secs(1);

/// A command for each verb with numbers or texts that hold numbers, which takes little time. `OUT`
/// is a place of its own for each run; `{key=value}` is an argument without a flag.
pub(crate) const BASES: &[(&str, &str)] = &[
    ("inspect", "{model=model} --spectra"),
    ("compress", "{model=model} --keep=0.5 --roles=query --layers=0 CALIBRATION TEXT -o OUT"),
    (
        "compare",
        "{model=model} --keep=0.5 --methods=low_rank --no-controls --roles=query \
                 CALIBRATION TEXT -o OUT",
    ),
    ("prune", "{model=model} --keep=0.9 CALIBRATION TEXT -o OUT"),
    ("plan", "{model=model} --keep=0.5 --roles=query -o OUT"),
    ("laser", "{model=model} --roles=fc_in --layers=0 --rate=9 TEXT -o OUT"),
    ("sweep", "{model=model} --roles=fc_in --layers=0 --size=rate=9 TEXT -o OUT"),
    ("compose", "{model=model} --roles=fc_in --layers=0 --size=rate=9 TEXT -o OUT"),
    ("search", "{model=model} --roles=fc_in --layers=0 --text=text.jsonl CALIBRATION -o OUT"),
    (
        "eval",
        "{model=model} --tasks=questions --data=questions=questions.jsonl --text=text.jsonl --window=64 -o OUT",
    ),
    ("run", "--recipe=main-job --dry-run"),
    ("fit", "{target=normal:8} --operator=low_rank --keep=0.5 -o OUT"),
    ("export", "{model=model} -o OUT"),
    (
        "train-lm",
        "--text=text.jsonl --architecture=hidden=8,layers=1,context=16 --vocab=280 --steps=2 -o OUT",
    ),
    ("train-net", "{net=mlp:8} --images=a-images-idx3-ubyte --steps=2 -o OUT"),
    ("eval-net", "{net=net} --images=a-images-idx3-ubyte"),
    (
        "compare-net",
        "{net=net} --calibration=a-images-idx3-ubyte:examples=0-59 \
                     --images=a-images-idx3-ubyte:examples=60-119 --keep=0.5 --methods=svd -o OUT",
    ),
    ("attribute-best", "{store=store} --query=query.jsonl -o OUT"),
    ("attribute-cache", "{model=model} --train=docs.jsonl --compress=factgrass:16 -o OUT"),
    ("attribute-fisher", "{store=store}"),
    ("attribute-lds", "{store=netstore} --images=a-images-idx3-ubyte --subsets=2 --steps=2 -o OUT"),
    ("attribute-recall", "{store=store} --query=query.jsonl --relevant=relevant"),
    ("attribute-score", "{store=store} --query=query.jsonl"),
    ("attribute-self", "{store=store}"),
    ("attribute-show", "{store=store} --query=query.jsonl"),
    ("attribute-world", "--stories=20 -o OUT"),
    ("molecule-eval", "{potential=potential} {structures=a.xyz} --limit=2"),
    ("molecule-md", "{potential=potential} {structure=a.xyz} --steps=2 -o OUT"),
    ("molecule-relax", "{potential=potential} {structures=a.xyz} --steps=2 --limit=1 -o OUT"),
    ("molecule-convert", "{potential=potential} -o OUT"),
    ("molecule-compress", "{potential=potential} --keep=0.5 --calibration=a.xyz -o OUT"),
    (
        "molecule-compare",
        "{potential=potential} --calibration=a.xyz --test=b.xyz --keep=0.5 --methods=svd -o OUT",
    ),
    ("molecule-bench", "{potential=potential} {structures=a.xyz} --limit=1 --repeats=1"),
    (
        "molecule-train",
        "--data=a.xyz --architecture=channels=8,layers=1,radial=8,cutoff=3 --training=batch=4 \
                        --steps=2 -o OUT",
    ),
    ("collapse-measure", "--features=all.safetensors"),
    ("collapse-merge", "{sums=sums.safetensors}"),
    ("collapse-ufm", "--classes=3 --check=1"),
    ("collapse-gufm", "--classes=3 --check=1"),
    ("collapse-depth", "--depths=2 --steps=2 --classes=2 --per-class=3 --architecture=rn1:width=4"),
    ("collapse-lm", "{model=model} --text=text.jsonl --window=32"),
    ("collapse-relate", "--measured=lm.json --sweeps=sweep"),
    (
        "flow-train",
        "--data=moons --architecture=depth=1,hidden=4 --steps=2 --training=batch=8 -o OUT",
    ),
    ("flow-eval", "{flow=flow} --data=moons --limit=50"),
    ("flow-sample", "{flow=flow} --count=2 --points=OUT.npy"),
    (
        "flow-match",
        "--data=moons --architecture=hidden=4,depth=1 --steps=2 --training=pairs=64,batch=8 --count=8 -o OUT",
    ),
    ("select", "{model=model} --tensor=model.layers.0.self_attn.q_proj.weight --rank=3"),
    ("generate", "{model=model} --prompt=Mira --max-new-tokens=2"),
];

/// Texts of options that hold numbers, where `#` is one; none for texts without. An option that
/// takes text and is not a path stands here.
const FORMS: &[(&str, &[&str])] = &[
    ("against", &[]),
    ("allocate", &["spectrum:align=#"]),
    ("base_model", &[]),
    ("batch_size", &["#"]),
    ("calibration", &["calibration.jsonl:num_tokens=#", "calibration.jsonl:seq_len=#"]),
    ("chat_template_args", &["{\"n\":#}"]),
    (
        "compress",
        &[
            "logra:#",
            "logra_pca:#",
            "sjlt:#",
            "sjlt:16,signs=#",
            "factgrass:16,blow_up=#",
            "gauss:#",
            "mask:16,block=#",
            "srht:#",
            "grass:#",
            "selective_grass:#",
            "factorised_sjlt:#",
        ],
    ),
    ("damping", &["#", "relative:#", "absolute:#"]),
    ("dampings", &["#"]),
    ("data", &["gaussian:toeplitz:#"]),
    ("date", &["#-01-01", "2026-#-01", "2026-01-#"]),
    ("documents", &["#", "0-#"]),
    ("dtype", &[]),
    ("evaluation", &["window=64,batch_size=#", "window=64,shuffle=#"]),
    ("examples", &["#", "0-#"]),
    ("filter", &[]),
    ("gamma", &["#"]),
    ("group", &[]),
    ("groups", &[]),
    ("ignore", &[]),
    ("images", &["a-images-idx3-ubyte:examples=#", "a-images-idx3-ubyte:resize=#x#"]),
    ("inputs_tensor", &[]),
    ("intervention", &["vendi:gamma=#"]),
    ("layer", &["cd:#", "householder:#", "woodbury:#", "{\"kind\": \"low_rank\", \"rank\": #}"]),
    ("layers", &["#", "0-#"]),
    ("leave_out", &["#", "0-#"]),
    ("lnum", &["#", "0-#"]),
    ("max_memory", &["#", "#GB"]),
    (
        "method",
        &[
            "low_rank:ridge=#",
            "low_rank:epochs=#",
            "monarch:blocks=#",
            "kronecker:terms=#",
            "circulant_diagonal:factors=#",
            "block_hadamard:depth=#",
            "rotor:hidden_layers=#",
            "asvd:alpha=#",
            "feature:shrinkage=#",
            "laser:gamma=#",
            "laser:decomposition={randomised: {oversample: #, power: #}}",
            "llm_pruner:steps=#",
            "llm_pruner:examples=#",
            "llm_pruner:tokens=#",
            "llm_pruner:ratio=#",
            "llm_pruner:refit=#",
            "llm_pruner:mlp=#",
            "modegpt:temperature=#",
            "width:heads=#",
        ],
    ),
    ("methods", &["low_rank:ridge=#", "llm_pruner:steps=#"]),
    ("metric", &[]),
    ("net", &["mlp:#", "mlp:#,#"]),
    (
        "operator",
        &[
            "cd:#",
            "{\"kind\": \"low_rank\", \"rank\": #}",
            "{\"kind\": \"kronecker\", \"terms\": #}",
            "{\"kind\": \"circulant_diagonal\", \"factors\": #}",
            "{\"kind\": \"block_hadamard\", \"depth\": #}",
            "{\"kind\": \"rotor\", \"chunk\": #}",
        ],
    ),
    ("prompt", &[]),
    (
        "reading",
        &["examples=#", "examples=\"0-#\"", "resize=#x#", "resize=\"8,#\"", "max_length=#"],
    ),
    ("recover", &["#", "2:rate=#"]),
    ("relevant", &[]),
    ("resize", &["#,#", "#,8"]),
    ("separator", &[]),
    ("set", &["seed=#", "evaluation.window=#", "limit=#"]),
    ("shard_size", &["#", "#GB"]),
    ("size", &["rank=#", "rate=#", "rho=#", "keep=#", "energy=#"]),
    ("roles", &[]),
    ("sites", &[]),
    ("species", &[]),
    ("stop", &[]),
    ("system_instruction", &[]),
    ("target", &["normal:#", "orthogonal:#"]),
    ("tensor", &[]),
    ("text_field", &[]),
    ("title", &[]),
    ("units", &[]),
    ("validation", &["#"]),
    ("without", &["#", "0-#"]),
    ("wrong", &["#", "0-#"]),
];

/// Options of text that are read as files, models or data sets; they have no numbers.
const READ: &[&str] = &[
    "base",
    "baseline",
    "calibration",
    "model",
    "potential",
    "query",
    "samples",
    "store",
    "structure",
    "structures",
    "tasks",
    "test",
    "text",
    "train",
    "between",
];

/// Numbers in texts.
const IN_TEXTS: [&str; 9] = [
    "0",
    "100000",
    "2147483648",
    "4294967297",
    "9223372036854775807",
    "18446744073709551615",
    "-1",
    "nan",
    "",
];

/// Numbers in texts of options, which every verb tries.
const LARGE: [&str; 3] = ["100000", "4294967297", "18446744073709551615"];

/// What the commands read.
pub(crate) fn furnished() -> Workshop {
    let w = texts();
    w.write("a-images-idx3-ubyte", images());
    w.write("a-labels-idx1-ubyte", labels(3));
    w.write("a.xyz", waters(12));
    w.write("b.xyz", waters(13));
    crate::collapse::features(&w);
    let line = w.text("query.jsonl");
    let line = line.trim_end().trim_end_matches('}');
    w.write("query.jsonl", format!("{line}, \"relevant\": [\"doc-1\"]}}\n"));
    for command in [
        "train-net mlp:8 --images a-images-idx3-ubyte --steps 2 -o net",
        "attribute cache model --train docs.jsonl --compress factgrass:16 -o store",
        "attribute cache net --train a-images-idx3-ubyte --compress logra:16 -o netstore",
        "collapse measure --features all.safetensors --save-sums sums.safetensors",
        "collapse lm model --text text.jsonl --window 32 -o lm.json",
        "sweep model --roles query,down --layers 0-1 --size rate=9 --text text.jsonl --evaluation window=32 -o sweep",
        &format!("{MOONS} --steps 2 -o flow"),
        &format!("{SMALL} --steps 2 -o potential"),
    ] {
        w.ok(command);
    }
    w
}

/// A value for an option of a verb.
struct Try {
    verb: &'static Verb,
    key: String,
    value: String,
}

/// A number as YAML and JSON have it.
fn numbers_of(field: &Field) -> Vec<String> {
    let all = match &field.kind {
        Kind::Integer { min, max } => vec![min.to_string(), max.to_string()],
        Kind::Number { min, max } => vec![min.to_string(), max.to_string()],
        Kind::Term(catalogue) if FORMS.iter().all(|(key, _)| *key != field.key) => {
            let entries = catalogue.entries.iter();
            entries.flat_map(|entry| numbers_of_keys(catalogue, entry)).collect()
        }
        Kind::Text | Kind::Term(_) => {
            let forms = FORMS.iter().find(|(key, _)| *key == field.key);
            let filled = |form: &&str| LARGE.map(|number| form.replace('#', number));
            forms.iter().flat_map(|(_, forms)| forms.iter().flat_map(filled)).collect()
        }
        Kind::Flag | Kind::Named(_) => Vec::new(),
    };
    let mut all: Vec<String> = all;
    all.sort();
    all.dedup();
    all
}

/// A term for each bound of a number among its keys.
fn numbers_of_keys(catalogue: &Catalogue, entry: &Entry) -> Vec<String> {
    let before = match (&catalogue.head, entry.name) {
        (Some(_), _) => "1:".to_owned(),
        (None, "") => String::new(),
        (None, name) => format!("{name}:"),
    };
    let of_key = |key: &Key| {
        let bounds = match &key.kind {
            ValueKind::Integer { min, max } => vec![min.to_string(), max.to_string()],
            ValueKind::Number { min, max, .. } => vec![min.to_string(), max.to_string()],
            ValueKind::Flag
            | ValueKind::Named(_)
            | ValueKind::Names(_)
            | ValueKind::Integers
            | ValueKind::Text
            | ValueKind::Json
            | ValueKind::Texts
            | ValueKind::Any => Vec::new(),
        };
        bounds.into_iter().map(|bound| format!("{before}{}={bound}", key.name)).collect::<Vec<_>>()
    };
    entry.keys.iter().flat_map(of_key).collect()
}

/// The arguments of a run: those of the verb's command, but for the option that is tried, for what
/// contradicts it, and with what it needs.
fn arguments(one: &Try, base: &str, out: &str) -> Vec<String> {
    let fields = (one.verb.fields)();
    let named = |key: &str| fields.iter().find(|field| field.key == key).unwrap();
    let field = named(&one.key);
    let mut words: Vec<String> = one.verb.words().split(' ').map(str::to_owned).collect();
    let base = with_texts(base);
    let mut given = Vec::new();
    for word in base.split_whitespace() {
        if let Some((key, value)) =
            word.trim_matches(['{', '}']).split_once('=').filter(|_| word.starts_with('{'))
        {
            words.push(if key == one.key { one.value.clone() } else { value.to_owned() });
            given.push(key.to_owned());
            continue;
        }
        let flag = word.trim_start_matches('-').split('=').next().unwrap().replace('-', "_");
        if flag == one.key
            || field.conflicts.contains(&flag)
            || named_conflict(&fields, &flag, &one.key)
        {
            continue;
        }
        given.push(flag);
        words.push(word.replace("OUT", out));
    }
    for key in field.requires.iter().filter(|key| !given.contains(key)) {
        let value = match &named(key).kind {
            Kind::Flag => String::new(),
            Kind::Integer { min, .. } => format!("={}", min + 1),
            Kind::Number { .. } => "=0.5".to_owned(),
            Kind::Text | Kind::Named(_) | Kind::Term(_) => "=text.jsonl".to_owned(),
        };
        words.push(format!("--{}{value}", named(key).flag()));
    }
    if !field.is_positional {
        words.push(format!("--{}={}", field.flag(), one.value));
    }
    words
}

/// A command with its texts.
pub(crate) fn with_texts(base: &str) -> String {
    base.replace("CALIBRATION", "--calibration=calibration.jsonl:num_tokens=600,seq_len=32")
        .replace("TEXT", "--text=text.jsonl --evaluation=window=64")
}

/// Whether an option refuses another one.
fn named_conflict(fields: &[Field], key: &str, other: &str) -> bool {
    let field = fields.iter().find(|field| field.key == key);
    field.is_some_and(|field| field.conflicts.iter().any(|conflict| conflict == other))
}

/// Peak resident memory of a process in kilobytes.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Runs a command with little address space; gives what is wrong with how it ended.
fn fault(w: &Workshop, words: &[String], place: &Path) -> Option<String> {
    let said = place.with_extension("stderr");
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("ulimit -v {SPACE}; exec \"$@\""), "bash"])
        .arg(env!("CARGO_BIN_EXE_linwright"))
        .args(words)
        .args(["--threads=1", "--quiet"])
        .current_dir(w.path(""))
        .env("LINWRIGHT_STORE", place.with_extension("store"))
        .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
        .env("HF_HUB_OFFLINE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said).unwrap());
    let (mut child, began) = (command.spawn().unwrap(), Instant::now());
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if began.elapsed() > PATIENCE {
            let peak = peak(child.id());
            child.kill().unwrap();
            child.wait().unwrap();
            return (peak > MOST_RESIDENT).then(|| format!("{peak} kB of memory after a while"));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = fs::read_to_string(&said).unwrap_or_default();
    let is_told = code.is_some_and(|code| [0, 1, 2, 3, 4, 5].contains(&code));
    (!is_told || text.contains("panicked")).then(|| format!("exit {code:?}: {}", text.trim()))
}

/// Tries values with two commands at a time; gives what went wrong.
fn faults(w: &Workshop, tries: &[Try]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut faults = Vec::new();
        while let Some(one) = tries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some((_, base)) = BASES.iter().find(|(verb, _)| *verb == one.verb.name) else {
                faults.push(format!("{} has no command to try its numbers with", one.verb.name));
                continue;
            };
            let place = tempfile::tempdir().unwrap();
            let out = place.path().join("out");
            let words = arguments(one, base, &out.display().to_string());
            if let Some(what) = fault(w, &words, &out) {
                faults.push(format!("{}: {what}", words.join(" ")));
            }
        }
        faults
    };
    std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(work));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

#[test]
fn no_number_of_an_option_ends_a_command_or_takes_its_memory() {
    let w = furnished();
    let mut tries = Vec::new();
    for verb in VERBS.iter().chain(STREAMED) {
        for field in (verb.fields)() {
            let key = &field.key;
            let is_listed = FORMS.iter().any(|(form, _)| form == key) || READ.contains(&&**key);
            let needs_no_line = field.is_path || field.kind != Kind::Text || is_listed;
            assert!(needs_no_line, "{key} of {}: has its text numbers? FORMS says so", verb.name);
            let values = numbers_of(&field).into_iter();
            tries.extend(values.map(|value| Try { verb, key: key.clone(), value }));
        }
    }
    assert!(tries.len() > 500, "{} values", tries.len());
    let faults = faults(&w, &tries);
    assert!(faults.is_empty(), "{} of {} values: {faults:#?}", faults.len(), tries.len());
}

#[test]
fn commands_that_are_no_jobs_bound_their_numbers_too() {
    let w = Workshop::new();
    for (line, least, most) in [
        ("bench operators low_rank --dims 16 --rounds 1 --no-memory --rows #", "1", "16777216"),
        ("bench operators low_rank --dims 16 --rows 4 --no-memory --rounds #", "1", "10000"),
        ("bench operators low_rank --rows 4 --rounds 1 --no-memory --dims #", "1", "1048576"),
        ("bench model model --rounds 1 --tokens #", "1", "16777216"),
        ("bench model model --rounds 1 --tokens 4 --new-tokens #", "0", "16777216"),
        ("bench model model --tokens 4 --rounds #", "0", "10000"),
        ("rotor convergence --dims 16 --seeds #", "1", "10000"),
        ("rotor convergence --seeds 1 --dims #", "", ""),
        ("validate arc_easy --num-fewshot #", "0", "10000"),
        ("ls operators --shape #x#", "1", "1048576"),
        ("slurm --shards # eval model --text text.jsonl -o out.json", "1", "1001"),
        ("slurm --shards 2 --at-once # eval model --text text.jsonl -o out.json", "1", "1001"),
        ("eval model --text text.jsonl --shard 0/# -o out", "", ""),
        ("ls jobs --threads #", "0", "1024"),
    ] {
        let place = tempfile::tempdir().unwrap();
        for number in IN_TEXTS.into_iter().chain([least, most]).filter(|_| !line.is_empty()) {
            let words: Vec<String> =
                line.split(' ').map(|word| word.replace('#', number)).collect();
            let words = [words, vec!["--threads=1".to_owned()]].concat();
            let words = if line.contains("--threads") { &words[..words.len() - 1] } else { &words };
            let what = fault(&w, words, &place.path().join("out"));
            assert_eq!(what, None, "{}", words.join(" "));
        }
    }
}

#[test]
fn numbers_of_recipes_plans_and_options_in_texts_are_bounded() {
    let w = Workshop::new();
    for (number, found) in [
        (".nan", "non-finite float `.nan`"),
        (".inf", "non-finite float `.inf`"),
        ("-.inf", "non-finite float `-.inf`"),
        ("-1", "keep is -1, expected a number from 0 to 1"),
        ("1.5", "keep is 1.5, expected a number from 0 to 1"),
        ("18446744073709551616", "keep is 1.8446744073709552e+19, expected a number from 0 to 1"),
    ] {
        let job = format!("version: 1\njobs:\n  - plan: {{model: model, keep: {number}}}\n");
        w.write("r.yaml", job);
        w.fails("run -r r.yaml -o out", 3, &[found]);
        w.write("r.yaml", "version: 1\njobs:\n  - plan: {model: model}\n");
        let line = format!("run -r r.yaml -o out --set plan-1.keep={number}");
        let code = if found.starts_with("non-finite") { 2 } else { 3 };
        w.fails(&line, code, &[found]);
    }
    let plan = |rank: &str| {
        format!(
            "edits:\n  - sites: {{}}\n    method: {{method: low_rank}}\n    size: {{rank: {rank}}}\n"
        )
    };
    for rank in ["4294967296", "18446744073709551615"] {
        w.write("plan.yaml", plan(rank));
        let line = "compress model --plan plan.yaml --calibration calibration.jsonl -o out";
        w.fails(line, 2, &["edits[0].size.rank", rank, "expected a number from"]);
    }
    let compare = crate::compare_runs::RECIPE.replace("seq_len: 64", "seq_len: 4294967296");
    w.write("compare.yaml", compare);
    w.fails("run -r compare.yaml -o out", 3, &["nested: calibration", "seq_len is 4294967296"]);
    assert!(!w.path("out").exists());
}

#[test]
fn what_options_make_together_is_told_in_bytes_before_it_is_made() {
    let w = Workshop::new();
    w.write("a-images-idx3-ubyte", images());
    w.write("a-labels-idx1-ubyte", labels(3));
    for (line, words) in [
        ("collapse ufm --classes 1000000 --check 1", ["1000000 classes", "GB of memory"]),
        (
            "collapse gufm --classes 100000 --dimension 1048576 --check 1",
            ["1048576 features", "GB of memory"],
        ),
        (
            "collapse depth --classes 100000 --per-class 100000 --architecture rn1:width=64",
            ["100000 examples", "GB"],
        ),
        (
            "collapse depth --depths 10000 --architecture rn1:width=1048576 --per-class 1",
            ["1048576", "GB"],
        ),
        ("attribute world --stories 1000000000 -o out", ["1000000000 stories", "GB"]),
        (
            "train-net mlp:1000000,1000000 --images a-images-idx3-ubyte -o out",
            ["weights", "GB of memory"],
        ),
        (
            "flow match --data gaussian:toeplitz:1024 --training pairs=16777216 -o out",
            ["16777216 pairs", "GB"],
        ),
        ("bench operators low_rank --dims 1048576", ["1048576 x 1048576 features", "GB"]),
    ] {
        let said = w.fails(line, 5, &words);
        assert!(said.contains("are available"), "{line}: {said}");
    }
    assert!(!w.path("out").exists());
}
