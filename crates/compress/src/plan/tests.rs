//! Plans against tiny models.

use super::*;
use crate::methods::{FitProblem, LaserMethod, LowRankMethod};
use crate::pipeline::{Context, Edited, apply};
use crate::{FitError, SizeError, Unit, tiny};
use linwright_measure::capture::{Bounds, Lockstep, Wanted};
use linwright_model::checkpoint::LoadedModel;
use linwright_model::{Role, Transformer, Windows};
use linwright_ops::{LinearSlot, OpSpec, Shape};
use linwright_run::Silent;
use linwright_tensor::RngKey;
use linwright_train::{Control, Progress};
use serde_json::{Value, json};
use std::path::Path;

const MODEL: &str = "qwen2-biases";

fn parsed(plan: Value) -> Plan {
    parse_plan(Path::new("plan.json"), &plan.to_string()).expect("a plan")
}

fn applied(loaded: &LoadedModel, plan: &Plan, tokens: Option<usize>) -> Edited<Transformer> {
    let calibration = tokens.map(|tokens| tiny::calibration(&loaded.decoder, tokens));
    let context = Context::new(&loaded.hash);
    apply(&loaded.decoder, calibration.as_ref().map(|c| c as _), plan, &context, &mut Silent)
        .expect("applies")
}

fn ranks(edited: &Edited<Transformer>) -> Vec<(usize, usize)> {
    let rank = |site: &SiteId| {
        let spec = edited.network.slot(site).expect("a slot").op().map().spec();
        let OpSpec::LowRank(low_rank) = spec else { panic!("{site} is a {}", spec.kind()) };
        low_rank.rank
    };
    edited.sites.iter().map(|site| (site.layer, rank(&site.site))).collect()
}

fn dense(model: &Transformer, site: &SiteId) -> Vec<f32> {
    let weight = model.slot(site).expect("a slot").op().to_dense().expect("is linear");
    weight.data().to_vec()
}

fn query(layer: usize, size: Value) -> Value {
    json!({
        "sites": {"roles": ["query"], "layers": [layer]},
        "method": {"method": "low_rank"}, "size": size,
    })
}

#[test]
fn json_that_gives_two_layers_different_ranks_applies_and_round_trips() {
    let loaded = tiny::checkpoint(MODEL);
    let plan =
        parsed(json!({"edits": [query(0, json!({"rank": 2})), query(1, json!({"rank": 3}))]}));
    assert_eq!(ranks(&applied(&loaded, &plan, Some(1000))), [(0, 2), (1, 3)]);
    let text = serde_json::to_string(&plan).expect("is plain data");
    assert_eq!(parse_plan(Path::new("p.json"), &text).expect("reads"), plan);
    let yaml = "
edits:
  - {sites: {roles: [query], layers: [0]}, method: {method: low_rank}, size: {rank: 2}}
  - sites: {roles: [query], layers: [1]}
    method: {method: low_rank}
    size: {rank: 3}
";
    assert_eq!(parse_plan(Path::new("p.yaml"), yaml).expect("reads"), plan);
}

#[test]
fn work_is_in_the_order_of_computation_whatever_the_order_of_the_file() {
    let loaded = tiny::checkpoint(MODEL);
    let edits = vec![
        query(1, json!({"rank": 3})),
        json!({"sites": {"roles": ["down", "gate"]}, "method": {"method": "low_rank"}, "size": {"keep": 0.4}}),
        query(0, json!({"rank": 2})),
        json!({"sites": {"roles": ["key"], "layers": [0]}, "method": {"method": "low_rank"}, "size": {"rank": 2}}),
    ];
    let plan = |edits: Vec<Value>| parsed(json!({"seed": 3, "edits": edits}));
    let (one, other) = (plan(edits.clone()), plan(edits.into_iter().rev().collect()));
    let groups = |plan: &Plan| -> Vec<(usize, Vec<SiteId>)> {
        let work = plan.sites(&loaded.decoder).expect("resolves");
        work.into_iter()
            .map(|g| (g.layer, g.slots.into_iter().map(|slot| slot.site).collect()))
            .collect()
    };
    assert_eq!(groups(&one), groups(&other));
    let names: Vec<String> = groups(&one)
        .iter()
        .map(|(layer, sites)| {
            let last = |site: &SiteId| site.0.rsplit('.').next().unwrap_or_default().to_owned();
            format!("{layer} {}", sites.iter().map(last).collect::<Vec<_>>().join(","))
        })
        .collect();
    let (first, second) = (
        ["0 q_proj,k_proj", "0 gate_proj", "0 down_proj"],
        ["1 q_proj", "1 gate_proj", "1 down_proj"],
    );
    assert_eq!(names[..3], first);
    assert_eq!(names[3..6], second);
    let (a, b) = (applied(&loaded, &one, Some(600)), applied(&loaded, &other, Some(600)));
    for (x, y) in a.sites.iter().zip(&b.sites) {
        assert_eq!(x.site, y.site);
        assert_eq!(dense(&a.network, &x.site), dense(&b.network, &y.site), "{}", x.site);
    }
}

