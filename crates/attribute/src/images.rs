//! Examples with classes, for small networks.

use crate::{AttributeError, ExampleBatch, Examples};
use linwright_nets::{Batch, Labelled, Targets};
use linwright_run::sha256_hex;
use linwright_tensor::{index_bytes, little_endian_bytes};
use std::ops::Range;

/// Examples of a network with one class each, such as images.
#[derive(Clone, Copy, Debug)]
pub struct Classified<'a> {
    labelled: &'a Labelled,
    classes: &'a [u32],
}

impl<'a> Classified<'a> {
    /// Examples whose targets are classes.
    ///
    /// # Errors
    /// [`AttributeError::Setting`] for other targets.
    pub fn new(labelled: &'a Labelled) -> Result<Self, AttributeError> {
        match labelled.targets() {
            Targets::Classes(classes) => Ok(Self { labelled, classes }),
            Targets::Values(_) => Err(AttributeError::Setting {
                name: "targets",
                found: "rows of numbers".into(),
                expected: "a class for each example".into(),
            }),
        }
    }
}

impl Examples<Batch> for Classified<'_> {
    fn count(&self) -> usize {
        self.labelled.len()
    }

    fn batch(&self, examples: Range<usize>) -> ExampleBatch<Batch> {
        let count = examples.len();
        let chosen: Vec<u32> = examples.clone().map(|example| example as u32).collect();
        let (input, targets) = (self.labelled.batch(&chosen), self.classes[examples].to_vec());
        ExampleBatch { input, targets, spans: (0..count).map(|at| at..at + 1).collect() }
    }

    fn identity(&self) -> String {
        let all: Vec<u32> = (0..self.labelled.len() as u32).collect();
        let rows = sha256_hex(little_endian_bytes(self.labelled.batch(&all).rows.data()));
        sha256_hex((rows + &sha256_hex(index_bytes(self.classes))).as_bytes())
    }
}
