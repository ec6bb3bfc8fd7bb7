//! A directory with a tiny random model, texts and questions, and the command run in it.

use crate::transcript;
use linwright::model::checkpoint::{Form, SaveOptions, Source, save};
use linwright::model::tokenizer::train::train_bpe;
use linwright::model::{Transformer, TransformerConfig};
use linwright::tensor::RngKey;
use serde_json::{Value, json};
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Tokens of the tiny model; its tokenizer has one for every byte, two special ones and merges.
pub(crate) const VOCAB: usize = 300;
/// Positions of the tiny model.
pub(crate) const POSITIONS: usize = 256;
/// Documents of `text.jsonl`.
pub(crate) const DOCUMENTS: usize = 6;
/// Questions of `questions.jsonl`.
pub(crate) const QUESTIONS: usize = 4;

/// What a workshop starts with: `model/`, `text.jsonl`, `calibration.jsonl`, `questions.jsonl`.
pub(crate) struct Workshop {
    dir: TempDir,
    /// The store of finished pieces, of this workshop alone.
    store: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        static FILES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("model")).unwrap();
        for (name, bytes) in FILES.get_or_init(files) {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        Self { dir, store: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory of the store of finished pieces.
    pub(crate) fn store(&self) -> &Path {
        self.store.path()
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// The command with arguments divided by spaces, in this directory.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linwright"));
        command
            .args(args.split_whitespace())
            .current_dir(self.dir.path())
            .env_remove("RAYON_NUM_THREADS")
            .env_remove("HF_HUB_CACHE")
            .env_remove("HF_DATASETS_CACHE")
            .env("HF_HOME", self.path("home"))
            // The built-in model is unpacked once for all tests, and not for the user.
            .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
            .env("LINWRIGHT_STORE", self.store())
            .env_remove("LINWRIGHT_STORE_BYTES")
            .env("HF_HUB_OFFLINE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &str) -> Outcome {
        Outcome::of(self.command(args))
    }

    /// Runs a command that must succeed; gives its stdout.
    pub(crate) fn ok(&self, args: &str) -> String {
        self.run(args).succeeded(args)
    }

    /// Runs a command with `--json` that must print one JSON value and nothing else.
    pub(crate) fn ok_json(&self, args: &str) -> Value {
        let stdout = self.ok(&format!("{args} --json"));
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{args}: {error}: {stdout}"))
    }

    /// Runs a command that must fail with this code, and name all `words` on stderr.
    pub(crate) fn fails(&self, args: &str, code: i32, words: &[&str]) -> String {
        self.run(args).failed(args, code, words)
    }

    /// Unfinished work in the store.
    pub(crate) fn unfinished(&self) -> Vec<Value> {
        let list = self.ok_json("cache list");
        list["unfinished"].as_array().expect("a list").clone()
    }

    /// Everything in the directory, hidden entries included.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.dir.path())
    }

    /// The weights of a saved model.
    pub(crate) fn weights(&self, model: &str) -> Vec<u8> {
        self.read(&format!("{model}/model.safetensors"))
    }
}

/// A process that does not outlive its test: one that waits for another would wait for ever.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn new(mut command: Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// Waits for its end.
    pub(crate) fn wait_with_output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Outcome {
    pub(crate) fn of(command: Command) -> Self {
        let outcome = Self::with_panics(command);
        assert!(!outcome.panicked(), "{}", outcome.stderr);
        outcome
    }

    /// As [`Self::of`], but a panic is left to the caller to notice.
    pub(crate) fn with_panics(mut command: Command) -> Self {
        let output = command.output().unwrap();
        let outcome = Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        transcript::record(&command, &outcome);
        outcome
    }

    pub(crate) fn panicked(&self) -> bool {
        self.stderr.contains("panicked") || self.code == Some(101)
    }

    pub(crate) fn succeeded(self, what: &str) -> String {
        assert_eq!(self.code, Some(0), "{what}: {}", self.stderr);
        self.stdout
    }

    pub(crate) fn failed(self, what: &str, code: i32, words: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "{what}: {self:?}");
        assert_eq!(self.stdout, "", "{what}: a failure prints nothing to stdout");
        assert!(self.stderr.contains("error: "), "{what}: {}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{what}: expected {word:?} in: {}", self.stderr);
        }
        self.stderr
    }
}

