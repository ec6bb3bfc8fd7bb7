//! The directory of a fit.

use super::result::FitResult;
use crate::jobs::kit::outcome::apart;
use crate::jobs::kit::saving::beside_new;
use crate::jobs::kit::{Failure, Session};
use crate::new_model::pretty;
use linwright_compress::fit::{FamilyFit, FamilyFits};
use linwright_files::writer::{Planned, header_bytes_with, write_values};
use linwright_files::{DirWriter, FileError};
use linwright_ops::archive::{Tensor, save};
use linwright_report::{Document, html, markdown};
use linwright_run::atomic::AtomicDir;
use linwright_tensor::dtype::{DType, index_bytes};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes errors, report and one file for each operator, whose metadata have its options.
pub(super) fn directory(
    path: &Path,
    force: bool,
    found: &FamilyFits,
    result: &FitResult,
    document: &Document,
    session: &Session<'_>,
) -> Result<(), Failure> {
    let target = AtomicDir::create(path, force).map_err(FileError::from)?;
    let mut writer = DirWriter::new(target);
    let what = format!("{} operators fitted to one target.", found.fits.len());
    let (result, measured) = apart(result)?;
    for (name, bytes) in beside_new(session, &what, &measured)? {
        writer.text(&name, &bytes)?;
    }
    writer.text("results.json", &pretty(&result))?;
    writer.text("report.md", markdown::render(document).as_bytes())?;
    writer.text("report.html", html::render(document)?.as_bytes())?;
    for (index, fit) in found.fits.iter().enumerate() {
        operator(&mut writer, index, fit)?;
    }
    writer.checksums()?;
    writer.commit()?;
    Ok(())
}

/// Writes an operator, in single precision.
fn operator(writer: &mut DirWriter, index: usize, fit: &FamilyFit) -> Result<(), Failure> {
    let (header, tensors) =
        save(&fit.fit.op).map_err(|error| Failure::general(error.to_string()))?;
    let planned: Vec<Planned> = tensors
        .iter()
        .map(|(name, tensor)| match tensor {
            Tensor::Values(shape, _) => Planned::values(name.clone(), DType::F32, shape.clone()),
            Tensor::Indices(values) => Planned::indices(name.clone(), values.len()),
        })
        .collect();
    let header = serde_json::to_string(&header)
        .map_err(|error| Failure::general(format!("an operator as JSON: {error}")))?;
    let metadata = BTreeMap::from([("operator".to_owned(), header)]);
    let name = format!("{index:02}-{}.safetensors", fit.kind().replace('_', "-"));
    writer.stream::<FileError>(&name, |out| {
        out.write_all(&header_bytes_with(&planned, &metadata))?;
        for (name, tensor) in &tensors {
            match tensor {
                Tensor::Values(_, values) => {
                    let narrow: Vec<f32> = values.iter().map(|value| *value as f32).collect();
                    write_values(out, name, DType::F32, &narrow)?;
                }
                Tensor::Indices(values) => out.write_all(index_bytes(values))?,
            }
        }
        Ok(())
    })?;
    Ok(())
}
