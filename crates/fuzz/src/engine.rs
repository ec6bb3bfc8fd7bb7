//! The fuzzing loop: mutate, run, observe, keep inputs with new signatures.

use crate::mutate::Material;
use crate::seeds::Seeds;
use crate::targets::Target;
use linwright_tensor::{Metered, RngKey};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

/// Memory limit of a run as a multiple of its input, in addition to the target's own allowance.
const MEMORY_FACTOR: usize = 64;
/// Runs per thread.
const RUNS_OF_THREAD: usize = 20_000;
/// Longest run that is not a finding. Generous, since the machine may be busy.
const SLOW: Duration = Duration::from_secs(10);
/// Largest number of inputs kept in one loop.
const KEPT: usize = 4000;
/// Mutations grow inputs up to a multiple of the largest seed, within bounds.
const GROWTH: usize = 2;
const LONGEST: usize = 1 << 16;
/// Largest number of findings before a loop ends: one defect causes many.
const FINDINGS: usize = 10;

/// Stopping conditions of a loop.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of runs, with seeds.
    pub runs: u64,
    /// Time limit, checked between runs.
    pub seconds: f64,
    /// Seed of the mutations.
    pub seed: u64,
}

/// A failing input.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The failure.
    pub kind: Kind,
    /// The input.
    pub input: Vec<u8>,
    /// Index of the run.
    pub run: u64,
}

/// Kinds of failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A panic, with message and location.
    Panic(String),
    /// Peak memory in bytes.
    Memory(usize),
    /// Run time in seconds.
    Slow(f64),
}

/// Result of a loop.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of runs.
    pub runs: u64,
    /// Number of signatures.
    pub signatures: BTreeSet<String>,
    /// Number of mutated inputs with a new signature.
    pub kept: Vec<Vec<u8>>,
    /// Largest share of the allowed memory used by a run.
    pub memory_share: f64,
    /// Longest run in seconds.
    pub longest_seconds: f64,
    /// Findings, at most one per panic location.
    pub findings: Vec<Finding>,
}

/// Runs a target on its seeds and then on their mutations.
#[must_use]
pub fn fuzz(target: &Target, seeds: &Seeds, bounds: Bounds) -> Outcome {
    let start = Instant::now();
    let mut stream = RngKey::new(bounds.seed).fold(target.name).stream();
    let mut corpus = seeds.inputs.clone();
    let largest = corpus.iter().map(Vec::len).max().unwrap_or(0);
    let longest = (largest * GROWTH).clamp(1024, LONGEST.max(largest));
    let mut outcome = Outcome::default();
    let mut goes_on = true;
    while goes_on {
        // Libraries keep thread-local caches, such as the words of every tokenizer: they are freed
        // with the thread and not charged to the run whose table happens to grow.
        goes_on = on_a_thread(|| {
            for _ in 0..RUNS_OF_THREAD {
                if let Some(input) = seeds.inputs.get(outcome.runs as usize) {
                    outcome.observe(target, input);
                    continue;
                }
                if outcome.runs >= bounds.runs
                    || outcome.findings.len() >= FINDINGS
                    || start.elapsed().as_secs_f64() >= bounds.seconds
                {
                    return false;
                }
                let mut input = corpus[pick(&mut stream, corpus.len())].clone();
                let other = corpus[stream.below(corpus.len())].clone();
                let tokens = &seeds.tokens;
                Material { stream: &mut stream, other: &other, tokens, longest }.mutate(&mut input);
                if outcome.observe(target, &input) && corpus.len() < KEPT {
                    outcome.kept.push(input.clone());
                    corpus.push(input);
                }
            }
            true
        });
    }
    outcome
}

/// Runs work on its own thread, where panics are caught silently.
fn on_a_thread(work: impl FnOnce() -> bool + Send) -> bool {
    let quietly = || {
        let _quiet = Quiet::begin();
        work()
    };
    std::thread::scope(|scope| match scope.spawn(quietly).join() {
        Ok(goes_on) => goes_on,
        Err(panic) => panic::resume_unwind(panic),
    })
}

/// A random index, every other time among the newest sixteenth.
fn pick(stream: &mut linwright_tensor::RngStream, count: usize) -> usize {
    if stream.below(2) == 0 {
        return stream.below(count);
    }
    count - 1 - stream.below(count.div_ceil(16))
}

