//! Labelled images in memory.
//!
//! [`open_images`] reads idx files (MNIST), CIFAR's binary files, folders of PNG files, one for
//! each class, and numpy arrays, and detects the format from the content. Images of a set have one
//! shape; pixels are stored channels last. [`Split`] divides a set into parts, [`Normalisation`]
//! gives rows of `f32` to a model.
//!
//! Memory is bounded by the size of the files, even if they are compressed: a header is compared
//! with them before anything is allocated. Images, labels, rows and columns are counted from zero,
//! in messages too.

mod cifar;
mod error;
mod folder;
mod gzip;
mod idx;
mod normalise;
mod npy;
mod png;
mod resize;
mod source;
mod split;
#[cfg(test)]
mod tests;

pub use error::ImageError;
pub use normalise::Normalisation;
pub use png::png_bytes;
pub use source::{ImageFiles, ImageFormat, ImageSource, labels_from_bytes, open_images};
pub use split::{Share, Split, SplitParts};

use std::fmt;
use std::ops::Range;
use std::path::Path;

/// Size limit of a set in memory, in bytes of pixels.
pub const MAX_IMAGE_BYTES: u64 = 4 << 30;
/// Bytes of pixels for each byte of compressed files, at most: MNIST has five, and arithmetic takes
/// four bytes for each.
const PIXEL_RATIO: u64 = 32;
/// Bytes of pixels of small compressed files in any case.
const PIXEL_FLOOR: u64 = 4 << 20;
/// Largest number of classes: a model has one output for each.
pub const MAX_CLASSES: u32 = 1 << 16;

/// Shape of every image of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageShape {
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// Numbers of a pixel.
    pub channels: usize,
}

impl ImageShape {
    /// Numbers of an image.
    ///
    /// # Panics
    /// If the product overflows, which it never does for images that were read.
    #[must_use]
    pub fn numbers(self) -> usize {
        let numbers = self.checked_numbers();
        numbers.unwrap_or_else(|| panic!("an image of {self} has too many numbers"))
    }

    fn checked_numbers(self) -> Option<usize> {
        self.height.checked_mul(self.width)?.checked_mul(self.channels)
    }
}

impl fmt::Display for ImageShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.height, self.width, self.channels)
    }
}

/// Pixels of a set, (images, height, width, channels), row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Pixels {
    /// Intensities of 0 to 255.
    Bytes(Vec<u8>),
    /// Finite numbers in any units.
    Floats(Vec<f32>),
}

impl Pixels {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Floats(values) => values.len(),
        }
    }

    /// Bytes of one number.
    fn width(&self) -> u64 {
        match self {
            Self::Bytes(_) => 1,
            Self::Floats(_) => 4,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "bytes",
            Self::Floats(_) => "floats",
        }
    }

    /// The images at some indices, each of `numbers` numbers.
    fn select(&self, indices: &[usize], numbers: usize) -> Self {
        fn gather<T: Copy>(values: &[T], indices: &[usize], numbers: usize) -> Vec<T> {
            let mut out = Vec::with_capacity(indices.len() * numbers);
            for &index in indices {
                out.extend_from_slice(&values[index * numbers..(index + 1) * numbers]);
            }
            out
        }
        match self {
            Self::Bytes(values) => Self::Bytes(gather(values, indices, numbers)),
            Self::Floats(values) => Self::Floats(gather(values, indices, numbers)),
        }
    }

    /// Only the numbers of a range.
    fn keep(&mut self, range: Range<usize>) {
        fn cut<T>(values: &mut Vec<T>, range: Range<usize>) {
            values.truncate(range.end);
            values.drain(..range.start);
            values.shrink_to_fit();
        }
        match self {
            Self::Bytes(values) => cut(values, range),
            Self::Floats(values) => cut(values, range),
        }
    }
}

/// Images of one shape, with their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    shape: ImageShape,
    pixels: Pixels,
    labels: Option<Vec<u32>>,
    classes: usize,
    class_names: Vec<String>,
    sha256: String,
}

impl Images {
    /// Images from memory. The number of classes is the largest label plus one.
    ///
    /// # Panics
    /// If `pixels` are not whole images of this shape, or not as many as there are labels, or a
    /// label is not below [`MAX_CLASSES`].
    #[must_use]
    #[track_caller]
    pub fn new(shape: ImageShape, pixels: Pixels, labels: Option<Vec<u32>>) -> Self {
        let (numbers, len) = (shape.numbers(), pixels.len());
        assert!(numbers > 0 && len.is_multiple_of(numbers), "{len} numbers for images of {shape}");
        let mut images = Self {
            shape,
            pixels,
            labels: None,
            classes: 0,
            class_names: Vec::new(),
            sha256: String::new(),
        };
        if let Some(labels) = labels {
            images.set_labels(labels);
        }
        images
    }

    /// Parses one file from memory; `path` is the name in messages. Without a format, it is found
    /// by the content.
    ///
    /// # Errors
    /// [`ImageError`], naming the file and the place.
    pub fn from_bytes(
        path: &Path,
        bytes: &[u8],
        format: Option<ImageFormat>,
    ) -> Result<Self, ImageError> {
        let mut images = source::parse(path, bytes, format)?;
        images.sha256 = linwright_run::sha256_hex(bytes);
        Ok(images)
    }

