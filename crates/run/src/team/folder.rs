//! A team whose members share a folder, and nothing else.
//!
//! A message is a file. It stays until every member is past its piece of work, so that members may
//! start at any time, and one that died can send and receive the same messages again and continue.
//! A damaged one is moved aside and ends the job: when it is started again, its sender computes the
//! piece again.

use super::message::{Found, head, read, sealed};
use super::{Team, TeamError};
use crate::atomic::OutputError;
use crate::lock::{LockError, lock_directory};
use crate::{Fingerprint, Shard, shown, state};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two checks for a message: initially, and at most.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Largest size of the description of a job, and of the reason why a member failed, in bytes.
const TEXT_BYTES: u64 = 1 << 16;

const MESSAGES: &str = "messages";
const PIECES: &str = "pieces";
const FINISHED: &str = "finished";
const FAILED: &str = "failed";
const JOB: &str = "job";
const BEGAN: &str = "began";
/// Folder for the work of one member.
const RUN: &str = "run";
/// End of the name of a damaged message.
const DAMAGED: &str = ".damaged";

/// A member that cannot join.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder belongs to other work.
    #[error("{} holds shards of another job, or another number of shards", path.display())]
    Other {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds something else.
    #[error("{} holds {}, which does not belong to a shard", path.display(), shown(name))]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The name of an entry in it.
        name: String,
    },
    /// Another process is this member.
    #[error(
        "shard {shard} is already running{}",
        process.map_or_else(String::new, |process| format!(" (process {process})"))
    )]
    Busy {
        /// The member.
        shard: Shard,
        /// Number of the process, if known.
        process: Option<u32>,
    },
    /// The result of the first member was changed.
    #[error("{}: {reason}; remove it, and start the shards again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
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

/// State found by a process that joins.
#[derive(Debug)]
pub enum Joined<'a> {
    /// Work to do.
    Member(FolderTeam<'a>),
    /// The others have finished it; the result of the first one.
    Finished(Vec<u8>),
}

/// A member of a team that shares a folder.
pub struct FolderTeam<'a> {
    folder: PathBuf,
    pieces: PathBuf,
    job: Fingerprint,
    shard: Shard,
    /// Whether the user asked to stop.
    cancelled: &'a dyn Fn() -> bool,
    /// Failures of earlier attempts of all members, which do not end this attempt.
    old_failures: Vec<Option<String>>,
    said: RefCell<Said>,
    /// Locked while it is open.
    _lock: File,
}

/// A message before it is read or written.
struct Message {
    path: PathBuf,
    head: String,
    /// Whether its sender is past the piece of work of the message.
    passed: PathBuf,
}

