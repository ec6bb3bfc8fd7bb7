//! Peak memory of a forward pass, measured by the operating system.

use super::candidate::Rows;
use super::{BenchError, Dtype, Pass, Subject, standard};
use linwright_ops::{Op, Shape, Workspace};
use linwright_tensor::Scalar;
use linwright_tensor::parallel::ROW_BLOCK;
use std::fs;

/// Bytes that the first forward pass of an operator adds to the peak resident set, when inputs and
/// outputs already exist: workspaces of all threads, and data that the operator derives from its
/// parameters. File-backed pages, such as program code, do not count, and the threads are started
/// before. `None` if the system does not report it: it is read from Linux's `/proc/self`.
///
/// Memory that the process allocated and freed earlier hides the need of a pass, so this must be
/// the first measurement of a separate process. If the allocator uses huge pages, the first touch
/// of one counts completely, 2 MB on x86-64; switch them off for this measurement.
///
/// # Errors
/// [`BenchError::Operator`] if the operator does not exist for the shape, and
/// [`BenchError::NonFinite`].
pub fn forward_peak_bytes(
    subject: &Subject,
    shape: Shape,
    rows: usize,
    seed: u64,
    dtype: Dtype,
) -> Result<Option<u64>, BenchError> {
    match dtype {
        Dtype::F32 => peak_in::<f32>(subject, shape, rows, seed),
        Dtype::F64 => peak_in::<f64>(subject, shape, rows, seed),
    }
}

fn peak_in<T: Scalar>(
    subject: &Subject,
    shape: Shape,
    rows: usize,
    seed: u64,
) -> Result<Option<u64>, BenchError> {
    // Starts the threads with their stacks before any operator needs them.
    let small = Shape { out: 64, inp: 64 };
    let dense: Option<Subject> = standard("dense").map(Subject::new);
    if let Some(dense) = dense {
        let mut rows = Rows::<T>::new(small, 4 * ROW_BLOCK, &[], seed);
        let op: Op<T> = dense.build(small, seed)?;
        let (x, y) = (rows.x.view(), rows.y.view_mut());
        op.map().forward(x, y, None, &mut Workspace::default());
    }
    let op: Op<T> = subject.build(shape, seed)?;
    let mut rows = Rows::<T>::new(shape, rows, &[Pass::Forward], seed);
    let Some([before, files]) = begin() else { return Ok(None) };
    let (x, y) = (rows.x.view(), rows.y.view_mut());
    op.map().forward(x, y, None, &mut Workspace::default());
    let peak = end().map(|[peak, files_now]| {
        peak.saturating_sub(before).saturating_sub(files_now.saturating_sub(files))
    });
    if rows.y.data().iter().all(|v| v.is_finite()) {
        return Ok(peak);
    }
    let label = subject.label.clone();
    Err(BenchError::NonFinite { label, shape, pass: Pass::Forward.name() })
}

/// Resets the peak to the current resident set, and returns that and its file-backed part.
fn begin() -> Option<[u64; 2]> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some([bytes(&status, "VmRSS:")?, bytes(&status, "RssFile:")?])
}

/// The peak, and the current file-backed part.
fn end() -> Option<[u64; 2]> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some([bytes(&status, "VmHWM:")?, bytes(&status, "RssFile:")?])
}

/// A value of `/proc/self/status`, in bytes.
fn bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_status_are_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nRssFile:\t       3 kB\n";
        assert_eq!(bytes(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(bytes(status, "RssFile:"), Some(3 << 10));
        assert_eq!(bytes(status, "VmRSS:"), None);
    }

    #[test]
    fn a_pass_needs_memory_of_its_own() {
        let subject = Subject::new(standard("circulant_diagonal").unwrap());
        let shape = Shape { out: 48, inp: 48 };
        for &dtype in Dtype::ALL {
            let peak = forward_peak_bytes(&subject, shape, 32, 0, dtype).unwrap();
            assert_eq!(peak.is_some(), cfg!(target_os = "linux"));
        }
    }
}
