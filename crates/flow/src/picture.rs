//! Pictures of examples: grids of images, and points in the plane.

use crate::{Extent, FlowError, FlowSpec, Values};
use linwright_data::images::{ImageShape, png_bytes};
use linwright_tensor::Mat;

/// Text in pictures that marks them as written by this program.
pub const SOFTWARE: &str = "linwright flow sample";
/// Pixels between images.
const GAP: usize = 1;
/// Intensity between images.
const BACKGROUND: u8 = 128;
/// Side of a picture of points.
const SIDE: usize = 400;
/// Share of a side that stays empty around points.
const MARGIN: f64 = 0.05;
/// Largest side of a picture.
const MOST_SIDE: usize = 1 << 14;

/// A PNG file of examples (positions as rows): images in a square grid, or a scatter plot of
/// points.
///
/// # Errors
/// [`FlowError::Picture`] without examples, for points that are not in the plane, and for images
/// of neither one nor three channels.
pub fn picture(spec: &FlowSpec, rows: &Mat<f32>) -> Result<Vec<u8>, FlowError> {
    let refuse = |found: String, expected: &str| {
        Err(FlowError::Picture { found, expected: expected.to_owned() })
    };
    let count = rows.rows() / spec.input.places().max(1);
    let Extent { channels, .. } = spec.input;
    if count == 0 {
        return refuse("no examples".into(), "at least one");
    }
    if !spec.is_image() {
        return match channels {
            2 => scatter(rows),
            _ => refuse(
                format!("points of {channels} numbers"),
                "points of 2 numbers; write them to a file of points",
            ),
        };
    }
    if ![1, 3].contains(&channels) {
        return refuse(format!("images of {channels} channels"), "1 or 3 channels");
    }
    sheet(spec, rows, count)
}

/// Images in a square, row by row.
fn sheet(spec: &FlowSpec, rows: &Mat<f32>, count: usize) -> Result<Vec<u8>, FlowError> {
    let Extent { channels, height, width } = spec.input;
    let across = (1..=count).find(|across| across * across >= count).unwrap_or(count);
    let down = count.div_ceil(across);
    let side = |images: usize, pixels: usize| images * (pixels + GAP) + GAP;
    let shape = ImageShape { height: side(down, height), width: side(across, width), channels };
    if shape.height.max(shape.width) > MOST_SIDE {
        let found = format!("{count} images, {} x {} pixels", shape.height, shape.width);
        let expected = format!("sides of at most {MOST_SIDE} pixels; ask for fewer samples");
        return Err(FlowError::Picture { found, expected });
    }
    let intensity = intensities(spec.values, rows);
    let mut pixels = vec![BACKGROUND; shape.numbers()];
    for row in 0..rows.rows() {
        let (image, place) = (row / (height * width), row % (height * width));
        let y = GAP + image / across * (height + GAP) + place / width;
        let x = GAP + image % across * (width + GAP) + place % width;
        let at = (y * shape.width + x) * channels;
        for (pixel, value) in pixels[at..at + channels].iter_mut().zip(rows.row(row)) {
            *pixel = intensity(*value);
        }
    }
    Ok(png_bytes(shape, &pixels, SOFTWARE)?)
}

/// From numbers to intensities: the levels of dequantised bytes, or the range of other numbers.
fn intensities(values: Values, rows: &Mat<f32>) -> impl Fn(f32) -> u8 {
    let (least, range) = match values {
        Values::Bytes => (-0.5, 1.0),
        Values::Numbers => {
            let (least, most) = bounds(rows.data().iter().copied());
            (least, (most - least).max(f64::MIN_POSITIVE))
        }
    };
    move |value| {
        let level = (f64::from(value) - least) / range * crate::examples::LEVELS;
        level.clamp(0.0, 255.0) as u8
    }
}

