//! Block-diagonal maps with Hadamard transforms between them, trained.
//!
//! Source: the BH-m baseline of arXiv:2507.11688: Adam, learning rate 0.01, batch size 256.

use super::{Fit, FitProblem, Method, MethodTraits, SampleRows, Training};
use crate::operator_size::operator_for;
use crate::{FitError, Size, Unit};
use linwright_ops::{BlockHadamardSpec, OpSpec, Shape};
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replaces a weight by BH-m.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlockHadamardMethod {
    /// Number m of block-diagonal maps.
    pub depth: usize,
    /// Side of the blocks of the inner maps.
    pub block: usize,
    /// Number of blocks of the final map; by default as the operator or the size determines it.
    pub blocks: Option<usize>,
    /// Training options.
    pub training: Training,
}

impl Default for BlockHadamardMethod {
    fn default() -> Self {
        let BlockHadamardSpec { depth, block, blocks } = BlockHadamardSpec::default();
        Self { depth, block, blocks, training: Training { rate: 0.01, ..Training::default() } }
    }
}

impl BlockHadamardMethod {
    fn spec(&self, size: Option<Size>, shape: Shape) -> Result<OpSpec, FitError> {
        let Self { depth, block, blocks, .. } = *self;
        let spec = OpSpec::BlockHadamard(BlockHadamardSpec { depth, block, blocks });
        size.map_or_else(|| Ok(spec.clone()), |size| operator_for(&spec, size, shape, None))
    }
}

impl Method for BlockHadamardMethod {
    const ID: &'static str = "block_hadamard";
    const SUMMARY: &'static str =
        "block-diagonal maps with Hadamard transforms between them, trained";

    fn label(&self, size: Option<Size>) -> String {
        super::with_size(format!("BH{}", self.depth), size)
    }

    fn traits(&self) -> MethodTraits {
        self.training.traits(&[Unit::Keep])
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        if let (Some(size), Some(blocks)) = (size, self.blocks) {
            return Err(format!("has {size} and blocks {blocks}; give one of them"));
        }
        super::check_saves(size)?;
        self.training.check()
    }

    fn shrunk(&self, by: usize) -> Self {
        let blocks = self.blocks.map(|blocks| (blocks / by).max(1));
        Self { blocks, training: self.training.shrunk(), ..*self }
    }

    trains_its_spec!();
}
