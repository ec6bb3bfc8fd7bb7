//! Gradients that a probe sees, against those of training.

use crate::reference::Set;
use crate::tiny;
use linwright_model::checkpoint::{Form, Precision, SaveOptions, load, load_as, save};
use linwright_model::{Batch, ModelError, TrainingMemory, Transformer, TransformerGrads};
use linwright_ops::{
    CrossEntropy, Differentiable, ExampleRows, HalfDense, LowRankSpec, Network, Op, OpSpec, Probe,
    Seen, SeenGradient, SiteId, Sites,
};
use linwright_tensor::dtype::DType;
use linwright_tensor::{HalfType, Halves, Mat, MatRef, Metered, RngKey};
use serde_json::json;
use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATOR: Metered = Metered;

/// Largest difference of two sums in f32, relative to the largest number in them.
const TOLERANCE: f32 = 2e-5;

/// Sums of `dy xᵀ` over the rows of each example, by site.
type Sums = BTreeMap<SiteId, Vec<Mat<f32>>>;

/// Sums what it sees. Inputs come from the forward pass, or again from the backward pass.
struct Summing<'a> {
    model: &'a Transformer,
    wanted: &'a dyn Fn(&SiteId) -> bool,
    again: bool,
    examples: usize,
    /// Inputs of a site from the forward pass, block by block.
    inputs: BTreeMap<SiteId, Vec<Mat<f32>>>,
    sums: Sums,
    /// Sites in the order in which their gradients came.
    order: Vec<SiteId>,
}

impl<'a> Summing<'a> {
    fn new(model: &'a Transformer, wanted: &'a dyn Fn(&SiteId) -> bool, again: bool) -> Self {
        let (inputs, sums, order) = (BTreeMap::new(), Sums::new(), Vec::new());
        Self { model, wanted, again, examples: 0, inputs, sums, order }
    }

    /// Sums of a batch, whose loss is the sum over all tokens.
    fn run(mut self, batch: &Batch) -> (f64, Sums, Vec<SiteId>) {
        self.examples = batch.spans().len();
        let (model, targets) = (self.model, batch.next_tokens());
        let loss = model.loss_to_slots(batch, &mut CrossEntropy::sum(&targets), &mut self);
        (loss.expect("finite"), self.sums, self.order)
    }
}

impl Probe for Summing<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        !self.again && (self.wanted)(site)
    }

    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>) {
        assert!(!self.again, "{site} was not wanted");
        self.inputs.entry(site.clone()).or_default().push(seen.x.to_mat());
    }

    fn wants_gradient(&self, site: &SiteId) -> bool {
        (self.wanted)(site)
    }

    fn wants_input_again(&self, _site: &SiteId) -> bool {
        self.again
    }

    fn on_backward(&mut self, site: &SiteId, SeenGradient { x, dy, examples }: SeenGradient<'_>) {
        assert_eq!(x.is_some(), self.again, "{site}: the input only if it was asked for");
        let held = (!self.again).then(|| self.inputs.get_mut(site).expect("seen").remove(0));
        let x = x.unwrap_or_else(|| held.as_ref().expect("held").view());
        let shape = self.model.slot(site).expect("a slot").shape();
        let empty = || vec![Mat::zeros(shape.out, shape.inp); self.examples];
        let sums = self.sums.entry(site.clone()).or_insert_with(empty);
        for ExampleRows { example, rows } in examples {
            for row in rows.clone() {
                add_outer(&mut sums[*example], dy.row(row), x.row(row));
            }
        }
        if self.order.last() != Some(site) {
            self.order.push(site.clone());
        }
    }
}

fn add_outer(sum: &mut Mat<f32>, dy: &[f32], x: &[f32]) {
    for (o, d) in dy.iter().enumerate() {
        sum.row_mut(o).iter_mut().zip(x).for_each(|(sum, x)| *sum += d * x);
    }
}

fn total(sums: &[Mat<f32>]) -> Mat<f32> {
    let mut all = sums[0].clone();
    for other in &sums[1..] {
        all.data_mut().iter_mut().zip(other.data()).for_each(|(sum, v)| *sum += v);
    }
    all
}

fn assert_close(found: MatRef<'_, f32>, want: &[f32], what: &str) {
    let found = found.to_mat();
    let scale = want.iter().fold(1e-3f32, |most, v| most.max(v.abs()));
    for (a, b) in found.data().iter().zip(want) {
        assert!((a - b).abs() <= TOLERANCE * scale, "{what}: {a} and {b} of {scale}");
    }
}

