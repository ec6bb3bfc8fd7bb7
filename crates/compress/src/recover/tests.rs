use super::*;
use crate::intervention::Intervention;
use crate::methods::{LaserMethod, LowRankMethod, StructuredMethod};
use crate::pipeline::apply;
use crate::plan::SlotSet;
use crate::recover::gradients::{Collecting, Gradients};
use crate::{Edit, MethodSpec, Plan, Size, tiny};
use linwright_model::transformer::{TrainingMemory, TransformerGrads};
use linwright_model::{Batch, Role, Split, Transformer, Windows};
use linwright_nets::{Labelled, LabelledBatches, Net, NetSpec, Targets};
use linwright_ops::{CrossEntropy, LowRankSpec, NoProbe, OpSpec};
use linwright_run::{Silent, Store};
use linwright_tensor::Mat;
use linwright_train::TrainError;
use std::collections::BTreeMap;

/// Gradients are sums of many products in `f32`, in another order.
const SAME_GRADIENT: f32 = 1e-4;

/// A text that repeats, so that there is something to learn.
fn windows(model: &Transformer) -> Windows {
    let vocab = model.config().vocab as u32;
    let text: Vec<u32> = (0..6000).map(|at: u32| (at * at + at / 7) % 11 % vocab).collect();
    Windows::new(&[text], None, 32, 6000, Split::Contiguous).expect("enough")
}

/// Text, with the next token as target.
fn next_tokens(windows: &Windows) -> Supervised<'_, Batch> {
    Supervised { examples: windows, targets: &|_, batch: &Batch| batch.next_tokens() }
}

/// An edit of some roles of layer 0.
fn edit(roles: &[Role], method: MethodSpec, size: Option<Size>) -> Edit {
    Edit { sites: SlotSet::with_roles(roles, Some(vec![0])), method, size, heals: false }
}

fn low_rank(roles: &[Role]) -> Edit {
    edit(roles, MethodSpec::LowRank(LowRankMethod::default()), Some(Size::Rank(2)))
}

/// A tiny model whose slots have biases, edited.
fn edited(edits: Vec<Edit>) -> (Edited<Transformer>, Windows) {
    let loaded = tiny::checkpoint("qwen2-biases");
    let windows = windows(&loaded.decoder);
    let plan = Plan { edits, seed: 0 };
    let context = Context::new(&loaded.hash);
    let edited = apply(&loaded.decoder, Some(&windows), &plan, &context, &mut Silent);
    (edited.expect("applies"), windows)
}

fn projections() -> (Edited<Transformer>, Windows) {
    edited(vec![low_rank(&[Role::Query, Role::Key, Role::Value])])
}

const SETTINGS: Recovery = Recovery { steps: 45, rate: 0.01, seed: 1 };

fn run(
    edited: &mut Edited<Transformer>,
    windows: &Windows,
    settings: Recovery,
) -> Result<RecoveryReport, CompressError> {
    let text = next_tokens(windows);
    recover(edited, &text, &settings, &Context::new("hash"), &mut Silent)
}

/// The bits of every parameter by name.
fn bits(model: &Transformer) -> BTreeMap<String, Vec<u32>> {
    let mut all = BTreeMap::new();
    model.for_each_param(&mut |name, values| {
        all.insert(name.to_owned(), values.iter().map(|value| value.to_bits()).collect());
    });
    all
}

/// Mean loss over the held-out windows.
fn held_out_loss(model: &Transformer, windows: &Windows) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for window in &windows.windows()[windows.training()..] {
        let batch = Batch::new(&[window]);
        let targets = batch.next_tokens();
        let mut loss = CrossEntropy::sum(&targets);
        sum += model.loss_to_slots(&batch, &mut loss, &mut NoProbe).expect("finite");
        count += window.len() - 1;
    }
    sum / f64::from(u32::try_from(count).expect("few"))
}

