//! Rows of `f32` from pixels.

use super::{ImageError, Images, Pixels};
use linwright_tensor::dtype::has_non_finite;
use serde::{Deserialize, Serialize};

/// Values of a byte.
const BYTES: usize = 256;

/// Mean and standard deviation of each channel: a pixel `x` becomes `(x - mean) / std`. Bytes are
/// divided by 255 first; floats are used unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalisation {
    /// Mean of each channel.
    pub mean: Vec<f64>,
    /// Standard deviation of each channel, not zero.
    pub std: Vec<f64>,
}

impl Normalisation {
    /// No change, except that bytes are divided by 255.
    #[must_use]
    pub fn none(channels: usize) -> Self {
        Self { mean: vec![0.0; channels], std: vec![1.0; channels] }
    }

    /// Mean and standard deviation of the pixels of some images (usually the training images), with
    /// the number of pixels as divisor. Sums are exact for bytes and in f64 for floats.
    ///
    /// # Errors
    /// [`ImageError::BadOption`] without images, or if a channel is constant.
    ///
    /// # Panics
    /// If there is no image at an index.
    #[track_caller]
    pub fn of(images: &Images, indices: &[usize]) -> Result<Self, ImageError> {
        images.check_indices(indices);
        if indices.is_empty() {
            return Err(wrong("no images, expected at least one".into()));
        }
        let (mean, std) = match &images.pixels {
            Pixels::Bytes(values) => of_bytes(images, values, indices),
            Pixels::Floats(values) => of_floats(images, values, indices),
        };
        let normalisation = Self { mean, std };
        normalisation.check(images.shape.channels)?;
        Ok(normalisation)
    }

    /// Checks that it fits images with this number of channels.
    ///
    /// # Errors
    /// [`ImageError::BadOption`] for another number of channels, numbers that are not finite, or a
    /// standard deviation that is not positive.
    pub fn check(&self, channels: usize) -> Result<(), ImageError> {
        let (means, stds) = (self.mean.len(), self.std.len());
        if means != channels || stds != channels {
            return Err(wrong(format!(
                "{means} means and {stds} standard deviations, expected {channels} as the images have channels"
            )));
        }
        for (channel, (&mean, &std)) in self.mean.iter().zip(&self.std).enumerate() {
            if !mean.is_finite() {
                return Err(wrong(format!("channel {channel} has mean {mean}, expected a number")));
            }
            // Smaller deviations, which overflow, also indicate constant channels.
            if !(std.is_finite() && std >= f64::from(f32::MIN_POSITIVE)) {
                return Err(wrong(format!(
                    "channel {channel} has standard deviation {std}, expected a positive number; all of its pixels may be equal"
                )));
            }
        }
        Ok(())
    }
}

fn wrong(reason: String) -> ImageError {
    ImageError::BadOption { option: "normalisation", reason }
}

impl Images {
    /// Writes images as rows of a model's input, (images, height · width · channels), channels
    /// last: each pixel is a run of its channels. Computed in f64.
    ///
    /// # Errors
    /// As [`Normalisation::check`], and if a number leaves the range of f32.
    ///
    /// # Panics
    /// If there is no image at an index, or `into` has another size.
    #[track_caller]
    pub fn rows(
        &self,
        indices: &[usize],
        normalisation: &Normalisation,
        into: &mut [f32],
    ) -> Result<(), ImageError> {
        self.check_indices(indices);
        let (numbers, channels) = (self.shape.numbers(), self.shape.channels);
        let (images, found) = (indices.len(), into.len());
        assert_eq!(found, images * numbers, "rows of {images} images of {}", self.shape);
        normalisation.check(channels)?;
        let scaled = |x: f64, c: usize| ((x - normalisation.mean[c]) / normalisation.std[c]) as f32;
        let rows = indices.iter().zip(into.chunks_exact_mut(numbers));
        let finite = match &self.pixels {
            Pixels::Bytes(values) => {
                let table = |c| std::array::from_fn(|x| scaled(x as f64 / 255.0, c));
                let tables: Vec<[f32; BYTES]> = (0..channels).map(table).collect();
                for (&index, row) in rows {
                    let image = &values[index * numbers..][..numbers];
                    for (c, table) in tables.iter().enumerate() {
                        let pixels = image.iter().skip(c).step_by(channels);
                        for (out, &x) in row.iter_mut().skip(c).step_by(channels).zip(pixels) {
                            *out = table[usize::from(x)];
                        }
                    }
                }
                !has_non_finite(tables.as_flattened())
            }
            Pixels::Floats(values) => {
                for (&index, row) in rows {
                    let image = &values[index * numbers..][..numbers];
                    for (at, (out, &x)) in row.iter_mut().zip(image).enumerate() {
                        *out = scaled(x.into(), at % channels);
                    }
                }
                !has_non_finite(into)
            }
        };
        match finite {
            true => Ok(()),
            false => Err(wrong("normalised pixels leave the range of f32".into())),
        }
    }
}

/// Mean and standard deviation of each channel, from the counts of all values.
fn of_bytes(images: &Images, values: &[u8], indices: &[usize]) -> (Vec<f64>, Vec<f64>) {
    let (numbers, channels) = (images.shape.numbers(), images.shape.channels);
    let mut counts = vec![[0_u64; BYTES]; channels];
    for &index in indices {
        for pixel in values[index * numbers..][..numbers].chunks_exact(channels) {
            for (counts, &x) in counts.iter_mut().zip(pixel) {
                counts[usize::from(x)] += 1;
            }
        }
    }
    let moments = |counts: &[u64; BYTES]| {
        let total = counts.iter().sum::<u64>() as f64;
        let mean_of = |f: &dyn Fn(f64) -> f64| {
            let terms = counts.iter().enumerate();
            terms.map(|(x, &count)| count as f64 * f(x as f64 / 255.0)).sum::<f64>() / total
        };
        let mean = mean_of(&|x| x);
        // The deviation of a single value has no rounding error either.
        match counts.iter().filter(|&&count| count > 0).count() {
            1 => (mean, 0.0),
            _ => (mean, mean_of(&|x| (x - mean).powi(2)).sqrt()),
        }
    };
    counts.iter().map(moments).unzip()
}

