//! LoRA adapters of PEFT, added to the weights of their base: `W = W_base + s B A`.
//!
//! `s` is `lora_alpha / r`, or `lora_alpha / √r` (rsLoRA), with the rank and the alpha of each
//! module. DoRA scales every row of the sum to a length stored in the adapter. Complete tensors in
//! the adapter (`modules_to_save`, biases) replace those of the base. Computed in `f32` like
//! `merge_and_unload` of PEFT (version 0.21); unsupported features are an error that names the
//! field or tensor.
//!
//! Sources: Hu et al. 2021, arXiv:2106.09685; Kalajdzievski 2023, arXiv:2312.03732; Liu et al.
//! 2024, arXiv:2402.09353.

mod settings;

pub(super) use settings::{SETTINGS, read_fields};

use super::error::CheckpointError;
use crate::Role;
use crate::transformer::Transformer;
use linwright_files::Weights;
use linwright_ops::{Dense, LinearSlot, Op, OpSpec, Shape, Sites};
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::{Write, linear};
use settings::Settings;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// File names of the weights; the first that exists is used.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];
/// Prefix of all tensor names.
const PREFIX: &str = "base_model.model.";
/// Endings of the tensors of one module.
const PARTS: [(&str, Part); 7] = [
    (".lora_A.weight", Part::A),
    (".lora_B.weight", Part::B),
    (".lora_B.bias", Part::Bias),
    (".lora_magnitude_vector", Part::Magnitude),
    (".lora_magnitude_vector.weight", Part::Magnitude),
    (".lora_embedding_A", Part::EmbeddingA),
    (".lora_embedding_B", Part::EmbeddingB),
];

/// Role of a tensor of an adapter in its module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    A,
    B,
    Bias,
    Magnitude,
    EmbeddingA,
    EmbeddingB,
}

/// Names of tensors by module and part.
type Modules = BTreeMap<String, BTreeMap<Part, String>>;

/// Changes made by an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapted {
    /// Weights to which a product was added.
    pub added: usize,
    /// Tensors that were replaced.
    pub replaced: usize,
}

/// Adds the adapter in a folder to the weights of a model, which must be dense and in `f32`.
///
/// # Errors
/// [`CheckpointError`]; the model may then be partly changed.
pub fn merge_adapter(model: &mut Transformer, dir: &Path) -> Result<Adapted, CheckpointError> {
    Adapter::open(dir)?.merge(model)
}

struct Adapter {
    settings: Settings,
    path: PathBuf,
    weights: Weights,
}

impl Adapter {
    fn open(dir: &Path) -> Result<Self, CheckpointError> {
        let settings = Settings::read(dir)?;
        let paths = WEIGHTS.map(|name| dir.join(name));
        let found = paths.iter().find(|path| path.is_file());
        let path = found.unwrap_or(&paths[0]).clone();
        Ok(Self { settings, weights: Weights::open(&path)?, path })
    }

    fn wrong(&self, tensor: &str, reason: impl Into<String>) -> CheckpointError {
        let place = format!("tensor {tensor}");
        CheckpointError::Adapted { path: self.path.clone(), place, reason: reason.into() }
    }

    fn merge(&self, model: &mut Transformer) -> Result<Adapted, CheckpointError> {
        if let Some((name, of)) = model.held_in_half() {
            let reason = format!("is held as {}, expected f32", of.name());
            let place = format!("tensor {name} of the base");
            return Err(CheckpointError::Adapted { path: self.path.clone(), place, reason });
        }
        let (modules, whole) = self.sorted()?;
        for (tensor, place) in &whole {
            self.replace(model, tensor, place)?;
        }
        for (module, parts) in &modules {
            match parts.keys().any(|part| matches!(part, Part::EmbeddingA | Part::EmbeddingB)) {
                true => self.add_to_table(model, module, parts)?,
                false => self.add_to_slot(model, module, parts)?,
            }
        }
        Ok(Adapted { added: modules.len(), replaced: whole.len() })
    }

    /// The tensors that belong to products, and complete tensors with their names in a model.
    fn sorted(&self) -> Result<(Modules, Vec<(String, String)>), CheckpointError> {
        let mut modules = Modules::new();
        let mut whole = Vec::new();
        for tensor in self.weights.names() {
            let Some(name) = tensor.strip_prefix(PREFIX) else {
                return Err(self.wrong(tensor, format!("does not begin with {PREFIX}")));
            };
            let name = &without_name(name);
            let part = PARTS.iter().find_map(|(end, part)| Some((name.strip_suffix(end)?, *part)));
            match part {
                Some((module, part)) => {
                    let parts = modules.entry(module.to_owned()).or_default();
                    if parts.insert(part, tensor.to_owned()).is_some() {
                        return Err(self.wrong(tensor, "also exists under another name"));
                    }
                }
                None => whole.push((tensor.to_owned(), name.replace(".base_layer.", "."))),
            }
        }
        Ok((modules, whole))
    }

