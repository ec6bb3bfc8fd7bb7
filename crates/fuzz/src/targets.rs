//! The readers that are driven.

use crate::signature::signature;
use linwright_model::checkpoint::{FileFault, Format, Header};

/// A reader of outside bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in `testdata/fuzz`.
    pub name: &'static str,
    /// Takes an input and says in a few words what came of it.
    pub run: fn(&[u8]) -> String,
    /// Further folders of seeds in `testdata`.
    pub seeds: &'static [&'static str],
}

impl Target {
    /// A target with seeds in its own folder.
    #[must_use]
    pub const fn new(name: &'static str, run: fn(&[u8]) -> String) -> Self {
        Self { name, run, seeds: &[] }
    }

    /// The same with further folders of seeds in `testdata`.
    #[must_use]
    pub const fn seeds(self, seeds: &'static [&'static str]) -> Self {
        Self { seeds, ..self }
    }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target::new("safetensors", |bytes| weights(Format::Safetensors, bytes))
        .seeds(&["pickles/model/safetensors"]),
    Target::new("torch_zip", |bytes| weights(Format::TorchZip, bytes)).seeds(&[
        "pickles/good",
        "pickles/bad",
        "pickles/model/pickle",
    ]),
    Target::new("torch_pickle", |bytes| weights(Format::TorchZip, &archive(bytes))),
    Target::new("torch_legacy", |bytes| weights(Format::TorchLegacy, bytes))
        .seeds(&["pickles/good", "pickles/bad"]),
];

/// Most numbers of a tensor that are read back from one input, to keep runs short.
const READ: usize = 1 << 12;

/// Parses a weight file and reads its tensors.
fn weights(format: Format, bytes: &[u8]) -> String {
    let header: Result<Header, FileFault> = format.parse(bytes);
    match header {
        Err(fault) => {
            check_message(&fault);
            signature(&format!("{fault:?}"))
        }
        Ok(header) => {
            let mut left = READ;
            let mut sizes = 0;
            for info in header.tensors.values() {
                let count = info.shape.iter().product::<usize>().min(left);
                left -= count;
                // Types of less than a byte are never read.
                if info.dtype.name() != "F4" && !info.dtype.name().starts_with("F6") {
                    sizes += info.stored(bytes, 0..count).len();
                }
            }
            let turned = header.tensors.values().filter(|info| info.strides.is_some()).count();
            let count = |n: usize| n.min(4);
            format!(
                "read {} tensors, {} turned, {} notes, {}",
                count(header.tensors.len()),
                count(turned),
                header.notes.len(),
                if sizes == 0 { "empty" } else { "full" }
            )
        }
    }
}

/// Checks that a message is one line of bounded length, whatever the input.
fn check_message(fault: &FileFault) {
    let message = fault.to_string();
    assert!(message.len() < 2000, "a message of {} bytes", message.len());
    let odd = message.chars().find(|c| c.is_control());
    assert!(odd.is_none(), "a message with a control character: {message:?}");
}

/// An archive of torch.save around a pickle, with the storages of the seed `plain`.
fn archive(pickle: &[u8]) -> Vec<u8> {
    const NUMBERS: [u8; 48] = [7; 48];
    let mut names: Vec<(String, &[u8])> = vec![("a/data.pkl".into(), pickle)];
    let sizes = [48, 12, 4, 0].into_iter().enumerate();
    names.extend(sizes.map(|(key, size)| (format!("a/data/{key}"), &NUMBERS[..size])));
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in &names {
        let offset = file.len() as u32;
        let sizes = [(content.len() as u32).to_le_bytes(); 2].concat();
        let lengths = [(name.len() as u16).to_le_bytes(), [0; 2]].concat();
        file.extend_from_slice(b"PK\x03\x04");
        file.extend_from_slice(&[0; 14]);
        for part in [&sizes, &lengths, name.as_bytes(), content] {
            file.extend_from_slice(part);
        }
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&[0; 16]);
        directory.extend_from_slice(&sizes);
        directory.extend_from_slice(&lengths);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (start, count) = (file.len() as u32, (names.len() as u16).to_le_bytes());
    file.extend_from_slice(&directory);
    file.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    file.extend_from_slice(&count);
    file.extend_from_slice(&count);
    file.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    file.extend_from_slice(&start.to_le_bytes());
    file.extend_from_slice(&[0; 2]);
    file
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
            assert!(outcome.signatures.len() > 5, "{name}: {:?}", outcome.signatures);
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
