//! Saving a model and loading it back, in every form.

use crate::checkpoint_common::{config_json, logits, names, save_small, small_model};
use crate::reference::Set;
use linwright_files::{FileError, StoredType, TensorFile, weight_files};
use linwright_model::checkpoint::{CheckpointError, Form, SaveOptions, Source, load, save, verify};
use linwright_ops::{
    Backward, Dense, LinearOp, LowRank, Map, Op, OpSpec, Param, ParamMut, Shape, SiteId, Sites,
    Tape, Workspace,
};
use linwright_tensor::dtype::DType;
use linwright_tensor::{Mat, MatMut, MatRef, RngKey};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A family's model as it was saved and with one site replaced: both come back as they were, under
/// the names of their family and with matrices stored as theirs are.
#[test]
fn every_family_is_saved_and_comes_back() {
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let dir = tempfile::tempdir().unwrap();
        let mut loaded = set.load();
        let (dense, native) = (dir.path().join("dense"), dir.path().join("native"));
        let saved =
            save(&loaded.decoder, &loaded.source, &SaveOptions::new(Form::Dense), &dense).unwrap();
        assert_eq!(saved.gap.largest, 0.0, "{}", set.stem);
        let shapes = TensorFile::open(&dense.join("model.safetensors")).unwrap();
        let stored: Vec<_> = shapes
            .tensors()
            .iter()
            .map(|(name, info)| (name.clone(), info.shape.clone()))
            .collect();
        let mut expected = loaded.decoder.config().tensor_shapes();
        expected.sort();
        assert_eq!(stored, expected, "{}", set.stem);

        let slot = loaded.decoder.slots_mut().remove(0);
        let (id, shape) = (slot.id().clone(), slot.shape());
        slot.replace(Op::Linear(Box::new(low_rank(shape.out, shape.inp, 3)))).unwrap();
        save(&loaded.decoder, &loaded.source, &SaveOptions::new(Form::Native), &native).unwrap();
        let again = load(&native).unwrap();
        let spec = again.decoder.slot(&id).unwrap().op().map().spec();
        assert!(matches!(spec, OpSpec::LowRank(_)), "{}: {spec:?}", set.stem);
        assert_eq!(again.source.config["model_type"], loaded.source.config["model_type"]);
    }
}

/// What other programs choose a class by: model type, first of the classes, and whether Python
/// files are named.
fn class_of(dir: &Path) -> (String, Option<String>, bool) {
    let config = json_of(&dir.join("config.json"));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let class = text(&config["architectures"][0]);
    (text(&config["model_type"]).unwrap(), class, config.get("auto_map").is_some())
}

/// A program that knows the original class would load it with random numbers at every replaced
/// site.
#[test]
fn only_weights_that_a_class_can_load_bear_its_name_in_every_family() {
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let dir = tempfile::tempdir().unwrap();
        let mut loaded = set.load();
        // Files of another model's class, which do not come along.
        let elsewhere = json!({"AutoModel": "modeling_elsewhere.Model"});
        loaded.source.config.insert("auto_map".into(), elsewhere);
        let original = loaded.source.config.clone();
        let original = |key: &str| original.get(key).cloned().unwrap_or(Value::Null);
        let slot = loaded.decoder.slots_mut().remove(0);
        let shape = slot.shape();
        slot.replace(Op::Linear(Box::new(low_rank(shape.out, shape.inp, 3)))).unwrap();
        for form in [Form::Dense, Form::Native, Form::Factored] {
            let out = dir.path().join(format!("{form:?}"));
            let blocks = original("model_type") == "nemotron-nas";
            let saved = save(&loaded.decoder, &loaded.source, &SaveOptions::new(form), &out);
            if form == Form::Factored && blocks {
                let error = saved.unwrap_err().to_string();
                assert!(error.contains("for which transformers has no class"), "{error}");
                continue;
            }
            saved.unwrap();
            let (model_type, class, python) = class_of(&out);
            let said = format!("{} {form:?}: {model_type} {class:?}", set.stem);
            if form == Form::Dense {
                let found = (json!(model_type), json!(class));
                assert_eq!(found, (original("model_type"), original("architectures")[0].clone()));
                continue;
            }
            let class = class.unwrap();
            assert_eq!(
                (model_type.as_str(), python),
                ("linwright", form == Form::Factored),
                "{said}"
            );
            assert_eq!(class == "LinwrightNative", form == Form::Native, "{said}");
            let base = &json_of(&out.join("config.json"))["linwright"]["base"];
            let kept = (&base["model_type"], &base["architectures"]);
            assert_eq!(kept, (&original("model_type"), &original("architectures")), "{said}");
            let back = load(&out).unwrap().source.config;
            assert_eq!(back.get("model_type"), Some(&original("model_type")), "{said}");
            assert!(back.get("auto_map").is_none(), "{said}");
        }
    }
}

