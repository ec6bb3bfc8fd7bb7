//! Progress and cancellation of long work.

/// Receives progress, and can cancel. Libraries never print; the command line draws a bar.
pub trait Monitor {
    /// A step begins, such as `layer 3: capturing`.
    fn step(&mut self, name: &str);

    /// `done` of `total` units of the step are finished.
    fn progress(&mut self, done: u64, total: u64);

    /// Whether to stop as soon as possible.
    fn interrupted(&self) -> bool;

    /// Seconds since some start, for times in reports.
    fn seconds(&self) -> f64;
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

/// A monitor without output that cancels at once.
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
