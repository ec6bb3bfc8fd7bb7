//! Saving of a model as a GGUF file.

use super::{GgufWriter, Model, settings};
use crate::Role;
use crate::checkpoint::error::{CheckpointError, WriteError};
use crate::checkpoint::gguf::verify::verify;
use crate::checkpoint::precision::Precision;
use crate::checkpoint::source::Source;
use crate::checkpoint::verify::Gap;
use crate::tokenizer::Tokenizer;
use crate::transformer::{Orientation, Pooling, Shown, Transformer};
use linwright_files::json::parse_object;
use linwright_files::{DirWriter, StoredType};
use linwright_ops::{LinearSlot, Sites};
use linwright_run::atomic::AtomicDir;
use linwright_tensor::dtype::DType;
use linwright_tensor::kernels::gemm::Weight;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The layer on top of the first token of an encoder, which embeddings do not use.
const POOLER: &str = "pooler.dense";

/// Source of a tensor's numbers.
enum Content<'a> {
    Values(&'a [f32]),
    Table(Shown<'a>),
    /// The dense form of an operator, computed when it is written.
    Weight(&'a LinearSlot, Orientation),
}

/// File name in the directory, with the type in the form that other programs expect.
pub(in crate::checkpoint) fn file_name(dtype: DType) -> String {
    format!("model-{}.gguf", StoredType::from(dtype).name())
}

/// Saves a model with the configuration and tokenizer of `source` as one GGUF file in the new
/// directory `out`, and returns the path of the file. Matrices are stored as `dtype`, or as most
/// weights of `source` were; every operator must be linear. The file is loaded back and compared
/// before it is kept.
///
/// # Errors
/// [`CheckpointError`]; `out` is then unchanged.
///
/// # Panics
/// If `source` describes a model of another shape.
pub fn save_gguf(
    decoder: &Transformer,
    source: &Source,
    dtype: Option<DType>,
    force: bool,
    out: &Path,
) -> Result<PathBuf, CheckpointError> {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let dtype = dtype.unwrap_or(source.dtype);
    let mut writer = DirWriter::new(AtomicDir::create(out, force)?);
    write_gguf(&mut writer, decoder, source, dtype, &name)?;
    writer.commit()?;
    Ok(out.join(file_name(dtype)))
}

/// Writes the file into an unfinished directory and verifies it, see [`verify`]; `name` is the name
/// of the model. Returns the largest difference from the unrounded model, and differences to the
/// computation of llama.cpp.
///
/// # Panics
/// If `source` describes a model of another shape.
pub(in crate::checkpoint) fn write_gguf(
    dir: &mut DirWriter,
    decoder: &Transformer,
    source: &Source,
    dtype: DType,
    name: &str,
) -> Result<(Gap, Vec<String>), CheckpointError> {
    assert_eq!(&source.config_of(decoder)?, decoder.config(), "the source of another model");
    let mut tensors = Vec::new();
    visit(decoder, source, &mut |name, shape, _| tensors.push((name, shape)));
    let tokenizer = source.tokenizer(decoder.config())?;
    let (pipeline, settings) = match &tokenizer {
        Some(tokenizer) => {
            let pipeline = tokenizer.to_json(decoder.config().vocab)?;
            (Some(pipeline), Some(settings(tokenizer, source)?))
        }
        None => (None, None),
    };
    let (pooling, mut notes) = pooling(decoder, source, tokenizer.as_ref());
    let model = Model {
        config: &source.config,
        tokenizer: pipeline.as_ref(),
        tokenizer_config: settings.as_ref(),
        name,
        pooling,
    };
    let mut writer = GgufWriter::new(model, &tensors, dtype)?;
    notes.extend_from_slice(writer.notes());
    if decoder.config().pooler {
        notes.push(format!("{POOLER} is omitted, since llama.cpp has no pooler"));
    }
    let file = file_name(dtype);
    dir.stream(&file, |out| {
        out.write_all(&writer.header())?;
        let mut result = Ok(());
        visit(decoder, source, &mut |_, _, content| {
            if result.is_ok() {
                result = write_tensor(&mut writer, out, &content);
            }
        });
        result
    })?;
    let gap = verify(&dir.target.path().join(file), decoder, tokenizer.as_ref(), dtype)?;
    Ok((gap, notes))
}

/// The pooling of a sentence encoder, and modules that the file cannot hold.
fn pooling(
    decoder: &Transformer,
    source: &Source,
    tokenizer: Option<&Tokenizer>,
) -> (Option<Pooling>, Vec<String>) {
    const FILE: &str = "modules.json";
    if decoder.config().is_causal() || source.companion(FILE).is_none() {
        return (None, Vec::new());
    }
    let lost = |what: String| vec![format!("{FILE}: {what}, which llama.cpp does not do")];
    match source.sentence(decoder.config(), tokenizer, Precision::F32) {
        Err(reason) => (None, lost(reason)),
        Ok(sentence) => match sentence.plain() {
            Some(pooling @ (Pooling::Mean | Pooling::First | Pooling::Last)) => {
                (Some(pooling), Vec::new())
            }
            _ => (None, lost(format!("embeddings of texts by {}", sentence.name()))),
        },
    }
}

/// `tokenizer_config.json`, completed with special tokens that the tokenizer has from other files.
fn settings(tokenizer: &Tokenizer, source: &Source) -> Result<Value, CheckpointError> {
    const NAME: &str = "tokenizer_config.json";
    let mut settings = match source.companion(NAME) {
        Some(bytes) => parse_object(&source.dir.join(NAME), bytes)?,
        None => Map::new(),
    };
    let mut fill = |field: &str, value: Value| {
        let said = settings.get(field).is_some_and(|said| !said.is_null());
        if !said {
            settings.insert(field.into(), value);
        }
    };
    for (field, id) in [("bos_token", tokenizer.bos()), ("eos_token", tokenizer.eos())] {
        if let Some(text) = id.and_then(|id| tokenizer.token(id)) {
            fill(field, json!(text));
        }
    }
    // The post-processor of the tokenizer decides, regardless of its settings.
    if tokenizer.bos().is_some() {
        settings.insert("add_bos_token".into(), json!(tokenizer.adds_bos()));
    }
    if tokenizer.eos().is_some() {
        settings.insert("add_eos_token".into(), json!(tokenizer.adds_eos()?));
    }
    Ok(Value::Object(settings))
}

fn write_tensor(
    writer: &mut GgufWriter,
    out: &mut dyn Write,
    content: &Content<'_>,
) -> Result<(), WriteError> {
    match content {
        Content::Values(values) => writer.tensor(out, values),
        Content::Table(values) => writer.tensor(out, &values.numbers()),
        Content::Weight(slot, orientation) => {
            // The weight of a dense operator is written without a copy.
            if let (Some(Weight::Full(weight)), Orientation::Outputs) =
                (slot.op().map().weight(), orientation)
            {
                return writer.tensor(out, weight.data());
            }
            let mut weight = slot.op().to_dense().map_err(|source| {
                let site = slot.id().clone();
                WriteError::Content(CheckpointError::Operator { site, source })
            })?;
            if *orientation == Orientation::Inputs {
                weight = weight.transpose();
            }
            writer.tensor(out, weight.data())
        }
    }
}

/// Visits every tensor of the file in a fixed order: those of the dense form without the pooler,
/// and a copy of the embedding where readers need one as output matrix.
fn visit(
    decoder: &Transformer,
    source: &Source,
    show: &mut dyn FnMut(String, Vec<usize>, Content<'_>),
) {
    let config = decoder.config();
    let copied = config.tied_embeddings.then(|| settings::tied_output(&source.config)).flatten();
    let names = &config.family.names;
    let embedding = format!("{}{}.weight", names.prefix, names.embedding);
    // Encoders use the tensor names of the bare model.
    let prefix = if config.is_causal() { "" } else { names.prefix };
    let show = &mut |name: String, shape: Vec<usize>, content: Content<'_>| {
        let name = name.strip_prefix(prefix).unwrap_or(&name);
        if name.rsplit_once('.').is_none_or(|(site, _)| site != POOLER) {
            show(name.to_owned(), shape, content);
        }
    };
    decoder.for_each_tensor(&mut |name, shape, values| {
        if let Some(copy) = copied.as_ref().filter(|_| name == embedding) {
            show(copy.clone(), shape.to_vec(), Content::Table(values));
        }
        show(name.into(), shape.to_vec(), Content::Table(values));
    });
    for slot in decoder.slots() {
        let shape = slot.op().map().shape();
        let name = format!("{}.weight", slot.id());
        let orientation = match decoder.config().is_transposed(Role::of(slot)) {
            true => Orientation::Inputs,
            false => Orientation::Outputs,
        };
        show(name, orientation.stored(shape).to_vec(), Content::Weight(slot, orientation));
        if let Some(bias) = slot.bias() {
            show(format!("{}.bias", slot.id()), vec![bias.len()], Content::Values(bias));
        }
    }
}
