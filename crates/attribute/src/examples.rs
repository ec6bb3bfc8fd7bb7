//! Training examples with their targets, and the losses whose gradients are taken.

use crate::{AttributeError, Target};
use linwright_ops::OutputLoss;
use linwright_tensor::MatMut;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Row of an output without a target.
pub const NO_TARGET: u32 = u32::MAX;

/// Examples in a fixed order, each with a loss.
pub trait Examples<I> {
    /// Number of examples.
    fn count(&self) -> usize;

    /// Some examples, as one batch.
    ///
    /// # Panics
    /// If there is no such example.
    fn batch(&self, examples: Range<usize>) -> ExampleBatch<I>;

    /// A text that identifies the examples.
    fn identity(&self) -> String;
}

/// Some examples as the input of a network, with their targets.
#[derive(Clone, Debug)]
pub struct ExampleBatch<I> {
    /// The input.
    pub input: I,
    /// The target of each row of the output, [`NO_TARGET`] for a row without one.
    pub targets: Vec<u32>,
    /// The rows of the output that belong to each example, one example after the other.
    pub spans: Vec<Range<usize>>,
}

impl<I> ExampleBatch<I> {
    /// Number of targets of each example.
    #[must_use]
    pub fn counted(&self) -> Vec<u64> {
        let counted = |span: &Range<usize>| {
            self.targets[span.clone()].iter().filter(|target| **target != NO_TARGET).count() as u64
        };
        self.spans.iter().map(counted).collect()
    }
}

/// Reduction of the losses of the rows of an example to the loss of the example. Both are exact for
/// examples of any length: rows are differentiated with weight 1, and gradients are scaled
/// afterwards. A mean over a batch is not offered, since an example would then depend on its
/// neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Reduction {
    /// The sum over targets.
    Sum,
    /// The mean over the targets of the example.
    Mean,
}

impl Reduction {
    /// Every reduction, the default of options first.
    pub const ALL: [Self; 2] = [Self::Mean, Self::Sum];

    /// Its name in options and manifests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
        }
    }

    /// Factor of the gradient of an example of this many targets.
    #[must_use]
    pub fn scale(self, targets: u64) -> f32 {
        match self {
            Self::Sum => 1.0,
            Self::Mean => 1.0 / targets.max(1) as f32,
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Reduction {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let found = || AttributeError::Setting {
            name: "reduction",
            found: text.into(),
            expected: "sum or mean".into(),
        };
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(found)
    }
}

impl From<Reduction> for String {
    fn from(reduction: Reduction) -> Self {
        reduction.name().into()
    }
}

impl TryFrom<String> for Reduction {
    type Error = AttributeError;

    fn try_from(text: String) -> Result<Self, AttributeError> {
        text.parse()
    }
}

/// The sum of a quantity over all rows, which also records it for each example.
#[derive(Debug)]
pub(crate) struct ExampleLosses<'a> {
    target: Target,
    targets: &'a [u32],
    spans: &'a [Range<usize>],
    /// The sum for each example; losses are in nats.
    pub(crate) losses: Vec<f64>,
}

impl<'a> ExampleLosses<'a> {
    pub(crate) fn new<I>(batch: &'a ExampleBatch<I>, target: Target) -> Self {
        let losses = vec![0.0; batch.spans.len()];
        Self { target, targets: &batch.targets, spans: &batch.spans, losses }
    }
}

impl OutputLoss for ExampleLosses<'_> {
    fn of_rows(&mut self, first: usize, mut outputs: MatMut<'_, f32>) -> f64 {
        let (end, mut sum) = (first + outputs.rows(), 0.0);
        let mut next = first;
        for (span, loss) in self.spans.iter().zip(&mut self.losses) {
            let rows = span.start.max(first)..span.end.min(end);
            if rows.is_empty() {
                continue;
            }
            assert_eq!(rows.start, next, "spans follow each other");
            let block = outputs.reborrow().rows_range(rows.start - first, rows.len());
            let of_block = self.target.of_rows(&self.targets[rows.clone()], block);
            (*loss, sum, next) = (*loss + of_block, sum + of_block, rows.end);
        }
        assert_eq!(next, end, "every row belongs to an example");
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::CrossEntropy;
    use linwright_tensor::{Mat, RngKey};

    #[test]
    fn losses_of_examples_are_those_of_their_rows_in_any_blocks() {
        let outputs: Mat<f32> = Mat::from_vec(6, 4, RngKey::new(1).stream().normals(24, 1.0));
        let targets = vec![0, 3, NO_TARGET, 1, 2, NO_TARGET];
        let batch = ExampleBatch { input: (), targets, spans: vec![0..3, 3..3, 3..6] };
        assert_eq!(batch.counted(), [2, 0, 2]);
        let (mut whole, mut expected) = (outputs.clone(), outputs.clone());
        let mut losses = ExampleLosses::new(&batch, Target::Loss);
        let sum = losses.of_rows(0, whole.view_mut());
        let reference = CrossEntropy::sum(&batch.targets).of_rows(0, expected.view_mut());
        assert!((sum - reference).abs() < 1e-6 && whole == expected);
        let mut first = outputs.clone();
        let alone = CrossEntropy::sum(&batch.targets).of_rows(0, first.view_mut().rows_range(0, 3));
        assert!((losses.losses[0] - alone).abs() < 1e-6 && losses.losses[1] == 0.0);
        let (mut parts, mut blocks) = (outputs, ExampleLosses::new(&batch, Target::Loss));
        blocks.of_rows(0, parts.view_mut().rows_range(0, 4));
        blocks.of_rows(4, parts.view_mut().rows_range(4, 2));
        assert!(parts == expected && (blocks.losses[2] - losses.losses[2]).abs() < 1e-6);
    }

    #[test]
    fn reductions_have_names_that_are_read_back() {
        for reduction in Reduction::ALL {
            assert_eq!(reduction.to_string().parse::<Reduction>().unwrap(), reduction);
        }
        let message = "batch_mean".parse::<Reduction>().unwrap_err().to_string();
        assert!(message.contains("expected sum or mean"), "{message}");
        assert_eq!((Reduction::Mean.scale(4), Reduction::Sum.scale(4)), (0.25, 1.0));
    }
}
