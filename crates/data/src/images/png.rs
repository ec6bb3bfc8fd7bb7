//! One image in a PNG file.
//!
//! Grey or RGB, in at most 8 bits; a palette, and grey of fewer bits, are expanded. An alpha
//! channel is dropped if every pixel is opaque, and rejected otherwise, since the background colour
//! is unknown. Images of 16 bits, which would have to be reduced, and animations are also rejected.
//! Gamma and colour profiles are not applied.
//!
//! Memory is bounded by the resized image: an image with too many pixels for its file size is
//! resized while it is read, row by row.

use super::gzip::DEFLATE_FACTOR;
use super::resize::{Averaging, resized_shape};
use super::{ImageError, ImageShape, Images, Pixels, invalid, most_pixels};
use ::png::{BitDepth, ColorType, Decoder, DecodingError, Encoder, Info, Limits, Transformations};
use linwright_run::shown_reason;
use std::io::Cursor;
use std::path::Path;

/// The first bytes of every file.
pub(super) const PNG_MAGIC: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// Largest number of pixels of an image.
const MAX_PIXELS: u64 = 1 << 26;
/// Bytes of pixels allowed for an image of any file size: pages and drawings are mostly one colour.
pub(super) const ONE_IMAGE: u64 = 32 << 20;
/// Memory for the parts of a file that are not pixels.
const OTHER_BYTES: usize = 1 << 20;

/// The image of a file, without a label; already resized if it would be too large.
pub(super) fn image(
    path: &Path,
    bytes: &[u8],
    resize: Option<[usize; 2]>,
) -> Result<Images, ImageError> {
    let failed = |error: DecodingError| {
        let reason = shown_reason(&error.to_string());
        invalid(path, format!("is not a valid PNG file: {reason}"))
    };
    let mut decoder = Decoder::new(Cursor::new(bytes));
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let info = decoder.read_header_info().map_err(failed)?;
    let is_large = is_large(info, bytes.len(), resize).map_err(|reason| invalid(path, reason))?;
    // A row is at most the whole image, and four bytes for each pixel.
    let row = 4 * info.width as usize;
    decoder.set_limits(Limits { bytes: OTHER_BYTES + bytes.len() + 4 * row });
    let mut reader = decoder.read_info().map_err(failed)?;
    if reader.info().animation_control.is_some() {
        return Err(invalid(path, "is an animation, expected one image"));
    }
    let [height, width] = [reader.info().height as usize, reader.info().width as usize];
    let (channels, alpha) = match reader.output_color_type().0 {
        ColorType::Grayscale | ColorType::Indexed => (1, false),
        ColorType::GrayscaleAlpha => (1, true),
        ColorType::Rgb => (3, false),
        ColorType::Rgba => (3, true),
    };
    let shape = ImageShape { height, width, channels };
    let images = match resize.filter(|_| is_large) {
        Some(size) => {
            let mut averaging = Averaging::new(shape, resized_shape(shape, size)?);
            for index in 0..height {
                let row = reader.next_row().map_err(failed)?;
                let row = row.ok_or_else(|| invalid(path, "ends before its last row"))?;
                match alpha {
                    true => averaging.push(&opaque(path, row.data(), shape, index)?),
                    false => averaging.push(row.data()),
                }
            }
            averaging.images()
        }
        None => {
            let size = reader.output_buffer_size();
            let mut pixels = vec![0; size.ok_or_else(|| failed(DecodingError::LimitsExceeded))?];
            reader.next_frame(&mut pixels).map_err(failed)?;
            let pixels = if alpha { opaque(path, &pixels, shape, 0)? } else { pixels };
            Images::new(shape, Pixels::Bytes(pixels), None)
        }
    };
    // The checksums of the chunks after the pixels.
    reader.finish().map_err(failed)?;
    Ok(images)
}