fn batch_of(model: &Transformer, lengths: &[usize]) -> Batch {
    let longest = model.config().max_positions.min(20);
    let tokens = |(seed, &length): (usize, &usize)| {
        tiny::tokens(length.min(longest), model.config().vocab, seed as u64)
    };
    let sequences: Vec<Vec<u32>> = lengths.iter().enumerate().map(tokens).collect();
    Batch::new(&sequences.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Gradients of training by name, of the sum over tokens.
fn trained(model: &Transformer, batch: &Batch) -> BTreeMap<String, Vec<f32>> {
    let (mut grads, mut memory) = (TransformerGrads::zeros(model), TrainingMemory::default());
    let targets = batch.next_tokens();
    model.loss_and_grads(batch, &targets, &mut grads, &mut memory).expect("finite");
    let counted = targets.iter().filter(|target| **target != u32::MAX).count() as f32;
    let mut names = Vec::new();
    model.for_each_param(&mut |name, _| names.push(name.to_owned()));
    let summed = grads.slices().into_iter().map(|grad| grad.iter().map(|g| counted * g).collect());
    names.into_iter().zip(summed).collect()
}

fn check(model: &Transformer, what: &str) {
    let batch = batch_of(model, &[20, 1, 5]);
    let want = trained(model, &batch);
    for again in [false, true] {
        let (_, sums, _) = Summing::new(model, &|_| true, again).run(&batch);
        for slot in model.slots() {
            let (id, what) = (slot.id(), format!("{what}: {}", slot.id()));
            if slot.role().name() == "pooler" {
                assert!(!sums.contains_key(id), "{what}: the loss does not look at the pooler");
                continue;
            }
            let sums = sums.get(id).unwrap_or_else(|| panic!("{what} was not shown"));
            assert_close(total(sums).view(), &want[&format!("{id}.weight")], &what);
        }
    }
    let (_, together, _) = Summing::new(model, &|_| true, true).run(&batch);
    for (example, span) in batch.spans().iter().enumerate() {
        let alone = Batch::new(&[&batch.tokens()[span.clone()]]);
        let (_, alone, _) = Summing::new(model, &|_| true, true).run(&alone);
        for (site, sums) in &together {
            let what = format!("{what}: {site} in sequence {example}");
            assert_close(sums[example].view(), alone[site][0].data(), &what);
        }
    }
}

#[test]
fn sums_of_every_slot_are_the_gradients_of_training_and_those_of_each_sequence() {
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let model = set.model();
        if model.has_head() {
            check(&model, &set.stem);
        } else {
            let batch = batch_of(&model, &[5]);
            let targets = batch.next_tokens();
            let mut probe = Summing::new(&model, &|_| true, true);
            let error = model.loss_to_slots(&batch, &mut CrossEntropy::sum(&targets), &mut probe);
            assert_eq!(error.unwrap_err(), ModelError::NoHead, "{}", set.stem);
        }
    }
}

#[test]
fn a_head_whose_rows_come_in_blocks_shows_the_rows_of_each_sequence() {
    // Blocks have 64 rows for vocabularies of any size.
    let config = json!({ "vocab_size": 140_000, "hidden_size": 8, "num_attention_heads": 2 });
    let model = tiny::decoder(tiny::config("llama", config), 3);
    let tokens = [tiny::tokens(50, 50, 1), tiny::tokens(40, 50, 2)];
    let both = Batch::new(&[&tokens[0], &tokens[1]]);
    let head = |site: &SiteId| site.0 == "lm_head";
    let (_, sums, order) = Summing::new(&model, &head, true).run(&both);
    assert_eq!(order, [SiteId("lm_head".into())]);
    for (example, tokens) in tokens.iter().enumerate() {
        let (_, alone, _) = Summing::new(&model, &head, true).run(&Batch::new(&[tokens]));
        let site = SiteId("lm_head".into());
        assert_close(sums[&site][example].view(), alone[&site][0].data(), "the head");
    }
}

#[test]
fn gradients_pass_structured_operators_and_weights_in_16_bits() {
    let mut model = tiny::decoder(tiny::config("llama", json!({})), 5);
    let dense = SiteId("model.layers.0.mlp.up_proj".into());
    for (index, slot) in model.slots_mut().into_iter().enumerate() {
        let spec = OpSpec::LowRank(LowRankSpec { rank: 3 });
        let key = RngKey::new(6).fold_index(index as u64);
        if *slot.id() != dense {
            slot.replace(spec.random(slot.shape(), key).expect("exists")).expect("fits");
        }
    }
    let batch = batch_of(&model, &[9, 7]);
    let (_, sums, _) = Summing::new(&model, &|_| true, false).run(&batch);
    let want = trained(&model, &batch);
    assert_close(total(&sums[&dense]).view(), &want["model.layers.0.mlp.up_proj.weight"], "up");

    let set = Set::all("decoder").swap_remove(0);
    let loaded = set.load();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("half");
    let options = SaveOptions { dtype: Some(DType::Bf16), ..SaveOptions::new(Form::Dense) };
    save(&loaded.decoder, &loaded.source, &options, &path).expect("saves");
    let (wide, half) = (load(&path).expect("loads"), load_as(&path, Precision::Auto));
    let half = half.expect("loads").decoder;
    assert!(half.held_in_half().is_some() && wide.decoder.held_in_half().is_none());
    let batch = batch_of(&half, &[9, 7]);
    let (loss, found, _) = Summing::new(&half, &|_| true, true).run(&batch);
    let (other, want, _) = Summing::new(&wide.decoder, &|_| true, true).run(&batch);
    assert!((loss - other).abs() < 1e-4 * other, "{loss} and {other}");
    for (site, sums) in &want {
        assert_close(total(&found[site]).view(), total(sums).data(), &site.0);
    }
}

/// Peak memory of a pass to some slots, beyond what is held.
fn peak_of(model: &Transformer, batch: &Batch, wanted: &dyn Fn(&SiteId) -> bool) -> usize {
    struct Looking<'a>(&'a dyn Fn(&SiteId) -> bool, Vec<SiteId>);
    impl Probe for Looking<'_> {
        fn wants(&self, _: &SiteId) -> bool {
            false
        }
        fn on_forward(&mut self, _: &SiteId, _: Seen<'_>) {}
        fn wants_gradient(&self, site: &SiteId) -> bool {
            (self.0)(site)
        }
        fn on_backward(&mut self, site: &SiteId, seen: SeenGradient<'_>) {
            assert!(seen.x.is_none(), "nobody asked for the input");
            self.1.push(site.clone());
        }
    }
    model.release_scratch();
    let mut probe = Looking(wanted, Vec::new());
    let targets = batch.next_tokens();
    let mut loss = CrossEntropy::sum(&targets);
    let (outcome, peak) = Metered::peak_bytes(|| model.loss_to_slots(batch, &mut loss, &mut probe));
    outcome.expect("finite");
    let shown = model.slots().into_iter().filter(|slot| wanted(slot.id()));
    assert_eq!(probe.1.len(), shown.count(), "{:?}", probe.1);
    model.release_scratch();
    peak
}

