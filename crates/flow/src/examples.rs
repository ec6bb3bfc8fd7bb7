//! Examples of a flow: images of bytes, images or points of real numbers, and points of a [`Toy`].

use crate::error::check_finite;
use crate::gaussian::{self, Gaussian};
use crate::{Extent, FlowError, Toy, Values};
use linwright_data::images::{ImageShape, ImageSource, Images, Pixels, open_images};
use linwright_files::{NPY_MAGIC, NpyHeader, NpzArray};
use linwright_run::{input, sha256_hex};
use linwright_tensor::{Mat, RngKey};
use std::path::Path;

/// Levels of an intensity.
pub(crate) const LEVELS: f64 = 256.0;
/// Largest dimension of a point.
const MOST_COLUMNS: usize = 1 << 12;
/// First bytes of a file, for detecting its format.
const HEADER_BYTES: u64 = 1 << 16;

/// Examples for training or scoring a flow.
#[derive(Clone, Debug)]
pub struct FlowExamples {
    extent: Extent,
    content: Content,
    sha256: String,
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
enum Content {
    /// Intensities, images one after the other, channels last.
    Bytes(Vec<u8>),
    /// Places as rows.
    Numbers(Mat<f32>),
    /// Any number of points, drawn on demand.
    Toy(Toy),
    /// The same.
    Gaussian(Box<Gaussian>),
}

/// A side of images that can be halved several times: multiples of 8 up to 32 are kept, others
/// become the next lower of 8, 16 and 32.
fn suited(side: usize) -> usize {
    match side {
        8 | 16 | 24 | 32 => side,
        0..16 => 8,
        16..32 => 16,
        _ => 32,
    }
}

impl FlowExamples {
    /// Opens data by name: `moons`, `checkerboard`, `circles`; a Gaussian, such as
    /// `gaussian:toeplitz:16`; a numpy array of points, one in each row; or images, as
    /// [`open_images`] reads them. Images are resized by area to `size`, or to sides that halve
    /// well; this is noted.
    ///
    /// # Errors
    /// [`FlowError::Image`] and [`FlowError::File`] for unreadable files, [`FlowError::Examples`]
    /// without examples, [`FlowError::NotFinite`].
    pub fn open(name: &str, size: Option<[usize; 2]>) -> Result<Self, FlowError> {
        if let Some(toy) = Toy::named(name) {
            let extent = Extent { channels: 2, height: 1, width: 1 };
            let sha256 = sha256_hex(toy.name().as_bytes());
            return Ok(Self { extent, content: Content::Toy(toy), sha256, notes: Vec::new() });
        }
        if let Some(density) = Gaussian::named(name) {
            let density = density.map_err(|reason| FlowError::Option {
                option: "data",
                found: format!("{name}, which {reason}"),
                expected: gaussian::FORM.to_owned(),
            })?;
            let extent = Extent { channels: density.dimensions(), height: 1, width: 1 };
            let (content, sha256) =
                (Content::Gaussian(Box::new(density)), sha256_hex(name.as_bytes()));
            return Ok(Self { extent, content, sha256, notes: Vec::new() });
        }
        let path = Path::new(name);
        if is_table(path) {
            return Self::table(path);
        }
        Self::images(open_images(&ImageSource::new(path))?, path, size)
    }

    /// Images as examples.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn images(
        images: Images,
        path: &Path,
        size: Option<[usize; 2]>,
    ) -> Result<Self, FlowError> {
        if images.is_empty() {
            let reason = "has no images, expected at least one".to_owned();
            return Err(FlowError::Examples { path: path.to_owned(), reason });
        }
        let ImageShape { height, width, .. } = images.shape();
        let wanted = size.unwrap_or([suited(height), suited(width)]);
        let mut notes = Vec::new();
        let images = if wanted == [height, width] {
            images
        } else {
            notes.push(format!(
                "images of {height} x {width} are resized by area to {} x {}",
                wanted[0], wanted[1]
            ));
            images.resized(wanted)?
        };
        let ImageShape { height, width, channels } = images.shape();
        let (extent, sha256) = (Extent { channels, height, width }, images.sha256().to_owned());
        let content = match images.pixels() {
            Pixels::Bytes(bytes) => Content::Bytes(bytes.clone()),
            Pixels::Floats(numbers) => {
                check_finite(&format!("{}, pixels", path.display()), numbers)?;
                Content::Numbers(Mat::from_vec(numbers.len() / channels, channels, numbers.clone()))
            }
        };
        Ok(Self { extent, content, sha256, notes })
    }