/// Names of everything in a directory, hidden entries included, in order.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Finished pieces of a kind in a store or run directory.
pub(crate) fn pieces(root: &Path, kind: &str) -> Vec<PathBuf> {
    let folders = names(&root.join(kind)).into_iter().map(|name| root.join(kind).join(name));
    let is_piece = |path: &PathBuf| path.extension().is_none();
    folders
        .flat_map(|folder| names(&folder).into_iter().map(move |name| folder.join(name)))
        .filter(is_piece)
        .collect()
}

fn files() -> Vec<(String, Vec<u8>)> {
    let text = documents("text", DOCUMENTS);
    let calibration = documents("calibration", 30);
    let mut files = vec![
        ("text.jsonl".to_owned(), jsonl(&text)),
        ("calibration.jsonl".to_owned(), jsonl(&calibration)),
        ("questions.jsonl".to_owned(), questions()),
    ];
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    save_model(&model, &calibration);
    for name in names(&model) {
        files.push((format!("model/{name}"), fs::read(model.join(&name)).unwrap()));
    }
    files
}

fn save_model(dir: &Path, texts: &[String]) {
    let config = json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB,
        "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 1,
    });
    let config = TransformerConfig::from_json(&config).unwrap();
    let mut decoder = Transformer::random(config, RngKey::new(1));
    // Large enough weights that replacing some of them shows in the perplexity.
    decoder.for_each_param_mut(&mut |name, values| {
        if name.ends_with("proj.weight") {
            values.iter_mut().for_each(|value| *value *= 8.0);
        }
    });
    let tokenizer = train_bpe(texts, VOCAB, POSITIONS).unwrap();
    let companions = vec![
        ("tokenizer.json".to_owned(), tokenizer.json.into_bytes()),
        ("tokenizer_config.json".to_owned(), tokenizer.config.to_string().into_bytes()),
    ];
    let source = Source::of_new_model(decoder.config(), companions);
    save(&decoder, &source, &SaveOptions::new(Form::Dense), dir).unwrap();
}

/// Short stories of a small world, the same every time.
fn documents(name: &str, count: usize) -> Vec<String> {
    const WHO: [&str; 5] = ["Mira", "Tom", "the miller", "a grey cat", "the old woman"];
    const DID: [&str; 5] = ["saw", "lost", "carried", "painted", "looked for"];
    const WHAT: [&str; 6] = ["a boat", "the key", "two apples", "a lantern", "the bell", "a map"];
    const WHERE: [&str; 4] = ["by the lake", "in the barn", "at noon", "near the mill"];
    let mut stream = RngKey::new(7).fold(name).stream();
    let mut pick = |words: &[&'static str]| words[stream.below(words.len())];
    (0..count)
        .map(|_| {
            let sentence = |_| {
                let (who, did) = (pick(&WHO), pick(&DID));
                format!("{who} {did} {} {}.", pick(&WHAT), pick(&WHERE))
            };
            (0..8).map(sentence).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn jsonl(documents: &[String]) -> Vec<u8> {
    let lines = documents.iter().map(|text| json!({ "text": text }));
    lines.map(|line| format!("{line}\n")).collect::<String>().into()
}

fn questions() -> Vec<u8> {
    let line = |index: usize| {
        json!({
            "question": format!("Where is lantern {index}? It is"),
            "choices": [" by the lake", " in the barn", " near the mill"],
            "answer": index % 3, "band": if index < 2 { "often" } else { "rarely" },
            "prompt": format!("Lantern {index} is"), "completion": " in the barn",
        })
    };
    let lines = (0..QUESTIONS).map(line);
    lines.map(|line| format!("{line}\n")).collect::<String>().into()
}
