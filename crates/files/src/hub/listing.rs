//! The files of a model on the hub, and which of them are needed.

use super::client::{Client, Method, RequestFailure, escaped};
use super::error::HubError;
use super::id::{Commit, Kind};
use crate::companions::{COMPANION_BYTES, companion_names};
use crate::weights_among;
use linwright_run::shown;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::Read;

/// Largest list of files that is read, in bytes.
const LISTING_BYTES: u64 = 1 << 25;
/// Largest weight file that is taken, in bytes: what the hub takes from those who upload.
const WEIGHT_BYTES: u64 = 1 << 39;
/// Largest file of a data set that is taken, in bytes: none larger is read.
const DATA_BYTES: u64 = 1 << 32;
/// Lists the modules of a sentence encoder.
const MODULES: &str = "modules.json";
/// How the message names the list.
const WHAT: &str = "its list of files";

/// What the hub says of a revision.
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
    /// Asks the hub.
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

    /// The names of all files.
    pub(super) fn into_names(self) -> BTreeSet<String> {
        self.names
    }

    /// The files besides weights that a model is made of, as far as there are any.
    pub(super) fn companions(&self) -> Vec<String> {
        let pooling = |name: &str| {
            let folder = name.strip_suffix("/config.json");
            folder.is_some_and(|folder| folder.ends_with("_Pooling") && !folder.contains('/'))
        };
        let wanted = |name: &&String| {
            companion_names().any(|companion| companion == name.as_str())
                || name.as_str() == MODULES
                || pooling(name)
        };
        self.names.iter().filter(wanted).cloned().collect()
    }

    /// The weight file, or the index that names the shards.
    pub(super) fn weights(&self, client: &Client<'_>) -> Result<&'static str, HubError> {
        const SHOWN: usize = 6;
        weights_among(|name| self.names.contains(name)).ok_or_else(|| {
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

/// Most bytes that a file of this name may have.
pub(super) fn most_bytes(kind: Kind, name: &str) -> u64 {
    if kind == Kind::Dataset && !name.ends_with(".md") {
        return DATA_BYTES;
    }
    let weight = [".safetensors", ".bin", ".pth"].iter().any(|end| name.ends_with(end));
    if weight { WEIGHT_BYTES } else { COMPANION_BYTES }
}

/// Whether a name leads to a file below the folder it is joined to, on every system.
fn stays_inside(name: &str) -> bool {
    !name.contains(['\\', '\0', ':'])
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "config.json",
            "modules.json",
            "onnx/model.onnx",
            "README.md",
            "tokenizer.json",
            "pytorch_model.bin",
            "model.safetensors",
            "a/b_Pooling/config.json",
            "onnx/config.json",
        ];
        let commit = Commit::parse(&"0".repeat(40)).unwrap();
        let listing = Listing { commit, names: names.map(str::to_owned).into() };
        let wanted = ["1_Pooling/config.json", "config.json", "modules.json", "tokenizer.json"];
        assert_eq!(listing.companions(), wanted);
    }
}
