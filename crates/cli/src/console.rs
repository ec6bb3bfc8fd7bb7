//! Progress on stderr: a bar on a terminal, plain lines elsewhere, nothing when quiet.

use crate::args::Shared;
use crate::host::HOST;
use crate::interrupt;
use crate::opened::opened;
use crate::stderr::write_stderr;
use indicatif::{ProgressBar, ProgressStyle};
use linwright::jobs::Session;
use linwright::report::number::{bytes, seconds};
use linwright::run::memory::peak_resident_bytes;
use linwright::run::{Monitor, StepTime};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shortest interval between plain lines of progress.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
/// Work after which the time that is left is estimated.
const ENOUGH: Duration = Duration::from_secs(3);

/// Prints notes and progress.
#[derive(Debug)]
pub(crate) struct Console {
    quiet: bool,
    verbose: u8,
    bar: Option<ProgressBar>,
    step: String,
    start: Instant,
    began: Instant,
    last_line: Instant,
    whole: Option<Whole>,
    last_whole: Instant,
    times: Vec<StepTime>,
    /// [`opened`] at the start of the step.
    opened: [u64; 2],
}

impl Console {
    pub(crate) fn new(shared: &Shared) -> Self {
        // The lines about opened files would break a progress bar.
        let plain = shared.quiet || shared.no_progress || shared.verbose > 0;
        let bar = !plain && std::io::stderr().is_terminal();
        Self {
            quiet: shared.quiet,
            verbose: shared.verbose,
            bar: bar.then(new_bar),
            step: String::new(),
            start: Instant::now(),
            began: Instant::now(),
            last_line: Instant::now(),
            whole: None,
            last_whole: Instant::now(),
            times: Vec::new(),
            opened: opened(),
        }
    }

    /// A session of jobs that reports here.
    pub(crate) fn session(&mut self) -> Session<'_> {
        Session::new(self, HOST)
    }

    /// A line for `-v`: a choice and its reason.
    pub(crate) fn detail(&self, text: impl FnOnce() -> String) {
        if self.verbose > 0 {
            self.note(&format!("  {}", text()));
        }
    }

    fn close(&mut self) {
        if !self.step.is_empty() {
            let step = std::mem::take(&mut self.step);
            let seconds = self.began.elapsed().as_secs_f64();
            self.detail(|| format!("{step}: {}", spent(seconds, self.opened)));
            self.times.push(StepTime { stage: step, seconds });
        }
        self.opened = opened();
    }
}

/// How much of the work is done.
#[derive(Clone, Copy, Debug)]
struct Whole {
    began: Instant,
    /// Share that was done then, such as that of an earlier run.
    first: f64,
    share: f64,
}

impl Whole {
    /// Follows the last one, or begins.
    fn new(last: Option<Self>, share: f64) -> Self {
        match last.filter(|last| last.share <= share) {
            Some(last) => Self { share, ..last },
            None => Self { began: Instant::now(), first: share, share },
        }
    }

    /// What is done, and the time that is left if it can be known.
    fn told(&self) -> String {
        let left = left(self.began.elapsed(), self.share - self.first, 1.0 - self.share);
        format!("{:.0} %{left}", 100.0 * self.share)
    }
}

/// Time that is left after a share of the work, for the end of a line.
fn left(elapsed: Duration, done: f64, rest: f64) -> String {
    match done > 0.0 && rest > 0.0 && elapsed >= ENOUGH {
        true => format!(", about {} left", seconds(elapsed.as_secs_f64() * rest / done)),
        false => String::new(),
    }
}

