//! Samples of a flow, and paths between examples.

use crate::error::check_finite;
use crate::{Flow, FlowError};
use linwright_ops::Workspace;
use linwright_run::memory;
use linwright_tensor::{Mat, RngKey};
use std::f64::consts::FRAC_PI_2;
use std::ops::Range;

/// Samples of a batch.
const BATCH: usize = 128;

/// Largest number of draws for a sample: in the tails of the density numbers may overflow.
const DRAWS: u64 = 16;

/// Samples of a flow.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Places as rows.
    pub rows: Mat<f32>,
    /// Number of samples that were drawn again because they were not finite.
    pub redrawn: usize,
}

impl Flow {
    /// Samples by number: each is drawn from its own stream under the key, independent of the
    /// others. Standard deviations of latents are multiplied by `temperature`; at zero all samples
    /// are the same. A sample that is not finite is drawn again.
    ///
    /// # Errors
    /// [`FlowError::Option`] for a temperature below zero or not finite; singular layers,
    /// [`FlowError::Sample`] for a sample that is not finite in every draw.
    pub fn samples(
        &self,
        numbers: Range<u64>,
        temperature: f64,
        key: RngKey,
    ) -> Result<Samples, FlowError> {
        if !(temperature >= 0.0 && temperature.is_finite()) {
            let (found, expected) =
                (temperature.to_string(), "a number of at least zero".to_owned());
            return Err(FlowError::Option { option: "temperature", found, expected });
        }
        self.check_samples(numbers.end.saturating_sub(numbers.start))?;
        let (key, mut ws) = (key.fold("sample"), Workspace::default());
        let (input, numbers): (_, Vec<u64>) = (self.spec().input, numbers.collect());
        let (mut all, mut redrawn) = (Vec::with_capacity(numbers.len() * input.numbers()), 0);
        for chunk in numbers.chunks(BATCH) {
            let drawn = self.draw_finite(chunk, temperature, key, &mut ws)?;
            for (number, mut sample) in chunk.iter().zip(drawn) {
                let mut draw = 1;
                all.extend(loop {
                    match sample {
                        Ok(sample) => break sample,
                        Err(error) if draw == DRAWS || temperature == 0.0 => {
                            return Err(FlowError::Sample {
                                number: *number,
                                draws: draw,
                                source: Box::new(error),
                            });
                        }
                        Err(_) => {}
                    }
                    let again = key.fold("again").fold_index(draw);
                    let other = self.draw_finite(&[*number], temperature, again, &mut ws)?.pop();
                    let Some(other) = other else { break Vec::new() };
                    (sample, draw) = (other, draw + 1);
                });
                redrawn += usize::from(draw > 1);
            }
        }
        let rows = Mat::from_vec(numbers.len() * input.places(), input.channels, all);
        Ok(Samples { rows, redrawn })
    }

    /// One draw of each of these samples: its numbers, or the reason why they are not finite. A
    /// layer rejects a whole batch with such numbers, so smaller batches are tried.
    ///
    /// # Errors
    /// Other errors of the layers.
    fn draw_finite(
        &self,
        numbers: &[u64],
        temperature: f64,
        key: RngKey,
        ws: &mut Workspace<f32>,
    ) -> Result<Vec<Result<Vec<f32>, FlowError>>, FlowError> {
        match self.draw(numbers, temperature, key, ws) {
            Ok(rows) => {
                let samples = rows.data().chunks_exact(self.spec().input.numbers());
                let checked =
                    |sample: &[f32]| check_finite("an example", sample).map(|()| sample.to_vec());
                Ok(samples.map(checked).collect())
            }
            Err(error) if !error.is_not_finite() => Err(error),
            Err(error) if numbers.len() == 1 => Ok(vec![Err(error)]),
            Err(_) => {
                let (first, rest) = numbers.split_at(numbers.len() / 2);
                let mut all = self.draw_finite(first, temperature, key, ws)?;
                all.extend(self.draw_finite(rest, temperature, key, ws)?);
                Ok(all)
            }
        }
    }

    /// One draw of each of these samples, finite or not.
    fn draw(
        &self,
        numbers: &[u64],
        temperature: f64,
        key: RngKey,
        ws: &mut Workspace<f32>,
    ) -> Result<Mat<f32>, FlowError> {
        let extents = self.latents();
        let mut latents: Vec<Vec<f32>> = vec![Vec::new(); extents.len()];
        for number in numbers {
            let mut stream = key.fold_index(*number).stream();
            for (latents, extent) in latents.iter_mut().zip(&extents) {
                latents.extend(stream.normals::<f32>(extent.numbers(), temperature));
            }
        }
        let latents: Vec<Mat<f32>> = latents
            .into_iter()
            .zip(&extents)
            .map(|(z, e)| Mat::from_vec(numbers.len() * e.places(), e.channels, z))
            .collect();
        self.decode_standard(&latents, ws)
    }

    /// Checks that there is memory for this number of samples.
    fn check_samples(&self, count: u64) -> Result<(), FlowError> {
        let numbers = self.spec().input.numbers() as u64;
        let what = || format!("{count} samples of {numbers} numbers");
        Ok(memory::check(what, &[count, numbers, size_of::<f32>() as u64])?)
    }

    /// Examples on a path between two examples, ends included, as rows of positions. The path is a
    /// part of an ellipse in the standard normal latents, which keeps the deviation of random ends.
    ///
    /// # Errors
    /// As [`Flow::encode`]; [`FlowError::Extent`] if there are not two examples,
    /// [`FlowError::NotFinite`].
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
        let rows = self.decode_standard(&paths, &mut ws)?;
        check_finite("a path", rows.data())?;
        Ok(rows)
    }
}
