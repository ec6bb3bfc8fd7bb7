//! Scores of classifiers.

use super::examples::batch;
use super::{ImageStudyError, StudyError};
use crate::CompressError;
use linwright_data::images::Images;
use linwright_evaluate::{Counts, Metric, TaskResult};
use linwright_nets::Net;
use linwright_ops::{Network, NoProbe};
use linwright_run::Monitor;

/// Name of the task.
const TASK: &str = "image_classification";

/// Cross-entropy in nats and accuracy over labelled images, whose labels are below the number of
/// outputs. Of equal largest outputs, the first counts.
pub(super) fn classification(
    network: &Net,
    images: &Images,
    size: usize,
    monitor: &mut dyn Monitor,
) -> Result<TaskResult, StudyError> {
    let labels = images.labels().expect("images have labels");
    let all: Vec<usize> = (0..images.len()).collect();
    let (mut losses, mut right, mut ties) = (Vec::with_capacity(all.len()), 0, 0);
    for chosen in all.chunks(size) {
        if monitor.interrupted() {
            return Err(CompressError::Interrupted.into());
        }
        let input = batch(images, chosen);
        let mut state = network.begin(&input).map_err(ImageStudyError::Net)?;
        let stages = 0..network.stages();
        let passed = network.run_stages(&mut state, &input, stages, &mut NoProbe);
        passed.map_err(ImageStudyError::Net)?;
        for (row, &index) in chosen.iter().enumerate() {
            let (outputs, label) = (state.rows.row(row), labels[index] as usize);
            losses.push(cross_entropy(outputs, label));
            let largest = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            right += usize::from(outputs.iter().position(|x| *x == largest) == Some(label));
            ties += usize::from(outputs.iter().filter(|x| **x == largest).count() > 1);
        }
        monitor.progress(losses.len() as u64, all.len() as u64);
    }
    let metrics = metrics(&losses, right);
    let shape = images.shape();
    Ok(TaskResult {
        task: TASK.to_owned(),
        protocol: format!("{TASK}_{}x{}x{}", shape.height, shape.width, shape.channels),
        version: 1.0,
        data_sha256: images.sha256().to_owned(),
        metrics,
        counts: Counts { items: losses.len(), ties, ..Counts::default() },
        original: losses.len(),
        ..TaskResult::default()
    })
}

/// `ln Σ exp(x) - x[label]`, in f64.
fn cross_entropy(outputs: &[f32], label: usize) -> f64 {
    let largest: f64 = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max).into();
    let sum: f64 = outputs.iter().map(|&x| (f64::from(x) - largest).exp()).sum();
    largest + sum.ln() - f64::from(outputs[label])
}

/// Both metrics, with standard errors over images.
fn metrics(losses: &[f64], right: usize) -> Vec<Metric> {
    let n = losses.len() as f64;
    let (loss, accuracy) = (losses.iter().sum::<f64>() / n, right as f64 / n);
    let squares: f64 = losses.iter().map(|x| (x - loss).powi(2)).sum();
    let error = |variance: f64| (losses.len() > 1).then(|| (variance / (n - 1.0)).sqrt());
    vec![
        Metric::new("cross_entropy", loss, error(squares / n), false),
        Metric::new("acc", accuracy, error(accuracy * (1.0 - accuracy)), true),
    ]
}
