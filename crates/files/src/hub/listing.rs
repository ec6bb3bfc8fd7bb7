//! The list of files of a revision on the hub, and which of them a model needs.

use super::client::{Client, Method, RequestFailure, escaped};
use super::error::HubError;
use super::id::{Commit, Kind};
use crate::companions::{COMPANION_BYTES, CONFIG, companion_names};
use crate::weights_among;
use linwright_run::shown;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::Read;

/// Size limit of the list of files, in bytes.
const LISTING_BYTES: u64 = 1 << 25;
/// Size limit of a weight file, in bytes: that of uploads to the hub.
const WEIGHT_BYTES: u64 = 1 << 39;
/// Size limit of a file of a data set, in bytes: that of the readers.
const DATA_BYTES: u64 = 1 << 32;
/// The list of files, in messages.
const WHAT: &str = "its list of files";

/// Commit and files of a revision.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) commit: Commit,
    names: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Answer {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

impl Listing {
    /// Requests the list.
    pub(super) fn ask(client: &Client<'_>) -> Result<Self, RequestFailure> {
        let id = client.id;
        let revision = escaped(id.revision());
        let url = client.url(&[&id.api(), "revision", &revision]);
        let what = format!("such {} or revision", id.noun());
        let reply = client.send(Method::From(0), &url, &what)?;
        let host = reply.host;
        let mut bytes = Vec::new();
        let body = reply.response.into_body().into_reader();
        body.take(LISTING_BYTES + 1).read_to_end(&mut bytes).map_err(|error| {
            RequestFailure::Transient { host: host.clone(), reason: error.to_string() }
        })?;
        if bytes.len() as u64 > LISTING_BYTES {
            let reason = format!("is larger than {LISTING_BYTES} bytes");
            return Err(client.bad_response(&host, WHAT, &reason).into());
        }
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|error| {
            let reason = format!("is not JSON with sha and siblings ({error})");
            client.bad_response(&host, WHAT, &reason)
        })?;
        let commit = Commit::parse(&answer.sha).ok_or_else(|| {
            let sha = shown(&answer.sha);
            client.bad_response(
                &host,
                WHAT,
                &format!("names {sha} as its commit; expected 40 digits"),
            )
        })?;
        let names: BTreeSet<String> = answer.siblings.into_iter().map(|s| s.rfilename).collect();
        if let Some(name) = names.iter().find(|name| !stays_inside(name)) {
            return Err(HubError::FileName { id: id.to_string(), name: shown(name) }.into());
        }
        Ok(Self { commit, names })
    }

    /// Paths of all files.
    pub(super) fn into_names(self) -> BTreeSet<String> {
        self.names
    }

    /// Paths of the companion files that the repository has.
    pub(super) fn companions(&self) -> Vec<String> {
        let wanted = |name: &&String| {
            companion_names().any(|companion| companion == name.as_str()) || self.is_of_module(name)
        };
        self.names.iter().filter(wanted).cloned().collect()
    }

    /// Whether this is a file of a module of a sentence encoder, whose folder is a number and the
    /// module's name: `2_Dense/model.safetensors`.
    fn is_of_module(&self, name: &str) -> bool {
        let Some((folder, file)) = name.split_once('/') else { return false };
        if self.transformer() == Some(folder) {
            return companion_names().any(|companion| companion == file);
        }
        let is_module = kind_of_module(folder).is_some_and(|kind| !kind.is_empty());
        let other = || self.names.contains(&format!("{folder}/model.safetensors"));
        is_module
            && match file {
                "config.json" | "model.safetensors" => true,
                "pytorch_model.bin" => !other(),
                _ => false,
            }
    }

    /// The folder of the transformer of an older sentence encoder, whose own folder has no
    /// configuration.
    fn transformer(&self) -> Option<&str> {
        let folders = self.names.iter().filter_map(|name| name.strip_suffix("/config.json"));
        let mut transformers = folders.filter(|name| kind_of_module(name) == Some("Transformer"));
        transformers.next().filter(|_| !self.names.contains(CONFIG))
    }

    /// Path of the weight file, or of the index of the shards.
    pub(super) fn weights(&self, client: &Client<'_>) -> Result<String, HubError> {
        const SHOWN: usize = 6;
        let below = |name: &str| match self.transformer() {
            Some(folder) => format!("{folder}/{name}"),
            None => name.to_owned(),
        };
        weights_among(|name| self.names.contains(&below(name))).map(below).ok_or_else(|| {
            let some: Vec<String> = self.names.iter().take(SHOWN).map(|name| shown(name)).collect();
            let more = self.names.len().saturating_sub(SHOWN);
            let found = match (some.is_empty(), more) {
                (true, _) => "no files".into(),
                (false, 0) => some.join(", "),
                (false, more) => format!("{} and {more} more", some.join(", ")),
            };
            HubError::NoWeights { id: client.id.to_string(), found }
        })
    }
}

