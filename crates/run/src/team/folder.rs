//! A team whose members share a folder, and nothing else.
//!
//! A message is a file. It stays until every member is past its piece of work, so that members may
//! start at any time, and one that died says the same again, hears the same again, and goes on.

use super::{Team, TeamError};
use crate::atomic::{OutputError, write_atomic};
use crate::lock::{LockError, lock_directory};
use crate::{Fingerprint, Shard, input};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two looks for a message: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Most bytes of a description of a job, and of why a member failed.
const TEXT_BYTES: u64 = 1 << 16;

const MESSAGES: &str = "messages";
const PIECES: &str = "pieces";
const FINISHED: &str = "finished";
const FAILED: &str = "failed";
const JOB: &str = "job";
const BEGAN: &str = "began";
/// Most bytes of a message: more than any machine's memory, so that it bounds nothing but nonsense.
const MESSAGE_BYTES: u64 = 1 << 44;

/// A member that cannot join.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder is that of other work.
    #[error("{} holds shards of another job, or another number of shards", path.display())]
    Other {
        /// The folder.
        path: PathBuf,
    },
    /// Another process is this member.
    #[error(
        "shard {shard} is at work already{}",
        process.map_or_else(String::new, |process| format!(" (process {process})"))
    )]
    Busy {
        /// The member.
        shard: Shard,
        /// Number of the process, if known.
        process: Option<u32>,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl FolderError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// What a process that joins finds.
#[derive(Debug)]
pub enum Joined<'a> {
    /// Work to do.
    Member(FolderTeam<'a>),
    /// The others have finished it, and what the first one found.
    Finished(Vec<u8>),
}

/// A member of a team that shares a folder.
pub struct FolderTeam<'a> {
    folder: PathBuf,
    pieces: PathBuf,
    shard: Shard,
    /// Whether the user asked to stop.
    cancelled: &'a dyn Fn() -> bool,
    /// Failures of earlier attempts of all members, which end nobody.
    old_failures: Vec<Option<String>>,
    said: RefCell<Said>,
    /// Locked while it is open.
    _lock: File,
}

/// What messages are about, and how many there were.
#[derive(Debug, Default)]
struct Said {
    piece: String,
    /// By piece of work, sender and receiver.
    counts: HashMap<(String, usize, String), u64>,
}

impl fmt::Debug for FolderTeam<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} in {}", self.shard, self.folder.display())
    }
}

