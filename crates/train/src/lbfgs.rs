//! L-BFGS: limited-memory quasi-Newton minimisation of a smooth function on the full batch.
//!
//! Source: L-BFGS with the two-loop recursion (Nocedal and Wright 2006, algorithms 7.4 and 7.5),
//! with the bracketing line search of Lewis and Overton 2013 for the weak Wolfe conditions, which
//! keep the approximate Hessian positive definite. Deviation: inside a bracket the next step is the
//! minimum of a parabola, kept away from both ends, instead of the midpoint.
//!
//! Everything is `f64`: sums of squares that can become zero converge to rounding error, unlike
//! with stochastic gradient steps.

use crate::{Control, Progress, TrainError};
use std::collections::VecDeque;

/// Sufficient decrease (Armijo), relative to the linear prediction.
const DECREASE: f64 = 1e-4;
/// Curvature condition: share of the slope that may remain after a step.
const CURVATURE: f64 = 0.9;
/// Largest number of evaluations of one line search; more mean that rounding errors dominate.
const MAX_EVALUATIONS: usize = 40;
/// Distance of the next step from the ends of a bracket, relative to its length.
const MARGIN: f64 = 0.1;
/// Number of iterations over which the decrease is measured for convergence.
const PATIENCE: usize = 10;

/// Settings of a minimisation.
#[derive(Clone, Debug, PartialEq)]
pub struct LbfgsSettings {
    /// Name of the run in messages and errors.
    pub name: String,
    /// Largest number of iterations.
    pub iterations: u64,
    /// Memory: number of pairs of steps and gradient changes.
    pub memory: usize,
    /// Convergence: the relative decrease of the loss over ten iterations is below this.
    pub tolerance: f64,
    /// The run ends when the loss is at most this.
    pub enough: f64,
}

impl Default for LbfgsSettings {
    fn default() -> Self {
        Self { name: String::new(), iterations: 500, memory: 20, tolerance: 1e-9, enough: 0.0 }
    }
}

/// Result of a minimisation.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimum {
    /// The arguments.
    pub values: Vec<f64>,
    /// The loss there, at most that of the start.
    pub loss: f64,
    /// Number of iterations.
    pub iterations: u64,
}

/// A point with its loss and gradient.
#[derive(Clone, Debug)]
struct Point {
    values: Vec<f64>,
    loss: f64,
    gradient: Vec<f64>,
}

/// A step and the change of the gradient over it.
#[derive(Clone, Debug)]
struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    /// The inverse of their inner product.
    rho: f64,
}

/// Minimises `loss`, which writes the gradient at its first argument to its second, from `start`.
/// There are no checkpoints: an interrupted run cannot be continued.
///
/// # Errors
/// [`TrainError::NonFinite`] if the start has no finite loss and gradient;
/// [`TrainError::Interrupted`].
pub fn lbfgs(
    loss: &mut dyn FnMut(&[f64], &mut [f64]) -> f64,
    start: Vec<f64>,
    settings: &LbfgsSettings,
    control: &mut dyn Control,
) -> Result<Minimum, TrainError> {
    let LbfgsSettings { name, iterations: steps, memory, tolerance, enough } = settings;
    let mut here = evaluate(loss, start);
    if !is_finite(&here) {
        let name = name.clone();
        return Err(TrainError::NonFinite { name, what: "the loss or its gradient", step: 0 });
    }
    let mut pairs: VecDeque<Pair> = VecDeque::new();
    let mut before = VecDeque::from([here.loss]);
    let mut step = 0;
    while step < *steps && here.loss > *enough {
        if control.interrupted() {
            return Err(TrainError::Interrupted { name: name.clone(), step });
        }
        let Some(next) = advance(loss, &here, &mut pairs) else { break };
        push_pair(&mut pairs, &here, &next, *memory);
        here = next;
        step += 1;
        control.progress(&Progress { name, step, steps: *steps, loss: here.loss });
        before.push_back(here.loss);
        if before.len() > PATIENCE
            && let Some(old) = before.pop_front()
            && old - here.loss <= tolerance * old
        {
            break;
        }
    }
    Ok(Minimum { values: here.values, loss: here.loss, iterations: step })
}

