//! Errors in files of images, and in options for them.

use super::ImageShape;
use std::io;
use std::path::PathBuf;

/// Unusable images, labels, or options for them. Images and labels are counted from zero.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// An unreadable file or folder.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A set beyond the limit.
    #[error(
        "{}: the images take {bytes} bytes or more in memory, at most {limit_bytes} are accepted; take fewer images, or resize them",
        path.display()
    )]
    TooLarge {
        /// The file or folder.
        path: PathBuf,
        /// Bytes, as far as known.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// A file of no known format.
    #[error(
        "{} has {bytes} bytes that begin with {start}, which is not a known format of images; expected idx (also in gzip), CIFAR records of 3073 or 3074 bytes, .npy, .png, or a folder of classes",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Size of the file.
        bytes: usize,
        /// The first bytes, hexadecimal.
        start: String,
    },
    /// A file that does not meet the requirements of its format or use.
    #[error("{} {reason}", path.display())]
    Invalid {
        /// The file or folder.
        path: PathBuf,
        /// What was found and what was expected.
        reason: String,
    },
    /// Fewer bytes than the header says.
    #[error(
        "{} is truncated: {holds} take {expected_bytes} bytes, found {found_bytes}; fetch the file again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Content according to the header.
        holds: String,
        /// Bytes of the content, decompressed, with the header.
        expected_bytes: u64,
        /// Bytes found, decompressed.
        found_bytes: u64,
    },
    /// More bytes than the header says.
    #[error(
        "{} has more than the {expected_bytes} bytes of {holds}; header and content belong to different files",
        path.display()
    )]
    Surplus {
        /// The file.
        path: PathBuf,
        /// Content according to the header.
        holds: String,
        /// Bytes of the content, decompressed, with the header.
        expected_bytes: u64,
    },
    /// Compressed data that cannot be decompressed.
    #[error("{}: damaged gzip data: {reason}; fetch the file again", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// The error of the decompression.
        reason: String,
    },
    /// A pixel that is NaN or infinite, or not in the range of `f32`.
    #[error(
        "{}: image {image}, row {row}, column {column}, channel {channel} is {value}; expected finite numbers in the range of f32",
        path.display()
    )]
    NonFinite {
        /// The file.
        path: PathBuf,
        /// Index of the image in the file.
        image: usize,
        /// Row of the pixel.
        row: usize,
        /// Column of the pixel.
        column: usize,
        /// Channel.
        channel: usize,
        /// The number.
        value: f64,
    },
    /// A label out of range.
    #[error("{}: label {index} is {label}, expected 0 to {last}", path.display())]
    BadLabel {
        /// The file.
        path: PathBuf,
        /// Index of the label in the file.
        index: usize,
        /// The label.
        label: i128,
        /// Largest valid label.
        last: u32,
    },
    /// A number of labels that differs from that of images.
    #[error(
        "{} holds {labels} labels, {} holds {images} images; expected one label for each image",
        labels_path.display(), images_path.display()
    )]
    LabelCount {
        /// The first file of labels.
        labels_path: PathBuf,
        /// Number of labels.
        labels: usize,
        /// The first file of images.
        images_path: PathBuf,
        /// Number of images.
        images: usize,
    },
    /// An image of another shape than the first one.
    #[error(
        "{} holds images of {found}, {} of {expected}; expected one shape (`resize` changes height and width of PNG files)",
        path.display(), first.display()
    )]
    OtherShape {
        /// The file.
        path: PathBuf,
        /// Its shape.
        found: ImageShape,
        /// The first file.
        first: PathBuf,
        /// The shape of the first file.
        expected: ImageShape,
    },
    /// A part of a set that the set does not have.
    #[error(
        "{} has {images} images, expected at least {needed}: `first` is {first}",
        path.display()
    )]
    NoSuchPart {
        /// The first file or folder.
        path: PathBuf,
        /// Number of images.
        images: usize,
        /// First image of the part.
        first: usize,
        /// Smallest sufficient number of images.
        needed: usize,
    },
    /// Unusable options: of resizing, a split or a normalisation.
    #[error("{option}: {reason}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// What was found and what was expected.
        reason: String,
    },
}
