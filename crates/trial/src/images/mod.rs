//! Trials of small networks for images: labelled images to fit to, and others to score.

mod data;
mod error;
#[cfg(test)]
mod tests;

use crate::trial::{ExamplesOf, Trial, TrialError, for_validation};
use linwright_compress::CompressError;
use linwright_data::Indices;
use linwright_data::images::{ImageShape, Images, Pixels};
use linwright_evaluate::{Counts, Metric, Sample, TaskResult};
use linwright_nets::{
    ExampleScores, Extent, Labelled, LabelledBatches, Mean, Net, NetError, Scores, labelled,
    open_images, score_each,
};
use linwright_run::Monitor;
use linwright_tensor::RngKey;
use std::collections::{BTreeMap, BTreeSet};

pub use data::{ImageCalibration, ImageEvaluation};
pub use error::ImageTrialError;

/// Name of the task.
const TASK: &str = "image_classification";
/// Names of its metrics.
const LOSS: &str = "cross_entropy";
const ACCURACY: &str = "acc";
/// Filter of the items.
const NO_FILTER: &str = "none";

/// A small network, images to fit its slots to, and others to score it on.
#[derive(Debug)]
pub struct ImageTrial<'a> {
    network: &'a Net,
    hash: &'a str,
    source: &'a ImageCalibration,
    calibration: Labelled,
    calibration_sha256: String,
    scored: Labelled,
    scored_sha256: String,
    shape: ImageShape,
    notes: Vec<String>,
}

/// What messages call the images.
#[derive(Clone, Copy, Debug)]
pub struct ImageNames {
    /// Those that fits read.
    pub calibration: &'static str,
    /// Those that are scored.
    pub eval: &'static str,
}

impl<'a> ImageTrial<'a> {
    /// Reads images to fit to, and others to score on; `hash` is that of the network.
    ///
    /// # Errors
    /// [`ImageTrialError`] for unusable images, images of another shape than the network's input,
    /// labels without an output, a network with several outputs for each class, and images that
    /// are both fitted to and scored.
    pub fn new(
        network: &'a Net,
        hash: &'a str,
        source: &'a ImageCalibration,
        eval: &ImageEvaluation,
        names: ImageNames,
    ) -> Result<Self, ImageTrialError> {
        let [of_fits, of_scores] = [names.calibration, names.eval];
        let calibration = open_images(of_fits, &source.source, source.examples.as_ref())?;
        let scored = open_images(of_scores, &eval.source, eval.examples.as_ref())?;
        if calibration.len() < 2 {
            return Err(ImageTrialError::TooFew { of: of_fits, found: calibration.len() });
        }
        check_suits(of_fits, &calibration, source.examples.as_ref(), network)?;
        check_suits(of_scores, &scored, eval.examples.as_ref(), network)?;
        check_apart(
            names,
            [source.examples.as_ref(), eval.examples.as_ref()],
            &calibration,
            &scored,
        )?;
        Ok(Self {
            network,
            hash,
            source,
            notes: notes(&calibration, &scored),
            shape: scored.shape(),
            calibration_sha256: calibration.sha256().to_owned(),
            scored_sha256: scored.sha256().to_owned(),
            calibration: labelled(&calibration)?,
            scored: labelled(&scored)?,
        })
    }

    /// Scores of the images as the result of a task.
    fn result(&self, each: &ExampleScores) -> Result<TaskResult, NetError> {
        let Scores { examples, loss, accuracy } = each.means()?;
        let metric = |name, Mean { value, stderr }: Mean, higher_is_better| {
            Metric::new(name, value, (examples > 1).then_some(stderr), higher_is_better)
        };
        let ImageShape { height, width, channels } = self.shape;
        Ok(TaskResult {
            task: TASK.to_owned(),
            protocol: format!("{TASK}_{height}x{width}x{channels}"),
            version: 1.0,
            data_sha256: self.scored_sha256.clone(),
            metrics: std::iter::once(metric(LOSS, loss, false))
                .chain(accuracy.map(|accuracy| metric(ACCURACY, accuracy, true)))
                .collect(),
            counts: Counts { items: examples, ..Counts::default() },
            original: examples,
            samples: samples(each),
            ..TaskResult::default()
        })
    }
}

