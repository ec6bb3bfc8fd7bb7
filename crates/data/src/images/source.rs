//! Sources of images, and detection of their format.

use super::cifar::{self, Labels};
use super::folder::{self, Listed};
use super::png::PNG_MAGIC;
use super::{ImageError, Images, idx, invalid, most_pixels, npy, png};
use linwright_files::NPY_MAGIC;
use linwright_run::{input, sha256_hex};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Largest size of a file.
const MAX_FILE_BYTES: u64 = 4 << 30;
/// Number of first bytes in a message.
const SHOWN_BYTES: usize = 8;

/// A set of images, as in recipes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageSource {
    /// A file, a list of files, or a folder: one sub-folder of PNG files for each class.
    pub images: ImageFiles,
    /// Format of the files; detected by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    /// Files of labels, idx or npy. By default the file next to one called `..images-idx3..`, if
    /// there is one; CIFAR files and folders include their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<ImageFiles>,
    /// First image to take, from zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: usize,
    /// Number of images to take, by default all from there on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Height and width to which images are resized, see [`Images::resized`]. PNG files may then
    /// have different sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<[usize; 2]>,
}

impl ImageSource {
    /// All images of a file or folder.
    #[must_use]
    pub fn new(images: impl Into<PathBuf>) -> Self {
        Self {
            images: ImageFiles::One(images.into()),
            format: None,
            labels: None,
            first: 0,
            count: None,
            resize: None,
        }
    }

    /// All files and folders that are read, including labels.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        [self.images.paths(), &self.label_files()].concat()
    }

    /// Separate files of labels, as named or found next to those of images.
    fn label_files(&self) -> Vec<PathBuf> {
        match &self.labels {
            Some(files) => files.paths().to_vec(),
            None => {
                let images = self.images.paths();
                images.iter().filter_map(|path| idx::labels_beside(path)).collect()
            }
        }
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// One path, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ImageFiles {
    /// A file or folder.
    One(PathBuf),
    /// Files, one after the other.
    Several(Vec<PathBuf>),
}

impl ImageFiles {
    /// The paths in order.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Several(paths) => paths,
        }
    }
}

/// Format of a file of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// idx, plain or in gzip.
    Idx,
    /// Binary records of CIFAR-10.
    Cifar10,
    /// Binary records of CIFAR-100 with their 100 fine labels.
    Cifar100,
    /// The same with their 20 coarse labels.
    Cifar100Coarse,
    /// PNG.
    Png,
    /// A numpy array.
    Npy,
}

impl ImageFormat {
    /// All formats.
    pub const ALL: [Self; 6] =
        [Self::Idx, Self::Cifar10, Self::Cifar100, Self::Cifar100Coarse, Self::Png, Self::Npy];

    /// Its name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idx => "idx",
            Self::Cifar10 => "cifar10",
            Self::Cifar100 => "cifar100",
            Self::Cifar100Coarse => "cifar100_coarse",
            Self::Png => "png",
            Self::Npy => "npy",
        }
    }

    /// The format of a file with these bytes. A file called `.bin` is a CIFAR file if it has the
    /// size of one: its first bytes are pixels, which may look like any format.
    fn of(path: &Path, bytes: &[u8]) -> Result<Self, ImageError> {
        let is_bin = path.extension().is_some_and(|extension| extension == "bin");
        if is_bin && let Some(format) = cifar::of_size(path, bytes.len())? {
            return Ok(format);
        }
        if bytes.starts_with(&NPY_MAGIC) {
            return Ok(Self::Npy);
        }
        if bytes.starts_with(b"PK\x03\x04") {
            let reason = "is an archive, such as .npz, of which no array is chosen; save the one \
                          with the images as .npy";
            return Err(invalid(path, reason));
        }
        if bytes.starts_with(&PNG_MAGIC) {
            return Ok(Self::Png);
        }
        if idx::is_like(bytes) {
            return Ok(Self::Idx);
        }
        cifar::of_size(path, bytes.len())?.ok_or_else(|| ImageError::UnknownFormat {
            path: path.to_owned(),
            bytes: bytes.len(),
            start: linwright_files::hex(&bytes[..bytes.len().min(SHOWN_BYTES)]),
        })
    }

    /// The images of a file; large PNG files are already resized.
    fn parse(
        self,
        path: &Path,
        bytes: &[u8],
        resize: Option<[usize; 2]>,
    ) -> Result<Images, ImageError> {
        match self {
            Self::Idx => idx::images(path, bytes),
            Self::Cifar10 => cifar::images(path, bytes, Labels::Ten),
            Self::Cifar100 => cifar::images(path, bytes, Labels::Hundred),
            Self::Cifar100Coarse => cifar::images(path, bytes, Labels::Coarse),
            Self::Png => png::image(path, bytes, resize),
            Self::Npy => npy::images(path, bytes),
        }
    }
}