#[test]
fn the_held_out_loss_falls_and_nothing_else_changes() {
    let (mut edited, windows) = projections();
    let before = bits(&edited.network);
    let report = run(&mut edited, &windows, SETTINGS).expect("trains");
    let after = bits(&edited.network);
    assert!(report.kept && report.loss_after < 0.95 * report.loss_before, "{report:?}");
    let loss = held_out_loss(&edited.network, &windows);
    assert!((loss / report.loss_after - 1.0).abs() < 1e-5, "{loss}, {report:?}");
    let is_trained = |name: &str| {
        name.contains("layers.0") && ["q_proj", "k_proj", "v_proj"].iter().any(|p| name.contains(p))
    };
    assert_eq!(before.len(), after.len());
    for (name, values) in &before {
        assert_eq!(is_trained(name), *values != after[name], "{name}");
    }
    let trained = before.iter().filter(|(name, _)| is_trained(name));
    let count: usize = trained.map(|(_, values)| values.len()).sum();
    assert_eq!(report.parameters, count as u64, "biases included");
}

#[test]
fn gradients_are_those_of_training_for_every_kind_of_operator() {
    let mut specs = vec![OpSpec::LowRank(LowRankSpec { rank: 3 })];
    let kinds = ["monarch", "block_hadamard", "kronecker", "dense"];
    specs.extend(kinds.map(|kind| OpSpec::default_of(kind).expect("has defaults")));
    for spec in specs {
        let kind = spec.kind();
        let mut model = tiny::checkpoint("qwen2-biases").decoder;
        let windows = windows(&model);
        let slot = model.slots_mut().into_iter().find(|slot| Role::of(slot) == Role::Query);
        let slot = slot.expect("has queries");
        let (id, shape) = (slot.id().clone(), slot.shape());
        slot.replace(spec.random::<f32>(shape, RngKey::new(3)).expect("exists")).expect("fits");
        let batch = Batch::new(&[&windows.windows()[0], &windows.windows()[1]]);
        let targets = batch.next_tokens();
        let (mut whole, mut memory) = (TransformerGrads::zeros(&model), TrainingMemory::default());
        model.loss_and_grads(&batch, &targets, &mut whole, &mut memory).expect("finite");
        let mut names = Vec::new();
        model.for_each_param(&mut |name, _| names.push(name.to_owned()));
        let whole: BTreeMap<String, &[f32]> = names.into_iter().zip(whole.slices()).collect();

        let mut gradients = Gradients::zeros(&model, &[id.clone()].into(), &BTreeSet::new());
        let mut probe = Collecting::new(&model, &mut gradients);
        let mut loss = CrossEntropy::mean(&targets);
        model.loss_to_slots(&batch, &mut loss, &mut probe).expect("finite");
        let found = &gradients.slots[&id];
        let params = model.slot(&id).expect("is there").op().map().params();
        let of_op = params.iter().zip(found.op.iter());
        let named = of_op.map(|(param, gradient)| (param.name.clone(), gradient));
        let bias = found.bias.as_deref().map(|gradient| ("bias".to_owned(), gradient));
        for (name, gradient) in named.chain(bias) {
            let want = whole[&format!("{id}.{name}")];
            let scale = want.iter().fold(1e-6f32, |most, value| most.max(value.abs()));
            for (found, want) in gradient.iter().zip(want) {
                let off = (found - want).abs();
                assert!(off < SAME_GRADIENT * scale, "{kind}, {name}: {found}, {want}");
            }
        }
    }
}

#[test]
fn a_recovery_that_only_harms_is_thrown_away() {
    let (mut edited, windows) = projections();
    let before = bits(&edited.network);
    let settings = Recovery { steps: 3, rate: 5.0, seed: 0 };
    let report = run(&mut edited, &windows, settings).expect("trains");
    assert!(!report.kept && report.best_step == 0, "{report:?}");
    assert_eq!(report.loss_after, report.loss_before);
    assert!(report.curve.iter().skip(1).all(|point| point.validation > report.loss_before));
    assert_eq!(bits(&edited.network), before);
}

#[test]
fn a_loss_that_is_not_finite_is_an_error_that_names_the_stage() {
    let (mut edited, windows) = projections();
    let settings = Recovery { steps: 5, rate: 1e38, seed: 0 };
    let error = run(&mut edited, &windows, settings).expect_err("explodes");
    assert!(matches!(error, CompressError::Recovery(_)), "{error:?}");
    assert!(error.to_string().contains("recovery training") && error.is_final(), "{error}");
}