    /// Rejects a tensor that the model does not have.
    fn unknown(&self, tensor: &str, model: &Transformer) -> CheckpointError {
        let tied = match model.config().tied_embeddings {
            true => " (its output matrix is its embedding)",
            false => "",
        };
        self.wrong(tensor, format!("is for a layer that the model does not have{tied}"))
    }

    fn replace(
        &self,
        model: &mut Transformer,
        tensor: &str,
        place: &str,
    ) -> Result<(), CheckpointError> {
        let names = aliases(model, place);
        let is = |slot: &LinearSlot, end: &str| names.contains(&format!("{}.{end}", slot.id()));
        let transposed: Vec<bool> =
            model.slots().iter().map(|slot| model.config().is_transposed(Role::of(slot))).collect();
        for (slot, transposed) in model.slots_mut().into_iter().zip(transposed) {
            let Shape { out, inp } = slot.shape();
            if is(slot, "weight") {
                let weight = match transposed {
                    true => Mat::from_vec(inp, out, self.read(tensor, &[inp, out])?).transpose(),
                    false => Mat::from_vec(out, inp, self.read(tensor, &[out, inp])?),
                };
                return set(slot, weight);
            }
            if is(slot, "bias")
                && let Some(bias) = slot.bias_mut()
            {
                bias.copy_from_slice(&self.read(tensor, &[out])?);
                return Ok(());
            }
        }
        let Some((name, shape)) = outside(model, &names) else {
            return Err(self.unknown(tensor, model));
        };
        let values = self.read(tensor, &shape)?;
        let (tied, vocab) = (model.config().tied_embeddings, model.config().vocab);
        let own = model.params_mut().into_iter().find(|(own, _)| *own == name);
        let Some((_, own)) = own else { return Err(self.unknown(tensor, model)) };
        if tied && shape.len() == 2 && shape[0] == vocab && *own != values[..] {
            return Err(self.wrong(tensor, TIED));
        }
        own.copy_from_slice(&values);
        Ok(())
    }

    /// A required part of a module.
    fn part<'a>(
        &self,
        module: &str,
        parts: &'a BTreeMap<Part, String>,
        part: Part,
    ) -> Result<&'a str, CheckpointError> {
        parts.get(&part).map(String::as_str).ok_or_else(|| {
            let ending = PARTS.iter().find(|(_, known)| *known == part).map_or("", |(end, _)| end);
            self.wrong(&format!("{PREFIX}{module}{ending}"), "is missing")
        })
    }

    fn read(&self, tensor: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        Ok(self.weights.read(tensor, shape)?.values)
    }

    /// `s B A` (out, inp), with `b` (out, r) and `a` (r, inp).
    fn product(
        &self,
        module: &str,
        a: &str,
        b: &str,
        Shape { out, inp }: Shape,
    ) -> Result<Mat<f32>, CheckpointError> {
        let (rank, scale) = self.settings.of(module);
        if let Some(found) = self.weights.info(a).and_then(|info| info.shape.first().copied())
            && found != rank
        {
            let path = self.settings.path().display();
            return Err(self.wrong(a, format!("has rank {found}, {path} says {rank}")));
        }
        let of_a = Mat::from_vec(rank, inp, self.read(a, &[rank, inp])?);
        let of_b = Mat::from_vec(out, rank, self.read(b, &[out, rank])?);
        let mut product = Mat::zeros(out, inp);
        linear(of_b.view(), of_a.transpose().view(), product.view_mut(), Write::Set);
        product.data_mut().iter_mut().for_each(|value| *value *= scale);
        Ok(product)
    }

    fn add_to_slot(
        &self,
        model: &mut Transformer,
        module: &str,
        parts: &BTreeMap<Part, String>,
    ) -> Result<(), CheckpointError> {
        let part = |part| self.part(module, parts, part);
        let (a, b) = (part(Part::A)?, part(Part::B)?);
        let names = aliases(model, module);
        let slot = model.slots_mut().into_iter().find(|slot| names.contains(&slot.id().0));
        let Some(slot) = slot else { return Err(self.unknown(a, model)) };
        let shape = slot.shape();
        let out = shape.out;
        let mut weight = self.dense(slot)?;
        let product = self.product(module, a, b, shape)?;
        weight.data_mut().iter_mut().zip(product.data()).for_each(|(w, d)| *w += d);
        match (self.settings.has_magnitudes, parts.get(&Part::Magnitude)) {
            (true, _) => {
                let magnitudes = self.read(part(Part::Magnitude)?, &[out])?;
                scale_rows(&mut weight, &magnitudes);
            }
            (false, Some(tensor)) => {
                let reason = format!("belongs to use_dora, which {SETTINGS} does not enable");
                return Err(self.wrong(tensor, reason));
            }
            (false, None) => {}
        }
        if let Some(tensor) = parts.get(&Part::Bias) {
            let added = self.read(tensor, &[out])?;
            let (_, scale) = self.settings.of(module);
            let Some(bias) = slot.bias_mut() else {
                return Err(self.wrong(tensor, "is for a layer without a bias"));
            };
            bias.iter_mut().zip(added).for_each(|(bias, added)| *bias += added * scale);
        }
        self.check(a, weight.data())?;
        set(slot, weight)
    }

    /// The weight of a layer, which is dense.
    fn dense(&self, slot: &LinearSlot) -> Result<Mat<f32>, CheckpointError> {
        let site = slot.id().clone();
        if !matches!(slot.op().map().spec(), OpSpec::Dense(_)) {
            let kind = slot.op().map().spec().kind();
            let reason = format!(
                "an adapter cannot be merged into an operator of kind {kind}: give the dense model"
            );
            let (path, place) = (self.path.clone(), format!("site {site}:"));
            return Err(CheckpointError::Adapted { path, place, reason });
        }
        slot.op().to_dense().map_err(|source| CheckpointError::Operator { site, source })
    }

    /// Adds to an embedding, whose weight is (tokens, features) and whose product is stored
    /// transposed.
    fn add_to_table(
        &self,
        model: &mut Transformer,
        module: &str,
        parts: &BTreeMap<Part, String>,
    ) -> Result<(), CheckpointError> {
        let part = |part| self.part(module, parts, part);
        let (a, b) = (part(Part::EmbeddingA)?, part(Part::EmbeddingB)?);
        if model.config().tied_embeddings {
            return Err(self.wrong(a, TIED));
        }
        let names = aliases(model, &format!("{module}.weight"));
        let Some((name, shape)) = outside(model, &names) else {
            return Err(self.unknown(a, model));
        };
        let (tokens, features) = (shape[0], shape.get(1).copied().unwrap_or(1));
        let product = self.product(module, a, b, Shape { out: features, inp: tokens })?.transpose();
        let own = model.params_mut().into_iter().find(|(own, _)| *own == name);
        let Some((_, own)) = own else { return Err(self.unknown(a, model)) };
        own.iter_mut().zip(product.data()).for_each(|(own, added)| *own += added);
        self.check(a, own)
    }

    /// Rejects sums that overflow.
    fn check(&self, tensor: &str, sums: &[f32]) -> Result<(), CheckpointError> {
        match sums.iter().find(|sum| !sum.is_finite()) {
            Some(sum) => Err(self.wrong(tensor, format!("makes {sum} of a weight"))),
            None => Ok(()),
        }
    }
}

