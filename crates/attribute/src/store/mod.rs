//! Stores of compressed gradients on disk.
//!
//! ```text
//! manifest.json              the contents of the store
//! maps/000.safetensors ..    the maps of each layer, see `map_file`
//! shards/000000.grd ..       gradients of `shard_rows` examples each, see `layout.rs`
//! ```
//!
//! Shard `i` holds examples from `i * shard_rows` on, whichever process computes it. A shard
//! appears complete, under its name, or not at all, so its file shows that it is finished: an
//! interrupted cache continues with the missing shards, and several processes can share the work. A
//! damaged shard is an error.

mod element;
mod layout;
mod manifest;
mod reader;
mod writer;

pub use element::Element;
pub use manifest::{Manifest, ManifestLayer, Sources, StoreOptions};
pub use reader::{ShardFile, StoredRow, Tile};
pub(crate) use writer::ShardWriter;

use crate::map_file::LayerParts;
use crate::{AttributeError, CompressorKey, CompressorSpec, GradientMap, LayerMap};
use layout::Layout;
use linwright_ops::{LinearSlot, Network};
use linwright_run::atomic::OutputError;
use linwright_run::{Checked, input, sha256_hex, state};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
const MAPS: &str = "maps";
const SHARDS: &str = "shards";

/// A store of compressed gradients.
#[derive(Clone, Debug)]
pub struct GradientStore {
    path: PathBuf,
    manifest: Manifest,
    /// SHA-256 of the manifest, which every shard has in its header.
    digest: [u8; 32],
}

impl GradientStore {
    /// Creates a store, or opens one of the same network, examples, compressor and options.
    ///
    /// # Errors
    /// [`AttributeError::OtherStore`] for a store with other contents, [`AttributeError::NoStore`]
    /// for a directory with other files, and errors of writing.
    pub fn create(
        path: &Path,
        sources: &Sources,
        map: &GradientMap,
        compressor: (CompressorSpec, CompressorKey),
        options: StoreOptions,
    ) -> Result<Self, AttributeError> {
        let (manifest, files) = Manifest::of(sources, map, compressor, options)?;
        let is_there = || state::exists(&path.join(MANIFEST));
        if let (false, Err(error)) = (is_there(), check_empty(path))
            // Another process may have created it meanwhile.
            && !is_there()
        {
            return Err(error);
        }
        if is_there() {
            let store = Self::open(path)?;
            store.manifest.check_same(path, &manifest)?;
            return Ok(store);
        }
        for folder in [MAPS, SHARDS] {
            make_folder(path, folder)?;
        }
        for (index, file) in files.iter().enumerate() {
            let parts: Vec<&[u8]> = file.iter().map(Vec::as_slice).collect();
            state::write_parts(&maps_path(path, index), &parts)?;
        }
        let json = |source| AttributeError::Json { source };
        let checked = Checked::of(&manifest).map_err(json)?;
        let text = serde_json::to_string_pretty(&checked).map_err(json)?;
        state::write(&path.join(MANIFEST), text.as_bytes())?;
        Self::new(path, manifest)
    }

