//! What long work tells its caller, and asks of it.

/// Hears of progress and says when to stop. Libraries never print; the command line draws a bar.
pub trait Monitor {
    /// A stage began, such as `layer 3: capturing`.
    fn stage(&mut self, name: &str);

    /// `done` of `total` pieces of the stage are finished.
    fn progress(&mut self, done: u64, total: u64);

    /// Whether to stop at the next occasion.
    fn interrupted(&self) -> bool;

    /// Seconds since some start, for the times in reports.
    fn seconds(&self) -> f64;
}

/// Says nothing and never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Monitor for Silent {
    fn stage(&mut self, _name: &str) {}

    fn progress(&mut self, _done: u64, _total: u64) {}

    fn interrupted(&self) -> bool {
        false
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

/// Says nothing and stops at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stopped;

impl Monitor for Stopped {
    fn stage(&mut self, _name: &str) {}

    fn progress(&mut self, _done: u64, _total: u64) {}

    fn interrupted(&self) -> bool {
        true
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}