/// The next point, or none if rounding errors dominate.
fn advance(
    loss: &mut dyn FnMut(&[f64], &mut [f64]) -> f64,
    here: &Point,
    pairs: &mut VecDeque<Pair>,
) -> Option<Point> {
    let found = search(loss, here, &direction(&here.gradient, pairs), pairs.is_empty());
    if found.is_none() && !pairs.is_empty() {
        // The old curvature may mislead here: retry with steepest descent.
        pairs.clear();
        return search(loss, here, &direction(&here.gradient, pairs), true);
    }
    found
}

/// Keeps a pair if it has positive curvature, and drops the oldest beyond `memory`.
fn push_pair(pairs: &mut VecDeque<Pair>, here: &Point, next: &Point, memory: usize) {
    let step = difference(&next.values, &here.values);
    let change = difference(&next.gradient, &here.gradient);
    let product = dot(&step, &change);
    if product > 0.0 && (1.0 / product).is_finite() {
        pairs.push_back(Pair { step, change, rho: 1.0 / product });
        if pairs.len() > memory {
            pairs.pop_front();
        }
    }
}

fn evaluate(loss: &mut dyn FnMut(&[f64], &mut [f64]) -> f64, values: Vec<f64>) -> Point {
    let mut gradient = vec![0.0; values.len()];
    let loss = loss(&values, &mut gradient);
    Point { values, loss, gradient }
}

fn is_finite(point: &Point) -> bool {
    point.loss.is_finite() && point.gradient.iter().all(|g| g.is_finite())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn add_scaled(to: &mut [f64], scale: f64, from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += scale * from);
}

/// The two-loop recursion: minus the approximate inverse Hessian times the gradient.
fn direction(gradient: &[f64], pairs: &VecDeque<Pair>) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut shares = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().rev() {
        let share = pair.rho * dot(&pair.step, &q);
        add_scaled(&mut q, -share, &pair.change);
        shares.push(share);
    }
    if let Some(last) = pairs.back() {
        let scale = 1.0 / (last.rho * dot(&last.change, &last.change));
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for (pair, share) in pairs.iter().zip(shares.into_iter().rev()) {
        let back = pair.rho * dot(&pair.change, &q);
        add_scaled(&mut q, share - back, &pair.step);
    }
    q
}

