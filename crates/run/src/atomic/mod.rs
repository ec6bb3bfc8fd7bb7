//! Atomic writes of files and directories.
//!
//! Everything is written under a hidden sibling name (`.<name>.partial-<process>-<n>`), flushed to
//! disk and renamed to its target, so that a reader never sees a partial result. A process holds a
//! lock on its hidden sibling; if it is killed, the next write to the same target removes siblings
//! whose lock is free.
//!
//! The target is checked before the work and again after it ([`Replace`]). A directory is replaced
//! only if it is empty, or if its record shows that all of its files were written by this program.

mod publish;
mod record;

pub use publish::Replace;
pub use record::{check_directory, check_file};

#[cfg(unix)]
use crate::input;
use crate::regular;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(unix)]
use std::time::{Duration, Instant};

/// Name of the lock inside an unfinished directory.
const LOCK: &str = ".lock";
/// Time to wait for a reader of a pipe.
#[cfg(unix)]
const READER_WAIT: Duration = Duration::from_secs(10);
/// Interval between two checks for a reader.
#[cfg(unix)]
const READER_GLANCE: Duration = Duration::from_millis(20);
/// Attempts to create a hidden sibling that no other process removes immediately.
const MAX_ATTEMPTS: usize = 100;

/// An output that could not be written. Nothing partial is left.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The target exists.
    #[error("output {} exists already; choose another name, or overwrite it with --force", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The existing target may not be replaced.
    #[error("output {} {reason}, so --force does not replace it; choose another name, or remove it yourself", path.display())]
    NotOurs {
        /// The target.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The parent of the target is not a directory.
    #[error("output {}: its parent {} {reason}; create the directory first", path.display(), parent.display())]
    NoParent {
        /// The target.
        path: PathBuf,
        /// Its parent.
        parent: PathBuf,
        /// What the parent is instead.
        reason: &'static str,
    },
    /// A path without a file name, such as `/` or `..`.
    #[error("output {} has no file name; give a path with a name at its end", path.display())]
    NoName {
        /// The target.
        path: PathBuf,
    },
    /// The disk, the quota or the file-size limit is full.
    #[error("no space left while writing {}: {source}; free some space or choose another disk", path.display())]
    Full {
        /// The file being written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Any other error of the operating system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl OutputError {
    /// Converts an error of the operating system; a full disk has its own variant.
    #[must_use]
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        let is_full = matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        if is_full { Self::Full { path, source } } else { Self::Io { action, path, source } }
    }
}

/// Writes an output file atomically. A pipe or a terminal is written to directly.
///
/// # Errors
/// [`OutputError`]; an existing file is then unchanged.
pub fn write(path: &Path, bytes: &[u8], replace: Replace) -> Result<(), OutputError> {
    let mut file = AtomicFile::create(path, replace)?;
    file.write(bytes)?;
    file.commit()
}

/// A file being written in parts, or one of several files that are published together. It is
/// removed when dropped without [`Self::commit`].
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    file: Metered,
    /// None for a pipe or a terminal, which is written to directly.
    unfinished: Option<UnfinishedFile>,
}

/// A file that does not have its final name yet.
#[derive(Debug)]
struct UnfinishedFile {
    replace: Replace,
    /// Its temporary name.
    path: PathBuf,
    /// The same, or the folder that holds only this file.
    guard: RemoveOnDrop,
    /// Locked while it is open: the lock of the folder.
    _lock: Option<File>,
}

