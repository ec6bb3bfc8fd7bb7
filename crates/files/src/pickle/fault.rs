//! Errors of pickles.

use crate::zip::ZipFault;
use linwright_run::shown;

/// An error in a file of `torch.save`. Positions are bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickleFault {
    /// An error of the zip archive.
    #[error(transparent)]
    Zip(#[from] ZipFault),
    /// An archive with a missing or an additional part.
    #[error("{what}; expected an archive or a file written by torch.save")]
    Layout {
        /// What is wrong.
        what: String,
    },
    /// A truncated pickle.
    #[error(
        "the pickle is truncated at byte {at}, in the middle of {within}; fetch the file again"
    )]
    Truncated {
        /// Offset where more bytes were expected.
        at: usize,
        /// The item that is truncated.
        within: &'static str,
    },
    /// A global that is not allowed.
    #[error(
        "byte {at} asks for {name}, so this file would run code when Python loads it; only plain tensors are read: load it where you trust it and save the state dict alone, best as safetensors", name = shown(name)
    )]
    Global {
        /// Offset of the instruction.
        at: usize,
        /// Module and name.
        name: String,
    },
    /// An instruction that is not allowed.
    #[error(
        "byte {at} is the instruction {opcode}, which {why}; only plain tensors are read: load it where you trust it and save the state dict alone, best as safetensors"
    )]
    Opcode {
        /// Offset of the instruction.
        at: usize,
        /// The name of the instruction, or its byte.
        opcode: String,
        /// Why it is not allowed.
        why: &'static str,
    },
    /// A call with wrong arguments, or of something that is not a function.
    #[error("the call at byte {at} {what}; this file was not written by torch.save, or is damaged")]
    Call {
        /// Offset of the call.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// An instruction without its operands.
    #[error("the instruction {opcode} at byte {at} {what}; the pickle is damaged")]
    Operands {
        /// Offset of the instruction.
        at: usize,
        /// The instruction.
        opcode: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// More items than any weight file has, or than the size of this one allows.
    #[error(
        "the pickle has more than {limit} {what} at byte {at}, more than any file of weights needs"
    )]
    Limit {
        /// Offset of the first item beyond the limit.
        at: usize,
        /// Kind of the items.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A malformed reference to a storage.
    #[error("the reference to a storage at byte {at} {what}; expected one written by torch.save")]
    Storage {
        /// Offset of the reference.
        at: usize,
        /// What is wrong.
        what: String,
    },
    /// A tensor that does not fit its storage.
    #[error("tensor {name} {what}", name = shown(name))]
    Tensor {
        /// The tensor.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// An object that is not a state dict.
    #[error(
        "the file holds {found}; expected a dict from names to tensors, by itself or under state_dict, model_state_dict, model or module"
    )]
    Root {
        /// What was found instead.
        found: &'static str,
    },
}
