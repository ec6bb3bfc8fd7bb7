//! Properties of cuts.

use super::*;
use crate::methods::MethodSpec;
use crate::plan::{Edit, Plan, SlotSet};
use linwright_model::Role;
use linwright_model::{Transformer, TransformerConfig};
use linwright_ops::Sites;
use serde_json::json;

fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
    Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
}

/// A method and the size of its cut.
type Cut = (LaserMethod, Size);

fn done(weight: &Mat<f32>, (how, size): &Cut) -> Done {
    let components = Components::of(weight.view()).unwrap();
    cut(weight, how, *size, Some(&components), RngKey::new(3)).unwrap()
}

fn dense(weight: &Mat<f32>, how: &Cut) -> Mat<f32> {
    done(weight, how).op.to_dense().unwrap()
}

fn distance(a: &Mat<f32>, b: &Mat<f32>) -> f64 {
    assert_eq!((a.rows(), a.cols()), (b.rows(), b.cols()));
    let pairs = a.data().iter().zip(b.data());
    pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}

fn reduction(rank: usize) -> Cut {
    (LaserMethod::default(), Size::Rank(rank))
}

#[test]
fn rank_reduction_is_a_projection_that_commutes_with_what_it_should() {
    for (m, n) in [(20, 12), (12, 20)] {
        let weight = random(m, n, 1);
        let how = reduction(5);
        let once = dense(&weight, &how);
        assert!(distance(&dense(&once, &how), &once) < 1e-4, "twice is once");
        let turned = dense(&weight.transpose(), &how).transpose();
        assert!(distance(&turned, &once) < 1e-4, "transposed");
        let scaled = Mat::from_fn(m, n, |i, j| 3.0 * weight.at(i, j));
        let wanted = Mat::from_fn(m, n, |i, j| 3.0 * once.at(i, j));
        assert!(distance(&dense(&scaled, &how), &wanted) < 1e-3, "scaled");
        // An orthogonal matrix on the left: a signed permutation.
        let moved =
            |w: &Mat<f32>| {
                Mat::from_fn(m, n, |i, j| {
                    if i % 2 == 0 { w.at(m - 1 - i, j) } else { -w.at(m - 1 - i, j) }
                })
            };
        assert!(distance(&dense(&moved(&weight), &how), &moved(&once)) < 1e-4, "turned");
    }
}

#[test]
fn the_more_stays_the_less_is_lost_and_all_is_the_weight_itself() {
    let weight = random(18, 30, 2);
    let error = |size: Size| done(&weight, &(LaserMethod::default(), size)).report;
    let mut last = 1.1;
    for rate in [10.0, 9.0, 7.0, 5.0, 2.0, 0.0] {
        let report = error(Size::Rate(rate));
        assert!(report.relative_error < last, "rate {rate}");
        last = report.relative_error;
        // The error is the energy of the removed components.
        assert!((report.kept.energy.unwrap() + report.relative_error - 1.0).abs() < 1e-5);
    }
    assert!(last < 1e-10);
    assert_eq!(error(Size::Rate(10.0)).relative_error, 1.0);
}

#[test]
fn the_bottom_is_what_the_top_leaves_and_drawn_components_are_those_of_the_seed() {
    let weight = random(14, 10, 3);
    let top = dense(&weight, &reduction(4));
    let bottom = dense(&weight, &(LaserMethod::new(Intervention::BottomK), Size::Rank(6)));
    let both = Mat::from_fn(14, 10, |i, j| top.at(i, j) + bottom.at(i, j));
    assert!(distance(&both, &weight) < 1e-4);
    let drawn = |seed| {
        let how = LaserMethod::new(Intervention::RandomK);
        let components = Components::of(weight.view()).unwrap();
        cut(&weight, &how, Size::Rank(4), Some(&components), RngKey::new(seed))
            .unwrap()
            .op
            .to_dense()
            .unwrap()
    };
    assert_eq!(drawn(1), drawn(1));
    assert!(distance(&drawn(1), &drawn(2)) > 0.1);
    // Components are orthogonal: |W|² = |drawn|² + |rest|².
    let rest = distance(&drawn(1), &weight).powi(2);
    let zeros = Mat::zeros(14, 10);
    let own = distance(&drawn(1), &zeros).powi(2);
    assert!((own + rest - distance(&weight, &zeros).powi(2)).abs() < 1e-3);
}

