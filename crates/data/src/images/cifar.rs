//! Binary files of CIFAR-10 and CIFAR-100.
//!
//! Records without a header: one label (CIFAR-100: a coarse and a fine one), then 32 x 32 red
//! bytes, as many green ones, as many blue ones.
//! Source: Krizhevsky, "Learning multiple layers of features from tiny images", and the page of the
//! data sets.

use super::{
    ImageError, ImageFormat, ImageShape, Images, Pixels, check_label, check_size, invalid,
};
use std::path::Path;

const SIDE: usize = 32;
const CHANNELS: usize = 3;
const PLANE: usize = SIDE * SIDE;
const PIXELS: usize = CHANNELS * PLANE;

/// Which of the labels of a record is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    /// The only one.
    Ten,
    /// The second one.
    Hundred,
    /// The first one of two.
    Coarse,
}

impl Labels {
    /// Bytes before the pixels.
    fn width(self) -> usize {
        match self {
            Self::Ten => 1,
            Self::Hundred | Self::Coarse => 2,
        }
    }

    fn record(self) -> usize {
        self.width() + PIXELS
    }

    fn classes(self) -> u32 {
        match self {
            Self::Ten => 10,
            Self::Hundred => 100,
            Self::Coarse => 20,
        }
    }

    /// Position of the label in a record.
    fn place(self) -> usize {
        match self {
            Self::Ten | Self::Coarse => 0,
            Self::Hundred => 1,
        }
    }
}

/// The format of records that a file of this size may hold.
pub(super) fn of_size(path: &Path, bytes: usize) -> Result<Option<ImageFormat>, ImageError> {
    let whole = |labels: Labels| bytes > 0 && bytes.is_multiple_of(labels.record());
    match (whole(Labels::Ten), whole(Labels::Hundred)) {
        (true, true) => {
            let reason = format!(
                "has {bytes} bytes, which are whole records of CIFAR-10 and of CIFAR-100; give the format cifar10 or cifar100"
            );
            Err(invalid(path, reason))
        }
        (true, false) => Ok(Some(ImageFormat::Cifar10)),
        (false, true) => Ok(Some(ImageFormat::Cifar100)),
        (false, false) => Ok(None),
    }
}

/// The records of a file.
pub(super) fn images(path: &Path, bytes: &[u8], labels: Labels) -> Result<Images, ImageError> {
    let (record, found) = (labels.record(), bytes.len());
    if found == 0 || !found.is_multiple_of(record) {
        let reason = format!(
            "has {found} bytes, expected whole records of {record}: it is truncated, or not the binary version of CIFAR"
        );
        return Err(invalid(path, reason));
    }
    check_size(path, found as u64)?;
    let mut pixels = vec![0; found / record * PIXELS];
    let mut classes = Vec::with_capacity(found / record);
    let records = bytes.chunks_exact(record).zip(pixels.chunks_exact_mut(PIXELS));
    for (index, (record, pixels)) in records.enumerate() {
        let label = record[labels.place()];
        classes.push(check_label(path, index, label.into(), labels.classes())?);
        interleave(&record[labels.width()..], pixels);
    }
    let shape = ImageShape { height: SIDE, width: SIDE, channels: CHANNELS };
    let mut images = Images::new(shape, Pixels::Bytes(pixels), Some(classes));
    images.classes = labels.classes() as usize;
    Ok(images)
}

/// From planes to pixels.
fn interleave(planes: &[u8], pixels: &mut [u8]) {
    for (index, pixel) in pixels.chunks_exact_mut(CHANNELS).enumerate() {
        for (channel, value) in pixel.iter_mut().enumerate() {
            *value = planes[channel * PLANE + index];
        }
    }
}
