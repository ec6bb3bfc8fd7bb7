//! Where models and texts come from: a path, or `pocket` for what is built in.

use crate::args::one_of;
use crate::console::Console;
use crate::failure::Failure;
use clap::Args;
use linwright::compress::Monitor;
use linwright::model::checkpoint::{LoadedModel, Precision, load_as};
use linwright::pocket;
use std::path::{Path, PathBuf};

/// The name of the built-in model and its data.
pub(crate) const POCKET: &str = "pocket";

/// The directory of a model. `pocket` is always the built-in one; `./pocket` is a directory.
pub(crate) fn model_dir(model: &str) -> Result<PathBuf, Failure> {
    if model == POCKET {
        return pocket::directory().map_err(Failure::from);
    }
    Ok(PathBuf::from(model))
}

/// In which type weights are held in memory.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PrecisionArgs {
    /// How weights are held in memory; `auto` as they are stored. Fewer bits than stored are rounded
    /// to; computation is in f32 whatever it is.
    #[arg(long, default_value = "auto", value_parser = one_of(&Precision::ALL, Precision::name))]
    pub(crate) dtype: Precision,
}

/// Loads a model in `f32`, telling of it.
pub(crate) fn open_model(model: &str, console: &mut Console) -> Result<LoadedModel, Failure> {
    open_model_as(model, Precision::F32, console)
}

/// As [`open_model`], with weights held in another type.
pub(crate) fn open_model_as(
    model: &str,
    precision: Precision,
    console: &mut Console,
) -> Result<LoadedModel, Failure> {
    console.stage(&format!("loading {model}"));
    if model == POCKET && Path::new(model).exists() {
        console.note("note: pocket is the built-in model; for the directory here give ./pocket");
    }
    let loaded = load_as(&model_dir(model)?, precision)?;
    for note in &loaded.notes {
        console.note(&format!("note: {note}"));
    }
    Ok(loaded)
}

/// The path of a text or question file, or of the built-in one of this name.
pub(crate) fn data_file(name: &str, built_in: &str) -> Result<PathBuf, Failure> {
    if name == POCKET {
        return Ok(pocket::directory().map_err(Failure::from)?.join(built_in));
    }
    Ok(PathBuf::from(name))
}

/// Where programs keep what they can make again, by the XDG base directory specification; none if
/// the environment names no absolute directory.
#[allow(clippy::disallowed_methods, reason = "the command line reads the environment")]
pub(crate) fn cache_home() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}
