//! The export that llama.cpp reads: one file, with a card and a record beside it.

use crate::checkpoint_common::{logits, names, small_model};
use crate::reference::Set;
use linwright_files::TOKENIZER_FILES;
use linwright_model::checkpoint::export::{ExportError, ExportForm, ExportOptions, export};
use linwright_model::checkpoint::gguf::Gguf;
use linwright_model::checkpoint::{CheckpointError, LoadedModel, Source, load};
use linwright_model::tokenizer::{Bos, Tokenizer};
use linwright_model::transformer::KeptWidths;
use linwright_model::{Batch, Transformer, TransformerConfig};
use linwright_ops::{NoProbe, Op, OpSpec, Sites};
use linwright_tensor::dtype::DType;
use linwright_tensor::{Mat, RngKey};
use std::fs;
use std::path::Path;

const TOKENS: [u32; 9] = [0, 3, 10, 7, 7, 1, 2, 9, 4];
/// Share of the largest number: norms that are stored less one are rounded once more.
const STORED: f32 = 1e-5;

fn gguf(dtype: Option<DType>) -> ExportOptions {
    ExportOptions { form: Some(ExportForm::Gguf), dtype, ..ExportOptions::default() }
}

/// A model without the tokenizer, which is none that the format has a form of.
fn without_tokenizer() -> (Transformer, Source) {
    let (model, mut source) = small_model();
    source.companions.retain(|(name, _)| !name.starts_with("tokenizer"));
    source.companions.push(("LICENSE".into(), b"as you like".to_vec()));
    (model, source)
}

fn put(model: &mut Transformer, json: &str) {
    let spec: OpSpec = serde_json::from_str(json).unwrap();
    let slot = model.slots_mut().remove(0);
    let op: Op<f32> = spec.random(slot.shape(), RngKey::new(1)).unwrap();
    slot.replace(op).unwrap();
}

fn last_rows(model: &Transformer, tokens: &[u32]) -> Mat<f32> {
    let batch = Batch::new(&[tokens]);
    let mut hidden = model.embed(&batch).unwrap();
    let layers = 0..model.config().layers.len();
    model.run_layers(&mut hidden, &batch, layers, &mut NoProbe).unwrap();
    if model.has_head() { model.logits(hidden.view()) } else { hidden }
}

#[test]
fn the_file_holds_the_model_and_its_folder_says_where_it_is_from() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let (mut model, source) = without_tokenizer();
    put(&mut model, r#"{"kind":"low_rank","rank":2}"#);
    for (dtype, file) in [
        (DType::F32, "model-F32.gguf"),
        (DType::F16, "model-F16.gguf"),
        (DType::Bf16, "model-BF16.gguf"),
    ] {
        let options = ExportOptions { force: true, ..gguf(Some(dtype)) };
        let done = export(&model, &source, &options, &out).unwrap();
        assert_eq!(
            names(&out),
            [".linwright", "LICENSE", "README.md", "SHA256SUMS", file, "reproduce.json"]
        );
        let largest = logits(&model, &TOKENS).data().iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let off = done.saved.gap.largest / largest;
        assert!(if dtype == DType::F32 { off < STORED } else { off > 0.0 && off < 0.1 }, "{off}");
        assert_eq!(done.sizes.stored, model.config().parameters());
        let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
        assert!(sums.contains(&format!("  {file}\n")) && sums.contains("  reproduce.json\n"));
        let card = fs::read_to_string(out.join("README.md")).unwrap();
        assert!(card.contains("library_name: gguf\n") && card.contains("llama-cli -m"), "{card}");
        let record = fs::read_to_string(out.join("reproduce.json")).unwrap();
        assert!(record.contains("\"form\": \"gguf\""), "{record}");
        let back = load(&out.join(file)).unwrap();
        // The directory is the model, too, while it holds one.
        assert_eq!(load(&out).unwrap().hash, back.hash);
        fs::copy(out.join(file), out.join("other.gguf")).unwrap();
        let error = load(&out).unwrap_err().to_string();
        assert!(error.contains(&format!("2 GGUF files, {file} and other.gguf")), "{error}");
        fs::remove_file(out.join("other.gguf")).unwrap();
        let gap = difference(&logits(&model, &TOKENS), &logits(&back.decoder, &TOKENS));
        assert!(gap <= 2.0 * done.saved.gap.largest + STORED * largest, "{gap}");
    }
}

