//! When the server should end, and the time left for running requests.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long sequences may continue after the server is asked to stop.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// Further time for writing their ends to slow clients.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Whether the server was asked to stop, and when this was noticed.
pub(super) struct Stop<'a> {
    asked: &'a (dyn Fn() -> bool + Sync),
    grace: Duration,
    since: OnceLock<Instant>,
}

impl<'a> Stop<'a> {
    /// `asked` becomes true at that moment.
    pub(super) fn new(asked: &'a (dyn Fn() -> bool + Sync), grace: Duration) -> Self {
        Self { asked, grace, since: OnceLock::new() }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.since().is_some()
    }

    /// Time after which nothing more is written, if the server is to stop.
    pub(super) fn end(&self) -> Option<Instant> {
        self.since().map(|since| since + self.grace + LAST_WORDS)
    }

    fn since(&self) -> Option<Instant> {
        let seen = self.since.get().copied();
        seen.or_else(|| (self.asked)().then(|| *self.since.get_or_init(Instant::now)))
    }
}
