//! When the server should end, and how long what runs may still take.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long sequences may go on after the server was asked to stop.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// How long after that their ends may be written to clients that read slowly.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Whether the server was asked to stop, and when that was first seen.
pub(super) struct Stop<'a> {
    asked: &'a (dyn Fn() -> bool + Sync),
    grace: Duration,
    since: OnceLock<Instant>,
}

impl<'a> Stop<'a> {
    /// `asked` tells from the moment on which it happens.
    pub(super) fn new(asked: &'a (dyn Fn() -> bool + Sync), grace: Duration) -> Self {
        Self { asked, grace, since: OnceLock::new() }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.since().is_some()
    }

    /// When nothing is written any more, if the server is to stop.
    pub(super) fn end(&self) -> Option<Instant> {
        self.since().map(|since| since + self.grace + LAST_WORDS)
    }

    fn since(&self) -> Option<Instant> {
        let seen = self.since.get().copied();
        seen.or_else(|| (self.asked)().then(|| *self.since.get_or_init(Instant::now)))
    }
}