/// Time, opened files and peak memory of a step.
fn spent(seconds: f64, before: [u64; 2]) -> String {
    let [files, length] = opened();
    let (files, length) = (files.saturating_sub(before[0]), length.saturating_sub(before[1]));
    let read = match files {
        0 => String::new(),
        1 => format!(", 1 file of {} opened", bytes(length)),
        _ => format!(", {files} files of {} opened", bytes(length)),
    };
    let peak = peak_resident_bytes()
        .map_or_else(String::new, |peak| format!(", peak memory {}", bytes(peak)));
    format!("{seconds:.2} s{read}{peak}")
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // The template is a constant that a test checks; the fallback is a plain bar.
    let style = ProgressStyle::with_template("{prefix}{msg:44!} {bar:30} {percent:>3}% {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

impl Monitor for Console {
    fn step(&mut self, name: &str) {
        self.close();
        self.step = name.to_owned();
        self.began = Instant::now();
        self.last_line = Instant::now();
        match &self.bar {
            _ if self.quiet => {}
            Some(bar) => {
                bar.set_length(1);
                bar.set_position(0);
                bar.reset_eta();
                bar.set_message(name.to_owned());
            }
            None => write_stderr(name),
        }
    }

    fn progress(&mut self, done: u64, total: u64) {
        match &self.bar {
            _ if self.quiet => {}
            Some(bar) => {
                bar.set_length(total);
                bar.set_position(done);
            }
            None if self.last_line.elapsed() >= PLAIN_INTERVAL => {
                self.last_line = Instant::now();
                let share = done as f64 / total.max(1) as f64;
                // Where the whole is known, its time is the one that counts.
                let left = match self.whole {
                    Some(_) => String::new(),
                    None => left(self.began.elapsed(), share, 1.0 - share),
                };
                write_stderr(&format!("{}: {:.0} %{left}", self.step, 100.0 * share));
            }
            None => {}
        }
    }

    fn whole(&mut self, share: f64) {
        let whole = Whole::new(self.whole, share);
        self.whole = Some(whole).filter(|whole| whole.share < 1.0);
        match &self.bar {
            _ if self.quiet => {}
            Some(bar) => bar.set_prefix(match self.whole {
                Some(whole) => format!("[{}] ", whole.told()),
                None => String::new(),
            }),
            None if self.last_whole.elapsed() >= PLAIN_INTERVAL => {
                self.last_whole = Instant::now();
                write_stderr(&format!("progress: {}", whole.told()));
            }
            None => {}
        }
    }

    fn interrupted(&self) -> bool {
        interrupt::is_requested()
    }

    fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn note(&self, text: &str) {
        match &self.bar {
            _ if self.quiet => {}
            Some(bar) => bar.suspend(|| write_stderr(text)),
            None => write_stderr(text),
        }
    }

    fn detail_level(&self) -> u8 {
        self.verbose
    }

    fn finish(&mut self) -> Vec<StepTime> {
        self.close();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if !self.times.is_empty() {
            let (steps, seconds) = (self.times.len(), self.start.elapsed().as_secs_f64());
            self.detail(|| format!("{steps} steps: {}", spent(seconds, [0; 2])));
        }
        std::mem::take(&mut self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_of_the_bar_is_valid() {
        assert!(
            ProgressStyle::with_template("{prefix}{msg:44!} {bar:30} {percent:>3}% {eta}").is_ok()
        );
    }

    #[test]
    fn the_time_that_is_left_follows_from_parts_of_this_run() {
        let seconds = Duration::from_secs;
        assert_eq!(left(seconds(30), 0.25, 0.5), ", about 1 min 00 s left");
        assert_eq!(left(seconds(7200), 0.25, 0.5), ", about 4 h 00 min left");
        for (elapsed, done, rest) in [(2, 0.5, 0.5), (30, 0.0, 1.0), (30, 1.0, 0.0)] {
            assert_eq!(left(seconds(elapsed), done, rest), "");
        }
        let began = Instant::now().checked_sub(seconds(20)).unwrap();
        let resumed = Whole { began, first: 0.25, share: 0.5 };
        assert_eq!(resumed.told(), "50 %, about 40 s left");
        let next = Whole::new(Some(resumed), 0.75);
        assert_eq!((next.first, next.began), (0.25, began));
        // The same work once more.
        assert_eq!(Whole::new(Some(resumed), 0.125).first, 0.125);
    }

    #[test]
    fn steps_are_timed_in_order() {
        let shared = Shared {
            threads: 0,
            json: false,
            quiet: true,
            verbose: 0,
            shard: None,
            #[cfg(feature = "mpi")]
            mpi: false,
            print_recipe: false,
            no_progress: false,
        };
        let mut console = Console::new(&shared);
        console.step("one");
        console.step("two");
        let names: Vec<String> = console.finish().into_iter().map(|step| step.stage).collect();
        assert_eq!(names, ["one", "two"]);
    }
}
