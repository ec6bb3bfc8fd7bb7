//! Examples from files: texts of a language model, images of a small network.

use super::encoding::Encoding;
use super::subject::Subject;
use crate::jobs::kit::source::{OpenModel, POCKET, text_file};
use crate::jobs::kit::{Failure, Folded, Session, catalogue};
use crate::jobs::nets::images::ImageOptions;
use linwright_attribute::{AttributeError, Documents, Examples};
use linwright_data::Indices;
use linwright_data::{Corpus, DataError, Format};
use linwright_evaluate::Bos;
use linwright_nets::{Labelled, labelled};
use linwright_run::shown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How a file of examples is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExampleOptions {
    /// Field or column with the text [default: text].
    #[schemars(extend("x-value" = "NAME"))]
    pub text_field: Option<String>,
    /// Separator of texts in a plain text file [default: the end of a line].
    #[schemars(extend("x-value" = "TEXT"))]
    pub separator: Option<String>,
    /// Labels of images, idx or npy [default: the file beside one called ..images-idx3.., or in the
    /// images].
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub labels: Option<PathBuf>,
    /// Resize images to this height and width, such as `16x16`.
    #[schemars(extend("x-value" = "H,W", "examples" = ["8,8"]))]
    pub resize: Option<String>,
    /// Use these examples only: indices from zero such as `0-4999`.
    #[schemars(extend("x-value" = "LIST", "examples" = ["0-3"]))]
    pub examples: Option<String>,
}

impl Folded for ExampleOptions {
    const NAME: &'static str = "query_reading";
    const OPTION: &'static str = "reading";
    const HELP: &'static str =
        "How the file of queries is read: `examples=0-99`, `labels=FILE,resize=8x8`.";
    const OWN: &'static [&'static str] = &["text_field"];

    catalogue!(ExampleOptions);
}

/// How examples become tokens, and what they are for.
#[derive(Clone, Copy, Debug)]
pub(in crate::jobs) struct Reading {
    /// Whether texts start with the beginning-of-sequence token.
    pub(in crate::jobs) bos: Bos,
    /// Texts are cut after this number of tokens, at most the positions of the model.
    pub(in crate::jobs) max_length: Option<usize>,
    /// Whether they are queries, which may be prompts with completions.
    pub(in crate::jobs) are_queries: bool,
}

/// Examples that were read.
pub(in crate::jobs) enum Data {
    /// Texts.
    Texts(Texts),
    /// Images.
    Images(Pictures),
}

/// Texts with their tokens.
pub(in crate::jobs) struct Texts {
    /// The tokens.
    pub(in crate::jobs) documents: Documents,
    /// The texts.
    pub(in crate::jobs) texts: Vec<String>,
    /// An id for each: from the file, or its index in the file.
    pub(in crate::jobs) ids: Vec<Value>,
    /// Number of texts that were cut.
    pub(in crate::jobs) cut: usize,
    /// The number of tokens after which they were cut.
    pub(in crate::jobs) longest: usize,
}

/// Images with their classes.
pub(in crate::jobs) struct Pictures {
    /// The images.
    pub(in crate::jobs) labelled: Labelled,
    /// The index of each in its file.
    pub(in crate::jobs) ids: Vec<Value>,
}

impl Data {
    /// Number of examples.
    pub(in crate::jobs) fn len(&self) -> usize {
        self.ids().len()
    }

    /// An id for each example.
    pub(in crate::jobs) fn ids(&self) -> &[Value] {
        match self {
            Self::Texts(texts) => &texts.ids,
            Self::Images(images) => &images.ids,
        }
    }

    /// The texts; none of images.
    pub(in crate::jobs) fn texts(&self) -> Option<&Texts> {
        match self {
            Self::Texts(texts) => Some(texts),
            Self::Images(_) => None,
        }
    }
}

impl ExampleOptions {
    /// Paths that are read in addition to the examples.
    pub(in crate::jobs) fn inputs(&self) -> impl Iterator<Item = PathBuf> {
        self.labels.clone().into_iter()
    }

    /// Checks what needs no file but its name.
    ///
    /// # Errors
    /// [`Failure`] for options that the file cannot have.
    pub(in crate::jobs) fn check(&self, file: &str) -> Result<(), Failure> {
        if self.separator.as_ref().is_some_and(String::is_empty) {
            return Err(Failure::usage("--reading: the separator is empty"));
        }
        if self.text_field.is_some() && is_plain(file, Path::new(file)) {
            let message = format!("--text-field: {} is plain text, without fields", shown(file));
            return Err(Failure::usage(message));
        }
        Ok(())
    }

