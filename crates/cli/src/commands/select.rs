//! `linwright select`: selects rows of a matrix by their Vendi score.

use super::{print, print_json, table};
use crate::args::{Shared, one_of};
use crate::console::Console;
use crate::failure::{Failure, message_of};
use crate::interrupt;
use clap::{ArgGroup, Args};
use linwright::compress::Size;
use linwright::jobs::source::{OpenModel, find_model, open_model};
use linwright::jobs::{Session, outputs};
use linwright::measure::vendi::{
    Criterion, Diversity, Gamma, Goal, Reconstruction, Selected, VendiError, reconstruct, select,
    stored_matrix,
};
use linwright::ops::{OpError, Shape, Sites};
use linwright::run::atomic::write_atomic;
use linwright::run::place::is_result;
use linwright::run::spelling::nearest_names;
use linwright::run::{Monitor, sha256_hex, shown};
use linwright::tensor::parallel::{instruction_set, threads};
use linwright::tensor::{Mat, little_endian_bytes};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// Number of selected rows shown on the terminal; the JSON has all.
const SHOWN: usize = 20;

/// Select the most diverse rows of a matrix, greedily by the Vendi score of a Gaussian kernel, and
/// report the residual of the matrix after projection onto their span.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("matrix").required(true), group = ArgGroup::new("size").required(true))]
pub(crate) struct SelectArgs {
    /// A weight file, a directory of them, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    model: String,
    /// Name of the tensor, which must be a matrix.
    #[arg(long, value_name = "NAME", group = "matrix")]
    tensor: Option<String>,
    /// Linear layer by its name in `inspect --slots`; the rows of its weight are output features.
    #[arg(long, value_name = "NAME", group = "matrix")]
    site: Option<String>,
    /// Number of rows to select.
    #[arg(short, long, value_name = "R", group = "size")]
    rank: Option<usize>,
    /// Number of rows as a share of the smaller side of the matrix, rounded down.
    #[arg(long, value_name = "SHARE", group = "size")]
    rho: Option<f64>,
    /// Number of rows such that two factors have this share of the parameters.
    #[arg(long, value_name = "SHARE", group = "size")]
    keep: Option<f64>,
    /// Number of rows as in LASER: the share (10 - RATE) / 10 of the smaller side.
    #[arg(long, value_name = "RATE", group = "size")]
    rate: Option<f64>,
    /// Weight the score by quality, the mean of exp(-|x|²) over the rows, which prefers rows of
    /// small norm.
    #[arg(long, alias = "use_quality")]
    quality: bool,
    /// Select the least diverse rows.
    #[arg(long, aliases = ["min-diversity", "min_diversity"])]
    minimise: bool,
    /// Parameter G of the kernel exp(-G |x - y|² / 2): a number, or `median` for one over the
    /// median squared distance.
    #[arg(long, value_name = "G", default_value = "1", allow_hyphen_values = true)]
    gamma: String,
    /// Order of the Vendi score: 1 is Shannon entropy; 2 needs no eigenvalues and is faster.
    #[arg(long, value_parser = one_of(&Diversity::ALL, Diversity::name), default_value = "1")]
    order: Diversity,
    /// Also write the result as JSON to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long, requires = "output")]
    force: bool,
}

/// The matrix with the candidate rows.
struct Matrix {
    model: String,
    name: String,
    values: Mat<f32>,
    dtype: String,
    sha256: String,
}

/// The selected rows and the projection onto them.
struct Found {
    matrix: Matrix,
    criterion: Criterion,
    selected: Selected,
    projection: Result<Reconstruction, VendiError>,
    selection_seconds: f64,
    projection_seconds: f64,
}

