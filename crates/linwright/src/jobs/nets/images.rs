//! Labelled images as options of jobs.

use crate::jobs::kit::named::Names;
use crate::jobs::kit::{Catalogue, Failure, Terms, bounds};
use linwright_data::Indices;
use linwright_data::images::{ImageFiles, ImageFormat, ImageSource, Images};
use linwright_nets::open_images;
use linwright_run::shown;
use linwright_trial::ImageEvaluation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Labelled images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImageOptions {
    /// An idx or npy file, binary records of CIFAR, or a folder with a sub-folder of PNG files for
    /// each class.
    #[schemars(extend("x-path" = true))]
    pub images: PathBuf,
    /// Labels, idx or npy [default: the file beside one called ..images-idx3.., or in the images].
    pub labels: Option<PathBuf>,
    /// Format of the images [default: detected from the files].
    #[schemars(with = "Option<Names<ImageFormat>>")]
    pub format: Option<ImageFormat>,
    /// Use these images only: indices from zero such as `0-7999`.
    pub examples: Option<String>,
    /// Resize the images to this height and width, such as `16x16`: area means, or linear
    /// interpolation between pixels.
    pub resize: Option<String>,
}

static IMAGES: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::with_head::<ImageOptions>("images", "images", "labelled images"));

impl Terms for ImageOptions {
    const NAME: &'static str = "images";

    fn catalogue() -> &'static Catalogue {
        &IMAGES
    }
}

/// Labelled images to fit to, of the format and size of others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FittedImages {
    /// The images.
    #[schemars(extend("x-path" = true))]
    pub images: PathBuf,
    /// Labels, idx or npy [default: the file beside one called ..images-idx3.., or in the images].
    pub labels: Option<PathBuf>,
    /// Use these images only: indices from zero such as `0-7999`.
    pub examples: Option<String>,
    /// Images of a batch [default: 50].
    #[schemars(range(min = 1, max = bounds::BATCH))]
    pub batch: Option<usize>,
    /// Share of the images for validation, the last ones in the order of a seed [default: 0.1].
    #[schemars(range(min = 0.0, max = 1.0))]
    pub validation: Option<f64>,
}

static FITTED: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::with_head::<FittedImages>("images", "images", "images to fit to"));

impl Terms for FittedImages {
    const NAME: &'static str = "fitted_images";

    fn catalogue() -> &'static Catalogue {
        &FITTED
    }
}

impl ImageOptions {
    /// Paths that are read.
    pub(in crate::jobs) fn inputs(&self) -> Vec<PathBuf> {
        std::iter::once(self.images.clone()).chain(self.labels.clone()).collect()
    }

    fn source(&self) -> Result<ImageSource, Failure> {
        let mut source = ImageSource::new(&self.images);
        source.format = self.format;
        source.labels = self.labels.clone().map(ImageFiles::One);
        if let Some(size) = &self.resize {
            let wrong = || {
                let size = shown(size);
                Failure::usage(format!(
                    "--images resize={size}: expected height and width, such as 16x16"
                ))
            };
            let (height, width) = size.split_once([',', 'x']).ok_or_else(wrong)?;
            let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
            source.resize = Some([number(height)?, number(width)?]);
        }
        Ok(source)
    }

    /// The images as those on which networks are scored.
    ///
    /// # Errors
    /// [`Failure`] for a size or a list that cannot be read.
    pub(in crate::jobs) fn evaluation(&self) -> Result<ImageEvaluation, Failure> {
        let examples = chosen("--images examples=", self.examples.as_deref())?;
        Ok(ImageEvaluation { source: self.source()?, examples })
    }

    /// Reads the images.
    ///
    /// # Errors
    /// [`Failure`] for unusable files, missing labels and indices without an image.
    pub(in crate::jobs) fn read(&self) -> Result<Images, Failure> {
        let examples = chosen("--images examples=", self.examples.as_deref())?;
        Ok(open_images("--images", &self.source()?, examples.as_ref())?)
    }
}

/// Indices of images of an option.
///
/// # Errors
/// [`Failure`] for a list that cannot be read.
pub(in crate::jobs) fn chosen(
    option: &str,
    list: Option<&str>,
) -> Result<Option<Indices>, Failure> {
    let read = |list: &str| {
        let wrong = |why| Failure::usage(format!("{option}{}: {why}", shown(list)));
        Indices::parse(list).map_err(wrong)
    };
    list.map(read).transpose()
}