fn difference(a: &Mat<f32>, b: &Mat<f32>) -> f32 {
    a.data().iter().zip(b.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn models_of_every_family_come_back_or_are_refused_with_what_the_format_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let (mut written, mut refused) = (Vec::new(), Vec::new());
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let LoadedModel { decoder, mut source, .. } = set.load();
        source.companions.clear();
        let out = dir.path().join(&set.stem);
        match export(&decoder, &source, &gguf(Some(DType::F32)), &out) {
            Ok(_) => {
                let back = load(&out.join("model-F32.gguf")).unwrap();
                let tokens: Vec<u32> =
                    (0..20).map(|t| t * 7 % decoder.config().vocab as u32).collect();
                let (own, found) =
                    (last_rows(&decoder, &tokens), last_rows(&back.decoder, &tokens));
                let largest = own.data().iter().fold(0.0f32, |m, x| m.max(x.abs()));
                assert!(difference(&own, &found) < STORED * largest, "{}", set.stem);
                written.push(set.stem);
            }
            Err(ExportError::Checkpoint(error)) => {
                let known = matches!(
                    error,
                    CheckpointError::NoGguf(_)
                        | CheckpointError::Says { .. }
                        | CheckpointError::Gguf { .. }
                );
                assert!(known, "{}: {error}", set.stem);
                assert!(!out.exists());
                refused.push(format!("{}: {error}", set.stem));
            }
            Err(error) => panic!("{}: {error}", set.stem),
        }
    }
    for stem in ["llama-tied", "gpt2-plain", "qwen2-biases", "gemma-tied", "phi3-longrope"] {
        assert!(written.iter().any(|other| other == stem), "{stem} of {written:?}: {refused:#?}");
    }
    for (stem, said) in [
        ("gemma-untied-biases", "attention_bias is true"),
        ("llama-yarn-exact-range", "truncate is false"),
        ("qwen2-window-layers", "use_sliding_window is true"),
        ("bert-masked", "cls.predictions.transform.LayerNorm.weight has no name in GGUF"),
    ] {
        let found = refused.iter().find(|refusal| refusal.starts_with(&format!("{stem}: ")));
        assert!(found.is_some_and(|refusal| refusal.contains(said)), "{stem}: {refused:#?}");
    }
    assert!(written.len() >= 20, "{written:?}, not {refused:#?}");
}

/// A number of a GGUF file, by its key.
fn number_of(path: &std::path::Path, key: &str) -> Option<f64> {
    let bytes = std::fs::read(path).unwrap();
    let header = linwright_files::gguf::parse(&bytes).unwrap();
    header.metadata.get(key).and_then(linwright_files::gguf::MetaValue::as_f64)
}

/// llama.cpp takes the scale of cosines and sines from a key, and 1 without it.
#[test]
fn the_scale_of_long_positions_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for set in Set::all("decoder").into_iter().filter(|set| set.stem == "phi3-longrope") {
        let LoadedModel { decoder, mut source, .. } = set.load();
        source.companions.clear();
        let out = dir.path().join(&set.stem);
        export(&decoder, &source, &gguf(Some(DType::F32)), &out).unwrap();
        let path = out.join("model-F32.gguf");
        let factor = f64::from(decoder.config().ropes[0].attention_factor());
        assert!(factor > 1.01, "the model says something: {factor}");
        let found = number_of(&path, "phi3.rope.scaling.attn_factor").expect("is written");
        assert!((found - factor).abs() < 1e-6, "{found}, not {factor}");
        assert!(number_of(&path, "phi3.rope.scaling.original_context_length").is_some());
        let back = load(&path).unwrap().decoder;
        let read = f64::from(back.config().ropes[0].attention_factor());
        assert!((read - factor).abs() < 1e-6, "{read}, not {factor}");
        seen += 1;
    }
    assert!(seen > 0, "there is a model with such positions");
}

#[test]
fn what_the_format_cannot_hold_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let refused = |model: &Transformer, source: &Source, options: &ExportOptions, said: &str| {
        let error = export(model, source, options, &out).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(names(dir.path()).is_empty());
    };
    let (model, source) = without_tokenizer();
    refused(&model, &source, &gguf(Some(DType::F64)), "the storage type is F64");
    let full = ExportOptions { max_bytes: Some(1000), ..gguf(Some(DType::F32)) };
    refused(&model, &source, &full, "no space left");
    let kept = |n: usize| KeptWidths { mlp: Some((0..n).collect()), heads: None };
    let mixed = model.keep_widths(&[kept(2), kept(3)]).unwrap();
    refused(&mixed, &source, &gguf(None), "form gguf: layer 0 has");
    let mut other = model.clone();
    put(&mut other, r#"{"kind":"rotor_network","hidden_width":4,"hidden_layers":1}"#);
    refused(&other, &source, &gguf(None), "q_proj");
    let mut nan = model.clone();
    nan.slots_mut()[0].op_mut().map_mut().params_mut()[0].values[1] = f32::NAN;
    refused(&nan, &source, &gguf(Some(DType::F32)), "NaN");
    let mut vocabulary = source.clone();
    vocabulary.companions.push(("tokenizer.json".into(), b"[]".to_vec()));
    refused(&model, &vocabulary, &gguf(None), "tokenizer.json: not a tokenizer");
}

