//! Progress reports to Python, and cancellation from there.

use linwright::run::{Monitor, StepTime};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Shortest interval between two checks for cancellation, and between two progress messages: each
/// waits for the interpreter's lock.
const INTERVAL: Duration = Duration::from_millis(50);

/// Whether Python asked to stop: by Ctrl-C, or by an exception in a callback.
#[derive(Debug)]
pub(crate) struct Stop {
    state: RefCell<StopState>,
}

#[derive(Debug)]
struct StopState {
    error: Option<PyErr>,
    asked: Instant,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { state: RefCell::new(StopState { error: None, asked: Instant::now() }) }
    }

    /// Whether to stop. Signal handlers run here, since Python runs them only between its
    /// instructions.
    pub(crate) fn is_asked(&self) -> bool {
        let mut state = self.state.borrow_mut();
        if state.error.is_none() && state.asked.elapsed() >= INTERVAL {
            state.asked = Instant::now();
            state.error = Python::attach(|py| py.check_signals()).err();
        }
        state.error.is_some()
    }

    /// The exception that requested the stop.
    pub(crate) fn take(self) -> Option<PyErr> {
        self.state.into_inner().error
    }

    /// Keeps the first exception.
    fn keep(&self, result: PyResult<()>) {
        if let Err(error) = result {
            self.state.borrow_mut().error.get_or_insert(error);
        }
    }
}

/// Calls an object with the methods `step(name)`, `progress(done, total)`, `note(line)` and
/// `finish()`.
#[derive(Debug)]
pub(crate) struct Receiver<'a> {
    object: Option<Py<PyAny>>,
    stop: &'a Stop,
    start: Instant,
    /// Time of the last progress message.
    told: Instant,
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(object: Option<Py<PyAny>>, stop: &'a Stop) -> Self {
        let now = Instant::now();
        Self { object, stop, start: now, told: now }
    }

    fn call(&self, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        if let Some(object) = &self.object {
            self.stop.keep(Python::attach(|py| work(object.bind(py))));
        }
    }
}

impl Monitor for Receiver<'_> {
    fn step(&mut self, name: &str) {
        self.call(|object| object.call_method1("step", (name,)).map(drop));
    }

    fn progress(&mut self, done: u64, total: u64) {
        if done >= total || self.told.elapsed() >= INTERVAL {
            self.told = Instant::now();
            self.call(|object| object.call_method1("progress", (done, total)).map(drop));
        }
    }

    fn interrupted(&self) -> bool {
        self.stop.is_asked()
    }

    fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn note(&self, line: &str) {
        self.call(|object| object.call_method1("note", (line,)).map(drop));
    }

    fn finish(&mut self) -> Vec<StepTime> {
        self.call(|object| object.call_method0("finish").map(drop));
        Vec::new()
    }
}
