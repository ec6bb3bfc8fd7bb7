//! Reading of regular files within a size limit.
//!
//! A pipe without a writer blocks its reader, even against signals, and a device such as
//! `/dev/zero` has no end. Both are rejected before they are opened. Links are followed, since a
//! cache of models consists of links; files that this program wrote for itself are opened by
//! [`crate::state`].

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

/// Default size limit of a configuration file, in bytes.
pub const MAX_SETTINGS_BYTES: u64 = 1 << 26;

/// Observer of opened files, set once per process like the threads of the kernels: files are opened
/// in many places, which need not know about it.
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
/// Errors of the operating system, and [`io::ErrorKind::InvalidInput`] for anything but a regular
/// file.
pub fn open(path: &Path) -> io::Result<File> {
    check(fs::metadata(path)?.file_type())?;
    let file = unwaiting(OpenOptions::new().read(true), true).open(path)?;
    // The path may have been replaced meanwhile.
    let metadata = file.metadata()?;
    check(metadata.file_type())?;
    observed(path, metadata.len());
    Ok(file)
}

/// Options that open a pipe without waiting for its other end, and a link only if `follow`.
#[cfg(unix)]
pub(crate) fn unwaiting(options: &mut OpenOptions, follow: bool) -> &mut OpenOptions {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    options.custom_flags((OFlags::NONBLOCK | link).bits().cast_signed())
}

#[cfg(not(unix))]
pub(crate) fn unwaiting(options: &mut OpenOptions, _follow: bool) -> &mut OpenOptions {
    options
}

/// Notifies the observer of a file that was opened.
pub(crate) fn observed(path: &Path, bytes: u64) {
    if let Some(observer) = OBSERVER.get() {
        observer(path, bytes);
    }
}

/// Bytes of a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open`], and [`io::ErrorKind::FileTooLarge`], also for a file that grows while it is read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    content(open(path)?, most)
}

/// Bytes of an open file of at most `most` bytes.
pub(crate) fn content(file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    check_length(length, most)?;
    let mut bytes = Vec::new();
    // A sparse file can have any length.
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    check_length(bytes.len() as u64, most)?;
    Ok(bytes)
}

/// Text of a regular file of at most `most` bytes.
///
/// # Errors
/// As [`read`], and [`io::ErrorKind::InvalidData`] for bytes that are not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
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
    let error = match kind.is_dir() {
        true => io::ErrorKind::IsADirectory,
        false => io::ErrorKind::InvalidInput,
    };
    let found = name_of(kind);
    let reason = format!("{found}, expected a regular file; copy its content into one");
    Err(io::Error::new(error, reason))
}

/// Description of a file type.
pub(crate) fn name_of(kind: FileType) -> &'static str {
    if kind.is_file() {
        return "a file";
    }
    if kind.is_dir() {
        return "a folder";
    }
    if kind.is_symlink() {
        return "a link";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    "another kind of file"
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