#[test]
fn native_directories_that_kept_the_type_of_the_original_are_still_read() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("native");
    let (mut decoder, source) = small_model();
    let site = SiteId("model.layers.1.self_attn.q_proj".into());
    let op = Op::Linear(Box::new(low_rank(8, 8, 3)));
    decoder.slot_mut(&site).unwrap().replace(op).unwrap();
    save(&decoder, &source, &SaveOptions::new(Form::Native), &out).unwrap();
    let mut config = json_of(&out.join("config.json"));
    let base = config["linwright"].as_object_mut().unwrap().remove("base").unwrap();
    for key in ["model_type", "architectures"] {
        config[key] = base[key].clone();
    }
    fs::write(out.join("config.json"), config.to_string()).unwrap();
    let loaded = load(&out).unwrap();
    assert_eq!(logits(&loaded.decoder, &TOKENS).data(), logits(&decoder, &TOKENS).data());
}

const TOKENS: [u32; 9] = [0, 3, 10, 7, 7, 1, 2, 9, 4];

fn low_rank(out: usize, inp: usize, rank: usize) -> LowRank<f32> {
    let key = RngKey::new(9);
    let factor = |name: &str, rows: usize, cols: usize| {
        Mat::from_vec(rows, cols, key.fold(name).stream().normals(rows * cols, 0.1))
    };
    LowRank::new(factor("u", out, rank), factor("v", rank, inp))
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_dense_model_comes_back_bit_for_bit_with_all_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    let saved = save_small(&out);
    assert_eq!((saved.gap.largest, saved.dtype), (0.0, DType::F32));
    let expected = [
        ".linwright",
        "SHA256SUMS",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
    ];
    assert_eq!(names(&out), expected);
    assert_eq!(names(dir.path()), ["model"]);

    let (decoder, source) = small_model();
    let loaded = load(&out).unwrap();
    assert_eq!(logits(&loaded.decoder, &TOKENS).data(), logits(&decoder, &TOKENS).data());
    assert_eq!(loaded.source.config, *config_json().as_object().unwrap());
    assert_eq!(loaded.source.companions.len(), source.companions.len());
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
    assert_eq!(loaded.hash.len(), 64);
    assert_eq!(loaded.tokenizer.unwrap().encode("t4 t9", false).unwrap(), [4, 9]);
    assert_eq!(saved.parameters, decoder.config().parameters());

    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), saved.files.len());
    for file in &saved.files {
        assert_eq!(fs::metadata(out.join(&file.name)).unwrap().len(), file.bytes);
        assert!(sums.contains(&format!("{}  {}\n", file.sha256, file.name)));
    }
}

#[test]
fn the_format_s_own_implementation_reads_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    save_small(&out);
    let bytes = fs::read(out.join("model.safetensors")).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for (name, shape) in small_model().0.config().tensor_shapes() {
        assert_eq!(tensors.tensor(&name).unwrap().shape(), shape, "{name}");
    }
}

