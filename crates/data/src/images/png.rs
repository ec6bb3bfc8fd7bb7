//! One image in a PNG file.
//!
//! Grey or RGB, in at most 8 bits; a palette, and grey of fewer bits, are expanded. An alpha
//! channel is dropped if every pixel is opaque, and refused otherwise, since the colour behind it
//! is unknown. Refused as well are 16 bits, which would have to be reduced, and animations. Gamma
//! and colour profiles are not applied.

use super::gzip::DEFLATE_FACTOR;
use super::{ImageError, ImageShape, Images, Pixels, invalid, most_pixels};
use ::png::{BitDepth, ColorType, Decoder, DecodingError, Encoder, Info, Limits, Transformations};
use linwright_run::shown_reason;
use std::io::Cursor;
use std::path::Path;

/// The first bytes of every file.
pub(super) const PNG_MAGIC: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// Largest number of pixels of an image.
const MAX_PIXELS: u64 = 1 << 26;
/// Bytes of pixels of one image that any file may hold: pages and drawings are mostly one colour.
pub(super) const ONE_IMAGE: u64 = 32 << 20;
/// Memory for the parts of a file that are not pixels.
const OTHER_BYTES: usize = 1 << 20;

/// The image of a file, without a label.
pub(super) fn image(path: &Path, bytes: &[u8]) -> Result<Images, ImageError> {
    let failed = |error: DecodingError| {
        let reason = shown_reason(&error.to_string());
        invalid(path, format!("is no valid PNG file: {reason}"))
    };
    let mut decoder = Decoder::new(Cursor::new(bytes));
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let info = decoder.read_header_info().map_err(failed)?;
    check(info, bytes.len()).map_err(|reason| invalid(path, reason))?;
    // A row is at most the whole image, and four bytes for each pixel.
    let row = 4 * info.width as usize;
    decoder.set_limits(Limits { bytes: OTHER_BYTES + bytes.len() + 4 * row });
    let mut reader = decoder.read_info().map_err(failed)?;
    if reader.info().animation_control.is_some() {
        return Err(invalid(path, "is an animation, expected one image"));
    }
    let (colour, _) = reader.output_color_type();
    let size = reader.output_buffer_size().ok_or_else(|| failed(DecodingError::LimitsExceeded))?;
    let mut pixels = vec![0; size];
    reader.next_frame(&mut pixels).map_err(failed)?;
    let [height, width] = [reader.info().height as usize, reader.info().width as usize];
    // The checksums of what follows the pixels.
    reader.finish().map_err(failed)?;
    let (channels, alpha) = match colour {
        ColorType::Grayscale | ColorType::Indexed => (1, false),
        ColorType::GrayscaleAlpha => (1, true),
        ColorType::Rgb => (3, false),
        ColorType::Rgba => (3, true),
    };
    let pixels = if alpha { opaque(path, &pixels, channels, width)? } else { pixels };
    Ok(Images::new(ImageShape { height, width, channels }, Pixels::Bytes(pixels), None))
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

/// Checks a header before anything is allocated for its pixels.
fn check(info: &Info<'_>, file_bytes: usize) -> Result<(), String> {
    let [height, width] = [u64::from(info.height), u64::from(info.width)];
    if info.bit_depth == BitDepth::Sixteen {
        return Err("has 16 bits per channel, expected at most 8: convert it".into());
    }
    if height * width > MAX_PIXELS {
        return Err(format!("is {height} x {width} pixels, expected at most {MAX_PIXELS} in all"));
    }
    let bits = width * info.bits_per_pixel() as u64;
    // What is expanded: a palette to colours, fewer than eight bits to a byte, transparency to a
    // channel of its own.
    let channels = match info.color_type {
        ColorType::Indexed => 3,
        other => other.samples() as u64,
    };
    let expanded = height * width * (channels + u64::from(info.trns.is_some()));
    let packed = height * bits.div_ceil(8);
    let possible = file_bytes as u64 * DEFLATE_FACTOR;
    let most = most_pixels(file_bytes as u64).max(ONE_IMAGE);
    for (needed, most) in [(packed, possible), (expanded, most)] {
        if needed > most {
            return Err(format!(
                "is {height} x {width} pixels in {needed} bytes, expected at most {most} in a file of {file_bytes} bytes"
            ));
        }
    }
    Ok(())
}

/// The pixels without their alpha channel.
fn opaque(
    path: &Path,
    pixels: &[u8],
    channels: usize,
    width: usize,
) -> Result<Vec<u8>, ImageError> {
    let with_alpha = pixels.chunks_exact(channels + 1);
    if let Some(index) = with_alpha.clone().position(|pixel| pixel[channels] != u8::MAX) {
        let reason = format!(
            "is transparent at row {}, column {}; expected opaque pixels: put it on a background",
            index / width,
            index % width
        );
        return Err(invalid(path, reason));
    }
    Ok(with_alpha.flat_map(|pixel| &pixel[..channels]).copied().collect())
}
