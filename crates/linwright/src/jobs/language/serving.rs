//! Limits of a server of completions.

use crate::jobs::kit::{Folded, Folding, catalogue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Options of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServeOptions {
    /// What requests may ask for.
    #[serde(flatten, with = "Folding::<ServeLimits>")]
    pub limits: ServeLimits,
}

/// What requests may ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServeLimits {
    /// Largest request body, in bytes.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub body: usize,
    /// Largest number of new tokens per choice.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub tokens: usize,
    /// Largest number of open connections.
    #[schemars(range(min = 1, max = 4096))]
    pub connections: usize,
    /// Largest number of requests that wait for the model.
    #[schemars(range(min = 1, max = 4096))]
    pub waiting: usize,
    /// Time limit for receiving a request and for sending a piece of a response, in seconds.
    #[schemars(range(min = 0.01, max = 86_400.0))]
    pub timeout: f64,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self { body: 4 << 20, tokens: 4096, connections: 64, waiting: 64, timeout: 30.0 }
    }
}

impl ServeLimits {
    /// The time limit.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }
}

impl Folded for ServeLimits {
    const NAME: &'static str = "serve_limits";
    const OPTION: &'static str = "limits";
    const HELP: &'static str =
        "Limits of requests and connections: `tokens=512,timeout=60`, `connections=8`.";

    catalogue!(ServeLimits);
}
