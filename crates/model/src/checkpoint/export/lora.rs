//! The difference of a model from its base as a PEFT adapter: `W = W_base + B A`.
//!
//! For every linear layer that differs, `D = W - W_base` is decomposed in `f64`, `D = U S Vᵀ`, and
//! `B = U √S` (out, r), `A = √S Vᵀ` (r, inp) are stored; `lora_alpha = r`, so that PEFT adds `B A`
//! unscaled. The rank is the smallest r with `‖D - B A‖ <= u ‖W‖` (Frobenius), where u is the
//! resolution of the storage types of model and base: [`resolution`]. A given rank or share of
//! energy truncates further, and the loss is reported. An adapter is meant for healing and for
//! small edits; it does not make a base smaller.
//!
//! Source: Hu et al. 2021 (arXiv:2106.09685); names and fields are those of PEFT.

use super::super::error::CheckpointError;
use super::super::native;
use super::super::reader::Reader;
use super::super::save::{check_tokens, pretty};
use super::super::source::Source;
use super::card::{self, Card};
use super::error::ExportError;
use super::sizes;
use crate::Role;
use crate::config::TransformerConfig;
use crate::families::module_name;
use crate::transformer::{Orientation, TensorSource, Transformer};
use linwright_files::writer::{Planned, header_bytes, write_values};
use linwright_files::{DirWriter, FileError, SavedFile, StoredType, TensorFile, Weights};
use linwright_ops::{LinearSlot, SiteId, Sites};
use linwright_run::atomic::AtomicDir;
use linwright_tensor::dtype::DType;
use linwright_tensor::linalg::svd;
use linwright_tensor::{Mat, MatRef};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// File name of the weights.
const WEIGHTS: &str = "adapter_model.safetensors";
/// File name of the adapter configuration.
const SETTINGS: &str = "adapter_config.json";
/// Rounding error allowed for the stored factors, in units of the storage type's rounding.
const STORED_ROUNDINGS: f64 = 4.0;

/// Options of an adapter.
#[derive(Clone, Debug)]
pub struct LoraOptions {
    /// Largest rank of a site.
    pub rank: Option<usize>,
    /// Kept share of the squared singular values of a difference, above 0, at most 1.
    pub energy: Option<f64>,
    /// Storage type of the factors.
    pub dtype: DType,
    /// Whether an existing output is replaced.
    pub force: bool,
    /// Largest size of the whole directory, in bytes; beyond it the export fails as on a full disk.
    pub max_bytes: Option<u64>,
    /// Card content; its base model is the one that PEFT loads.
    pub card: Card,
    /// Provenance: command line, inputs and their hashes.
    pub reproduce: Map<String, Value>,
    /// Further files, such as the job as a recipe and measurements: name and content.
    pub beside: Vec<(String, Vec<u8>)>,
}

impl Default for LoraOptions {
    fn default() -> Self {
        Self {
            rank: None,
            energy: None,
            dtype: DType::F32,
            force: false,
            max_bytes: None,
            card: Card::default(),
            reproduce: Map::new(),
            beside: Vec::new(),
        }
    }
}

/// One site of an adapter.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LoraSite {
    /// Name of the site.
    pub site: SiteId,
    /// Stored rank.
    pub rank: usize,
    /// Rank of the whole difference.
    pub full_rank: usize,
    /// Truncated share of the difference (Frobenius).
    pub loss: f64,
    /// Parameters of both factors.
    pub parameters: u64,
}

/// An adapter that was written and verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// The directory.
    pub dir: PathBuf,
    /// Its files, without `SHA256SUMS`.
    pub files: Vec<SavedFile>,
    /// Sites that differ from the base, in the order of computation.
    pub sites: Vec<LoraSite>,
    /// Differences below this share of a weight count as rounding.
    pub resolution: f64,
    /// Notes for the reader: factors that are not smaller than the weights they change.
    pub warnings: Vec<String>,
}

/// Differences below this share of a weight (Frobenius) are rounding: the unit roundoff of the
/// coarser storage type, four times that of `f32`, in which such a sum is also computed.
#[must_use]
pub fn resolution(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::F64 => 2.0f64.powi(-22),
        DType::F16 => 2.0f64.powi(-11),
        DType::Bf16 => 2.0f64.powi(-8),
    }
}

