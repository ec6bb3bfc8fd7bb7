//! Continuations of prompts.
//!
//! It is no job of recipes, since it writes no file; flags and keywords are made of its options all
//! the same.

mod result;

pub use self::result::{Continuation, Continuations, Finish};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{Failure, Job, Outcome, Session};
use crate::jobs::language::sampling::{SamplingOptions, Writer};
use linwright_evaluate::Bos;
use linwright_model::generate::Generated;
use linwright_report::ReportKind;
use linwright_run::{Monitor, input};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Largest prompt file, in bytes.
const PROMPT_BYTES: u64 = 1 << 26;

/// Continuations of prompts by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generate {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// The prompt; may be given more than once.
    #[schemars(extend("x-short" = "p", "x-whole" = true))]
    pub prompt: Vec<String>,
    /// A text file with one more prompt.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub prompt_file: Option<PathBuf>,
    /// Whether prompts start with the beginning-of-sequence token.
    #[schemars(with = "Names<Bos>")]
    pub bos: Bos,
    /// How tokens are drawn, and when a text ends.
    #[serde(flatten)]
    pub sampling: SamplingOptions,
}

impl Default for Generate {
    fn default() -> Self {
        Self {
            model: String::new(),
            prompt: Vec::new(),
            prompt_file: None,
            bos: Bos::Auto,
            sampling: SamplingOptions::default(),
        }
    }
}

/// A model and the prompts that it continues.
pub struct Prompted {
    /// The model.
    pub writer: Writer,
    /// The prompts.
    pub texts: Vec<String>,
    prompts: Vec<Vec<u32>>,
}

impl Generate {
    /// Reads the prompts and opens the model.
    ///
    /// # Errors
    /// [`Failure`] if there is no prompt, one is empty, or a file or the model cannot be read.
    pub fn open(&self, session: &mut Session<'_>) -> Result<Prompted, Failure> {
        let texts = self.texts()?;
        let writer = self.sampling.writer(&self.model, session)?;
        let encode = |text: &String| writer.tokenizer.encode_document(text, self.bos);
        let prompts: Vec<Vec<u32>> = texts.iter().map(encode).collect::<Result<_, _>>()?;
        if let Some(index) = prompts.iter().position(Vec::is_empty) {
            return Err(Failure::usage(format!(
                "prompt {} is empty, and the model has no beginning-of-sequence token; give some text",
                index + 1
            )));
        }
        Ok(Prompted { writer, texts, prompts })
    }

    fn texts(&self) -> Result<Vec<String>, Failure> {
        let mut texts = self.prompt.clone();
        if let Some(path) = &self.prompt_file {
            let text = input::read_text(path, PROMPT_BYTES);
            texts.push(text.map_err(|e| Failure::io(&path.display().to_string(), &e))?);
        }
        if texts.is_empty() {
            return Err(Failure::usage("there is no prompt").hint("give --prompt or --prompt-file"));
        }
        Ok(texts)
    }

    /// The result as data.
    #[must_use]
    pub fn result(&self, prompted: &Prompted, written: &[Generated]) -> Continuations {
        let texts = prompted.texts.iter().zip(written);
        Continuations {
            model: self.model.clone(),
            model_hash: prompted.writer.loaded.hash.clone(),
            seed: self.sampling.seed,
            protocol: prompted.writer.protocol(),
            results: texts.map(|(prompt, written)| Continuation::of(prompt, written)).collect(),
        }
    }
}

impl Prompted {
    /// Continues the prompts; `on_text` gets each piece with the index of its prompt, and says
    /// whether to go on.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn write(
        &self,
        on_text: &mut dyn FnMut(usize, &str) -> bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Generated>, Failure> {
        self.writer.write(&self.prompts, on_text, cancelled)
    }
}

impl Job for Generate {
    const VERB: &str = "generate";
    const ABOUT: &str = "Generate continuations of prompts, greedily unless the model or an option \
        says otherwise.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<Continuations>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(self.prompt_file.clone());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let prompted = self.open(session)?;
        session.step("generating");
        let written = prompted.write(&mut |_, _| true, session.cancelled())?;
        session.finish();
        Ok(Outcome::of(self.result(&prompted, &written)))
    }
}
