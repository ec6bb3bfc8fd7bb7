//! Weights held in 16 bits: the numbers, the results and the refusals of those held in f32.

use crate::checkpoint_common::{logits, save_small, small_model};
use crate::reference::Set;
use linwright_files::TensorFile;
use linwright_model::checkpoint::gguf::save_gguf;
use linwright_model::checkpoint::{
    Form, Precision, SaveOptions, Source, load, load_as, load_offloaded, save,
};
use linwright_model::generate::{Choice, Limits, generate};
use linwright_model::{Batch, ModelError, TrainingMemory, Transformer, TransformerGrads};
use linwright_ops::{Dense, Network, Op, OpSpec, Shape, Sites};
use linwright_tensor::dtype::DType;
use linwright_tensor::{HalfType, Mat, RngKey, Shelf};
use std::fs;
use std::path::Path;

const TOKENS: [u32; 9] = [0, 3, 10, 7, 7, 1, 2, 9, 4];
/// Logits differ at most in how products of few rows are summed.
const TOLERANCE: f32 = 2e-5;

/// The small model in 16 bits.
fn save_half(dir: &Path, dtype: DType) {
    let (decoder, source) = small_model();
    let options = SaveOptions { dtype: Some(dtype), ..SaveOptions::new(Form::Dense) };
    save(&decoder, &source, &options, dir).unwrap();
}

fn close(a: &Mat<f32>, b: &Mat<f32>, what: &str) {
    for (a, b) in a.data().iter().zip(b.data()) {
        assert!((a - b).abs() <= TOLERANCE * (1.0 + b.abs()), "{what}: {a} and {b}");
    }
}

fn is_half(decoder: &Transformer) -> Option<HalfType> {
    decoder.held_in_half().map(|(_, half)| half)
}

#[test]
fn every_family_computes_the_same_with_weights_as_they_are_stored() {
    for set in Set::all("decoder") {
        for (dtype, half) in [(DType::Bf16, HalfType::Bf16), (DType::F16, HalfType::F16)] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("model");
            let loaded = set.load();
            let options = SaveOptions { dtype: Some(dtype), ..SaveOptions::new(Form::Dense) };
            save(&loaded.decoder, &loaded.source, &options, &out).unwrap();
            let (wide, held) = (load(&out).unwrap(), load_as(&out, Precision::Auto).unwrap());
            assert_eq!((is_half(&wide.decoder), is_half(&held.decoder)), (None, Some(half)));
            assert_eq!(wide.hash, held.hash, "{}", set.stem);
            assert_eq!(wide.decoder.parameters(), held.decoder.parameters(), "{}", set.stem);
            for (a, b) in wide.decoder.slots().into_iter().zip(held.decoder.slots()) {
                assert_eq!(a.op().to_dense().unwrap(), b.op().to_dense().unwrap(), "{}", a.id());
            }
            let tokens = [1, 5, 2, 2, 7, 3];
            close(
                &logits(&held.decoder, &tokens),
                &logits(&wide.decoder, &tokens),
                &format!("{} in {half:?}", set.stem),
            );
        }
    }
}

fn shelf() -> Shelf {
    Shelf::of(tempfile::tempfile().unwrap())
}

#[test]
fn every_family_computes_and_saves_the_same_with_weights_in_files() {
    for set in Set::all("decoder") {
        for dtype in [DType::F32, DType::Bf16] {
            let dir = tempfile::tempdir().unwrap();
            let (out, again) = (dir.path().join("model"), dir.path().join("again"));
            let loaded = set.load();
            let options = SaveOptions { dtype: Some(dtype), ..SaveOptions::new(Form::Dense) };
            save(&loaded.decoder, &loaded.source, &options, &out).unwrap();
            let held = load_as(&out, Precision::Auto).unwrap();
            let filed = load_offloaded(&out, &shelf()).unwrap();
            let what = format!("{} in {dtype:?}", set.stem);
            assert_eq!(held.hash, filed.hash, "{what}");
            let tokens = [1, 5, 2, 2, 7, 3];
            let [a, b, c] = [&held, &filed, &filed].map(|m| logits(&m.decoder, &tokens));
            assert_eq!((&a, &a), (&b, &c), "{what}, released between two passes");
            save(&filed.decoder, &filed.source, &options, &again).unwrap();
            let [a, b] = [&out, &again].map(|dir| fs::read(dir.join("model.safetensors")).unwrap());
            assert!(a == b, "{what}");
        }
    }
}

#[test]
fn the_same_texts_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    save_half(&out, DType::Bf16);
    let write = |precision| {
        let model = load_as(&out, precision).unwrap().decoder;
        let limits = Limits { new_tokens: 12, end_tokens: Vec::new() };
        generate(&model, &[&TOKENS], &Choice::greedy(), &limits, &mut |_, _| true).unwrap()
    };
    assert_eq!(write(Precision::Auto), write(Precision::F32));
}

