//! Progress and cancellation of long work.

use serde::{Deserialize, Serialize};

/// Receives progress, and can cancel. Libraries never print; the command line draws a bar.
pub trait Monitor {
    /// A step begins, such as `layer 3: capturing`.
    fn step(&mut self, name: &str);

    /// `done` of `total` units of the step are finished.
    fn progress(&mut self, done: u64, total: u64);

    /// Whether to stop as soon as possible.
    fn interrupted(&self) -> bool;

    /// Seconds since an arbitrary start, for times in reports.
    fn seconds(&self) -> f64;

    /// A line for the user, such as a warning. A monitor without output drops it.
    fn note(&self, _line: &str) {}

    /// Which details are wanted as notes: 0 none, 1 choices and their reasons, 2 each fit and file.
    fn detail_level(&self) -> u8 {
        0
    }

    /// Ends the last step; gives all steps since the start with their seconds, in order.
    fn finish(&mut self) -> Vec<StepTime> {
        Vec::new()
    }
}

/// A finished step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Its name.
    pub stage: String,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A monitor without output that never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Monitor for Silent {
    fn step(&mut self, _name: &str) {}

    fn progress(&mut self, _done: u64, _total: u64) {}

    fn interrupted(&self) -> bool {
        false
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

/// A monitor without output that cancels immediately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stopped;

impl Monitor for Stopped {
    fn step(&mut self, _name: &str) {}

    fn progress(&mut self, _done: u64, _total: u64) {}

    fn interrupted(&self) -> bool {
        true
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}
