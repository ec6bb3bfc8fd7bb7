//! The images that a network is trained on, and those that are held out.

use super::ImageOptions;
use crate::jobs::{Failure, FailureKind, JobError};
use linwright_compress::recipe::Indices;
use linwright_compress::study::{labelled, open_images};
use linwright_data::images::{ImageFiles, ImageSource, Images, Share, Split, SplitParts};
use linwright_nets::Labelled;
use linwright_run::shown;
use linwright_tensor::RngKey;

/// Images with their division.
pub(super) struct Divided {
    pub(super) images: Images,
    /// Indices of the images that are trained on.
    pub(super) training: Vec<usize>,
    /// Indices of the images that are held out.
    pub(super) held_out: Vec<usize>,
}

impl ImageOptions {
    /// Checks what needs no image.
    pub(super) fn check(&self) -> Result<(), JobError> {
        let share = self.held_out_share;
        match share > 0.0 && share < 1.0 {
            true => Ok(()),
            false => {
                let expected = "expected a share above 0 and below 1";
                Err(JobError::new(format!("--held-out-share {share}: {expected}")))
            }
        }
    }

    fn source(&self) -> Result<ImageSource, Failure> {
        let mut source = ImageSource::new(&self.images);
        source.format = self.format;
        source.labels = self.labels.clone().map(ImageFiles::One);
        if let Some(size) = &self.resize {
            let wrong = || {
                let size = shown(size);
                Failure::usage(format!("--resize {size}: expected height and width, such as 16,16"))
            };
            let (height, width) = size.split_once(',').ok_or_else(wrong)?;
            let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
            source.resize = Some([number(height)?, number(width)?]);
        }
        Ok(source)
    }

    /// Reads the images and divides them; which ones are held out depends on number and key.
    ///
    /// # Errors
    /// [`Failure`] for unusable files, missing labels, indices without an image, and fewer than two
    /// images.
    pub(super) fn read(&self, key: RngKey) -> Result<Divided, Failure> {
        let examples = match &self.examples {
            Some(list) => Some(
                Indices::parse(list)
                    .map_err(|why| Failure::usage(format!("--examples {}: {why}", shown(list))))?,
            ),
            None => None,
        };
        let images =
            open_images("--images", &self.source()?, examples.as_ref()).map_err(|error| {
                let failure = Failure::from(error);
                // What is wrong in a recipe of a study is wrong in an option here.
                match failure.kind() {
                    FailureKind::Recipe => Failure::usage(failure.message()),
                    _ => failure,
                }
            })?;
        let count = images.len();
        if count < 2 {
            return Err(Failure::usage(format!("{count} images, expected at least two"))
                .hint("one is held out"));
        }
        let held = (count as f64 * self.held_out_share).round() as usize;
        let held = Share::Count(held.clamp(1, count - 1));
        let split = Split { validation: held, ..Split::default() };
        let SplitParts { training, validation, .. } =
            split.divide(&images, Some(key.fold("held out")))?;
        Ok(Divided { images, training, held_out: validation })
    }
}

impl Divided {
    /// Images as rows with their labels: those of the training, and those held out.
    ///
    /// # Errors
    /// [`Failure`] for numbers that are not finite.
    pub(super) fn labelled(&self) -> Result<[Labelled; 2], Failure> {
        let of = |indices: &[usize]| labelled(&self.images.select(indices));
        Ok([of(&self.training)?, of(&self.held_out)?])
    }
}