    /// Reads examples of a model.
    ///
    /// # Errors
    /// [`Failure`] for files that cannot be read, indices without an example, and texts without a
    /// token to predict.
    pub(in crate::jobs) fn read(
        &self,
        file: &str,
        subject: &Subject,
        reading: Reading,
        session: &mut Session<'_>,
    ) -> Result<Data, Failure> {
        match subject {
            Subject::Text(model) => {
                if let Some(labels) = &self.labels {
                    let message = format!("--reading labels={}: texts have none", labels.display());
                    return Err(Failure::usage(message));
                }
                self.texts(file, model, reading, session).map(Data::Texts)
            }
            Subject::Net(net) => {
                let images = self.images(file)?;
                images.labelled.check(&net.net)?;
                Ok(Data::Images(images))
            }
        }
    }

    /// The chosen indices of `count` examples.
    fn chosen(&self, count: usize) -> Result<Vec<usize>, Failure> {
        let Some(list) = &self.examples else { return Ok((0..count).collect()) };
        let wrong =
            |why: String| Failure::usage(format!("--reading examples={}: {why}", shown(list)));
        let indices = Indices::parse(list).map_err(|why| wrong(why.to_string()))?;
        if indices.last() >= count {
            let last = indices.last();
            return Err(wrong(format!("there is no example {last}: there are {count}, from zero")));
        }
        Ok((0..count).filter(|&index| indices.contains(index)).collect())
    }

    fn images(&self, file: &str) -> Result<Pictures, Failure> {
        let options = ImageOptions {
            images: PathBuf::from(file),
            labels: self.labels.clone(),
            examples: self.examples.clone(),
            resize: self.resize.clone(),
            ..ImageOptions::default()
        };
        let labelled = labelled(&options.read()?)?;
        let ids: Vec<Value> = match &self.examples {
            None => (0..labelled.len()).map(Value::from).collect(),
            Some(list) => {
                let indices =
                    Indices::parse(list).map_err(|why| Failure::usage(why.to_string()))?;
                let all = 0..=indices.last();
                all.filter(|&index| indices.contains(index)).map(Value::from).collect()
            }
        };
        Ok(Pictures { labelled, ids })
    }

    fn texts(
        &self,
        file: &str,
        model: &OpenModel,
        reading: Reading,
        session: &mut Session<'_>,
    ) -> Result<Texts, Failure> {
        let corpus = self.corpus(file, reading.are_queries, session)?;
        let chosen = self.chosen(corpus.documents.len())?;
        let positions = model.loaded.decoder.config().max_positions;
        let longest = reading.max_length.unwrap_or(positions).min(positions);
        let encoder = Encoding::of(model, reading, longest)?;
        let (mut all, mut texts, mut ids, mut cut) = (vec![], vec![], vec![], 0);
        let place =
            |index: usize| format!("{}, line {}", shown(file), corpus.documents[index].line);
        for &index in &chosen {
            let document = &corpus.documents[index];
            let encoded = encoder.encode(&document.text, document.given);
            let encoded =
                encoded.map_err(|e| Failure::general(format!("{}: {e}", place(index))))?;
            cut += usize::from(encoded.is_cut);
            all.push(encoded);
            texts.push(document.text.clone());
            ids.push(document.id.clone().unwrap_or_else(|| index.into()));
        }
        let documents = encoder.documents(all);
        let documents = documents.map_err(|error| match error {
            AttributeError::NoTarget { example } => Failure::general(format!(
                "{}: no token of the text is left to predict; it has too few, or was cut after {longest}",
                place(chosen[example])
            ))
            .hint(match reading.are_queries {
                // Queries are read as the store's examples were.
                true => "leave it out, or make the store again with a larger max_length of --reading",
                false => "leave it out, or give a larger max_length by --reading",
            }),
            other => other.into(),
        })?;
        debug_assert_eq!(documents.count(), ids.len(), "an id for each text");
        Ok(Texts { documents, texts, ids, cut, longest })
    }

    /// The texts of a file; each line of a plain one is a text.
    fn corpus(
        &self,
        file: &str,
        are_queries: bool,
        session: &mut Session<'_>,
    ) -> Result<Corpus, Failure> {
        let field = self.text_field.as_deref();
        let (path, field) = text_file(file, "calibration.jsonl", field, session)?;
        let corpus = match are_queries {
            true => Corpus::open_queries(&path, field)?,
            false => Corpus::open(&path, field)?,
        };
        if !is_plain(file, &path) {
            return Ok(corpus);
        }
        match &self.separator {
            Some(separator) => corpus.cut(Some(separator)).map_err(|error| match error {
                DataError::NoSeparator { .. } => Failure::usage(error.to_string()),
                error => error.into(),
            }),
            // One line has no end of a line.
            None if corpus.documents.iter().all(|one| !one.text.contains('\n')) => Ok(corpus),
            None => Ok(corpus.cut(Some("\n"))?),
        }
    }
}

/// Whether a text is plain. An unsupported format is reported when it is read.
fn is_plain(name: &str, path: &Path) -> bool {
    name != POCKET && Format::of(path) == Format::Text
}
