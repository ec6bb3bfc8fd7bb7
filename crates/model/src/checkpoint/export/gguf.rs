//! The single-file form for llama.cpp.

use super::super::form::Form;
use super::super::gguf::{file_name, write_gguf};
use super::super::save::{SavedModel, WeightLayout};
use super::super::source::Source;
use super::card::{self, Sizes};
use super::{ExportError, ExportForm, ExportOptions};
use crate::transformer::Transformer;
use linwright_files::DirWriter;
use linwright_run::atomic::AtomicDir;
use linwright_tensor::dtype::DType;
use std::path::Path;

/// Model name inside the file if the model has none.
const UNNAMED: &str = "model";

/// Writes the directory: model file, licences, card, record and hashes. `warnings` receives
/// differences to the computation of llama.cpp.
pub(super) fn write(
    model: &Transformer,
    source: &Source,
    dtype: DType,
    warnings: &mut Vec<String>,
    options: &ExportOptions,
    out: &Path,
) -> Result<(SavedModel, Sizes), ExportError> {
    // Rejects nonlinear operators, naming the site.
    let parameters = WeightLayout::new(model, Form::Dense, dtype)?.parameters();
    let mut target = AtomicDir::create(out, options.force)?;
    if let Some(bytes) = options.max_bytes {
        target = target.limit(bytes);
    }
    let mut writer = DirWriter::new(target);
    let name = card::base_model(source, &options.card).unwrap_or_else(|| UNNAMED.into());
    let (gap, notes) = write_gguf(&mut writer, model, source, dtype, &name)?;
    warnings.extend(notes);
    let file = file_name(dtype);
    let bytes = writer.files.iter().find(|written| written.name == file).map_or(0, |f| f.bytes);
    // The size is that of the whole file, with the vocabulary.
    let sizes = Sizes { dense_bytes: bytes, ..Sizes::new(model, parameters, bytes, dtype) };
    for (name, bytes) in source.licences() {
        writer.text(name, bytes)?;
    }
    let form = ExportForm::Gguf;
    let card = card::of_model(model, source, form, &sizes, warnings, &options.card);
    writer.text("README.md", card.as_bytes())?;
    let record = card::reproduce(&options.reproduce, source, form.name(), dtype);
    writer.text("reproduce.json", &record)?;
    for (name, bytes) in &options.beside {
        writer.text(name, bytes)?;
    }
    writer.checksums()?;
    let files = writer.files.clone();
    writer.commit()?;
    Ok((SavedModel { dir: out.into(), files, parameters, dtype, gap }, sizes))
}
