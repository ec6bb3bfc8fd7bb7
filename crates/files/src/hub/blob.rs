//! Downloads one blob, checks it, stores it in the cache and links it into a snapshot.

use super::Hooks;
use super::cache::Repository;
use super::client::{Client, Method, Reply, RequestFailure, Retries, number, text};
use super::error::HubError;
use crate::hex;
use linwright_run::atomic::OutputError;
use linwright_run::state;
use sha2::{Digest, Sha256};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Size of one read, in bytes.
const PIECE: usize = 1 << 18;
/// Longest etag.
const ETAG_BYTES: usize = 128;
/// Interval at which a lock held by another process is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// A file on the hub.
#[derive(Debug)]
pub(super) struct Blob {
    /// Path in the repository.
    pub(super) name: String,
    /// URL of its content.
    pub(super) url: String,
    /// File name in `blobs`; the SHA-256 for a large file.
    pub(super) etag: String,
    /// Announced size in bytes.
    pub(super) size: u64,
}

/// Destination of a download.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) repository: &'a Repository,
    /// Folder of the commit in `snapshots`.
    pub(super) snapshot: &'a Path,
}

impl Blob {
    /// Parses an `ETag` header; `None` if the etag cannot be a file name.
    pub(super) fn etag(header: &str) -> Option<String> {
        let etag = header.strip_prefix("W/").unwrap_or(header).trim_matches('"');
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let length = (1..=ETAG_BYTES).contains(&etag.len());
        (length && etag.bytes().all(fine)).then(|| etag.to_owned())
    }

