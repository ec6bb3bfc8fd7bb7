//! Reading of regular files within a size limit.
//!
//! A pipe without a writer blocks its reader, even against signals, and a device such as
//! `/dev/zero` has no end. Both are rejected before they are opened.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

/// Default size limit of a configuration file, in bytes.
pub const MAX_SETTINGS_BYTES: u64 = 1 << 26;

/// Observer of opened files. Set once per process, like the threads of the kernels: files are
/// opened in many places, which need not know about it.
static OBSERVER: OnceLock<fn(&Path, u64)> = OnceLock::new();

/// Calls `observer` with the path and size of every file opened from now on. Only the first call
/// has an effect.
pub fn observe(observer: fn(&Path, u64)) {
    // A later call has no effect, as documented.
    let _ = OBSERVER.set(observer);
}

/// Opens a regular file for reading.
///
/// # Errors
/// Errors of the system, and [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    check(fs::metadata(path)?.file_type())?;
    let file = File::open(path)?;
    // The path may have been replaced meanwhile.
    let metadata = file.metadata()?;
    check(metadata.file_type())?;
    if let Some(observer) = OBSERVER.get() {
        observer(path, metadata.len());
    }
    Ok(file)
}

/// Bytes of a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open`], and [`io::ErrorKind::FileTooLarge`], also for a file that grows while it is read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    check_length(length, most)?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    check_length(bytes.len() as u64, most)?;
    Ok(bytes)
}

/// Text of a regular file of at most `most` bytes.
///
/// # Errors
/// As [`read`], and [`io::ErrorKind::InvalidData`] for bytes that are not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8 at byte {at}"))
    })
}

fn check_length(found: u64, most: u64) -> io::Result<()> {
    if found > most {
        let reason = format!("{found} bytes or more, expected at most {most}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(())
}

fn check(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let (error, found) = match special_kind(kind) {
        None => (io::ErrorKind::IsADirectory, "a folder"),
        Some(found) => (io::ErrorKind::InvalidInput, found),
    };
    let reason = format!("{found}, expected a regular file; copy its content into one");
    Err(io::Error::new(error, reason))
}

/// Description of a file type other than regular file and directory.
fn special_kind(kind: FileType) -> Option<&'static str> {
    if kind.is_dir() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return Some("a pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
        if kind.is_char_device() || kind.is_block_device() {
            return Some("a device");
        }
    }
    Some("another kind of file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn regular_files_are_read_up_to_a_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "twelve bytes").unwrap();
        assert_eq!(read_text(&path, 12).unwrap(), "twelve bytes");
        let error = read(&path, 11).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("12 bytes"), "{error}");
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 12).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(open(dir.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(open(&dir.path().join("b")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn files_that_are_opened_are_told_with_their_bytes() {
        static SEEN: AtomicU64 = AtomicU64::new(0);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("watched");
        fs::write(&path, "twelve bytes").unwrap();
        // Other tests open files in parallel.
        observe(|path, bytes| {
            if path.ends_with("watched") {
                SEEN.fetch_add(bytes, Ordering::Relaxed);
            }
        });
        observe(|_, _| panic!("only the first call counts"));
        open(&path).unwrap();
        read(&path, 12).unwrap();
        assert_eq!(SEEN.load(Ordering::Relaxed), 24);
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_are_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(status.success());
        // Opening it would block for a writer.
        let error = open(&pipe).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("a pipe, expected a regular file"), "{error}");
        let error = read(Path::new("/dev/zero"), u64::MAX).unwrap_err();
        assert!(error.to_string().contains("a device, expected a regular file"), "{error}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        assert!(open(&link).is_err());
    }
}