/// Mean and standard deviation of each channel in two passes.
fn of_floats(images: &Images, values: &[f32], indices: &[usize]) -> (Vec<f64>, Vec<f64>) {
    let (numbers, channels) = (images.shape.numbers(), images.shape.channels);
    let total = (indices.len() * numbers / channels) as f64;
    let mean_of = |channel: usize, f: &dyn Fn(f64) -> f64| {
        let image = |&index: &usize| {
            let image = &values[index * numbers..][..numbers];
            image.iter().skip(channel).step_by(channels).map(|&x| f(x.into())).sum::<f64>()
        };
        indices.iter().map(image).sum::<f64>() / total
    };
    let moments = |channel: usize| {
        let mean = mean_of(channel, &|x| x);
        (mean, mean_of(channel, &|x| (x - mean).powi(2)).sqrt())
    };
    (0..channels).map(moments).unzip()
}

#[cfg(test)]
mod tests {
    use super::super::ImageShape;
    use super::*;

    /// Rounding of sums of a dozen numbers below one, in f64.
    const TOLERANCE: f64 = 1e-14;
    const SHAPE: ImageShape = ImageShape { height: 1, width: 2, channels: 2 };

    fn set() -> Images {
        let bytes = vec![0, 10, 255, 20, 51, 30, 102, 40, 7, 7, 7, 7];
        Images::new(SHAPE, Pixels::Bytes(bytes), None)
    }

    fn floats() -> Images {
        let Pixels::Bytes(bytes) = set().pixels else { panic!("bytes") };
        let values = bytes.iter().map(|&x| f32::from(x)).collect();
        Images::new(SHAPE, Pixels::Floats(values), None)
    }

    #[test]
    fn rows_have_the_channels_of_a_pixel_side_by_side() {
        let normalisation = Normalisation { mean: vec![0.2, 0.0], std: vec![0.4, 1.0 / 255.0] };
        let mut rows = [0.0; 8];
        set().rows(&[1, 0], &normalisation, &mut rows).unwrap();
        assert_eq!(rows, [0.0, 30.0, 0.5, 40.0, -0.5, 10.0, 2.0, 20.0]);
        let halves = Normalisation { mean: vec![1.0, 0.0], std: vec![2.0, 0.5] };
        floats().rows(&[1, 0], &halves, &mut rows).unwrap();
        assert_eq!(rows, [25.0, 60.0, 50.5, 80.0, -0.5, 20.0, 127.0, 40.0]);
        floats().rows(&[1, 0], &Normalisation::none(2), &mut rows).unwrap();
        assert_eq!(rows[..4], [51.0, 30.0, 102.0, 40.0]);
    }

    #[test]
    fn statistics_are_those_of_the_chosen_images() {
        let of_bytes = Normalisation::of(&set(), &[0, 1]).unwrap();
        let of_floats = Normalisation::of(&floats(), &[0, 1]).unwrap();
        // 0, 255, 51, 102 and 10, 20, 30, 40.
        let want = [[102.0, 9103.5_f64.sqrt()], [25.0, 125_f64.sqrt()]];
        for (channel, [mean, std]) in want.into_iter().enumerate() {
            for (found, scale) in [(&of_bytes, 255.0), (&of_floats, 1.0)] {
                assert!((found.mean[channel] - mean / scale).abs() < TOLERANCE * 255.0);
                assert!((found.std[channel] - std / scale).abs() < TOLERANCE * 255.0);
            }
        }
        let mut rows = [0.0; 8];
        set().rows(&[0, 1], &of_bytes, &mut rows).unwrap();
        assert!(rows.iter().sum::<f32>().abs() < 1e-6, "{rows:?}");
    }

    #[test]
    fn unusable_ones_are_refused_by_channel() {
        for (mean, std, want) in [
            (
                vec![0.0],
                vec![1.0, 1.0],
                "normalisation: 1 means and 2 standard deviations, expected 2 as the images have channels",
            ),
            (
                vec![0.0, f64::NAN],
                vec![1.0, 1.0],
                "normalisation: channel 1 has mean NaN, expected a number",
            ),
            (
                vec![0.0, 0.0],
                vec![0.0, 1.0],
                "normalisation: channel 0 has standard deviation 0, expected a positive number; all of its pixels may be equal",
            ),
        ] {
            let error = set().rows(&[0], &Normalisation { mean, std }, &mut [0.0; 4]).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
        let error = Normalisation::of(&set(), &[2]).unwrap_err().to_string();
        assert!(error.contains("channel 0 has standard deviation 0"), "{error}");
        let error = Normalisation::of(&set(), &[]).unwrap_err().to_string();
        assert_eq!(error, "normalisation: no images, expected at least one");
        let tiny = Normalisation { mean: vec![0.0; 2], std: vec![1e-37; 2] };
        let error = floats().rows(&[0], &tiny, &mut [0.0; 4]).unwrap_err().to_string();
        assert_eq!(error, "normalisation: normalised pixels leave the range of f32");
    }

    #[test]
    #[should_panic(expected = "image Some(3) of 3")]
    fn images_that_are_not_there_have_no_rows() {
        let _ = set().rows(&[3], &Normalisation::none(2), &mut [0.0; 4]);
    }
}