#[test]
fn a_later_edit_of_a_slot_counts_and_ignored_slots_stay() {
    let loaded = tiny::checkpoint(MODEL);
    let all = json!({
        "sites": {"patterns": ["*.q_proj", "re:k_proj$"], "ignore": ["re:layers\\.1\\..*k_proj"]},
        "method": {"method": "low_rank"}, "size": {"rank": 1},
    });
    let plan = parsed(json!({"edits": [all.clone(), query(1, json!({"rank": 3}))]}));
    let found = ranks(&applied(&loaded, &plan, Some(1000)));
    assert_eq!(found[..3], [(0, 1), (0, 1), (1, 3)], "query and key of 0, query of 1");
    let plan = parsed(json!({"edits": [query(1, json!({"rank": 3})), all]}));
    assert!(ranks(&applied(&loaded, &plan, Some(1000))).iter().all(|(_, rank)| *rank == 1));
}

/// Runs a training without anybody watching.
struct Quiet;

impl Control for Quiet {
    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn interrupted(&self) -> bool {
        false
    }
}

/// Targets of each layer, then its output projection, each captured in the edited model and fitted
/// with random numbers named by seed, site and label.
fn one_layer_after_another(
    loaded: &LoadedModel,
    calibration: &Windows,
    steps: &[(&[Role], Edit, &str)],
    seed: u64,
) -> Transformer {
    let original = &loaded.decoder;
    let mut model = original.clone();
    let mut lockstep = Lockstep::new(original, calibration, Bounds::default());
    for layer in [0, 1] {
        for (roles, edit, label) in steps {
            let slots = original.slots();
            let here =
                slots.iter().filter(|s| s.layer() == Some(layer) && roles.contains(&Role::of(s)));
            let sites: Vec<SiteId> = here.map(|slot| slot.id().clone()).collect();
            let needs = edit.method.needs();
            let wanted: Vec<Wanted<'_>> = sites.iter().map(|site| Wanted { site, needs }).collect();
            let captures = lockstep.capture(&model, &wanted, &mut Silent).expect("captures");
            for capture in captures {
                let slot = original.slot(&capture.site).expect("a slot");
                let problem = FitProblem {
                    site: &capture.site,
                    shape: capture.shape,
                    original: slot.op(),
                    size: edit.size,
                    evidence: Some(&capture.evidence),
                    components: None,
                    bias: slot.bias(),
                    key: RngKey::new(seed).fold(&capture.site.0).fold(label),
                    ridge: None,
                    checkpoint: None,
                    part_rows: None,
                };
                let fit = edit.method.fit(&problem, &mut Quiet).expect("fits");
                let (old, shift) = (slot.bias().map(<[f32]>::to_vec), fit.bias_shift);
                let slot = model.slot_mut(&capture.site).expect("a slot");
                slot.replace(fit.op).expect("fits in");
                if let (Some(bias), Some(old), Some(shift)) = (slot.bias_mut(), old, shift) {
                    let sums = old.iter().zip(shift).map(|(old, shift)| old + shift);
                    bias.iter_mut().zip(sums).for_each(|(bias, sum)| *bias = sum);
                }
            }
            let stage = original.slot(&sites[0]).and_then(LinearSlot::stage);
            lockstep.note_edit(stage.expect("a stage"));
        }
    }
    model
}

#[test]
fn a_plan_fits_targets_and_output_layer_by_layer_with_the_numbers_of_their_labels() {
    let loaded = tiny::checkpoint(MODEL);
    let calibration = tiny::calibration(&loaded.decoder, 800);
    let mut plan = parsed(json!({"edits": [
        {
            "sites": {"roles": ["query", "key", "value"], "layers": [0, 1]},
            "method": {"method": "low_rank", "fit": "trained", "training": {"epochs": 1}},
            "size": {"rank": 2},
        },
        {
            "sites": {"roles": ["output"], "layers": [0, 1]},
            "method": {"method": "dense"},
            "heals": true,
        },
    ]}));
    plan.seed = 5;
    let context = Context::new(&loaded.hash);
    let edited = apply(&loaded.decoder, Some(&calibration), &plan, &context, &mut Silent);
    let edited = edited.expect("applies");
    let (targets, output) = (plan.edits[0].clone(), plan.edits[1].clone());
    let roles: &[Role] = &[Role::Query, Role::Key, Role::Value];
    let steps = [(roles, targets, "LR2-trained"), (&[Role::Output][..], output, "dense-ridge")];
    let expected = one_layer_after_another(&loaded, &calibration, &steps, 5);
    assert_eq!(edited.sites.len(), 8);
    for outcome in &edited.sites {
        let site = &outcome.site;
        assert_eq!(dense(&edited.network, site), dense(&expected, site), "{site}");
        let bias =
            |model: &Transformer| model.slot(site).and_then(|s| s.bias().map(<[f32]>::to_vec));
        assert_eq!(bias(&edited.network), bias(&expected), "{site}");
        assert_eq!(outcome.heals, outcome.role == Role::Output.name());
    }
}