fn bounds(values: impl Iterator<Item = f32>) -> (f64, f64) {
    values.map(f64::from).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

/// Points in the plane, the second axis upwards, with the same scale for both.
fn scatter(rows: &Mat<f32>) -> Result<Vec<u8>, FlowError> {
    let column = |c: usize| (0..rows.rows()).map(move |i| rows.at(i, c));
    let [x, y] = [bounds(column(0)), bounds(column(1))];
    let range = (x.1 - x.0).max(y.1 - y.0).max(f64::MIN_POSITIVE) * (1.0 + 2.0 * MARGIN);
    let start = |(least, most): (f64, f64)| (least + most - range) / 2.0;
    let at = |value: f32, start: f64| {
        let place = (f64::from(value) - start) / range * SIDE as f64;
        (place.max(0.0) as usize).min(SIDE - 1)
    };
    let mut pixels = vec![255_u8; SIDE * SIDE];
    for i in 0..rows.rows() {
        let (across, up) = (at(rows.at(i, 0), start(x)), at(rows.at(i, 1), start(y)));
        pixels[(SIDE - 1 - up) * SIDE + across] = 0;
    }
    Ok(png_bytes(ImageShape { height: SIDE, width: SIDE, channels: 1 }, &pixels, SOFTWARE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MixSpec;
    use linwright_data::images::{Images, Pixels};
    use std::path::Path;

    fn spec(channels: usize, height: usize, width: usize, values: Values) -> FlowSpec {
        let layer = MixSpec::parse("cd:2").unwrap();
        FlowSpec::for_data(Extent { channels, height, width }, values, layer)
    }

    fn drawn(bytes: &[u8]) -> (ImageShape, Vec<u8>) {
        let images = Images::from_bytes(Path::new("a.png"), bytes, None).unwrap();
        let Pixels::Bytes(pixels) = images.pixels() else { panic!("bytes") };
        (images.shape(), pixels.clone())
    }

    #[test]
    fn images_stand_beside_each_other_with_their_levels() {
        let spec = spec(1, 2, 2, Values::Bytes);
        let levels = [0, 255, 7, 128, 1, 2, 3, 4, 200, 201, 202, 203];
        let rows = Mat::from_fn(12, 1, |i, _| ((f64::from(levels[i]) + 0.5) / 256.0 - 0.5) as f32);
        let (shape, pixels) = drawn(&picture(&spec, &rows).unwrap());
        assert_eq!(shape, ImageShape { height: 7, width: 7, channels: 1 });
        let row = |y: usize| &pixels[7 * y..7 * y + 7];
        assert_eq!(row(1), [128, 0, 255, 128, 1, 2, 128]);
        assert_eq!(row(2), [128, 7, 128, 128, 3, 4, 128]);
        assert_eq!(row(4), [128, 200, 201, 128, 128, 128, 128]);
    }

    #[test]
    fn points_are_drawn_upwards_in_one_scale() {
        let spec = spec(2, 1, 1, Values::Numbers);
        let rows = Mat::from_vec(3, 2, vec![0.0, 0.0, 1.0, 0.0, 0.0, 2.0]);
        let (_, pixels) = drawn(&picture(&spec, &rows).unwrap());
        let dark: Vec<(usize, usize)> = (0..SIDE * SIDE)
            .filter(|at| pixels[*at] == 0)
            .map(|at| (at / SIDE, at % SIDE))
            .collect();
        let [top, left, right] = dark[..] else { panic!("{dark:?}") };
        assert_eq!((top.1, left.0), (left.1, right.0));
        let (up, across) = (left.0 - top.0, right.1 - left.1);
        assert!((up as f64 / across as f64 - 2.0).abs() < 0.03, "{dark:?}");
    }

    #[test]
    fn what_cannot_be_drawn_is_told() {
        let cases = [
            (spec(2, 1, 1, Values::Numbers), 0, "no examples"),
            (spec(3, 1, 1, Values::Numbers), 4, "points of 3 numbers"),
            (spec(2, 4, 4, Values::Numbers), 16, "images of 2 channels"),
        ];
        for (spec, rows, said) in cases {
            let rows = Mat::zeros(rows, spec.input.channels);
            let error = picture(&spec, &rows).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
