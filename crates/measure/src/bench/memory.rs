//! Peak memory of a forward pass, as the operating system counts it.

use super::candidate::Rows;
use super::{BenchError, Pass, Subject, standard};
use linwright_ops::{Op, Shape, Workspace};
use linwright_tensor::parallel::ROW_BLOCK;
use std::fs;

/// Bytes that the first forward pass of an operator adds to the resident set at most, when rows of
/// input and output are there already: workspaces of all threads, what the operator derives from its
/// parameters, and pages of code that run for the first time, but for those of a small dense
/// product, which comes before to start the threads. None where the system does not tell:
/// it is read from Linux's `/proc/self`.
///
/// Memory that the process got earlier and did not give back hides what a pass needs, so that this
/// is to be asked first of all in a process of its own.
///
/// # Errors
/// [`BenchError::Operator`] if the shape cannot have the operator, and [`BenchError::NonFinite`].
pub fn forward_peak_bytes(
    subject: &Subject,
    shape: Shape,
    rows: usize,
    seed: u64,
) -> Result<Option<u64>, BenchError> {
    // Threads and their stacks are there before any operator asks for them.
    let small = Shape { out: 64, inp: 64 };
    let dense: Option<Subject> = standard("dense").map(Subject::new);
    if let Some(dense) = dense {
        let mut rows = Rows::new(small, 4 * ROW_BLOCK, &[], seed);
        let op: Op<f32> = dense.build(small, seed)?;
        let (x, y) = (rows.x.view(), rows.y.view_mut());
        op.map().forward(x, y, None, &mut Workspace::default());
    }
    let op: Op<f32> = subject.build(shape, seed)?;
    let mut rows = Rows::new(shape, rows, &[Pass::Forward], seed);
    let Some(before) = begin() else { return Ok(None) };
    let (x, y) = (rows.x.view(), rows.y.view_mut());
    op.map().forward(x, y, None, &mut Workspace::default());
    let peak = status("VmHWM:").map(|peak| peak.saturating_sub(before));
    if rows.y.data().iter().all(|v| v.is_finite()) {
        return Ok(peak);
    }
    let label = subject.label.clone();
    Err(BenchError::NonFinite { label, shape, pass: Pass::Forward.name() })
}

/// Sets the recorded peak back to the resident set of this moment, which it gives.
fn begin() -> Option<u64> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    status("VmRSS:")
}

/// A line of `/proc/self/status`, in bytes.
fn status(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
