//! Files of a simulation, from which it can continue however the process ended.
//!
//! Frames and energies are appended to two files. The state records their lengths: anything
//! appended later is truncated when the simulation continues, and recomputed with the same bits, so
//! no frame is duplicated, lost or incomplete.

use super::{Dynamics, MdState, Thermo};
use crate::error::MoleculeError;
use crate::xyz::XyzWriter;
use linwright_files::FileError;
use linwright_run::atomic::OutputError;
use linwright_run::{Checked, Monitor, Sha256Sum, state};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Name of the file of frames, in extended XYZ.
pub const TRAJECTORY: &str = "trajectory.xyz";
/// Name of the file of energies, temperatures and pressures: a [`Thermo`] as JSON on each line.
pub const LOG: &str = "log.jsonl";
/// Name of the file with the state.
const STATE: &str = "state.json";
/// Seconds between two states on disk.
const INTERVAL: f64 = 1.0;
/// Largest state in bytes: some ten million atoms.
const STATE_BYTES: u64 = 1 << 31;
/// Longest line of the log.
const LINE_BYTES: u64 = 1 << 12;

/// A state with the lengths of both files at that time, and the SHA-256 of that part of each.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    state: MdState,
    trajectory_bytes: u64,
    trajectory_sha256: String,
    log_bytes: u64,
    log_sha256: String,
}

/// The files of a simulation in a directory that belongs to this process.
#[derive(Debug)]
pub struct Recording {
    directory: PathBuf,
    state: Option<MdState>,
    trajectory: Appended,
    log: Appended,
}

impl Recording {
    /// Opens the files in a directory, or creates them, and truncates them to the last state.
    ///
    /// # Errors
    /// A damaged state, a file that is shorter than recorded in its state or was changed, or an
    /// error of the operating system.
    pub fn open(directory: &Path) -> Result<Self, MoleculeError> {
        let path = directory.join(STATE);
        let saved: Option<Saved> = match state::read(&path, STATE_BYTES) {
            Ok(bytes) => Some(Checked::read(&bytes).map_err(|reason| damaged(&path, &reason))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileError::read(&path)(error).into()),
        };
        let known = saved.as_ref();
        let of_trajectory = known.map(|own| (own.trajectory_bytes, own.trajectory_sha256.as_str()));
        let of_log = known.map(|own| (own.log_bytes, own.log_sha256.as_str()));
        let trajectory = Appended::open(directory.join(TRAJECTORY), of_trajectory)?;
        let log = Appended::open(directory.join(LOG), of_log)?;
        let state = saved.map(|saved| saved.state);
        Ok(Self { directory: directory.to_owned(), state, trajectory, log })
    }

    /// The state to continue from.
    #[must_use]
    pub fn state(&self) -> Option<&MdState> {
        self.state.as_ref()
    }

    /// Adds the current step to both files.
    fn append(&mut self, simulation: &Dynamics<'_>) -> Result<(), MoleculeError> {
        let mut frame = XyzWriter::new(Vec::new());
        frame.frame(&simulation.frame())?;
        self.trajectory.append(&frame.into_inner())?;
        let line = serde_json::to_string(&simulation.thermo());
        let line = line.map_err(|error| damaged(&self.log.path, &error.to_string()))?;
        self.log.append(format!("{line}\n").as_bytes())
    }

    /// Saves the current step as the state to continue from.
    fn save(&mut self, simulation: &Dynamics<'_>) -> Result<(), MoleculeError> {
        let path = self.directory.join(STATE);
        self.trajectory.sync()?;
        self.log.sync()?;
        let saved = Saved {
            state: simulation.state(),
            trajectory_bytes: self.trajectory.bytes,
            trajectory_sha256: self.trajectory.sum.hex(),
            log_bytes: self.log.bytes,
            log_sha256: self.log.sum.hex(),
        };
        let text = Checked::of(&saved).and_then(|saved| serde_json::to_vec(&saved));
        let text = text.map_err(|error| damaged(&path, &error.to_string()))?;
        state::write(&path, &text).map_err(|error| MoleculeError::File(error.into()))?;
        self.state = Some(saved.state);
        Ok(())
    }

