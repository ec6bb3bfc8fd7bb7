//! `linwright select`: selects rows of a matrix by their Vendi score.

use super::Select;
use super::result::{Projection, RowsSelected, SelectedMatrix, SelectionOptions, SelectionSeconds};
use crate::jobs::kit::source::{OpenModel, find_model, open_model};
use crate::jobs::kit::{Failure, Outcome, Session, message_of, outputs};
use linwright_compress::Size;
use linwright_measure::vendi::{
    Criterion, Gamma, Goal, Reconstruction, Selected, VendiError, reconstruct, select,
    stored_matrix,
};
use linwright_ops::{OpError, Shape, Sites};
use linwright_run::place::is_result;
use linwright_run::spelling::nearest_names;
use linwright_run::{Measured, Monitor, sha256_hex, shown};
use linwright_tensor::parallel::{instruction_set, threads};
use linwright_tensor::{Mat, little_endian_bytes};

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
    seconds: SelectionSeconds,
}

pub(super) fn run(job: &Select, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if job.tensor.is_none() && job.sites.is_none() {
        return Err(Failure::usage("which matrix? Give --tensor or --sites"));
    }
    if let Some(path) = &job.output {
        let inputs = outputs::of_model(&job.model, session);
        outputs::file(path, job.force, &inputs, session, is_result)?;
    }
    let criterion = Criterion {
        diversity: job.order,
        goal: if job.minimise { Goal::Least } else { Goal::Most },
        gamma: parse_gamma(&job.gamma)?,
        quality: job.quality,
    };
    let matrix = read(job, session)?;
    let count = count(job, &matrix)?;
    let found = compute(matrix, count, criterion, session)?;
    session.finish();
    if let Err(error) = &found.projection {
        session.note(&format!("note: {error}"));
    }
    let result = found.result();
    if let Some(path) = &job.output {
        outputs::write_report(path, &result, job.force)?;
        session.note(&format!("wrote {}", path.display()));
    }
    Ok(Outcome::of(result))
}

/// Reads the tensor, or the weight of the site.
fn read(job: &Select, session: &mut Session<'_>) -> Result<Matrix, Failure> {
    if let Some(name) = &job.tensor {
        let place = find_model(&job.model, session)?;
        session.step("reading");
        let stored = stored_matrix(&place.path, name)?;
        let (values, dtype, sha256) = (stored.values, stored.dtype, stored.sha256);
        return Ok(Matrix { model: place.name, name: name.clone(), values, dtype, sha256 });
    }
    let name = job.sites.clone().unwrap_or_default();
    let OpenModel { loaded, place } = open_model(&job.model, session)?;
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
    let began = session.seconds();
    let mut go_on = |done: usize, total: usize| {
        session.progress(done as u64, total as u64);
        !session.interrupted()
    };
    let selected = select(rows, count, &criterion, &mut go_on)?;
    let selection = session.seconds() - began;
    session.step("projecting onto their span");
    let began = session.seconds();
    let projection = match reconstruct(rows, &selected.indices) {
        // The selection is valid without coefficients; the result gives the reason.
        Err(error @ VendiError::Dependent { .. }) => Err(error),
        other => Ok(other?),
    };
    let seconds = SelectionSeconds { selection, projection: session.seconds() - began };
    Ok(Found { matrix, criterion, selected, projection, seconds })
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
fn count(job: &Select, matrix: &Matrix) -> Result<usize, Failure> {
    let (rows, cols) = (matrix.values.rows(), matrix.values.cols());
    let (rank, share) = match (job.rank, job.size.map(|size| size.0)) {
        (None, Some(Size::Rank(rank))) => (Some(rank), None),
        (rank, size) => (rank, size.or(job.keep.map(Size::Keep))),
    };
    let (count, what) = match (rank, share) {
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
            return Err(Failure::usage("how many rows? Give --rank, --keep or --size"));
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
    fn result(self) -> RowsSelected {
        let Self { matrix, criterion, selected, projection, seconds } = self;
        RowsSelected {
            model: matrix.model,
            matrix: SelectedMatrix {
                name: matrix.name,
                dtype: matrix.dtype,
                rows: matrix.values.rows(),
                cols: matrix.values.cols(),
                sha256: matrix.sha256,
            },
            options: SelectionOptions {
                rank: selected.indices.len(),
                order: criterion.diversity,
                quality: criterion.quality,
                minimise: criterion.goal == Goal::Least,
                gamma: criterion.gamma,
            },
            gamma: selected.gamma,
            indices: selected.indices,
            scores: selected.scores,
            log_scores: selected.log_scores,
            log_mean_quality: selected.log_mean_quality,
            duplicates: selected.duplicates,
            no_projection: projection.as_ref().err().map(ToString::to_string),
            projection: projection.ok().map(
                |Reconstruction { condition, relative_residual, .. }| Projection {
                    relative_residual,
                    condition,
                },
            ),
            effort: selected.effort,
            seconds: Some(Measured(seconds)),
            device: Some(Measured(format!("cpu ({})", instruction_set()))),
            threads: Some(Measured(threads())),
        }
    }
}