#[test]
fn factors_are_kept_where_they_are_smaller_and_equal_the_product() {
    let weight = random(40, 40, 4);
    // 40 * 40 / 80 = 20 is break-even.
    for (rank, factored) in [(19, true), (20, false), (30, false)] {
        let report = done(&weight, &reduction(rank)).report;
        assert_eq!(report.factored, factored, "rank {rank}");
        assert_eq!(report.parameters, if factored { rank * 80 } else { 1600 });
        assert_eq!(report.kept.keep, rank as f64 / 20.0);
    }
    let stored =
        |storage, rank| (LaserMethod { storage, ..LaserMethod::default() }, Size::Rank(rank));
    let as_is = |storage| dense(&weight, &stored(storage, 7));
    assert!(distance(&as_is(Storage::Dense), &as_is(Storage::Factored)) < 1e-4);
    assert!(done(&weight, &stored(Storage::Factored, 30)).report.factored);
}

#[test]
fn vendi_keeps_the_chosen_rows_and_projects_the_others() {
    let weight = random(16, 10, 5);
    for compat in [false, true] {
        let how = LaserMethod { compat, ..LaserMethod::new(Intervention::Vendi) };
        let done = done(&weight, &(how, Size::Rank(4)));
        let (rows, found) = (done.report.rows.clone(), done.op.to_dense().unwrap());
        assert_eq!((rows.len(), rows[0]), (4, 0));
        for &row in &rows {
            let off = found.row(row).iter().zip(weight.row(row)).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f32::max) < 1e-5, "row {row}");
        }
        // The residual is orthogonal to the selected rows.
        for i in 0..16 {
            for &row in &rows {
                let dot: f32 =
                    (0..10).map(|j| (weight.at(i, j) - found.at(i, j)) * weight.at(row, j)).sum();
                assert!(dot.abs() < 1e-4, "{i} {row}: {dot}");
            }
        }
        assert!(
            (done.report.relative_error
                - (distance(&weight, &found) / distance(&weight, &Mat::zeros(16, 10))).powi(2))
            .abs()
                < 1e-6
        );
    }
    let twice = Mat::from_fn(4, 3, |_, j| j as f32 + 1.0);
    let how = LaserMethod { compat: true, ..LaserMethod::new(Intervention::Vendi) };
    let error = cut(&twice, &how, Size::Rank(2), None, RngKey::new(0)).unwrap_err().to_string();
    assert!(error.contains("linearly dependent on earlier ones"), "{error}");
}