impl AtomicFile {
    /// Starts a file for `target`. An existing file that may not be replaced is an error now,
    /// before any work.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn create(target: &Path, replace: Replace) -> Result<Self, OutputError> {
        Self::create_as(target, replace, |parent, name| {
            let (file, path) = create_partial(parent, name)?;
            let guard = RemoveOnDrop(Some(path.clone()));
            Ok((file, UnfinishedFile { replace, path, guard, _lock: None }))
        })
    }

    /// As [`Self::create`]; until it is finished, the file has its final name inside a hidden
    /// folder, for readers that depend on the name.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn create_apart(target: &Path, replace: Replace) -> Result<Self, OutputError> {
        Self::create_as(target, replace, |parent, name| {
            let (folder, lock, guard) = create_partial_folder(parent, name)?;
            let path = folder.join(name);
            let file = File::create_new(&path).map_err(|e| OutputError::io("create", &path, e))?;
            Ok((file, UnfinishedFile { replace, path, guard, _lock: Some(lock) }))
        })
    }

    fn create_as(
        target: &Path,
        replace: Replace,
        create: impl FnOnce(&Path, &OsString) -> Result<(File, UnfinishedFile), OutputError>,
    ) -> Result<Self, OutputError> {
        let (parent, name) = place(target)?;
        replace.check(target)?;
        let may_be_stream = match replace {
            Replace::Nothing | Replace::Ours(_) => true,
            Replace::State => false,
        };
        let (file, unfinished) = match may_be_stream && is_stream(target) {
            true => (open_stream(target).map_err(|e| OutputError::io("open", target, e))?, None),
            false => {
                remove_stale(&parent, &name);
                let (file, unfinished) = create(&parent, &name)?;
                (file, Some(unfinished))
            }
        };
        let file = Metered { file, written: 0, left: None };
        Ok(Self { target: target.to_path_buf(), file, unfinished })
    }

    /// Limits the size of the file to `bytes`; further writes fail as on a full disk.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.file.left = Some(bytes);
        self
    }

    /// Appends some bytes.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.file.write_all(bytes).map_err(|e| OutputError::io("write", &self.target, e))
    }

    /// The unfinished file, to read it back; none for a pipe or a terminal.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.unfinished.as_ref().map(|unfinished| unfinished.path.as_path())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`OutputError`], also for a file that appeared there meanwhile and may not be replaced; it
    /// is then unchanged.
    pub fn commit(self) -> Result<(), OutputError> {
        let Self { target, file, unfinished } = self;
        let Some(UnfinishedFile { replace, path, guard, _lock }) = unfinished else {
            return Ok(());
        };
        file.file.sync_all().map_err(|e| OutputError::io("write", &target, e))?;
        replace.publish(&path, &target)?;
        // The temporary name is gone; its folder is removed.
        if guard.0.as_ref() == Some(&path) {
            guard.keep();
        }
        sync_directory(&place(&target)?.0);
        Ok(())
    }
}

/// Creates a file or a directory under a hidden name with `make`, and renames it to an unused name.
pub(crate) fn place_whole(
    target: &Path,
    make: impl FnOnce(&Path) -> Result<(), OutputError>,
) -> Result<(), OutputError> {
    let (parent, name) = place(target)?;
    remove_stale(&parent, &name);
    let temp = parent.join(partial_name(&name));
    let guard = RemoveOnDrop(Some(temp.clone()));
    make(&temp)?;
    match temp.is_dir() {
        false => Replace::Nothing.publish(&temp, target)?,
        true if regular::exists(target) => {
            return Err(OutputError::Exists { path: target.to_path_buf() });
        }
        // It can only replace an empty directory.
        true => {
            fs::rename(&temp, target).map_err(|e| OutputError::io("rename to", target, e))?;
        }
    }
    guard.keep();
    sync_directory(&parent);
    Ok(())
}

/// Creates and locks the hidden sibling of a file.
fn create_partial(parent: &Path, name: &OsString) -> Result<(File, PathBuf), OutputError> {
    let mut attempts = 0;
    loop {
        let temp = parent.join(partial_name(name));
        let created = create_locked(&temp);
        // A writer of the same file may mistake the new sibling for a stale one before it is
        // locked, and remove it. A process with the same number can exist on another machine.
        let is_lost = match &created {
            Ok(_) => temp.symlink_metadata().is_err(),
            Err(OutputError::Io { source, .. }) => {
                matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::AlreadyExists)
            }
            Err(_) => false,
        };
        attempts += 1;
        if !is_lost || attempts == MAX_ATTEMPTS {
            return created.map(|file| (file, temp));
        }
    }
}

