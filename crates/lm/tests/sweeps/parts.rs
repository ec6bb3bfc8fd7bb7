//! Selections by role, pattern of names and part of a fused weight.

use super::{Parts, check_cells, check_score, grid, model};
use linwright_compress::intervention::{FusedPart, Intervention, Lname, apply_edits};
use linwright_compress::methods::LaserMethod;
use linwright_compress::pipeline::{Context, apply};
use linwright_compress::{Edit, MethodSpec, Plan, Size, SlotSet};
use linwright_lm::cuts::compose::compose;
use linwright_lm::cuts::grid::{Grid, Place, places};
use linwright_model::{Batch, Role, Transformer};
use linwright_ops::{NoProbe, Sites};
use linwright_run::team::Alone;
use linwright_run::{Fingerprint, RunDirectory, Silent, Store};
use linwright_tensor::Mat;
use linwright_tensor::linalg::Components;

/// One slot, as its name in a layer.
fn short(model: &Transformer, grid: &Grid) -> Vec<(String, Vec<String>)> {
    let of = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let found = places(grid, model).unwrap();
    found
        .iter()
        .map(|place| (place.name(), place.sites.iter().map(|site| of(&site.0)).collect()))
        .collect()
}

fn all(names: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let of = |(place, sites): &(&str, &[&str])| {
        ((*place).to_owned(), sites.iter().map(|site| (*site).to_owned()).collect())
    };
    names.iter().map(of).collect()
}