impl<'a> FolderTeam<'a> {
    /// Joins the team of a folder, which is created if only its last part does not exist. `job`
    /// identifies what all members do; members that wait look at `cancelled`.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn join(
        folder: &Path,
        shard: Shard,
        job: &Fingerprint,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Joined<'a>, FolderError> {
        let place = folder.join(shard.index().to_string());
        for path in [folder, &place] {
            match fs::create_dir(path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(FolderError::io(path, error));
                }
                _ => {}
            }
        }
        let lock = lock_directory(&place).map_err(|error| match error {
            LockError::Busy { process } => FolderError::Busy { shard, process },
            LockError::Io { path, source } => FolderError::Io { path, source },
        })?;
        // Before the job is told: the folder may be another's.
        let told = format!("{} {}\n", job.0, shard.count());
        check(folder, &told)?;
        write_atomic(&place.join(JOB), told.as_bytes())?;
        // Whoever told another one meanwhile sees this one, or is seen here.
        if let Err(error) = check(folder, &told) {
            // The refusal matters more than what it leaves.
            drop(fs::remove_file(place.join(JOB)));
            return Err(error);
        }
        match input::read(&folder.join(FINISHED), MESSAGE_BYTES) {
            Ok(found) => {
                clear(folder);
                return Ok(Joined::Finished(found));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(FolderError::io(&folder.join(FINISHED), source)),
        }
        let failure = |rank: usize| {
            input::read_text(&folder.join(rank.to_string()).join(FAILED), TEXT_BYTES).ok()
        };
        let old_failures = (0..shard.count()).map(failure).collect();
        let team = Self {
            folder: folder.to_owned(),
            pieces: folder.join(PIECES),
            shard,
            cancelled,
            old_failures,
            said: RefCell::default(),
            _lock: lock,
        };
        let failed = team.failed(shard.index());
        match fs::remove_file(&failed) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(FolderError::io(&failed, source))
            }
            _ => Ok(Joined::Member(team)),
        }
    }

    /// Tells all members that the work is finished and what was found, and removes messages and
    /// pieces.
    ///
    /// # Errors
    /// [`FolderError`] if that cannot be told.
    pub fn finish(&self, found: &[u8]) -> Result<(), FolderError> {
        write_atomic(&self.folder.join(FINISHED), found)?;
        clear(&self.folder);
        Ok(())
    }

    /// Removes what this member kept for itself, and what it may have left after the end.
    pub fn leave(&self) {
        if let Some(own) = self.own_folder() {
            // The work is done; what is left of it does no harm.
            drop(fs::remove_dir_all(own));
        }
        if self.is_finished() {
            clear(&self.folder);
        }
    }

    /// Whether the first member has finished the work.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.folder.join(FINISHED).exists()
    }

    /// What the first member found, if it has finished the work.
    ///
    /// # Errors
    /// [`FolderError`] if it cannot be read.
    pub fn found(&self) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.folder.join(FINISHED);
        match input::read(&path, MESSAGE_BYTES) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FolderError::io(&path, source)),
        }
    }

    /// Notes that the output did not exist when the work began; whether it was noted before.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn begins(&self, output_exists: bool) -> Result<bool, FolderError> {
        let path = self.folder.join(BEGAN);
        if path.exists() || output_exists {
            return Ok(path.exists());
        }
        write_atomic(&path, b"")?;
        Ok(false)
    }

    /// Tells those that wait for this member why it ends. A member that has said nothing yet may
    /// come again with another job, such as the same with its options mended.
    ///
    /// # Errors
    /// [`FolderError`] if that cannot be told.
    pub fn fail(&self, why: &str) -> Result<(), FolderError> {
        let rank = self.shard.index();
        let process = std::process::id();
        let nanoseconds =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // Not the failure of another attempt, which may be told in the same words.
        let text = format!("{process} {nanoseconds}\n{why}");
        write_atomic(&self.failed(rank), text.as_bytes())?;
        if !self.said.borrow().counts.keys().any(|(_, from, _)| *from == rank) {
            let job = self.folder.join(rank.to_string()).join(JOB);
            fs::remove_file(&job).map_err(|source| FolderError::io(&job, source))?;
        }
        Ok(())
    }

    fn failed(&self, rank: usize) -> PathBuf {
        self.folder.join(rank.to_string()).join(FAILED)
    }

    /// Why a member ended in this attempt, if it did.
    fn failure(&self, rank: usize) -> Option<String> {
        let text = input::read_text(&self.failed(rank), TEXT_BYTES).ok()?;
        if self.old_failures.get(rank).is_some_and(|old| old.as_ref() == Some(&text)) {
            return None;
        }
        Some(text.split_once('\n').map_or_else(|| text.clone(), |(_, why)| why.to_owned()))
    }

    fn about(&self, piece: &str) -> PathBuf {
        self.folder.join(MESSAGES).join(piece)
    }

    /// The file of the next message about the present piece of work.
    fn next(&self, from: usize, to: &str) -> PathBuf {
        let mut said = self.said.borrow_mut();
        let piece = said.piece.clone();
        let count = said.counts.entry((piece.clone(), from, to.to_owned())).or_default();
        let name = format!("{from}-{to}-{count}");
        *count += 1;
        self.about(&piece).join(name)
    }

    /// Writes a message. After a restart it must be the same as before.
    fn say(&self, path: &Path, message: &[u8]) -> Result<(), TeamError> {
        let failed = |reason: String| TeamError { rank: self.rank(), reason };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .map_err(|error| failed(format!("{}: {error}", folder.display())))?;
        }
        match input::read(path, MESSAGE_BYTES) {
            Ok(before) if before == message => return Ok(()),
            Ok(_) => {
                return Err(failed(format!(
                    "it said something else before it was started again: {} is of other work; \
                     remove it",
                    self.folder.display()
                )));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(format!("{}: {error}", path.display()))),
        }
        write_atomic(path, message).map_err(|error| failed(error.to_string()))
    }

    /// Waits for a message.
    fn hear(&self, path: &Path, from: usize) -> Result<Vec<u8>, TeamError> {
        let failed = |reason: String| Err(TeamError { rank: from, reason });
        let mut pause = PAUSE;
        loop {
            match input::read(path, MESSAGE_BYTES) {
                Ok(message) => return Ok(message),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return failed(format!("{}: {error}", path.display())),
            }
            if (self.cancelled)() {
                return failed("interrupted while waiting for it".to_owned());
            }
            if self.is_finished() {
                return failed("the job is finished".to_owned());
            }
            if let Some(why) = self.failure(from) {
                return failed(format!("it failed: {why}"));
            }
            sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }
}

