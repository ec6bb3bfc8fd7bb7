//! Labelled images as examples of a network.

use crate::{Labelled, NetError, Targets};
use linwright_data::Indices;
use linwright_data::images::{self, ImageError, ImageSource, Images, Normalisation};
use linwright_run::memory::{self, NoRoom};
use linwright_tensor::Mat;
use std::path::PathBuf;

/// Images that cannot be examples. Images are counted from zero.
#[derive(Debug, thiserror::Error)]
pub enum LabelledImagesError {
    /// Unusable files.
    #[error(transparent)]
    Images(#[from] ImageError),
    /// No examples for a network.
    #[error(transparent)]
    Net(#[from] NetError),
    /// More images than there is memory for.
    #[error("{source}; take fewer images, or resize them")]
    Memory {
        /// What is missing.
        source: NoRoom,
    },
    /// Images without labels.
    #[error("{of}: {} has no labels; name their file as labels=FILE", path.display())]
    NoLabels {
        /// Name of the option.
        of: &'static str,
        /// The first file.
        path: PathBuf,
    },
    /// Indices beyond the set.
    #[error("{of}: there is no image {last}: the set has {images}, from zero")]
    Range {
        /// Name of the option.
        of: &'static str,
        /// The largest index.
        last: usize,
        /// Number of images.
        images: usize,
    },
}

/// Reads the chosen images of a data set; `of` is its name in messages.
///
/// # Errors
/// [`LabelledImagesError`] for unusable files, missing labels and indices without an image.
pub fn open_images(
    of: &'static str,
    source: &ImageSource,
    chosen: Option<&Indices>,
) -> Result<Images, LabelledImagesError> {
    let images = images::open_images(source)?;
    if images.labels().is_none() {
        let path = source.images.paths().first().cloned().unwrap_or_default();
        return Err(LabelledImagesError::NoLabels { of, path });
    }
    let Some(chosen) = chosen else { return Ok(images) };
    if chosen.last() >= images.len() {
        return Err(LabelledImagesError::Range { of, last: chosen.last(), images: images.len() });
    }
    Ok(images.select(&chosen.iter().collect::<Vec<_>>()))
}

/// Images as rows for each pixel, bytes divided by 255, with their labels. The network normalises.
///
/// # Errors
/// [`LabelledImagesError::Net`] if there are none, or a number is not finite, and
/// [`LabelledImagesError::Memory`].
pub fn labelled(images: &Images) -> Result<Labelled, LabelledImagesError> {
    let (shape, count) = (images.shape(), images.len());
    let bytes = (shape.numbers() * size_of::<f32>()) as u64;
    memory::check(
        || format!("{count} images of {shape} in single precision"),
        &[count as u64, bytes],
    )
    .map_err(|source| LabelledImagesError::Memory { source })?;
    let mut numbers = vec![0.0; count * shape.numbers()];
    let all: Vec<usize> = (0..count).collect();
    images.rows(&all, &Normalisation::none(shape.channels), &mut numbers)?;
    let (labels, places) = (images.labels().unwrap_or_default(), shape.height * shape.width);
    let rows = Mat::from_vec(count * places, shape.channels, numbers);
    Ok(Labelled::new(rows, places, Targets::Classes(labels.to_vec()))?)
}
