//! The container of GGUF files: header, metadata, tensors and how they are stored. Their meaning
//! for a model is handled elsewhere.

mod cursor;
mod fault;
mod header;
mod metadata;
mod parts;
mod stored;

pub use crate::header::GGUF_MAGIC as MAGIC;
pub use fault::ContainerFault;
pub use header::{ALIGNMENT, Header, StoredTensor, parse, wrong_type};
pub use metadata::{Kind, MetaArray, MetaValue, Metadata};
pub use parts::{GgufFile, one_split_model};
pub use stored::{GgufType, Numbers};
