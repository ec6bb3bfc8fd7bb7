//! Captures are those of whole passes, whatever the memory bounds and however the network is
//! edited.

use linwright_measure::capture::{Bounds, Evidence, Lockstep, Needs, SiteCapture, Wanted};
use linwright_measure::samples::Samples;
use linwright_measure::stats::SiteStats;
use linwright_ops::{
    Examples, LinearSlot, LowRankSpec, Network, OpSpec, Probe, Seen, SiteId, Sites,
};
use linwright_run::Silent;
use linwright_tensor::{Mat, RngKey};
use linwright_toy::{Batches, Toy};
use std::cell::Cell;

fn site(name: &str) -> SiteId {
    SiteId(name.into())
}

/// Replaces a weight by an operator of rank 2.
fn edit(network: &mut Toy, name: &str) {
    let slot = network.slot_mut(&site(name)).expect("is a slot");
    let op = OpSpec::LowRank(LowRankSpec { rank: 2 }).random(slot.shape(), RngKey::new(9));
    slot.replace(op.expect("exists")).expect("fits");
}

/// Inputs and outputs (without the bias) of a site in whole passes over all batches.
fn naive(network: &Toy, batches: &Batches, name: &str) -> [Mat<f32>; 2] {
    struct Rows(SiteId, [Vec<f32>; 2]);
    impl Probe for Rows {
        fn wants(&self, site: &SiteId) -> bool {
            *site == self.0
        }
        fn on_forward(&mut self, _: &SiteId, Seen { x, y, .. }: Seen<'_>) {
            self.1[0].extend(x.to_mat().data());
            self.1[1].extend(y.to_mat().data());
        }
    }
    let mut rows = Rows(site(name), [Vec::new(), Vec::new()]);
    for batch in &batches.0 {
        let mut state = network.begin(batch).expect("the right width");
        network.run_stages(&mut state, batch, 0..3, &mut rows).expect("runs");
    }
    let slot = network.slot(&site(name)).expect("is a slot");
    let [x, mut y] = rows.1;
    if let Some(bias) = slot.bias() {
        y.chunks_mut(bias.len()).flatten().zip(bias.iter().cycle()).for_each(|(y, b)| *y -= b);
    }
    let (out, inp) = (slot.shape().out, slot.shape().inp);
    [Mat::from_vec(x.len() / inp, inp, x), Mat::from_vec(y.len() / out, out, y)]
}

fn assert_close(found: &Mat<f32>, want: &Mat<f32>, what: &str) {
    assert_eq!(found.data().len(), want.data().len(), "{what}");
    let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4 * b.abs().max(1.0);
    assert!(found.data().iter().zip(want.data()).all(close), "{what}");
}

fn samples(capture: &SiteCapture) -> &Samples {
    let Evidence::Samples(samples) = &capture.evidence else { panic!("samples were asked for") };
    samples
}

/// Captures in rising and falling order while the network is edited, and compares every capture
/// with two whole passes.
fn walk(bounds: &Bounds) {
    let (original, batches) = (Toy::new(RngKey::new(1)), Batches::random(4, RngKey::new(2)));
    let mut edited = original.clone();
    let mut lockstep = Lockstep::new(&original, &batches, bounds.clone());
    for names in [&["middle"][..], &["left", "right"], &["last"], &["right"], &["middle"]] {
        let sites: Vec<SiteId> = names.iter().map(|name| site(name)).collect();
        let wanted: Vec<Wanted<'_>> =
            sites.iter().map(|site| Wanted { site, needs: Needs::Samples }).collect();
        let captured = lockstep.capture(&edited, &wanted, &mut Silent).expect("captures");
        for (capture, name) in captured.iter().zip(names) {
            let what = format!("{name}, {bounds:?}");
            let found = samples(capture);
            let x = &naive(&edited, &batches, name)[0];
            let y = &naive(&original, &batches, name)[1];
            assert_close(&found.x.view().to_mat(), x, &what);
            assert_close(&found.y.view().to_mat(), y, &what);
            assert_eq!(found.train, batches.training_rows(), "{what}");
        }
        edit(&mut edited, names[0]);
        let stage = original.slot(&sites[0]).and_then(LinearSlot::stage);
        lockstep.note_edit(stage.expect("a stage"));
    }
}

#[test]
fn captures_are_those_of_whole_passes_whatever_the_bounds() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    for (state_bytes, sample_bytes) in [(0, 0), (1 << 30, 0), (0, 1 << 30), (1 << 30, 1 << 30)] {
        walk(&Bounds { state_bytes, sample_bytes, scratch: scratch.path().to_owned() });
    }
    assert_eq!(std::fs::read_dir(scratch.path()).expect("lists").count(), 0);
}

