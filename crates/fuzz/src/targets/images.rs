//! Readers of images and labels.

use super::{few, outcome};
use linwright_data::images::{ImageFormat, Images, Normalisation, labels_from_bytes};
use std::path::Path;

/// First number of an idx file of labels.
const IDX_LABELS: [u8; 4] = [0, 0, 8, 1];
/// Bytes before the first chunk of a PNG file, and around the data of a chunk.
const PNG_SIGNATURE: usize = 8;
const CHUNK_HEAD: usize = 8;
const CHECKSUM: usize = 4;

/// Reads an idx file, plain or in gzip.
pub(super) fn idx(bytes: &[u8]) -> String {
    match bytes.starts_with(&IDX_LABELS) {
        true => labels(bytes),
        false => images(bytes, ImageFormat::Idx),
    }
}

/// Reads records of CIFAR-100 or CIFAR-10, by the size.
pub(super) fn cifar(bytes: &[u8]) -> String {
    match bytes.len() % 2 {
        0 => images(bytes, ImageFormat::Cifar100),
        _ => images(bytes, ImageFormat::Cifar10),
    }
}

/// Reads a numpy array as images, and one of integers as labels.
pub(super) fn npy(bytes: &[u8]) -> String {
    let (of_images, of_labels) = (images(bytes, ImageFormat::Npy), labels(bytes));
    match of_labels.starts_with("read ") {
        true => of_labels,
        false => of_images,
    }
}

/// Reads a PNG file with corrected checksums of its chunks, which mutations would break.
pub(super) fn png(bytes: &[u8]) -> String {
    images(&with_checksums(bytes), ImageFormat::Png)
}

/// Reads images, resizes them and converts them to rows.
fn images(bytes: &[u8], format: ImageFormat) -> String {
    outcome(Images::from_bytes(Path::new("images"), bytes, Some(format)).map(|images| {
        let channels = images.shape().channels;
        let small = images.resized([2, 3]).map(|small| small.select(&[small.len() - 1]));
        let rows = small.and_then(|small| {
            let mut rows = vec![0.0; small.shape().numbers()];
            small.rows(&[0], &Normalisation::none(channels), &mut rows)
        });
        let (count, labelled) = (few(images.len()), images.labels().is_some());
        format!("{count} images, {} channels, {labelled}, {}", few(channels), rows.is_ok())
    }))
}

fn labels(bytes: &[u8]) -> String {
    outcome(
        labels_from_bytes(Path::new("labels"), bytes)
            .map(|labels| format!("{} labels", few(labels.len()))),
    )
}

/// The file with the right checksum after each chunk.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = PNG_SIGNATURE;
    while let Some(head) = bytes.get(at..at + CHUNK_HEAD) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let end = at + CHUNK_HEAD + length;
        if bytes.len() < end + CHECKSUM {
            break;
        }
        let sum = crc(&bytes[at + 4..end]).to_be_bytes();
        bytes[end..end + CHECKSUM].copy_from_slice(&sum);
        at = end + CHECKSUM;
    }
    bytes
}

/// CRC-32 as in PNG, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let byte = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 * (sum & 1)))
    };
    !bytes.iter().fold(u32::MAX, byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_format() {
        // The empty chunk at the end of every PNG file.
        assert_eq!(crc(b"IEND"), 0xae42_6082);
    }
}
