//! `linwright search`: decides ranks, saves the model and what was decided.

use super::Search;
use super::inputs::{Documents, Inputs};
use super::result::SearchResult;
use crate::jobs::kit::{Failure, Outcome, Session, outputs, recipe_of, store};
use crate::jobs::language::calibration::Calibration;
use crate::jobs::language::compress::StoredDType;
use crate::jobs::language::saving::{self, SavedAs, Saving};
use crate::jobs::language::tasks::{EvaluationCost, cost};
use linwright_compress::CompressError;
use linwright_evaluate::{RunOptions, Task};
use linwright_lm::LmError;
use linwright_lm::search::report::document;
use linwright_lm::search::{FeatureSpace, Found, Solution, Work, part, search};
use linwright_measure::capture::Bounds;
use linwright_model::{Transformer, Windows};
use linwright_ops::Examples;
use linwright_report::{html, markdown};
use linwright_run::team::Team;
use linwright_run::{Fingerprint, Measured, Monitor, Store};

/// Largest size of the hidden states that are kept.
const STATE_BYTES: usize = 1 << 30;

pub(super) fn run(job: &Search, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let team = session.team();
    if !job.dry_run && team.rank() == 0 {
        let inputs = outputs::inputs_of(job, session);
        outputs::directory(&job.output, job.force, &inputs, session)?;
    }
    let mut inputs = Inputs::new(job, session)?;
    if job.dry_run {
        return dry_run(job, &inputs, session).map(Outcome::of);
    }
    let calibration = inputs.calibration(job, session)?;
    let (unfinished, pieces) = store::of_job(job, &job.output, &*team, session)?;
    let pieces = (&pieces, &*team);
    let done = match search_and_save(job, &inputs, &calibration, pieces, session) {
        Ok(done) => done,
        Err(failure) => return Err(store::tidy(unfinished, failure)),
    };
    store::done(unfinished, session);
    Ok(match done {
        Some(mut done) => {
            done.stages = Measured(session.finish());
            let blocks = done.blocks();
            Outcome::of(done).showing(blocks)
        }
        None => Outcome::none(),
    })
}

fn search_and_save(
    job: &Search,
    inputs: &Inputs,
    calibration: &Calibration,
    (pieces, team): (&Store, &dyn Team),
    session: &mut Session<'_>,
) -> Result<Option<SearchResult>, Failure> {
    let solution = searched(job, inputs, &calibration.windows, (pieces, team), session);
    session.tell_damage(pieces);
    let Some(solution) = solution? else { return Ok(None) };
    let model = &inputs.model;
    let notes = [vec![calibration.record.line()], calibration.notes.clone()].concat();
    let found = solution.found(&inputs.task.id(), &model.loaded.decoder, notes);
    let mut result = SearchResult {
        model: model.place.name.clone(),
        search: found,
        calibration: calibration.record.clone(),
        provenance: session.provenance("linwright search", &model.loaded, &[]),
        saved: None,
        output: None,
        stages: Measured::default(),
    };
    let saving = Saving {
        form: job.form,
        dtype: job.dtype.map(StoredDType::dtype),
        force: job.force,
        output: &job.output,
        result: &result,
        curves: String::new(),
    };
    let files = files(job, &model.place.name, &result.search)?;
    let saved = saving.write_with(files, &solution.network, model, session)?;
    result.saved = Some(SavedAs::of(&saved));
    result.output = Some(session.portable(&job.output));
    Ok(Some(result))
}

/// The decisions and the model that they give, which the first member of the team alone has.
fn searched(
    job: &Search,
    inputs: &Inputs,
    calibration: &Windows,
    (pieces, team): (&Store, &dyn Team),
    session: &mut Session<'_>,
) -> Result<Option<Solution>, Failure> {
    let loaded = &inputs.model.loaded;
    let model = &loaded.decoder;
    let bounds = Bounds::default();
    let candidates = FeatureSpace::of(model, calibration, &inputs.sites, &bounds, session)?;
    let print = Fingerprint::of(&[
        ("version", &session.build().version),
        ("job", &recipe_of(job)),
        ("model", &loaded.hash),
        ("calibration", &calibration.identity()),
        ("data", &session.data()),
    ]);
    let max_batch_tokens = job.evaluation.batch_size.tokens();
    let how = (job.form, job.dtype.map(StoredDType::dtype));
    let as_saved = |edited: &Transformer| {
        let saved = saving::stored_as(edited, &inputs.model, how, None);
        saved.map_err(|error| LmError::from(CompressError::Network(Box::new(error))))
    };
    let work = Work {
        model,
        tokenizer: inputs.model.tokenizer()?,
        sentence: inputs.model.sentence(),
        max_length: job.evaluation.max_length,
        run: RunOptions { max_batch_tokens, ..RunOptions::default() },
        sites: &inputs.sites,
        ranks: (!job.ranks.is_empty()).then_some(&job.ranks),
        shares: !job.no_share,
        state_bytes: STATE_BYTES,
        print,
        store: pieces,
        team,
        as_saved: &as_saved,
    };
    Ok(search(&work, &inputs.target(job), &candidates, session)?)
}

/// What stands beside the model: the plan, the decisions and the report.
fn files(job: &Search, model: &str, found: &Found) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let wrong =
        |error: serde_json::Error| Failure::general(format!("cannot write the search: {error}"));
    let plan = serde_json::to_string_pretty(&found.plan).map_err(wrong)? + "\n";
    let page = document(&job.title, model, found);
    let files = [
        ("plan.json", plan),
        ("decisions.jsonl", found.lines().map_err(wrong)?),
        ("report.md", markdown::render(&page)),
        ("report.html", html::render(&page)?),
    ];
    Ok(files.map(|(name, text)| (name.to_owned(), text.into_bytes())).into())
}

/// The cost of the search, without its shortcuts.
fn dry_run(
    job: &Search,
    inputs: &Inputs,
    session: &mut Session<'_>,
) -> Result<EvaluationCost, Failure> {
    let layers = inputs.sites.len() as u64;
    let ranks = if job.ranks.is_empty() { 11 } else { job.ranks.len() as u64 + 1 };
    let (model, asked) = (&inputs.model, &job.evaluation);
    match &inputs.documents {
        Documents::Task(splits) => {
            let search = part(inputs.task.as_ref(), &splits.documents(0..splits.search))?;
            let test = part(inputs.task.as_ref(), &splits.test(job.evaluation.compat))?;
            let tasks: [(&dyn Task, u64); 2] =
                [(search.as_ref(), 1 + layers * (ranks + 1)), (test.as_ref(), 2)];
            cost(&tasks, model, asked, session)
        }
        // A fifth of the text is scored at every rank.
        Documents::Text { .. } => {
            cost(&[(inputs.task.as_ref(), 2 + (layers * ranks).div_ceil(5))], model, asked, session)
        }
    }
}