#[test]
fn more_bits_are_rounded_to_those_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    save_small(&out);
    assert_eq!(is_half(&load_as(&out, Precision::Auto).unwrap().decoder), None);
    let wide = load(&out).unwrap().decoder;
    for (precision, half) in [(Precision::Bf16, HalfType::Bf16), (Precision::F16, HalfType::F16)] {
        let held = load_as(&out, precision).unwrap().decoder;
        assert_eq!(is_half(&held), Some(half));
        for (a, b) in wide.slots().into_iter().zip(held.slots()) {
            let mut rounded = a.op().to_dense().unwrap();
            for value in rounded.data_mut() {
                let bytes = half.dtype().encode(&[*value]);
                *value = half.dtype().decode(&bytes)[0];
            }
            assert_eq!(rounded, b.op().to_dense().unwrap(), "{}", a.id());
        }
    }
}

/// Saving, which compares with what is in memory, editing and other formats.
#[test]
fn a_model_in_16_bits_is_edited_and_saved_as_any() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    save_half(&at("model"), DType::Bf16);
    let mut held = load_as(&at("model"), Precision::Auto).unwrap();
    for form in [Form::Dense, Form::Native] {
        let out = at(&format!("{form:?}"));
        save(&held.decoder, &held.source, &SaveOptions::new(form), &out).unwrap();
        let [a, b] = [&at("model"), &out].map(|dir| fs::read(dir.join("model.safetensors")));
        assert_eq!(a.unwrap(), b.unwrap(), "{form:?}");
    }
    let wider = SaveOptions { dtype: Some(DType::F32), ..SaveOptions::new(Form::Dense) };
    save(&held.decoder, &held.source, &wider, &at("wide")).unwrap();
    let narrower = SaveOptions { dtype: Some(DType::F16), ..SaveOptions::new(Form::Native) };
    save(&held.decoder, &held.source, &narrower, &at("narrow")).unwrap();
    let wide = load(&at("wide")).unwrap().decoder;
    close(&logits(&wide, &TOKENS), &logits(&held.decoder, &TOKENS), "saved in f32");

    let slot = held.decoder.slots_mut().remove(1);
    let weight = slot.op().to_dense().unwrap();
    slot.replace(Op::Linear(Box::new(Dense::new(weight)))).unwrap();
    close(&logits(&held.decoder, &TOKENS), &logits(&wide, &TOKENS), "one weight in f32");
}

#[test]
fn gguf_files_are_held_as_they_are_stored_too() {
    let dir = tempfile::tempdir().unwrap();
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/gguf/models/llama.gguf");
    let blocks = load(&golden).unwrap();
    let written = dir.path().join("written");
    let file =
        save_gguf(&blocks.decoder, &blocks.source, Some(DType::Bf16), false, &written).unwrap();
    let (wide, held) = (load(&file).unwrap(), load_as(&file, Precision::Auto).unwrap());
    assert_eq!((is_half(&wide.decoder), is_half(&held.decoder)), (None, Some(HalfType::Bf16)));
    let tokens = [1, 5, 2, 2, 7, 3];
    close(&logits(&held.decoder, &tokens), &logits(&wide.decoder, &tokens), "from GGUF");
    let again = dir.path().join("again");
    let copy = save_gguf(&held.decoder, &held.source, None, false, &again).unwrap();
    let copy = load(&copy).unwrap().decoder;
    assert_eq!(logits(&copy, &tokens), logits(&wide.decoder, &tokens), "to GGUF and back");
}

#[test]
fn training_is_refused_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    save_half(&out, DType::F16);
    let decoder = load_as(&out, Precision::Auto).unwrap().decoder;
    let batch = Batch::new(&[&TOKENS]);
    let error = decoder
        .loss_and_grads(
            &batch,
            &batch.next_tokens(),
            &mut TransformerGrads::zeros(&decoder),
            &mut TrainingMemory::default(),
        )
        .unwrap_err();
    assert!(matches!(error, ModelError::HeldInHalf { .. }), "{error}");
    assert!(error.to_string().contains("embed_tokens.weight is held in 16 bits"), "{error}");
    assert!(error.to_string().contains("--dtype f32"), "{error}");
}

#[test]
fn numbers_that_cannot_be_held_are_an_error_that_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    let (mut decoder, source) = small_model();
    decoder.for_each_param_mut(&mut |name, values| {
        if name == "model.layers.1.mlp.up_proj.weight" {
            values[5] = -70_000.0;
        }
    });
    save(&decoder, &source, &SaveOptions::new(Form::Dense), &out).unwrap();
    load_as(&out, Precision::Bf16).unwrap();
    let error = load_as(&out, Precision::F16).unwrap_err().to_string();
    for said in ["model.layers.1.mlp.up_proj.weight", "-70000", "index 5", "f16", "bf16 or f32"] {
        assert!(error.contains(said), "{said}: {error}");
    }

    let half = dir.path().join("half");
    save_half(&half, DType::Bf16);
    let path = half.join("model.safetensors");
    let name = "model.embed_tokens.weight";
    let place = TensorFile::open(&path).unwrap().tensors()[name].bytes.start + 2 * 13;
    let mut bytes = fs::read(&path).unwrap();
    bytes[place..place + 2].copy_from_slice(&0x7f80u16.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    for precision in Precision::ALL {
        let error = load_as(&half, precision).unwrap_err().to_string();
        for said in [name, "holds inf at index 13"] {
            assert!(error.contains(said), "{precision:?}, {said}: {error}");
        }
    }
    let error = load_offloaded(&half, &shelf()).unwrap_err().to_string();
    assert!(error.contains(name) && error.contains("holds inf at index 13"), "{error}");
}

