//! Exports of the tiny reference models in every form, with what the models compute, for the
//! comparison with other runtimes:
//!
//! ```sh
//! cargo run -p linwright-model --example export_sets -- testdata OUT
//! ```
//!
//! Every folder of OUT is an export, beside it `<folder>.json` with the token sequences and the
//! logits, or the last hidden rows where there is no head.

use linwright_model::checkpoint::export::lora::{LoraOptions, export_lora};
use linwright_model::checkpoint::export::{Card, ExportForm, ExportOptions, export};
use linwright_model::checkpoint::{Form, LoadedModel, SaveOptions, load, save};
use linwright_model::transformer::{KeptHeads, KeptWidths};
use linwright_model::{Batch, Transformer};
use linwright_ops::{LinearSlot, LowRank, NoProbe, Op, OpSpec, Shape, Sites};
use linwright_tensor::dtype::DType;
use linwright_tensor::linalg::svd;
use linwright_tensor::{Mat, RngKey};
use serde_json::{Value, json};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Sets whose operators are exported in every form that holds them: one of each family that
/// transformers has a class for.
const EDITED: [&str; 21] = [
    "decoder/llama-head-dim-biases",
    "decoder/mistral-head-dim",
    "decoder/qwen2-biases",
    "decoder/qwen3-qk-norms",
    "decoder/gemma-tied",
    "decoder/gemma2-softcaps-window",
    "decoder/gemma3-two-ropes",
    "decoder/phi-parallel",
    "decoder/phi3-longrope",
    "decoder/gpt2-plain",
    "decoder/gptj-parallel",
    "decoder/neox-parallel",
    "decoder/opt-pre-norm",
    "decoder/stablelm-sequential",
    "decoder/smollm3-no-rope-layers",
    "decoder/olmo-clip",
    "decoder/olmo2-post-norms",
    "encoder/bert-masked",
    "encoder/minilm-shaped",
    "encoder/roberta-masked",
    "encoder/distilbert-masked",
];
/// Sets that are compared with a base.
const ADAPTED: [&str; 4] =
    ["decoder/llama-tied", "decoder/gpt2-plain", "decoder/neox-parallel", "encoder/bert-masked"];
/// Sets of which heads and features are left out.
const NARROWED: [&str; 6] = [
    "decoder/llama-head-dim-biases",
    "decoder/mistral-head-dim",
    "decoder/gpt2-plain",
    "decoder/opt-pre-norm",
    "decoder/qwen3-qk-norms",
    "encoder/bert-masked",
];
/// Sets that are written as one file for llama.cpp.
const GGUF: [&str; 3] = ["decoder/llama-tied", "decoder/qwen2-biases", "decoder/gpt2-plain"];
/// Kinds that are put into slots in turn, where they exist for the shape.
const KINDS: [&str; 9] = [
    r#"{"kind":"diagonal_low_rank","rank":2}"#,
    r#"{"kind":"kronecker","terms":2}"#,
    r#"{"kind":"monarch","blocks":2}"#,
    r#"{"kind":"submatrix","outputs":3,"inputs":5}"#,
    r#"{"kind":"block_hadamard","depth":1,"blocks":2}"#,
    r#"{"kind":"circulant_diagonal","factors":2}"#,
    r#"{"kind":"sum","terms":[{"kind":"monarch","blocks":2},{"kind":"low_rank","rank":2}]}"#,
    r#"{"kind":"product","factors":[{"kind":"low_rank","rank":3},{"kind":"diagonal_low_rank","rank":1}]}"#,
    r#"{"kind":"block_hadamard","depth":2,"block":4,"blocks":2}"#,
];

fn main() -> Result<()> {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [testdata, out] = words.as_slice() else {
        return Err("give the folder of references and the one to write".into());
    };
    fs::create_dir_all(out)?;
    let work = Work { testdata, out };
    for set in EDITED {
        work.edited(set)?;
    }
    for set in NARROWED {
        work.narrowed(set)?;
    }
    for set in GGUF {
        let (loaded, sequences) = work.load(set)?;
        let folder = format!("{}-gguf", name(set));
        work.export(&folder, &loaded.decoder, &loaded, ExportForm::Gguf, &sequences)?;
    }
    work.blocks("decoder/llama-tied")?;
    work.blocks("decoder/mistral-head-dim")?;
    work.whole_blocks("decoder/decilm-blocks")?;
    for set in ADAPTED {
        work.adapted(set)?;
    }
    Ok(())
}

