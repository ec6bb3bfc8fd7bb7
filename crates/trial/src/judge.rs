//! Trials as judges of comparisons.

use crate::trial::{ExamplesOf, Trial, TrialError};
use linwright_compare::{Asked, Costs, Judge, JudgeError, Made, SlotMethod, Slots, Speeds};
use linwright_compress::CompressError;
use linwright_compress::fit_to::FitTo;
use linwright_evaluate::TaskResult;
use linwright_ops::{Network, NoProbe, Probe, Seen, SiteId, Sites};
use linwright_run::Monitor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// Rounds of timing, whose median is reported; all networks alternate.
const ROUNDS: usize = 5;

/// A trial that judges what replaces its slots.
pub struct TrialJudge<'a, T: Trial> {
    trial: &'a T,
    examples: &'a ExamplesOf<T>,
    slots: Slots<'a, T::Network>,
}

/// Multiply-adds of the slots that a pass shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassMacs {
    /// For one example: an image, a structure.
    pub linear: u64,
}

/// Speed of passes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassSpeed {
    /// Examples per second, in a batch as fits read them.
    pub examples: f64,
}

impl Costs for PassMacs {
    const HEADS: &'static [&'static str] = &["multiply-adds"];
    const METRICS: usize = 4;
    const MEMORY: Option<&'static str> = None;

    fn counted_on() -> String {
        "of linear layers for one example, the mean of a calibration batch".to_owned()
    }

    fn counts(&self) -> Vec<u64> {
        vec![self.linear]
    }
}

impl Speeds for PassSpeed {
    const HEADS: &'static [&'static str] = &["examples/s"];

    fn rates(&self) -> Vec<Option<f64>> {
        vec![Some(self.examples)]
    }
}

impl JudgeError for TrialError {
    fn is_final(&self) -> bool {
        Self::is_final(self)
    }
}

/// Counts the rows that each slot is applied to.
#[derive(Default)]
struct Rows {
    of_slots: BTreeMap<SiteId, u64>,
    examples: usize,
}

impl Probe for Rows {
    fn wants(&self, _site: &SiteId) -> bool {
        true
    }

    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>) {
        *self.of_slots.entry(site.clone()).or_default() += seen.x.rows() as u64;
        let last = seen.examples.iter().map(|rows| rows.example + 1).max();
        self.examples = self.examples.max(last.unwrap_or(0));
    }
}

impl<'a, T: Trial> TrialJudge<'a, T> {
    /// A judge of what replaces `slots`; counts and times are those of passes over the first of the
    /// `examples`.
    #[must_use]
    pub fn new(trial: &'a T, examples: &'a ExamplesOf<T>, slots: Slots<'a, T::Network>) -> Self {
        Self { trial, examples, slots }
    }

    /// Runs all stages on the first batch.
    fn pass(&self, network: &T::Network, probe: &mut dyn Probe) -> Result<(), TrialError> {
        let wrong = |error| CompressError::Network(Box::new(error));
        let input = self.examples.batch(0);
        let mut state = network.begin(&input).map_err(wrong)?;
        network.run_stages(&mut state, &input, 0..network.stages(), probe).map_err(wrong)?;
        Ok(())
    }

    fn rows(&self, network: &T::Network) -> Result<Rows, TrialError> {
        let mut rows = Rows::default();
        self.pass(network, &mut rows)?;
        Ok(rows)
    }
}

impl<T: Trial> Judge for TrialJudge<'_, T> {
    type Network = T::Network;
    type Way = SlotMethod;
    type Costs = PassMacs;
    type Speed = PassSpeed;
    type Error = TrialError;

    fn network(&self) -> &T::Network {
        self.trial.network()
    }

    fn targeted(&self) -> u64 {
        self.slots.targeted()
    }

    fn number_bytes(&self) -> u64 {
        self.slots.number_bytes()
    }

    fn make(
        &self,
        asked: &Asked<SlotMethod>,
        fit_to: FitTo<'static>,
        monitor: &mut dyn Monitor,
    ) -> Result<Made<T::Network>, TrialError> {
        Ok(self.slots.make(asked, fit_to, monitor)?)
    }

    fn scores(
        &self,
        network: &T::Network,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, TrialError> {
        self.trial.scores(network, monitor)
    }

    fn macs(&self, network: &T::Network) -> Result<PassMacs, TrialError> {
        let rows = self.rows(network)?;
        let of_slot = |(site, rows): (&SiteId, &u64)| {
            let slot = network.slot(site);
            slot.map_or(0, |slot| rows * slot.op().map().macs_per_row())
        };
        let all: u64 = rows.of_slots.iter().map(of_slot).sum();
        Ok(PassMacs { linear: all / rows.examples.max(1) as u64 })
    }

    fn speeds(
        &self,
        networks: &[&T::Network],
        monitor: &dyn Monitor,
    ) -> Result<Vec<PassSpeed>, TrialError> {
        let examples = self.rows(self.trial.network())?.examples as f64;
        let mut rounds = vec![Vec::with_capacity(ROUNDS); networks.len()];
        for _ in 0..ROUNDS {
            for (network, rounds) in networks.iter().zip(&mut rounds) {
                if monitor.interrupted() {
                    return Err(CompressError::Interrupted.into());
                }
                let began = Instant::now();
                self.pass(network, &mut NoProbe)?;
                rounds.push(began.elapsed().as_secs_f64());
            }
        }
        let speed = |mut rounds: Vec<f64>| {
            rounds.sort_by(f64::total_cmp);
            // A clock may not tell the begin from the end.
            PassSpeed { examples: examples / rounds[ROUNDS / 2].max(1e-9) }
        };
        Ok(rounds.into_iter().map(speed).collect())
    }
}