#[test]
fn no_weight_gradient_is_allocated_and_nothing_is_kept_below_the_first_wanted_slot() {
    let config = json!({
        "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 6,
        "num_attention_heads": 4,
    });
    let model = Transformer::random(tiny::config("llama", config), RngKey::new(1));
    let weights = 4 * model.parameters() as usize;
    let batch = batch_of(&model, &[4]);
    let all = peak_of(&model, &batch, &|_| true);
    assert!(all < weights / 4, "{all} bytes beside {weights} of weights");
    let targets = batch.next_tokens();
    let (_, training) = Metered::peak_bytes(|| {
        let (mut grads, mut memory) = (TransformerGrads::zeros(&model), TrainingMemory::default());
        model.loss_and_grads(&batch, &targets, &mut grads, &mut memory).expect("finite")
    });
    assert!(training > weights, "the same measurement sees gradients: {training} of {weights}");

    // Activations matter here, not weights.
    let batch = batch_of(&model, &[20; 30]);
    let all = peak_of(&model, &batch, &|_| true);
    let last = peak_of(&model, &batch, &|site| site.0.starts_with("model.layers.5.mlp"));
    assert!(last < all / 2, "{last} bytes for the last MLP, {all} for all slots");
}

#[test]
fn the_pass_ends_below_the_first_wanted_slot() {
    let model = tiny::decoder(tiny::config("llama", json!({})), 5);
    let batch = batch_of(&model, &[9, 7]);
    let names = ["model.layers.1.mlp.down_proj", "model.layers.1.self_attn.o_proj"];
    let (_, whole, _) = Summing::new(&model, &|_| true, true).run(&batch);
    for count in 1..=names.len() {
        let wanted = |site: &SiteId| names[..count].contains(&site.0.as_str());
        let (_, sums, order) = Summing::new(&model, &wanted, true).run(&batch);
        assert_eq!(order, names[..count].iter().map(|n| SiteId((*n).into())).collect::<Vec<_>>());
        for (site, sums) in sums {
            assert_eq!(sums, whole[&site], "{site}");
        }
    }
}

#[test]
fn weights_in_16_bits_are_not_widened_as_a_whole() {
    let config = json!({
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 1,
        "num_attention_heads": 8,
    });
    let mut model = Transformer::random(tiny::config("llama", config), RngKey::new(1));
    for slot in model.slots_mut().into_iter().filter(|slot| slot.layer().is_some()) {
        let weight = slot.op().to_dense().expect("dense");
        let of = HalfType::Bf16;
        let bits = weight.data().iter().map(|v| (v.to_bits() >> 16) as u16).collect();
        let half = HalfDense::new(Halves::new(of, weight.rows(), weight.cols(), bits));
        slot.replace(Op::Linear(Box::new(half))).expect("fits");
    }
    let batch = batch_of(&model, &[4]);
    let peak = peak_of(&model, &batch, &|_| true);
    let widened = 4 * 1024 * 4096;
    assert!(peak < widened / 2, "{peak} bytes, one weight in f32 has {widened}");
}
