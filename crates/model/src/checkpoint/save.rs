//! Saving of a model to a directory.
//!
//! All files are written to a hidden sibling of the target, loaded back and compared there, and
//! only then renamed to the target. Weights are streamed, one tensor at a time.

use super::error::{CheckpointError, WriteError};
use super::export::factored;
use super::form::Form;
use super::native::{self, Headers};
use super::same_tokens::same_tokens;
use super::source::Source;
use super::verify::{Gap, fixed_prompts, verify};
use crate::Role;
use crate::config::TransformerConfig;
use crate::transformer::{Orientation, Shown, Transformer};
use linwright_files::writer::{Planned, header_bytes, write_halves, write_values};
use linwright_files::{CONFIG, DirWriter, INDEX, SINGLE, SavedFile};
use linwright_ops::archive::Header;
use linwright_ops::{LinearSlot, Op, OpSpec, Sites};
use linwright_run::atomic::AtomicDir;
use linwright_tensor::dtype::DType;
use linwright_tensor::kernels::gemm::Weight;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Default size of a shard in bytes.
pub const SHARD_BYTES: u64 = 5_000_000_000;

/// Options of a saved model.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// Form of the operators.
    pub form: Form,
    /// Storage type of the weights; that of the source if absent.
    pub dtype: Option<DType>,
    /// Whether an existing output is replaced.
    pub force: bool,
    /// Size of a shard in bytes, unless a single tensor is larger.
    pub shard_bytes: u64,
    /// Largest size of the whole directory, in bytes; beyond it saving fails as on a full disk.
    pub max_bytes: Option<u64>,
    /// Additional keys of the `linwright` object of `config.json`.
    pub metadata: Map<String, Value>,
    /// Additional files: name and content.
    pub files: Vec<(String, Vec<u8>)>,
}

impl SaveOptions {
    /// The default options of a form.
    #[must_use]
    pub fn new(form: Form) -> Self {
        Self {
            form,
            dtype: None,
            force: false,
            shard_bytes: SHARD_BYTES,
            max_bytes: None,
            metadata: Map::new(),
            files: Vec::new(),
        }
    }
}

/// A model that was saved, loaded back and found equal.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedModel {
    /// The directory.
    pub dir: PathBuf,
    /// Its files, without `SHA256SUMS`, which lists them.
    pub files: Vec<SavedFile>,
    /// Number of stored parameters.
    pub parameters: u64,
    /// Storage type of the weights.
    pub dtype: DType,
    /// Difference between the logits of the model and of its loaded copy.
    pub gap: Gap,
}

