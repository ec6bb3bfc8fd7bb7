//! What every long command needs, whatever it computes: files and folders that are whole or absent,
//! progress and interruption, journals and run directories that a stopped run continues from, and
//! where a result comes from.
//!
//! [`atomic`] writes, [`input`] opens and reads with a bound, [`Monitor`] reports progress,
//! [`Fingerprint`] identifies a run by all that it depends on, [`RunDirectory`] and [`JournalFile`]
//! hold what is finished, [`Provenance`] goes into results. [`shown`] and its like make texts from
//! outside safe to print. No numbers, no layers, no models here.

pub mod atomic;
mod checked;
mod directory;
pub mod fingerprint;
pub mod input;
mod journal;
mod lock;
mod message;
mod monitor;
pub mod place;
mod provenance;
pub mod spelling;

pub use checked::Checked;
pub use directory::{RunDirectory, RunError};
pub use fingerprint::{Fingerprint, sha256_hex};
pub use journal::{JournalError, JournalFile};
pub use message::{is_plain, plain_lines, shown, shown_message, shown_reason};
pub use monitor::{Monitor, Silent, Stopped};
pub use provenance::{DataSource, Provenance};