#[test]
fn shards_hold_the_same_model_and_have_the_same_hash() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, cut) = (dir.path().join("whole"), dir.path().join("cut"));
    save_small(&whole);
    let (decoder, source) = small_model();
    let options = SaveOptions { shard_bytes: 1000, ..SaveOptions::new(Form::Dense) };
    save(&decoder, &source, &options, &cut).unwrap();
    let index = json_of(&cut.join("model.safetensors.index.json"));
    let map = index["weight_map"].as_object().unwrap();
    assert_eq!(map.len(), decoder.config().tensor_shapes().len());
    assert_eq!(index["metadata"]["total_size"], json!(4 * decoder.config().parameters()));
    let shards = names(&cut).into_iter().filter(|name| name.ends_with(".safetensors")).count();
    assert!(shards > 2 && cut.join(format!("model-00001-of-{shards:05}.safetensors")).exists());
    let [a, b] = [whole, cut].map(|dir| load(&dir).unwrap());
    assert_eq!(logits(&a.decoder, &TOKENS).data(), logits(&b.decoder, &TOKENS).data());
    assert_eq!(a.hash, b.hash);
}

#[test]
fn half_precision_is_named_in_the_configuration_and_close() {
    let dir = tempfile::tempdir().unwrap();
    for (dtype, name, bound) in [(DType::Bf16, "bfloat16", 2e-2), (DType::F16, "float16", 2e-3)] {
        let out = dir.path().join(name);
        let (decoder, source) = small_model();
        let options = SaveOptions { dtype: Some(dtype), ..SaveOptions::new(Form::Dense) };
        let saved = save(&decoder, &source, &options, &out).unwrap();
        assert!(saved.gap.largest > 0.0 && saved.gap.largest < bound, "{saved:?}");
        assert_eq!(json_of(&out.join("config.json"))["torch_dtype"], json!(name));
        let loaded = load(&out).unwrap();
        assert_eq!(loaded.source.dtype, dtype);
        // Saved again without a word about precision, it stays as it is, exactly.
        let again = dir.path().join(format!("{name}-again"));
        let options = SaveOptions::new(Form::Dense);
        let saved = save(&loaded.decoder, &loaded.source, &options, &again).unwrap();
        assert_eq!((saved.dtype, saved.gap.largest), (dtype, 0.0));
    }
}

#[test]
fn operators_come_back_in_native_form_and_as_dense_weights() {
    let dir = tempfile::tempdir().unwrap();
    let (native, dense) = (dir.path().join("native"), dir.path().join("dense"));
    let (mut decoder, source) = small_model();
    let site = SiteId("model.layers.1.self_attn.q_proj".into());
    let op = Op::Linear(Box::new(low_rank(8, 8, 3)));
    decoder.slot_mut(&site).unwrap().replace(op).unwrap();
    let mut options = SaveOptions::new(Form::Native);
    options.metadata.insert("recipe".into(), json!("test"));
    let saved = save(&decoder, &source, &options, &native).unwrap();
    assert_eq!(saved.gap.largest, 0.0);
    assert_eq!(saved.parameters, decoder.config().parameters() - 64 + 48);

    let config = json_of(&native.join("config.json"));
    let header = &config["linwright"]["sites"][&site.0];
    assert_eq!(header, &json!({"kind": "low_rank", "rank": 3, "shape": {"out": 8, "inp": 8}}));
    assert_eq!(config["linwright"]["schema"], json!(1));
    assert_eq!(config["linwright"]["recipe"], json!("test"));
    let loaded = load(&native).unwrap();
    let slot = loaded.decoder.slot(&site).unwrap();
    assert!(matches!(slot.op().map().spec(), OpSpec::LowRank(_)));
    assert_eq!(logits(&loaded.decoder, &TOKENS).data(), logits(&decoder, &TOKENS).data());

    let options = SaveOptions::new(Form::Dense);
    let saved = save(&loaded.decoder, &loaded.source, &options, &dense).unwrap();
    assert!(saved.gap.largest < 1e-5, "{saved:?}");
    assert!(json_of(&dense.join("config.json")).get("linwright").is_none());
    let back = load(&dense).unwrap();
    assert!(matches!(back.decoder.slot(&site).unwrap().op().map().spec(), OpSpec::Dense(_)));
}

