//! Readers of weight files.

use super::{few, outcome};
use linwright_files::Format;
use linwright_model::checkpoint::llama2c;
use std::path::Path;

/// Largest number of values read back from one tensor, to keep runs short.
const READ: usize = 1 << 12;

/// Parses a weight file and reads its tensors.
pub(super) fn read(format: Format, bytes: &[u8]) -> String {
    outcome(format.parse(bytes).map(|header| {
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
        let (tensors, turned, notes) = (few(header.tensors.len()), few(turned), header.notes.len());
        let full = if sizes == 0 { "empty" } else { "full" };
        format!("{tensors} tensors, {turned} turned, {notes} notes, {full}")
    }))
}

/// Reads a pickle as the object of an archive.
pub(super) fn read_pickle(bytes: &[u8]) -> String {
    read(Format::TorchZip, &archive(bytes))
}

/// Reads the header of a llama2.c model and checks the size of the file.
pub(super) fn read_llama2c(bytes: &[u8]) -> String {
    outcome(llama2c::read_config(Path::new("model.bin"), bytes).map(|config| {
        format!("{} layers, head tied {}", few(config.layers.len()), config.tied_embeddings)
    }))
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