    /// Gives labels, one for each image.
    #[track_caller]
    fn set_labels(&mut self, labels: Vec<u32>) {
        assert_eq!(labels.len(), self.len(), "labels of {} images", self.len());
        let largest = labels.iter().max().copied();
        assert!(largest.is_none_or(|label| label < MAX_CLASSES), "label {largest:?}");
        self.classes = largest.map_or(0, |label| label as usize + 1);
        self.labels = Some(labels);
    }

    /// Number of images.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pixels.len() / self.shape.numbers()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shape of every image.
    #[must_use]
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// All pixels.
    #[must_use]
    pub fn pixels(&self) -> &Pixels {
        &self.pixels
    }

    /// One label for each image, below [`Self::classes`].
    #[must_use]
    pub fn labels(&self) -> Option<&[u32]> {
        self.labels.as_deref()
    }

    /// Number of classes: that of class folders, of CIFAR, or the largest label plus one; zero
    /// without labels. Parts of a set have as many as the whole.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Names of the classes, in the order of labels; empty unless folders name them.
    #[must_use]
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// SHA-256 of the bytes of the file, hexadecimal. Of several files, labels included: that of
    /// the lines that `sha256sum` prints for their names, without folders except that of the class.
    /// A part of a set, or a resized one, has that of the files. Empty for images from memory.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The images at some indices, in this order; an index may occur twice.
    ///
    /// # Panics
    /// If there is no image at an index.
    #[must_use]
    #[track_caller]
    pub fn select(&self, indices: &[usize]) -> Self {
        self.check_indices(indices);
        let select = |labels: &Vec<u32>| indices.iter().map(|&index| labels[index]).collect();
        Self {
            shape: self.shape,
            pixels: self.pixels.select(indices, self.shape.numbers()),
            labels: self.labels.as_ref().map(select),
            classes: self.classes,
            class_names: self.class_names.clone(),
            sha256: self.sha256.clone(),
        }
    }

    #[track_caller]
    fn check_indices(&self, indices: &[usize]) {
        let bad = indices.iter().find(|&&index| index >= self.len());
        assert!(bad.is_none(), "image {bad:?} of {}", self.len());
    }

    /// Only the images of a range, without a copy.
    fn keep(&mut self, range: Range<usize>) {
        let numbers = self.shape.numbers();
        if let Some(labels) = &mut self.labels {
            labels.truncate(range.end);
            labels.drain(..range.start);
        }
        self.pixels.keep(range.start * numbers..range.end * numbers);
    }

    /// Adds the images of another file; `first` is the first file of the set.
    fn append(&mut self, other: Self, path: &Path, first: &Path) -> Result<(), ImageError> {
        if other.shape != self.shape {
            return Err(ImageError::OtherShape {
                path: path.to_owned(),
                found: other.shape,
                first: first.to_owned(),
                expected: self.shape,
            });
        }
        let held = self.pixels.len() as u64 + other.pixels.len() as u64;
        check_size(path, held.saturating_mul(self.pixels.width()))?;
        match (&mut self.pixels, other.pixels) {
            (Pixels::Bytes(values), Pixels::Bytes(more)) => values.extend(more),
            (Pixels::Floats(values), Pixels::Floats(more)) => values.extend(more),
            (Pixels::Bytes(_) | Pixels::Floats(_), other) => {
                let (found, expected) = (other.name(), self.pixels.name());
                let reason =
                    format!("holds {found}, expected {expected} as in {}", first.display());
                return Err(invalid(path, reason));
            }
        }
        self.classes = self.classes.max(other.classes);
        match (&mut self.labels, other.labels) {
            (Some(labels), Some(more)) => labels.extend(more),
            (None, None) => {}
            (Some(_), None) | (None, Some(_)) => {
                let reason = format!(
                    "and {} are not both labelled; give files of one format",
                    first.display()
                );
                return Err(invalid(path, reason));
            }
        }
        Ok(())
    }
}

/// The error for a file that is not as required.
fn invalid(path: &Path, reason: impl Into<String>) -> ImageError {
    ImageError::Invalid { path: path.to_owned(), reason: reason.into() }
}

/// Largest number of bytes of pixels in compressed files of this size.
fn most_pixels(file_bytes: u64) -> u64 {
    file_bytes.saturating_mul(PIXEL_RATIO).max(PIXEL_FLOOR)
}

/// Refuses sets beyond [`MAX_IMAGE_BYTES`].
fn check_size(path: &Path, bytes: u64) -> Result<(), ImageError> {
    match bytes > MAX_IMAGE_BYTES {
        false => Ok(()),
        true => {
            Err(ImageError::TooLarge { path: path.to_owned(), bytes, limit_bytes: MAX_IMAGE_BYTES })
        }
    }
}

/// Refuses a label that is not below `classes`.
fn check_label(path: &Path, index: usize, label: i128, classes: u32) -> Result<u32, ImageError> {
    match u32::try_from(label) {
        Ok(label) if label < classes => Ok(label),
        Ok(_) | Err(_) => {
            let path = path.to_owned();
            Err(ImageError::BadLabel { path, index, label, last: classes - 1 })
        }
    }
}
