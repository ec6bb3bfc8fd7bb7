//! Scores by shards of the store: several processes score the examples of some of them each, and a
//! merge has the best of all. A piece is the best and the worst examples of one shard of the store.

use super::AttributeScore;
use crate::jobs::attribute::{Opened, Scorer};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, shards};
use linwright_attribute::{Method, Top};
use linwright_run::{Fingerprint, Monitor, PieceKey, Store};
use std::collections::BTreeSet;
use std::path::Path;

/// Kind of the pieces.
const KIND: &str = "scores";

/// Checks before any work that the scores can be divided, if they are.
pub(super) fn check(job: &AttributeScore, session: &mut Session<'_>) -> Result<(), Failure> {
    if session.shard().is_whole() {
        return Ok(());
    }
    let undivided = |what: String| {
        let failure = Failure::usage(format!("--shard: {what}"));
        Err(failure.hint("leave out --shard, or that option"))
    };
    let (method, scoring) = (job.scoring.method, &job.scoring);
    if !method.has_gradients() || method == Method::Trak {
        return undivided(format!("scores of {method} are not read from the store alone"));
    }
    if !scoring.checkpoints.is_empty() {
        return undivided("--checkpoints are added up in one process".to_owned());
    }
    if !job.groups.is_empty() {
        return undivided("--groups take another pass, which is not divided".to_owned());
    }
    shards::output_of(session, job.output.as_deref())?;
    let inputs = outputs::inputs_of(job, session);
    job.output.iter().try_for_each(|path| shards::check_directory(path, &inputs, session))
}

/// Scores the shards of the store that this process owns, and keeps them in its directory.
pub(super) fn shard(
    job: &AttributeScore,
    opened: &Opened,
    mut scorer: Scorer<'_>,
    output: &Path,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    shards::mark(session, output)?;
    let store = Store::at(output);
    let total = opened.store.manifest().shards();
    let owned = (0..total).filter(|number| session.shard().owns(*number)).collect();
    let known = best(job, opened, &mut scorer, (&store, owned), session);
    session.tell_damage(&store);
    let known = known?.0;
    session.finish();
    shards::part(session, output, known, total)
}

/// The best of all examples, from the results of shards; missing ones are computed.
pub(super) fn merged(
    job: &AttributeScore,
    opened: &Opened,
    scorer: &mut Scorer<'_>,
    session: &mut Session<'_>,
) -> Result<[Top; 2], Failure> {
    let store = Store::none().reading_also(shards::sources(session, Path::new(""))?);
    let all = (0..opened.store.manifest().shards()).collect();
    let found = best(job, opened, scorer, (&store, all), session);
    session.tell_damage(&store);
    Ok(found?.1)
}

/// The best and the worst examples of some shards of the store, and of how many shards.
fn best(
    job: &AttributeScore,
    opened: &Opened,
    scorer: &mut Scorer<'_>,
    (store, numbers): (&Store, BTreeSet<usize>),
    session: &mut Session<'_>,
) -> Result<(usize, [Top; 2]), Failure> {
    let (count, mut whole) = (numbers.len(), scorer.no_best(job.top));
    let (recipe, manifest) = (session.job().clone(), opened.store.manifest());
    let key = |number: usize| {
        let print = Fingerprint::of(&[("job", &recipe), ("store", &manifest), ("shard", &number)]);
        PieceKey::new(KIND, print)
    };
    let empty = scorer.no_best(job.top);
    let mut missing = BTreeSet::new();
    for number in numbers {
        let known = store.decoded(&key(number), |bytes| {
            let found: [Top; 2] =
                serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            match found.iter().zip(&empty).all(|(found, empty)| found.is_like(empty)) {
                true => Ok(found),
                false => Err("it is of other queries".to_owned()),
            }
        })?;
        match known {
            Some(found) => add(&mut whole, &found),
            None => drop(missing.insert(number)),
        }
    }
    if !missing.is_empty() {
        scorer.best_of_shards(job.top, missing, session, &mut |number, found| {
            let json = serde_json::to_vec(found)
                .map_err(|error| Failure::general(format!("cannot write scores: {error}")))?;
            store.put(&key(number), &[&json])?;
            add(&mut whole, found);
            Ok(())
        })?;
    }
    Ok((count, whole))
}

fn add(whole: &mut [Top; 2], found: &[Top; 2]) {
    whole.iter_mut().zip(found).for_each(|(whole, found)| whole.merge(found));
}