/// Writes the difference of a model from the one in `base` as an adapter.
///
/// Memory: one weight of the base at a time, and the factors.
///
/// # Errors
/// [`ExportError`]; `out` is then unchanged.
pub fn export_lora(
    model: &Transformer,
    source: &Source,
    base: &Path,
    options: &LoraOptions,
    out: &Path,
) -> Result<Adapter, ExportError> {
    check(options)?;
    linwright_run::atomic::check_directory(out, options.force)?;
    let opened = Base::open(base, model)?;
    opened.check_rest(model)?;
    let resolution = resolution(source.dtype).max(resolution(opened.weights.main_dtype()));
    let mut factors = Vec::new();
    for slot in model.slots() {
        if let Some(difference) = opened.difference(slot, model.config())? {
            factors.push(Factors::of(slot, difference, resolution, options)?);
        }
    }
    if factors.is_empty() {
        let reason = "the model equals the base: there is nothing to store".into();
        return Err(ExportError::Base { path: base.into(), reason });
    }
    if options.rank.is_none() && options.energy.is_none() {
        refuse_full(&factors)?;
    }
    let warnings = size_warnings(&factors, model, options.dtype, source.dtype);
    let mut target = AtomicDir::create(out, options.force)?;
    if let Some(bytes) = options.max_bytes {
        target = target.limit(bytes);
    }
    let mut writer = DirWriter::new(target);
    write(&mut writer, model, &factors, options.dtype)?;
    let settings = settings(model, &factors, options, base);
    writer.text(SETTINGS, pretty(&settings).as_bytes())?;
    for (name, bytes) in &source.companions {
        writer.text(&source.placed(name), bytes)?;
    }
    let sites: Vec<LoraSite> = factors.into_iter().map(|factors| factors.summary).collect();
    writer.text("README.md", text(source, &sites, &warnings, options, resolution).as_bytes())?;
    let record = card::reproduce(&options.reproduce, source, "lora", options.dtype);
    writer.text("reproduce.json", &record)?;
    for (name, bytes) in &options.beside {
        writer.text(name, bytes)?;
    }
    writer.checksums()?;
    check_tokens(writer.target.path(), source, model.config())?;
    read_back(&opened, model, &sites, writer.target.path(), resolution, options.dtype)?;
    writer.target.commit()?;
    Ok(Adapter { dir: out.into(), files: writer.files, sites, resolution, warnings })
}

fn check(options: &LoraOptions) -> Result<(), ExportError> {
    if options.rank == Some(0) {
        let (found, expected) = ("0".into(), "a whole number from 1");
        return Err(ExportError::Option { option: "rank", found, expected });
    }
    match options.energy {
        Some(energy) if !(energy > 0.0 && energy <= 1.0) => Err(ExportError::Option {
            option: "energy",
            found: energy.to_string(),
            expected: "a share above 0, at most 1",
        }),
        _ => Ok(()),
    }
}

/// Notes on factors, stored as `dtype`, that are not smaller than the weights or the model that
/// they change.
fn size_warnings(
    factors: &[Factors],
    model: &Transformer,
    dtype: DType,
    of_model: DType,
) -> Vec<String> {
    let of = |f: &Factors| (f.summary.site.0.clone(), f.summary.parameters, f.dense);
    let named: Vec<(String, u64, u64)> = factors.iter().map(of).collect();
    let sites: Vec<(&str, u64, u64)> =
        named.iter().map(|(site, own, dense)| (site.as_str(), *own, *dense)).collect();
    let adapter = factors.iter().map(|f| f.summary.parameters).sum::<u64>() * dtype.size() as u64;
    let whole = model.config().parameters() * of_model.size() as u64;
    sizes::of_adapter(&sites, adapter, whole)
}

/// Rejects differences whose factors would not be smaller than the weight.
fn refuse_full(factors: &[Factors]) -> Result<(), ExportError> {
    let full = |f: &&Factors| f.summary.parameters >= f.dense;
    let full: Vec<String> = factors
        .iter()
        .filter(full)
        .map(|f| format!("{} (rank {} of {})", f.summary.site, f.summary.full_rank, f.most))
        .collect();
    if full.is_empty() {
        return Ok(());
    }
    Err(ExportError::FullRank { count: full.len(), listed: sizes::listed(&full) })
}

