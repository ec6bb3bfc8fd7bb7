//! Downloads, against a server on this machine that answers as the hub does.

mod damage;
mod datasets;
mod downloads;
mod refusals;
mod server;

use linwright_files::hub::{Found, Hooks, HubError, HubId, HubSettings, Token, find};
use linwright_model::checkpoint::{Form, SaveOptions, Source, save};
use linwright_model::{Transformer, TransformerConfig};
use linwright_tensor::RngKey;
use server::{Hub, MODEL};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A secret that must appear nowhere but at the hub.
const TOKEN: &str = "hf_secret";

/// A hub with one model, and an empty cache.
struct Scene {
    hub: Hub,
    cache: TempDir,
    settings: HubSettings,
}

impl Scene {
    fn new() -> Self {
        Self::with(small_model(u64::MAX))
    }

    fn with(files: BTreeMap<String, Vec<u8>>) -> Self {
        let hub = Hub::new(files);
        let cache = tempfile::tempdir().unwrap();
        let mut settings = HubSettings::new(cache.path().join("hub"));
        settings.endpoint.clone_from(&hub.endpoint);
        settings.retries = 2;
        settings.pause = Duration::from_millis(1);
        Self { hub, cache, settings }
    }

    fn with_token(mut self) -> Self {
        self.settings.token = Token::parse(TOKEN, "a test").unwrap();
        self
    }

    fn find(&self, model: &str) -> Result<Found, HubError> {
        let mut hooks =
            Hooks { stage: &mut |_| {}, progress: &mut |_, _| {}, cancelled: &|| false };
        find(&HubId::parse(model).unwrap().unwrap(), &self.settings, &mut hooks)
    }

    /// The message of a failure, which holds no secret and left no file in a snapshot.
    fn refused(&self, model: &str) -> String {
        let error = self.find(model).unwrap_err().to_string();
        assert!(!error.contains(TOKEN), "{error}");
        error
    }

    /// Contents of the cache that are not whole, or none.
    fn unfinished(&self) -> Vec<PathBuf> {
        let incomplete = |path: &PathBuf| path.extension().is_some_and(|end| end == "incomplete");
        all_files(self.cache.path()).into_iter().filter(incomplete).collect()
    }

    /// Names of the files of all snapshots.
    fn snapshot_files(&self) -> Vec<String> {
        let root = self.settings.cache.join("models--owner--small/snapshots");
        let names = all_files(&root).into_iter().map(|path| {
            path.strip_prefix(&root).unwrap().components().skip(1).collect::<PathBuf>()
        });
        let mut names: Vec<String> = names.map(|path| path.display().to_string()).collect();
        names.sort();
        names
    }

    /// What was asked of the hub and of the server of contents, without the list of files.
    fn transfers(&self) -> Vec<String> {
        let asked = self.hub.asked();
        let lines = asked.into_iter().map(|request| request.line);
        lines.filter(|line| !line.starts_with("GET /api/")).collect()
    }
}

/// Files below a folder; none if there is no such folder.
fn all_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(all_files(&path)) } else { files.push(path) }
    }
    files
}

/// The files of a tiny model, in shards of at most so many bytes.
fn small_model(shard_bytes: u64) -> BTreeMap<String, Vec<u8>> {
    let config = serde_json::json!({
        "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 11,
        "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    });
    let config = TransformerConfig::from_json(&config).unwrap();
    let model = Transformer::random(config, RngKey::new(5));
    let vocab: serde_json::Map<String, serde_json::Value> =
        (0..11).map(|id| (format!("t{id}"), id.into())).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "t1"},
    });
    let companions = vec![
        ("tokenizer.json".to_owned(), tokenizer.to_string().into_bytes()),
        ("generation_config.json".to_owned(), b"{\"temperature\": 0.5}\n".to_vec()),
    ];
    let source = Source::of_new_model(model.config(), companions);
    let dir = tempfile::tempdir().unwrap();
    let options = SaveOptions { shard_bytes, ..SaveOptions::new(Form::Dense) };
    save(&model, &source, &options, &dir.path().join("model")).unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let files = all_files(&dir.path().join("model"));
    files.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}
