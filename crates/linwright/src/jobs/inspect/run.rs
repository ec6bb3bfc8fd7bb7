//! `linwright inspect`: statistics of every tensor of a checkpoint, and spectra of its matrices.

use super::{Inspect, slots};
use crate::jobs::source::{Place, find_model};
use crate::jobs::{Failure, Outcome, Session, outputs, parse_layers, store};
use linwright_files::StoredType;
use linwright_measure::inspect::report::document;
use linwright_measure::inspect::{Inspection, NameFilter, Options, run as inspect};
use linwright_report::{Document, html};
use linwright_run::atomic::write_atomic;
use linwright_run::place::is_page;
use linwright_run::{Monitor, shown};
use std::path::Path;

pub(super) fn run(job: &Inspect, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if job.slots {
        return slots::run(&job.model, session);
    }
    if let Some(page) = &job.html {
        let inputs = outputs::of_model(&job.model, session);
        outputs::file(page, job.force, &inputs, session, is_page)?;
    }
    let options = Options {
        filter: job.filter.as_deref().map(NameFilter::parse).transpose()?,
        layers: job.layers.as_deref().map(|text| parse_layers("layers", text)).transpose()?,
        dtype: job.dtype.as_deref().map(parse_dtype).transpose()?,
        spectra: job.spectra,
        store: store::open(job.cache.as_deref(), job.no_cache || !job.spectra, session)?,
    };
    let Place { path, name, .. } = find_model(&job.model, session)?;
    let mut found = run_inspection(&path, &options, session)?;
    session.finish();
    found.model = name;
    if let Some(page) = &job.html {
        write_atomic(page, html::render(&document(&found, job.by))?.as_bytes())?;
        session.note(&format!("wrote {}", page.display()));
    }
    let report = match session.wants_report() {
        true => document(&found, job.by),
        false => Document::default(),
    };
    Ok(Outcome { report, ..Outcome::new(found, Vec::new()) })
}

fn run_inspection(
    path: &Path,
    options: &Options,
    session: &mut Session<'_>,
) -> Result<Inspection, Failure> {
    Ok(inspect(path, options, session)?)
}

/// Parses the name of a storage type in any case.
fn parse_dtype(name: &str) -> Result<StoredType, Failure> {
    StoredType::parse(&name.to_uppercase()).ok_or_else(|| {
        Failure::usage(format!(
            "--dtype \"{}\": expected a storage type such as f32, f16, bf16 or i8",
            shown(name)
        ))
    })
}