#[test]
fn weights_that_were_cut_stay_and_operators_beside_them_are_trained() {
    let dropout = MethodSpec::Laser(LaserMethod::new(Intervention::Dropout));
    let cut = |roles: &[Role]| edit(roles, dropout.clone(), Some(Size::Keep(0.5)));
    let (mut edited, windows) = edited(vec![cut(&[Role::Up]), low_rank(&[Role::Down])]);
    let before = bits(&edited.network);
    assert!(run(&mut edited, &windows, SETTINGS).expect("trains").kept);
    let after = bits(&edited.network);
    let changed: Vec<&String> =
        before.iter().filter(|(name, values)| **values != after[*name]).map(|(n, _)| n).collect();
    let factors = changed.iter().all(|name| name.starts_with("model.layers.0.mlp.down_proj"));
    assert!(changed.len() == 2 && factors, "{changed:?}");

    let (mut nothing, windows) = self::edited(vec![cut(&[Role::Up])]);
    let error = run(&mut nothing, &windows, SETTINGS).expect_err("nothing to train");
    assert!(matches!(error, CompressError::NoRecovery { .. }), "{error}");
    assert!(error.to_string().contains("no replaced layer has parameters"), "{error}");
}

#[test]
fn healed_layers_and_operators_of_any_kind_take_their_place() {
    let monarch = OpSpec::default_of("monarch").expect("has defaults");
    let monarch = StructuredMethod { starts: 1, iterations: 3, ..StructuredMethod::new(monarch) };
    let up = edit(&[Role::Up], MethodSpec::Structured(monarch), None);
    let heal = crate::methods::DenseMethod::default();
    let heal = Edit { heals: true, ..edit(&[Role::Down], MethodSpec::Dense(heal), None) };
    let (mut edited, windows) = edited(vec![up, heal]);
    let before = bits(&edited.network);
    assert!(run(&mut edited, &windows, SETTINGS).expect("trains").kept);
    let after = bits(&edited.network);
    for (name, values) in &before {
        assert_eq!(name.contains("layers.0.mlp.up_proj"), *values != after[name], "{name}");
    }
}

/// Interrupts after a number of steps of training.
struct StopAfter(u64, u64);

impl Monitor for StopAfter {
    fn step(&mut self, _name: &str) {}

    fn progress(&mut self, done: u64, _total: u64) {
        self.1 = done;
    }

