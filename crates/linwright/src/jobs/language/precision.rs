//! The data type of a model in memory.

use crate::jobs::kit::named::Names;
use linwright_model::checkpoint::Precision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a model is held in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PrecisionOptions {
    /// Data type of weights in memory; `auto` is the storage type. Weights are rounded if it has
    /// fewer bits; computation is always in f32.
    #[schemars(with = "Names<Precision>")]
    pub dtype: Precision,
}

impl Default for PrecisionOptions {
    fn default() -> Self {
        Self { dtype: Precision::Auto }
    }
}
