//! Finds models and texts: by path, as `pocket` (built in), or by name on the hub.

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use linwright::files::hub::{self, Hooks, HubId, HubSettings};
use linwright::model::checkpoint::{LoadedModel, Precision, Sentence, load_as};
use linwright::model::tokenizer::Tokenizer;
use linwright::pocket::{Unpacked, unpack};
use linwright::run::Monitor;
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The name of the built-in model and its data.
pub(crate) const POCKET: &str = "pocket";

/// The files of the built-in model, from first use until the program ends. Global, since a
/// temporary folder must be removed at the end wherever the program stops.
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

/// Releases the built-in model; prints a note if it could not be cached for later runs.
pub(crate) fn leave_built_in() -> Option<String> {
    let unpacked = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    unpacked.why_not_kept().map(|why| {
        format!(
            "note: the built-in model was unpacked for this run alone: {why}; set XDG_CACHE_HOME to a folder \
             that can be written"
        )
    })
}

/// Location of a model, and its name in results.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its directory or file.
    pub(crate) path: PathBuf,
    /// The argument of the user; for a hub model `owner/name@commit`, which identifies its files
    /// for ever.
    pub(crate) name: String,
    /// `owner/name` of a hub model, for model cards.
    pub(crate) on_hub: Option<String>,
}

/// Finds a model. `pocket` is always the built-in model, and `./pocket` a directory; an existing
/// path is a path; otherwise `owner/name` is a hub model.
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
    console.step(&format!("finding {id}"));
    let settings = HubSettings::from_environment(variable)?;
    let shared = RefCell::new(&mut *console);
    let found = hub::find(
        id,
        &settings,
        &mut Hooks {
            step: &mut |name| shared.borrow_mut().step(name),
            progress: &mut |done, total| shared.borrow_mut().progress(done, total),
            cancelled: &interrupt::is_requested,
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

/// A model in memory, and where it is from.
pub(crate) struct OpenModel {
    pub(crate) loaded: LoadedModel,
    pub(crate) place: Place,
}

impl OpenModel {
    /// The tokenizer, to evaluate the model on text.
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer, Failure> {
        self.loaded.tokenizer.as_ref().ok_or_else(|| {
            Failure::general(format!("{} has no tokenizer.json", self.place.name))
                .hint("text can only be scored with the model's tokenizer")
        })
    }

    /// Pooling of a sentence encoder: that of its modules or, if it has none, the mean over all
    /// tokens, as in sentence-transformers. None if its modules are not supported.
    pub(crate) fn sentence(&self) -> Option<Sentence> {
        let has_modules = || self.place.path.join("modules.json").is_file();
        self.loaded.sentence.or_else(|| (!has_modules()).then_some(Sentence::MEAN))
    }
}

/// Loads a model in `f32`.
pub(crate) fn open_model(model: &str, console: &mut Console) -> Result<OpenModel, Failure> {
    open_model_as(model, Precision::F32, console)
}

/// As [`open_model`], with weights in another data type.
pub(crate) fn open_model_as(
    model: &str,
    precision: Precision,
    console: &mut Console,
) -> Result<OpenModel, Failure> {
    let place = find_model(model, console)?;
    console.step(&format!("loading {model}"));
    if model == POCKET && Path::new(model).exists() {
        console.note(
            "note: pocket is the built-in model; for the directory of this name give ./pocket",
        );
    }
    let loaded = load_as(&place.path, precision)?;
    console.detail(|| held(&loaded));
    for note in &loaded.notes {
        console.note(&format!("note: {note}"));
    }
    Ok(OpenModel { loaded, place })
}

/// One line about a model and its tokenizer.
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

/// The path of a text or question file; `pocket` is the built-in one of this name.
pub(crate) fn data_file(name: &str, built_in: &str) -> Result<PathBuf, Failure> {
    if name == POCKET {
        return Ok(built_in_folder()?.join(built_in));
    }
    Ok(PathBuf::from(name))
}

/// The path of a text as in [`data_file`], and the field with the text of a record: always `text`
/// in built-in files.
pub(crate) fn text_file<'a>(
    name: &str,
    built_in: &str,
    field: Option<&'a str>,
) -> Result<(PathBuf, Option<&'a str>), Failure> {
    Ok((data_file(name, built_in)?, field.filter(|_| name != POCKET)))
}

/// The user's cache directory by the XDG base directory specification; none if the environment
/// names no absolute directory.
pub(crate) fn cache_home() -> Option<PathBuf> {
    cache_home_of(&variable)
}

/// [`cache_home`] in a given environment.
pub(crate) fn cache_home_of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}

#[allow(clippy::disallowed_methods, reason = "the command line reads the environment")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
