//! What can be wrong with the bytes of a GGUF file.

use linwright_run::shown;

/// What is wrong with the container: header, metadata, places of tensors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerFault {
    /// A file that ends within an item.
    #[error(
        "{place} at byte {at} takes {wanted} bytes, the file has {left} left; it is truncated or damaged, fetch it again"
    )]
    Truncated {
        /// What is being read.
        place: String,
        /// Where it starts.
        at: u64,
        /// Bytes that it needs, at least.
        wanted: u64,
        /// Bytes from there to the end of the file.
        left: u64,
    },
    /// Wrong magic bytes.
    #[error("the file starts with \"{found}\", expected \"GGUF\"; {advice}", found = shown(found))]
    Magic {
        /// The first bytes.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// An unsupported version.
    #[error("GGUF version {found}, expected 2 or 3; {advice}")]
    Version {
        /// The version.
        found: u32,
        /// What to do.
        advice: &'static str,
    },
    /// A text that is none.
    #[error("{place} at byte {at} is not valid UTF-8; the file is damaged")]
    NotText {
        /// What is being read.
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
        /// Where the type stands.
        at: u64,
        /// The type.
        found: u32,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("key {key} at byte {at} holds {found} as a truth value, expected 0 or 1", key = shown(key))]
    NotBool {
        /// The key.
        key: String,
        /// Where it stands.
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
        /// Where the array stands.
        at: u64,
        /// The bound.
        limit: usize,
    },
    /// Two keys or two tensors of one name.
    #[error("{what} {name} occurs twice, again at byte {at}; the file is damaged", name = shown(name))]
    Duplicate {
        /// Key or tensor.
        what: &'static str,
        /// The name.
        name: String,
        /// Where the second stands.
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
        /// Where the number stands.
        at: u64,
        /// The number.
        found: u32,
        /// The bound.
        limit: u32,
    },
    /// An unknown storage type.
    #[error(
        "tensor {name} at byte {at} has the unknown type {found}; the file is damaged, of a newer version, or uses a type that was taken out of the format", name = shown(name)
    )]
    UnknownTensorType {
        /// The tensor.
        name: String,
        /// Where the type stands.
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
        /// Numbers of a block.
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
        /// Its bytes.
        size: u64,
        /// Bytes of data in the file.
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
    /// A key of a wrong type or out of range.
    #[error("key {key} is {found}, expected {expected}", key = shown(key), found = shown(found))]
    Key {
        /// The key.
        key: String,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
}

impl ContainerFault {
    /// Name of the variant, and of the key where there is one.
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