/// Removes messages and pieces of work that is finished. Others may still write there: what they
/// leave does no harm.
fn clear(folder: &Path) {
    for name in [MESSAGES, PIECES] {
        drop(fs::remove_dir_all(folder.join(name)));
    }
}

/// Checks that all members that told what they do, do the same.
fn check(folder: &Path, told: &str) -> Result<(), FolderError> {
    let entries = fs::read_dir(folder).map_err(|source| FolderError::io(folder, source))?;
    for entry in entries {
        let path = entry.map_err(|source| FolderError::io(folder, source))?.path().join(JOB);
        match input::read_text(&path, TEXT_BYTES) {
            Ok(other) if other != told => {
                return Err(FolderError::Other { path: folder.to_owned() });
            }
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(FolderError::io(&path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Team for FolderTeam<'_> {
    fn rank(&self) -> usize {
        self.shard.index()
    }

    fn size(&self) -> usize {
        self.shard.count()
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), TeamError> {
        self.say(&self.next(self.rank(), &to.to_string()), message)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, TeamError> {
        self.hear(&self.next(from, &self.rank().to_string()), from)
    }

    // One file for all, so that all hear it or none. What this member said before it was started
    // again stands, since others may have heard it: it may differ in times.
    fn broadcast(&self, from: usize, message: Option<Vec<u8>>) -> Result<Vec<u8>, TeamError> {
        let path = self.next(from, "all");
        if from != self.rank() {
            return self.hear(&path, from);
        }
        match input::read(&path, MESSAGE_BYTES) {
            Ok(before) => Ok(before),
            Err(_) => {
                let message = message.unwrap_or_default();
                self.say(&path, &message).map(|()| message)
            }
        }
    }

    fn begin(&self, piece: &Fingerprint) {
        self.said.borrow_mut().piece.clone_from(&piece.0);
    }

    fn end(&self, piece: &Fingerprint) -> Result<(), TeamError> {
        let failed = |path: &Path, error: &dyn fmt::Display| TeamError {
            rank: self.rank(),
            reason: format!("{}: {error}", path.display()),
        };
        let folder = self.about(&piece.0);
        let passed = |rank: usize| folder.join(format!("passed-{rank}"));
        if !folder.exists() {
            // Nobody has said anything about it, or all are past it.
            return Ok(());
        }
        let own = passed(self.rank());
        match fs::write(&own, b"") {
            // Another member saw that all are past it.
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&own, &error)),
            _ => {}
        }
        if (0..self.size()).all(|rank| passed(rank).exists()) {
            // Another member may remove it at the same time.
            drop(fs::remove_dir_all(&folder));
        }
        Ok(())
    }

    fn shared_store(&self) -> Option<&Path> {
        Some(&self.pieces)
    }

    fn own_folder(&self) -> Option<PathBuf> {
        Some(self.folder.join(self.rank().to_string()).join("run"))
    }
}

#[cfg(test)]
mod tests;