/// Creates the hidden sibling of a directory with its lock.
fn create_partial_folder(
    parent: &Path,
    name: &OsString,
) -> Result<(PathBuf, File, RemoveOnDrop), OutputError> {
    let temp = parent.join(partial_name(name));
    fs::create_dir(&temp).map_err(|e| OutputError::io("create", &temp, e))?;
    let guard = RemoveOnDrop(Some(temp.clone()));
    let lock = create_locked(&temp.join(LOCK))?;
    Ok((temp, lock, guard))
}

/// Whether a file is written to directly instead of being replaced: a pipe or a character device
/// such as a terminal.
#[cfg(unix)]
pub(crate) fn is_stream(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path)
        .map(|data| data.file_type())
        .is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_socket())
}

#[cfg(not(unix))]
pub(crate) fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Opens a pipe or a character device for writing. If nothing reads a pipe, this waits for a while:
/// the reader may start after the command.
#[cfg(unix)]
fn open_stream(path: &Path) -> io::Result<File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use std::os::unix::fs::FileTypeExt;
    let began = Instant::now();
    let file = loop {
        let opened = input::unwaiting(OpenOptions::new().write(true), true).open(path);
        let error = match opened {
            Ok(file) => break file,
            Err(error) => error,
        };
        if error.raw_os_error() != Some(rustix::io::Errno::NXIO.raw_os_error())
            || !fs::metadata(path)?.file_type().is_fifo()
        {
            return Err(error);
        }
        if began.elapsed() >= READER_WAIT {
            let reason = "nothing reads this pipe; start its reader first";
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        std::thread::sleep(READER_GLANCE);
    };
    // A reader that is slower than the writer is not an error.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(not(unix))]
fn open_stream(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// A directory being written. It is removed when dropped without [`Self::commit`].
#[derive(Debug)]
pub struct AtomicDir {
    target: PathBuf,
    temp: PathBuf,
    force: bool,
    left_bytes: Option<u64>,
    _lock: File,
    guard: RemoveOnDrop,
}

impl AtomicDir {
    /// Starts a directory for `target`. An existing target that may not be replaced is an error
    /// now, before any work, as in [`check_directory`].
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn create(target: &Path, force: bool) -> Result<Self, OutputError> {
        let (parent, name) = place(target)?;
        recover_replaced(&parent, &name, target);
        check_directory(target, force)?;
        remove_stale(&parent, &name);
        let (temp, lock, guard) = create_partial_folder(&parent, &name)?;
        let target = target.to_path_buf();
        Ok(Self { target, temp, force, left_bytes: None, _lock: lock, guard })
    }

    /// Limits the size of the directory to `bytes`; further writes fail as on a full disk.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.left_bytes = Some(bytes);
        self
    }

    /// Path of the directory before it is committed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.temp
    }

    /// Writes one file of the directory or of a subfolder: `content` gets a buffered writer.
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn write(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<u64, OutputError> {
        let shown = self.target.join(name);
        let failed = |e| OutputError::io("write", &shown, e);
        let path = self.temp.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = File::create_new(path).map_err(failed)?;
        let metered = Metered { file, written: 0, left: self.left_bytes };
        let mut writer = BufWriter::with_capacity(1 << 20, metered);
        content(&mut writer).map_err(failed)?;
        let metered = writer.into_inner().map_err(|e| failed(e.into_error()))?;
        metered.file.sync_all().map_err(failed)?;
        self.left_bytes = metered.left;
        Ok(metered.written)
    }

    /// Renames the directory into place.
    ///
    /// # Errors
    /// [`OutputError`]; the target is then unchanged.
    pub fn commit(self) -> Result<(), OutputError> {
        let Self { target, temp, force, guard, .. } = self;
        let (parent, name) = place(&target)?;
        fs::remove_file(temp.join(LOCK)).map_err(|e| OutputError::io("unlock", &temp, e))?;
        record::write(&temp).map_err(|e| OutputError::io("write", &target, e))?;
        sync_directory(&temp);
        // Checked again: the target may have been created meanwhile.
        check_directory(&target, force)?;
        let there = target.symlink_metadata().is_ok();
        let old = parent.join(replaced_name(&name));
        if there {
            fs::rename(&target, &old).map_err(|e| OutputError::io("replace", &target, e))?;
        }
        if let Err(error) = fs::rename(&temp, &target) {
            if there {
                fs::rename(&old, &target).map_err(|e| OutputError::io("restore", &target, e))?;
            }
            return Err(OutputError::io("rename to", &target, error));
        }
        guard.keep();
        sync_directory(&parent);
        if there {
            record::remove_ours(&old).map_err(|e| OutputError::io("remove", &old, e))?;
        }
        Ok(())
    }
}

/// Counts the bytes written to a file and enforces a size limit.
#[derive(Debug)]
struct Metered {
    file: File,
    written: u64,
    left: Option<u64>,
}

impl Write for Metered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left.is_some_and(|left| (bytes.len() as u64) > left) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the size limit is reached"));
        }
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        self.left = self.left.map(|left| left - count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Removes an unfinished file or directory on drop, unless cleared.
#[derive(Debug)]
struct RemoveOnDrop(Option<PathBuf>);

impl RemoveOnDrop {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // A failure cannot be handled here; the next write to the target retries.
            drop(remove(path));
        }
    }
}