/// The base model, whose weights are read one at a time.
struct Base<'a> {
    dir: &'a Path,
    source: Source,
    weights: Weights,
    config: TransformerConfig,
}

impl<'a> Base<'a> {
    fn open(dir: &'a Path, model: &Transformer) -> Result<Self, ExportError> {
        let (source, _) = Source::read(dir)?;
        let config = source.decoder_config()?;
        let weights = Weights::open(dir)?;
        let base = Self { dir, source, weights, config };
        let reader = base.reader()?;
        let config = base.config.clone().with_ends(|name| reader.has(name));
        let (own, other) = (model.config().tensor_shapes(), config.tensor_shapes());
        let differs = own.iter().zip(&other).find(|(own, other)| own != other);
        let reason = match differs {
            Some(((own, shape), (other, _))) if own != other => {
                format!("it has the tensor {other} where the model has {own} {shape:?}")
            }
            Some(((name, shape), (_, other))) => {
                format!("its tensor {name} has shape {other:?}, that of the model {shape:?}")
            }
            None if own.len() != other.len() => {
                format!("it has {} tensors, the model {}", other.len(), own.len())
            }
            None if &config != model.config() => {
                "its configuration describes another model of the same shapes".into()
            }
            None => return Ok(base),
        };
        Err(ExportError::Base { path: dir.into(), reason })
    }

    fn reader(&self) -> Result<Reader<'_>, CheckpointError> {
        let headers = native::read(self.dir, &self.source.config)?;
        Ok(Reader::new(self.dir, &self.weights, self.config.family, headers))
    }

    /// Rejects a model that differs in tensors that an adapter does not hold.
    fn check_rest(&self, model: &Transformer) -> Result<(), ExportError> {
        let mut reader = self.reader()?;
        let mut compare = |name: &str, shape: &[usize], values: &[f32]| {
            let found = reader.tensor(name, shape)?;
            let same = found.iter().zip(values).all(|(a, b)| a == b);
            let reason =
                format!("tensor {name} differs too; an adapter holds the weights of linear layers");
            if same { Ok(()) } else { Err(ExportError::Base { path: self.dir.into(), reason }) }
        };
        let mut result = Ok(());
        model.for_each_tensor(&mut |name, shape, values| {
            if result.is_ok() {
                result = compare(name, shape, &values.numbers());
            }
        });
        result?;
        for slot in model.slots() {
            if let Some(bias) = slot.bias() {
                compare(&format!("{}.bias", slot.id()), &[bias.len()], bias)?;
            }
        }
        Ok(())
    }

    /// Weight and difference from the base; none if they are equal.
    fn difference(
        &self,
        slot: &LinearSlot,
        config: &TransformerConfig,
    ) -> Result<Option<Difference>, ExportError> {
        let orientation = match config.is_transposed(Role::of(slot)) {
            true => Orientation::Inputs,
            false => Orientation::Outputs,
        };
        let site = slot.id();
        let failed = |source| CheckpointError::Operator { site: site.clone(), source };
        let base = self.reader()?.operator(site, slot.shape(), orientation)?;
        let base = base.to_dense().map_err(failed)?;
        let changed = slot.op().to_dense().map_err(failed)?;
        if let Some(index) = changed.data().iter().position(|v| !v.is_finite()) {
            let (name, value) = (format!("{site}.weight"), changed.data()[index]);
            let dtype = StoredType::F32.name();
            return Err(FileError::Unstorable { name, index, value, dtype }.into());
        }
        if changed.data() == base.data() {
            return Ok(None);
        }
        let pairs = changed.data().iter().zip(base.data());
        let values = pairs.map(|(changed, base)| f64::from(*changed) - f64::from(*base)).collect();
        let difference = Mat::from_vec(changed.rows(), changed.cols(), values);
        Ok(Some(Difference { weight: norm(changed.cast::<f64>().data()), matrix: difference }))
    }
}