/// Subjects and numbers of messages.
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
    /// identifies the work of all members; waiting members check `cancelled`.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn join(
        folder: &Path,
        shard: Shard,
        job: &Fingerprint,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Joined<'a>, FolderError> {
        match fs::create_dir(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(FolderError::io(folder, error));
            }
            _ => {}
        }
        let member = PathBuf::from(shard.index().to_string());
        check_folders(folder, &member)?;
        let lock = lock_directory(folder, &member).map_err(|error| match error {
            LockError::Busy { process } => FolderError::Busy { shard, process },
            LockError::Io { path, source } => FolderError::Io { path, source },
        })?;
        let place = folder.join(member);
        // Before the job is announced: the folder may belong to another job.
        let announcement = format!("{} {}\n", job.0, shard.count());
        check(folder, &announcement)?;
        state::write(&place.join(JOB), announcement.as_bytes())?;
        // A member that announced another job meanwhile sees this one, or is seen here.
        if let Err(error) = check(folder, &announcement) {
            // The error matters more than cleaning up.
            drop(fs::remove_file(place.join(JOB)));
            return Err(error);
        }
        if let Some(found) = found_in(folder, job, shard)? {
            clear(folder);
            return Ok(Joined::Finished(found));
        }
        let failure = |rank: usize| {
            let failed = state::inside(folder, Path::new(&rank.to_string()).join(FAILED)).ok()?;
            state::read_text(&failed, TEXT_BYTES).ok()
        };
        let old_failures = (0..shard.count()).map(failure).collect();
        let team = Self {
            folder: folder.to_owned(),
            pieces: folder.join(PIECES),
            job: job.clone(),
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

    /// Announces the end of the work and its result to all members, and removes messages and
    /// pieces.
    ///
    /// # Errors
    /// [`FolderError`] if the message cannot be written.
    pub fn finish(&self, found: &[u8]) -> Result<(), FolderError> {
        let head = head(&self.job, self.shard, FINISHED);
        state::write(&self.folder.join(FINISHED), &sealed(&head, found))?;
        clear(&self.folder);
        Ok(())
    }

    /// Removes the private files of this member, and any it may have left after the end.
    pub fn leave(&self) {
        if let Some(own) = self.own_folder() {
            // The work is done; leftovers do no harm.
            drop(fs::remove_dir_all(own));
        }
        if self.is_finished() {
            clear(&self.folder);
        }
    }

    /// Whether the first member has finished the work.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        state::exists(&self.folder.join(FINISHED))
    }

    /// The result of the first member, if it has finished the work.
    ///
    /// # Errors
    /// [`FolderError`] if it cannot be read.
    pub fn found(&self) -> Result<Option<Vec<u8>>, FolderError> {
        found_in(&self.folder, &self.job, self.shard)
    }

    /// Notes that the output did not exist when the work began; whether it was noted before.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn begins(&self, output_exists: bool) -> Result<bool, FolderError> {
        let path = self.folder.join(BEGAN);
        if state::exists(&path) || output_exists {
            return Ok(state::exists(&path));
        }
        state::write(&path, b"")?;
        Ok(false)
    }

    /// Reports to waiting members why this member ends. A member that has sent nothing yet may
    /// start again with another job, such as the same with corrected options.
    ///
    /// # Errors
    /// [`FolderError`] if the message cannot be written.
    pub fn fail(&self, why: &str) -> Result<(), FolderError> {
        let rank = self.shard.index();
        let process = std::process::id();
        let nanoseconds =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // Not the failure of another attempt, whose message may be the same.
        let text = format!("{process} {nanoseconds}\n{why}");
        state::write(&self.failed(rank), text.as_bytes())?;
        if !self.said.borrow().counts.keys().any(|(_, from, _)| *from == rank) {
            let job = self.folder.join(rank.to_string()).join(JOB);
            fs::remove_file(&job).map_err(|source| FolderError::io(&job, source))?;
        }
        Ok(())
    }

    fn failed(&self, rank: usize) -> PathBuf {
        self.folder.join(rank.to_string()).join(FAILED)
    }

    /// The reason why a member ended in this attempt, if it did.
    fn failure(&self, rank: usize) -> Option<String> {
        let text = state::read_text(&self.failed(rank), TEXT_BYTES).ok()?;
        if self.old_failures.get(rank).is_some_and(|old| old.as_ref() == Some(&text)) {
            return None;
        }
        Some(text.split_once('\n').map_or_else(|| text.clone(), |(_, why)| why.to_owned()))
    }

    fn about(&self, piece: &str) -> PathBuf {
        self.folder.join(MESSAGES).join(piece)
    }

    /// The next message about the current piece of work.
    fn next(&self, from: usize, to: &str) -> Message {
        let mut said = self.said.borrow_mut();
        let piece = said.piece.clone();
        let count = said.counts.entry((piece.clone(), from, to.to_owned())).or_default();
        let name = format!("{from}-{to}-{count}");
        *count += 1;
        let what = format!("{} {name}", if piece.is_empty() { "-" } else { &piece });
        let about = self.about(&piece);
        Message {
            path: about.join(name),
            head: head(&self.job, self.shard, &what),
            passed: passed(&about, from),
        }
    }

    /// Reads a message, if it exists; a damaged one is moved aside and named by the error.
    fn look(&self, message: &Message) -> Result<Option<Vec<u8>>, String> {
        let path = &message.path;
        let found = self.reached(path).and_then(|()| read(path, &message.head));
        match found.map_err(|error| format!("{}: {error}", path.display()))? {
            Found::Whole(message) => Ok(Some(message)),
            Found::Nothing => Ok(None),
            Found::Damaged(reason) => {
                let mut aside = path.as_os_str().to_owned();
                aside.push(DAMAGED);
                let done = match fs::rename(path, &aside) {
                    Ok(()) => format!("moved aside to *{DAMAGED}"),
                    Err(error) => format!("it cannot be moved aside ({error}), so remove it"),
                };
                Err(format!(
                    "its message {} is damaged: {reason}; {done}, start the shards again, and the \
                     piece is computed again",
                    path.display()
                ))
            }
        }
    }

    /// Checks that no folder in the path of a file is a link.
    fn reached(&self, path: &Path) -> io::Result<()> {
        let below = path.strip_prefix(&self.folder).unwrap_or(path);
        state::inside(&self.folder, below).map(drop)
    }

    /// Writes a message. After a restart it must be the same as before.
    fn say(&self, to: &Message, message: &[u8]) -> Result<(), TeamError> {
        let failed = |reason: String| TeamError { rank: self.rank(), reason };
        match self.look(to) {
            Ok(Some(before)) if before == message => return Ok(()),
            Ok(Some(_)) => {
                return Err(failed(format!(
                    "it said something else before it was started again: {} is of other work; \
                     remove it",
                    self.folder.display()
                )));
            }
            // This member sends it again.
            Ok(None) | Err(_) => {}
        }
        let folder = to.path.parent().and_then(|folder| folder.strip_prefix(&self.folder).ok());
        let made =
            folder.map_or(Ok(()), |folder| state::make_folder(&self.folder, folder).map(drop));
        made.map_err(|error| failed(format!("{}: {error}", to.path.display())))?;
        let written = state::write(&to.path, &sealed(&to.head, message));
        written.map_err(|error| failed(error.to_string()))
    }

    /// Waits for a message.
    fn hear(&self, message: &Message, from: usize) -> Result<Vec<u8>, TeamError> {
        let failed = |reason: String| TeamError { rank: from, reason };
        let mut pause = PAUSE;
        loop {
            // Before the message, which is written first.
            let is_past = is_file(&message.passed);
            if let Some(found) = self.look(message).map_err(failed)? {
                return Ok(found);
            }
            if (self.cancelled)() {
                return Err(failed("interrupted while waiting for it".to_owned()));
            }
            if self.is_finished() {
                return Err(failed("the job is finished".to_owned()));
            }
            if let Some(why) = self.failure(from) {
                return Err(failed(format!("it failed: {why}")));
            }
            if is_past {
                return Err(failed(format!(
                    "its message {} is missing, and it will not say it again; remove {} to start \
                     from nothing",
                    message.path.display(),
                    self.folder.display()
                )));
            }
            sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }
}