/// Parses one file.
pub(super) fn parse(
    path: &Path,
    bytes: &[u8],
    format: Option<ImageFormat>,
) -> Result<Images, ImageError> {
    let format = format.map_or_else(|| ImageFormat::of(path, bytes), Ok)?;
    format.parse(path, bytes, None)
}

/// Labels of a file, idx (also in gzip) or npy; `path` is the name in messages.
///
/// # Errors
/// [`ImageError`], naming the file and the label.
pub fn labels_from_bytes(path: &Path, bytes: &[u8]) -> Result<Vec<u32>, ImageError> {
    match bytes.starts_with(&NPY_MAGIC) {
        true => npy::labels(path, bytes),
        false => idx::labels(path, bytes),
    }
}

/// Reads a set of images: all its files, then the requested part, then resized.
///
/// # Errors
/// [`ImageError`], naming the file and the place.
pub fn open_images(source: &ImageSource) -> Result<Images, ImageError> {
    let Some(first) = source.images.paths().first() else {
        let reason = "is an empty list, expected at least one file".into();
        return Err(ImageError::BadOption { option: "images", reason });
    };
    let mut set = Set {
        source,
        first,
        images: None,
        first_file: first.into(),
        digests: Vec::new(),
        packed: [0; 2],
    };
    match &source.images {
        ImageFiles::One(path) if path.is_dir() => set.read_folder(path)?,
        ImageFiles::One(_) | ImageFiles::Several(_) => set.read_files()?,
    }
    set.finish()
}

/// A set being read.
struct Set<'a> {
    source: &'a ImageSource,
    /// The first path of the source.
    first: &'a Path,
    images: Option<Images>,
    /// The first file of `images`.
    first_file: PathBuf,
    /// Name and SHA-256 of each file.
    digests: Vec<(String, String)>,
    /// Bytes of PNG files, and of their pixels.
    packed: [u64; 2],
}

