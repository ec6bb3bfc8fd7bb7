//! Resizing by area averaging.
//!
//! Output pixel `i` of an axis of `out` pixels covers `[i, i + 1) · inp / out` of the `inp` input
//! pixels; its value is the mean over the area that it covers, in both axes. Input pixels at the
//! edges count by the share that is covered, so that the weights of every input pixel sum to the
//! same over all outputs, and the mean of the image is kept. Enlarging repeats pixels and mixes
//! them at their borders.
//!
//! In units of `1 / out` of an input pixel all borders are integers: the weights are exact. Bytes
//! are summed in integers and rounded to the nearest, halves up; floats are summed in f64 in a
//! fixed order and rounded to f32. Cost: `(h_inp + h_out) · (w_inp + w_out)` multiply-adds a
//! channel.

use super::{ImageError, ImageShape, Images, MAX_IMAGE_BYTES, Pixels};
use std::ops::AddAssign;

/// Largest height and width.
const MAX_SIDE: usize = 1 << 14;

impl Images {
    /// The same images with another height and width, by area averaging. Bytes stay bytes, rounded
    /// to the nearest, halves up. Equal sizes give equal pixels.
    ///
    /// # Errors
    /// [`ImageError::BadOption`] for a size without pixels or beyond 16,384, or if the images would
    /// take more than [`MAX_IMAGE_BYTES`].
    pub fn resized(&self, size: [usize; 2]) -> Result<Self, ImageError> {
        let from = self.shape;
        let shape = resized_shape(from, size)?;
        let bytes = shape.checked_numbers().and_then(|numbers| numbers.checked_mul(self.len()));
        let bytes = bytes.map_or(u64::MAX, |n| (n as u64).saturating_mul(self.pixels.width()));
        if bytes > MAX_IMAGE_BYTES {
            let count = self.len();
            let reason = format!(
                "makes {bytes} bytes of {count} images of {shape}, expected at most {MAX_IMAGE_BYTES}"
            );
            return Err(ImageError::BadOption { option: "resize", reason });
        }
        let grid = Grid::new(from, shape);
        let area = (from.height * from.width) as u64;
        let pixels = match &self.pixels {
            Pixels::Bytes(values) => Pixels::Bytes(grid.average(
                values,
                |weight, value: u8| weight * u64::from(value),
                |sum: u64| rounded(sum, area),
            )),
            Pixels::Floats(values) => Pixels::Floats(grid.average(
                values,
                |weight, value: f32| weight as f64 * f64::from(value),
                |sum: f64| (sum / area as f64) as f32,
            )),
        };
        Ok(Self {
            shape,
            pixels,
            labels: self.labels.clone(),
            classes: self.classes,
            class_names: self.class_names.clone(),
            sha256: self.sha256.clone(),
        })
    }
}

/// The shape of images of another height and width.
pub(super) fn resized_shape(
    from: ImageShape,
    [height, width]: [usize; 2],
) -> Result<ImageShape, ImageError> {
    match [height, width].iter().all(|side| (1..=MAX_SIDE).contains(side)) {
        true => Ok(ImageShape { height, width, ..from }),
        false => Err(ImageError::BadOption {
            option: "resize",
            reason: format!("is {height} x {width}, expected sides of 1 to {MAX_SIDE}"),
        }),
    }
}

/// A sum over an area as a mean, halves up.
fn rounded(sum: u64, area: u64) -> u8 {
    ((2 * sum + area) / (2 * area)) as u8
}

/// One image of bytes, resized while its rows are added in order, with the same pixels as
/// [`Images::resized`].
pub(super) struct Averaging {
    grid: Grid,
    to: ImageShape,
    /// Number of the next row.
    next: usize,
    /// Weighted sums of the output row that is not yet complete.
    sums: Vec<u64>,
    pixels: Vec<u8>,
}

impl Averaging {
    /// From one shape to another.
    pub(super) fn new(from: ImageShape, to: ImageShape) -> Self {
        let sums = vec![0; to.width * to.channels];
        Self { grid: Grid::new(from, to), to, next: 0, sums, pixels: Vec::new() }
    }

    /// Adds the next row.
    pub(super) fn push(&mut self, row: &[u8]) {
        let Grid { from, rows, columns } = &self.grid;
        let (channels, area) = (from.channels, (from.height * from.width) as u64);
        let across = columns.iter().flat_map(|span| {
            (0..channels).map(move |channel| {
                let values = row[span.first * channels + channel..].iter().step_by(channels);
                let terms = values.zip(&span.weights).map(|(value, wide)| u64::from(*value) * wide);
                terms.sum::<u64>()
            })
        });
        let across: Vec<u64> = across.collect();
        let row_bytes = self.to.width * channels;
        // Several output rows may lie within one; the last may extend into the next.
        while let Some(span) = rows.get(self.pixels.len() / row_bytes) {
            let Some(high) = self.next.checked_sub(span.first).and_then(|at| span.weights.get(at))
            else {
                break;
            };
            self.sums.iter_mut().zip(&across).for_each(|(sum, value)| *sum += high * value);
            if self.next + 1 < span.first + span.weights.len() {
                break;
            }
            self.pixels.extend(self.sums.iter().map(|sum| rounded(*sum, area)));
            self.sums.fill(0);
        }
        self.next += 1;
    }

