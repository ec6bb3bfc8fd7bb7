//! Adapters: the difference of a model from its base.

use crate::checkpoint_common::{names, save_small, small_model};
use crate::reference::Set;
use linwright_files::TensorFile;
use linwright_model::Transformer;
use linwright_model::checkpoint::export::lora::{LoraOptions, export_lora};
use linwright_model::checkpoint::{Form, SaveOptions, save};
use linwright_ops::{Dense, LowRank, Network, Op, SiteId, Sites};
use linwright_tensor::{Mat, RngKey};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn random(name: &str, rows: usize, cols: usize) -> Mat<f32> {
    let stream = RngKey::new(4).fold(name).stream().normals(rows * cols, 0.3);
    Mat::from_vec(rows, cols, stream)
}

/// Adds a random matrix of a rank to a site.
fn add(model: &mut Transformer, site: &str, rank: usize) {
    let slot = model.slot_mut(&SiteId(site.into())).unwrap();
    let shape = slot.shape();
    let added = LowRank::new(random("b", shape.out, rank), random("a", rank, shape.inp));
    let added = Op::Linear(Box::new(added)).to_dense().unwrap();
    let mut weight = slot.op().to_dense().unwrap();
    weight.data_mut().iter_mut().zip(added.data()).for_each(|(w, d)| *w += d);
    slot.replace(Op::Linear(Box::new(Dense::new(weight)))).unwrap();
}

const Q: &str = "model.layers.0.self_attn.q_proj";
const DOWN: &str = "model.layers.1.mlp.down_proj";

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_difference_of_low_rank_is_stored_with_its_rank() {
    let dir = tempfile::tempdir().unwrap();
    let (base, out) = (dir.path().join("base"), dir.path().join("out"));
    save_small(&base);
    let (original, source) = small_model();
    let mut model = original.clone();
    add(&mut model, Q, 1);
    add(&mut model, DOWN, 2);
    add(&mut model, "model.layers.1.self_attn.o_proj", 2);
    let adapter = export_lora(&model, &source, &base, &LoraOptions::default(), &out).unwrap();
    let ranks: Vec<_> = adapter.sites.iter().map(|s| (s.site.0.as_str(), s.rank)).collect();
    assert_eq!(ranks, [(Q, 1), ("model.layers.1.self_attn.o_proj", 2), (DOWN, 2)]);
    assert!(adapter.sites.iter().all(|site| site.loss < 1e-5), "{adapter:?}");
    let settings = json_of(&out.join("adapter_config.json"));
    assert_eq!((&settings["r"], &settings["lora_alpha"]), (&json!(2), &json!(2)));
    assert_eq!(settings["rank_pattern"], json!({Q: 1}));
    assert_eq!(settings["alpha_pattern"], json!({Q: 1}));
    assert_eq!(
        (&settings["task_type"], &settings["fan_in_fan_out"]),
        (&json!("CAUSAL_LM"), &json!(false))
    );
    for name in ["README.md", "SHA256SUMS", "reproduce.json", "tokenizer.json"] {
        assert!(out.join(name).exists(), "{name}");
    }
    let file = TensorFile::open(&out.join("adapter_model.safetensors")).unwrap();
    assert_eq!(file.tensors().len(), 6);
    let name = |factor: &str| format!("base_model.model.{DOWN}.{factor}.weight");
    let b = Mat::from_vec(8, 2, file.read(&name("lora_B"), &[8, 2]).unwrap().values);
    let a = Mat::from_vec(2, 12, file.read(&name("lora_A"), &[2, 12]).unwrap().values);
    let product = Op::Linear(Box::new(LowRank::new(b, a))).to_dense().unwrap();
    let weight =
        |model: &Transformer| model.slot(&SiteId(DOWN.into())).unwrap().op().to_dense().unwrap();
    let (own, old) = (weight(&model), weight(&original));
    for ((own, old), added) in own.data().iter().zip(old.data()).zip(product.data()) {
        assert!((own - old - added).abs() < 1e-5);
    }
}

#[test]
fn a_difference_of_full_rank_is_refused_or_cut_with_its_loss() {
    let dir = tempfile::tempdir().unwrap();
    let (base, out) = (dir.path().join("base"), dir.path().join("out"));
    save_small(&base);
    let (mut model, source) = small_model();
    add(&mut model, Q, 8);
    let error = export_lora(&model, &source, &base, &LoraOptions::default(), &out).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("1 sites") && error.contains(&format!("{Q} (rank 8 of 8)")), "{error}");
    assert!(!out.exists());
    let cut = LoraOptions { rank: Some(2), ..LoraOptions::default() };
    let adapter = export_lora(&model, &source, &base, &cut, &out).unwrap();
    let site = &adapter.sites[0];
    assert_eq!((site.rank, site.full_rank), (2, 8));
    assert!(site.loss > 0.1 && site.loss < 1.0, "{site:?}");
    let cut = LoraOptions { energy: Some(0.9), force: true, ..LoraOptions::default() };
    let by_energy = export_lora(&model, &source, &base, &cut, &out).unwrap();
    let site = &by_energy.sites[0];
    assert!(site.rank < 8 && site.loss.powi(2) <= 0.1 + 1e-9, "{site:?}");
    for options in [
        LoraOptions { rank: Some(0), ..LoraOptions::default() },
        LoraOptions { energy: Some(0.0), ..LoraOptions::default() },
        LoraOptions { energy: Some(f64::NAN), ..LoraOptions::default() },
        LoraOptions { energy: Some(1.5), ..LoraOptions::default() },
    ] {
        let error = export_lora(&model, &source, &base, &options, &out).unwrap_err().to_string();
        assert!(error.contains("expected a"), "{error}");
    }
}

