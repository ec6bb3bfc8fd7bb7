//! What can be wrong with a pickle.

use crate::zip::ZipFault;
use linwright_run::shown;

/// What can be wrong with a file of `torch.save`. Positions are bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickleFault {
    /// The archive around the pickle.
    #[error(transparent)]
    Zip(#[from] ZipFault),
    /// An archive that lacks a part, or has one too many.
    #[error("{what}; expected an archive or a file written by torch.save")]
    Layout {
        /// What is wrong.
        what: String,
    },
    /// The pickle ends in the middle.
    #[error(
        "the pickle is truncated at byte {at}, in the middle of {within}; fetch the file again"
    )]
    Truncated {
        /// Where more bytes were expected.
        at: usize,
        /// What is cut off.
        within: &'static str,
    },
    /// A name that no file of weights needs.
    #[error(
        "byte {at} asks for {name}, so this file would run code when Python loads it; only plain tensors are read: load it where you trust it and save the state dict alone, best as safetensors", name = shown(name)
    )]
    Global {
        /// Where.
        at: usize,
        /// Module and name.
        name: String,
    },
    /// An instruction that calls something or has no place in a file of weights.
    #[error(
        "byte {at} is the instruction {opcode}, which {why}; only plain tensors are read: load it where you trust it and save the state dict alone, best as safetensors"
    )]
    Opcode {
        /// Where.
        at: usize,
        /// The name of the instruction, or its byte.
        opcode: String,
        /// Why it is refused.
        why: &'static str,
    },
    /// A call of a known name with other arguments than it has, or of something that is no
    /// function.
    #[error("the call at byte {at} {what}; this file was not written by torch.save, or is damaged")]
    Call {
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// An instruction without the values that it works on.
    #[error("the instruction {opcode} at byte {at} {what}; the pickle is damaged")]
    Operands {
        /// Where.
        at: usize,
        /// The instruction.
        opcode: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// More of something than any file of weights has, or than the size of this one allows.
    #[error("the pickle has more than {limit} {what} at byte {at}; no file of weights has so many")]
    Limit {
        /// Where.
        at: usize,
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
    },
    /// A reference to a storage in a wrong form.
    #[error("the reference to a storage at byte {at} {what}; expected one written by torch.save")]
    Storage {
        /// Where.
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
    /// An object that is no state dict.
    #[error(
        "the file holds {found}; expected a dict from names to tensors, by itself or under state_dict, model_state_dict, model or module"
    )]
    Root {
        /// What there is instead.
        found: &'static str,
    },
}
