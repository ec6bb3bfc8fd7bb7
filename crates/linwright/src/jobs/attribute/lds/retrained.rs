//! `linwright attribute lds`: scores by several methods against retrained networks.

use super::AttributeLds;
use super::removal;
use super::result::{LdsMeasured, LdsPart, LdsRow, RemovalMeasured};
use super::retrain::Retraining;
use crate::jobs::attribute::{
    Data, ExampleOptions, Opened, Scorer, ScoringOptions, Subject, identity,
};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, write_pages};
use linwright_attribute::datamodelling_scores;
use linwright_report::Report;
use linwright_run::{Monitor, state};

pub(super) fn run(job: &AttributeLds, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if !(job.share > 0.0 && job.share < 1.0) {
        let message = format!("--share {}: expected a share above 0 and below 1", job.share);
        return Err(Failure::usage(message));
    }
    job.training.check()?;
    if job.images.format.is_some() {
        return Err(Failure::usage("--images: format is detected from the files"));
    }
    let plans = plans(job)?;
    let inputs = outputs::inputs_of(job, session);
    outputs::check_place(&job.output, &inputs, session)?;
    let opened = Opened::open(&job.store, (None, None), session)?;
    let Subject::Net(net) = &opened.subject else {
        let message = format!("{} is of a language model", job.store.display());
        return Err(Failure::usage(message)
            .hint("networks of labelled images are trained again; give a store of one"));
    };
    let train = opened.train(session)?;
    let files = ExampleOptions {
        labels: job.images.labels.clone(),
        resize: job.images.resize.clone(),
        examples: job.images.examples.clone(),
        ..ExampleOptions::default()
    };
    let queries = Scorer::new((&plans[0], &files), &opened, session)?.queries;
    let (Data::Images(examples), Data::Images(asked)) = (&train, &queries) else {
        return Err(Failure::usage("the store and the queries are of different kinds"));
    };
    let identity = [opened.subject.hash().to_owned(), identity(&train)?, identity(&queries)?];
    let retraining = Retraining {
        job,
        spec: net.net.spec().clone(),
        examples: &examples.labelled,
        queries: &asked.labelled,
        identity: identity.concat(),
    };
    let (arms, parts) = match job.remove.is_empty() {
        true => (Vec::new(), retraining.parts()?),
        false => removal::arms(job, &plans, (&opened, &files), session)?,
    };
    let known = retraining.train(&parts, session)?;
    if known < parts.len() {
        session.finish();
        return Ok(Outcome::of(LdsPart { known, subsets: parts.len() }));
    }
    let outcomes = retraining.outcomes(&parts)?;
    if !arms.is_empty() {
        session.finish();
        let result = RemovalMeasured {
            store: session.portable(&job.store),
            images: session.portable(&job.images.images),
            examples: retraining.examples.len(),
            queries: retraining.queries.len(),
            repeats: job.repeats,
            networks: parts.len() * job.repeats,
            changes: removal::changes(&arms, &outcomes),
        };
        return write(job, result, session);
    }
    let mut results = Vec::new();
    for plan in &plans {
        let scorer = Scorer::new((plan, &files), &opened, session)?;
        let scores = scorer.all(session)?;
        let by_query = datamodelling_scores(&scores, &parts, &outcomes);
        results.push(LdsRow::of(plan.method, plan.damping.clone(), by_query));
    }
    session.finish();
    let result = LdsMeasured {
        store: session.portable(&job.store),
        images: session.portable(&job.images.images),
        subsets: parts.len(),
        leave_out: job.leave_out.clone(),
        examples_of_a_subset: parts[0].len(),
        repeats: job.repeats,
        results,
    };
    write(job, result, session)
}

/// Writes a result and its page.
fn write(
    job: &AttributeLds,
    result: impl Report,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    state::write(&job.output.join("result.json"), &outputs::json_of(&result)?)?;
    let outcome = Outcome::of(result);
    write_pages(&outcome.report, &job.output)?;
    session.note(&format!("wrote {}", job.output.display()));
    Ok(outcome)
}

/// The methods, each with every damping if it has one.
fn plans(job: &AttributeLds) -> Result<Vec<ScoringOptions>, Failure> {
    let mut plans = Vec::new();
    for &method in &job.methods {
        let of = |damping: Option<&String>| ScoringOptions {
            query: job.images.images.display().to_string(),
            method,
            damping: damping.cloned(),
            ..ScoringOptions::default()
        };
        match method.is_damped() {
            true => plans.extend(job.dampings.iter().map(|damping| of(Some(damping)))),
            false => plans.push(of(None)),
        }
    }
    if plans.is_empty() {
        return Err(Failure::usage("no method is given").hint("give --methods influence,trak"));
    }
    plans.iter().try_for_each(ScoringOptions::check)?;
    Ok(plans)
}