#[test]
fn places_are_named_by_name_role_pattern_and_part() {
    let sizes = vec![Size::Rank(2)];
    let base = Grid { sizes, layers: Some(vec![1]), ..Grid::default() };
    let (llama, gpt2) = (model("llama"), model("gpt2"));
    let named =
        Grid { lnames: vec![Lname::FcIn], roles: vec![Role::Gate, Role::Key], ..base.clone() };
    let one = |site| vec![site];
    let expected: [(&str, &[&str]); 3] = [
        ("fc_in of layer 1", &one("gate_proj")),
        ("gate of layer 1", &one("gate_proj")),
        ("key of layer 1", &one("k_proj")),
    ];
    assert_eq!(short(&llama, &named), all(&expected));
    let patterns = vec!["*.mlp.*".to_owned(), "re:\\.(q|o)_proj$".to_owned()];
    let of_patterns = Grid { patterns: patterns.clone(), ..base.clone() };
    let expected: [(&str, &[&str]); 2] = [
        ("*.mlp.* of layer 1", &["gate_proj", "up_proj", "down_proj"]),
        ("re:\\.(q|o)_proj$ of layer 1", &["q_proj", "o_proj"]),
    ];
    assert_eq!(short(&llama, &of_patterns), all(&expected));
    let within =
        Grid { roles: vec![Role::Output], patterns: vec![patterns[1].clone()], ..base.clone() };
    let expected: [(&str, &[&str]); 1] = [("output in re:\\.(q|o)_proj$ of layer 1", &["o_proj"])];
    assert_eq!(short(&llama, &within), all(&expected));
    // A pattern of one layer selects that layer alone, unless others are asked for.
    let third = Grid { patterns: vec!["*.2.mlp.*".to_owned()], layers: None, ..base.clone() };
    assert_eq!(short(&gpt2, &third), all(&[("*.2.mlp.* of layer 2", &["c_fc", "c_proj"])]));
    let among = Grid { layers: Some(vec![0, 2]), ..third.clone() };
    assert_eq!(short(&gpt2, &among), short(&gpt2, &third));
    let missing = places(&Grid { layers: Some(vec![1]), ..third }, &gpt2).unwrap_err().to_string();
    assert!(missing.contains("no slot of the model is in"), "{missing}");
    let parts = Grid {
        parts: vec![FusedPart::Key, FusedPart::Value],
        together: true,
        layers: None,
        ..base.clone()
    };
    let sites: &[&str] = &["c_attn", "c_attn", "c_attn"];
    let expected = [
        ("key in query_key_value of all layers", sites),
        ("value in query_key_value of all layers", sites),
    ];
    assert_eq!(short(&gpt2, &parts), all(&expected));
    for (grid, expected) in [
        (
            Grid { lnames: vec![Lname::Attn], parts: vec![FusedPart::Key], ..base.clone() },
            "h.1.attn.c_proj has no part key",
        ),
        (
            Grid { parts: vec![FusedPart::Gate], ..base.clone() },
            "layer 1 has no slot of role gate_up",
        ),
        (
            Grid { roles: vec![Role::Gate], layers: None, ..base.clone() },
            "no layer has a slot of role gate",
        ),
        (
            Grid { parts: vec![FusedPart::Key; 2], ..base.clone() },
            "key in query_key_value of layer 1 is selected twice",
        ),
        (
            Grid { lnames: vec![Lname::FcIn], roles: vec![Role::FcIn], ..base.clone() },
            "fc_in of layer 1 is selected twice",
        ),
        (Grid { patterns: vec!["nothing".into()], ..base }, "nothing matches no slot"),
    ] {
        let error = places(&grid, &gpt2).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn grids_and_places_of_names_are_written_as_before_there_were_others() {
    let grid = grid(Intervention::Zero);
    let written = serde_json::to_value(&grid).unwrap();
    let keys: Vec<&String> = written.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["lnames", "layers", "together", "sizes", "method", "seed"]);
    assert!(written["method"].get("part").is_none());
    let place = places(&grid, &model("gpt2")).unwrap().swap_remove(0);
    let text = r#"{"lname":"fc_in","layer":2,"sites":["transformer.h.2.mlp.c_fc"]}"#;
    assert_eq!(serde_json::to_string(&place).unwrap(), text);
    let read: Place = serde_json::from_str(text).unwrap();
    assert_eq!((read.name(), read), ("fc_in of layer 2".into(), place));
}

#[test]
fn parts_are_composed_and_the_edits_make_the_model() {
    let parts = Parts::new("gpt2");
    let work = parts.work(true);
    let composed = |cut: Vec<FusedPart>| {
        let grid = Grid { lnames: Vec::new(), parts: cut, ..grid(Intervention::RankReduction) };
        let folder = tempfile::tempdir().unwrap();
        let print = Fingerprint::of(&[("grid", &grid)]);
        let directory = RunDirectory::open(&folder.path().join("run"), &print).unwrap();
        compose(&work, &grid, None, (&directory, &Alone), &mut Silent)
    };
    let found = composed(vec![FusedPart::Value]).unwrap();
    assert!(!found.edits.edits.is_empty(), "some cut is accepted");
    let mut edited = parts.model.clone();
    apply_edits(&mut edited, &found.edits, &parts.store, &mut Silent).unwrap();
    check_score(&parts, &edited, &found.score);
    let error = composed(vec![FusedPart::Value, FusedPart::Key]).unwrap_err().to_string();
    assert!(error.contains("is cut twice") && error.contains("one part of it"), "{error}");
}

#[test]
fn a_part_is_cut_alike_with_and_without_known_components() {
    let (_, model) = fused().pop().expect("phi3");
    for (part, intervention) in [
        (FusedPart::Value, Intervention::RankReduction),
        (FusedPart::Up, Intervention::BottomK),
        (FusedPart::Key, Intervention::RandomK),
        (FusedPart::Query, Intervention::Vendi),
    ] {
        let method =
            MethodSpec::Laser(LaserMethod { part: Some(part), ..LaserMethod::new(intervention) });
        let sites = SlotSet::with_roles(&[part.of_role()], None);
        let edit = Edit { sites, method, size: Some(Size::Rank(3)), heals: false };
        assert_eq!(edit.label(), format!("{}: {} at rank 3", part.name(), intervention.name()));
        let plan = Plan { seed: 4, edits: vec![edit] };
        let alone = apply(&model, None, &plan, &Context::new(""), &mut Silent).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut known = model.clone();
        for _ in 0..2 {
            known = model.clone();
            apply_edits(&mut known, &plan, &store, &mut Silent).unwrap();
        }
        assert_eq!(hidden(&alone.network), hidden(&known), "{part:?}");
        assert_ne!(hidden(&known), hidden(&model), "{part:?}");
    }
}

#[test]
fn a_cell_of_a_part_is_the_edited_model_as_evaluated_by_itself() {
    for intervention in [
        Intervention::RankReduction,
        Intervention::Dropout,
        Intervention::Vendi,
        Intervention::Zero,
        Intervention::BottomK,
        Intervention::RandomK,
    ] {
        let base = Grid { lnames: Vec::new(), layers: None, ..grid(intervention) };
        let of = |parts: &[FusedPart]| Grid { parts: parts.to_vec(), ..base.clone() };
        let parts = [FusedPart::Query, FusedPart::Key, FusedPart::Value];
        assert_eq!(check_cells("gpt2", &of(&parts)).cells.len(), 27);
        check_cells("gpt_neox", &of(&[FusedPart::Key]));
        check_cells("phi3", &Grid { together: true, ..of(&[FusedPart::Up, FusedPart::Value]) });
        check_cells("llama", &Grid { patterns: vec!["*.mlp.*".into()], ..base.clone() });
    }
}

/// The role of the weights that have a part.
fn role_of(part: FusedPart) -> Role {
    Role::parse(part.of_role()).expect("a role")
}

/// The model with a part of all its layers cut.
fn with_cut(
    model: &Transformer,
    part: Option<FusedPart>,
    role: Role,
    size: Option<Size>,
) -> Transformer {
    let intervention =
        if size.is_none() { Intervention::Zero } else { Intervention::RankReduction };
    let method = MethodSpec::Laser(LaserMethod { part, ..LaserMethod::new(intervention) });
    let sites = SlotSet::with_roles(&[role], None);
    let plan = Plan { seed: 0, edits: vec![Edit { sites, method, size, heals: false }] };
    let mut edited = model.clone();
    apply_edits(&mut edited, &plan, &Store::none(), &mut Silent).unwrap();
    edited
}

fn hidden(model: &Transformer) -> Mat<f32> {
    let tokens: Vec<u32> = (0..12).map(|k| (7 * k + 3) % 95).collect();
    let batch = Batch::new(&[&tokens]);
    let mut rows = model.embed(&batch).unwrap();
    model.run_layers(&mut rows, &batch, 0..3, &mut NoProbe).unwrap();
    rows
}

/// The families with fused weights; biases are zero, so that a projection without weights is zero.
fn fused() -> Vec<(&'static str, Transformer)> {
    let without_biases = |kind| {
        let mut model = model(kind);
        model.for_each_param_mut(&mut |name, values| {
            if name.ends_with("bias") {
                values.fill(0.0);
            }
        });
        (kind, model)
    };
    ["gpt2", "gpt_neox", "phi3"].map(without_biases).into()
}

#[test]
fn parts_are_the_projections_that_the_forward_pass_reads() {
    for (kind, model) in fused() {
        let cut = |part| hidden(&with_cut(&model, Some(part), role_of(part), None));
        let dense = hidden(&model);
        let [query, key, value] = [FusedPart::Query, FusedPart::Key, FusedPart::Value].map(cut);
        // Without queries as without keys all scores are equal; without values nothing comes out.
        assert_eq!(query, key, "{kind}");
        let nothing = hidden(&with_cut(&model, None, Role::Output, None));
        assert_eq!(value, nothing, "{kind}");
        assert!(query != dense && value != dense && query != value, "{kind}");
    }
    let (_, model) = fused().pop().expect("phi3");
    let up = with_cut(&model, Some(FusedPart::Up), Role::GateUp, None);
    let gate = with_cut(&model, Some(FusedPart::Gate), Role::GateUp, None);
    for (slot, which) in
        up.slots().iter().zip(gate.slots()).filter(|(s, _)| Role::of(s) == Role::GateUp)
    {
        let (up, gate) = (slot.op().to_dense().unwrap(), which.op().to_dense().unwrap());
        let inner = up.rows() / 2;
        // The gate stands first, as the checkpoints of the family have it.
        assert!(up.data()[inner * up.cols()..].iter().all(|w| *w == 0.0));
        assert!(gate.data()[..inner * up.cols()].iter().all(|w| *w == 0.0));
    }
    assert_eq!(hidden(&up), hidden(&gate));
}

#[test]
fn a_part_is_cut_as_a_weight_of_its_own_and_the_rest_stays() {
    for (kind, model) in fused() {
        for part in FusedPart::ALL {
            let fused: Vec<_> =
                model.slots().into_iter().filter(|slot| Role::of(slot) == role_of(part)).collect();
            if fused.is_empty() {
                continue;
            }
            let edited = with_cut(&model, Some(part), role_of(part), Some(Size::Rank(3)));
            for slot in fused {
                let rows = model.part_rows(slot.id(), part.name()).unwrap();
                let before = slot.op().to_dense().unwrap();
                let after = edited.slot(slot.id()).unwrap().op().to_dense().unwrap();
                let own = Mat::from_fn(rows.len(), before.cols(), |i, j| before.at(rows[i], j));
                let (u, v) = Components::of(own.view()).unwrap().chosen(&[0, 1, 2]);
                for i in 0..before.rows() {
                    for j in 0..before.cols() {
                        let Some(place) = rows.iter().position(|row| *row == i) else {
                            assert_eq!(
                                before.at(i, j).to_bits(),
                                after.at(i, j).to_bits(),
                                "{kind}"
                            );
                            continue;
                        };
                        let expected: f32 = (0..3).map(|k| u.at(place, k) * v.at(k, j)).sum();
                        assert!((after.at(i, j) - expected).abs() < 1e-5, "{kind} {part:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_method_that_cuts_a_part_says_what_it_cannot() {
    let check = |method: LaserMethod| MethodSpec::Laser(method).check(Some(Size::Rank(2)));
    let part = Some(FusedPart::Key);
    let storage = linwright_compress::intervention::Storage::Factored;
    let error = check(LaserMethod { part, storage, ..LaserMethod::default() }).unwrap_err();
    assert!(error.contains("one part cut has no factors"), "{error}");
    let plan = |size, part| {
        let method = MethodSpec::Laser(LaserMethod { part: Some(part), ..LaserMethod::default() });
        let sites = SlotSet::with_roles(&[Role::QueryKeyValue], None);
        Plan { seed: 0, edits: vec![Edit { sites, method, size: Some(size), heals: false }] }
    };
    let (_, phi) = fused().pop().expect("phi3");
    let refused = |plan: Plan| plan.sites(&phi).unwrap_err().to_string();
    // A key has 16 rows here; the fused weight has more.
    assert!(refused(plan(Size::Rank(17), FusedPart::Key)).contains("above the full rank"));
    assert!(refused(plan(Size::Rank(2), FusedPart::Up)).contains("has no part up"));
    let mut both = plan(Size::Rank(2), FusedPart::Key);
    both.edits.extend(plan(Size::Rank(2), FusedPart::Value).edits);
    both.edits[1].sites.lnames = vec![Lname::Attn];
    assert!(refused(both).contains("edits 1 and 2, which cut different parts of it"));
}