    /// Simulates up to a step, and records at a fixed interval from step zero on. If interrupted,
    /// it saves the state first.
    ///
    /// # Errors
    /// Errors of [`Dynamics::advance`], [`MoleculeError::Interrupted`], and of the operating
    /// system.
    pub fn run(
        &mut self,
        simulation: &mut Dynamics<'_>,
        [steps, every]: [u64; 2],
        monitor: &mut dyn Monitor,
    ) -> Result<(), MoleculeError> {
        if self.state.is_none() {
            self.append(simulation)?;
            self.save(simulation)?;
        }
        let mut saved = monitor.seconds();
        while simulation.step() < steps {
            if monitor.interrupted() {
                self.save(simulation)?;
                return Err(MoleculeError::Interrupted { step: simulation.step() });
            }
            simulation.advance()?;
            let step = simulation.step();
            if step.is_multiple_of(every) {
                self.append(simulation)?;
                if monitor.seconds() - saved > INTERVAL {
                    self.save(simulation)?;
                    saved = monitor.seconds();
                }
            }
            monitor.progress(step, steps);
        }
        self.save(simulation)
    }

    /// Calls `visit` with each line of the log, in order.
    ///
    /// # Errors
    /// An invalid line, or an error of the operating system.
    pub fn read_log(&self, mut visit: impl FnMut(Thermo)) -> Result<(), MoleculeError> {
        let path = &self.log.path;
        let file = state::open(path).map_err(FileError::read(path))?;
        let (mut reader, mut line) = (BufReader::new(file), Vec::new());
        loop {
            line.clear();
            let mut limited = (&mut reader).take(LINE_BYTES);
            limited.read_until(b'\n', &mut line).map_err(FileError::read(path))?;
            if line.is_empty() {
                return Ok(());
            }
            let thermo = serde_json::from_slice(&line);
            visit(thermo.map_err(|error| damaged(path, &error.to_string()))?);
        }
    }
}

/// A file that grows at its end.
#[derive(Debug)]
struct Appended {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Digest of all of its bytes.
    sum: Sha256Sum,
}

impl Appended {
    /// Opens a file and truncates it to a length with a known SHA-256, or to zero.
    fn open(path: PathBuf, known: Option<(u64, &str)>) -> Result<Self, MoleculeError> {
        let (bytes, expected) = known.unwrap_or((0, ""));
        let failed = |source| system("open", &path, source);
        let mut file = state::edit(&path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?.len();
        if found < bytes {
            let reason = format!("has {found} bytes, expected at least the {bytes} of the state");
            return Err(damaged(&path, &reason));
        }
        let sum = sum_of(&file, bytes).map_err(failed)?;
        if known.is_some() && sum.hex() != expected {
            return Err(damaged(&path, "its bytes do not have the digest in its state"));
        }
        file.set_len(bytes).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { path, file, bytes, sum })
    }

    /// Appends with one write, so that other readers see whole frames.
    fn append(&mut self, bytes: &[u8]) -> Result<(), MoleculeError> {
        self.file.write_all(bytes).map_err(|error| system("write", &self.path, error))?;
        self.bytes += bytes.len() as u64;
        self.sum.add(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), MoleculeError> {
        self.file.sync_data().map_err(|error| system("write", &self.path, error))
    }
}

/// Digest of the first bytes of a file.
fn sum_of(file: &File, bytes: u64) -> io::Result<Sha256Sum> {
    let (mut sum, mut reader) = (Sha256Sum::default(), BufReader::new(file).take(bytes));
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            return Ok(sum);
        }
        sum.add(part);
        let count = part.len();
        reader.consume(count);
    }
}

fn system(action: &'static str, path: &Path, source: io::Error) -> MoleculeError {
    MoleculeError::File(OutputError::io(action, path, source).into())
}

fn damaged(path: &Path, reason: &str) -> MoleculeError {
    MoleculeError::Recording { path: path.to_owned(), reason: linwright_run::shown_reason(reason) }
}
