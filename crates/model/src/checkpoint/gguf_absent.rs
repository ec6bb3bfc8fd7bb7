//! Stubs for a build without the feature `gguf`: errors that name the feature.

pub use super::gguf_fault::{GgufFault, NoGguf};

use super::error::CheckpointError;
use super::loaded::LoadedModel;
use super::precision::Precision;
use super::source::Source;
use super::verify::Gap;
use crate::config::TransformerConfig;
use crate::transformer::Transformer;
use linwright_files::DirWriter;
use linwright_tensor::dtype::DType;
use std::path::Path;

pub(super) fn load(path: &Path, _: Precision) -> Result<LoadedModel, CheckpointError> {
    Err(CheckpointError::Gguf { path: path.into(), fault: GgufFault::NotBuilt })
}

pub(super) fn configuration(path: &Path) -> Result<TransformerConfig, CheckpointError> {
    Err(CheckpointError::Gguf { path: path.into(), fault: GgufFault::NotBuilt })
}

pub(super) fn file_name(_: DType) -> String {
    "model.gguf".into()
}

pub(super) fn write_gguf(
    _: &mut DirWriter,
    _: &Transformer,
    _: &Source,
    _: DType,
    _: &str,
) -> Result<(Gap, Vec<String>), CheckpointError> {
    Err(CheckpointError::NoGguf(NoGguf::NotBuilt))
}
