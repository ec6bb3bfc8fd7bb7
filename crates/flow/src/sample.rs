//! Samples of a flow, and paths between examples.

use crate::{Flow, FlowError};
use linwright_ops::Workspace;
use linwright_run::memory;
use linwright_tensor::{Mat, RngKey};
use std::f64::consts::FRAC_PI_2;
use std::ops::Range;

/// Samples of a batch.
const BATCH: usize = 128;

impl Flow {
    /// Samples by number: each is drawn from its own stream under the key, whichever others are.
    /// Standard deviations of latents are multiplied by `temperature`; at zero all samples are the
    /// same. Gives places as rows.
    ///
    /// # Errors
    /// [`FlowError::Option`] for a temperature below zero or not finite; singular layers,
    /// [`FlowError::NotFinite`].
    pub fn samples(
        &self,
        numbers: Range<u64>,
        temperature: f64,
        key: RngKey,
    ) -> Result<Mat<f32>, FlowError> {
        if !(temperature >= 0.0 && temperature.is_finite()) {
            let (found, expected) =
                (temperature.to_string(), "a number of at least zero".to_owned());
            return Err(FlowError::Option { option: "temperature", found, expected });
        }
        self.check_samples(numbers.end.saturating_sub(numbers.start))?;
        let (extents, key) = (self.latents(), key.fold("sample"));
        let (mut all, mut ws) = (Vec::new(), Workspace::default());
        let places = self.spec().input.places();
        let wanted: Vec<u64> = numbers.collect();
        for chunk in wanted.chunks(BATCH) {
            let mut latents: Vec<Vec<f32>> = vec![Vec::new(); extents.len()];
            for number in chunk {
                let mut stream = key.fold_index(*number).stream();
                for (latents, extent) in latents.iter_mut().zip(&extents) {
                    latents.extend(stream.normals::<f32>(extent.numbers(), temperature));
                }
            }
            let latents: Vec<Mat<f32>> = latents
                .into_iter()
                .zip(&extents)
                .map(|(z, e)| Mat::from_vec(chunk.len() * e.places(), e.channels, z))
                .collect();
            all.extend(self.decode_standard(&latents, &mut ws)?.into_vec());
        }
        crate::error::check_finite("a sample", &all)?;
        Ok(Mat::from_vec(wanted.len() * places, self.spec().input.channels, all))
    }

    /// Checks that there is memory for so many samples.
    fn check_samples(&self, count: u64) -> Result<(), FlowError> {
        let numbers = self.spec().input.numbers() as u64;
        let what = || format!("{count} samples of {numbers} numbers");
        Ok(memory::check(what, &[count, numbers, size_of::<f32>() as u64])?)
    }

    /// Examples on a path between two, ends included, as places in rows. The path is a part of an
    /// ellipse in the standard normal latents, on which the deviation of random ends is kept.
    ///
    /// # Errors
    /// As [`Flow::encode`]; [`FlowError::Extent`] if there are not two examples.
    pub fn between(&self, ends: &Mat<f32>, steps: usize) -> Result<Mat<f32>, FlowError> {
        self.check_samples(steps as u64)?;
        let mut ws = Workspace::default();
        let latents = self.encode_standard(ends.clone(), &mut ws)?.latents;
        let found = ends.rows() / self.spec().input.places();
        if found != 2 {
            let (found, expected) = (format!("{found} examples"), "two".to_owned());
            return Err(FlowError::Extent { what: "a path", found, expected });
        }
        let last = steps.saturating_sub(1).max(1) as f64;
        let paths: Vec<Mat<f32>> = latents
            .iter()
            .map(|z| {
                let places = z.rows() / 2;
                Mat::from_fn(steps * places, z.cols(), |row, c| {
                    let (step, place) = (row / places, row % places);
                    let (to, from) = (FRAC_PI_2 * step as f64 / last).sin_cos();
                    let [a, b] = [place, places + place].map(|i| f64::from(z.at(i, c)));
                    (from * a + to * b) as f32
                })
            })
            .collect();
        self.decode_standard(&paths, &mut ws)
    }
}