/// The name of a tensor without that of its adapter, which PEFT writes only for its own use.
fn without_name(tensor: &str) -> String {
    const NAME: &str = ".default";
    let tensor = tensor.replace(&format!(".modules_to_save{NAME}."), ".");
    let (name, end) = [".weight", ".bias"]
        .into_iter()
        .find_map(|end| Some((tensor.strip_suffix(end)?, end)))
        .unwrap_or((&tensor, ""));
    match name.strip_suffix(NAME) {
        Some(name) if name.contains(".lora_") => format!("{name}{end}"),
        _ => tensor,
    }
}

/// The reason why the embedding of some models is not changed.
const TIED: &str = "changes the embedding, which is also the output matrix (tie_word_embeddings): \
                    it is not known which of both is meant";

/// Replaces the weight of a layer.
fn set(slot: &mut LinearSlot, weight: Mat<f32>) -> Result<(), CheckpointError> {
    let site = slot.id().clone();
    let set = slot.replace(Op::Linear(Box::new(Dense::new(weight))));
    set.map(drop).map_err(|source| CheckpointError::Operator { site, source })
}

/// Name and shape of the tensor outside the layers with one of these names.
fn outside(model: &Transformer, names: &[String]) -> Option<(String, Vec<usize>)> {
    let mut tensor = None;
    model.for_each_tensor(&mut |name, shape, _| {
        if tensor.is_none() && names.iter().any(|known| known == name) {
            tensor = Some((name.to_owned(), shape.to_vec()));
        }
    });
    tensor
}

/// Scales rows to these lengths.
fn scale_rows(weight: &mut Mat<f32>, magnitudes: &[f32]) {
    for (row, magnitude) in magnitudes.iter().enumerate() {
        let row = weight.row_mut(row);
        let length = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt() as f32;
        row.iter_mut().for_each(|v| *v *= magnitude / length);
    }
}

/// Names that a module or tensor of PEFT may have in a model: encoders may be loaded without the
/// prefix of the whole model, and one output matrix was renamed.
fn aliases(model: &Transformer, name: &str) -> Vec<String> {
    let prefix = model.config().family.names.prefix;
    let mut names = vec![name.to_owned(), format!("{prefix}{name}")];
    names.extend(name.strip_prefix(prefix).filter(|_| !prefix.is_empty()).map(str::to_owned));
    let renamed = name.strip_prefix("lm_head").map(|rest| format!("embed_out{rest}"));
    names.extend(renamed);
    names
}
