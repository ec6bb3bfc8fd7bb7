//! Where models and texts come from: a path, `pocket` for what is built in, or a name on the hub.

use crate::args::one_of;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use clap::Args;
use linwright::files::hub::{self, Hooks, HubId, HubSettings};
use linwright::model::checkpoint::{LoadedModel, Precision, Sentence, load_as};
use linwright::pocket::{Unpacked, unpack};
use linwright::run::Monitor;
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The name of the built-in model and its data.
pub(crate) const POCKET: &str = "pocket";

/// The files of the built-in model, from their first use until the program ends: a folder for one
/// run must then go away, as a signal must be seen, wherever the program is.
static BUILT_IN: Mutex<Option<Unpacked>> = Mutex::new(None);

/// The folder of the built-in model.
pub(crate) fn built_in_folder() -> Result<PathBuf, Failure> {
    let mut built_in = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(unpacked) = &*built_in {
        return Ok(unpacked.path().to_owned());
    }
    let unpacked = unpack(cache_home().as_deref())?;
    Ok(built_in.insert(unpacked).path().to_owned())
}

/// Ends the use of the built-in model; says why it could not be kept for later runs, if so.
pub(crate) fn leave_built_in() -> Option<String> {
    let unpacked = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    unpacked.why_not_kept().map(|why| {
        format!(
            "note: the built-in model was unpacked for this run alone: {why}; set XDG_CACHE_HOME to a folder \
             that can be written"
        )
    })
}

/// Where a model is, and what a result calls it.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its directory, or its file.
    pub(crate) path: PathBuf,
    /// What the user gave; of a model of the hub `owner/name@commit`, which cannot come to mean
    /// another one.
    pub(crate) name: String,
    /// `owner/name` of a model of the hub, by which cards call it.
    pub(crate) on_hub: Option<String>,
}

/// Finds a model. `pocket` is always the built-in one, and `./pocket` a directory; a path that
/// exists is a path; then `owner/name` is a model of the hub.
pub(crate) fn find_model(model: &str, console: &mut Console) -> Result<Place, Failure> {
    let name = model.to_owned();
    if model == POCKET {
        console.detail(|| "pocket is the built-in model".into());
        return Ok(Place { path: built_in_folder()?, name, on_hub: None });
    }
    let path = PathBuf::from(model);
    if path.exists() {
        console.detail(|| format!("{model} is a path here"));
        return Ok(Place { path, name, on_hub: None });
    }
    match HubId::parse(model)? {
        Some(id) => from_hub(&id, console),
        None => Ok(Place { path, name, on_hub: None }),
    }
}

fn from_hub(id: &HubId, console: &mut Console) -> Result<Place, Failure> {
    console.stage(&format!("looking for {id}"));
    let settings = HubSettings::from_environment(variable)?;
    let shared = RefCell::new(&mut *console);
    let found = hub::find(
        id,
        &settings,
        &mut Hooks {
            stage: &mut |name| shared.borrow_mut().stage(name),
            progress: &mut |done, total| shared.borrow_mut().progress(done, total),
            cancelled: &interrupt::asked,
        },
    )?;
    for note in &found.notes {
        console.note(&format!("note: {note}"));
    }
    let name = found.id.to_string();
    let (offline, dir) = (settings.offline, found.dir.display());
    console.detail(|| format!("{name} is in {dir}, offline: {offline}"));
    if *id != found.id {
        console.note(&format!("note: {id} is {name}"));
    }
    Ok(Place { path: found.dir, name, on_hub: Some(found.id.repository()) })
}

/// In which type weights are held in memory.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PrecisionArgs {
    /// How weights are held in memory; `auto` as they are stored. Fewer bits than stored are
    /// rounded to; computation is in f32 whatever it is.
    #[arg(long, default_value = "auto", value_parser = one_of(&Precision::ALL, Precision::name))]
    pub(crate) dtype: Precision,
}

/// Loads a model in `f32`, telling of it.
pub(crate) fn open_model(
    model: &str,
    console: &mut Console,
) -> Result<(LoadedModel, Place), Failure> {
    open_model_as(model, Precision::F32, console)
}

/// As [`open_model`], with weights held in another type.
pub(crate) fn open_model_as(
    model: &str,
    precision: Precision,
    console: &mut Console,
) -> Result<(LoadedModel, Place), Failure> {
    let place = find_model(model, console)?;
    console.stage(&format!("loading {model}"));
    if model == POCKET && Path::new(model).exists() {
        console.note("note: pocket is the built-in model; for the directory here give ./pocket");
    }
    let loaded = load_as(&place.path, precision)?;
    console.detail(|| held(&loaded));
    for note in &loaded.notes {
        console.note(&format!("note: {note}"));
    }
    Ok((loaded, place))
}

/// What a model is and came with.
fn held(loaded: &LoadedModel) -> String {
    let config = loaded.decoder.config();
    let weights = match loaded.decoder.held_in_half() {
        None => "f32",
        Some((_, half)) => half.name(),
    };
    let tokenizer = match &loaded.tokenizer {
        None => "no tokenizer",
        Some(tokenizer) if tokenizer.has_chat() => "a tokenizer with a chat template",
        Some(_) => "a tokenizer without a chat template",
    };
    let (family, parameters) = (config.family.model_type, config.parameters());
    format!("{family}, {parameters} parameters held in {weights}, {tokenizer}")
}

/// How a model makes one vector of a text: as its modules say or, where it has none, by the mean
/// over all tokens, as sentence-transformers does. None where it has modules that are not
/// supported.
pub(crate) fn sentence_of(loaded: &LoadedModel, place: &Place) -> Option<Sentence> {
    let has_modules = || place.path.join("modules.json").is_file();
    loaded.sentence.or_else(|| (!has_modules()).then_some(Sentence::MEAN))
}

/// The path of a text or question file, or of the built-in one of this name.
pub(crate) fn data_file(name: &str, built_in: &str) -> Result<PathBuf, Failure> {
    if name == POCKET {
        return Ok(built_in_folder()?.join(built_in));
    }
    Ok(PathBuf::from(name))
}

/// The path of a text as [`data_file`] finds it, and the field that holds the text of a record:
/// what is built in calls it `text`, whatever the user's own files do.
pub(crate) fn text_file<'a>(
    name: &str,
    built_in: &str,
    field: Option<&'a str>,
) -> Result<(PathBuf, Option<&'a str>), Failure> {
    Ok((data_file(name, built_in)?, field.filter(|_| name != POCKET)))
}

/// Where programs keep what they can make again, by the XDG base directory specification; none if
/// the environment names no absolute directory.
pub(crate) fn cache_home() -> Option<PathBuf> {
    cache_home_of(&variable)
}

/// The same in another environment.
pub(crate) fn cache_home_of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}

#[allow(clippy::disallowed_methods, reason = "the command line reads the environment")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