struct Work<'a> {
    testdata: &'a Path,
    out: &'a Path,
}

impl Work<'_> {
    /// The model of a set and its first token sequences.
    fn load(&self, set: &str) -> Result<(LoadedModel, Vec<Vec<u32>>)> {
        let path = self.testdata.join(set);
        let record: Value = serde_json::from_slice(&fs::read(path.with_extension("json"))?)?;
        let dir = self.out.join(format!("{}-original", name(set)));
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("config.json"), record["config"].to_string())?;
        fs::copy(path.with_extension("safetensors"), dir.join("model.safetensors"))?;
        let sequences: Vec<Vec<u32>> = serde_json::from_value(record["sequences"].clone())?;
        let short = sequences.into_iter().take(2).collect();
        Ok((load(&dir)?, short))
    }

    /// Exports a model and writes down what it computes.
    fn export(
        &self,
        folder: &str,
        model: &Transformer,
        loaded: &LoadedModel,
        form: ExportForm,
        sequences: &[Vec<u32>],
    ) -> Result<()> {
        let dtype = Some(DType::F32);
        let options =
            ExportOptions { form: Some(form), dtype, force: true, ..ExportOptions::default() };
        export(model, &loaded.source, &options, &self.out.join(folder))?;
        self.write(folder, form.name(), model, sequences)
    }

    fn write(
        &self,
        folder: &str,
        form: &str,
        model: &Transformer,
        sequences: &[Vec<u32>],
    ) -> Result<()> {
        let mut results = Vec::new();
        for tokens in sequences {
            let rows = last_rows(model, tokens)?;
            let rows: Vec<&[f32]> = (0..rows.rows()).map(|i| rows.row(i)).collect();
            results.push(json!(rows));
        }
        let auto = match (model.config().is_causal(), model.has_head()) {
            (true, _) => "AutoModelForCausalLM",
            (false, true) => "AutoModelForMaskedLM",
            (false, false) => "AutoModel",
        };
        let record = json!({
            "form": form, "auto": auto, "sequences": sequences, "results": results,
        });
        fs::write(self.out.join(format!("{folder}.json")), record.to_string())?;
        Ok(())
    }

    /// One slot, all slots of low rank, and all slots of other kinds; the second also in native
    /// form, which nothing else may load, and as dense weights.
    fn edited(&self, set: &str) -> Result<()> {
        let (loaded, sequences) = self.load(set)?;
        type Change = dyn Fn(usize, &mut LinearSlot) -> Result<()>;
        let variants: [(&str, &Change); 3] = [
            ("one", &|index, slot| if index == 1 { halve(slot) } else { Ok(()) }),
            ("all", &|_, slot| halve(slot)),
            ("kinds", &other_kind),
        ];
        for (variant, change) in variants {
            let mut model = loaded.decoder.clone();
            for (index, slot) in model.slots_mut().into_iter().enumerate() {
                change(index, slot)?;
            }
            let folder = format!("{}-factored-{variant}", name(set));
            self.export(&folder, &model, &loaded, ExportForm::Factored, &sequences)?;
            if variant == "all" {
                for form in [ExportForm::Native, ExportForm::Dense] {
                    let folder = format!("{}-{}", name(set), form.name());
                    self.export(&folder, &model, &loaded, form, &sequences)?;
                }
            }
        }
        Ok(())
    }

    /// All layers alike, in the form of a smaller model.
    fn narrowed(&self, set: &str) -> Result<()> {
        let (loaded, sequences) = self.load(set)?;
        let kept = KeptWidths { mlp: Some(vec![5, 0, 3, 4]), heads: None };
        let layers = loaded.decoder.config().layers.len();
        let model = loaded.decoder.keep_widths(&vec![kept; layers])?;
        let folder = format!("{}-width", name(set));
        self.export(&folder, &model, &loaded, ExportForm::Width, &sequences)
    }

    /// Layers of different widths.
    fn blocks(&self, set: &str) -> Result<()> {
        let (loaded, sequences) = self.load(set)?;
        let layers = loaded.decoder.config().layers.len();
        let kept: Vec<KeptWidths> = (0..layers)
            .map(|layer| KeptWidths {
                mlp: Some((0..4 + layer).collect()),
                heads: (layer == 0).then(|| KeptHeads::KeyValue(vec![0])),
            })
            .collect();
        let model = loaded.decoder.keep_widths(&kept)?;
        let folder = format!("{}-blocks", name(set));
        self.export(&folder, &model, &loaded, ExportForm::Blocks, &sequences)
    }

    /// A model that has blocks already, some of them without attention or MLP.
    fn whole_blocks(&self, set: &str) -> Result<()> {
        let (loaded, sequences) = self.load(set)?;
        let folder = format!("{}-blocks", name(set));
        let model = loaded.decoder.clone();
        self.export(&folder, &model, &loaded, ExportForm::Blocks, &sequences)
    }

    /// An adapter of different ranks, and the base that it belongs to.
    fn adapted(&self, set: &str) -> Result<()> {
        let (loaded, sequences) = self.load(set)?;
        let base = self.out.join(format!("{}-base", name(set)));
        let options = SaveOptions { force: true, ..SaveOptions::new(Form::Dense) };
        save(&loaded.decoder, &loaded.source, &options, &base)?;
        let mut model = loaded.decoder.clone();
        for (index, slot) in model.slots_mut().into_iter().enumerate() {
            if index % 2 == 0 {
                add_low_rank(slot, 1 + index % 3)?;
            }
        }
        let folder = format!("{}-lora", name(set));
        let card = Card { base_model: Some(base.display().to_string()), results: None };
        let options = LoraOptions { force: true, card, ..LoraOptions::default() };
        export_lora(&model, &loaded.source, &base, &options, &self.out.join(&folder))?;
        self.write(&folder, "lora", &model, &sequences)
    }
}