impl Set<'_> {
    fn read_files(&mut self) -> Result<(), ImageError> {
        for path in self.source.images.paths() {
            let bytes = self.read(path, &file_name(path))?;
            self.add(path, &bytes, None)?;
        }
        Ok(())
    }

    fn read_folder(&mut self, folder: &Path) -> Result<(), ImageError> {
        let listing = folder::list(folder)?;
        for Listed { path, name, class } in &listing.files {
            let bytes = self.read(path, name)?;
            if !bytes.starts_with(&PNG_MAGIC) {
                return Err(invalid(path, "is not a PNG file, despite its name"));
            }
            self.add(path, &bytes, *class)?;
        }
        if let Some(images) = &mut self.images {
            images.classes = listing.class_names.len();
            images.class_names = listing.class_names;
        }
        Ok(())
    }

    /// Bytes of a file, whose digest is recorded.
    fn read(&mut self, path: &Path, name: &str) -> Result<Vec<u8>, ImageError> {
        let failed = |source| ImageError::Read { path: path.to_owned(), source };
        let bytes = input::read(path, MAX_FILE_BYTES).map_err(failed)?;
        self.digests.push((name.to_owned(), sha256_hex(&bytes)));
        Ok(bytes)
    }

    /// Adds the images of a file; `class` is the label of its only one.
    fn add(&mut self, path: &Path, bytes: &[u8], class: Option<u32>) -> Result<(), ImageError> {
        let format = self.source.format.map_or_else(|| ImageFormat::of(path, bytes), Ok)?;
        let mut images = format.parse(path, bytes, self.source.resize)?;
        if format == ImageFormat::Png {
            let decoded = images.pixels.len();
            if let Some(size) = self.source.resize {
                images = images.resized(size)?;
            }
            self.count_packed(path, bytes.len(), decoded.min(images.pixels.len()))?;
        }
        if let Some(class) = class {
            images.set_labels(vec![class]);
        }
        match &mut self.images {
            Some(all) => all.append(images, path, &self.first_file),
            None => {
                path.clone_into(&mut self.first_file);
                self.images = Some(images);
                Ok(())
            }
        }
    }

    /// Counts a PNG file and its pixels, which may be a thousand times as many.
    fn count_packed(&mut self, path: &Path, bytes: usize, pixels: usize) -> Result<(), ImageError> {
        let [files, decoded] = &mut self.packed;
        *files += bytes as u64;
        *decoded += pixels as u64;
        let most = most_pixels(*files).max(png::ONE_IMAGE);
        match *decoded > most {
            false => Ok(()),
            true => Err(invalid(
                path,
                format!(
                    "brings the pixels of the files to {decoded} bytes, expected at most {most} in \
                     {files} bytes of PNG; take fewer images, or make them smaller"
                ),
            )),
        }
    }

    /// Adds labels from separate files, and takes the requested part.
    fn finish(mut self) -> Result<Images, ImageError> {
        let labels = self.labels()?;
        let Some(mut images) = self.images else {
            return Err(invalid(self.first, "holds no images"));
        };
        if let Some(labels) = labels {
            images.set_labels(labels);
        }
        images.sha256 = digest(&self.digests);
        let (len, first) = (images.len(), self.source.first);
        let needed = first.saturating_add(self.source.count.unwrap_or(1));
        if needed > len {
            let path = self.first.to_owned();
            return Err(ImageError::NoSuchPart { path, images: len, first, needed });
        }
        match self.source.count {
            Some(0) => {
                let reason = "is 0, expected at least one image".into();
                return Err(ImageError::BadOption { option: "count", reason });
            }
            Some(_) => images.keep(first..needed),
            None => images.keep(first..len),
        }
        match self.source.resize {
            Some(size) => images.resized(size),
            None => Ok(images),
        }
    }

    /// Labels from separate files, one for each image.
    fn labels(&mut self) -> Result<Option<Vec<u32>>, ImageError> {
        let paths = self.source.label_files();
        let Some(labels_path) = paths.first().cloned() else { return Ok(None) };
        if self.images.as_ref().is_some_and(|images| images.labels.is_some()) {
            let reason = "includes labels; omit `labels`";
            return Err(invalid(self.first, reason));
        }
        let mut labels = Vec::new();
        for path in &paths {
            let bytes = self.read(path, &file_name(path))?;
            labels.extend(labels_from_bytes(path, &bytes)?);
        }
        let images = self.images.as_ref().map_or(0, Images::len);
        if labels.len() != images {
            let (labels, images_path) = (labels.len(), self.first.to_owned());
            return Err(ImageError::LabelCount { labels_path, labels, images_path, images });
        }
        Ok(Some(labels))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// One digest of all files.
fn digest(files: &[(String, String)]) -> String {
    match files {
        [(_, sha256)] => sha256.clone(),
        several => {
            let lines: Vec<String> =
                several.iter().map(|(name, sha256)| format!("{sha256}  {name}\n")).collect();
            sha256_hex(lines.concat().as_bytes())
        }
    }
}