/// The small model with an operator of this kind in place of every square layer that it can have.
fn with_operators(spec: &OpSpec) -> Option<(Transformer, Source)> {
    let (mut decoder, source) = small_model();
    for (index, slot) in decoder.slots_mut().into_iter().enumerate() {
        if slot.shape() == (Shape { out: 8, inp: 8 }) {
            slot.replace(spec.random(slot.shape(), RngKey::new(index as u64)).ok()?).unwrap();
        }
    }
    Some((decoder, source))
}

/// All floating-point numbers of the operators of a model.
fn parameters(decoder: &Transformer) -> Vec<f32> {
    let params =
        |op: &Op<f32>| op.map().params().into_iter().flat_map(|p| p.values.to_vec()).collect();
    decoder.slots().into_iter().flat_map(|slot| -> Vec<f32> { params(slot.op()) }).collect()
}

#[test]
fn operators_of_every_kind_have_the_numbers_of_a_file_in_16_bits() {
    let tokens = [0, 3, 10, 7];
    let mut tried = std::collections::BTreeSet::new();
    for (spec, _) in OpSpec::examples() {
        // Numbers of a dense weight are in no parameters, and have a test of their own.
        let Some((decoder, source)) = with_operators(&spec).filter(|_| spec.kind() != "dense")
        else {
            continue;
        };
        tried.insert(spec.kind());
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |dtype: DType, name: &str| {
            let options = SaveOptions { dtype: Some(dtype), ..SaveOptions::new(Form::Native) };
            save(&decoder, &source, &options, &at(name)).unwrap();
        };
        write(DType::F32, "wide");
        for (precision, half) in
            [(Precision::Bf16, HalfType::Bf16), (Precision::F16, HalfType::F16)]
        {
            write(half.dtype(), half.name());
            let held = load_as(&at("wide"), precision).unwrap().decoder;
            let stored = load_as(&at(half.name()), Precision::Auto).unwrap().decoder;
            let what = format!("{spec:?} in {}", half.name());
            assert_eq!(parameters(&held), parameters(&stored), "{what}");
            assert_ne!(parameters(&held), parameters(&decoder), "{what} is rounded");
            assert_eq!(logits(&held, &tokens), logits(&stored, &tokens), "{what}");
            // The same before a file is written, of which unrounded parts stay shared.
            let ahead = decoder.as_stored(half.dtype(), false, None).unwrap();
            assert_eq!(parameters(&ahead.model), parameters(&stored), "{what}");
            assert_eq!(logits(&ahead.model, &tokens), logits(&stored, &tokens), "{what}");
            let again = ahead.model.as_stored(half.dtype(), false, Some(&shelf())).unwrap();
            assert!(again.changed.is_empty(), "{what}: {:?}", again.changed);
        }
        let same = decoder.as_stored(DType::F32, true, None).unwrap();
        assert!(same.changed.is_empty() && parameters(&same.model) == parameters(&decoder));
    }
    let missing = OpSpec::KINDS.iter().filter(|kind| !tried.contains(*kind) && **kind != "dense");
    assert_eq!(missing.count(), 0, "{tried:?}");
}

#[test]
fn products_are_rounded_as_a_dense_file_rounds_them() {
    let spec: OpSpec = serde_json::from_str(r#"{"kind":"low_rank","rank":2}"#).unwrap();
    let (decoder, source) = with_operators(&spec).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = SaveOptions { dtype: Some(DType::Bf16), ..SaveOptions::new(Form::Dense) };
    save(&decoder, &source, &options, &dir.path().join("model")).unwrap();
    let stored = load_as(&dir.path().join("model"), Precision::Auto).unwrap().decoder;
    let ahead = decoder.as_stored(DType::Bf16, true, None).unwrap().model;
    for (a, b) in ahead.slots().into_iter().zip(stored.slots()) {
        assert_eq!(a.op().to_dense().unwrap(), b.op().to_dense().unwrap(), "{}", a.id());
    }
    assert_eq!(logits(&ahead, &TOKENS), logits(&stored, &TOKENS));
    // What the type cannot hold stays, for saving to name.
    let mut large = decoder.clone();
    large.slots_mut()[0].op_mut().map_mut().params_mut()[0].values[0] = 1e6;
    let kept = large.as_stored(DType::F16, false, None).unwrap().model;
    assert_eq!(kept.slots()[0].op().map().params()[0].values[0], 1e6);
    let options = SaveOptions { dtype: Some(DType::F16), ..SaveOptions::new(Form::Native) };
    assert!(save(&large, &source, &options, &dir.path().join("large")).is_err());
}