/// An operator of another crate.
#[derive(Clone, Debug)]
struct Foreign(LowRank<f32>);

impl Map<f32> for Foreign {
    fn spec(&self) -> OpSpec {
        OpSpec::External { name: "foreign" }
    }
    fn shape(&self) -> Shape {
        self.0.shape()
    }
    fn macs_per_row(&self) -> u64 {
        self.0.macs_per_row()
    }
    fn params(&self) -> Vec<Param<'_, f32>> {
        self.0.params()
    }
    fn params_mut(&mut self) -> Vec<ParamMut<'_, f32>> {
        self.0.params_mut()
    }
    fn forward(
        &self,
        x: MatRef<'_, f32>,
        y: MatMut<'_, f32>,
        tape: Option<&mut Tape<f32>>,
        ws: &mut Workspace<f32>,
    ) {
        self.0.forward(x, y, tape, ws);
    }
    fn backward(&self, args: Backward<'_, '_, f32>, ws: &mut Workspace<f32>) {
        self.0.backward(args, ws);
    }
    fn clone_op(&self) -> Op<f32> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl LinearOp<f32> for Foreign {}

#[test]
fn operators_of_other_crates_are_saved_in_dense_form_only() {
    let dir = tempfile::tempdir().unwrap();
    let (native, dense) = (dir.path().join("native"), dir.path().join("dense"));
    let (mut decoder, source) = small_model();
    let site = SiteId("model.layers.1.self_attn.q_proj".into());
    decoder.slot_mut(&site).unwrap().replace(Foreign(low_rank(8, 8, 3)).clone_op()).unwrap();
    let error = save(&decoder, &source, &SaveOptions::new(Form::Native), &native).unwrap_err();
    for said in [site.0.as_str(), "foreign", "save the model in dense form"] {
        assert!(error.to_string().contains(said), "{error}");
    }
    assert!(!native.exists());
    let saved = save(&decoder, &source, &SaveOptions::new(Form::Dense), &dense).unwrap();
    assert!(saved.gap.largest < 1e-5, "{saved:?}");
}

#[test]
fn operators_survive_half_precision_in_both_forms() {
    let dir = tempfile::tempdir().unwrap();
    for (form, dtype) in [Form::Native, Form::Dense]
        .into_iter()
        .flat_map(|form| [(form, DType::F16), (form, DType::Bf16)])
    {
        let (mut decoder, source) = small_model();
        // Large factors of a small product: what rounding does to it shows in the logits.
        for (k, name) in ["q_proj", "o_proj"].into_iter().enumerate() {
            let site = SiteId(format!("model.layers.{k}.self_attn.{name}"));
            let mut op = low_rank(8, 8, 3);
            op.params_mut().into_iter().for_each(|p| p.values.iter_mut().for_each(|v| *v *= 30.0));
            decoder.slot_mut(&site).unwrap().replace(Op::Linear(Box::new(op))).unwrap();
        }
        let out = dir.path().join(format!("{form:?}-{dtype:?}"));
        let options = SaveOptions { dtype: Some(dtype), ..SaveOptions::new(form) };
        let saved = save(&decoder, &source, &options, &out).unwrap();
        assert!(saved.gap.largest > 0.0, "rounding is reported: {saved:?}");
        let prompts = vec![TOKENS.to_vec()];
        assert!(verify(&out, &decoder, &prompts, form).is_ok());
        let (other, _) = small_model();
        let error = verify(&out, &other, &prompts, form).unwrap_err();
        assert!(matches!(error, CheckpointError::Differs { .. }), "{error}");
    }
}