impl SavedModel {
    /// Size of all files, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Saves a model with the configuration and companion files of `source` to the directory `out`.
///
/// # Errors
/// [`CheckpointError`]; `out` is then unchanged.
///
/// # Panics
/// If `source` describes a model of another shape.
pub fn save(
    decoder: &Transformer,
    source: &Source,
    options: &SaveOptions,
    out: &Path,
) -> Result<SavedModel, CheckpointError> {
    assert_eq!(&source.config_of(decoder)?, decoder.config(), "the source of another model");
    let dtype = options.dtype.unwrap_or(source.dtype);
    if options.form == Form::Factored {
        factored::check(decoder, source)?;
    }
    let plan = WeightLayout::new(decoder, options.form, dtype)?;
    let mut target = AtomicDir::create(out, options.force)?;
    if let Some(bytes) = options.max_bytes {
        target = target.limit(bytes);
    }
    let mut writer = DirWriter::new(target);
    let config = source.words.pretty(&plan.config(source, &options.metadata));
    writer.text(&source.placed(CONFIG), config.as_bytes())?;
    for (name, bytes) in &source.companions {
        writer.text(&source.placed(name), bytes)?;
    }
    for (name, bytes) in &options.files {
        writer.text(name, bytes)?;
    }
    if options.form == Form::Factored {
        writer.text(&source.beside_config(factored::FILE), factored::MODELLING.as_bytes())?;
    }
    plan.write_weights(&mut writer, source, options.shard_bytes)?;
    writer.checksums()?;
    let prompts = fixed_prompts(decoder.config());
    let gap = verify(writer.target.path(), decoder, &prompts, options.form)?;
    check_tokens(writer.target.path(), source, decoder.config())?;
    writer.target.commit()?;
    Ok(SavedModel {
        dir: out.into(),
        files: writer.files,
        parameters: plan.parameters(),
        dtype,
        gap,
    })
}

/// Loads the saved tokenizer and compares it with that of `source`.
pub(super) fn check_tokens(
    dir: &Path,
    source: &Source,
    config: &TransformerConfig,
) -> Result<(), CheckpointError> {
    let companions = Source::read_companions(dir)?;
    let written = Source { dir: dir.into(), companions, ..source.clone() };
    let (own, read) = (source.tokenizer(config)?, written.tokenizer(config)?);
    same_tokens(dir, own.as_ref(), read.as_ref(), config.is_causal())
}

pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Source of a tensor's numbers.
enum Content<'a> {
    Values(&'a [f32]),
    Table(Shown<'a>),
    Indices(&'a [u32]),
    /// The dense form of an operator, computed when it is written.
    Dense(&'a LinearSlot),
}

/// All tensors of a model in file order.
pub(super) struct WeightLayout<'a> {
    decoder: &'a Transformer,
    form: Form,
    dtype: DType,
    tensors: Vec<Planned>,
    headers: Headers,
}

impl<'a> WeightLayout<'a> {
    pub(super) fn new(
        decoder: &'a Transformer,
        form: Form,
        dtype: DType,
    ) -> Result<Self, CheckpointError> {
        let mut headers = Headers::new();
        for slot in decoder.slots() {
            let map = slot.op().map();
            if form == Form::Dense && matches!(slot.op(), Op::Map(_)) {
                let source = linwright_ops::OpError::NotLinear { kind: map.spec().kind() };
                return Err(CheckpointError::Operator { site: slot.id().clone(), source });
            }
            if form != Form::Dense && !matches!(map.spec(), OpSpec::Dense(_)) {
                let header = Header::of(map).map_err(|source| CheckpointError::Operator {
                    site: slot.id().clone(),
                    source,
                })?;
                headers.insert(slot.id().clone(), header);
            }
        }
        let mut plan = Self { decoder, form, dtype, tensors: Vec::new(), headers };
        let mut tensors = Vec::new();
        plan.visit(&mut |planned, _| tensors.push(planned));
        plan.tensors = tensors;
        Ok(plan)
    }

    /// Visits every tensor in file order.
    fn visit(&self, show: &mut dyn FnMut(Planned, Content<'_>)) {
        let planned =
            |name: String, shape: &[usize]| Planned::values(name, self.dtype, shape.to_vec());
        self.decoder.for_each_tensor(&mut |name, shape, values| {
            show(planned(name.into(), shape), Content::Table(values));
        });
        for slot in self.decoder.slots() {
            let (id, map) = (slot.id(), slot.op().map());
            if self.form == Form::Dense || matches!(map.spec(), OpSpec::Dense(_)) {
                let stored = self.orientation(slot).stored(map.shape());
                show(planned(format!("{id}.weight"), &stored), Content::Dense(slot));
            } else {
                for param in map.params() {
                    let name = format!("{id}.{}", param.name);
                    show(planned(name, &param.shape), Content::Values(param.values));
                }
                for buffer in map.buffers() {
                    let name = format!("{id}.{}", buffer.name);
                    let planned = Planned::indices(name, buffer.values.len());
                    show(planned, Content::Indices(buffer.values));
                }
            }
            if let Some(bias) = slot.bias() {
                show(planned(format!("{id}.bias"), &[bias.len()]), Content::Values(bias));
            }
            map.release();
        }
    }

    /// Number of stored parameters, without buffers.
    pub(super) fn parameters(&self) -> u64 {
        let floats = self.tensors.iter().filter(|tensor| tensor.dtype.float().is_some());
        floats.map(|tensor| tensor.shape.iter().map(|&n| n as u64).product::<u64>()).sum()
    }

    /// The configuration of the source with the new storage type and the `linwright` object.
    fn config(&self, source: &Source, metadata: &Map<String, Value>) -> Value {
        let mut config = source.config.clone();
        let name = match self.dtype {
            DType::F32 => "float32",
            DType::F16 => "float16",
            DType::Bf16 => "bfloat16",
            DType::F64 => "float64",
        };
        // Newer versions of transformers write `dtype`, older ones read `torch_dtype`.
        let present: Vec<&str> =
            ["dtype", "torch_dtype"].into_iter().filter(|key| config.contains_key(*key)).collect();
        for key in if present.is_empty() { vec!["torch_dtype"] } else { present } {
            config.insert(key.into(), json!(name));
        }
        native::write(&mut config, &self.headers, metadata);
        match self.form {
            Form::Factored => factored::decorate(&mut config, self.decoder),
            Form::Native if !self.headers.is_empty() => native::own(&mut config),
            Form::Native | Form::Dense => {}
        }
        Value::Object(config)
    }

    /// Bytes of all tensors.
    pub(super) fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    fn write_weights(
        &self,
        dir: &mut DirWriter,
        source: &Source,
        shard_bytes: u64,
    ) -> Result<(), CheckpointError> {
        let shards = cut(&self.tensors, shard_bytes);
        if let [all] = shards.as_slice() {
            return self.write_shard(dir, &source.beside_config(SINGLE), all.clone());
        }
        let mut map = Map::new();
        for (index, shard) in shards.iter().enumerate() {
            let name = format!("model-{:05}-of-{:05}.safetensors", index + 1, shards.len());
            self.write_shard(dir, &source.beside_config(&name), shard.clone())?;
            let names = self.tensors[shard.clone()].iter().map(|tensor| tensor.name.clone());
            map.extend(names.map(|tensor| (tensor, json!(name))));
        }
        let index = json!({ "metadata": { "total_size": self.bytes() }, "weight_map": map });
        Ok(dir.text(&source.beside_config(INDEX), pretty(&index).as_bytes())?)
    }

    /// Writes the tensors of a range as one file.
    fn write_shard(
        &self,
        dir: &mut DirWriter,
        name: &str,
        range: Range<usize>,
    ) -> Result<(), CheckpointError> {
        let tensors = &self.tensors[range.clone()];
        let header = header_bytes(tensors);
        let expected = header.len() as u64 + tensors.iter().map(|tensor| tensor.bytes).sum::<u64>();
        dir.stream(name, |out| {
            out.write_all(&header)?;
            let (mut index, mut result) = (0, Ok(()));
            self.visit(&mut |planned, content| {
                if range.contains(&index) && result.is_ok() {
                    result = self.write_tensor(out, &planned.name, content);
                }
                index += 1;
            });
            result
        })?;
        let written = dir.files.last().map(|file| file.bytes);
        assert_eq!(written, Some(expected), "bytes of {name}, header and parameters");
        Ok(())
    }

    fn write_tensor(
        &self,
        out: &mut dyn Write,
        name: &str,
        content: Content<'_>,
    ) -> Result<(), WriteError> {
        match content {
            Content::Values(values) => write_values(out, name, self.dtype, values),
            Content::Table(Shown::Full(values)) => write_values(out, name, self.dtype, values),
            Content::Table(Shown::Half(values)) => write_halves(out, name, self.dtype, values),
            Content::Indices(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                Ok(out.write_all(&bytes)?)
            }
            Content::Dense(slot) => {
                let (map, orientation) = (slot.op().map(), self.orientation(slot));
                // The weight of a dense operator is written without a copy.
                match (map.weight(), orientation) {
                    (Some(Weight::Full(weight)), Orientation::Outputs) => {
                        return write_values(out, name, self.dtype, weight.data());
                    }
                    (Some(Weight::Half(weight)), Orientation::Outputs) => {
                        return write_halves(out, name, self.dtype, weight);
                    }
                    (_, Orientation::Inputs) | (None, Orientation::Outputs) => {}
                }
                let mut weight = slot.op().to_dense().map_err(|source| {
                    let site = slot.id().clone();
                    WriteError::Content(CheckpointError::Operator { site, source })
                })?;
                if orientation == Orientation::Inputs {
                    weight = weight.transpose();
                }
                write_values(out, name, self.dtype, weight.data())
            }
        }
    }

    /// The stored form of a slot's weight.
    fn orientation(&self, slot: &LinearSlot) -> Orientation {
        match self.decoder.config().is_transposed(Role::of(slot)) {
            true => Orientation::Inputs,
            false => Orientation::Outputs,
        }
    }
}

/// Splits tensors into consecutive shards of at most `limit` bytes, or of one tensor.
fn cut(tensors: &[Planned], limit: u64) -> Vec<Range<usize>> {
    let (mut shards, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, tensor) in tensors.iter().enumerate() {
        if index > start && bytes + tensor.bytes > limit {
            shards.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += tensor.bytes;
    }
    shards.push(start..tensors.len());
    shards
}
