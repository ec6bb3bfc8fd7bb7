//! Common parts of long commands: atomic files and directories, progress and cancellation, a store
//! of finished pieces, journals and run directories for resuming, and provenance.
//!
//! [`atomic`] writes outputs, [`input`] reads within size limits, [`state`] opens files that this
//! program keeps between runs, [`Monitor`] reports progress, [`Fingerprint`] identifies a run by
//! everything it depends on, [`Store`], [`RunDirectory`] and [`JournalFile`] keep finished work, a
//! [`Shard`] is one process's share of it, [`team`] joins processes that exchange messages,
//! [`Provenance`] is part of results, [`seal`] detects changed files. [`shown`] and related
//! functions make external text safe to print. This crate knows no numbers, layers or models.

pub mod atomic;
mod checked;
mod directory;
pub mod fingerprint;
pub mod input;
mod journal;
mod lock;
pub mod measured;
pub mod memory;
mod message;
mod monitor;
mod ordered;
pub mod place;
mod provenance;
mod regular;
pub mod seal;
mod shard;
pub mod spelling;
pub mod state;
pub mod store;
pub mod team;
pub mod undefined;

pub use checked::Checked;
pub use directory::{RunDirectory, RunError};
pub use fingerprint::{Fingerprint, Sha256Sum, sha256_hex, sha256_of_file, sha256_of_open};
pub use journal::{Damage, JournalError, JournalFile};
pub use measured::Measured;
pub use message::{is_plain, plain_lines, shown, shown_message, shown_reason};
pub use monitor::{Monitor, Part, Silent, StepTime, Stopped};
pub use ordered::Ordered;
pub use provenance::{DataSource, Provenance};
pub use shard::{Shard, ShardError};
pub use store::{PieceKey, Store, StoreError};
