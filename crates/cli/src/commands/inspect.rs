//! `linwright inspect`: statistics of every tensor of a checkpoint, and spectra of its matrices.

use super::{print, print_json, slots};
use crate::args::Shared;
use crate::console::Console;
use crate::face::Verb;
use crate::failure::Failure;
use crate::outputs;
use crate::source::{Place, find_model};
use linwright::files::StoredType;
use linwright::jobs::{Inspect, parse_layers};
use linwright::measure::inspect::report::document;
use linwright::measure::inspect::{Inspection, NameFilter, Options, run as inspect};
use linwright::report::{html, terminal};
use linwright::run::atomic::write_atomic;
use linwright::run::shown;
use std::path::Path;

pub(crate) type InspectArgs = Verb<Inspect>;

pub(crate) fn run(job: &Inspect, shared: &Shared) -> Result<(), Failure> {
    if job.slots {
        return slots::run(&job.model, shared);
    }
    let mut console = Console::new(shared);
    if let Some(page) = &job.html {
        outputs::page(page, job.force, &outputs::of_model(&job.model))?;
    }
    let options = Options {
        filter: job.filter.as_deref().map(NameFilter::parse).transpose()?,
        layers: job.layers.as_deref().map(|text| parse_layers("layers", text)).transpose()?,
        dtype: job.dtype.as_deref().map(parse_dtype).transpose()?,
        spectra: job.spectra,
        store: crate::store::open(
            job.cache.as_deref(),
            job.no_cache || !job.spectra,
            &console,
        )?,
    };
    let Place { path, name, .. } = find_model(&job.model, &mut console)?;
    let mut found = run_inspection(&path, &options, &mut console)?;
    console.finish();
    found.model = name;
    if let Some(page) = &job.html {
        write_atomic(page, html::render(&document(&found, job.by))?.as_bytes())?;
        console.note(&format!("wrote {}", page.display()));
    }
    if shared.json {
        print_json(&found)
    } else {
        print(terminal::render(&document(&found, job.by)).trim_end())
    }
}

fn run_inspection(
    path: &Path,
    options: &Options,
    console: &mut Console,
) -> Result<Inspection, Failure> {
    Ok(inspect(path, options, console)?)
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