#[test]
fn cuts_need_no_text_and_read_original_weights_and_stand_beside_fits() {
    let loaded = tiny::checkpoint(MODEL);
    let cut = json!({
        "sites": {"lnames": ["fc_out"]}, "method": {"method": "laser"}, "size": {"rank": 2},
    });
    let alone = parsed(json!({"edits": [cut.clone()]}));
    assert!(!alone.needs_text());
    let cuts = applied(&loaded, &alone, None);
    let mixed = parsed(json!({"edits": [cut, query(0, json!({"rank": 2}))]}));
    let both = applied(&loaded, &mixed, Some(1000));
    assert_eq!(both.sites.len(), cuts.sites.len() + 1);
    for outcome in &cuts.sites {
        assert_eq!(dense(&cuts.network, &outcome.site), dense(&both.network, &outcome.site));
        let report = outcome.fit.cut.as_ref().expect("is a cut");
        assert_eq!(report.kept.rank, Some(2));
        assert_eq!(report.relative_error, outcome.fit.relative_error, "that of the weight");
    }
    let context = Context::new(&loaded.hash);
    let error = apply(&loaded.decoder, None, &mixed, &context, &mut Silent).expect_err("no text");
    assert!(
        matches!(&error, CompressError::NoText { method, .. } if method == "LR2-closed"),
        "{error}"
    );
}

#[test]
fn the_size_of_a_spectrum_is_that_of_the_weight() {
    let loaded = tiny::checkpoint(MODEL);
    let site = |method: Value, size: Value| {
        let plan = parsed(json!({"edits": [
            {"sites": {"roles": ["query"], "layers": [0]}, "method": method, "size": size},
        ]}));
        let edited = applied(&loaded, &plan, Some(600));
        let kept = edited.sites[0].fit.cut.as_ref().and_then(|cut| cut.kept.rank);
        kept.unwrap_or_else(|| ranks(&edited)[0].1)
    };
    for size in [json!({"energy": 0.4}), json!({"rho": 0.3}), json!({"rate": 7})] {
        let cut = site(json!({"method": "laser"}), size.clone());
        assert!(cut > 0);
        assert_eq!(site(json!({"method": "low_rank"}), size.clone()), cut, "{size}");
        let operator = json!({"kind": "low_rank", "rank": 1});
        let structured = json!({"method": "structured", "operator": operator});
        assert_eq!(site(structured, size.clone()), cut, "{size}");
    }
}

/// A method of every kind of the registry.
fn methods() -> Vec<MethodSpec> {
    let mut all: Vec<MethodSpec> = Vec::new();
    for id in MethodSpec::IDS {
        let read = |options: Value| serde_json::from_value(options);
        match read(json!({"method": id})) {
            Ok(method) => all.push(method),
            Err(_) => {
                for (operator, _) in OpSpec::examples().into_iter().filter(|(o, _)| o.is_linear()) {
                    all.push(read(json!({"method": id, "operator": operator})).expect("reads"));
                }
            }
        }
    }
    all
}

fn of_unit(unit: Unit) -> Size {
    match unit {
        Unit::Rate => Size::Rate(7.0),
        Unit::Rho => Size::Rho(0.3),
        Unit::Keep => Size::Keep(0.5),
        Unit::Rank => Size::Rank(2),
        Unit::Energy => Size::Energy(0.5),
        Unit::MarchenkoPastur => Size::MarchenkoPastur,
    }
}