    /// As [`Self::create`], but without writing, to estimate costs: an existing store is opened, a
    /// new one is only described.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn planned(
        path: &Path,
        sources: &Sources,
        map: &GradientMap,
        compressor: (CompressorSpec, CompressorKey),
        options: StoreOptions,
    ) -> Result<Self, AttributeError> {
        match state::exists(&path.join(MANIFEST)) {
            true => Self::create(path, sources, map, compressor, options),
            false => {
                check_empty(path)?;
                Self::new(path, Manifest::of(sources, map, compressor, options)?.0)
            }
        }
    }

    /// Checks that the store belongs to a network, by its identification.
    ///
    /// # Errors
    /// [`AttributeError::OtherStore`].
    pub fn check_network(&self, network: &str) -> Result<(), AttributeError> {
        let (found, expected) = (&self.manifest.network, sha256_hex(network.as_bytes()));
        match *found == expected {
            true => Ok(()),
            false => Err(AttributeError::OtherStore {
                path: self.path.clone(),
                field: "the network",
                found: found.clone(),
                expected,
            }),
        }
    }

    /// Checks that the store belongs to some examples, by their identification.
    ///
    /// # Errors
    /// [`AttributeError::OtherStore`].
    pub fn check_examples(&self, examples: &str) -> Result<(), AttributeError> {
        let (found, expected) = (&self.manifest.examples, sha256_hex(examples.as_bytes()));
        match *found == expected {
            true => Ok(()),
            false => Err(AttributeError::OtherStore {
                path: self.path.clone(),
                field: "the text or data",
                found: found.clone(),
                expected,
            }),
        }
    }

    /// Opens a store and checks its maps.
    ///
    /// # Errors
    /// [`AttributeError::NoStore`], [`AttributeError::Damaged`].
    pub fn open(path: &Path) -> Result<Self, AttributeError> {
        let file = path.join(MANIFEST);
        let no_store = |reason| AttributeError::NoStore { path: path.into(), reason };
        let bytes = state::read(&file, input::MAX_SETTINGS_BYTES)
            .map_err(|error| no_store(format!("{MANIFEST}: {error}")))?;
        let manifest: Manifest =
            Checked::read(&bytes).map_err(|reason| no_store(format!("{MANIFEST}: {reason}")))?;
        manifest.check().map_err(|reason| no_store(format!("{MANIFEST}: {reason}")))?;
        for folder in [MAPS, SHARDS] {
            let inside = state::inside(path, Path::new(folder).join(MANIFEST));
            inside.map_err(|source| AttributeError::Read { path: path.into(), source })?;
        }
        for (index, layer) in manifest.layers.iter().enumerate() {
            let path = maps_path(path, index);
            let found = state::open(&path).and_then(linwright_run::sha256_of_open);
            let found =
                found.map_err(|source| AttributeError::Read { path: path.clone(), source })?;
            if found != layer.maps {
                let reason = "the maps of a layer were changed";
                return Err(no_store(format!("{}: {reason}", path.display())));
            }
        }
        Self::new(path, manifest)
    }

    fn new(path: &Path, manifest: Manifest) -> Result<Self, AttributeError> {
        let text =
            serde_json::to_string(&manifest).map_err(|source| AttributeError::Json { source })?;
        let mut digest = [0; 32];
        let hex = sha256_hex(text.as_bytes());
        for (byte, digits) in digest.iter_mut().zip(hex.as_bytes().as_chunks::<2>().0) {
            let digit = |at: usize| (digits[at] as char).to_digit(16).unwrap_or(0) as u8;
            *byte = digit(0) << 4 | digit(1);
        }
        Ok(Self { path: path.into(), manifest, digest })
    }

    /// SHA-256 of its identity, hexadecimal.
    pub(crate) fn digest_hex(&self) -> String {
        linwright_files::hex(&self.digest)
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the store contains.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its compression maps, for queries of the same network.
    ///
    /// # Errors
    /// [`AttributeError`] for maps that do not fit the network.
    pub fn map<N: Network>(&self, network: &N) -> Result<GradientMap, AttributeError> {
        let place = |slot: &LinearSlot| {
            self.manifest.layers.iter().position(|layer| layer.site == slot.id().0)
        };
        let build = |slot: &LinearSlot| {
            let missing = || AttributeError::Layers { reason: format!("no maps of {}", slot.id()) };
            let index = place(slot).ok_or_else(missing)?;
            let path = maps_path(&self.path, index);
            let (shape, parts) = (crate::shape_of(slot), LayerParts::read(&path)?);
            LayerMap::of_parts(shape, &parts).map_err(|error| error.in_file(&path))
        };
        let map = GradientMap::of(network, &|slot| place(slot).is_some(), &build)?;
        if map.layers().len() != self.manifest.layers.len() {
            let (found, expected) = (map.layers().len(), self.manifest.layers.len());
            return Err(AttributeError::OtherStore {
                path: self.path.clone(),
                field: "the number of layers that the network has",
                found: expected.to_string(),
                expected: found.to_string(),
            });
        }
        Ok(map)
    }

    /// Examples of a shard.
    #[must_use]
    pub fn examples_of(&self, shard: usize) -> std::ops::Range<usize> {
        let start = shard * self.manifest.shard_rows;
        start..self.manifest.count.min(start + self.manifest.shard_rows)
    }

    /// Whether a shard is finished.
    #[must_use]
    pub fn has(&self, shard: usize) -> bool {
        state::exists(&self.shard_path(shard))
    }

    /// Opens a shard and checks its header and footer.
    ///
    /// # Errors
    /// [`AttributeError::Damaged`], [`AttributeError::Read`].
    pub fn shard(&self, shard: usize) -> Result<ShardFile, AttributeError> {
        ShardFile::open(self, shard)
    }

    /// Opens every shard.
    ///
    /// # Errors
    /// [`AttributeError::Incomplete`] if some are missing, and errors of [`Self::shard`].
    pub fn all_shards(&self) -> Result<Vec<ShardFile>, AttributeError> {
        let expected = self.manifest.shards();
        let found = (0..expected).filter(|&shard| self.has(shard)).count();
        if found < expected {
            return Err(AttributeError::Incomplete { path: self.path.clone(), found, expected });
        }
        (0..expected).map(|shard| self.shard(shard)).collect()
    }

    /// Bytes of all shards.
    #[must_use]
    pub fn shard_bytes(&self) -> u64 {
        let bytes =
            |shard| Layout::of(&self.manifest, self.examples_of(shard).len()).bytes() as u64;
        (0..self.manifest.shards()).map(bytes).sum()
    }

    fn shard_path(&self, shard: usize) -> PathBuf {
        self.path.join(SHARDS).join(format!("{shard:06}.grd"))
    }
}

/// Creates a folder of a store.
pub(crate) fn make_folder(store: &Path, name: &str) -> Result<(), OutputError> {
    let made = fs::create_dir_all(store).and_then(|()| state::make_folder(store, name));
    made.map(drop).map_err(|error| OutputError::io("create", &store.join(name), error))
}

fn maps_path(store: &Path, index: usize) -> PathBuf {
    store.join(MAPS).join(format!("{index:03}.safetensors"))
}

/// Checks that a directory for a store does not exist, or holds only leftovers of an interrupted
/// creation.
fn check_empty(path: &Path) -> Result<(), AttributeError> {
    let read = |source| AttributeError::Read { path: path.into(), source };
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(read(error)),
    };
    for entry in entries {
        let name = entry.map_err(read)?.file_name();
        let is_partial = name.to_string_lossy().starts_with(".manifest.json.partial-");
        if ![MAPS, SHARDS].map(OsStr::new).contains(&name.as_os_str()) && !is_partial {
            let name = linwright_run::shown(&name.to_string_lossy());
            let reason = format!("it holds {name} and no {MANIFEST}; name an empty directory");
            return Err(AttributeError::NoStore { path: path.into(), reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