/// A difference and the norm of its weight.
struct Difference {
    matrix: Mat<f64>,
    weight: f64,
}

/// Frobenius norm.
fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// The factors of a site.
struct Factors {
    summary: LoraSite,
    /// Smaller side of the weight.
    most: usize,
    /// Parameters of the weight.
    dense: u64,
    /// (r, inp).
    a: Mat<f32>,
    /// (out, r).
    b: Mat<f32>,
}

impl Factors {
    fn of(
        slot: &LinearSlot,
        Difference { matrix, weight }: Difference,
        resolution: f64,
        options: &LoraOptions,
    ) -> Result<Self, ExportError> {
        let site = slot.id().clone();
        let svd =
            svd(matrix.view()).map_err(|_| ExportError::Decomposition { site: site.clone() })?;
        // Squared error of each truncation rank, in descending order.
        let mut left = vec![0.0; svd.s.len() + 1];
        for (rank, s) in svd.s.iter().enumerate().rev() {
            left[rank] = left[rank + 1] + s * s;
        }
        let energy = left[0];
        let rank_of = |most: f64| left.iter().position(|&l| l <= most).unwrap_or(svd.s.len());
        let full_rank = rank_of((resolution * weight).powi(2)).max(1);
        let by_energy = options.energy.map_or(full_rank, |share| rank_of((1.0 - share) * energy));
        let rank = full_rank.min(by_energy.max(1)).min(options.rank.unwrap_or(full_rank));
        let root = |k: usize| svd.s[k].sqrt();
        let a = Mat::from_fn(rank, matrix.cols(), |k, j| (root(k) * svd.vt.at(k, j)) as f32);
        let b = Mat::from_fn(matrix.rows(), rank, |i, k| (svd.u.at(i, k) * root(k)) as f32);
        let loss = if energy > 0.0 { (left[rank] / energy).sqrt() } else { 0.0 };
        let parameters = (a.data().len() + b.data().len()) as u64;
        Ok(Self {
            summary: LoraSite { site, rank, full_rank, loss, parameters },
            most: matrix.rows().min(matrix.cols()),
            dense: slot.shape().dense_parameters() as u64,
            a,
            b,
        })
    }
}

/// Name of a site in PEFT: encoders without a head are loaded without the prefix of the whole
/// model.
fn module<'a>(site: &'a SiteId, config: &TransformerConfig) -> &'a str {
    let bare = !config.is_causal() && !config.masked_head;
    let prefix = config.family.names.prefix;
    module_name(site.0.strip_prefix(prefix).filter(|_| bare).unwrap_or(&site.0))
}

/// Tensor names of both factors.
fn names(site: &SiteId, config: &TransformerConfig) -> [String; 2] {
    let module = module(site, config);
    ["lora_A", "lora_B"].map(|factor| format!("base_model.model.{module}.{factor}.weight"))
}

fn write(
    writer: &mut DirWriter,
    model: &Transformer,
    factors: &[Factors],
    dtype: DType,
) -> Result<(), CheckpointError> {
    let tensors: Vec<(Planned, &[f32])> = factors
        .iter()
        .flat_map(|f| {
            let [a, b] = names(&f.summary.site, model.config());
            [(a, &f.a), (b, &f.b)]
        })
        .map(|(name, m)| (Planned::values(name, dtype, vec![m.rows(), m.cols()]), m.data()))
        .collect();
    let planned: Vec<Planned> = tensors.iter().map(|(planned, _)| planned.clone()).collect();
    writer.stream(WEIGHTS, |out| {
        out.write_all(&header_bytes(&planned))?;
        tensors.iter().try_for_each(|(p, values)| write_values(out, &p.name, dtype, values))
    })
}