#[test]
fn a_tied_head_is_stored_once_and_another_one_beside_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("tied");
    let (_, mut source) = small_model();
    source.config.insert("tie_word_embeddings".into(), json!(true));
    let config =
        linwright_model::TransformerConfig::from_json(&Value::Object(source.config.clone()))
            .unwrap();
    let decoder = linwright_model::Transformer::random(config, RngKey::new(1));
    save(&decoder, &source, &SaveOptions::new(Form::Dense), &out).unwrap();
    assert!(load(&out).unwrap().notes.is_empty());
    // A copy of the embedding, as older exporters wrote it, is no other head.
    let file = fs::read(out.join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let mut all = tensors.tensors();
    all.push(("lm_head.weight".into(), tensors.tensor("model.embed_tokens.weight").unwrap()));
    fs::write(out.join("model.safetensors"), safetensors::serialize(all, None).unwrap()).unwrap();
    let copied = load(&out).unwrap();
    assert!(copied.decoder.config().tied_embeddings);
    let note = "lm_head.weight is not used: config.json ties it to the embedding";
    assert_eq!(copied.notes, [note]);
    // The untied weights have a head of their own, whatever the flag says.
    let other = dir.path().join("untied");
    save_small(&other);
    fs::copy(other.join("model.safetensors"), out.join("model.safetensors")).unwrap();
    let loaded = load(&out).unwrap();
    assert!(loaded.notes.len() == 1 && loaded.notes[0].starts_with("lm_head.weight is used"));
    let expected = logits(&load(&other).unwrap().decoder, &TOKENS);
    assert_eq!(logits(&loaded.decoder, &TOKENS).data(), expected.data());
    // What is saved says what it is.
    let again = dir.path().join("again");
    save(&loaded.decoder, &loaded.source, &SaveOptions::new(Form::Dense), &again).unwrap();
    let again = load(&again).unwrap();
    assert!(again.notes.is_empty() && !again.decoder.config().tied_embeddings);
    assert_eq!(logits(&again.decoder, &TOKENS).data(), expected.data());
}

/// One function decides which files of a directory are its weights.
#[test]
fn weights_are_the_same_files_to_whoever_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    let (decoder, source) = small_model();
    let options = SaveOptions { shard_bytes: 1000, ..SaveOptions::new(Form::Dense) };
    save(&decoder, &source, &options, &out).unwrap();
    let paths = |files: Vec<TensorFile>| -> Vec<PathBuf> {
        files.iter().map(|file| file.path().to_owned()).collect()
    };
    let shards = paths(weight_files(&out).unwrap());
    assert!(shards.len() > 2, "{shards:?}");
    // Without their list the files are those of the directory.
    fs::remove_file(out.join("model.safetensors.index.json")).unwrap();
    assert_eq!(paths(weight_files(&out).unwrap()), shards);
    let loaded = load(&out).unwrap();
    assert_eq!(logits(&loaded.decoder, &TOKENS).data(), logits(&decoder, &TOKENS).data());
    // A tensor that lies in two of them can be looked at, and is not a part of a model.
    fs::copy(&shards[0], out.join("z.safetensors")).unwrap();
    assert_eq!(weight_files(&out).unwrap().len(), shards.len() + 1);
    let error = load(&out).unwrap_err();
    assert!(matches!(error, CheckpointError::File(FileError::TwoFiles { .. })), "{error}");
    assert!(error.to_string().contains("z.safetensors; a model has each tensor once"), "{error}");
}