    /// SHA-256 of the content, if the etag is one; the hub uses it for large files.
    fn sha256(&self) -> Option<&str> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (self.etag.len() == 64 && self.etag.bytes().all(digit)).then_some(&self.etag)
    }

    /// Downloads the content if it is not cached, and links it into the snapshot. Progress is
    /// reported from `before` of `total` bytes on.
    pub(super) fn ensure(
        &self,
        client: &Client<'_>,
        place: &Place<'_>,
        before: u64,
        total: u64,
        hooks: &mut Hooks<'_>,
    ) -> Result<(), HubError> {
        let path = place.repository.blobs().join(&self.etag);
        create_parent(&path)?;
        let lock = self.lock(client, place, hooks)?;
        let there = path.metadata().is_ok_and(|there| there.is_file() && there.len() == self.size);
        if !there {
            self.download(client, &path, before, total, hooks)?;
        }
        drop(lock);
        link(&path, place.snapshot, &self.name)?;
        (hooks.progress)(before + self.size, total);
        Ok(())
    }

    /// Takes the lock that all programs of Hugging Face use for this content.
    fn lock(
        &self,
        client: &Client<'_>,
        place: &Place<'_>,
        hooks: &mut Hooks<'_>,
    ) -> Result<File, HubError> {
        let path = place.repository.locks().join(format!("{}.lock", self.etag));
        create_parent(&path)?;
        let file = state::edit(&path).map_err(|error| OutputError::io("create", &path, error))?;
        let mut is_reported = false;
        // On a file system without locks, concurrent writes are not prevented.
        while let Err(TryLockError::WouldBlock) = file.try_lock() {
            if !is_reported {
                (hooks.step)(&format!("waiting for another program to download {}", self.name));
                is_reported = true;
            }
            if (hooks.cancelled)() {
                return Err(HubError::Interrupted { id: client.id.to_string() });
            }
            thread::sleep(LOCK_PAUSE);
        }
        Ok(file)
    }

    fn download(
        &self,
        client: &Client<'_>,
        path: &Path,
        before: u64,
        total: u64,
        hooks: &mut Hooks<'_>,
    ) -> Result<(), HubError> {
        let mut part = Part::open(self, path)?;
        if self.sha256().is_none() {
            // Without a SHA-256, a stale partial file could not be detected.
            part.restart()?;
        }
        let mut retries = Retries::new(client);
        while part.bytes < self.size {
            let had = part.bytes;
            let progress = |hooks: &mut Hooks<'_>, bytes| (hooks.progress)(before + bytes, total);
            if let Err(fault) = self.attempt(client, &mut part, hooks, &progress) {
                if part.bytes > had {
                    retries = Retries::new(client);
                }
                retries.wait(fault, hooks)?;
            }
        }
        part.finish(client, path)
    }

    /// Sends one request. The bytes received are kept even if the connection breaks.
    fn attempt(
        &self,
        client: &Client<'_>,
        part: &mut Part<'_>,
        hooks: &mut Hooks<'_>,
        progress: &dyn Fn(&mut Hooks<'_>, u64),
    ) -> Result<(), RequestFailure> {
        if self.sha256().is_none() {
            part.restart()?;
        }
        let Reply { response, host } =
            client.send(Method::From(part.bytes), &self.url, &self.name)?;
        if response.status().as_u16() != 206 {
            part.restart()?;
        } else if !continues(text(response.headers(), "content-range"), part.bytes, self.size) {
            let reason = "has another byte range than requested";
            return Err(client.bad_response(&host, &self.name, reason).into());
        }
        if let Some(length) = number(response.headers(), "content-length") {
            self.check(client, part.bytes.saturating_add(length))?;
        }
        let mut body = response.into_body().into_reader();
        let mut piece = vec![0; PIECE];
        loop {
            if (hooks.cancelled)() {
                return Err(HubError::Interrupted { id: client.id.to_string() }.into());
            }
            let broken = |reason: String| RequestFailure::Transient { host: host.clone(), reason };
            match body.read(&mut piece) {
                Ok(0) if part.bytes == self.size => return Ok(()),
                Ok(0) => {
                    let (bytes, size, name) = (part.bytes, self.size, &self.name);
                    return Err(broken(format!("{name} ended after {bytes} of {size} bytes")));
                }
                Ok(bytes) => {
                    if part.bytes + bytes as u64 > self.size {
                        let found = part.bytes + bytes as u64;
                        part.discard()?;
                        return self.check(client, found).map_err(RequestFailure::from);
                    }
                    part.append(&piece[..bytes])?;
                    progress(hooks, part.bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error.to_string())),
            }
        }
    }

    fn check(&self, client: &Client<'_>, found: u64) -> Result<(), HubError> {
        if found == self.size {
            return Ok(());
        }
        let (id, file) = (client.id.to_string(), self.name.clone());
        Err(HubError::Size { id, file, expected: self.size, found })
    }
}

/// Whether a `Content-Range` starts at byte `start` and belongs to a file of `size` bytes.
fn continues(header: Option<String>, start: u64, size: u64) -> bool {
    let read = |header: String| {
        let (range, all) = header.strip_prefix("bytes ")?.split_once('/')?;
        let (first, _) = range.split_once('-')?;
        Some(first.parse() == Ok(start) && (all == "*" || all.parse() == Ok(size)))
    };
    header.and_then(read) == Some(true)
}

/// A partial download, stored next to its final path.
struct Part<'a> {
    blob: &'a Blob,
    path: PathBuf,
    file: File,
    bytes: u64,
    hash: Sha256,
}

impl<'a> Part<'a> {
    /// Opens the partial file of an earlier attempt, or creates one.
    fn open(blob: &'a Blob, whole: &Path) -> Result<Self, OutputError> {
        let path = whole.with_file_name(format!("{}.incomplete", blob.etag));
        let file = state::edit(&path).map_err(|error| OutputError::io("create", &path, error))?;
        let mut part = Self { blob, path, file, bytes: 0, hash: Sha256::new() };
        match part.read_back() {
            Ok(bytes) if bytes <= blob.size => part.bytes = bytes,
            Ok(_) => part.restart()?,
            Err(error) => return Err(OutputError::io("read", &part.path, error)),
        }
        Ok(part)
    }