impl Outcome {
    /// Runs a target once. True if its signature is new.
    fn observe(&mut self, target: &Target, input: &[u8]) -> bool {
        let run = self.runs;
        self.runs += 1;
        let start = Instant::now();
        let work = || panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        let (result, bytes) = Metered::peak_bytes(work);
        let seconds = start.elapsed().as_secs_f64();
        let allowed = MEMORY_FACTOR * input.len() + target.memory;
        self.memory_share = self.memory_share.max(bytes as f64 / allowed as f64);
        self.longest_seconds = self.longest_seconds.max(seconds);
        let kind = match &result {
            Err(_) => Some(Kind::Panic(Quiet::message())),
            Ok(_) if bytes > allowed => Some(Kind::Memory(bytes)),
            Ok(_) if seconds > SLOW.as_secs_f64() => Some(Kind::Slow(seconds)),
            Ok(_) => None,
        };
        if let Some(kind) = kind
            && !self.findings.iter().any(|finding| finding.kind == kind)
        {
            self.findings.push(Finding { kind, input: input.to_vec(), run });
        }
        result.is_ok_and(|signature| self.signatures.insert(signature))
    }
}

type Hook = Box<dyn Fn(&panic::PanicHookInfo<'_>) + Sync + Send>;

thread_local! {
    /// Whether panics of this thread are caught, and the last one.
    static CAUGHT: RefCell<(bool, String)> = const { RefCell::new((false, String::new())) };
}

/// While it exists, panics of this thread are recorded instead of printed.
struct Quiet;

impl Quiet {
    fn begin() -> Self {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            let before: Hook = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                let quiet = CAUGHT.with_borrow_mut(|(quiet, message)| {
                    if *quiet {
                        *message = info.to_string();
                    }
                    *quiet
                });
                if !quiet {
                    before(info);
                }
            }));
        });
        CAUGHT.set((true, String::new()));
        Self
    }

    /// The last panic, without the numbers that vary with the input.
    fn message() -> String {
        CAUGHT.with_borrow(|(_, message)| message.lines().next().unwrap_or_default().to_owned())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        CAUGHT.set((false, String::new()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds() -> Seeds {
        Seeds { inputs: vec![b"abcd 12 efgh".to_vec()], tokens: vec![b"GRRR".to_vec()] }
    }

    const BOUNDS: Bounds = Bounds { runs: 20_000, seconds: 1e9, seed: 1 };

    #[test]
    fn a_planted_panic_is_found_with_its_input() {
        let run = |input: &[u8]| {
            assert!(!input.windows(4).any(|window| window == b"GRRR"), "planted");
            String::new()
        };
        let outcome = fuzz(&Target::new("planted", run), &seeds(), BOUNDS);
        let finding = &outcome.findings[0];
        assert!(matches!(&finding.kind, Kind::Panic(m) if m.contains("engine.rs")), "{finding:?}");
        assert!(finding.input.windows(4).any(|window| window == b"GRRR"));
        assert_eq!(outcome.findings.len(), 1);
    }

    #[test]
    fn memory_beyond_the_bound_is_found() {
        let run = |input: &[u8]| {
            let size = if input.contains(&b'3') { 1 << 24 } else { 1 << 19 };
            vec![0u8; size].len().to_string()
        };
        let outcome = fuzz(&Target::new("hungry", run), &seeds(), BOUNDS);
        assert!(outcome.findings.iter().all(|f| matches!(f.kind, Kind::Memory(n) if n >= 1 << 24)));
        assert!(!outcome.findings.is_empty());
        assert!(outcome.memory_share > 1.0);
    }

    #[test]
    fn new_signatures_lead_deeper_than_chance() {
        // Each letter of the word must be right before the next one counts.
        let run = |input: &[u8]| {
            let right = input.iter().zip(b"wxyz").take_while(|(a, b)| a == b).count();
            assert!(right < 4, "the whole word");
            right.to_string()
        };
        let bounds = Bounds { runs: 400_000, ..BOUNDS };
        let outcome = fuzz(&Target::new("word", run), &seeds(), bounds);
        assert_eq!(outcome.findings.len(), 1, "{:?}", outcome.signatures);
    }

    #[test]
    fn the_same_seed_makes_the_same_runs() {
        let run = |input: &[u8]| format!("{}", input.len() % 7);
        let once = || fuzz(&Target::new("same", run), &seeds(), BOUNDS).kept;
        assert_eq!(once(), once());
    }
}