#[test]
fn a_forced_save_replaces_its_own_source_but_no_file_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    save_small(&out);
    fs::write(out.join("old"), "old").unwrap();
    let mut loaded = load(&out).unwrap();
    let site = SiteId("model.layers.0.mlp.up_proj".into());
    let weight = Mat::from_fn(12, 8, |i, j| (i * j) as f32 * 0.01);
    let op = Op::Linear(Box::new(Dense::new(weight)));
    loaded.decoder.slot_mut(&site).unwrap().replace(op).unwrap();
    let options = SaveOptions { force: true, ..SaveOptions::new(Form::Native) };
    let error = save(&loaded.decoder, &loaded.source, &options, &out).unwrap_err();
    assert!(error.to_string().contains("holds old"), "{error}");
    fs::remove_file(out.join("old")).unwrap();
    save(&loaded.decoder, &loaded.source, &options, &out).unwrap();
    let back = load(&out).unwrap();
    assert_eq!(logits(&back.decoder, &TOKENS).data(), logits(&loaded.decoder, &TOKENS).data());
    assert_eq!(names(dir.path()), ["model"]);
}

#[test]
fn a_copy_that_differs_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    save_small(&out);
    let (mut decoder, _) = small_model();
    let prompts = vec![TOKENS.to_vec()];
    assert_eq!(verify(&out, &decoder, &prompts, Form::Native).unwrap().largest, 0.0);
    decoder.for_each_param_mut(&mut |name, values| {
        if name == "model.layers.1.mlp.down_proj.weight" {
            values[3] += 0.5;
        }
    });
    let error = verify(&out, &decoder, &prompts, Form::Dense).unwrap_err();
    assert!(matches!(error, CheckpointError::Differs { .. }), "{error}");
}

#[test]
fn a_large_vocabulary_is_compared_block_by_block_and_in_every_row() {
    let dir = tempfile::tempdir().unwrap();
    // Several blocks of the vocabulary; extents whose products take different paths.
    let cases = [(64, true, 9_001), (64, false, 9_001), (24, false, 9_001), (24, true, 4_097)];
    for (k, (hidden, tied, vocab)) in cases.into_iter().enumerate() {
        let mut json = config_json();
        let fields = json.as_object_mut().unwrap();
        fields.insert("vocab_size".into(), json!(vocab));
        fields.insert("hidden_size".into(), json!(hidden));
        fields.insert("tie_word_embeddings".into(), json!(tied));
        fields.insert("max_position_embeddings".into(), json!(64));
        fields.remove("head_dim");
        let config = linwright_model::TransformerConfig::from_json(&json).unwrap();
        let mut decoder = linwright_model::Transformer::random(config, RngKey::new(3));
        let mut source = Source::of_new_model(decoder.config(), Vec::new());
        source.config = json.as_object().unwrap().clone();
        let out = dir.path().join(k.to_string());
        let saved = save(&decoder, &source, &SaveOptions::new(Form::Native), &out).unwrap();
        assert_eq!(saved.gap.largest, 0.0, "hidden {hidden}, tied {tied}");

        // The last row of the vocabulary, for which no prompt asks.
        decoder.for_each_param_mut(&mut |name, values| {
            if name == "model.embed_tokens.weight" {
                *values.last_mut().unwrap() += 0.5;
            }
        });
        let error = verify(&out, &decoder, &[TOKENS.to_vec()], Form::Native).unwrap_err();
        assert!(matches!(error, CheckpointError::Differs { .. }), "{error}");
        let (other, _) = small_model();
        let error = verify(&out, &other, &[TOKENS.to_vec()], Form::Native).unwrap_err();
        assert!(matches!(error, CheckpointError::Differs { .. }), "{error}");
    }
}