pub(crate) fn run(args: &SelectArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let mut session = console.session();
    if let Some(path) = &args.output {
        let inputs = outputs::of_model(&args.model, &mut session);
        outputs::file(path, args.force, &inputs, &session, is_result)?;
    }
    let criterion = Criterion {
        diversity: args.order,
        goal: if args.minimise { Goal::Least } else { Goal::Most },
        gamma: parse_gamma(&args.gamma)?,
        quality: args.quality,
    };
    let matrix = read(args, &mut session)?;
    let count = count(args, &matrix)?;
    let found = compute(matrix, count, criterion, &mut session)?;
    session.finish();
    if let Err(error) = &found.projection {
        session.note(&format!("note: {error}"));
    }
    let json = found.json();
    if let Some(path) = &args.output {
        let text = serde_json::to_string_pretty(&json)
            .map_err(|error| Failure::general(format!("cannot write JSON: {error}")))?;
        write_atomic(path, (text + "\n").as_bytes())?;
        session.note(&format!("wrote {}", path.display()));
    }
    if shared.json { print_json(&json) } else { print(&found.shown()) }
}

/// Reads the tensor, or the weight of the site.
fn read(args: &SelectArgs, session: &mut Session<'_>) -> Result<Matrix, Failure> {
    if let Some(name) = &args.tensor {
        let place = find_model(&args.model, session)?;
        session.step("reading");
        let stored = stored_matrix(&place.path, name)?;
        let (values, dtype, sha256) = (stored.values, stored.dtype, stored.sha256);
        return Ok(Matrix { model: place.name, name: name.clone(), values, dtype, sha256 });
    }
    let name = args.site.clone().unwrap_or_default();
    let OpenModel { loaded, place } = open_model(&args.model, session)?;
    let slots = loaded.decoder.slots();
    let Some(slot) = slots.iter().find(|slot| slot.id().to_string() == name) else {
        let names: Vec<String> = slots.iter().map(|slot| slot.id().to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let nearest = nearest_names(&name, &names);
        let message = format!(
            "none of the {} linear layers is called \"{}\"; {nearest}",
            names.len(),
            shown(&name)
        );
        return Err(Failure::usage(message).hint("see `linwright inspect MODEL --slots`"));
    };
    let values = slot.op().to_dense().map_err(|error: OpError| {
        Failure::usage(format!("{name} has no dense weight to select rows from: {error}"))
    })?;
    let sha256 = sha256_hex(little_endian_bytes(values.data()));
    Ok(Matrix { model: place.name, name, values, dtype: "f32".into(), sha256 })
}

fn compute(
    matrix: Matrix,
    count: usize,
    criterion: Criterion,
    session: &mut Session<'_>,
) -> Result<Found, Failure> {
    let rows = matrix.values.view();
    session.step(&format!("selecting {count} of {} rows", rows.rows()));
    let start = Instant::now();
    let mut go_on = |done: usize, total: usize| {
        session.progress(done as u64, total as u64);
        !interrupt::is_requested()
    };
    let selected = select(rows, count, &criterion, &mut go_on)?;
    let selection_seconds = start.elapsed().as_secs_f64();
    session.step("projecting onto their span");
    let start = Instant::now();
    let projection = match reconstruct(rows, &selected.indices) {
        // The selection is valid without coefficients; the result gives the reason.
        Err(error @ VendiError::Dependent { .. }) => Err(error),
        other => Ok(other?),
    };
    let projection_seconds = start.elapsed().as_secs_f64();
    Ok(Found { matrix, criterion, selected, projection, selection_seconds, projection_seconds })
}

fn parse_gamma(text: &str) -> Result<Gamma, Failure> {
    if text == "median" {
        return Ok(Gamma::Median);
    }
    match text.parse() {
        Ok(gamma) if gamma > 0.0 && f64::is_finite(gamma) => Ok(Gamma::Value(gamma)),
        _ => Err(Failure::usage(format!(
            "--gamma {}: expected a finite number above zero, or `median`",
            shown(text)
        ))),
    }
}

/// The number of rows, from the option that gives it.
fn count(args: &SelectArgs, matrix: &Matrix) -> Result<usize, Failure> {
    let (rows, cols) = (matrix.values.rows(), matrix.values.cols());
    let shares = [args.rho.map(Size::Rho), args.keep.map(Size::Keep), args.rate.map(Size::Rate)];
    let (count, what) = match (args.rank, shares.into_iter().flatten().next()) {
        // Not a size: more rows than columns can be chosen, though they depend on each other.
        (Some(rank), _) => (rank, format!("rank {rank}")),
        (None, Some(size)) => {
            size.check().map_err(|reason| Failure::usage(format!("--{reason}")))?;
            let shape = Shape { out: rows, inp: cols };
            let count =
                size.rank(shape, None).map_err(|error| Failure::usage(message_of(&error)))?;
            (count, size.to_string())
        }
        (None, None) => {
            return Err(Failure::usage("how many rows? Give --rank, --rho, --keep or --rate"));
        }
    };
    if count == 0 || count > rows {
        let name = &matrix.name;
        return Err(Failure::usage(format!(
            "--{what} asks for {count} rows of {name}, which is {rows} x {cols}; expected 1 to {rows}"
        )));
    }
    Ok(count)
}

impl Found {
    fn json(&self) -> Value {
        let (matrix, selected) = (&self.matrix, &self.selected);
        let projection = self.projection.as_ref().ok().map(|projection| {
            json!({
                "relative_residual": projection.relative_residual,
                "condition": projection.condition,
            })
        });
        json!({
            "schema": 1,
            "linwright": env!("CARGO_PKG_VERSION"),
            "model": matrix.model,
            "matrix": {
                "name": matrix.name,
                "dtype": matrix.dtype,
                "rows": matrix.values.rows(),
                "cols": matrix.values.cols(),
                "sha256": matrix.sha256,
            },
            "options": {
                "rank": selected.indices.len(),
                "order": self.criterion.diversity.name(),
                "quality": self.criterion.quality,
                "minimise": self.criterion.goal == Goal::Least,
                "gamma": match self.criterion.gamma {
                    Gamma::Value(gamma) => json!(gamma),
                    Gamma::Median => json!("median"),
                },
            },
            "gamma": selected.gamma,
            "indices": selected.indices,
            "scores": selected.scores,
            "log_scores": selected.log_scores,
            "log_mean_quality": selected.log_mean_quality,
            "duplicates": selected.duplicates,
            "projection": projection,
            "no_projection": self.projection.as_ref().err().map(ToString::to_string),
            "effort": {
                "spectra": selected.effort.spectra,
                "excluded": selected.effort.excluded,
                "decompositions": selected.effort.decompositions,
            },
            "seconds": {
                "selection": self.selection_seconds,
                "projection": self.projection_seconds,
            },
            "device": format!("cpu ({})", instruction_set()),
            "threads": threads(),
        })
    }

    fn shown(&self) -> String {
        let (matrix, selected) = (&self.matrix, &self.selected);
        let picks = selected.indices.iter().zip(&selected.scores).enumerate();
        let line = |(place, (row, score)): (usize, (&usize, &f64))| {
            vec![(place + 1).to_string(), row.to_string(), format!("{score:.6}")]
        };
        let mut text = format!(
            "{}: {} x {}, {} of {} rows, gamma {:.6}\n\n{}",
            matrix.name,
            matrix.values.rows(),
            matrix.values.cols(),
            selected.indices.len(),
            matrix.values.rows(),
            selected.gamma,
            table(&["pick", "row", "score"], &picks.take(SHOWN).map(line).collect::<Vec<_>>()),
        );
        if let Some(more) = selected.indices.len().checked_sub(SHOWN + 1) {
            text += &format!("\nand {} more: see --json", more + 1);
        }
        if selected.duplicates > 0 {
            text += &format!("\n{} selected rows equal an earlier one", selected.duplicates);
        }
        text += &match &self.projection {
            Ok(projection) => format!(
                "\n\nprojection onto these rows: relative residual {:.6}, condition number {:.3e}",
                projection.relative_residual, projection.condition
            ),
            Err(error) => format!("\n\nno projection: {error}"),
        };
        text
    }
}