#[test]
fn zeros_and_what_is_not_finite() {
    let zeros = Mat::zeros(6, 4);
    for intervention in Intervention::ALL.into_iter().filter(|i| *i != Intervention::Vendi) {
        let done = done(&zeros, &(LaserMethod::new(intervention), Size::Rate(5.0)));
        assert_eq!(done.op.to_dense().unwrap(), zeros, "{}", intervention.name());
        assert_eq!(done.report.relative_error, 0.0);
    }
    let mut weight = random(6, 4, 1);
    *weight.at_mut(2, 1) = f32::NAN;
    let error = cut(&weight, &LaserMethod::default(), Size::Rank(2), None, RngKey::new(0))
        .unwrap_err()
        .to_string();
    assert_eq!(error, "row 2, column 1 of the weight is not finite");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let randomised = Decomposition::Randomised { oversample: 8, power: 2 };
    let bottom = LaserMethod::new(Intervention::BottomK);
    let endless = |oversample, power| LaserMethod {
        decomposition: Decomposition::Randomised { oversample, power },
        ..LaserMethod::default()
    };
    let wrong = [
        (endless(8, usize::MAX), Size::Rank(2)),
        (endless(usize::MAX, 2), Size::Rank(2)),
        (LaserMethod::default(), Size::Rate(11.0)),
        (LaserMethod::new(Intervention::Dropout), Size::Rank(2)),
        (LaserMethod { decomposition: randomised, ..bottom }, Size::Rho(0.5)),
        (LaserMethod { compat: true, ..LaserMethod::default() }, Size::Energy(0.5)),
    ];
    for (how, size) in wrong {
        assert!(MethodSpec::Laser(how).check(Some(size)).is_err(), "{how:?}");
    }
    let read: LaserMethod = serde_json::from_str(r#"{"intervention":"bottom-k"}"#).unwrap();
    assert_eq!(read, bottom);
    assert!(serde_json::from_str::<LaserMethod>(r#"{"intervention":"zero","x":1}"#).is_err());
}

/// A plan that cuts one set of slots.
fn plan(sites: SlotSet, rank: usize) -> Plan {
    Plan { seed: 0, edits: vec![edit(sites, rank)] }
}

fn edit(sites: SlotSet, rank: usize) -> Edit {
    let method = MethodSpec::Laser(LaserMethod::default());
    Edit { sites, method, size: Some(Size::Rank(rank)), heals: false }
}

fn model(kind: &str) -> Transformer {
    let config = json!({
        "model_type": kind, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 3,
        "num_attention_heads": 2, "vocab_size": 9, "hidden_act": "silu", "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "n_embd": 8, "n_head": 2, "n_layer": 3, "n_positions": 16, "rotary_dim": 4,
        "layer_norm_epsilon": 1e-5, "layer_norm_eps": 1e-5, "activation_function": "gelu_new",
        "type_vocab_size": 1, "tie_word_embeddings": false, "architectures": ["RobertaForMaskedLM"],
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
    });
    let config = TransformerConfig::from_json(&config).unwrap();
    Transformer::random(config, RngKey::new(1))
}

#[test]
fn all_layers_are_the_union_of_single_ones_and_nothing_else_is_touched() {
    let original = model("llama");
    let edits = |layers| plan(SlotSet::named(Lname::FcIn, layers), 2);
    let apply = |model: &mut Transformer, layers| {
        apply_edits(
            model,
            &edits(layers),
            &linwright_run::Store::none(),
            &mut linwright_run::Silent,
        )
        .unwrap()
    };
    let mut whole = original.clone();
    let done = apply(&mut whole, None);
    assert_eq!(done.len(), 3);
    let mut single = original.clone();
    (0..3).for_each(|layer| {
        apply(&mut single, Some(vec![layer]));
    });
    for ((a, b), before) in whole.slots().iter().zip(single.slots()).zip(original.slots()) {
        let weight = |slot: &linwright_ops::LinearSlot| slot.op().to_dense().unwrap();
        assert_eq!(weight(a), weight(b), "{}", a.id());
        assert_eq!(weight(a) == weight(before), Role::of(a) != Role::Gate, "{}", a.id());
    }
    let table = |model: &Transformer| {
        let mut all = Vec::new();
        model.for_each_tensor(&mut |name, _, shown| all.push(format!("{name} {shown:?}")));
        all
    };
    assert_eq!(table(&whole), table(&original));
    let mut nothing = original.clone();
    let none = plan(SlotSet::named(Lname::Dont, None), 1);
    assert!(
        apply_edits(&mut nothing, &none, &linwright_run::Store::none(), &mut linwright_run::Silent)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn slots_that_are_not_there_are_told_with_those_that_are() {
    let model = model("gptj");
    let error = SlotSet::named(Lname::FcUp, None).of(&model).unwrap_err().to_string();
    assert!(
        error.contains("fc_up")
            && error.contains("k_proj, q_proj, v_proj, out_proj, fc_in, fc_out"),
        "{error}"
    );
    let error = SlotSet::named(Lname::FcIn, Some(vec![3])).of(&model).unwrap_err().to_string();
    assert!(error.contains("layer 3 is out of range"), "{error}");
    let pattern =
        |pattern: &str| SlotSet { patterns: vec![pattern.into()], ..SlotSet::default() }.of(&model);
    assert_eq!(pattern("*.1.mlp.*").unwrap().len(), 2);
    assert!(matches!(pattern("re:("), Err(linwright_ops::SlotSetError::Pattern(_))));
    let error = pattern("*.nothing").unwrap_err().to_string();
    assert!(error.contains("*.nothing matches no slot") && error.contains("h.0."), "{error}");
}

#[test]
fn the_last_edit_of_a_slot_counts() {
    let model = model("gptj");
    let all = edit(SlotSet::named(Lname::Mlp, None), 1);
    let first = edit(SlotSet::named(Lname::FcIn, Some(vec![0])), 3);
    for (edits, rank) in [(vec![all.clone(), first.clone()], 3), (vec![first, all], 1)] {
        let mut copy = model.clone();
        let plan = Plan { seed: 0, edits };
        let none = linwright_run::Store::none();
        let done = apply_edits(&mut copy, &plan, &none, &mut linwright_run::Silent).unwrap();
        assert_eq!(done.len(), 6);
        let ranks: Vec<_> = done.iter().map(|edit| edit.report.kept.rank.unwrap()).collect();
        assert_eq!(ranks, [rank, 1, 1, 1, 1, 1]);
    }
}