/// A point along a direction that satisfies the weak Wolfe conditions, or, if rounding errors
/// prevent that, the lowest one found if it is below the start. The first trial step has length 1.
fn search(
    loss: &mut dyn FnMut(&[f64], &mut [f64]) -> f64,
    here: &Point,
    direction: &[f64],
    first: bool,
) -> Option<Point> {
    let slope = dot(&here.gradient, direction);
    if slope.is_nan() || slope >= 0.0 {
        return None;
    }
    let mut t = if first { 1.0 / dot(direction, direction).sqrt() } else { 1.0 };
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut best: Option<Point> = None;
    for _ in 0..MAX_EVALUATIONS {
        let mut values = here.values.clone();
        add_scaled(&mut values, t, direction);
        let point = evaluate(loss, values);
        let finite = is_finite(&point);
        if !finite || point.loss > here.loss + DECREASE * t * slope {
            high = t;
            let width = high - low;
            // The parabola through loss and slope at zero and the loss at t.
            let rise = point.loss - here.loss - slope * t;
            let parabola = if finite { -slope * t * t / (2.0 * rise) } else { f64::NAN };
            let middle = 0.5 * (low + high);
            t = if parabola.is_finite() { parabola } else { middle };
            t = t.clamp(low + MARGIN * width, high - MARGIN * width);
        } else {
            let enough = dot(&point.gradient, direction) >= CURVATURE * slope;
            if best.as_ref().is_none_or(|best| point.loss < best.loss) {
                best = Some(point);
            }
            if enough {
                break;
            }
            low = t;
            t = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * t };
        }
    }
    best.filter(|best| best.loss < here.loss)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records losses, and stops after `stop_after` steps.
    struct Recorder {
        losses: Vec<f64>,
        stop_after: usize,
    }

    impl Control for Recorder {
        fn progress(&mut self, progress: &Progress<'_>) {
            self.losses.push(progress.loss);
        }

        fn interrupted(&self) -> bool {
            self.losses.len() >= self.stop_after
        }
    }

    fn recorder(stop_after: usize) -> Recorder {
        Recorder { losses: Vec::new(), stop_after }
    }

    fn rosenbrock(x: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut sum = 0.0;
        for i in 0..x.len() - 1 {
            let (valley, far) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
            sum += 100.0 * valley * valley + far * far;
            gradient[i] += -400.0 * x[i] * valley - 2.0 * far;
            gradient[i + 1] += 200.0 * valley;
        }
        sum
    }

    #[test]
    fn rosenbrocks_valley_is_walked_to_its_end_downhill() {
        let settings = LbfgsSettings { tolerance: 0.0, ..LbfgsSettings::default() };
        for size in [2, 10] {
            let start = (0..size).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
            let mut control = recorder(usize::MAX);
            let found = lbfgs(&mut rosenbrock, start, &settings, &mut control).expect("finite");
            assert!(found.loss < 1e-20, "{size}: {}", found.loss);
            assert!(found.values.iter().all(|x| (x - 1.0).abs() < 1e-9), "{:?}", found.values);
            assert!(control.losses.windows(2).all(|pair| pair[1] < pair[0]), "a loss rose");
            assert_eq!(control.losses.len() as u64, found.iterations);
            assert!(found.iterations < 100, "{} iterations", found.iterations);
        }
    }

    #[test]
    fn quadratics_of_bad_condition_come_down_to_their_minimum() {
        let weights: Vec<f64> = (0..12).map(|k| 10f64.powf(f64::from(k) / 3.0)).collect();
        let mut quadratic = |x: &[f64], gradient: &mut [f64]| {
            let mut sum = 3.0;
            for (k, weight) in weights.iter().enumerate() {
                let away = x[k] - k as f64;
                sum += 0.5 * weight * away * away;
                gradient[k] = weight * away;
            }
            sum
        };
        let settings = LbfgsSettings { tolerance: 0.0, ..LbfgsSettings::default() };
        let found = lbfgs(&mut quadratic, vec![0.0; 12], &settings, &mut recorder(usize::MAX));
        let found = found.expect("finite");
        assert!((found.loss - 3.0).abs() < 1e-12, "{}", found.loss);
        assert!(found.values.iter().enumerate().all(|(k, x)| (x - k as f64).abs() < 1e-6));
        let enough = LbfgsSettings { enough: 10.0, ..settings };
        let early = lbfgs(&mut quadratic, vec![0.0; 12], &enough, &mut recorder(usize::MAX));
        let early = early.expect("finite");
        assert!(early.loss <= 10.0 && early.loss > found.loss, "{}", early.loss);
    }

    #[test]
    fn interruptions_bad_starts_and_minima_end_a_run() {
        let settings = LbfgsSettings { name: "valley".into(), ..LbfgsSettings::default() };
        let stopped = lbfgs(&mut rosenbrock, vec![-1.2, 1.0], &settings, &mut recorder(3));
        assert!(matches!(stopped, Err(TrainError::Interrupted { step: 3, .. })), "{stopped:?}");
        let bad = lbfgs(&mut rosenbrock, vec![f64::NAN, 1.0], &settings, &mut recorder(9));
        let said = bad.expect_err("not finite").to_string();
        assert!(said.contains("valley") && said.contains("not finite"), "{said}");
        let done = lbfgs(&mut rosenbrock, vec![1.0, 1.0], &settings, &mut recorder(9));
        assert_eq!(done.expect("finite").iterations, 0);
        let nothing = lbfgs(&mut |_, _| 2.0, Vec::new(), &settings, &mut recorder(9));
        assert_eq!(nothing.expect("finite").loss, 2.0);
    }
}
