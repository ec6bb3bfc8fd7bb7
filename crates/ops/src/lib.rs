//! Structured linear operators with explicit gradients.
//!
//! A weight matrix `W` of shape (out, inp) maps rows, `Y = X Wᵀ`. An **operator** is a cheaper or
//! more interpretable form of such a map: low rank, with or without a diagonal, blocks with
//! Hadamard transforms or permutations, Kronecker products, butterflies, rotors of a Clifford
//! algebra, and sums and products of these. Every operator names its parameters, counts its
//! multiply-adds, computes forward and backward on row-major views, and can be rebuilt from its
//! [`OpSpec`] and an archive. Networks with a nonlinearity inside are [`Map`]s: the same, without
//! the laws of linear maps.
//!
//! A new operator is one file in `structured/` and one line of its list; the conformance suite, the
//! archive and the command line then include it. An operator of another crate works in slots and
//! with the suite too, but cannot be archived.

pub mod archive;
pub mod conformance;
mod error;
mod half_dense;
mod invertible;
mod kind_options;
mod loss;
mod network;
mod op;
mod params;
mod probe;
mod selection;
mod slot;
mod structured;
mod tape;

pub use error::OpError;
pub use half_dense::HalfDense;
pub use invertible::{Invertible, LogDet};
pub use kind_options::KindOptions;
pub use loss::{CrossEntropy, OutputLoss, SquaredError};
pub use network::{Differentiable, Examples, Network};
pub use op::{Backward, LinearOp, Map, Op, Shape, Structured};
pub use params::{Buffer, BufferMut, Grads, Param, ParamMut, parameter_count};
pub use probe::{ExampleRows, NoProbe, Probe, Seen, SeenGradient};
pub use selection::{NameFilter, NoGroup, PatternError, RoleGroup, SlotSet, SlotSetError};
pub use slot::{InputId, LinearSlot, Place, SiteId, Sites, SlotRole};
pub use structured::*;
pub use tape::{Tape, Workspace};
