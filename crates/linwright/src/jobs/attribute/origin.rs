//! Origin of a store, next to its manifest: the names by which model and examples are opened again.
//! The manifest identifies their contents.

use super::examples::{Data, ExampleOptions, Reading};
use super::subject::Subject;
use crate::jobs::kit::source::POCKET;
use crate::jobs::kit::{Failure, FailureKind, Session};
use linwright_attribute::{Examples, GradientStore};
use linwright_evaluate::Bos;
use linwright_run::{Checked, Monitor, shown_reason, state};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

const FILE: &str = "origin.json";
/// Longest file of ids, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// What a store was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::jobs) struct Origin {
    /// The model: a path from the store on, or a name.
    pub(in crate::jobs) model: String,
    /// The examples, in the same way.
    pub(in crate::jobs) train: String,
    /// How the file is read.
    pub(in crate::jobs) options: ExampleOptions,
    /// Whether texts start with the beginning-of-sequence token.
    pub(in crate::jobs) bos: Bos,
    /// Texts are cut after this number of tokens.
    pub(in crate::jobs) max_length: Option<usize>,
    /// Ids of the examples.
    pub(in crate::jobs) ids: Vec<Value>,
}

impl Origin {
    /// Writes it into a store.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written.
    pub(in crate::jobs) fn write(mut self, store: &Path) -> Result<(), Failure> {
        for name in [&mut self.model, &mut self.train] {
            *name = from_store(name, store);
        }
        let labels = self.options.labels.as_ref();
        let labels = labels.map(|path| PathBuf::from(from_store(&path.to_string_lossy(), store)));
        self.options.labels = labels;
        let text = Checked::of(&self)
            .and_then(|checked| serde_json::to_string(&checked))
            .map_err(|error| Failure::general(format!("cannot write {FILE}: {error}")))?;
        Ok(state::write(&store.join(FILE), format!("{text}\n").as_bytes())?)
    }

    /// Reads it from a store.
    fn read(store: &Path) -> Result<Self, Failure> {
        let path = store.join(FILE);
        let text = state::read_text(&path, MAX_BYTES).map_err(|error| {
            Failure::io(&path.display().to_string(), &error)
                .hint("run `linwright attribute cache` again: it writes the file")
        })?;
        let mut origin: Self = Checked::read(text.as_bytes()).map_err(|reason| {
            let reason = shown_reason(&reason);
            Failure::general(format!("{}: {reason}", path.display()))
                .hint("run `linwright attribute cache` again: it writes the file")
        })?;
        for name in [&mut origin.model, &mut origin.train] {
            *name = to_here(name, store);
        }
        let labels = origin.options.labels.as_ref();
        let labels = labels.map(|path| PathBuf::from(to_here(&path.to_string_lossy(), store)));
        origin.options.labels = labels;
        Ok(origin)
    }

    /// How its texts are read.
    pub(in crate::jobs) fn reading(&self, are_queries: bool) -> Reading {
        Reading { bos: self.bos, max_length: self.max_length, are_queries }
    }
}

/// An existing path as one from the store on; any other name as it is.
fn from_store(name: &str, store: &Path) -> String {
    let paths = (Path::new(name).canonicalize(), store.canonicalize());
    let (Ok(path), Ok(store), false) = (paths.0, paths.1, name == POCKET) else {
        return name.to_owned();
    };
    let shared = path.components().zip(store.components()).take_while(|(a, b)| a == b).count();
    // What has only the root in common is not moved together.
    if shared < 2 {
        return path.display().to_string();
    }
    let up = store.components().skip(shared).map(|_| Component::ParentDir);
    let relative: PathBuf = std::iter::once(Component::CurDir)
        .chain(up)
        .chain(path.components().skip(shared))
        .collect();
    relative.display().to_string()
}

/// The reverse of [`from_store`].
fn to_here(name: &str, store: &Path) -> String {
    match name.starts_with("./") {
        true => store.join(name).display().to_string(),
        false => name.to_owned(),
    }
}

/// A store with its model.
pub(in crate::jobs) struct Opened {
    pub(in crate::jobs) store: GradientStore,
    pub(in crate::jobs) origin: Origin,
    pub(in crate::jobs) subject: Subject,
}

impl Opened {
    /// Opens a store and what it was made from; `model` and `train` are where they are now, if they
    /// were moved.
    ///
    /// # Errors
    /// [`Failure`] if one cannot be opened, or the model is another one.
    pub(in crate::jobs) fn open(
        store: &Path,
        (model, train): (Option<&str>, Option<&str>),
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let (store, mut origin) = described(store)?;
        if let Some(model) = model {
            model.clone_into(&mut origin.model);
        }
        if let Some(train) = train {
            train.clone_into(&mut origin.train);
        }
        let subject = Subject::open(&origin.model, session)?;
        store.check_network(subject.hash()).map_err(|error| {
            Failure::from(error).hint("give the model that was cached with --model, or cache again")
        })?;
        Ok(Self { store, origin, subject })
    }

    /// The training examples.
    ///
    /// # Errors
    /// [`Failure`] if they cannot be read, or are others.
    pub(in crate::jobs) fn train(&self, session: &mut Session<'_>) -> Result<Data, Failure> {
        let Self { store, origin, subject } = self;
        session.step("reading the examples");
        let data = origin.options.read(&origin.train, subject, origin.reading(false), session);
        let data = data.map_err(|failure| match failure.kind() {
            FailureKind::General => failure.hint("give the file that was cached with --train"),
            _ => failure,
        })?;
        store.check_examples(&identity(&data)?)?;
        Ok(data)
    }
}

/// A store and what it was made from.
///
/// # Errors
/// [`Failure`] if one cannot be read.
pub(in crate::jobs) fn described(path: &Path) -> Result<(GradientStore, Origin), Failure> {
    let store = GradientStore::open(path)?;
    let origin = Origin::read(path)?;
    if origin.ids.len() != store.manifest().count {
        let (found, expected) = (origin.ids.len(), store.manifest().count);
        let file = path.join(FILE).display().to_string();
        return Err(Failure::general(format!("{file}: {found} ids, expected {expected}"))
            .hint("run `linwright attribute cache` again: it writes the file"));
    }
    Ok((store, origin))
}

/// What identifies examples.
pub(in crate::jobs) fn identity(data: &Data) -> Result<String, Failure> {
    Ok(match data {
        Data::Texts(texts) => texts.documents.identity(),
        Data::Images(images) => linwright_attribute::Classified::new(&images.labelled)?.identity(),
    })
}
