//! Images and labels in numpy arrays.
//!
//! Images are (images, height, width) or (images, height, width, channels), of bytes or floats;
//! labels are integers, one for each image. The file does not name its axes: arrays whose channels
//! seem to be elsewhere, first as in PyTorch or before the images, are rejected.

use super::{
    ImageError, ImageShape, Images, MAX_CLASSES, Pixels, check_label, check_size, invalid,
};
use linwright_files::{NpyHeader, StoredType};
use linwright_run::shown;
use std::borrow::Cow;
use std::path::Path;

/// Largest number of channels by which the order of axes is recognised.
const MOST_CHANNELS: usize = 4;

/// Channels of a colour image: an array with three "images" may be the colours of many.
const COLOURS: usize = 3;

/// The images of a file, without labels.
pub(super) fn images(path: &Path, bytes: &[u8]) -> Result<Images, ImageError> {
    let (header, content) = open(path, bytes)?;
    let shape = match header.shape[..] {
        [_, height, width] => ImageShape { height, width, channels: 1 },
        [_, height, width, channels] => ImageShape { height, width, channels },
        _ => {
            let reason = format!(
                "has shape {}, expected (images, height, width) or (images, height, width, channels)",
                extents(&header)
            );
            return Err(invalid(path, reason));
        }
    };
    if header.shape.contains(&0) {
        let reason = format!("has shape {}, expected at least one pixel", extents(&header));
        return Err(invalid(path, reason));
    }
    check_axes(&header.shape).map_err(|reason| invalid(path, reason))?;
    let pixels = match header.dtype {
        StoredType::U8 => {
            check_size(path, content.len() as u64)?;
            Pixels::Bytes(content.to_vec())
        }
        StoredType::F32 | StoredType::F64 => Pixels::Floats(floats(path, &header, content, shape)?),
        other => {
            let reason = format!(
                "holds {}, expected images in u8, f32 or f64: convert them with astype",
                other.name()
            );
            return Err(invalid(path, reason));
        }
    };
    Ok(Images::new(shape, pixels, None))
}

/// Rejects an array whose channels do not seem to be its last axis.
fn check_axes(shape: &[usize]) -> Result<(), String> {
    let is_few = |extent: usize| extent <= MOST_CHANNELS;
    let [images, a, b, last] = *shape else { return Ok(()) };
    let first = ("channels first", "images, channels, height, width", "0, 2, 3, 1");
    let (found, axes, order) = match [is_few(a), is_few(b), is_few(last)] {
        [true, false, false] => first,
        [false, true, false] => ("images last", "height, width, channels, images", "3, 0, 1, 2"),
        // With more channels, square images decide.
        [false, false, false] if a != b && b == last => first,
        [false, false, false] if images == COLOURS => {
            ("images last", "channels, height, width, images", "3, 1, 2, 0")
        }
        _ => return Ok(()),
    };
    Err(format!(
        "has shape {shape:?}: {images} images of {a} x {b} with {last} channels, or {found}, \
         ({axes}); expected (images, height, width, channels): save \
         numpy.ascontiguousarray(a.transpose({order}))"
    ))
}

/// The labels of a file.
pub(super) fn labels(path: &Path, bytes: &[u8]) -> Result<Vec<u32>, ImageError> {
    let (header, content) = open(path, bytes)?;
    if header.shape.len() != 1 {
        let reason = format!("has shape {}, expected (images,) for labels", extents(&header));
        return Err(invalid(path, reason));
    }
    let signed = match header.dtype {
        StoredType::U8 | StoredType::U16 | StoredType::U32 | StoredType::U64 => false,
        StoredType::I8 | StoredType::I16 | StoredType::I32 | StoredType::I64 => true,
        other => {
            let reason = format!("holds {}, expected labels in integers", other.name());
            return Err(invalid(path, reason));
        }
    };
    let numbers = content.chunks_exact(size(&header)).map(|bytes| integer(bytes, signed));
    let label = |(index, label)| check_label(path, index, label, MAX_CLASSES);
    numbers.enumerate().map(label).collect()
}

/// Header and numbers of a file, with the lowest byte of each first.
fn open<'a>(path: &Path, bytes: &'a [u8]) -> Result<(NpyHeader, Cow<'a, [u8]>), ImageError> {
    let header = NpyHeader::parse(bytes).map_err(|reason| invalid(path, reason))?;
    if header.by_columns && header.shape.len() > 1 {
        let reason = "is column-major; save numpy.ascontiguousarray of it";
        return Err(invalid(path, reason));
    }
    let (size, found) = (size(&header), bytes.len() - header.start);
    let expected = header.shape.iter().try_fold(size, |n, &extent| n.checked_mul(extent));
    match expected.and_then(|expected| expected.checked_add(header.start)) {
        Some(expected) if expected == bytes.len() => {}
        Some(expected) => {
            let (path, holds) = (path.to_owned(), format!("numbers of shape {}", extents(&header)));
            let expected_bytes = expected as u64;
            return Err(match expected > bytes.len() {
                true => {
                    let found_bytes = bytes.len() as u64;
                    ImageError::Truncated { path, holds, expected_bytes, found_bytes }
                }
                false => ImageError::Surplus { path, holds, expected_bytes },
            });
        }
        None => {
            let reason = format!(
                "has the impossible shape {} with {found} bytes of numbers",
                extents(&header)
            );
            return Err(invalid(path, reason));
        }
    }
    let content = &bytes[header.start..];
    if !header.big_endian || size == 1 {
        return Ok((header, Cow::Borrowed(content)));
    }
    let mut swapped = content.to_vec();
    swapped.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    Ok((header, Cow::Owned(swapped)))
}

/// The shape in a message, shortened if there are many dimensions.
fn extents(header: &NpyHeader) -> String {
    shown(&format!("{:?}", header.shape))
}

/// Bytes of one number.
fn size(header: &NpyHeader) -> usize {
    (header.dtype.bits() / 8) as usize
}

/// An integer of one to eight bytes, the lowest first.
fn integer(bytes: &[u8], signed: bool) -> i128 {
    let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

/// Finite numbers.
fn floats(
    path: &Path,
    header: &NpyHeader,
    content: Cow<'_, [u8]>,
    shape: ImageShape,
) -> Result<Vec<f32>, ImageError> {
    let size = size(header);
    check_size(path, (content.len() / size * 4) as u64)?;
    let value = |bytes: &[u8]| match *bytes {
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("numbers of {size} bytes"),
    };
    let checked = |(index, bytes): (usize, &[u8])| {
        let value = value(bytes);
        match (value as f32).is_finite() {
            true => Ok(value as f32),
            false => Err(non_finite(path, index, value, shape)),
        }
    };
    content.chunks_exact(size).enumerate().map(checked).collect()
}

fn non_finite(path: &Path, index: usize, value: f64, shape: ImageShape) -> ImageError {
    let (image, rest) = (index / shape.numbers(), index % shape.numbers());
    let (pixel, channel) = (rest / shape.channels, rest % shape.channels);
    let (row, column) = (pixel / shape.width, pixel % shape.width);
    ImageError::NonFinite { path: path.to_owned(), image, row, column, channel, value }
}