/// Scores of single images.
fn samples(each: &ExampleScores) -> Vec<Sample> {
    let sample = |(index, loss): (usize, &f64)| {
        let right = each.right.get(index).map(|right| (ACCURACY.to_owned(), *right));
        let numbers = std::iter::once((LOSS.to_owned(), *loss)).chain(right);
        let numbers: BTreeMap<String, f64> = numbers.collect();
        Sample { filter: NO_FILTER.to_owned(), numbers, ..Sample::default() }
    };
    each.losses.iter().enumerate().map(sample).collect()
}

/// A note on images that are scored although fits read equal ones.
fn notes(calibration: &Images, scored: &Images) -> Vec<String> {
    let known: BTreeSet<Vec<u8>> =
        (0..calibration.len()).map(|index| content(calibration, index)).collect();
    let all = scored.len();
    match (0..all).filter(|&index| known.contains(&content(scored, index))).count() {
        0 => Vec::new(),
        common => vec![format!(
            "{common} of {all} scored images are also among those of the calibration, which \
             flatters the figures"
        )],
    }
}

/// Checks that a network is a classifier of the chosen images of a set.
fn check_suits(
    of: &'static str,
    images: &Images,
    chosen: Option<&Indices>,
    network: &Net,
) -> Result<(), ImageTrialError> {
    let (expected, output) = (network.input(), network.output());
    if output.places() != 1 {
        return Err(ImageTrialError::Output { found: output });
    }
    let ImageShape { height, width, channels } = images.shape();
    let found = Extent { height, width, channels };
    if found != expected {
        return Err(ImageTrialError::Shape { of, found, expected });
    }
    let classes = output.channels;
    let mut labels = images.labels().into_iter().flatten().enumerate();
    match labels.find(|(_, label)| **label as usize >= classes) {
        Some((place, &label)) => {
            let index = chosen.and_then(|chosen| chosen.iter().nth(place)).unwrap_or(place);
            Err(ImageTrialError::Label { of, index, label, classes })
        }
        None => Ok(()),
    }
}

/// Refuses images of one set that are both fitted to and scored.
fn check_apart(
    names: ImageNames,
    choices: [Option<&Indices>; 2],
    calibration: &Images,
    scored: &Images,
) -> Result<(), ImageTrialError> {
    if calibration.sha256() != scored.sha256() {
        return Ok(());
    }
    match Indices::common(choices, calibration.len().max(scored.len())) {
        Some([first, count]) => Err(ImageTrialError::Common {
            calibration: names.calibration,
            eval: names.eval,
            first,
            count,
        }),
        None => Ok(()),
    }
}

/// The pixels of an image as bytes.
fn content(images: &Images, index: usize) -> Vec<u8> {
    let range = |numbers: usize| index * numbers..(index + 1) * numbers;
    let range = range(images.shape().numbers());
    match images.pixels() {
        Pixels::Bytes(values) => values[range].to_vec(),
        Pixels::Floats(values) => values[range].iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

impl Trial for ImageTrial<'_> {
    type Network = Net;

    fn network(&self) -> &Net {
        self.network
    }

    fn hash(&self) -> &str {
        self.hash
    }

    fn calibration_sha256(&self) -> &str {
        &self.calibration_sha256
    }

    /// Images in an order drawn with the seed, the last ones for validation.
    fn scored_sha256(&self) -> &str {
        &self.scored_sha256
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn examples(&self, seed: u64) -> Result<Box<ExamplesOf<Self>>, TrialError> {
        let count = self.calibration.len();
        let mut order: Vec<u32> = (0..count as u32).collect();
        RngKey::new(seed).fold("calibration images").stream().shuffle(&mut order);
        let training = count - for_validation(self.source.validation, count);
        let examples = self.calibration.select(&order);
        Ok(Box::new(LabelledBatches::new(examples, self.source.batch, training)))
    }

    fn scores(
        &self,
        network: &Net,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, TrialError> {
        let scores = score_each(network, &self.scored, monitor);
        let scores = scores.and_then(|each| self.result(&each)).map_err(|error| {
            if matches!(error, NetError::Interrupted) {
                TrialError::from(CompressError::Interrupted)
            } else {
                ImageTrialError::from(error).into()
            }
        })?;
        Ok(vec![scores])
    }
}