    /// Points (points, numbers) of a numpy array.
    fn table(path: &Path) -> Result<Self, FlowError> {
        let NpzArray { shape, numbers } = NpzArray::open(path)?;
        let refuse = |found: String| FlowError::Examples {
            path: path.to_owned(),
            reason: format!("{found}; expected one or more points of 2 to {MOST_COLUMNS} numbers"),
        };
        let [rows, columns] = shape[..] else { return Err(refuse(format!("has shape {shape:?}"))) };
        if rows == 0 || !(2..=MOST_COLUMNS).contains(&columns) {
            return Err(refuse(format!("has shape {shape:?}")));
        }
        check_finite(&format!("{}, points", path.display()), &numbers)?;
        let numbers: Vec<f32> = numbers.into_iter().map(|number| number as f32).collect();
        check_finite(&format!("{}, points in single precision", path.display()), &numbers)?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let extent = Extent { channels: columns, height: 1, width: 1 };
        let content = Content::Numbers(Mat::from_vec(rows, columns, numbers));
        Ok(Self { extent, content, sha256: sha256_hex(&bytes), notes: Vec::new() })
    }

    /// Extent of an example.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Type of the numbers.
    #[must_use]
    pub fn values(&self) -> Values {
        match self.content {
            Content::Bytes(_) => Values::Bytes,
            Content::Numbers(_) | Content::Toy(_) | Content::Gaussian(_) => Values::Numbers,
        }
    }

    /// Number of examples; none if they are drawn.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        match &self.content {
            Content::Bytes(bytes) => Some(bytes.len() / self.extent.numbers()),
            Content::Numbers(rows) => Some(rows.rows() / self.extent.places()),
            Content::Toy(_) | Content::Gaussian(_) => None,
        }
    }

    /// Entropy in bits per dimension of the density that examples are drawn from, if known: a lower
    /// bound for any flow.
    #[must_use]
    pub fn entropy(&self) -> Option<f64> {
        match &self.content {
            Content::Toy(toy) => toy.entropy(),
            Content::Gaussian(density) => Some(density.entropy()),
            Content::Bytes(_) | Content::Numbers(_) => None,
        }
    }

    /// Whether a name denotes a density, not a file.
    #[must_use]
    pub fn is_drawn(name: &str) -> bool {
        Toy::named(name).is_some() || Gaussian::named(name).is_some()
    }

    /// SHA-256 of their source, hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Description of changes to the examples.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Some examples as rows of positions, each dequantised with its own noise under the key; for a
    /// density, a point for each index.
    ///
    /// # Panics
    /// If there is no example at an index.
    #[must_use]
    #[track_caller]
    pub fn batch(&self, indices: &[u32], key: RngKey) -> Mat<f32> {
        let (places, channels) = (self.extent.places(), self.extent.channels);
        let numbers = places * channels;
        let mut batch = Vec::with_capacity(indices.len() * numbers);
        for &index in indices {
            let at = index as usize * numbers;
            match &self.content {
                Content::Bytes(bytes) => {
                    let mut stream = key.fold_index(u64::from(index)).stream();
                    let noisy =
                        |byte: &u8| ((f64::from(*byte) + stream.uniform()) / LEVELS - 0.5) as f32;
                    batch.extend(bytes[at..at + numbers].iter().map(noisy));
                }
                Content::Numbers(rows) => batch.extend_from_slice(&rows.data()[at..at + numbers]),
                Content::Toy(toy) => {
                    batch.extend(toy.points(1, key.fold_index(u64::from(index))).into_vec());
                }
                Content::Gaussian(density) => {
                    batch.extend(density.point(key.fold_index(u64::from(index))));
                }
            }
        }
        Mat::from_vec(indices.len() * places, channels, batch)
    }
}

/// Whether a file is a two-dimensional numpy array.
fn is_table(path: &Path) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let read = input::open(path).and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut start));
    read.is_ok()
        && start.starts_with(&NPY_MAGIC)
        && NpyHeader::parse(&start).is_ok_and(|header| header.shape.len() <= 2)
}
