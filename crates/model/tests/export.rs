//! Exports of whole models: their forms, cards and records.

use crate::checkpoint_common::{config_json, logits, names, small_model};
use crate::reference::Set;
use linwright_model::checkpoint::export::{
    ExportError, ExportForm, ExportOptions, choose, export, factored,
};
use linwright_model::checkpoint::{Form, SaveOptions, Sentence, Source, load, save};
use linwright_model::transformer::{KeptHeads, KeptWidths};
use linwright_model::{Transformer, TransformerConfig};
use linwright_ops::{Network, Op, OpSpec, Sites};
use linwright_tensor::RngKey;
use linwright_tensor::dtype::DType;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const TOKENS: [u32; 9] = [0, 3, 10, 7, 7, 1, 2, 9, 4];

fn put(model: &mut Transformer, index: usize, json: &str) {
    let spec: OpSpec = serde_json::from_str(json).unwrap();
    let slot = model.slots_mut().remove(index);
    let op: Op<f32> = spec.random(slot.shape(), RngKey::new(index as u64)).unwrap();
    slot.replace(op).unwrap();
}

fn low_rank_model() -> (Transformer, Source) {
    let (mut model, source) = small_model();
    put(&mut model, 0, r#"{"kind":"low_rank","rank":2}"#);
    (model, source)
}

fn asked(form: ExportForm) -> ExportOptions {
    ExportOptions { form: Some(form), ..ExportOptions::default() }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn widths(mlp: &[usize]) -> KeptWidths {
    KeptWidths { mlp: Some(mlp.to_vec()), heads: None }
}

#[test]
fn the_factored_form_has_a_type_of_its_own_and_comes_back_as_the_original() {
    let dir = tempfile::tempdir().unwrap();
    let (out, dense) = (dir.path().join("factored"), dir.path().join("dense"));
    let (model, source) = low_rank_model();
    let done = export(&model, &source, &asked(ExportForm::Factored), &out).unwrap();
    assert_eq!((done.saved.gap.largest, done.warnings.len()), (0.0, 0));
    let expected = [
        ".linwright",
        "README.md",
        "SHA256SUMS",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "modeling_linwright.py",
        "reproduce.json",
        "tokenizer.json",
    ];
    assert_eq!(names(&out), expected);
    let config = json_of(&out.join("config.json"));
    assert_eq!(config["model_type"], "linwright");
    assert_eq!(config["architectures"], json!(["LinwrightForCausalLM"]));
    let map = &config["auto_map"];
    assert_eq!(map["AutoModelForCausalLM"], "modeling_linwright.LinwrightForCausalLM");
    let base = &config["linwright"]["base"];
    assert_eq!(base["model_type"], "llama");
    let tensors = &base["tensors"]["model.layers.0.self_attn.q_proj"];
    assert_eq!(tensors, &json!({"parameters": {"u": [8, 2], "v": [2, 8]}, "buffers": {}}));

    let back = load(&out).unwrap();
    assert_eq!(logits(&back.decoder, &TOKENS).data(), logits(&model, &TOKENS).data());
    assert!(back.notes.is_empty(), "{:?}", back.notes);
    let saved = save(&back.decoder, &back.source, &SaveOptions::new(Form::Dense), &dense).unwrap();
    assert!(saved.gap.largest < 1e-5);
    let config = json_of(&dense.join("config.json"));
    assert_eq!(config, config_json());
}

#[test]
fn heads_and_poolers_of_encoders_may_be_replaced_too() {
    let dir = tempfile::tempdir().unwrap();
    for stem in ["bert-masked", "minilm-shaped", "distilbert-masked"] {
        let set = Set::all("encoder").into_iter().find(|set| set.stem == stem).unwrap();
        let loaded = set.load();
        let mut model = loaded.decoder;
        (0..model.slots().len())
            .for_each(|index| put(&mut model, index, r#"{"kind":"low_rank","rank":2}"#));
        for form in [ExportForm::Factored, ExportForm::Native] {
            let out = dir.path().join(format!("{stem}-{}", form.name()));
            export(&model, &loaded.source, &asked(form), &out).unwrap();
            let back = load(&out).unwrap().decoder;
            let ends = |model: &Transformer| (model.config().masked_head, model.config().pooler);
            assert_eq!(ends(&back), ends(&model), "{stem}");
        }
    }
}

#[test]
fn every_kind_that_the_python_file_lists_is_one_and_others_are_refused_by_name() {
    let kinds = OpSpec::exported_kinds();
    for kind in &kinds {
        assert!(factored::MODELLING.contains(&format!("    \"{kind}\": ")), "{kind}");
    }
    let listed = factored::MODELLING.lines().skip_while(|line| *line != "KINDS = {");
    let listed = listed.take_while(|line| *line != "}").filter(|line| line.starts_with("    \""));
    assert_eq!(listed.count(), kinds.len());

    let dir = tempfile::tempdir().unwrap();
    for (json, said) in [
        (r#"{"kind":"butterfly"}"#, "butterfly"),
        (r#"{"kind":"sum","terms":[{"kind":"low_rank","rank":1},{"kind":"rotor"}]}"#, "rotor"),
    ] {
        let (mut model, source) = small_model();
        put(&mut model, 0, json);
        let out = dir.path().join("refused");
        let error = export(&model, &source, &asked(ExportForm::Factored), &out).unwrap_err();
        let error = error.to_string();
        for said in [said, "model.layers.0.self_attn.q_proj", "native form"] {
            assert!(error.contains(said), "{error}");
        }
        assert!(names(dir.path()).is_empty());
    }
}

#[test]
fn a_factored_directory_without_its_base_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("factored");
    let (model, source) = low_rank_model();
    export(&model, &source, &asked(ExportForm::Factored), &out).unwrap();
    let path = out.join("config.json");
    let good = json_of(&path);
    for (pointer, said) in [
        ("/linwright", "linwright.base is missing"),
        ("/linwright/base", "linwright.base is missing"),
        ("/linwright/base/model_type", "linwright.base has no model_type"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = json!(7);
        fs::write(&path, bad.to_string()).unwrap();
        let error = load(&out).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn the_choice_follows_the_model() {
    let chosen = |model: &Transformer, source: &Source| {
        let choice = choose(model, source);
        assert!(!choice.reason.is_empty() && !choice.reason.contains('\n'));
        choice.form
    };
    let (model, source) = small_model();
    assert_eq!(chosen(&model, &source), ExportForm::Dense);
    let narrow = model.keep_widths(&[widths(&[1, 2]), widths(&[3, 0])]).unwrap();
    assert_eq!(chosen(&narrow, &source), ExportForm::Width);
    let mixed = model.keep_widths(&[widths(&[1, 2]), widths(&[3])]).unwrap();
    assert_eq!(chosen(&mixed, &source), ExportForm::Blocks);
    for (json, form, said) in [
        (r#"{"kind":"low_rank","rank":2}"#, ExportForm::Factored, "1 of 15"),
        (r#"{"kind":"low_rank","rank":4}"#, ExportForm::Dense, "no gain"),
        (r#"{"kind":"butterfly"}"#, ExportForm::Native, "butterfly"),
        (
            r#"{"kind":"rotor_network","hidden_width":4,"hidden_layers":1}"#,
            ExportForm::Native,
            "not linear",
        ),
    ] {
        let (mut model, source) = small_model();
        put(&mut model, 0, json);
        let choice = choose(&model, &source);
        assert_eq!(choice.form, form, "{json}: {}", choice.reason);
        assert!(choice.reason.contains(said), "{}", choice.reason);
    }
}

#[test]
fn operators_in_layers_of_different_widths_are_written_no_larger_than_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("mixed");
    let (model, source) = small_model();
    let mut mixed = model.keep_widths(&[widths(&[1, 2]), widths(&[3])]).unwrap();
    put(&mut mixed, 0, r#"{"kind":"low_rank","rank":2}"#);
    let done = export(&mixed, &source, &ExportOptions::default(), &out).unwrap();
    assert_eq!(done.choice.form, ExportForm::Native, "{}", done.choice.reason);
    assert_eq!(done.sizes.stored, mixed.parameters());
    let config = json_of(&out.join("config.json"));
    assert_eq!(config["model_type"], "linwright");
    assert_eq!(config["linwright"]["base"]["model_type"], "nemotron-nas");
    assert!(config.get("auto_map").is_none());
    let back = load(&out).unwrap();
    assert_eq!(logits(&back.decoder, &TOKENS).data(), logits(&mixed, &TOKENS).data());
    // Without a gain the dense weights are the smallest.
    put(&mut mixed, 0, r#"{"kind":"low_rank","rank":6}"#);
    assert_eq!(choose(&mixed, &source).form, ExportForm::Blocks);
}

#[test]
fn a_model_that_is_larger_than_dense_is_spoken_of() {
    let dir = tempfile::tempdir().unwrap();
    let (mut model, source) = small_model();
    put(&mut model, 0, r#"{"kind":"low_rank","rank":6}"#);
    let out = dir.path().join("large");
    let done = export(&model, &source, &asked(ExportForm::Factored), &out).unwrap();
    assert_eq!(done.warnings.len(), 2, "{:?}", done.warnings);
    assert!(done.warnings[0].contains("q_proj (96, dense 64)"), "{:?}", done.warnings);
    assert_eq!(done.sizes.stored, done.sizes.dense + 32);
    let card = fs::read_to_string(out.join("README.md")).unwrap();
    assert!(done.warnings.iter().all(|warning| card.contains(warning.as_str())), "{card}");
}

#[test]
fn a_dense_form_of_a_model_with_operators_says_what_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let (model, source) = low_rank_model();
    for form in [ExportForm::Width, ExportForm::Blocks, ExportForm::Dense, ExportForm::Gguf] {
        let mut source = source.clone();
        // Which GGUF has no field for.
        source.companions.clear();
        let out = dir.path().join(form.name());
        let done = export(&model, &source, &asked(form), &out).unwrap();
        let [warning] = &done.warnings[..] else { panic!("{form:?}: {:?}", done.warnings) };
        let (dense, stored) = (model.config().parameters(), model.parameters());
        assert_eq!(done.sizes.stored, dense);
        let name = form.name();
        let said = format!(
            "form {name} writes the operators of 1 of 15 linear layers as dense weights: {dense} \
             parameters, {stored} in form factored"
        );
        assert_eq!(*warning, said);
        assert!(fs::read_to_string(out.join("README.md")).unwrap().contains(&said));
    }
    let (small, source) = small_model();
    let done = export(&small, &source, &asked(ExportForm::Dense), &dir.path().join("all")).unwrap();
    assert!(done.warnings.is_empty(), "{:?}", done.warnings);
}

#[test]
fn widths_that_all_layers_share_make_a_smaller_model_of_the_same_kind() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = 0;
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let loaded = set.load();
        let layers = loaded.decoder.config().layers.len();
        let Ok(small) = loaded.decoder.keep_widths(&vec![widths(&[2, 0, 1]); layers]) else {
            assert!(set.stem.starts_with("decilm"), "{}", set.stem);
            continue;
        };
        let out = dir.path().join(&set.stem);
        let done = export(&small, &loaded.source, &asked(ExportForm::Width), &out).unwrap();
        assert_eq!(done.saved.gap.largest, 0.0, "{}", set.stem);
        let back = load(&out).unwrap();
        assert_eq!(back.decoder.config(), small.config(), "{}", set.stem);
        assert_eq!(back.source.config["model_type"], loaded.source.config["model_type"]);
        written += 1;
    }
    assert!(written > 40, "{written} sets");
}

#[test]
fn heads_that_a_configuration_cannot_say_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let kept = KeptWidths { mlp: None, heads: Some(KeptHeads::Groups(vec![0])) };
    let set = |stem: &str| Set::all("decoder").into_iter().find(|set| set.stem == stem).unwrap();
    let narrowed = |stem: &str| {
        let loaded = set(stem).load();
        let layers = loaded.decoder.config().layers.len();
        (loaded.decoder.keep_widths(&vec![kept.clone(); layers]).unwrap(), loaded.source)
    };
    // Its heads are always as wide as the model over their number.
    let (model, source) = narrowed("gpt2-plain");
    let error = export(&model, &source, &asked(ExportForm::Width), &dir.path().join("no"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("form width: a configuration of gpt2 cannot describe"), "{error}");
    let (model, source) = narrowed("llama-head-dim-biases");
    let out = dir.path().join("heads");
    export(&model, &source, &asked(ExportForm::Width), &out).unwrap();
    assert_eq!(load(&out).unwrap().decoder.config(), model.config());
}

#[test]
fn widths_of_layers_are_blocks_where_the_model_has_their_shape() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("blocks");
    let mut config = config_json();
    config["intermediate_size"] = json!(520);
    let decoder = TransformerConfig::from_json(&config).unwrap();
    let model = Transformer::random(decoder, RngKey::new(5));
    let (_, mut source) = small_model();
    source.config = config.as_object().unwrap().clone();
    let first: Vec<usize> = (0..512).collect();
    let mixed = model.keep_widths(&[widths(&first), widths(&[3, 1, 2])]).unwrap();
    let done = export(&mixed, &source, &asked(ExportForm::Blocks), &out).unwrap();
    assert_eq!(done.saved.gap.largest, 0.0);
    let written = json_of(&out.join("config.json"));
    assert_eq!(written["model_type"], "nemotron-nas");
    assert_eq!(written["architectures"], json!(["DeciLMForCausalLM"]));
    let blocks = &written["block_configs"];
    // 2/3 of 96 times 8 features are 512; 3 is not a multiple of 256 and stands alone.
    assert_eq!(blocks[0]["ffn"]["ffn_mult"], json!(96.0));
    assert_eq!(blocks[1]["ffn"]["intermediate_size"], json!(3));
    assert!(blocks[1]["ffn"].get("ffn_mult").is_none());
    assert_eq!(blocks[0]["attention"]["n_heads_in_group"], json!(2));
    assert!(out.join("modeling_blocks.py").exists());
    let card = fs::read_to_string(out.join("README.md")).unwrap();
    assert!(card.contains("it needs MLPs of multiples of 256"), "{card}");
    let back = load(&out).unwrap();
    assert_eq!(logits(&back.decoder, &TOKENS).data(), logits(&mixed, &TOKENS).data());

    // And back, where all layers are alike again.
    let alike = back.decoder.keep_widths(&[widths(&[0, 1, 2]), widths(&[0, 1, 2])]).unwrap();
    assert_eq!(choose(&alike, &back.source).form, ExportForm::Width);
    let plain = dir.path().join("plain");
    export(&alike, &back.source, &asked(ExportForm::Width), &plain).unwrap();
    let written = json_of(&plain.join("config.json"));
    assert_eq!(
        (&written["model_type"], &written["intermediate_size"]),
        (&json!("llama"), &json!(3))
    );
    assert!(written.get("block_configs").is_none() && written.get("auto_map").is_none());

    let error = export(&mixed, &source, &asked(ExportForm::Width), &dir.path().join("no"));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("layer 0 has 2 heads with 1 key heads and an MLP of 512, layer 1"),
        "{error}"
    );
}

#[test]
fn blocks_tell_query_heads_by_layer() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config_json();
    config["num_key_value_heads"] = config["num_attention_heads"].clone();
    let decoder = TransformerConfig::from_json(&config).unwrap();
    let model = Transformer::random(decoder, RngKey::new(5));
    let (_, mut source) = small_model();
    source.config = config.as_object().unwrap().clone();
    let one = KeptWidths { mlp: None, heads: Some(KeptHeads::Groups(vec![1])) };
    let mixed = model.keep_widths(&[one.clone(), KeptWidths::default()]).unwrap();
    assert_eq!(choose(&mixed, &source).form, ExportForm::Blocks);
    let out = dir.path().join("mixed");
    let done = export(&mixed, &source, &asked(ExportForm::Blocks), &out).unwrap();
    assert_eq!(done.saved.gap.largest, 0.0);
    let blocks = &json_of(&out.join("config.json"))["block_configs"];
    assert_eq!(blocks[0]["attention"]["n_heads"], json!(1));
    assert!(blocks[1]["attention"].get("n_heads").is_none());
    let card = fs::read_to_string(out.join("README.md")).unwrap();
    assert!(card.contains("it has as many query heads in every layer"), "{card}");
    // One head in every layer is an ordinary model, with a size of heads of its own.
    let single = model.keep_widths(&[one.clone(), one]).unwrap();
    for form in [ExportForm::Width, ExportForm::Blocks] {
        let out = dir.path().join(form.name());
        export(&single, &source, &asked(form), &out).unwrap();
        assert_eq!(load(&out).unwrap().decoder.config().layers, single.config().layers);
    }
}

#[test]
fn blocks_are_refused_for_models_of_another_shape() {
    let dir = tempfile::tempdir().unwrap();
    for (stem, said) in [
        ("gpt2-plain", "of the shape of llama, this is gpt2"),
        ("qwen2-biases", "a configuration of nemotron-nas cannot describe"),
        ("gemma2-no-caps", "form blocks: "),
        ("qwen3-qk-norms", "form blocks: "),
    ] {
        let set = Set::all("decoder").into_iter().find(|set| set.stem == stem).unwrap();
        let loaded = set.load();
        let out = dir.path().join("no");
        let done = export(&loaded.decoder, &loaded.source, &asked(ExportForm::Blocks), &out);
        let error = done.unwrap_err();
        assert!(matches!(error, ExportError::Form { form: "blocks", .. }), "{error}");
        assert!(error.to_string().contains(said), "{stem}: {error}");
        assert!(names(dir.path()).is_empty());
    }
}

#[test]
fn cards_and_records_tell_what_is_known_and_files_are_the_same_again() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    let (model, mut source) = low_rank_model();
    source.config.insert("_name_or_path".into(), json!("somebody/before"));
    source.config.insert("auto_map".into(), json!({"AutoModel": "elsewhere.Model"}));
    let mut options = SaveOptions::new(Form::Native);
    options.metadata.insert("seed".into(), json!(7));
    let card = "---\nlanguage: en\nlicense: apache-2.0\n---\n# Small\n";
    options.files.push(("README.md".into(), card.into()));
    save(&model, &source, &options, &from).unwrap();
    let loaded = load(&from).unwrap();
    let mut options = ExportOptions { shard_bytes: 1000, ..ExportOptions::default() };
    options.reproduce.insert("command".into(), json!(["linwright", "export"]));
    options.card.base_model = Some("somebody/small".into());
    options.card.results = Some(json!({
        "results": {"text": {"token_perplexity,none": 6.25, "alias": "text"}},
        "linwright": {"protocols": {"text": "a_protocol"}},
    }));
    let outs = ["a", "b"].map(|name| dir.path().join(name));
    let done = outs
        .each_ref()
        .map(|out| export(&loaded.decoder, &loaded.source, &options, out).unwrap().saved.files);
    assert_eq!(done[0], done[1]);
    let card = fs::read_to_string(outs[0].join("README.md")).unwrap();
    for said in [
        "base_model: \"somebody/small\"\nlibrary_name: transformers\nlicense: apache-2.0\n",
        "- custom_code\n",
        "| low_rank | 1 of 15 | 64 | 32 |",
        "| text | a_protocol | token_perplexity | 6.25 |",
        "| llama.cpp | no |",
    ] {
        assert!(card.contains(said), "{said}: {card}");
    }
    let again = dir.path().join("again");
    let loaded = load(&outs[0]).unwrap();
    export(&loaded.decoder, &loaded.source, &asked(ExportForm::Dense), &again).unwrap();
    let card = fs::read_to_string(again.join("README.md")).unwrap();
    assert!(card.contains("base_model: \"somebody/small\"\n"), "its base: {card}");
    let config = json_of(&outs[0].join("config.json"));
    assert!(config["auto_map"]["AutoModel"].as_str().unwrap().starts_with("modeling_linwright."));
    assert_eq!(config["linwright"]["seed"], json!(7));
    let record = json_of(&outs[0].join("reproduce.json"));
    assert_eq!((&record["form"], &record["seed"]), (&json!("factored"), &json!(7)));
    assert_eq!(record["command"], json!(["linwright", "export"]));
    let sums = fs::read_to_string(outs[0].join("SHA256SUMS")).unwrap();
    assert!(
        ["README.md", "reproduce.json", "modeling_linwright.py"].iter().all(|f| sums.contains(f))
    );
}

#[test]
fn the_weights_of_every_form_take_what_their_parameters_take() {
    let dir = tempfile::tempdir().unwrap();
    let (model, source) = low_rank_model();
    for (form, dtype) in [
        (ExportForm::Dense, DType::F32),
        (ExportForm::Factored, DType::Bf16),
        (ExportForm::Native, DType::F16),
    ] {
        let out = dir.path().join(form.name());
        let options = ExportOptions { dtype: Some(dtype), ..asked(form) };
        let done = export(&model, &source, &options, &out).unwrap();
        let bytes = fs::read(out.join("model.safetensors")).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let data = done.sizes.stored * dtype.size() as u64;
        assert_eq!(bytes.len() as u64, 8 + header + data, "{form:?}");
        assert_eq!(done.sizes.bytes, data);
    }
}

#[test]
fn outputs_that_cannot_be_written_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut model, source) = low_rank_model();
    let out = dir.path().join("out");
    let full = ExportOptions { max_bytes: Some(3000), ..asked(ExportForm::Factored) };
    let error = export(&model, &source, &full, &out).unwrap_err().to_string();
    assert!(error.contains("no space left"), "{error}");
    model.slots_mut()[0].op_mut().map_mut().params_mut()[0].values[1] = f32::NAN;
    let error = export(&model, &source, &asked(ExportForm::Factored), &out).unwrap_err();
    assert!(error.to_string().contains("q_proj.u holds NaN at index 1"), "{error}");
    assert!(names(dir.path()).is_empty());
    fs::create_dir(&out).unwrap();
    let error = export(&model, &source, &asked(ExportForm::Factored), &out).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
}

#[test]
fn folders_of_a_sentence_encoder_travel_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("from"), dir.path().join("out"));
    let (model, source) = small_model();
    save(&model, &source, &SaveOptions::new(Form::Dense), &from).unwrap();
    fs::create_dir(from.join("1_Pooling")).unwrap();
    fs::create_dir(from.join("other")).unwrap();
    fs::write(from.join("1_Pooling/config.json"), "{\"pooling_mode_mean_tokens\": true}").unwrap();
    fs::write(from.join("other/config.json"), "{}").unwrap();
    fs::write(from.join("sentence_bert_config.json"), "{\"max_seq_length\": 16}").unwrap();
    fs::write(from.join("config_sentence_transformers.json"), "{\"prompts\": {}}").unwrap();
    let list = from.join("modules.json");
    let modules = json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]);
    fs::write(&list, modules.to_string()).unwrap();
    let loaded = load(&from).unwrap();
    export(&loaded.decoder, &loaded.source, &asked(ExportForm::Dense), &out).unwrap();
    for name in [
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
    ] {
        assert_eq!(fs::read(from.join(name)).unwrap(), fs::read(out.join(name)).unwrap(), "{name}");
    }
    assert!(!out.join("other").exists());
    let name = |sentence: Result<Sentence, String>| sentence.unwrap().name();
    assert_eq!(name(load(&out).unwrap().sentence), name(loaded.sentence));
    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    assert!(sums.contains("  1_Pooling/config.json\n"), "{sums}");
    for (modules, said) in [
        (json!([{"type": "Pooling", "path": "../secret"}]), "\"../secret\" is not the name of"),
        (json!([{"type": "Pooling", "path": "/etc"}]), "is not the name of a folder"),
        (json!([{"type": "Pooling", "path": "a/b"}]), "is not the name of a folder"),
        (json!([{"type": "Pooling"}]), "a module is"),
        (json!({"path": "1_Pooling"}), "not a list"),
        (json!([{"type": "Transformer", "path": ""}, {"type": "Dense", "path": 3}]), "a module is"),
        (json!(vec![json!({"type": "Dense", "path": ""}); 33]), "33 modules, at most 32"),
    ] {
        fs::write(&list, modules.to_string()).unwrap();
        let error = load(&from).unwrap().sentence.unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}
