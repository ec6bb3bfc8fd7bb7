//! Finds models and texts: by path, as `pocket` (built in), or by name on the hub.

use super::{Failure, Session};
use linwright_files::hub::{self, HubId, HubSettings};
use linwright_model::checkpoint::{
    CheckpointError, LoadedModel, Precision, Sentence, load_as, load_offloaded,
};
use linwright_model::tokenizer::Tokenizer;
use linwright_nets::Net;
use linwright_run::Monitor;
use linwright_tensor::Shelf;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of the built-in model and its data.
pub const POCKET: &str = "pocket";

/// Location of a model, and its name in results.
#[derive(Debug)]
pub struct Place {
    /// Its directory or file.
    pub path: PathBuf,
    /// The argument of the user; for a hub model `owner/name@commit`, which identifies its files
    /// for ever.
    pub name: String,
    /// `owner/name` of a hub model, for model cards.
    pub on_hub: Option<String>,
}

/// Finds a model. `pocket` is always the built-in model, and `./pocket` a directory; an existing
/// path is a path; otherwise `owner/name` is a hub model.
pub fn find_model(model: &str, session: &mut Session<'_>) -> Result<Place, Failure> {
    // Results do not depend on the folder of the run.
    let name = session.portable(model);
    if model == POCKET {
        session.detail(|| "pocket is the built-in model".into());
        return Ok(Place { path: session.built_in_folder()?, name, on_hub: None });
    }
    let path = PathBuf::from(model);
    if path.exists() {
        session.detail(|| format!("{model} is a path here"));
        return Ok(Place { path, name, on_hub: None });
    }
    match HubId::parse(model)? {
        Some(id) => from_hub(&id, session),
        None => Ok(Place { path, name, on_hub: None }),
    }
}

fn from_hub(id: &HubId, session: &mut Session<'_>) -> Result<Place, Failure> {
    session.step(&format!("finding {id}"));
    let settings = HubSettings::from_environment(session.variables())?;
    let found = session.with_hub_hooks(|mut hooks| hub::find(id, &settings, &mut hooks))?;
    for note in &found.notes {
        session.note(&format!("note: {note}"));
    }
    let name = found.id.to_string();
    let (offline, dir) = (settings.offline, found.dir.display());
    session.detail(|| format!("{name} is in {dir}, offline: {offline}"));
    if *id != found.id {
        session.note(&format!("note: {id} is {name}"));
    }
    Ok(Place { path: found.dir, name, on_hub: Some(found.id.repository()) })
}

/// A model in memory, and where it is from.
pub struct OpenModel {
    /// The model.
    pub loaded: LoadedModel,
    /// Where it is from.
    pub place: Place,
}

impl OpenModel {
    /// The tokenizer, to evaluate the model on text.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Failure> {
        self.loaded.tokenizer.as_ref().ok_or_else(|| {
            Failure::general(format!("{} has no tokenizer.json", self.place.name))
                .hint("text can only be scored with the model's tokenizer")
        })
    }

    /// How one vector is made of a text; none if its modules are not supported, which a note said.
    pub fn sentence(&self) -> Option<&Sentence> {
        self.loaded.sentence.as_ref().ok()
    }
}

/// Loads a model in `f32`.
pub fn open_model(model: &str, session: &mut Session<'_>) -> Result<OpenModel, Failure> {
    open_model_as(model, Precision::F32, session)
}

/// As [`open_model`], with weights in another data type.
pub fn open_model_as(
    model: &str,
    precision: Precision,
    session: &mut Session<'_>,
) -> Result<OpenModel, Failure> {
    let place = find_model(model, session)?;
    open_with(model, place, session, |path| load_as(path, precision))
}

/// As [`open_model`], for a model that was found.
pub fn open_place(
    model: &str,
    place: Place,
    session: &mut Session<'_>,
) -> Result<OpenModel, Failure> {
    open_with(model, place, session, |path| load_as(path, Precision::F32))
}

/// As [`open_place`], with weights that stay in their files or go to the shelf.
pub fn open_offloaded(
    model: &str,
    place: Place,
    shelf: &Shelf,
    session: &mut Session<'_>,
) -> Result<OpenModel, Failure> {
    open_with(model, place, session, |path| load_offloaded(path, shelf))
}

fn open_with(
    model: &str,
    place: Place,
    session: &mut Session<'_>,
    load: impl FnOnce(&Path) -> Result<LoadedModel, CheckpointError>,
) -> Result<OpenModel, Failure> {
    session.step(&format!("loading {model}"));
    if model == POCKET && Path::new(model).exists() {
        session.note(
            "note: pocket is the built-in model; for the directory of this name give ./pocket",
        );
    }
    if Net::is_saved_at(&place.path) {
        return Err(Failure::usage(format!("{model} is a small network, no language model"))
            .hint("a recipe of images replaces its layers, eval-net scores it, inspect --slots lists them"));
    }
    let loaded = load(&place.path)?;
    session.detail(|| held(&loaded));
    for note in &loaded.notes {
        session.note(&format!("note: {note}"));
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
pub fn data_file(
    name: &str,
    built_in: &str,
    session: &mut Session<'_>,
) -> Result<PathBuf, Failure> {
    if name == POCKET {
        return Ok(session.built_in_folder()?.join(built_in));
    }
    Ok(PathBuf::from(name))
}

/// The path of a text as in [`data_file`], and the field with the text of a record: always `text`
/// in built-in files.
pub fn text_file<'a>(
    name: &str,
    built_in: &str,
    field: Option<&'a str>,
    session: &mut Session<'_>,
) -> Result<(PathBuf, Option<&'a str>), Failure> {
    Ok((data_file(name, built_in, session)?, field.filter(|_| name != POCKET)))
}

/// The user's cache directory by the XDG base directory specification; none if the environment
/// names no absolute directory.
#[must_use]
pub fn cache_home_of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}
