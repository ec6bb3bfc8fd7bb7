//! `linwright inspect`: statistics of every tensor of a checkpoint, and spectra of its matrices.

use super::{print, print_json, slots};
use crate::args::{Shared, one_of};
use crate::console::Console;
use crate::failure::Failure;
use crate::outputs;
use crate::source::{Place, cache_home, find_model};
use clap::Args;
use linwright::files::StoredType;
use linwright::jobs::parse_layers;
use linwright::measure::inspect::report::{By, document};
use linwright::measure::inspect::{Inspection, NameFilter, Options, run as inspect};
use linwright::measure::spectra::SpectrumCache;
use linwright::report::{html, terminal};
use linwright::run::atomic::write_atomic;
use linwright::run::shown;
use std::path::{Path, PathBuf};

/// Report on every tensor of a checkpoint of any architecture and size, one at a time: shape, type,
/// value range, NaN and infinite values, zero rows, duplicates; with --spectra also singular values
/// and effective ranks.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A weight file, a directory of them, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    model: String,
    /// Compute the singular values of every matrix, effective ranks, power-law exponents and noise
    /// edges.
    #[arg(long)]
    spectra: bool,
    /// Only tensors with matching names: a glob such as *q_proj*, or a regular expression after
    /// re:.
    #[arg(long, value_name = "PATTERN")]
    filter: Option<String>,
    /// Only these layers, such as 3,5 or 0-7.
    #[arg(long)]
    layers: Option<String>,
    /// Only tensors of this storage type, such as f32 or bf16.
    #[arg(long)]
    dtype: Option<String>,
    /// Grouping of the tensors: the unit of a table row.
    #[arg(long, value_parser = one_of(&By::ALL, By::name), default_value = By::Name.name())]
    by: By,
    /// Write an HTML page with heat maps and plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Overwrite an existing page.
    #[arg(long, requires = "html")]
    force: bool,
    /// Directory that caches spectra [default: linwright/spectra in $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR", requires = "spectra")]
    cache: Option<PathBuf>,
    /// Neither read nor write cached spectra.
    #[arg(long, requires = "spectra", conflicts_with = "cache", alias = "no_cache")]
    no_cache: bool,
    /// Instead, load the model and list the linear layers that can be replaced.
    #[arg(long, conflicts_with_all = ["spectra", "filter", "layers", "dtype", "by", "html"])]
    slots: bool,
}

pub(crate) fn run(args: &InspectArgs, shared: &Shared) -> Result<(), Failure> {
    if args.slots {
        return slots::run(&args.model, shared);
    }
    let mut console = Console::new(shared);
    if let Some(page) = &args.html {
        outputs::page(page, args.force, &outputs::of_model(&args.model))?;
    }
    let options = Options {
        filter: args.filter.as_deref().map(NameFilter::parse).transpose()?,
        layers: args.layers.as_deref().map(|text| parse_layers("layers", text)).transpose()?,
        dtype: args.dtype.as_deref().map(parse_dtype).transpose()?,
        spectra: args.spectra,
        cache: if args.spectra { cache(args, &console)? } else { None },
    };
    let Place { path, name, .. } = find_model(&args.model, &mut console)?;
    let mut found = run_inspection(&path, &options, &mut console)?;
    console.finish();
    found.model = name;
    if let Some(page) = &args.html {
        write_atomic(page, html::render(&document(&found, args.by))?.as_bytes())?;
        console.note(&format!("wrote {}", page.display()));
    }
    if shared.json {
        print_json(&found)
    } else {
        print(terminal::render(&document(&found, args.by)).trim_end())
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

/// The cache given by the options, or the default one if it can be written.
fn cache(args: &InspectArgs, console: &Console) -> Result<Option<SpectrumCache>, Failure> {
    if args.no_cache {
        return Ok(None);
    }
    if let Some(dir) = &args.cache {
        return Ok(Some(SpectrumCache::open(dir)?));
    }
    let Some(dir) = cache_home().map(|home| home.join("linwright/spectra")) else {
        console.note("note: neither XDG_CACHE_HOME nor HOME is set, so spectra are not cached");
        return Ok(None);
    };
    match SpectrumCache::open(&dir) {
        Ok(cache) => {
            console.detail(|| format!("spectra are cached in {}", dir.display()));
            Ok(Some(cache))
        }
        Err(error) => {
            console.note(&format!("note: spectra are not cached: {error}"));
            Ok(None)
        }
    }
}