#[test]
fn every_method_has_every_size_or_says_which_it_has() {
    let shape = Shape { out: 16, inp: 16 };
    for method in methods() {
        let id = method.id();
        for unit in Unit::ALL {
            let size = of_unit(unit);
            match method.check_size(Some(size)) {
                Ok(()) => {
                    let least = match method.parameters(Some(size), shape) {
                        Ok(parameters) => parameters,
                        // Some operators have no shape of 16 x 16.
                        Err(FitError::Operator(_)) => continue,
                        Err(error) => panic!("{id} at {size}: {error}"),
                    };
                    assert!(least > 0, "{id} at {size}");
                }
                Err(SizeError::Unit { takes, .. }) => assert!(!takes.contains(&unit), "{id}"),
                Err(error) => panic!("{id} at {size}: {error}"),
            }
        }
        match method.check_size(None) {
            Ok(()) => assert!(!method.needs_size(), "{id}"),
            Err(error) => {
                assert!(error.to_string().contains("needs a size: keep, rank"), "{error}");
            }
        }
    }
    let rotor: MethodSpec = serde_json::from_value(json!({"method": "rotor"})).expect("reads");
    let error = rotor.check_size(Some(Size::Energy(0.5))).expect_err("has none").to_string();
    assert_eq!(error, "rotor has no energy; its size is given by keep");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let low_rank = json!({"method": "low_rank"});
    let edit = |size: Value| json!({"sites": {}, "method": low_rank, "size": size});
    let plans = |edits: Vec<Value>| json!({"edits": edits}).to_string();
    for (text, expected) in [
        (json!({"edit": []}).to_string(), "did you mean `edits`?"),
        (plans(vec![json!({"site": {}, "method": low_rank})]), "did you mean `sites`?"),
        (
            plans(vec![json!({"sites": {"layer": [0]}, "method": low_rank})]),
            "did you mean `layers`?",
        ),
        (
            plans(vec![json!({"sites": {}, "method": {"method": "low_rnk"}})]),
            "did you mean `low_rank`?",
        ),
        (
            plans(vec![json!({"sites": {}, "method": {"method": "low_rank", "rank": 4}})]),
            "write `size: {rank: ...}`",
        ),
        (plans(vec![edit(json!({"rnk": 3}))]), "did you mean `rank`?"),
        (plans(vec![edit(json!({"rank": 0}))]), "edits[0].size is wrong: rank is 0"),
        (plans(vec![edit(json!({"keep": 1.5}))]), "keep is 1.5, expected a number from 0 to 1"),
        (plans(vec![edit(json!({"keep": 1.0}))]), "keep is 1, expected a share between 0 and 1"),
        (plans(vec![json!({"sites": {}, "method": low_rank})]), "low_rank needs a size: keep"),
        (
            plans(vec![json!({"sites": {}, "method": {"method": "dense"}, "size": {"keep": 0.5}})]),
            "leave the size out",
        ),
        (
            plans(vec![edit(json!({"rank": 1})), edit(json!({"rank": 2}))]),
            "edits 1 and 2 select the same slots",
        ),
        ("edits: [".to_owned(), "plan"),
    ] {
        let error = parse_plan(Path::new("plan"), &text).expect_err(&text).to_string();
        assert!(error.contains(expected) && error.starts_with("plan"), "{text}: {error}");
    }
    let model = tiny::checkpoint(MODEL).decoder;
    let over = |sites: Value, heals: bool| json!({"sites": sites, "method": {"method": "dense"}, "heals": heals});
    for (edits, expected) in [
        (vec![over(json!({"layers": [99]}), false)], "layer 99 is out of range"),
        (vec![over(json!({"roles": ["fc_in"]}), false)], "no layer has a slot of role fc_in"),
        (
            vec![over(json!({"roles": ["fc_in"], "layers": [1]}), false)],
            "layer 1 has no slot of role fc_in; it has",
        ),
        (vec![over(json!({"patterns": ["*.q_prj"]}), false)], "*.q_prj matches no slot"),
        (vec![over(json!({"ignore": ["nothing"]}), false)], "nothing matches no slot"),
        (vec![over(json!({"patterns": ["re:("]}), false)], "re:("),
        (vec![over(json!({"ignore": ["*"]}), false)], "no slot of the model is in"),
        (
            vec![over(json!({}), false), over(json!({"roles": ["output"]}), true)],
            "in edits 1 and 2",
        ),
        (vec![query(0, json!({"rank": 999}))], "above the full rank"),
    ] {
        let plan: Plan = serde_json::from_value(json!({"edits": edits})).expect("reads");
        let error = plan.sites(&model).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn cuts_of_all_sizes_draw_the_same_components() {
    let stream = |size| MethodSpec::Laser(LaserMethod::default()).stream(Some(size));
    assert_eq!(stream(Size::Rank(1)), stream(Size::Rate(9.0)));
    let low_rank = MethodSpec::LowRank(LowRankMethod::default());
    assert_eq!(low_rank.stream(Some(Size::Keep(0.5))), "LR-keep0.5-closed");
}