    /// The image, after all rows were added.
    pub(super) fn images(self) -> Images {
        Images::new(self.to, Pixels::Bytes(self.pixels), None)
    }
}

/// The input pixels of an axis under one output pixel.
struct Span {
    first: usize,
    /// Covered shares of them, in units of `1 / out`; they sum to `inp`.
    weights: Vec<u64>,
}

/// The spans of an axis.
fn spans(inp: usize, out: usize) -> Vec<Span> {
    let span = |index: usize| {
        let (start, end) = (index * inp, (index + 1) * inp);
        let (first, last) = (start / out, (end - 1) / out);
        let covered = |pixel: usize| (end.min((pixel + 1) * out) - start.max(pixel * out)) as u64;
        Span { first, weights: (first..=last).map(covered).collect() }
    };
    (0..out).map(span).collect()
}

/// The input pixels that each output pixel of an image covers.
struct Grid {
    from: ImageShape,
    rows: Vec<Span>,
    columns: Vec<Span>,
}

impl Grid {
    fn new(from: ImageShape, to: ImageShape) -> Self {
        let rows = spans(from.height, to.height);
        Self { from, rows, columns: spans(from.width, to.width) }
    }

    /// Weighted sums of all images, each turned into a value by `finish`.
    fn average<T: Copy, A: Default + AddAssign>(
        &self,
        values: &[T],
        product: impl Fn(u64, T) -> A,
        finish: impl Fn(A) -> T,
    ) -> Vec<T> {
        let ImageShape { width, channels, .. } = self.from;
        let images = values.len() / self.from.numbers();
        let mut out = Vec::with_capacity(images * self.rows.len() * self.columns.len() * channels);
        for image in values.chunks_exact(self.from.numbers()) {
            for rows in &self.rows {
                for columns in &self.columns {
                    out.extend((0..channels).map(|channel| {
                        let mut sum = A::default();
                        for (row, &high) in (rows.first..).zip(&rows.weights) {
                            let start = (row * width + columns.first) * channels + channel;
                            let pixels = image[start..].iter().step_by(channels);
                            for (&value, &wide) in pixels.zip(&columns.weights) {
                                sum += product(high * wide, value);
                            }
                        }
                        finish(sum)
                    }));
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    /// Means in f64 and f32 of numbers up to 255: half a unit in the last place of f32.
    const TOLERANCE: f64 = 2e-5;

    fn images(height: usize, width: usize, channels: usize, count: usize) -> Images {
        let shape = ImageShape { height, width, channels };
        let mut stream = RngKey::new(3).stream();
        let values = (0..count * shape.numbers()).map(|_| stream.below(256) as u8).collect();
        Images::new(shape, Pixels::Bytes(values), Some((0..count as u32).collect()))
    }

    fn bytes(images: &Images) -> &[u8] {
        let Pixels::Bytes(values) = images.pixels() else { panic!("bytes") };
        values
    }

    fn as_floats(images: &Images) -> Images {
        let values = bytes(images).iter().map(|&value| f32::from(value)).collect();
        Images::new(images.shape(), Pixels::Floats(values), None)
    }

    fn floats(images: &Images) -> &[f32] {
        let Pixels::Floats(values) = images.pixels() else { panic!("floats") };
        values
    }

    /// Integrates the image, constant on each pixel, over the area of each output pixel.
    fn naive(images: &Images, [height, width]: [usize; 2]) -> Vec<f64> {
        let ImageShape { height: rows, width: columns, channels } = images.shape();
        let covered = |inp: usize, out: usize, pixel: usize, index: usize| {
            let step = inp as f64 / out as f64;
            let (start, end) = (index as f64 * step, (index as f64 + 1.0) * step);
            (end.min(pixel as f64 + 1.0) - start.max(pixel as f64)).max(0.0) / step
        };
        let mut out = Vec::new();
        for image in bytes(images).chunks_exact(images.shape().numbers()) {
            for at in 0..height * width * channels {
                let (i, j, c) = (at / channels / width, at / channels % width, at % channels);
                let mut sum = 0.0;
                for (pixel, value) in image.iter().skip(c).step_by(channels).enumerate() {
                    sum += covered(rows, height, pixel / columns, i)
                        * covered(columns, width, pixel % columns, j)
                        * f64::from(*value);
                }
                out.push(sum);
            }
        }
        out
    }

    #[test]
    fn every_size_agrees_with_the_integral_over_areas() {
        for (from, to, channels) in [
            ([28, 28], [16, 16], 1),
            ([28, 28], [14, 14], 1),
            ([5, 7], [3, 11], 3),
            ([1, 9], [4, 2], 2),
            ([6, 6], [6, 6], 1),
        ] {
            let images = images(from[0], from[1], channels, 2);
            let want = naive(&images, to);
            let exact = as_floats(&images).resized(to).unwrap();
            let rounded = images.resized(to).unwrap();
            assert_eq!((rounded.len(), rounded.labels()), (2, images.labels()));
            assert_eq!(want.len(), bytes(&rounded).len());
            for ((want, exact), rounded) in want.iter().zip(floats(&exact)).zip(bytes(&rounded)) {
                let error = (want - f64::from(*exact)).abs();
                assert!(error < TOLERANCE, "{from:?} to {to:?}: {want} {exact}");
                let error = (want - f64::from(*rounded)).abs();
                assert!(error < 0.5 + TOLERANCE, "{from:?} to {to:?}: {want} {rounded}");
            }
        }
    }

    #[test]
    fn an_image_by_rows_is_the_same_as_a_whole() {
        for (from, to, channels) in [
            ([28, 28], [16, 16], 1),
            ([5, 7], [3, 11], 3),
            ([3, 4], [11, 2], 3),
            ([1, 9], [4, 2], 1),
            ([9, 1], [1, 3], 3),
            ([6, 6], [6, 6], 1),
        ] {
            let images = images(from[0], from[1], channels, 1);
            let shape = images.shape();
            let mut rows = Averaging::new(shape, resized_shape(shape, to).unwrap());
            bytes(&images).chunks(from[1] * channels).for_each(|row| rows.push(row));
            let (found, whole) = (rows.images(), images.resized(to).unwrap());
            assert_eq!((found.shape(), bytes(&found)), (whole.shape(), bytes(&whole)), "{to:?}");
        }
    }

    #[test]
    fn a_constant_image_stays_constant_and_an_equal_size_changes_nothing() {
        let shape = ImageShape { height: 28, width: 13, channels: 3 };
        let grey = Images::new(shape, Pixels::Bytes(vec![201; shape.numbers()]), None);
        for size in [[16, 16], [1, 1], [57, 29]] {
            assert!(bytes(&grey.resized(size).unwrap()).iter().all(|&value| value == 201));
        }
        let images = images(9, 5, 2, 3);
        assert_eq!(images.resized([9, 5]).unwrap(), images);
        assert_eq!(as_floats(&images).resized([9, 5]).unwrap(), as_floats(&images));
    }

    #[test]
    fn half_the_size_is_the_mean_of_blocks_rounded_half_up() {
        let images = images(28, 28, 1, 1);
        let (inp, out) = (bytes(&images), images.resized([14, 14]).unwrap());
        for (index, &value) in bytes(&out).iter().enumerate() {
            let corner = index / 14 * 56 + index % 14 * 2;
            let block = [corner, corner + 1, corner + 28, corner + 29];
            let sum: u32 = block.iter().map(|&at| u32::from(inp[at])).sum();
            assert_eq!(u32::from(value), (sum + 2) / 4, "pixel {index}");
        }
    }

    #[test]
    fn the_weights_of_each_input_pixel_keep_the_mass() {
        for (inp, out) in [(28, 16), (16, 28), (7, 7), (1, 5), (5, 1), (97, 31)] {
            let mut mass = vec![0; inp];
            for span in spans(inp, out) {
                assert_eq!(span.weights.iter().sum::<u64>(), inp as u64);
                for (pixel, weight) in (span.first..).zip(span.weights) {
                    mass[pixel] += weight;
                }
            }
            assert_eq!(mass, vec![out as u64; inp], "{inp} to {out}");
        }
        let images = as_floats(&images(28, 28, 1, 1));
        let total = |images: &Images| floats(images).iter().map(|&v| f64::from(v)).sum::<f64>();
        let out = images.resized([16, 16]).unwrap();
        let scaled = total(&out) * (28.0 * 28.0) / (16.0 * 16.0);
        assert!((scaled / total(&images) - 1.0).abs() < 1e-6, "{scaled} {}", total(&images));
    }

    #[test]
    fn sizes_without_an_image_are_refused() {
        let images = images(4, 4, 1, 2);
        for (size, want) in [
            ([0, 4], "resize: is 0 x 4, expected sides of 1 to 16384"),
            ([4, 16385], "resize: is 4 x 16385, expected sides of 1 to 16384"),
        ] {
            assert_eq!(images.resized(size).unwrap_err().to_string(), want);
        }
        let many = Images::new(
            ImageShape { height: 1, width: 1, channels: 1 },
            Pixels::Bytes(vec![0; 17]),
            None,
        );
        let want = "resize: makes 4563402752 bytes of 17 images of 16384 x 16384 x 1, expected at \
                    most 4294967296";
        assert_eq!(many.resized([MAX_SIDE, MAX_SIDE]).unwrap_err().to_string(), want);
    }
}
