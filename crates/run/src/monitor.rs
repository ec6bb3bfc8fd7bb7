//! Progress and cancellation of long work.

use serde::{Deserialize, Serialize};

/// Receives progress, and can cancel. Libraries never print; the command line draws a bar.
pub trait Monitor {
    /// A step begins, such as `layer 3: capturing`.
    fn step(&mut self, name: &str);

    /// `done` of `total` units of the step are finished.
    fn progress(&mut self, done: u64, total: u64);

    /// A share of the work is finished, of which a step is only a part: from it readers get the
    /// time that is left.
    fn whole(&mut self, _share: f64) {}

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

/// Monitor of a part of the work, whose shares become shares of all of it.
pub struct Part<'a> {
    monitor: &'a mut dyn Monitor,
    from: f64,
    length: f64,
}

impl<'a> Part<'a> {
    /// The part number `index`, from zero, of `count` equal ones.
    #[must_use]
    pub fn new(monitor: &'a mut dyn Monitor, index: usize, count: usize) -> Self {
        let length = 1.0 / count.max(1) as f64;
        Self { monitor, from: index as f64 * length, length }
    }
}

impl Monitor for Part<'_> {
    fn step(&mut self, name: &str) {
        self.monitor.step(name);
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.monitor.progress(done, total);
    }

    fn whole(&mut self, share: f64) {
        self.monitor.whole(self.from + self.length * share);
    }

    fn interrupted(&self) -> bool {
        self.monitor.interrupted()
    }

    fn seconds(&self) -> f64 {
        self.monitor.seconds()
    }

    fn note(&self, line: &str) {
        self.monitor.note(line);
    }

    fn detail_level(&self) -> u8 {
        self.monitor.detail_level()
    }

    fn finish(&mut self) -> Vec<StepTime> {
        self.monitor.finish()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the last share.
    #[derive(Default)]
    struct Last(f64);

    impl Monitor for Last {
        fn step(&mut self, _name: &str) {}

        fn progress(&mut self, _done: u64, _total: u64) {}

        fn whole(&mut self, share: f64) {
            self.0 = share;
        }

        fn interrupted(&self) -> bool {
            false
        }

        fn seconds(&self) -> f64 {
            0.0
        }
    }

    #[test]
    fn shares_of_a_part_of_a_part_are_shares_of_all() {
        let mut last = Last::default();
        let mut third = Part::new(&mut last, 2, 4);
        Part::new(&mut third, 1, 2).whole(0.5);
        assert!((last.0 - (0.5 + 0.25 * 0.75)).abs() < 1e-15);
        Part::new(&mut last, 3, 4).whole(1.0);
        assert!((last.0 - 1.0).abs() < 1e-15);
    }
}
