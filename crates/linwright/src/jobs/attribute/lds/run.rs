//! `linwright attribute lds`: scores by several methods against retrained networks.

use super::AttributeLds;
use super::removal;
use super::retrain::Retraining;
use crate::jobs::attribute::{
    Data, ExampleOptions, Opened, Scorer, ScoringOptions, Subject, identity,
};
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, write_pages};
use linwright_attribute::{Method, datamodelling_scores};
use linwright_report::{Block, Document};
use linwright_run::{Monitor, state};
use serde_json::{Value, json};

/// Scores of a method with a damping.
struct Row {
    method: Method,
    damping: Option<String>,
    /// LDS of each query.
    found: Vec<Option<f64>>,
}

impl Row {
    /// Mean and standard error over queries that have one.
    fn mean(&self) -> (f64, f64) {
        let found: Vec<f64> = self.found.iter().flatten().copied().collect();
        let n = found.len() as f64;
        let mean = found.iter().sum::<f64>() / n.max(1.0);
        let spread = found.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (mean, (spread / (n - 1.0).max(1.0) / n.max(1.0)).sqrt())
    }
}

pub(super) fn run(job: &AttributeLds, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if !(job.share > 0.0 && job.share < 1.0) {
        let message = format!("--share {}: expected a share above 0 and below 1", job.share);
        return Err(Failure::usage(message));
    }
    job.training.check()?;
    if job.images.format.is_some() {
        return Err(Failure::usage("--format: it is found by what is there"));
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
        let result = json!({ "known": known, "subsets": parts.len() });
        let line = format!("{known} of {} networks are trained", parts.len());
        return Ok(Outcome::new(result, vec![text([line])]));
    }
    let outcomes = retraining.outcomes(&parts)?;
    if !arms.is_empty() {
        session.finish();
        let found = removal::changes(&arms, &outcomes);
        let result = removal::result(job, &found, &retraining, session);
        let blocks = removal::blocks(&found, parts.len() * job.repeats);
        let title = "Which answers depend on their best examples?";
        return write(job, (title, result, blocks), session);
    }
    let mut rows = Vec::new();
    for plan in &plans {
        let scorer = Scorer::new((plan, &files), &opened, session)?;
        let scores = scorer.all(session)?;
        let found = datamodelling_scores(&scores, &parts, &outcomes);
        rows.push(Row { method: plan.method, damping: plan.damping.clone(), found });
    }
    session.finish();
    let result = result(job, &rows, &parts, session);
    let blocks = blocks(job, &rows, &parts);
    write(job, ("Which scores predict what networks learn?", result, blocks), session)
}

/// Writes a result and its page.
fn write(
    job: &AttributeLds,
    (title, result, blocks): (&str, Value, Vec<Block>),
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    state::write(&job.output.join("result.json"), format!("{result:#}\n").as_bytes())?;
    let document = Document { title: title.into(), blocks: blocks.clone(), ..Document::default() };
    write_pages(&document, &job.output)?;
    session.note(&format!("wrote {}", job.output.display()));
    Ok(Outcome::new(result, blocks))
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

fn result(job: &AttributeLds, rows: &[Row], parts: &[Vec<usize>], session: &Session<'_>) -> Value {
    let row = |row: &Row| {
        let (mean, stderr) = row.mean();
        json!({
            "method": row.method,
            "damping": row.damping,
            "lds": mean,
            "lds_stderr": stderr,
            "undefined": row.found.iter().filter(|found| found.is_none()).count(),
            "by_query": row.found,
        })
    };
    json!({
        "schema": 1,
        "linwright": session.build().version,
        "store": session.portable(&job.store),
        "images": session.portable(&job.images.images),
        "subsets": parts.len(),
        "leave_out": job.leave_out,
        "examples_of_a_subset": parts[0].len(),
        "repeats": job.repeats,
        "results": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn blocks(job: &AttributeLds, rows: &[Row], parts: &[Vec<usize>]) -> Vec<Block> {
    let row = |row: &Row| {
        let (mean, stderr) = row.mean();
        vec![
            row.method.to_string(),
            row.damping.clone().unwrap_or_default(),
            format!("{mean:.4}"),
            format!("{stderr:.4}"),
        ]
    };
    let queries = rows.first().map_or(0, |row| row.found.len());
    let line = format!(
        "{} networks trained on {} examples each, {queries} queries",
        parts.len() * job.repeats,
        parts[0].len()
    );
    let heads = ["method", "damping", "LDS", "standard error"];
    vec![text([line]), table(&heads, rows.iter().map(row).collect())]
}
