//! Training after layers were replaced, as an option: `--recover 300:rate=0.0003`.

use super::bounds;
use super::terms::{Catalogue, Terms};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Steps of the training and how large they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Recover {
    /// Steps of Adam.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: u64,
    /// Largest step size [default: 0.001; of potentials 0.0003].
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub rate: Option<f64>,
}

static RECOVER: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::with_head::<Recover>("recover", "steps", "training of the replaced layers")
});

impl Terms for Recover {
    const NAME: &'static str = "recover";

    fn catalogue() -> &'static Catalogue {
        &RECOVER
    }
}