/// The `adapter_config.json`.
fn settings(model: &Transformer, factors: &[Factors], options: &LoraOptions, base: &Path) -> Value {
    let config = model.config();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    factors.iter().for_each(|f| *counts.entry(f.summary.rank).or_default() += 1);
    // The adapter's rank is the most common one; not every runtime supports others.
    let common = counts.iter().max_by_key(|(_, count)| **count).map_or(1, |(rank, _)| *rank);
    let others = factors.iter().filter(|f| f.summary.rank != common);
    let pattern: Map<String, Value> = others
        .map(|f| (module(&f.summary.site, config).to_owned(), json!(f.summary.rank)))
        .collect();
    let modules: Vec<&str> = factors.iter().map(|f| module(&f.summary.site, config)).collect();
    let name = options.card.base_model.clone();
    json!({
        "peft_type": "LORA",
        "task_type": config.is_causal().then_some("CAUSAL_LM"),
        "base_model_name_or_path": name.unwrap_or_else(|| base.display().to_string()),
        "r": common,
        "lora_alpha": common,
        "rank_pattern": pattern,
        "alpha_pattern": pattern,
        "target_modules": modules,
        "fan_in_fan_out": config.family.transposed,
        "bias": "none",
        "lora_dropout": 0.0,
        "use_rslora": false,
        "use_dora": false,
        "init_lora_weights": true,
        "modules_to_save": null,
        "inference_mode": true,
    })
}

/// The card.
fn text(
    source: &Source,
    sites: &[LoraSite],
    warnings: &[String],
    options: &LoraOptions,
    resolution: f64,
) -> String {
    let notes: String = warnings.iter().map(|warning| format!("Note: {warning}.\n\n")).collect();
    let front = card::front_matter(source, &options.card, "peft", &["linwright", "lora"]);
    let (least, most) = sites
        .iter()
        .fold((usize::MAX, 0), |(least, most), lora| (least.min(lora.rank), most.max(lora.rank)));
    let loss = sites.iter().map(|lora| lora.loss).fold(0.0, f64::max);
    let parameters: u64 = sites.iter().map(|site| site.parameters).sum();
    format!(
        "{front}# A LoRA adapter written by Linwright {}\n\n\
         The difference of a model from its base at {} linear layers, of ranks {least} to {most}: \
         {parameters} parameters. What is below {resolution:.1e} of a weight counts as rounding; at \
         most {loss:.3e} of a difference was cut.\n\n{notes}\
         | runtime | loads | known from |\n| --- | --- | --- |\n\
         | PEFT | yes | tried by this project |\n\
         | vLLM | yes, where one rank is common to all layers and among those it allows | by its \
         public documentation, not tried |\n\
         | llama.cpp | after its own conversion | by its public documentation, not tried |\n",
        env!("CARGO_PKG_VERSION"),
        sites.len(),
    )
}

/// Loads the factors back and compares their products with the differences.
fn read_back(
    base: &Base<'_>,
    model: &Transformer,
    sites: &[LoraSite],
    dir: &Path,
    resolution: f64,
    dtype: DType,
) -> Result<(), ExportError> {
    let file = TensorFile::open(&dir.join(WEIGHTS))?;
    for lora in sites {
        let Some(slot) = model.slot(&lora.site) else { continue };
        let Some(Difference { matrix, weight }) = base.difference(slot, model.config())? else {
            continue;
        };
        let [a, b] = names(&lora.site, model.config());
        let a = file.read(&a, &[lora.rank, matrix.cols()])?.values;
        let b = file.read(&b, &[matrix.rows(), lora.rank])?.values;
        let a = MatRef::new(&a, lora.rank, matrix.cols());
        let mut off = 0.0;
        for (i, row) in b.chunks_exact(lora.rank).enumerate() {
            let mut product = vec![0.0f64; matrix.cols()];
            for (k, factor) in row.iter().enumerate() {
                let pairs = product.iter_mut().zip(a.row(k));
                pairs.for_each(|(product, a)| *product += f64::from(*factor) * f64::from(*a));
            }
            let gaps = matrix.row(i).iter().zip(&product).map(|(d, product)| (d - product).powi(2));
            off += gaps.sum::<f64>();
        }
        let whole = norm(matrix.data());
        let rounding = STORED_ROUNDINGS * self::resolution(dtype) * whole;
        let weight = weight.max(f64::MIN_POSITIVE);
        let (found, allowed) = (off.sqrt() / weight, (lora.loss * whole + rounding) / weight);
        if found.is_nan() || found > allowed.max(resolution) {
            let site = lora.site.clone();
            return Err(ExportError::Differs { path: dir.into(), site, found, allowed });
        }
    }
    Ok(())
}
