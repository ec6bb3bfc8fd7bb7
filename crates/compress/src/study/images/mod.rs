//! Studies of small networks for images: labelled images to fit to, and others to score.

mod error;
mod examples;
mod score;
#[cfg(test)]
mod tests;

use super::{ExamplesOf, StudyError, Trial};
use crate::recipe::{ImageCalibration, ImageEvaluation, ImageRecipe, Indices};
use examples::Shuffled;
use linwright_data::images::{self, ImageSource, Images, Pixels};
use linwright_evaluate::TaskResult;
use linwright_nets::{Extent, Net};
use linwright_run::{Fingerprint, Monitor};
use linwright_tensor::RngKey;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use error::ImageStudyError;

/// A small network, images to fit its slots to, and others to score it on.
#[derive(Debug)]
pub struct ImageTrial<'a> {
    network: &'a Net,
    hash: String,
    source: &'a ImageCalibration,
    evaluation: &'a ImageEvaluation,
    calibration: Arc<Images>,
    scored: Images,
}

/// Reads the chosen images of a data set; `of` is its key in the recipe, for messages.
///
/// # Errors
/// [`ImageStudyError`] for unusable files, missing labels and indices without an image.
pub fn open_images(
    of: &'static str,
    source: &ImageSource,
    chosen: Option<&Indices>,
) -> Result<Images, ImageStudyError> {
    let images = images::open_images(source)?;
    if images.labels().is_none() {
        let path = source.images.paths().first().cloned().unwrap_or_default();
        return Err(ImageStudyError::NoLabels { of, path });
    }
    let Some(chosen) = chosen else { return Ok(images) };
    if chosen.last() >= images.len() {
        return Err(ImageStudyError::Range { of, last: chosen.last(), images: images.len() });
    }
    Ok(images.select(&chosen.iter().collect::<Vec<_>>()))
}

impl<'a> ImageTrial<'a> {
    /// Reads the images of a recipe; `weights` is the SHA-256 of the network's.
    ///
    /// # Errors
    /// [`ImageStudyError`] for unusable images, images of another shape than the network's input,
    /// labels without an output, a network with several outputs for each class, and images that
    /// are both fitted to and scored.
    pub fn open(
        network: &'a Net,
        weights: &str,
        recipe: &'a ImageRecipe,
    ) -> Result<Self, ImageStudyError> {
        let (source, eval) = (&recipe.calibration, &recipe.eval);
        let calibration = open_images("calibration", &source.source(), source.examples.as_ref())?;
        let scored = open_images("eval", &eval.source(), eval.examples.as_ref())?;
        if calibration.len() < 2 {
            return Err(ImageStudyError::TooFew { found: calibration.len() });
        }
        let classes = outputs(network)?;
        for (of, images) in [("calibration", &calibration), ("eval", &scored)] {
            check_suits(of, images, network, classes)?;
        }
        check_apart(source, &calibration, eval, &scored)?;
        let hash = Fingerprint::of(&[("network", network.spec()), ("weights", &weights)]).0;
        let calibration = Arc::new(calibration);
        Ok(Self { network, hash, source, evaluation: eval, calibration, scored })
    }

    /// SHA-256 of the files of the scored images and their labels.
    #[must_use]
    pub fn scored_sha256(&self) -> &str {
        self.scored.sha256()
    }

    /// Notes on the data for the report.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let known: BTreeSet<Vec<u8>> =
            (0..self.calibration.len()).map(|index| content(&self.calibration, index)).collect();
        let all = self.scored.len();
        let common = (0..all).filter(|&index| known.contains(&content(&self.scored, index)));
        match common.count() {
            0 => Vec::new(),
            common => vec![format!(
                "{common} of {all} scored images are also among those of the calibration, which \
                 flatters the figures"
            )],
        }
    }
}

/// Number of outputs of a classifier.
fn outputs(network: &Net) -> Result<usize, ImageStudyError> {
    let output = network.spec().check().map_err(ImageStudyError::Net)?;
    match output.places() {
        1 => Ok(output.channels),
        places => Err(ImageStudyError::Output { places, channels: output.channels }),
    }
}

fn check_suits(
    of: &'static str,
    images: &Images,
    network: &Net,
    classes: usize,
) -> Result<(), ImageStudyError> {
    let shape = images.shape();
    let found = Extent { height: shape.height, width: shape.width, channels: shape.channels };
    let expected = network.spec().input.extent().map_err(ImageStudyError::Net)?;
    if found != expected {
        return Err(ImageStudyError::Shape { of, found, expected });
    }
    let labels = images.labels().into_iter().flatten().enumerate();
    match labels.into_iter().find(|(_, label)| **label as usize >= classes) {
        Some((index, &label)) => Err(ImageStudyError::Label { of, index, label, classes }),
        None => Ok(()),
    }
}

/// Refuses images of one set that are both fitted to and scored.
fn check_apart(
    source: &ImageCalibration,
    calibration: &Images,
    eval: &ImageEvaluation,
    scored: &Images,
) -> Result<(), ImageStudyError> {
    if calibration.sha256() != scored.sha256() {
        return Ok(());
    }
    let is_in = |indices: &Option<Indices>, index| {
        indices.as_ref().is_none_or(|indices| indices.contains(index))
    };
    let end = |indices: &Option<Indices>, images: &Images| {
        indices.as_ref().map_or(images.len(), |indices| indices.last() + 1)
    };
    let end = end(&source.examples, calibration).min(end(&eval.examples, scored));
    let in_both = |index: &usize| is_in(&source.examples, *index) && is_in(&eval.examples, *index);
    let mut common = (0..end).filter(in_both);
    match common.next() {
        Some(first) => Err(ImageStudyError::Common { first, count: 1 + common.count() }),
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
        &self.hash
    }

    fn calibration_sha256(&self) -> &str {
        self.calibration.sha256()
    }

    /// Images in an order drawn from the seed, the last ones for validation.
    fn examples(&self, seed: u64) -> Result<Box<ExamplesOf<Self>>, StudyError> {
        let key = RngKey::new(seed).fold("calibration images");
        Ok(Box::new(Shuffled::new(&self.calibration, self.source, key)))
    }

    fn scores(
        &self,
        network: &Net,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, StudyError> {
        let result = score::classification(network, &self.scored, self.evaluation.batch, monitor)?;
        Ok(vec![result])
    }
}