    /// Hashes the bytes present, at most one byte more than the announced size.
    fn read_back(&mut self) -> io::Result<u64> {
        let mut piece = vec![0; PIECE];
        let mut bytes = 0;
        while bytes <= self.blob.size {
            match self.file.read(&mut piece)? {
                0 => break,
                read => {
                    self.hash.update(&piece[..read]);
                    bytes += read as u64;
                }
            }
        }
        Ok(bytes)
    }

    fn restart(&mut self) -> Result<(), OutputError> {
        self.bytes = 0;
        self.hash = Sha256::new();
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map(drop).map_err(|error| OutputError::io("write", &self.path, error))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| OutputError::io("write", &self.path, error))?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn discard(&self) -> Result<(), OutputError> {
        fs::remove_file(&self.path).map_err(|error| OutputError::io("remove", &self.path, error))
    }

    /// Checks the SHA-256 and renames the file to its final path.
    fn finish(self, client: &Client<'_>, whole: &Path) -> Result<(), HubError> {
        if let Some(expected) = self.blob.sha256() {
            let found = hex(&self.hash.clone().finalize());
            if found != expected {
                self.discard()?;
                let (id, file) = (client.id.to_string(), self.blob.name.clone());
                return Err(HubError::Damaged { id, file, expected: expected.into(), found });
            }
        }
        let synced = self.file.sync_all();
        synced.map_err(|error| OutputError::io("write", &self.path, error))?;
        let renamed = fs::rename(&self.path, whole);
        Ok(renamed.map_err(|error| OutputError::io("rename", whole, error))?)
    }
}

impl From<OutputError> for RequestFailure {
    fn from(error: OutputError) -> Self {
        HubError::from(error).into()
    }
}

/// Links a file of a snapshot to a blob. A link to another file is replaced.
fn link(blob: &Path, snapshot: &Path, name: &str) -> Result<(), OutputError> {
    let path = snapshot.join(name);
    create_parent(&path)?;
    let fresh = path.with_extension(format!("linwright-{}", std::process::id()));
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(OutputError::io("remove", &fresh, error));
        }
        _ => {}
    }
    make_link(blob, &fresh, name)
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(|error| OutputError::io("link", &path, error))
}

#[cfg(unix)]
fn make_link(blob: &Path, fresh: &Path, name: &str) -> io::Result<()> {
    let etag = blob.file_name().unwrap_or_default();
    // Relative, through all folders of the snapshot, so that the cache can be moved.
    let up = "../".repeat(name.split('/').count() + 1);
    std::os::unix::fs::symlink(Path::new(&up).join("blobs").join(etag), fresh)
}

#[cfg(not(unix))]
fn make_link(blob: &Path, fresh: &Path, _: &str) -> io::Result<()> {
    fs::hard_link(blob, fresh)
}

/// Creates the parent folder of a path.
pub(super) fn create_parent(path: &Path) -> Result<(), OutputError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|error| OutputError::io("create", parent, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_names_a_file() {
        assert_eq!(Blob::etag("\"ab12\"").as_deref(), Some("ab12"));
        assert_eq!(Blob::etag("W/\"ab-1_2\"").as_deref(), Some("ab-1_2"));
        for header in ["", "\"\"", "\"../x\"", "a/b", "a.b", &"a".repeat(129)] {
            assert_eq!(Blob::etag(header), None, "{header}");
        }
    }

    #[test]
    fn a_range_goes_on_where_the_part_ends() {
        let continues = |header: &str| continues(Some(header.into()), 5, 9);
        assert!(continues("bytes 5-8/9") && continues("bytes 5-8/*"));
        for header in ["bytes 4-8/9", "bytes 5-8/10", "bytes */9", "5-8/9", "bytes x", ""] {
            assert!(!continues(header), "{header}");
        }
        assert!(!super::continues(None, 5, 9));
    }
}