fn name(set: &str) -> &str {
    set.rsplit('/').next().unwrap_or(set)
}

/// Logits, or hidden rows where there is no head.
fn last_rows(model: &Transformer, tokens: &[u32]) -> Result<Mat<f32>> {
    let batch = Batch::new(&[tokens]);
    let mut hidden = model.embed(&batch)?;
    model.run_layers(&mut hidden, &batch, 0..model.config().layers.len(), &mut NoProbe)?;
    Ok(if model.has_head() { model.logits(hidden.view()) } else { hidden })
}

/// The nearest weight of a third of the rank.
fn halve(slot: &mut LinearSlot) -> Result<()> {
    let dense = slot.op().to_dense()?.cast::<f64>();
    let svd = svd(dense.view())?;
    let rank = svd.s.len().div_ceil(3);
    let u = Mat::from_fn(dense.rows(), rank, |i, k| (svd.u.at(i, k) * svd.s[k]) as f32);
    let v = Mat::from_fn(rank, dense.cols(), |k, j| svd.vt.at(k, j) as f32);
    slot.replace(Op::Linear(Box::new(LowRank::new(u, v))))?;
    Ok(())
}

/// A random operator of the next kind that exists for the shape; few are square.
fn other_kind(index: usize, slot: &mut LinearSlot) -> Result<()> {
    let shape = slot.shape();
    for turn in 0..KINDS.len() {
        let spec: OpSpec = serde_json::from_str(KINDS[(index + turn) % KINDS.len()])?;
        if let Ok(op) = spec.random(shape, RngKey::new(index as u64)) {
            slot.replace(op)?;
            return Ok(());
        }
    }
    halve(slot)
}

/// Adds a random matrix of a rank.
fn add_low_rank(slot: &mut LinearSlot, rank: usize) -> Result<()> {
    let Shape { out, inp } = slot.shape();
    let key = RngKey::new(11).fold(&slot.id().0);
    let factor = |name: &str, rows, cols| {
        Mat::from_vec(rows, cols, key.fold(name).stream().normals::<f32>(rows * cols, 0.2))
    };
    let added = Op::Linear(Box::new(LowRank::new(factor("b", out, rank), factor("a", rank, inp))));
    let added = added.to_dense()?;
    let param = slot.op_mut().map_mut().params_mut().remove(0);
    param.values.iter_mut().zip(added.data()).for_each(|(w, d)| *w += d);
    Ok(())
}
