//! Recipes of small networks for labelled images.

use super::check::{Kind, Wrong, wrong};
use super::{Healing, Recipe};
use linwright_data::Indices;
use linwright_data::images::{ImageFiles, ImageFormat, ImageSource};
use serde::{Deserialize, Serialize};

/// A complete run of a small network on labelled images.
pub type ImageRecipe = Recipe<ImageCalibration, ImageEvaluation>;

/// Labelled images that fits read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageCalibration {
    /// A file, a list of files, or a folder: one sub-folder of PNG files for each class.
    pub images: ImageFiles,
    /// Format of the files, by default found by what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    /// Files of labels; by default those beside the images or in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<ImageFiles>,
    /// Height and width to which images are resized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<[usize; 2]>,
    /// Which of the images are used; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Indices>,
    /// Images of a batch.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// Share of the images for validation: the last ones in the order of a seed.
    #[serde(default = "default_validation")]
    pub validation: f64,
}

/// Labelled images on which networks are scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageEvaluation {
    /// A file, a list of files, or a folder: one sub-folder of PNG files for each class.
    pub images: ImageFiles,
    /// Format of the files, by default found by what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    /// Files of labels; by default those beside the images or in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<ImageFiles>,
    /// Height and width to which images are resized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<[usize; 2]>,
    /// Which of the images are used; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Indices>,
}

fn default_batch() -> usize {
    50
}

fn default_validation() -> f64 {
    0.1
}

impl ImageCalibration {
    /// All images of a file or folder.
    #[must_use]
    pub fn new(images: ImageFiles) -> Self {
        Self {
            images,
            format: None,
            labels: None,
            resize: None,
            examples: None,
            batch: default_batch(),
            validation: default_validation(),
        }
    }

    /// The files, with all their images.
    #[must_use]
    pub fn source(&self) -> ImageSource {
        let Self { images, format, labels, resize, .. } = self.clone();
        ImageSource { images, format, labels, first: 0, count: None, resize }
    }

    /// Images for validation of a number of them: at least one, and at least one is left.
    #[must_use]
    pub fn validation_of(&self, images: usize) -> usize {
        let share = (images as f64 * self.validation).round() as usize;
        share.clamp(1, images.saturating_sub(1).max(1))
    }
}

impl ImageEvaluation {
    /// The files, with all their images.
    #[must_use]
    pub fn source(&self) -> ImageSource {
        let Self { images, format, labels, resize, .. } = self.clone();
        ImageSource { images, format, labels, first: 0, count: None, resize }
    }
}

impl Kind for ImageCalibration {
    type Evaluation = ImageEvaluation;

    /// Every slot.
    fn targets() -> Option<Vec<String>> {
        None
    }

    fn heal() -> Vec<Healing> {
        Vec::new()
    }

    fn is_one_role(one: &str, other: &str) -> bool {
        one == other
    }

    fn check(&self, eval: &ImageEvaluation) -> Result<(), Wrong> {
        if self.batch == 0 {
            return wrong("calibration.batch", "is 0, expected at least 1");
        }
        let share = self.validation;
        if !(share > 0.0 && share < 1.0) {
            return wrong(
                "calibration.validation",
                format!("is {share}, expected a share between 0 and 1"),
            );
        }
        let files = [
            ("calibration.images", Some(&self.images)),
            ("calibration.labels", self.labels.as_ref()),
            ("eval.images", Some(&eval.images)),
            ("eval.labels", eval.labels.as_ref()),
        ];
        match files.iter().find(|(_, files)| files.is_some_and(|files| files.paths().is_empty())) {
            Some((key, _)) => wrong(*key, "is an empty list, expected at least one file"),
            None => Ok(()),
        }
    }
}
