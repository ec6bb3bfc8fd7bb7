//! Errors in the bytes of a GGUF file.

use linwright_run::shown;

/// An error in the container: header, metadata or tensor positions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerFault {
    /// A file that ends within an item.
    #[error(
        "{place} at byte {at} takes {wanted} bytes, the file has {left} left; it is truncated or damaged, fetch it again"
    )]
    Truncated {
        /// The item.
        place: String,
        /// Where it starts.
        at: u64,
        /// Bytes of the item, at least.
        wanted: u64,
        /// Bytes from there to the end of the file.
        left: u64,
    },
    /// Wrong magic bytes.
    #[error("the file starts with \"{found}\", expected \"GGUF\"; {advice}", found = shown(found))]
    Magic {
        /// The first bytes.
        found: String,
        /// Advice for the user.
        advice: &'static str,
    },
    /// An unsupported version.
    #[error("GGUF version {found}, expected 2 or 3; {advice}")]
    Version {
        /// The version.
        found: u32,
        /// Advice for the user.
        advice: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("{place} at byte {at} is not valid UTF-8; the file is damaged")]
    NotText {
        /// The item.
        place: String,
        /// Where it starts.
        at: u64,
    },
    /// An unknown metadata type.
    #[error(
        "key {key} at byte {at} has the unknown type {found}; the file is damaged or of a newer version", key = shown(key)
    )]
    UnknownValueType {
        /// The key.
        key: String,
        /// Position of the type.
        at: u64,
        /// The type.
        found: u32,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("key {key} at byte {at} has the boolean {found}, expected 0 or 1", key = shown(key))]
    NotBool {
        /// The key.
        key: String,
        /// Position of the value.
        at: u64,
        /// The byte.
        found: u8,
    },
    /// Arrays nested too deep.
    #[error(
        "key {key} at byte {at} nests arrays deeper than {limit}; no writer of the format does", key = shown(key)
    )]
    TooDeep {
        /// The key.
        key: String,
        /// Position of the array.
        at: u64,
        /// The bound.
        limit: usize,
    },
    /// Two keys or two tensors with the same name.
    #[error("{what} {name} occurs twice, again at byte {at}; the file is damaged", name = shown(name))]
    Duplicate {
        /// Key or tensor.
        what: &'static str,
        /// The name.
        name: String,
        /// Position of the second.
        at: u64,
    },
    /// An invalid alignment.
    #[error("general.alignment is {found}, expected a power of two up to {limit}")]
    Alignment {
        /// The value.
        found: u64,
        /// The bound.
        limit: u64,
    },
    /// A tensor with too many dimensions.
    #[error("tensor {name} at byte {at} has {found} dimensions, at most {limit} are allowed", name = shown(name))]
    Dimensions {
        /// The tensor.
        name: String,
        /// Position of the number of dimensions.
        at: u64,
        /// The number of dimensions.
        found: u32,
        /// The bound.
        limit: u32,
    },
    /// An unknown storage type.
    #[error(
        "tensor {name} at byte {at} has the unknown type {found}; the file is damaged, of a newer version, or uses a type removed from the format", name = shown(name)
    )]
    UnknownTensorType {
        /// The tensor.
        name: String,
        /// Position of the type.
        at: u64,
        /// The type.
        found: u32,
    },
    /// A shape whose size overflows.
    #[error("tensor {name} has the impossible shape {shape:?}", name = shown(name))]
    ShapeOverflow {
        /// The tensor.
        name: String,
        /// The shape, row-major.
        shape: Vec<u64>,
    },
    /// A row that is not a whole number of blocks.
    #[error(
        "tensor {name} has rows of {columns} numbers, {dtype} stores blocks of {block}; the file is damaged", name = shown(name)
    )]
    PartBlock {
        /// The tensor.
        name: String,
        /// Length of a row.
        columns: u64,
        /// The type.
        dtype: &'static str,
        /// Block size.
        block: usize,
    },
    /// An unaligned tensor.
    #[error(
        "tensor {name} starts at byte {offset} of the data, expected a multiple of {alignment}; the file is damaged", name = shown(name)
    )]
    Misaligned {
        /// The tensor.
        name: String,
        /// Its offset.
        offset: u64,
        /// The alignment.
        alignment: u64,
    },
    /// A tensor that ends beyond the file.
    #[error(
        "tensor {name} takes {size} bytes from byte {offset} of the data, which has {data}; the file is truncated, fetch it again", name = shown(name)
    )]
    BeyondFile {
        /// The tensor.
        name: String,
        /// Its offset.
        offset: u64,
        /// Its size in bytes.
        size: u64,
        /// Size of the data section in bytes.
        data: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensors {first} and {second} overlap at byte {at} of the data", first = shown(first), second = shown(second))]
    Overlap {
        /// The tensor that starts first.
        first: String,
        /// The other.
        second: String,
        /// Where the second starts.
        at: u64,
    },
    /// A missing part of a split model.
    #[error(
        "part {number} of {count} of the model is missing; put it beside {of}, or merge all parts with the gguf-split of llama.cpp", of = shown(of)
    )]
    MissingPart {
        /// Its number, from one.
        number: u64,
        /// Number of parts.
        count: u64,
        /// Name of the existing part.
        of: String,
    },
    /// A part of a split model whose name is not that of a part.
    #[error(
        "the file is part {number} of {count} of a model and is called \"{found}\"; expected a name such as {expected}, by which the other parts are found", found = shown(found)
    )]
    PartName {
        /// The name.
        found: String,
        /// Number of the part, from one.
        number: u64,
        /// Number of parts.
        count: u64,
        /// The form of names.
        expected: String,
    },
    /// A file that is not the expected part.
    #[error("the file is {found}, expected {expected}, to which {of} belongs", of = shown(of))]
    WrongPart {
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
        /// Name of the existing part.
        of: String,
    },
    /// A tensor in two parts.
    #[error("tensor {name} is also in part {first}; these are not parts of one model", name = shown(name))]
    TwoParts {
        /// The tensor.
        name: String,
        /// The other part, from one.
        first: u64,
    },
    /// Parts with too many or too few tensors.
    #[error(
        "the {count} parts of the model hold {found} tensors, expected {expected}; they are not parts of one model, or one is damaged"
    )]
    PartTensors {
        /// Number of parts.
        count: u64,
        /// Number of tensors.
        found: u64,
        /// By the files.
        expected: u64,
    },
    /// A key of a wrong type or out of range.
    #[error("key {key} is {found}, expected {expected}", key = shown(key), found = shown(found))]
    Key {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// The expected type or range.
        expected: &'static str,
    },
}

impl ContainerFault {
    /// Name of the variant, with the key for [`Self::Key`].
    #[must_use]
    pub fn kind(&self) -> String {
        let debug = format!("{self:?}");
        let variant = debug.split(' ').next().unwrap_or_default();
        match self {
            Self::Key { key, .. } => format!("{variant} {key}"),
            _ => variant.to_owned(),
        }
    }
}
