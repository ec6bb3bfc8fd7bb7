//! Examples in memory, with the target of each.

use crate::{Batch, Extent, Net, NetError};
use linwright_ops::Examples;
use linwright_run::sha256_hex;
use linwright_tensor::kernels::elementwise::all_finite;
use linwright_tensor::{Mat, little_endian_bytes};

/// Targets of examples.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// A class for each example.
    Classes(Vec<u32>),
    /// A row of numbers for each example.
    Values(Mat<f32>),
}

impl Targets {
    /// Number of examples.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Values(values) => values.rows(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The targets of some examples.
    ///
    /// # Panics
    /// If there is no such example.
    #[must_use]
    pub fn of(&self, examples: &[u32]) -> Self {
        match self {
            Self::Classes(classes) => {
                Self::Classes(examples.iter().map(|&i| classes[i as usize]).collect())
            }
            Self::Values(values) => Self::Values(rows_of(values, 1, examples)),
        }
    }
}

/// The positions of some examples.
fn rows_of(rows: &Mat<f32>, places: usize, examples: &[u32]) -> Mat<f32> {
    let mut numbers = Vec::with_capacity(examples.len() * places * rows.cols());
    for &example in examples {
        let first = example as usize * places * rows.cols();
        numbers.extend_from_slice(&rows.data()[first..first + places * rows.cols()]);
    }
    Mat::from_vec(examples.len() * places, rows.cols(), numbers)
}

/// Examples in memory, with the target of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    rows: Mat<f32>,
    places: usize,
    targets: Targets,
}

impl Labelled {
    /// Examples with this number of positions, as rows (examples * positions, channels), with their
    /// targets.
    ///
    /// # Errors
    /// [`NetError::Examples`] if there are none, their numbers differ, or one has a number that is
    /// not finite.
    pub fn new(rows: Mat<f32>, places: usize, targets: Targets) -> Result<Self, NetError> {
        let count = targets.len();
        if count == 0 || rows.rows() != count.saturating_mul(places) || rows.cols() == 0 {
            return Err(NetError::Examples {
                what: "examples",
                found: format!(
                    "{} rows of {} numbers for {count} targets",
                    rows.rows(),
                    rows.cols()
                ),
                expected: format!("{places} rows for each, and at least one"),
            });
        }
        if !all_finite(rows.data()) {
            let bad = rows.data().iter().position(|number| !number.is_finite()).unwrap_or(0);
            let (row, channel) = (bad / rows.cols(), bad % rows.cols());
            let (example, place) = (row / places, row % places);
            return Err(NetError::Examples {
                what: "examples",
                found: format!(
                    "example {example} has {} at place {place}, channel {channel}",
                    rows.data()[bad]
                ),
                expected: "finite numbers".into(),
            });
        }
        Ok(Self { rows, places, targets })
    }

    /// Number of examples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Never: there is at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The targets.
    #[must_use]
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Some examples as a batch.
    ///
    /// # Panics
    /// If there is no such example.
    #[must_use]
    pub fn batch(&self, examples: &[u32]) -> Batch {
        let rows = rows_of(&self.rows, self.places, examples);
        Batch { rows, examples: examples.len() }
    }

    /// Only some examples, in this order.
    ///
    /// # Panics
    /// If there is no such example, or none is chosen.
    #[must_use]
    #[track_caller]
    pub fn select(&self, examples: &[u32]) -> Self {
        assert!(!examples.is_empty(), "some examples");
        let targets = self.targets.of(examples);
        Self { rows: self.batch(examples).rows, places: self.places, targets }
    }

    /// Checks that these examples fit the input, and their targets the output, of a network.
    ///
    /// # Errors
    /// [`NetError::Examples`] for another extent, several output positions for classes, and a class
    /// beyond the outputs.
    pub fn check(&self, net: &Net) -> Result<(), NetError> {
        let (input, output) = (net.input(), net.output());
        let wrong = |what, found: String, expected: String| {
            Err(NetError::Examples { what, found, expected })
        };
        if (self.places, self.rows.cols()) != (input.places(), input.channels) {
            let found = format!("{} places of {} channels", self.places, self.rows.cols());
            return wrong("examples", found, input.to_string());
        }
        if output.places() != 1 {
            let expected = "one place: let the network end with flatten and linear layers";
            return wrong("output of the network", output.to_string(), expected.into());
        }
        let Extent { channels, .. } = output;
        match &self.targets {
            Targets::Classes(classes) => match classes.iter().max() {
                Some(&most) if most as usize >= channels => {
                    let found = format!("a label of {most}");
                    wrong("labels", found, format!("below {channels}, the number of outputs"))
                }
                _ => Ok(()),
            },
            Targets::Values(values) if values.cols() != channels => {
                let found = format!("{} numbers for each example", values.cols());
                wrong("targets", found, format!("{channels}, the number of outputs"))
            }
            Targets::Values(_) => Ok(()),
        }
    }
}

/// Labelled examples in batches: those for training, then those for validation.
#[derive(Clone, Debug)]
pub struct LabelledBatches {
    examples: Labelled,
    batch: usize,
    training: usize,
}

impl LabelledBatches {
    /// Batches of examples, of which the first `training` are for training. No batch holds both.
    ///
    /// # Panics
    /// If the batch is empty, or there are fewer examples.
    #[must_use]
    #[track_caller]
    pub fn new(examples: Labelled, batch: usize, training: usize) -> Self {
        assert!(batch > 0 && training <= examples.len(), "batches of examples");
        Self { examples, batch, training }
    }

    /// The examples of a batch.
    fn range(&self, index: usize) -> std::ops::Range<usize> {
        let of_training = self.training.div_ceil(self.batch);
        let (first, end, index) = match index < of_training {
            true => (0, self.training, index),
            false => (self.training, self.examples.len(), index - of_training),
        };
        let start = first + index * self.batch;
        assert!(start < end, "there is no batch {index}");
        start..end.min(start + self.batch)
    }
}

impl Examples<Batch> for LabelledBatches {
    fn batches(&self) -> usize {
        let validation = self.examples.len() - self.training;
        self.training_batches() + validation.div_ceil(self.batch)
    }

    fn training_batches(&self) -> usize {
        self.training.div_ceil(self.batch)
    }

    fn batch(&self, index: usize) -> Batch {
        let examples: Vec<u32> = self.range(index).map(|i| i as u32).collect();
        self.examples.batch(&examples)
    }

    fn rows(&self, index: usize) -> usize {
        self.range(index).len() * self.examples.places
    }

    fn identity(&self) -> String {
        let Self { examples, batch, training } = self;
        let numbers = sha256_hex(little_endian_bytes(examples.rows.data()));
        format!("{numbers}, {} places, batches of {batch}, {training} first", examples.places)
    }
}