#[test]
fn sites_with_one_input_are_captured_in_one_pass_each_in_its_form() {
    /// Counts how often batches are read.
    struct Counted(Batches, Cell<usize>);
    impl Examples<Mat<f32>> for Counted {
        fn batches(&self) -> usize {
            self.0.batches()
        }
        fn training_batches(&self) -> usize {
            self.0.training_batches()
        }
        fn batch(&self, index: usize) -> Mat<f32> {
            self.1.set(self.1.get() + 1);
            self.0.batch(index)
        }
        fn rows(&self, index: usize) -> usize {
            self.0.rows(index)
        }
        fn identity(&self) -> String {
            self.0.identity()
        }
    }
    let network = Toy::new(RngKey::new(1));
    let counted = Counted(Batches::random(4, RngKey::new(2)), Cell::new(0));
    let (left, right) = (site("left"), site("right"));
    let wanted = [
        Wanted { site: &left, needs: Needs::Stats },
        Wanted { site: &right, needs: Needs::Samples },
    ];
    let mut lockstep = Lockstep::new(&network, &counted, Bounds::default());
    let captured = lockstep.capture(&network, &wanted, &mut Silent).expect("captures");
    assert_eq!(counted.1.get(), 4, "each batch once");
    let rows = counted.training_rows();
    let [x, y] = naive(&network, &counted.0, "left");
    let Evidence::Stats { train, validation } = &captured[0].evidence else {
        panic!("sums were asked for")
    };
    for (found, first, count) in [(train, 0, rows), (validation, rows, x.rows() - rows)] {
        let want =
            SiteStats::of(x.view().rows_range(first, count), y.view().rows_range(first, count));
        for (a, b) in [(&found.inputs.sxx, &want.inputs.sxx), (&found.syx, &want.syx)] {
            assert_close(&a.cast(), &b.cast(), "sums");
        }
    }
    let want = &naive(&network, &counted.0, "right")[1];
    assert_close(&samples(&captured[1]).y.view().to_mat(), want, "samples");

    let wanted = [&left, &right].map(|site| Wanted { site, needs: Needs::Inputs });
    let alone = lockstep.capture(&network, &wanted, &mut Silent).expect("captures");
    for capture in &alone {
        let Evidence::Inputs { train: own, validation: other } = &capture.evidence else {
            panic!("sums over inputs were asked for")
        };
        assert!(**own == *train.inputs && **other == *validation.inputs, "the same bits");
    }
}

/// The sums of the products of inputs with a weight are those of the outputs without the bias.
#[test]
fn sums_over_outputs_are_those_of_the_original_weight_on_the_inputs() {
    let (network, batches) = (Toy::new(RngKey::new(1)), Batches::random(4, RngKey::new(2)));
    let site = site("middle");
    let mut lockstep = Lockstep::new(&network, &batches, Bounds::default()).without_targets();
    let wanted = [Wanted { site: &site, needs: Needs::Outputs }];
    let captured = lockstep.capture(&network, &wanted, &mut Silent).expect("captures");
    let Evidence::Outputs { train, validation } = &captured[0].evidence else {
        panic!("sums over outputs were asked for")
    };
    let y = &naive(&network, &batches, "middle")[1];
    let rows = batches.training_rows();
    for (found, first, count) in [(train, 0, rows), (validation, rows, y.rows() - rows)] {
        let part = y.view().rows_range(first, count);
        let want = SiteStats::of(part, part);
        assert_eq!(found.count, count as u64);
        assert_close(&found.sxx.cast(), &want.inputs.sxx.cast(), "sums over outputs");
    }
}

/// Inputs of the edited network alone are the same bits as those beside targets, whatever was
/// edited before.
#[test]
fn inputs_without_targets_are_those_of_the_edited_network() {
    let (original, batches) = (Toy::new(RngKey::new(1)), Batches::random(4, RngKey::new(2)));
    let mut edited = original.clone();
    let mut both = Lockstep::new(&original, &batches, Bounds::default());
    let mut alone = Lockstep::new(&original, &batches, Bounds::default()).without_targets();
    for name in ["left", "middle", "last"] {
        let site = site(name);
        let sums = |lockstep: &mut Lockstep<'_, Toy>, needs| {
            let wanted = [Wanted { site: &site, needs }];
            let captured = lockstep.capture(&edited, &wanted, &mut Silent).expect("captures");
            match &captured[0].evidence {
                Evidence::Inputs { train, validation } => {
                    [train, validation].map(|s| (**s).clone())
                }
                Evidence::Stats { train, validation } => {
                    [train, validation].map(|sums| (*sums.inputs).clone())
                }
                Evidence::Outputs { .. } | Evidence::Samples(_) => panic!("sums were asked for"),
            }
        };
        let beside = sums(&mut both, Needs::Stats);
        let x = &naive(&edited, &batches, name)[0];
        assert_eq!(beside[0].count + beside[1].count, x.rows() as u64);
        assert!(sums(&mut both, Needs::Inputs) == beside, "{name}, where outputs are known");
        assert!(sums(&mut alone, Needs::Inputs) == beside, "{name}");
        edit(&mut edited, name);
        let stage = original.slot(&site).and_then(LinearSlot::stage).expect("a stage");
        both.note_edit(stage);
        alone.note_edit(stage);
    }
}

#[test]
#[should_panic(expected = "targets of a lockstep without")]
fn a_lockstep_without_targets_captures_none() {
    let (network, batches) = (Toy::new(RngKey::new(1)), Batches::random(2, RngKey::new(2)));
    let left = site("left");
    let mut lockstep = Lockstep::new(&network, &batches, Bounds::default()).without_targets();
    let wanted = [Wanted { site: &left, needs: Needs::Stats }];
    let _captured = lockstep.capture(&network, &wanted, &mut Silent);
}

#[test]
#[should_panic(expected = "read several inputs")]
fn sites_with_different_inputs_are_not_captured_together() {
    let (network, batches) = (Toy::new(RngKey::new(1)), Batches::random(2, RngKey::new(2)));
    let sites = [site("left"), site("middle")];
    let wanted: Vec<Wanted<'_>> =
        sites.iter().map(|site| Wanted { site, needs: Needs::Stats }).collect();
    let mut lockstep = Lockstep::new(&network, &batches, Bounds::default());
    let _captured = lockstep.capture(&network, &wanted, &mut Silent);
}