#[test]
fn tensors_of_no_use_are_listed_and_harmless_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    save_small(&out);
    let bytes = fs::read(out.join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut all: Vec<_> = tensors.tensors();
    let extra = [0u8; 8];
    let view = |dtype| safetensors::tensor::TensorView::new(dtype, vec![1], &extra).unwrap();
    let rotary = "model.layers.0.self_attn.rotary_emb.inv_freq".to_owned();
    all.push((rotary, view(safetensors::Dtype::F64)));
    all.push(("vision.patch".to_owned(), view(safetensors::Dtype::I64)));
    let file = safetensors::serialize(all, None).unwrap();
    fs::write(out.join("model.safetensors"), file).unwrap();
    let notes = load(&out).unwrap().notes;
    assert_eq!(notes, ["tensors that this model does not use: vision.patch"]);
    assert_eq!(StoredType::I64.name(), "I64");
}

/// Somebody else writes to the file while it is read: an error, not the end of the process.
#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    save_small(&model);
    let path = model.join("model.safetensors");
    let file = TensorFile::open(&path).unwrap();
    let name = "model.embed_tokens.weight";
    let info = &file.tensors()[name];
    let shape = info.shape.clone();
    fs::File::options().write(true).open(&path).unwrap().set_len(info.bytes.start as u64).unwrap();
    let error = file.read(name, &shape).unwrap_err();
    assert!(matches!(&error, FileError::Read { path: at, .. } if *at == path), "{error}");
}

#[test]
fn a_model_is_the_same_in_every_form() {
    let folder = |name: &str| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pickles").join(name)
    };
    let [expected, others @ ..] = ["safetensors", "pickle", "shards", "consolidated"].map(|form| {
        load(&folder("model").join(form)).unwrap_or_else(|error| panic!("{form}: {error}"))
    });
    assert!(!expected.notes.iter().any(|note| note.contains("left out")));
    for other in &others {
        assert_eq!(other.hash, expected.hash);
        assert_eq!(other.source.dtype, expected.source.dtype);
    }
    assert!(others[2].notes.iter().any(|n| n.starts_with("consolidated.00.pth: the weights are")));
    let dir = tempfile::tempdir().unwrap();
    for name in ["config.json", "consolidated.00.pth"] {
        fs::copy(folder("model/consolidated").join(name), dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("consolidated.01.pth"), "").unwrap();
    let error = load(dir.path()).unwrap_err().to_string();
    assert!(error.contains("split for several devices"), "{error}");
}

#[test]
fn settings_of_generation_that_cannot_be_read_are_noted_and_an_adapter_is_no_companion() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("my model");
    save_small(&model);
    for text in
        ["{", "", "\u{feff}{}", "[]", "{\"do_sample\": true, \"top_p\": NaN, \"top_k\": -1}"]
    {
        std::fs::write(model.join("generation_config.json"), text).unwrap();
        let (settings, note) = load(&model).unwrap().source.generation_settings(11, &[]).unwrap();
        assert!(note.unwrap().contains("it is ignored"), "{text}");
        assert_eq!((settings.choice.top_p, settings.choice.top_k), (None, None));
    }
    std::fs::write(model.join("adapter_config.json"), r#"{"peft_type": "LORA"}"#).unwrap();
    let told = load(&model).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("my model' -o merged`"), "{told}");
    assert!(told.contains("move adapter_config.json away"), "{told}");
}

#[test]
fn numbers_that_are_not_finite_are_saved_as_python_wrote_them() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    save_small(&model);
    let text = fs::read_to_string(model.join("config.json")).unwrap();
    let with = "{\"router_bias\": NaN, \"limits\": [-Infinity, Infinity, \"NaN\"],";
    fs::write(model.join("config.json"), text.replacen('{', with, 1)).unwrap();
    let loaded = load(&model).unwrap();
    let out = dir.path().join("out");
    save(&loaded.decoder, &loaded.source, &SaveOptions::new(Form::Dense), &out).unwrap();
    let saved = fs::read_to_string(out.join("config.json")).unwrap();
    for line in ["\"router_bias\": NaN,", "    -Infinity,\n    Infinity,\n    \"NaN\"\n"] {
        assert!(saved.contains(line), "{line}: {saved}");
    }
    assert_eq!(load(&out).unwrap().source.config, loaded.source.config);
}
