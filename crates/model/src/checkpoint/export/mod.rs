//! Models for other runtimes.
//!
//! | form | content | for |
//! | --- | --- | --- |
//! | `dense` | ordinary weights | every runtime; not smaller |
//! | `width` | ordinary weights and a configuration of the new widths | every runtime; smaller |
//! | `blocks` | the same with widths layer by layer (`block_configs`) | runtimes that know DeciLM |
//! | `factored` | operators by their parameters, and a Python file | transformers |
//! | `native` | operators by their parameters | Linwright; others reject it |
//! | `gguf` | one file of ordinary weights with configuration and tokenizer | llama.cpp |
//! | `lora` | the difference from a base, see [`lora`] | PEFT and other readers of its adapters |
//!
//! Every export is loaded back and compared before it gets its name, and comes with a card
//! (`README.md`), `reproduce.json` and `SHA256SUMS`. The bytes do not depend on location or time.
//!
//! The formats of other runtimes follow their public documentation and sources. transformers and
//! PEFT are tested (`tools/parity/export.py`), and so is llama.cpp (`tools/parity/llama_cpp.py`).
//!
//! Every form is a directory, as on the hub. The form `gguf` has a single file for llama.cpp,
//! `model-F16.gguf` or with another type, without a second copy of the tokenizer.

pub mod card;
mod error;
pub mod factored;
mod gguf;
pub mod lora;
mod sizes;
mod widths;

pub use card::{Card, Sizes, loads_in};
pub use error::ExportError;
pub use widths::{BLOCKS_FILE, BLOCKS_MODELLING, layers_may_differ};

use super::form::Form;
use super::save::{self, SHARD_BYTES, SaveOptions, SavedModel, WeightLayout};
use super::source::Source;
use crate::families::BLOCKS;
use crate::transformer::Transformer;
use linwright_ops::{LinearSlot, Network, Op, OpSpec, Sites};
use linwright_tensor::dtype::DType;
use serde_json::{Map, Value};
use std::path::Path;

/// The forms of a whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportForm {
    /// Ordinary weights.
    Dense,
    /// Operator parameters, with a Python file for transformers.
    Factored,
    /// Ordinary weights of a model that is narrower than its source, equally in all layers.
    Width,
    /// Ordinary weights of a model with layer-wise widths.
    Blocks,
    /// Operator parameters.
    Native,
    /// Ordinary weights, configuration and tokenizer in one file.
    Gguf,
}

impl ExportForm {
    /// All forms.
    pub const ALL: [Self; 6] =
        [Self::Dense, Self::Factored, Self::Width, Self::Blocks, Self::Native, Self::Gguf];

    /// Name of the form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Factored => "factored",
            Self::Width => "width",
            Self::Blocks => "blocks",
            Self::Native => "native",
            Self::Gguf => "gguf",
        }
    }

    /// Whether operators become ordinary weights, so that they must be linear.
    #[must_use]
    pub fn is_dense(self) -> bool {
        self.saved_as() == Form::Dense
    }

    /// The corresponding form of [`save::save`], which does not write the last one.
    fn saved_as(self) -> Form {
        match self {
            Self::Dense | Self::Width | Self::Blocks | Self::Gguf => Form::Dense,
            Self::Factored => Form::Factored,
            Self::Native => Form::Native,
        }
    }
}

/// Options of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The form; [`choose`] picks one if absent.
    pub form: Option<ExportForm>,
    /// Storage type of the weights; that of the source if absent.
    pub dtype: Option<DType>,
    /// Whether an existing output is replaced.
    pub force: bool,
    /// Largest weight file, in bytes, unless a single tensor is larger.
    pub shard_bytes: u64,
    /// Largest size of the whole directory, in bytes; beyond it the export fails as on a full disk.
    pub max_bytes: Option<u64>,
    /// Card content that is not derived from the model.
    pub card: Card,
    /// Provenance: command line, inputs and their hashes. Form and version are added.
    pub reproduce: Map<String, Value>,
    /// Further files, such as the job as a recipe and measurements: name and content.
    pub beside: Vec<(String, Vec<u8>)>,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            form: None,
            dtype: None,
            force: false,
            shard_bytes: SHARD_BYTES,
            max_bytes: None,
            card: Card::default(),
            reproduce: Map::new(),
            beside: Vec::new(),
        }
    }
}

/// A form and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The form.
    pub form: ExportForm,
    /// The reason, in one line.
    pub reason: String,
}

/// An export that was loaded back and found equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// The form and the reason for it.
    pub choice: Choice,
    /// The written files.
    pub saved: SavedModel,
    /// Sizes of the model.
    pub sizes: Sizes,
    /// Notes for the reader: sites or a model that are not smaller than dense, operators that
    /// became dense weights, and differences to the computation of the other runtime.
    pub warnings: Vec<String>,
}

/// Chooses the form that loads in most runtimes without being larger than necessary.
#[must_use]
pub fn choose(model: &Transformer, source: &Source) -> Choice {
    let choice = |form, reason: String| Choice { form, reason };
    let config = model.config();
    let unchanged = describes(source, model);
    let common = unchanged || widths::plain(model, source).is_ok();
    if let Some(choice) = choose_operators(model, common) {
        return choice;
    }
    if widths::common(config).is_some() {
        return if unchanged && config.family != BLOCKS {
            choice(
                ExportForm::Dense,
                "every linear layer is dense, and no width was changed".into(),
            )
        } else {
            choice(ExportForm::Width, "all layers have the same, smaller widths".into())
        };
    }
    match widths::blocks(model, source) {
        Ok(_) => choice(ExportForm::Blocks, widths::difference(config)),
        // Such a model can only come from a file with layer-wise widths.
        Err(reason) => choice(ExportForm::Dense, reason),
    }
}