#[test]
fn the_name_inside_is_that_of_the_model_and_not_of_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let (model, mut source) = without_tokenizer();
    let bytes = |source: &Source, (place, name): (&str, Option<&str>)| {
        let out = dir.path().join(place);
        let mut options = gguf(Some(DType::F16));
        options.card.base_model = name.map(str::to_owned);
        export(&model, source, &options, &out).unwrap();
        fs::read(out.join("model-F16.gguf")).unwrap()
    };
    let name = |path: &Path| {
        let gguf = Gguf::open(path).unwrap();
        format!("{:?}", gguf.contents().header.metadata)
    };
    let unnamed = bytes(&source, ("a", None));
    assert_eq!(bytes(&source, ("b", None)), unnamed);
    source.config.insert("_name_or_path".into(), serde_json::json!("somebody/before"));
    assert_eq!(
        bytes(&source, ("b2", None)),
        unnamed,
        "that is what the model itself was made from"
    );
    assert_ne!(bytes(&source, ("c", Some("somebody/small"))), unnamed);
    assert!(name(&dir.path().join("c/model-F16.gguf")).contains("somebody/small"));
}

/// Texts with spaces, digits and letters of several scripts.
const TEXTS: [&str; 6] = [
    "Once upon a time there was a boat named Lily 2.",
    "two  spaces, and one at the end ",
    "In 2024: 1234567 + 3.14159\n\n\tok",
    "na\u{ef}ve \u{dc}bergr\u{f6}\u{df}e e\u{301}",
    "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{6587} \u{1f600}",
    "don't THEY'RE I'll",
];

/// A tiny model of the family of a set, with the tokenizer of a folder.
fn with_tokenizer(set: &str, folder: &str) -> (Transformer, Source) {
    let all = Set::all("decoder").into_iter().chain(Set::all("encoder"));
    let LoadedModel { mut source, .. } =
        all.into_iter().find(|other| other.stem == set).unwrap().load();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tokenizers").join(folder);
    let vocab = Tokenizer::from_folder(&dir).unwrap().vocab();
    source.companions = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .filter(|(name, _)| TOKENIZER_FILES.contains(&name.as_str()))
        .collect();
    source.config.insert("vocab_size".into(), vocab.into());
    let config = TransformerConfig::from_json(&source.config.clone().into()).unwrap();
    // The ends of an encoder have no place in the format.
    let config = TransformerConfig { pooler: false, masked_head: false, ..config };
    (Transformer::random(config, RngKey::new(3)), source)
}

#[test]
fn every_tokenizer_comes_back_with_the_same_ids_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (set, folder, refused) in [
        ("llama-tied", "llama", None),
        ("llama-tied", "llama-json", None),
        ("llama-tied", "llama-legacy", None),
        ("llama-tied", "llama-no-prefix", None),
        ("mistral-head-dim", "mistral-json", None),
        ("gemma-tied", "gemma", None),
        ("qwen2-biases", "qwen2", None),
        ("gpt2-plain", "gpt2", None),
        // A space before the text is nothing that readers put there for this kind.
        ("gpt2-plain", "gpt2-added", Some("its tokenizer encodes \"a\" as [0 65]")),
        ("minilm-shaped", "bert-uncased", None),
        // The format does not say that letters keep their size, nor has it a form of the other.
        ("minilm-shaped", "bert-cased", Some("its tokenizer encodes ")),
        ("llama-tied", "sentencepiece-bare", None),
    ] {
        let (model, source) = with_tokenizer(set, folder);
        let out = dir.path().join(folder);
        let done = export(&model, &source, &gguf(Some(DType::F32)), &out);
        if let Some(said) = refused {
            let error = done.unwrap_err().to_string();
            assert!(error.contains(said), "{folder}: {error}");
            assert!(!out.exists());
            continue;
        }
        done.unwrap_or_else(|error| panic!("{folder}: {error}"));
        let own = source.tokenizer(model.config()).unwrap().unwrap();
        let read = load(&out.join("model-F32.gguf")).unwrap().tokenizer.unwrap();
        for text in TEXTS {
            let ids = |tokenizer: &Tokenizer| match model.config().is_causal() {
                true => tokenizer.encode_document(text, Bos::Auto).unwrap(),
                false => tokenizer.encode_with_special(text).unwrap(),
            };
            assert_eq!(ids(&read), ids(&own), "{folder}: {text:?}");
        }
    }
}

/// llama.cpp opens no file of these families without an output matrix, and adds tables of positions
/// in f32 alone.
#[test]
fn what_llama_cpp_needs_of_tensors_is_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let header = |stem: &str| {
        let set = Set::all("decoder").into_iter().find(|set| set.stem == stem).unwrap();
        let LoadedModel { decoder, mut source, .. } = set.load();
        source.companions.clear();
        let out = dir.path().join(stem);
        export(&decoder, &source, &gguf(Some(DType::F16)), &out).unwrap();
        let path = out.join("model-F16.gguf");
        assert!(load(&path).unwrap().decoder.config().tied_embeddings, "{stem}");
        linwright_files::gguf::parse(&fs::read(path).unwrap()).unwrap()
    };
    for (stem, stored) in [
        ("neox-whole-rotary-tied", true),
        ("stablelm-biases-tied", true),
        ("llama-tied", false),
        ("gpt2-plain", false),
    ] {
        let header = header(stem);
        assert_eq!(header.tensors.contains_key("output.weight"), stored, "{stem}");
        if let Some(positions) = header.tensors.get("position_embd.weight") {
            assert_eq!(positions.dtype.name, "F32", "{stem}");
        }
    }
}