/// The file of an image of bytes (height, width, channels), grey or RGB, with the word `software`
/// in its text.
///
/// # Errors
/// [`ImageError::BadOption`] for other channels, or without pixels.
///
/// # Panics
/// If there are not as many bytes as the shape says.
#[track_caller]
pub fn png_bytes(shape: ImageShape, pixels: &[u8], software: &str) -> Result<Vec<u8>, ImageError> {
    assert_eq!(shape.numbers(), pixels.len(), "pixels of {shape}");
    let wrong = |reason: String| ImageError::BadOption { option: "picture", reason };
    let colour = match shape.channels {
        1 => ColorType::Grayscale,
        3 => ColorType::Rgb,
        _ => return Err(wrong(format!("is {shape}, expected 1 or 3 channels"))),
    };
    let sides = [shape.width, shape.height].map(u32::try_from);
    let [Ok(width), Ok(height)] = sides else {
        return Err(wrong(format!("is {shape}, which is too large")));
    };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(BitDepth::Eight);
    let written = encoder
        .add_text_chunk("Software".to_owned(), software.to_owned())
        .and_then(|()| encoder.write_header())
        .and_then(|mut writer| writer.write_image_data(pixels));
    written.map_err(|error| wrong(shown_reason(&error.to_string())))?;
    Ok(bytes)
}

/// Checks a header before anything is allocated for its pixels; returns whether there are too many
/// for the file size, so that they must be resized while they are read.
fn is_large(
    info: &Info<'_>,
    file_bytes: usize,
    resize: Option<[usize; 2]>,
) -> Result<bool, String> {
    let [height, width] = [u64::from(info.height), u64::from(info.width)];
    if info.bit_depth == BitDepth::Sixteen {
        return Err("has 16 bits per channel, expected at most 8: convert it".into());
    }
    if height * width > MAX_PIXELS {
        return Err(format!("is {height} x {width} pixels, expected at most {MAX_PIXELS} in all"));
    }
    let bits = width * info.bits_per_pixel() as u64;
    // Expansions: palettes to colours, fewer than eight bits to bytes, transparency to a separate
    // channel.
    let channels = match info.color_type {
        ColorType::Indexed => 3,
        other => other.samples() as u64,
    };
    let each = channels + u64::from(info.trns.is_some());
    let expanded = height * width * each;
    let packed = height * bits.div_ceil(8);
    let possible = file_bytes as u64 * DEFLATE_FACTOR;
    let most = most_pixels(file_bytes as u64).max(ONE_IMAGE);
    let wrong = |needed: u64, most: u64, to_do: &str| {
        Err(format!(
            "is {height} x {width} pixels in {needed} bytes, expected at most {most} in a file of \
             {file_bytes} bytes{to_do}"
        ))
    };
    if packed > possible {
        return wrong(packed, possible, "");
    }
    if expanded <= most {
        return Ok(false);
    }
    let kept = resize.map(|[height, width]| (height as u64).saturating_mul(width as u64));
    match kept.map(|kept| kept.saturating_mul(each)) {
        Some(_) if info.interlaced => {
            wrong(expanded, most, ": save it without interlacing, so that it is resized by rows")
        }
        Some(kept) if kept > most => wrong(kept, most, " when resized: choose a smaller size"),
        Some(_) => Ok(true),
        None => wrong(expanded, most, ": resize it by `resize`, or make it smaller"),
    }
}

/// Rows of pixels without their alpha channel; `first` is the number of the first one.
fn opaque(
    path: &Path,
    pixels: &[u8],
    ImageShape { width, channels, .. }: ImageShape,
    first: usize,
) -> Result<Vec<u8>, ImageError> {
    let with_alpha = pixels.chunks_exact(channels + 1);
    if let Some(index) = with_alpha.clone().position(|pixel| pixel[channels] != u8::MAX) {
        let reason = format!(
            "is transparent at row {}, column {}; expected opaque pixels: put it on a background",
            first + index / width,
            index % width
        );
        return Err(invalid(path, reason));
    }
    Ok(with_alpha.flat_map(|pixel| &pixel[..channels]).copied().collect())
}