    fn interrupted(&self) -> bool {
        self.1 >= self.0
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

#[test]
fn interrupted_and_resumed_it_has_the_same_bits_and_is_not_done_twice() {
    let (start, windows) = projections();
    let mut whole = start.clone();
    let expected = run(&mut whole, &windows, SETTINGS).expect("trains");
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::at(folder.path());
    let context = Context { store: Some(&store), ..Context::new("hash") };
    let text = next_tokens(&windows);
    for stop in [7, 23, 44] {
        let mut edited = start.clone();
        let stopped =
            recover(&mut edited, &text, &SETTINGS, &context, &mut StopAfter(stop, 0)).unwrap_err();
        assert!(stopped.is_interruption() && !stopped.is_final(), "{stopped}");
        let at = matches!(stopped, CompressError::Recovery(TrainError::Interrupted { step, .. }) if step == stop);
        assert!(at, "{stopped}");
    }
    for stop in [u64::MAX, 0] {
        let mut edited = start.clone();
        let report = recover(&mut edited, &text, &SETTINGS, &context, &mut StopAfter(stop, 0));
        assert_eq!(report.expect("resumes"), expected);
        assert_eq!(bits(&edited.network), bits(&whole.network));
    }
    let kinds: Vec<String> =
        store.entries().expect("reads").into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, ["recovery", "time"], "no checkpoint is left");
}

#[test]
fn another_start_seed_or_rate_is_another_recovery() {
    let (edited, windows) = projections();
    let text = next_tokens(&windows);
    let of = |edited: &Edited<Transformer>, settings: &Recovery, hash: &str| {
        print(edited, &text, settings, &Context::new(hash))
    };
    let first = of(&edited, &SETTINGS, "hash");
    assert_eq!(first, of(&edited, &SETTINGS, "hash"));
    let mut moved = edited.clone();
    let site = moved.sites[0].site.clone();
    moved.network.slot_mut(&site).expect("is there").bias_mut().expect("has one")[0] += 1.0;
    let others = [
        of(&moved, &SETTINGS, "hash"),
        of(&edited, &SETTINGS, "other"),
        of(&edited, &Recovery { seed: 2, ..SETTINGS }, "hash"),
        of(&edited, &Recovery { rate: 0.02, ..SETTINGS }, "hash"),
    ];
    assert!(others.iter().all(|other| *other != first), "{others:?}");
}

#[test]
fn settings_without_steps_or_with_an_odd_rate_are_refused() {
    let (mut edited, windows) = projections();
    for (steps, rate, word) in [(0, 0.1, "0 steps"), (3, 0.0, "rate is 0"), (3, f64::NAN, "NaN")] {
        let error = run(&mut edited, &windows, Recovery { steps, rate, seed: 0 });
        let said = error.expect_err("refused").to_string();
        assert!(said.contains(word) && said.contains("recovery"), "{said}");
    }
}

#[test]
fn an_estimate_grows_with_the_steps_and_counts_the_trained_numbers() {
    let model = tiny::checkpoint("qwen2-biases").decoder;
    let windows = windows(&model);
    let text = next_tokens(&windows);
    let sites = model.slots().into_iter().map(|slot| slot.id().clone()).collect();
    let [short, long] = [10, 1000].map(|steps| {
        let settings = Recovery { steps, ..SETTINGS };
        estimate(&model, &sites, &text, &settings, 100).expect("runs")
    });
    assert_eq!(short.memory_bytes, 3200);
    // Both are timed, and other tests run beside them.
    assert!(short.seconds > 0.0 && long.seconds > 5.0 * short.seconds, "{short:?} {long:?}");
}

#[test]
fn a_network_on_labelled_images_recovers_too() {
    const NET: &str = "
input: {channels: 2, height: 3, width: 2}
layers: [{linear: {name: a, out: 6}}, relu, flatten, {linear: {name: b, out: 8}}, relu,
         {linear: {name: c, out: 3}}]
";
    let spec: NetSpec = serde_saphyr::from_str(NET).expect("a description");
    let net = Net::random(&spec, RngKey::new(1)).expect("builds");
    let rows = Mat::from_vec(40 * 6, 2, RngKey::new(2).stream().normals(40 * 12, 1.0));
    // The class follows from the first number of an example.
    let class = |example: usize| u32::from(rows.at(6 * example, 0) > 0.0);
    let classes: Vec<u32> = (0..40).map(class).collect();
    let labelled = Labelled::new(rows, 6, Targets::Classes(classes.clone())).expect("fits");
    let batches = LabelledBatches::new(labelled, 8, 32);
    let method = MethodSpec::LowRank(LowRankMethod::default());
    let edit = Edit { sites: SlotSet::default(), method, size: Some(Size::Rank(1)), heals: false };
    let (plan, context) = (Plan { edits: vec![edit], seed: 0 }, Context::new("hash"));
    let mut edited = apply(&net, Some(&batches), &plan, &context, &mut Silent).expect("applies");
    let targets = |index: usize, _: &linwright_nets::Batch| classes[8 * index..][..8].to_vec();
    let images = Supervised { examples: &batches, targets: &targets };
    let report = recover(&mut edited, &images, &SETTINGS, &context, &mut Silent).expect("trains");
    assert!(report.kept && report.loss_after < 0.9 * report.loss_before, "{report:?}");
    let others = |_: usize, batch: &linwright_nets::Batch| vec![2; batch.examples];
    let other = Supervised { examples: &batches, targets: &others };
    let of = |images| print(&edited, images, &SETTINGS, &context);
    assert_ne!(of(&images), of(&other), "other labels are another recovery");
}
