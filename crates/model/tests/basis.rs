//! Models in another basis of the residual stream, and of fewer layers, in every family.

use crate::checkpoint_common::logits;
use crate::reference::Set;
use crate::tiny;
use linwright_model::Transformer;
use linwright_model::checkpoint::export::{ExportForm, ExportOptions, export};
use linwright_model::checkpoint::{Source, load};
use linwright_model::transformer::{BasisError, LayersError, centred_basis};
use linwright_ops::{LinearSlot, Sites};
use linwright_tensor::kernels::norm::NormKind;
use linwright_tensor::linalg::orthonormal_columns;
use linwright_tensor::{Mat, MatRef, RngKey};
use serde_json::json;

/// Sums in another basis are rounded otherwise.
const TOLERANCE: f32 = 1e-4;

/// Largest difference of logits, relative to the largest.
fn gap(a: &Transformer, b: &Transformer) -> f32 {
    let tokens = tiny::tokens(9, a.config().vocab, 3);
    let (a, b) = (logits(a, &tokens), logits(b, &tokens));
    let largest = a.data().iter().fold(0.0f32, |largest, a| largest.max(a.abs()));
    a.data().iter().zip(b.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest
}

/// A random basis of a model.
fn basis(model: &Transformer, kept: usize) -> Mat<f64> {
    let hidden = model.config().hidden;
    let random = |cols: usize| {
        let values = RngKey::new(9).stream().normals(hidden * cols, 1.0);
        Mat::from_vec(hidden, cols, values)
    };
    if model.config().norm.kind == NormKind::Rms {
        return orthonormal_columns(random(kept).view()).unwrap();
    }
    let mut directions = random(kept - 1);
    for j in 0..kept - 1 {
        let mean = (0..hidden).map(|i| directions.at(i, j)).sum::<f64>() / hidden as f64;
        (0..hidden).for_each(|i| *directions.at_mut(i, j) -= mean);
    }
    centred_basis(orthonormal_columns(directions.view()).unwrap().view())
}

/// Models whose residual stream can have another basis.
fn sets() -> Vec<(String, Transformer)> {
    let sets = Set::all("decoder").into_iter().map(|set| (set.stem.clone(), set.model()));
    let sets: Vec<_> = sets.filter(|(_, model)| model.check_basis().is_ok()).collect();
    assert!(sets.len() > 30, "{} sets", sets.len());
    sets
}

/// The source of a model of a set.
fn source(stem: &str) -> Source {
    let sets = Set::records("decoder");
    let (_, record) = sets.into_iter().find(|(other, _)| other == stem).expect("a record");
    Source {
        dir: "a set".into(),
        config: record["config"].as_object().expect("an object").clone(),
        companions: Vec::new(),
        folder: None,
        words: linwright_files::json::Words::default(),
        dtype: linwright_tensor::dtype::DType::F32,
    }
}

/// Keeps of rows of `width` numbers the part in a basis.
fn project(values: &mut [f32], basis: MatRef<'_, f64>) {
    for row in values.chunks_mut(basis.rows()) {
        let dot = |j: usize| {
            row.iter().enumerate().map(|(i, value)| f64::from(*value) * basis.at(i, j)).sum::<f64>()
        };
        let coordinates: Vec<f64> = (0..basis.cols()).map(dot).collect();
        for (i, value) in row.iter_mut().enumerate() {
            *value = coordinates.iter().zip(basis.row(i)).map(|(c, q)| c * q).sum::<f64>() as f32;
        }
    }
}

/// Removes from a model what it writes to the residual stream outside of a basis.
fn project_writers(model: &mut Transformer, basis: MatRef<'_, f64>) {
    let slots: Vec<String> = model.slots().into_iter().map(|slot| slot.id().to_string()).collect();
    let inner = |name: &str| name.contains("q_") || name.contains("k_") || name.contains("head");
    model.for_each_param_mut(&mut |name, values| {
        if !slots.iter().any(|slot| name.starts_with(slot.as_str())) && !inner(name) {
            // A norm multiplies every feature by the same number.
            let table = name.contains("embed") || name.contains("wte") || name.contains("wpe");
            if table || name.ends_with("bias") {
                project(values, basis);
            }
        }
    });
    let writes = |slot: &&mut LinearSlot| {
        let role = slot.role().to_string();
        slot.layer().is_some() && ["output", "down", "fc_out"].contains(&role.as_str())
    };
    for slot in model.slots_mut().into_iter().filter(writes) {
        let (out, inp) = (slot.shape().out, slot.shape().inp);
        let (op, bias) = slot.parts_mut();
        let weight = op.map_mut().params_mut().remove(0).values;
        let mut columns = Mat::from_vec(out, inp, weight.to_vec()).transpose();
        project(columns.data_mut(), basis);
        weight.copy_from_slice(columns.transpose().data());
        bias.into_iter().for_each(|bias| project(bias, basis));
    }
}

#[test]
fn in_a_whole_basis_a_model_computes_the_same() {
    for (stem, model) in sets() {
        let turned = model.in_basis(basis(&model, model.config().hidden).view()).unwrap();
        let off = gap(&model, &turned);
        assert!(off < TOLERANCE, "{stem}: off by {off:e}");
    }
}

#[test]
fn in_a_part_of_a_basis_a_model_computes_as_if_the_rest_were_zero() {
    for (stem, mut model) in sets() {
        // Its MLP absorbs the bias of a norm that its attention, without biases, cannot.
        if stem.starts_with("gptj") {
            model.for_each_param_mut(&mut |name, values| {
                if name.ends_with("ln_1.bias") {
                    values.fill(0.0);
                }
            });
        }
        let hidden = model.config().hidden;
        let part = basis(&model, hidden / 2);
        let small = model.in_basis(part.view()).unwrap();
        assert_eq!(small.config().hidden, hidden / 2);
        assert_eq!(small.config().head_dim, model.config().head_dim);
        // Norms without weights, so that those of the rest are not part of the head.
        let mut whole = model.in_basis(Mat::identity(hidden).view()).unwrap();
        project_writers(&mut whole, part.view());
        let off = gap(&whole, &small);
        assert!(off < TOLERANCE, "{stem}: off by {off:e}");
        assert!(gap(&model, &small) > 10.0 * TOLERANCE, "{stem}");
        let wide = model.within_basis(part.view()).unwrap();
        assert_eq!(wide.config().hidden, hidden);
        let off = gap(&wide, &small);
        assert!(off < TOLERANCE, "{stem} in its width: off by {off:e}");
    }
}

#[test]
fn models_without_one_basis_are_refused_with_the_reason() {
    let refused = |model_type: &str, changes| {
        let model = Transformer::random(tiny::config(model_type, changes), RngKey::new(1));
        model.check_basis().unwrap_err().to_string()
    };
    for (model_type, changes, reason) in [
        ("gemma2", json!({}), "a norm after a block"),
        ("olmo2", json!({}), "a norm after a block"),
        ("opt", json!({"_remove_final_layer_norm": true, "ffn_dim": 20}), "its mean is lost"),
        ("opt", json!({"word_embed_proj_dim": 8, "ffn_dim": 20}), "another width"),
    ] {
        let found = refused(model_type, changes);
        assert!(found.contains(reason), "{model_type}: {found}");
    }
    let encoder = Set::all("encoder").remove(0).model();
    assert!(matches!(encoder.check_basis(), Err(BasisError::Architecture { .. })));
}

#[test]
fn a_basis_is_checked() {
    let llama = tiny::decoder(tiny::config("llama", json!({})), 1);
    let refused = |basis: Mat<f64>| llama.in_basis(basis.view()).unwrap_err();
    let wide = BasisError::Shape { rows: 23, kept: 4, hidden: 24, least: 1 };
    assert_eq!(refused(Mat::zeros(23, 4)), wide);
    assert!(matches!(refused(Mat::zeros(24, 4)), BasisError::NotOrthonormal { off: 1.0 }));
    assert!(matches!(refused(Mat::zeros(24, 0)), BasisError::Shape { .. }));
    let olmo = tiny::decoder(tiny::config("olmo", json!({})), 1);
    let without_mean = Mat::from_fn(24, 4, |i, j| f64::from(i == j));
    let found = olmo.in_basis(without_mean.view()).unwrap_err();
    assert!(matches!(found, BasisError::Mean { .. }), "{found}");
}

#[test]
fn a_model_in_a_part_of_a_basis_is_written_as_a_narrower_one_of_its_family() {
    let mut written = Vec::new();
    for (stem, model) in sets() {
        let small = model.in_basis(basis(&model, model.config().hidden / 2).view()).unwrap();
        let source = source(&stem);
        let out = tempfile::tempdir().unwrap();
        let dir = out.path().join("small");
        let options = ExportOptions { form: Some(ExportForm::Width), ..ExportOptions::default() };
        match export(&small, &source, &options, &dir) {
            Ok(_) => {
                let read = load(&dir).unwrap().decoder;
                assert_eq!(read.config(), small.config(), "{stem}");
                written.push(stem);
            }
            // Heads of another width than the stream's share cannot be said.
            Err(error) => assert!(error.to_string().contains("head"), "{stem}: {error}"),
        }
    }
    for family in ["llama", "qwen2", "qwen3", "mistral", "gemma", "olmo", "phi-", "smollm3"] {
        assert!(written.iter().any(|stem| stem.starts_with(family)), "{family}: {written:?}");
    }
    assert!(!written.iter().any(|stem| stem.starts_with("gpt2")), "{written:?}");
}

/// Sets what a layer adds to the residual stream to zero.
fn silence(model: &mut Transformer, layer: usize) {
    let slots = model.slots_mut().into_iter().filter(|slot| slot.layer() == Some(layer));
    for slot in slots {
        let (op, bias) = slot.parts_mut();
        op.map_mut().params_mut().into_iter().for_each(|param| param.values.fill(0.0));
        bias.into_iter().for_each(|bias| bias.fill(0.0));
    }
}

#[test]
fn without_layers_a_model_computes_as_if_they_added_nothing() {
    let mut compared = 0;
    for set in Set::all("decoder") {
        let (stem, model) = (&set.stem, set.model());
        let layers = model.config().layers.len();
        for gone in 0..layers {
            let kept: Vec<usize> = (0..layers).filter(|layer| *layer != gone).collect();
            if kept.is_empty() {
                continue;
            }
            let short = model.keep_layers(&kept).unwrap();
            let names: Vec<_> = short.slots().into_iter().map(|slot| slot.id().clone()).collect();
            assert_eq!(names.len(), names.iter().collect::<std::collections::BTreeSet<_>>().len());
            // A norm of nothing is its bias, and one of the sum changes the stream.
            if model.config().placement != linwright_model::config::Placement::Before {
                continue;
            }
            let mut silent = model.clone();
            silence(&mut silent, gone);
            let off = gap(&silent, &short);
            assert!(off < TOLERANCE, "{stem} without {gone}: off by {off:e}");
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared} models");
}

#[test]
fn layers_are_kept_in_order() {
    let model = tiny::decoder(tiny::config("llama", json!({})), 1);
    for found in [vec![], vec![1, 0], vec![0, 0], vec![2]] {
        let error = LayersError { found: found.clone(), layers: 2 };
        assert_eq!(model.keep_layers(&found).unwrap_err(), error);
    }
}

#[test]
fn a_model_of_fewer_layers_is_written_with_the_lists_of_their_kinds() {
    let (mut written, mut refused) = (Vec::new(), Vec::new());
    for set in Set::all("decoder") {
        let model = set.model();
        // The last layer alone has another kind in families with kinds.
        let last = model.config().layers.len() - 1;
        let short = model.keep_layers(&[last]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        match export(
            &short,
            &source(&set.stem),
            &ExportOptions::default(),
            &dir.path().join("short"),
        ) {
            Ok(_) => {
                let read = load(&dir.path().join("short")).unwrap().decoder;
                assert_eq!(read.config(), short.config(), "{}", set.stem);
                assert_eq!(gap(&read, &short), 0.0, "{}", set.stem);
                written.push(set.stem);
            }
            Err(error) => refused.push(format!("{}: {error}", set.stem)),
        }
    }
    assert!(written.len() > 40, "{refused:?}");
    // The scale of a layer follows from its number.
    assert!(refused.iter().any(|set| set.starts_with("gpt2-inverse-layer-scale")), "{refused:?}");
}