/// Parent directory and name of a target, both checked.
fn place(path: &Path) -> Result<(PathBuf, OsString), OutputError> {
    let name = path.file_name().ok_or_else(|| OutputError::NoName { path: path.to_path_buf() })?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let reason = match fs::metadata(&parent) {
        Ok(data) if data.is_dir() => return Ok((parent, name.to_owned())),
        Ok(_) => "is not a directory",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist",
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => "lies under a regular file",
        Err(error) => return Err(OutputError::io("look at", &parent, error)),
    };
    Err(OutputError::NoParent { path: path.to_path_buf(), parent, reason })
}

fn hidden(name: &OsString, suffix: &str) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(suffix);
    hidden
}

fn partial_name(name: &OsString) -> OsString {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    hidden(name, &format!(".partial-{}-{n}", std::process::id()))
}

fn replaced_name(name: &OsString) -> OsString {
    hidden(name, ".replaced")
}

/// Creates a file and locks it for the lifetime of the handle. On a file system without locks, the
/// file is not protected.
fn create_locked(path: &Path) -> Result<File, OutputError> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| OutputError::io("create", path, e))?;
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => {
            let busy = io::Error::new(io::ErrorKind::WouldBlock, "another process has locked it");
            Err(OutputError::io("lock", path, busy))
        }
        Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(file),
    }
}

/// Removes partial outputs of killed processes for this target, as far as possible.
fn remove_stale(parent: &Path, name: &OsString) {
    let prefix = hidden(name, ".partial-");
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let number = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        if number.is_some_and(is_partial) {
            // A file that cannot be removed does no harm.
            drop(remove_partial(&path));
        }
    }
}

/// Removes a partial output unless its writer is alive; returns whether it did.
pub(crate) fn remove_partial(path: &Path) -> io::Result<bool> {
    let is_folder = path.symlink_metadata()?.is_dir();
    let lock = if is_folder { path.join(LOCK) } else { path.to_path_buf() };
    // Held while the output is removed, since its writer may be about to lock it.
    let held = regular::open(&lock).ok();
    let is_busy = |file: &File| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock));
    if held.as_ref().is_some_and(is_busy) {
        return Ok(false);
    }
    remove(path).map(|()| true)
}

/// Removes all partial outputs of this process that can be found: for an end without unwinding.
pub fn abandon() {
    for partial in partials() {
        let name = partial.file_name().unwrap_or_default().to_string_lossy();
        // Under another name first: what is published meanwhile is whole, or fails.
        let removed = partial.with_file_name(format!("{name}000000"));
        if fs::rename(&partial, &removed).is_ok() {
            // The end matters more than what it leaves.
            drop(remove(&removed));
        }
    }
}

