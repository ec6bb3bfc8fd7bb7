//! The fuzzed readers.

mod descriptions;
mod images;
mod molecules;
mod settings;
mod tokenizers;
mod weights;

use crate::signature::signature;
use linwright_files::Format;
use linwright_model::checkpoint::gguf;
use std::fmt::{Debug, Display};

/// A reader of external bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target and of its folder in `testdata/fuzz`.
    pub name: &'static str,
    /// Runs the reader and returns the outcome in a few words.
    pub run: fn(&[u8]) -> String,
    /// Further seeds in `testdata`: files and folders.
    pub seeds: &'static [&'static str],
    /// Memory allowance in bytes for any input, for readers whose input determines the computation.
    pub memory: usize,
}

/// Default memory allowance in bytes, in addition to a multiple of the input. A short configuration
/// may request the largest allowed number of layers, whose layout takes 5.6 MB.
const MEMORY: usize = 1 << 23;
/// Memory allowance of a template in bytes.
const OF_TEMPLATES: usize = 300 << 20;
/// Memory allowance of a PNG file in bytes: a kilobyte can hold a million bytes of pixels, each of
/// eight, which become four bytes each.
const OF_PNG: usize = 1 << 27;

impl Target {
    /// A target with seeds in its own folder.
    #[must_use]
    pub const fn new(name: &'static str, run: fn(&[u8]) -> String) -> Self {
        Self { name, run, seeds: &[], memory: MEMORY }
    }

    /// The same with further seeds in `testdata`.
    #[must_use]
    pub const fn seeds(self, seeds: &'static [&'static str]) -> Self {
        Self { seeds, ..self }
    }

    /// The same with another memory allowance.
    #[must_use]
    pub const fn memory(self, memory: usize) -> Self {
        Self { memory, ..self }
    }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target::new("safetensors", |bytes| weights::read(Format::Safetensors, bytes))
        .seeds(&["pickles/model/safetensors"]),
    Target::new("torch_zip", |bytes| weights::read(Format::TorchZip, bytes)).seeds(&[
        "pickles/good",
        "pickles/bad",
        "pickles/model/pickle",
    ]),
    Target::new("torch_pickle", weights::read_pickle),
    Target::new("torch_legacy", |bytes| weights::read(Format::TorchLegacy, bytes))
        .seeds(&["pickles/good", "pickles/bad"]),
    Target::new("gguf", gguf::signature).seeds(&["fuzz/gguf_found"]),
    Target::new("llama2c", weights::read_llama2c),
    Target::new("config", settings::config).seeds(&["configs"]),
    Target::new("generation_config", settings::generation),
    Target::new("tokenizer_json", tokenizers::json)
        .seeds(&["tokenizers/llama-json/tokenizer.json", "tokenizers/mistral-json/tokenizer.json"]),
    Target::new("tokenizer_config", tokenizers::config).seeds(&[
        "tokenizers/bert-cased/tokenizer_config.json",
        "tokenizers/gpt2-added/tokenizer_config.json",
        "tokenizers/llama-json/tokenizer_config.json",
        "tokenizers/mistral-json/tokenizer_config.json",
        "tokenizers/qwen2/tokenizer_config.json",
    ]),
    Target::new("tokenizer_steps", tokenizers::steps),
    Target::new("chat_template", tokenizers::chat_template).memory(OF_TEMPLATES),
    Target::new("chat_request", tokenizers::chat_request).memory(OF_TEMPLATES),
    Target::new("task_file", descriptions::task_file).memory(OF_TEMPLATES),
    Target::new("jobs", descriptions::jobs),
    Target::new("plan", descriptions::plan),
    Target::new("net", descriptions::net),
    Target::new("flow", descriptions::flow),
    Target::new("sentencepiece", tokenizers::sentencepiece).seeds(&[
        "tokenizers/albert/spiece.model",
        "tokenizers/gemma/tokenizer.model",
        "tokenizers/llama/tokenizer.model",
        "tokenizers/t5/spiece.model",
        "tokenizers/xlm-roberta/sentencepiece.bpe.model",
    ]),
    Target::new("byte_level_vocab", tokenizers::byte_level_vocab)
        .seeds(&["tokenizers/gpt2/vocab.json", "tokenizers/qwen2/vocab.json"]),
    Target::new("byte_level_merges", tokenizers::byte_level_merges)
        .seeds(&["tokenizers/gpt2/merges.txt", "tokenizers/qwen2/merges.txt"]),
    Target::new("word_pieces", tokenizers::word_pieces)
        .seeds(&["tokenizers/bert-cased/vocab.txt", "tokenizers/bert-uncased/vocab.txt"]),
    Target::new("llama2c_tokenizer", tokenizers::llama2c),
    Target::new("image_idx", images::idx),
    Target::new("image_cifar", images::cifar),
    Target::new("image_npy", images::npy),
    Target::new("image_png", images::png).memory(OF_PNG),
    Target::new("xyz", molecules::xyz).seeds(&["tensornet/ethanol_like.xyz"]),
    Target::new("npz", molecules::npz).seeds(&["tensornet/md17.npz", "tensornet/rmd17.npz"]),
    Target::new("potential", molecules::checkpoint),
    Target::new("torchmd_settings", molecules::settings),
];

/// Outcome for an input: `read ...`, or the kind of error.
fn outcome<E: Debug + Display>(result: Result<String, E>) -> String {
    match result {
        Ok(read) => format!("read {read}"),
        Err(error) => {
            check_message(&error);
            signature(&format!("{error:?}"))
        }
    }
}

/// Checks that a message is one line of bounded length for any input.
fn check_message(error: &dyn Display) {
    let message = error.to_string();
    assert!(message.len() < 2000, "a message of {} bytes", message.len());
    let odd = message.chars().find(|c| c.is_control());
    assert!(odd.is_none(), "a message with a control character: {message:?}");
}

/// Small numbers unchanged, all others as one word.
fn few(count: usize) -> usize {
    count.min(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, Seeds, fuzz, repository_root};
    use std::collections::BTreeSet;

    #[test]
    fn every_target_takes_some_thousand_damaged_inputs() {
        for target in TARGETS {
            let seeds = Seeds::read(target, &repository_root(), None).unwrap();
            let outcome = fuzz(target, &seeds, Bounds { runs: 4000, seconds: 1e9, seed: 1 });
            let name = target.name;
            assert!(outcome.findings.is_empty(), "{name}: {:?}", outcome.findings);
            assert!(outcome.signatures.len() > 2, "{name}: {:?}", outcome.signatures);
        }
    }

    #[test]
    fn some_seeds_of_each_target_are_good_files() {
        for target in TARGETS {
            let seeds = Seeds::read(target, &repository_root(), None).unwrap();
            let results: BTreeSet<String> = seeds.inputs.iter().map(|i| (target.run)(i)).collect();
            assert!(results.iter().any(|r| r.starts_with("read ")), "{}: {results:?}", target.name);
        }
    }
}
