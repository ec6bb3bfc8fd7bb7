//! A network that no other crate knows.
//!
//! Capture, fits and comparisons are written against [`Network`]; the tests of this crate run them
//! on a network which is not a language model. For a row x of an example with two rows,
//!
//! ```text
//! h = relu(Wa x + a) * (Wb x)      left, right: both read x
//! h = Wc h + c                     middle
//! y = Wd relu(h)                   last
//! ```

use linwright_ops::{
    Dense, ExampleRows, Examples, InputId, LinearSlot, Network, Op, Place, Probe, Seen, SiteId,
    Sites, SlotRole, Workspace,
};
use linwright_tensor::{Mat, RngKey};
use std::ops::Range;

/// Rows of an example.
pub const ROWS: usize = 2;

/// The network.
#[derive(Clone, Debug)]
pub struct Toy {
    slots: Vec<LinearSlot>,
}

/// An input that the network does not take.
#[derive(Debug, thiserror::Error)]
#[error("rows have {found} features, expected {expected}")]
pub struct WrongWidth {
    expected: usize,
    found: usize,
}

impl Toy {
    /// A network for rows of 6 features, with random weights.
    #[must_use]
    pub fn new(key: RngKey) -> Self {
        let slot = |name: &str, reads: &str, shape: [usize; 2], stage: usize, biased: bool| {
            let [out, inp] = shape;
            let mut stream = key.fold(name).stream();
            let weight = Mat::from_vec(out, inp, stream.normals(out * inp, 0.5));
            let bias = biased.then(|| stream.normals(out, 0.5));
            let role = match stage {
                2 => SlotRole::new("output", &[]),
                _ => SlotRole::new("inner", &["inside"]),
            };
            let (reads, layer) = (InputId(reads.into()), Some(stage));
            let place = Place { reads, role, layer, stage: Some(stage) };
            LinearSlot::new(
                SiteId(name.into()),
                place,
                Op::Linear(Box::new(Dense::new(weight))),
                bias,
            )
        };
        Self {
            slots: vec![
                slot("left", "x", [8, 6], 0, true),
                slot("right", "x", [8, 6], 0, false),
                slot("middle", "product", [7, 8], 1, true),
                slot("last", "activated", [7, 7], 2, false),
            ],
        }
    }

    /// The output for some rows.
    ///
    /// # Errors
    /// [`WrongWidth`].
    pub fn output(&self, x: &Mat<f32>) -> Result<Mat<f32>, WrongWidth> {
        let mut state = self.begin(x)?;
        self.run_stages(&mut state, x, 0..self.stages(), &mut linwright_ops::NoProbe)?;
        Ok(state)
    }

    fn linear(&self, index: usize, x: &Mat<f32>, probe: &mut dyn Probe) -> Mat<f32> {
        let slot = &self.slots[index];
        let mut y = Mat::zeros(x.rows(), slot.shape().out);
        slot.forward(x.view(), y.view_mut(), None, &mut Workspace::default());
        if probe.wants(slot.id()) {
            let spans: Vec<Range<usize>> =
                (0..x.rows()).step_by(ROWS).map(|row| row..row + ROWS).collect();
            let examples = ExampleRows::of_spans(&spans);
            probe.on_forward(slot.id(), Seen { x: x.view(), y: y.view(), examples: &examples });
        }
        y
    }
}

fn relu(x: &Mat<f32>) -> Mat<f32> {
    Mat::from_fn(x.rows(), x.cols(), |i, j| x.at(i, j).max(0.0))
}

impl Sites for Toy {
    fn slots(&self) -> Vec<&LinearSlot> {
        self.slots.iter().collect()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot> {
        self.slots.iter_mut().collect()
    }
}

impl Network for Toy {
    type Input = Mat<f32>;
    type State = Mat<f32>;
    type Error = WrongWidth;

    fn stages(&self) -> usize {
        3
    }

    fn begin(&self, x: &Mat<f32>) -> Result<Mat<f32>, WrongWidth> {
        let (expected, found) = (self.slots[0].shape().inp, x.cols());
        if expected == found { Ok(x.clone()) } else { Err(WrongWidth { expected, found }) }
    }

    fn run_stages(
        &self,
        state: &mut Mat<f32>,
        _input: &Mat<f32>,
        stages: Range<usize>,
        probe: &mut dyn Probe,
    ) -> Result<(), WrongWidth> {
        for stage in stages {
            *state = match stage {
                0 => {
                    let left = relu(&self.linear(0, state, probe));
                    let right = self.linear(1, state, probe);
                    Mat::from_fn(left.rows(), left.cols(), |i, j| left.at(i, j) * right.at(i, j))
                }
                1 => self.linear(2, state, probe),
                2 => self.linear(3, &relu(state), probe),
                other => panic!("stage {other} of 3"),
            };
            if probe.satisfied() {
                break;
            }
        }
        Ok(())
    }

    fn state_matrices(state: &mut Mat<f32>) -> Vec<&mut Mat<f32>> {
        vec![state]
    }

    fn state_bytes(state: &Mat<f32>) -> usize {
        4 * state.data().len()
    }

    fn other_parameters(&self) -> u64 {
        let biases = self.slots.iter().filter_map(LinearSlot::bias);
        biases.map(|bias| bias.len() as u64).sum()
    }
}

/// Batches of random rows, of which the last is for validation.
#[derive(Clone, Debug)]
pub struct Batches(pub Vec<Mat<f32>>);

impl Batches {
    /// Batches of 40 rows with random features.
    #[must_use]
    pub fn random(count: u64, key: RngKey) -> Self {
        let batch = |index| key.fold_index(index).stream().normals(40 * 6, 1.0);
        Self((0..count).map(|index| Mat::from_vec(40, 6, batch(index))).collect())
    }
}

impl Examples<Mat<f32>> for Batches {
    fn batches(&self) -> usize {
        self.0.len()
    }

    fn training_batches(&self) -> usize {
        self.0.len() - 1
    }

    fn batch(&self, index: usize) -> Mat<f32> {
        self.0[index].clone()
    }

    fn rows(&self, index: usize) -> usize {
        self.0[index].rows()
    }

    fn identity(&self) -> String {
        format!("{:?}", self.0)
    }
}