/// Bytes of all partial outputs of this process, as far as the system tells them: while the number
/// changes, something is written.
#[must_use]
pub fn begun_bytes() -> u64 {
    let length = |path: &Path| fs::symlink_metadata(path).map_or(0, |data| data.len());
    let of = |path: PathBuf| match fs::read_dir(&path) {
        Ok(entries) => entries.flatten().map(|entry| length(&entry.path())).sum(),
        Err(_) => length(&path),
    };
    partials().into_iter().map(of).sum()
}

/// Paths of the partial outputs of this process, as far as the system tells them.
fn partials() -> Vec<PathBuf> {
    let own = format!(".partial-{}-", std::process::id());
    let partial = |entry: fs::DirEntry| {
        let path = fs::read_link(entry.path()).ok()?;
        // The file itself, or the lock in a folder.
        let partial = match path.file_name() {
            Some(name) if name == LOCK => path.parent()?.to_owned(),
            _ => path,
        };
        let name = partial.file_name()?.to_string_lossy().into_owned();
        let (_, number) = name.rsplit_once(&own)?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(partial)
    };
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    open.filter_map(partial).collect()
}

/// Whether a hidden name is that of a partial output of a file with this name.
pub(crate) fn is_partial_of(hidden_name: &str, name: &str) -> bool {
    let rest = hidden_name.strip_prefix('.').and_then(|rest| rest.strip_prefix(name));
    rest.and_then(|rest| rest.strip_prefix(".partial-"))
        .is_some_and(|end| is_partial(end.as_bytes()))
}

/// Whether a name suffix is that of a partial output: a process number and a write number.
fn is_partial(end: &[u8]) -> bool {
    let mut numbers = end.split(|&byte| byte == b'-');
    let mut is_number =
        || numbers.next().is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit));
    is_number() && is_number() && numbers.next().is_none()
}

/// Completes a replacement that was interrupted between its two renames: restores the old directory
/// or, if the new one is in place, removes it.
fn recover_replaced(parent: &Path, name: &OsString, target: &Path) {
    let old = parent.join(replaced_name(name));
    if old.symlink_metadata().is_err() {
        return;
    }
    let done = match target.symlink_metadata() {
        Ok(_) => record::remove_ours(&old),
        Err(_) if old.is_symlink() => return,
        Err(_) => fs::rename(&old, target),
    };
    // A failure is reported when the target is committed.
    drop(done);
}

fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Makes a rename durable where directories can be flushed; elsewhere this is left to the system.
fn sync_directory(path: &Path) {
    if let Ok(directory) = File::open(path) {
        drop(directory.sync_all());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        write(&path, b"one", Replace::Nothing).unwrap();
        write(&path, b"two", Replace::Ours(|_| true)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(dir.path()), ["result.json"]);
    }

    #[test]
    fn a_file_in_parts_appears_once_it_is_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let mut file = AtomicFile::create(&path, Replace::Ours(|_| true)).unwrap();
        file.write(b"one").unwrap();
        assert!(!path.exists());
        file.write(b"two").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"onetwo");
        let mut file = AtomicFile::create(&path, Replace::Ours(|_| true)).unwrap().limit(4);
        file.write(b"new").unwrap();
        let error = file.write(b"er").unwrap_err();
        assert!(matches!(error, OutputError::Full { .. }), "{error}");
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"onetwo");
        assert_eq!(names(dir.path()), ["rows"]);
    }

    #[test]
    fn a_file_can_be_read_back_by_its_name_before_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.ckpt");
        for text in ["first", "second"] {
            let mut file = AtomicFile::create_apart(&path, Replace::Ours(|_| true)).unwrap();
            file.write(text.as_bytes()).unwrap();
            let unfinished = file.path().unwrap().to_owned();
            assert_eq!(unfinished.file_name(), path.file_name());
            assert_eq!(fs::read(&unfinished).unwrap(), text.as_bytes());
            // Another writer takes it for no leftover.
            drop(AtomicFile::create(&path, Replace::Ours(|_| true)).unwrap());
            file.commit().unwrap();
            assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
            assert_eq!(names(dir.path()), ["model.ckpt"]);
        }
        drop(AtomicFile::create_apart(&path, Replace::Ours(|_| true)).unwrap());
        assert_eq!(names(dir.path()), ["model.ckpt"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_written_through_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (sender, receiver) = std::sync::mpsc::channel();
        let pipe = path.clone();
        // A reader that begins late, of more than a pipe holds.
        let reader = move || {
            std::thread::sleep(Duration::from_millis(100));
            sender.send(fs::read(pipe).unwrap())
        };
        std::thread::spawn(reader);
        let text = b"through".repeat(100_000);
        write(&path, &text, Replace::Nothing).unwrap();
        let read = receiver.recv_timeout(Duration::from_secs(60));
        assert!(read.expect("the reader ends") == text);
        assert_eq!(names(dir.path()), ["pipe"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_that_nothing_reads_keeps_nobody_waiting_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (sender, receiver) = std::sync::mpsc::channel();
        let pipe = path.clone();
        std::thread::spawn(move || sender.send(write(&pipe, b"unread", Replace::Nothing)));
        let ended = receiver.recv_timeout(6 * READER_WAIT).expect("it ends");
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("nothing reads this pipe"), "{error}");
    }

    #[test]
    fn a_directory_appears_at_commit_and_vanishes_without() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model");
        let mut folder = AtomicDir::create(&target, false).unwrap();
        assert_eq!(folder.write("a", |w| w.write_all(b"abc")).unwrap(), 3);
        assert!(!target.exists());
        drop(folder);
        assert!(names(dir.path()).is_empty());

        let mut folder = AtomicDir::create(&target, false).unwrap();
        folder.write("a", |w| w.write_all(b"abc")).unwrap();
        folder.commit().unwrap();
        assert_eq!(names(&target), [".linwright", "a"]);
        assert_eq!(names(dir.path()), ["model"]);
    }

    fn written(target: &Path, files: &[&str], force: bool) -> Result<(), OutputError> {
        let mut folder = AtomicDir::create(target, force)?;
        for file in files {
            folder.write(file, |w| w.write_all(b"written"))?;
        }
        folder.commit()
    }

    #[test]
    fn what_was_written_here_is_replaced_if_forced() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model");
        fs::create_dir(&target).unwrap();
        let error = written(&target, &["old"], false).unwrap_err();
        assert!(matches!(error, OutputError::Exists { .. }), "{error}");
        written(&target, &["old", "folder/old"], true).unwrap();
        let mut folder = AtomicDir::create(&target, true).unwrap();
        folder.write("new", |w| w.write_all(b"new")).unwrap();
        assert_eq!(names(&target), [".linwright", "folder", "old"]);
        folder.commit().unwrap();
        assert_eq!(names(&target), [".linwright", "new"]);
        assert_eq!(names(dir.path()), ["model"]);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_else_is_replaced_even_if_forced() {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("ours");
        written(&ours, &["config.json", "folder/part"], false).unwrap();
        let holding = |name: &str, file: &str| {
            let target = dir.path().join(name);
            written(&target, &["config.json", "folder/part"], false).unwrap();
            fs::create_dir_all(target.join(file).parent().unwrap()).unwrap();
            fs::write(target.join(file), "thesis").unwrap();
            target
        };
        let foreign = dir.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("config.json"), "{}").unwrap();
        let forged = dir.path().join("forged");
        fs::create_dir(&forged).unwrap();
        fs::write(record::path_in(&forged), "config.json\n").unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "thesis").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        let inner = dir.path().join("inner");
        written(&inner, &["config.json"], false).unwrap();
        fs::remove_file(inner.join("config.json")).unwrap();
        std::os::unix::fs::symlink(&file, inner.join("config.json")).unwrap();
        let emptied = holding("emptied", "own/note");
        fs::remove_file(emptied.join("own/note")).unwrap();
        for (target, reason) in [
            (holding("beside", "notes.txt"), "notes.txt"),
            (holding("below", "folder/notes.txt"), "folder/notes.txt"),
            (emptied, "holds own,"),
            (foreign, "was not written by linwright"),
            (forged, "was not written by linwright"),
            (file, "is not a directory"),
            (link, "is a link"),
            (inner, "holds config.json"),
            (PathBuf::from("/dev/null"), "is not a directory"),
        ] {
            let error = check_directory(&target, true).unwrap_err();
            assert!(matches!(error, OutputError::NotOurs { .. }), "{error}");
            assert!(error.to_string().contains(reason), "{reason}: {error}");
            assert!(AtomicDir::create(&target, true).is_err());
        }
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"thesis");
    }

    #[test]
    fn what_came_there_during_the_work_stays() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model");
        let folder = AtomicDir::create(&target, true).unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(target.join("notes.txt"), "thesis").unwrap();
        let error = folder.commit().unwrap_err();
        assert!(matches!(error, OutputError::NotOurs { .. }), "{error}");
        assert_eq!(names(&target), ["notes.txt"]);
        assert_eq!(names(dir.path()), ["model"]);
    }

    #[test]
    fn a_file_that_came_there_during_the_work_stays() {
        fn is_ours(path: &Path) -> bool {
            fs::read(path).is_ok_and(|found| found.starts_with(b"ours"))
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        for replace in [Replace::Nothing, Replace::Ours(is_ours)] {
            let mut file = AtomicFile::create(&path, replace).unwrap();
            file.write(b"ours").unwrap();
            fs::write(&path, "thesis").unwrap();
            let error = file.commit().unwrap_err();
            match replace {
                Replace::Nothing => assert!(matches!(error, OutputError::Exists { .. }), "{error}"),
                Replace::Ours(_) | Replace::State => {
                    assert!(matches!(error, OutputError::NotOurs { .. }), "{error}");
                }
            }
            assert_eq!(fs::read(&path).unwrap(), b"thesis");
            assert_eq!(names(dir.path()), ["result.json"]);
            fs::remove_file(&path).unwrap();
        }
        // Even one of ours stays, unless forced.
        let mut file = AtomicFile::create(&path, Replace::Nothing).unwrap();
        file.write(b"ours, second").unwrap();
        write(&path, b"ours, first", Replace::Nothing).unwrap();
        assert!(file.commit().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"ours, first");
        write(&path, b"ours, third", Replace::Ours(is_ours)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours, third");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_process_has_begun_can_be_abandoned() {
        // In a process of its own: other tests of this one write, too.
        const MARK: &str = "abandon-here";
        let folder = Path::new(".");
        if folder.join(MARK).exists() {
            let begun = [
                AtomicFile::create(&folder.join("a"), Replace::Nothing).unwrap(),
                AtomicFile::create_apart(&folder.join("b"), Replace::Nothing).unwrap(),
            ];
            let directory = AtomicDir::create(&folder.join("c"), false).unwrap();
            fs::write(directory.path().join("file"), "text").unwrap();
            write(&folder.join("done"), b"done", Replace::Nothing).unwrap();
            assert_eq!(names(folder).len(), 5);
            assert_eq!(begun_bytes(), 4);
            fs::write(directory.path().join("file"), "a longer text").unwrap();
            assert_eq!(begun_bytes(), 13);
            abandon();
            assert_eq!(begun_bytes(), 0);
            assert_eq!(names(folder), [MARK, "done"]);
            drop((begun, directory));
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(MARK), "").unwrap();
        let done = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "atomic::tests::what_a_process_has_begun_can_be_abandoned"])
            .current_dir(dir.path())
            .status();
        assert!(done.unwrap().success());
        assert_eq!(names(dir.path()), [MARK, "done"]);
    }

    #[cfg(unix)]
    #[test]
    fn leftovers_are_no_way_elsewhere_and_keep_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("thesis"), "thesis").unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let link = |name: &str, to: &Path| {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        };
        link(".out.partial-1-0", &elsewhere);
        link(".out.partial-1-1", &elsewhere.join("thesis"));
        link(".out.replaced", &elsewhere);
        let inner = folder.join(".out.partial-1-2");
        fs::create_dir(&inner).unwrap();
        for pipe in [inner.join(LOCK), folder.join(".out.partial-1-3")] {
            assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let target = folder.join("out");
        std::thread::spawn(move || sender.send(written(&target, &["a"], true)));
        let done = receiver.recv_timeout(std::time::Duration::from_secs(60));
        done.expect("does not wait for a pipe").unwrap();
        assert_eq!(names(&elsewhere), ["thesis"]);
        assert_eq!(fs::read(elsewhere.join("thesis")).unwrap(), b"thesis");
        assert!(!folder.join("out").is_symlink());
    }

    #[test]
    fn a_file_is_replaced_only_if_forced_and_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        check_file(&path, false, |_| false).unwrap();
        fs::write(&path, "{}").unwrap();
        let error = check_file(&path, false, |_| true).unwrap_err();
        assert!(matches!(error, OutputError::Exists { .. }), "{error}");
        let error = check_file(&path, true, |_| false).unwrap_err();
        assert!(matches!(error, OutputError::NotOurs { .. }), "{error}");
        check_file(&path, true, |_| true).unwrap();
        let error = check_file(dir.path(), true, |_| true).unwrap_err();
        assert!(matches!(error, OutputError::NotOurs { .. }), "{error}");
    }

    #[test]
    fn a_full_disk_is_told_apart_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model");
        let mut folder = AtomicDir::create(&target, false).unwrap().limit(10);
        folder.write("a", |w| w.write_all(&[0; 6])).unwrap();
        let error = folder.write("b", |w| w.write_all(&[0; 6])).unwrap_err();
        assert!(matches!(error, OutputError::Full { .. }), "{error}");
        assert!(error.to_string().contains("model/b"), "{error}");
        drop(folder);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn parents_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (target, reason) in [
            (file.join("out"), "is not a directory"),
            (file.join("sub/out"), "regular file"),
            (dir.path().join("none/out"), "does not exist"),
        ] {
            let error = AtomicDir::create(&target, false).unwrap_err();
            assert!(matches!(error, OutputError::NoParent { .. }), "{error}");
            assert!(error.to_string().contains(reason), "{error}");
            let error = write(&target, b"x", Replace::Nothing).unwrap_err();
            assert!(matches!(error, OutputError::NoParent { .. }), "{error}");
        }
        let error = write(Path::new(".."), b"", Replace::Nothing).unwrap_err();
        assert!(matches!(error, OutputError::NoName { .. }), "{error}");
    }

    #[test]
    fn leftovers_of_a_killed_run_are_cleaned_and_those_of_a_living_one_kept() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model");
        let stale = dir.path().join(".model.partial-1-0");
        fs::create_dir(&stale).unwrap();
        fs::write(stale.join(LOCK), "").unwrap();
        fs::write(dir.path().join(".model.partial-1-1"), "x").unwrap();
        let foreign = [".model.partial-copy", ".model.partial-1-1-2", ".model.partial-1-"];
        for name in foreign {
            fs::write(dir.path().join(name), "thesis").unwrap();
        }
        let living = AtomicDir::create(&target, false).unwrap();
        assert!(!stale.exists());
        assert!(foreign.iter().all(|name| dir.path().join(name).exists()));
        let second = AtomicDir::create(&target, false).unwrap();
        assert!(living.path().exists() && second.path().exists());
    }

    #[test]
    fn a_replacement_cut_in_the_middle_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model");
        fs::create_dir(dir.path().join(".model.replaced")).unwrap();
        let error = AtomicDir::create(&target, false).unwrap_err();
        assert!(matches!(error, OutputError::Exists { .. }), "{error}");
        assert_eq!(names(dir.path()), ["model"]);
    }
}
