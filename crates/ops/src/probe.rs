//! Probes: the interface for capturing activations and gradients.

use crate::SiteId;
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;

/// Receives inputs and outputs of the slots of a network, and gradients of the outputs.
///
/// A slot may be shown several times in one pass, each time with different rows: the head of a
/// language model is computed in blocks of rows.
pub trait Probe {
    /// Whether to show this site in the forward pass; other sites have no cost.
    fn wants(&self, site: &SiteId) -> bool;

    /// Called with input and output of a slot in the forward pass.
    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>);

    /// Whether the probe needs only inputs. A network may then show a slot before its output is
    /// computed, with an empty output.
    fn needs_inputs_alone(&self) -> bool {
        false
    }

    /// Whether everything needed was captured, so that the pass may end early. Called after each
    /// stage, and by some networks within one; the output of the pass is then unspecified.
    fn satisfied(&self) -> bool {
        false
    }

    /// The input of this site, if it is known: a network whose slot it is may then compute its
    /// output alone, with no slot of the stage before it. Asked only of the last slot of a stage
    /// ([`Network::ends_stage`](crate::Network::ends_stage)).
    fn known_input(&mut self, _site: &SiteId) -> Option<Mat<f32>> {
        None
    }

    /// Whether to show the gradient of this site in the backward pass. The pass ends below the
    /// first site for which this holds.
    fn wants_gradient(&self, _site: &SiteId) -> bool {
        false
    }

    /// Whether the backward pass also shows the input of this site, which it then keeps or
    /// recomputes. Not needed by a probe that takes its data in [`Self::on_forward`].
    fn wants_input_again(&self, _site: &SiteId) -> bool {
        false
    }

    /// The gradient of the output of a slot, in the backward pass.
    fn on_backward(&mut self, _site: &SiteId, _seen: SeenGradient<'_>) {}
}

/// Rows of one example: of a token sequence, of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleRows {
    /// Number of the example in its batch, from zero.
    pub example: usize,
    /// Its rows, or the shown ones.
    pub rows: Range<usize>,
}

impl ExampleRows {
    /// The examples of a batch that have all these rows, one after the other.
    #[must_use]
    pub fn of_spans(spans: &[Range<usize>]) -> Vec<Self> {
        let numbered = spans.iter().enumerate();
        numbered.map(|(example, rows)| Self { example, rows: rows.clone() }).collect()
    }

    /// The part of these rows in a block of rows, counted from its start; empty parts are omitted.
    #[must_use]
    pub fn within(all: &[Self], block: &Range<usize>) -> Vec<Self> {
        let part = |Self { example, rows }: &Self| {
            let (start, end) = (rows.start.max(block.start), rows.end.min(block.end));
            let rows = start.saturating_sub(block.start)..end.saturating_sub(block.start);
            (start < end).then_some(Self { example: *example, rows })
        };
        all.iter().filter_map(part).collect()
    }
}

/// Rows of a slot in a forward pass.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Input (rows, inp).
    pub x: MatRef<'a, f32>,
    /// Output (rows, out), bias included; (0, out) if the probe needs only inputs and the output
    /// was not computed.
    pub y: MatRef<'a, f32>,
    /// Rows of each example.
    pub examples: &'a [ExampleRows],
}

/// Rows of a slot in a backward pass.
#[derive(Clone, Copy, Debug)]
pub struct SeenGradient<'a> {
    /// Input (rows, inp), if the probe asked for it.
    pub x: Option<MatRef<'a, f32>>,
    /// Gradient of the loss with respect to the output (rows, out).
    pub dy: MatRef<'a, f32>,
    /// Rows of each example.
    pub examples: &'a [ExampleRows],
}

/// A probe that captures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    fn wants(&self, _site: &SiteId) -> bool {
        false
    }

    fn on_forward(&mut self, _site: &SiteId, _seen: Seen<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_the_parts_of_the_examples_in_them() {
        let all = ExampleRows::of_spans(&[0..3, 3..3, 3..9]);
        assert_eq!(ExampleRows::within(&all, &(0..9)).len(), 2);
        let part = |example, rows| ExampleRows { example, rows };
        assert_eq!(ExampleRows::within(&all, &(2..5)), [part(0, 0..1), part(2, 1..3)]);
        assert_eq!(ExampleRows::within(&all, &(5..9)), [part(2, 0..4)]);
    }
}