#[test]
fn factors_that_are_no_smaller_than_what_they_change_are_spoken_of() {
    let dir = tempfile::tempdir().unwrap();
    let (base, out) = (dir.path().join("base"), dir.path().join("out"));
    save_small(&base);
    let (mut model, source) = small_model();
    let sites: Vec<SiteId> = model.slots().iter().map(|slot| slot.id().clone()).collect();
    sites.iter().for_each(|site| add(&mut model, &site.0, 8));
    let export = |rank, force| {
        let options = LoraOptions { rank: Some(rank), force, ..LoraOptions::default() };
        export_lora(&model, &source, &base, &options, &out).unwrap()
    };
    let adapter = export(8, false);
    let [sites, whole] = &adapter.warnings[..] else { panic!("{:?}", adapter.warnings) };
    assert!(sites.contains(&format!("{Q} (128, weight 64)")), "{sites}");
    assert!(sites.contains(" more; a smaller rank"), "{sites}");
    let bytes = |count: u64| format!("{} bytes", 4 * count);
    let own = adapter.sites.iter().map(|site| site.parameters).sum();
    for said in [bytes(own), format!("the model {}", 4 * model.parameters()), "`dense`".into()] {
        assert!(whole.contains(&said), "{said}: {whole}");
    }
    let card = fs::read_to_string(out.join("README.md")).unwrap();
    assert!(adapter.warnings.iter().all(|warning| card.contains(warning.as_str())), "{card}");
    assert!(export(1, true).warnings.is_empty());
}

#[test]
fn rounding_of_the_storage_type_is_no_difference_of_rank() {
    let dir = tempfile::tempdir().unwrap();
    let (base, edited) = (dir.path().join("base"), dir.path().join("edited"));
    save_small(&base);
    let (mut model, source) = small_model();
    add(&mut model, Q, 1);
    let dtype = Some(linwright_tensor::dtype::DType::Bf16);
    let options = SaveOptions { dtype, ..SaveOptions::new(Form::Dense) };
    save(&model, &source, &options, &edited).unwrap();
    // Every tensor is rounded, norms of ones apart: nothing but the adapter may differ.
    let rounded = linwright_model::checkpoint::load(&edited).unwrap();
    let error =
        export_lora(&rounded.decoder, &rounded.source, &base, &LoraOptions::default(), &edited);
    assert!(error.unwrap_err().to_string().contains("exists already"));
    let mut mixed = rounded.source.clone();
    mixed.dtype = linwright_tensor::dtype::DType::Bf16;
    let q = rounded.decoder.slot(&SiteId(Q.into())).unwrap().op().clone();
    let (mut model, _) = small_model();
    model.slot_mut(&SiteId(Q.into())).unwrap().replace(q).unwrap();
    let out = dir.path().join("out");
    let adapter = export_lora(&model, &mixed, &base, &LoraOptions::default(), &out).unwrap();
    assert_eq!(adapter.sites[0].rank, 1, "{adapter:?}");
    assert!(adapter.resolution > 1e-3);
}

#[test]
fn modules_have_the_names_that_they_have_in_transformers() {
    let dir = tempfile::tempdir().unwrap();
    let (base, out) = (dir.path().join("base"), dir.path().join("out"));
    let set = Set::all("decoder").into_iter().find(|set| set.stem == "neox-parallel").unwrap();
    let loaded = set.load();
    save(&loaded.decoder, &loaded.source, &SaveOptions::new(Form::Dense), &base).unwrap();
    let mut model = loaded.decoder;
    add(&mut model, "embed_out", 1);
    export_lora(&model, &loaded.source, &base, &LoraOptions::default(), &out).unwrap();
    let settings = json_of(&out.join("adapter_config.json"));
    assert_eq!(settings["target_modules"], json!(["lm_head"]));
    let file = TensorFile::open(&out.join("adapter_model.safetensors")).unwrap();
    assert!(file.tensors().contains_key("base_model.model.lm_head.lora_A.weight"));
}

#[test]
fn another_base_is_told_apart_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let (base, out) = (dir.path().join("base"), dir.path().join("out"));
    save_small(&base);
    let (mut model, source) = small_model();
    let options = LoraOptions::default();
    let refused = |model: &Transformer, base: &Path, options: &LoraOptions, said: &str| {
        let error = export_lora(model, &source, base, options, &out).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(!out.exists() && names(dir.path()).iter().all(|name| !name.starts_with('.')));
    };
    refused(&model, &base, &options, "there is nothing to store");
    refused(&model, &dir.path().join("absent"), &options, "cannot read");
    let kept = linwright_model::transformer::KeptWidths { mlp: Some(vec![1]), heads: None };
    let narrow = model.keep_widths(&[kept.clone(), kept]).unwrap();
    refused(
        &narrow,
        &base,
        &options,
        "gate_proj.weight has shape [12, 8], that of the model [1, 8]",
    );
    add(&mut model, Q, 1);
    let full = LoraOptions { max_bytes: Some(100), ..LoraOptions::default() };
    refused(&model, &base, &full, "no space left");
    let mut other = model.clone();
    other.for_each_param_mut(&mut |name, values| {
        if name == "model.norm.weight" {
            values[0] += 1.0;
        }
    });
    refused(&other, &base, &options, "tensor model.norm.weight differs too");
    let weight = model.slot_mut(&SiteId(Q.into())).unwrap().op_mut().map_mut();
    weight.params_mut()[0].values[5] = f32::NAN;
    refused(&model, &base, &options, "q_proj.weight holds NaN at index 5");
}
