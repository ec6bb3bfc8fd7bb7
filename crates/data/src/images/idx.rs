//! idx files, the format of MNIST, plain or in gzip.
//!
//! Two zero bytes, the type of the numbers (8: unsigned bytes), the number of dimensions, each
//! dimension as four bytes, highest first, then the numbers. Images have three dimensions (images,
//! height, width), labels one.
//! Source: LeCun, Cortes and Burges, "The MNIST database of handwritten digits".

use super::gzip::Input;
use super::{ImageError, ImageShape, Images, Pixels, check_label, check_size, invalid};
use crate::inflate::GZIP_MAGIC;
use std::path::{Path, PathBuf};

/// First number of a file of images, and of one of labels.
const IMAGES: u32 = 0x0803;
const LABELS: u32 = 0x0801;
/// Parts of names of files of images, and of those with their labels.
const NAMES: [(&str, &str); 2] = [("images-idx3", "labels-idx1"), ("images.idx3", "labels.idx1")];

/// Whether a file begins like one, or like any compressed file.
pub(super) fn is_like(bytes: &[u8]) -> bool {
    matches!(bytes, [0, 0, 0x08..=0x0e, 1..=4, ..]) || bytes.starts_with(&GZIP_MAGIC)
}

/// The images of a file, without labels.
pub(super) fn images(path: &Path, bytes: &[u8]) -> Result<Images, ImageError> {
    let mut input = Input::new(path, bytes);
    check_magic(path, input.number("the type")?, IMAGES)?;
    let [count, height, width] =
        [input.number("the number of images")?, input.number("height")?, input.number("width")?];
    let holds = format!("{count} images of {height} x {width}");
    if count == 0 || height == 0 || width == 0 {
        return Err(invalid(path, format!("holds {holds}, expected at least one pixel")));
    }
    let bytes = u64::from(count).checked_mul(u64::from(height));
    let bytes = bytes.and_then(|bytes| bytes.checked_mul(u64::from(width))).unwrap_or(u64::MAX);
    check_size(path, bytes)?;
    let pixels = Pixels::Bytes(input.content(bytes, &holds)?);
    let shape = ImageShape { height: height as usize, width: width as usize, channels: 1 };
    Ok(Images::new(shape, pixels, None))
}

/// The labels of a file.
pub(super) fn labels(path: &Path, bytes: &[u8]) -> Result<Vec<u32>, ImageError> {
    let mut input = Input::new(path, bytes);
    check_magic(path, input.number("the type")?, LABELS)?;
    let count = input.number("the number of labels")?;
    let labels = input.content(u64::from(count), &format!("{count} labels"))?;
    let label = |(index, &label): (usize, &u8)| check_label(path, index, label.into(), 256);
    labels.iter().enumerate().map(label).collect()
}

/// The file of labels next to a file of images, by the usual names, with or without `.gz`.
pub(super) fn labels_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (images, labels) = NAMES.into_iter().find(|(images, _)| name.contains(images))?;
    let name = name.replace(images, labels);
    let other = match name.strip_suffix(".gz") {
        Some(plain) => plain.to_owned(),
        None => format!("{name}.gz"),
    };
    [name, other].iter().map(|name| path.with_file_name(name)).find(|path| path.is_file())
}

fn check_magic(path: &Path, found: u32, expected: u32) -> Result<(), ImageError> {
    if found == expected {
        return Ok(());
    }
    let what = |magic: u32| if magic == IMAGES { "images" } else { "labels" };
    let reason = match found {
        IMAGES | LABELS => {
            format!("is an idx file of {}, expected {}", what(found), what(expected))
        }
        _ => format!(
            "begins with 0x{found:08x}, expected 0x{expected:08x}, an idx file of {} in bytes",
            what(expected)
        ),
    };
    Err(invalid(path, reason))
}