/// The choice for a model with operators. `common` says whether a configuration of the original
/// kind describes the widths.
fn choose_operators(model: &Transformer, common: bool) -> Option<Choice> {
    let slots = model.slots();
    let replaced = slots.iter().filter(|slot| !is_dense(slot)).count();
    if replaced == 0 {
        return None;
    }
    let choice = |form, reason: String| Some(Choice { form, reason });
    if let Some(slot) = slots.iter().find(|slot| matches!(slot.op(), Op::Map(_))) {
        let kind = slot.op().map().spec().kind();
        let reason = format!("{} holds a {kind}, which is not linear", slot.id());
        return choice(ExportForm::Native, reason);
    }
    let (stored, dense) = (model.parameters(), model.config().parameters());
    if stored >= dense {
        let reason =
            format!("the operators make {stored} parameters, dense weights {dense}: no gain");
        let blocks = model.config().family == BLOCKS || !common;
        let form = if blocks { ExportForm::Blocks } else { ExportForm::Dense };
        return choice(form, reason);
    }
    if let Some((slot, kind)) = factored::missing_site(model) {
        let reason = format!(
            "{} holds a {kind}, which the Python file for transformers does not implement",
            slot.id()
        );
        return choice(ExportForm::Native, format!("{reason}; `dense` loads there and is larger"));
    }
    if model.config().family == BLOCKS || !common {
        let reason = "operators in layers of different widths, for which transformers has no class; \
                      `blocks` loads there and is larger";
        return choice(ExportForm::Native, reason.into());
    }
    choice(
        ExportForm::Factored,
        format!("{replaced} of {} linear layers hold operators", slots.len()),
    )
}

fn is_dense(slot: &LinearSlot) -> bool {
    matches!(slot.op().map().spec(), OpSpec::Dense(_))
}

/// Whether the configuration of a source describes a model exactly.
fn describes(source: &Source, model: &Transformer) -> bool {
    source.config_of(model).is_ok_and(|read| &read == model.config())
}

/// Model and source as they are written in a form.
fn prepared(
    model: &Transformer,
    source: &Source,
    form: ExportForm,
) -> Result<(Transformer, Source), ExportError> {
    let refused = |reason| ExportError::Form { form: form.name(), reason };
    // It names files that are not copied.
    let mut source = source.clone();
    source.config.shift_remove("auto_map");
    match form {
        ExportForm::Blocks => widths::blocks(model, &source).map_err(refused),
        ExportForm::Width => widths::plain(model, &source).map_err(refused),
        ExportForm::Dense | ExportForm::Factored | ExportForm::Native | ExportForm::Gguf => {
            if describes(&source, model) {
                return Ok((model.clone(), source));
            }
            match widths::plain(model, &source) {
                Err(_) if form == ExportForm::Native => {
                    let (model, mut source) = widths::blocks(model, &source).map_err(refused)?;
                    source.config.shift_remove("auto_map");
                    Ok((model, source))
                }
                Err(reason) => Err(refused(format!("{reason}; form `blocks` may hold it"))),
                Ok(plain) => Ok(plain),
            }
        }
    }
}

/// Exports a model to the directory `out`.
///
/// # Errors
/// [`ExportError`]; `out` is then unchanged.
pub fn export(
    model: &Transformer,
    source: &Source,
    options: &ExportOptions,
    out: &Path,
) -> Result<Exported, ExportError> {
    let choice = match options.form {
        Some(form) => Choice { form, reason: "asked for".into() },
        None => choose(model, source),
    };
    let form = choice.form;
    let mut warnings = sizes::of_model(model, form);
    let (model, source) = prepared(model, source, form)?;
    let dtype = options.dtype.unwrap_or(source.dtype);
    if form == ExportForm::Gguf {
        let (saved, sizes) = gguf::write(&model, &source, dtype, &mut warnings, options, out)?;
        return Ok(Exported { choice, saved, sizes, warnings });
    }
    if form == ExportForm::Factored {
        factored::check(&model, &source)?;
    }
    let plan = WeightLayout::new(&model, form.saved_as(), dtype)?;
    let sizes = Sizes::new(&model, plan.parameters(), plan.bytes(), dtype);
    let card = card::of_model(&model, &source, form, &sizes, &warnings, &options.card);
    let mut save_options = SaveOptions::new(form.saved_as());
    save_options.dtype = Some(dtype);
    save_options.force = options.force;
    save_options.shard_bytes = options.shard_bytes;
    save_options.max_bytes = options.max_bytes;
    save_options.metadata = card::metadata(&source);
    save_options.files.push(("README.md".into(), card.into_bytes()));
    save_options.files.push((
        "reproduce.json".into(),
        card::reproduce(&options.reproduce, &source, form.name(), dtype),
    ));
    save_options.files.extend(options.beside.iter().cloned());
    if form == ExportForm::Blocks {
        save_options.files.push((BLOCKS_FILE.into(), BLOCKS_MODELLING.into()));
    }
    let saved = save::save(&model, &source, &save_options, out)?;
    Ok(Exported { choice, saved, sizes, warnings })
}
