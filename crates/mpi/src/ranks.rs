//! The ranks of a program that `mpirun` or `srun` started.

use linwright_run::team::{Team, TeamError};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Source};
use std::fmt;

/// Largest part of a message: MPI counts in 32 bits.
const PART: usize = 1 << 30;

/// MPI cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiError {
    /// It was started already in this process.
    Started,
    /// It allows no other threads in a process.
    Threads,
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started => "MPI is at work already in this process",
            Self::Threads => "this MPI allows no threads beside its own",
        })
    }
}

impl std::error::Error for MpiError {}

/// All ranks, seen from one of them. MPI ends when it is dropped, which waits for all ranks.
pub struct Ranks {
    world: SimpleCommunicator,
    /// Dropped last.
    _universe: Universe,
}

impl Drop for Ranks {
    // MPI would wait for the others, and they for this rank.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort(101);
        }
    }
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.size())
    }
}

impl Ranks {
    /// Joins the ranks that were started together; a program started alone is the only one.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn join() -> Result<Self, MpiError> {
        let started = mpi::initialize_with_threading(Threading::Funneled);
        let (universe, threading) = started.ok_or(MpiError::Started)?;
        if threading < Threading::Funneled {
            return Err(MpiError::Threads);
        }
        Ok(Self { world: universe.world(), _universe: universe })
    }

    /// Name of the machine.
    ///
    /// # Errors
    /// If it is not text.
    pub fn host(&self) -> Result<String, std::string::FromUtf8Error> {
        mpi::environment::processor_name()
    }

    /// Ends all ranks at once, with this exit code.
    pub fn abort(&self, code: u8) -> ! {
        self.world.abort(i32::from(code))
    }
}

impl Team for Ranks {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    // MPI ends the program itself where another rank is gone.
    fn send(&self, to: usize, message: &[u8]) -> Result<(), TeamError> {
        let process = self.world.process_at_rank(to as i32);
        process.send(&(message.len() as u64));
        message.chunks(PART).for_each(|part| process.send(part));
        Ok(())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, TeamError> {
        let process = self.world.process_at_rank(from as i32);
        let (length, _) = process.receive::<u64>();
        let length = usize::try_from(length).map_err(|_| TeamError {
            rank: from,
            reason: format!("a message of {length} bytes is longer than this machine's memory"),
        })?;
        let mut message = vec![0; length];
        for part in message.chunks_mut(PART) {
            process.receive_into(part);
        }
        Ok(message)
    }
}