/// The file that marks a member as past a piece of work, in the folder of the piece.
fn passed(about: &Path, rank: usize) -> PathBuf {
    about.join(format!("passed-{rank}"))
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| data.is_file())
}

/// Rejects links in place of the folders of a team, and a folder with other files: messages would
/// be written and removed there.
fn check_folders(folder: &Path, member: &Path) -> Result<(), FolderError> {
    let name = folder.file_name().map_or_else(PathBuf::new, PathBuf::from);
    let parent = folder.parent().unwrap_or(Path::new(""));
    for below in [Path::new(MESSAGES), Path::new(PIECES), &member.join(RUN)] {
        // All folders in the path of a file are checked.
        let below = name.join(below).join(JOB);
        state::inside(parent, below).map_err(|source| FolderError::io(folder, source))?;
    }
    let entries = fs::read_dir(folder).map_err(|source| FolderError::io(folder, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| FolderError::io(folder, source))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Hidden names are those of partial files and of files created by the system.
        let is_ours = [MESSAGES, PIECES, FINISHED, BEGAN].contains(&&*name)
            || name.bytes().all(|byte| byte.is_ascii_digit())
            || name.starts_with('.');
        if !is_ours {
            return Err(FolderError::Foreign { path: folder.to_owned(), name });
        }
    }
    Ok(())
}

/// The result of the first member, if it has finished the work.
fn found_in(
    folder: &Path,
    job: &Fingerprint,
    shard: Shard,
) -> Result<Option<Vec<u8>>, FolderError> {
    let path = folder.join(FINISHED);
    match read(&path, &head(job, shard, FINISHED)) {
        Ok(Found::Whole(found)) => Ok(Some(found)),
        Ok(Found::Nothing) => Ok(None),
        Ok(Found::Damaged(reason)) => Err(FolderError::Damaged { path, reason }),
        Err(source) => Err(FolderError::io(&path, source)),
    }
}

/// Removes messages and pieces of finished work. Others may still write there; their leftovers do
/// no harm.
fn clear(folder: &Path) {
    for name in [MESSAGES, PIECES] {
        drop(fs::remove_dir_all(folder.join(name)));
    }
}

/// Checks that all members that announced their job have the same job.
fn check(folder: &Path, announcement: &str) -> Result<(), FolderError> {
    let entries = fs::read_dir(folder).map_err(|source| FolderError::io(folder, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| FolderError::io(folder, source))?;
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path().join(JOB);
        match state::read_text(&path, TEXT_BYTES) {
            Ok(other) if other != announcement => {
                return Err(FolderError::Other { path: folder.to_owned() });
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
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

    // One file for all, so that all receive it or none. A message sent before a restart remains
    // valid, since others may have read it; a new one could differ, for example in times.
    fn broadcast(&self, from: usize, message: Option<Vec<u8>>) -> Result<Vec<u8>, TeamError> {
        let to = self.next(from, "all");
        if from != self.rank() {
            return self.hear(&to, from);
        }
        if let Ok(Some(before)) = self.look(&to) {
            return Ok(before);
        }
        let message = message.unwrap_or_default();
        self.say(&to, &message).map(|()| message)
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
        if !state::exists(&folder) {
            // No messages exist for it, or all members are past it.
            return Ok(());
        }
        let marker = passed(&folder, self.rank());
        match self.reached(&marker).and_then(|()| state::edit(&marker)) {
            // Another member saw that all are past it.
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed(&marker, &error));
            }
            _ => {}
        }
        if (0..self.size()).all(|rank| is_file(&passed(&folder, rank))) {
            // Another member may remove it at the same time.
            drop(fs::remove_dir_all(&folder));
        }
        Ok(())
    }

    fn shared_store(&self) -> Option<&Path> {
        Some(&self.pieces)
    }

    fn own_folder(&self) -> Option<PathBuf> {
        Some(self.folder.join(self.rank().to_string()).join(RUN))
    }
}

#[cfg(test)]
mod tests;