/// What follows the number in the name of a module's folder: `Dense` in `2_Dense`.
fn kind_of_module(folder: &str) -> Option<&str> {
    let (number, kind) = folder.split_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(kind)
}

/// Size limit of a file by its name, in bytes.
pub(super) fn most_bytes(kind: Kind, name: &str) -> u64 {
    if kind == Kind::Dataset && !name.ends_with(".md") {
        return DATA_BYTES;
    }
    let weight = [".safetensors", ".bin", ".pth"].iter().any(|end| name.ends_with(end));
    if weight { WEIGHT_BYTES } else { COMPANION_BYTES }
}

/// Whether a joined path stays below its folder, on every system.
fn stays_inside(name: &str) -> bool {
    !name.contains(['\\', '\0', ':'])
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::{HubId, HubSettings};

    #[test]
    fn names_that_lead_away_are_known() {
        for name in ["config.json", "1_Pooling/config.json", ".gitattributes", "a..b"] {
            assert!(stays_inside(name), "{name}");
        }
        for name in ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "C:x", "a\\b", "a\0"]
        {
            assert!(!stays_inside(name), "{name}");
        }
    }

    #[test]
    fn what_is_read_is_wanted_and_nothing_else() {
        let names = [
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "2_Dense/pytorch_model.bin",
            "3_Dense/pytorch_model.bin",
            "3_Dense/README.md",
            "config.json",
            "config_sentence_transformers.json",
            "modules.json",
            "sentence_bert_config.json",
            "onnx/model.onnx",
            "README.md",
            "tokenizer.json",
            "pytorch_model.bin",
            "model.safetensors",
            "a/b_Pooling/config.json",
            "onnx/config.json",
            "1_Transformer/deeper/config.json",
        ];
        let commit = || Commit::parse(&"0".repeat(40)).unwrap();
        let listing = Listing { commit: commit(), names: names.map(str::to_owned).into() };
        let wanted = [
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "3_Dense/pytorch_model.bin",
            "config.json",
            "config_sentence_transformers.json",
            "modules.json",
            "sentence_bert_config.json",
            "tokenizer.json",
        ];
        assert_eq!(listing.companions(), wanted);
        let old = [
            "0_Transformer/config.json",
            "0_Transformer/pytorch_model.bin",
            "0_Transformer/sentence_bert_config.json",
            "0_Transformer/vocab.txt",
            "0_Transformer/tf_model.h5",
            "1_Pooling/config.json",
            "modules.json",
        ];
        let old = Listing { commit: commit(), names: old.map(str::to_owned).into() };
        let wanted = [
            "0_Transformer/config.json",
            "0_Transformer/sentence_bert_config.json",
            "0_Transformer/vocab.txt",
            "1_Pooling/config.json",
            "modules.json",
        ];
        assert_eq!(old.companions(), wanted);
        let home = |name: &str| (name == "HOME").then(|| "home".into());
        let settings = HubSettings::from_environment(home).unwrap();
        let id = HubId::parse("owner/name").unwrap().unwrap();
        let weights = old.weights(&Client::new(&id, &settings)).unwrap();
        assert_eq!(weights, "0_Transformer/pytorch_model.bin");
    }
}
