//! The images that a network is trained on, and those that are held out.

use super::TrainNet;
use crate::jobs::kit::{Failure, JobError};
use linwright_data::images::{Images, Share, Split, SplitParts};
use linwright_nets::{Labelled, labelled};
use linwright_tensor::RngKey;

/// Default share of the images that is held out.
const HELD_OUT_SHARE: f64 = 0.1;

/// Images with their division.
pub(super) struct Divided {
    pub(super) images: Images,
    /// Indices of the images that are trained on.
    pub(super) training: Vec<usize>,
    /// Indices of the images that are held out.
    pub(super) held_out: Vec<usize>,
}

impl TrainNet {
    /// The share of the images that is held out.
    pub(super) fn share(&self) -> Result<f64, JobError> {
        let share = self.held_out_share.unwrap_or(HELD_OUT_SHARE);
        if share > 0.0 && share < 1.0 {
            return Ok(share);
        }
        let expected = "expected a share above 0 and below 1";
        Err(JobError::new(format!("--held-out-share {share}: {expected}")))
    }
}

impl Divided {
    /// Reads the images of a job and divides them; the number of images, the share and the key
    /// determine which ones are held out.
    ///
    /// # Errors
    /// [`Failure`] as of the options, and for fewer than two images.
    pub(super) fn read(job: &TrainNet, key: RngKey) -> Result<Self, Failure> {
        let images = job.images.read()?;
        let count = images.len();
        if count < 2 {
            let message = format!("{count} images, expected at least two");
            return Err(Failure::usage(message).hint("one is held out"));
        }
        let held = (count as f64 * job.share()?).round() as usize;
        let held = Share::Count(held.clamp(1, count - 1));
        let split = Split { validation: held, ..Split::default() };
        let SplitParts { training, validation, .. } =
            split.divide(&images, Some(key.fold("held out")))?;
        Ok(Self { images, training, held_out: validation })
    }

    /// Images as rows with their labels: those of the training, and those held out.
    ///
    /// # Errors
    /// [`Failure`] for numbers that are not finite.
    pub(super) fn labelled(&self) -> Result<[Labelled; 2], Failure> {
        let of = |indices: &[usize]| labelled(&self.images.select(indices));
        Ok([of(&self.training)?, of(&self.held_out)?])
    }
}
