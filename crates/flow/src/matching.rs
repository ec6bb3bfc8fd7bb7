//! Flow matching: a network learns the velocity that carries normal noise to data.
//!
//! For noise x_0, data x_1 and a time t the network sees `x_t = (1 - t) x_0 + t x_1` and t, and
//! learns `x_1 - x_0` (Lipman et al. 2023, arXiv:2210.02747, with straight paths and σ = 0). Its
//! hidden layers are square, so any operator can be used: the CDFlow paper uses products of
//! diagonals and circulants. Samples follow the velocity from noise; densities follow it back with
//! its divergence (Chen et al. 2018, eq. 8), which is computed exactly, by one gradient for each
//! dimension.

use crate::{Extent, FlowError, FlowExamples};
use linwright_nets::layers::Linear;
use linwright_nets::{Batch, InputSpec, Labelled, LayerSpec, Net, NetError, NetSpec, Targets};
use linwright_ops::{OpSpec, Workspace};
use linwright_run::Monitor;
use linwright_tensor::{Mat, RngKey};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// Largest number of dimensions of a density: each costs a gradient in every step.
const MOST_DIMENSIONS: usize = 64;

/// Size of a network of velocities.
#[derive(Clone, Debug, PartialEq)]
pub struct VelocitySpec {
    /// Dimension of a point.
    pub dimensions: usize,
    /// Channels of the hidden layers.
    pub hidden: usize,
    /// Square layers between the first and the last.
    pub layers: usize,
    /// Their operator; none for dense weights.
    pub operator: Option<OpSpec>,
}

impl VelocitySpec {
    /// The network: from point and time through hidden layers with SiLU between them to a velocity.
    #[must_use]
    pub fn net(&self) -> NetSpec {
        let linear =
            |name: &str, out| LayerSpec::Linear(Linear { name: name.to_owned(), out, bias: true });
        let mut layers = vec![linear("first", self.hidden), LayerSpec::Silu];
        let mut operators = BTreeMap::new();
        for index in 0..self.layers {
            let name = format!("hidden{index}");
            layers.extend([linear(&name, self.hidden), LayerSpec::Silu]);
            operators.extend(self.operator.clone().map(|operator| (name, operator)));
        }
        layers.push(linear("last", self.dimensions));
        let input = InputSpec {
            channels: self.dimensions + 1,
            height: 1,
            width: 1,
            mean: Vec::new(),
            std: Vec::new(),
        };
        NetSpec { input, layers, operators }
    }
}

/// Pairs of noise and data with their times, as examples of a regression.
///
/// # Errors
/// [`FlowError::Option`] for images.
pub fn velocity_examples(
    examples: &FlowExamples,
    count: u32,
    key: RngKey,
) -> Result<Labelled, FlowError> {
    let Extent { channels: dims, .. } = examples.extent();
    if examples.extent().places() > 1 {
        let found = format!("images of {}", examples.extent());
        return Err(FlowError::Option { option: "data", found, expected: "points".to_owned() });
    }
    let available = examples.count();
    let mut stream = key.fold("pairs").stream();
    let indices: Vec<u32> = match available {
        Some(available) => (0..count).map(|_| stream.below(available) as u32).collect(),
        None => (0..count).collect(),
    };
    let data = examples.batch(&indices, key.fold("data"));
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for i in 0..data.rows() {
        let t = stream.uniform() as f32;
        let noise: Vec<f32> = stream.normals(dims, 1.0);
        let both = || noise.iter().zip(data.row(i));
        inputs.extend(both().map(|(noise, data)| (1.0 - t) * noise + t * data));
        inputs.push(t);
        targets.extend(both().map(|(noise, data)| data - noise));
    }
    let rows = Mat::from_vec(count as usize, dims + 1, inputs);
    let targets = Targets::Values(Mat::from_vec(count as usize, dims, targets));
    Labelled::new(rows, 1, targets).map_err(failed)
}

fn failed(source: NetError) -> FlowError {
    FlowError::Net { layer: "velocity".to_owned(), source: source.into() }
}

/// Points and a time as the input of a network.
fn with_time(x: &Mat<f32>, t: f64) -> Batch {
    let rows =
        Mat::from_fn(
            x.rows(),
            x.cols() + 1,
            |i, j| {
                if j == x.cols() { t as f32 } else { x.at(i, j) }
            },
        );
    Batch { examples: x.rows(), rows }
}

fn moved(x: &Mat<f32>, by: f64, velocity: &Mat<f32>) -> Mat<f32> {
    Mat::from_fn(x.rows(), x.cols(), |i, j| x.at(i, j) + by as f32 * velocity.at(i, j))
}

/// Samples: normal noise moved by the velocity, with `steps` steps of the midpoint rule.
///
/// # Errors
/// [`FlowError::Net`] for numbers that are not finite.
pub fn velocity_samples(
    net: &Net,
    count: usize,
    steps: usize,
    key: RngKey,
    monitor: &dyn Monitor,
) -> Result<Mat<f32>, FlowError> {
    let dims = net.output().channels;
    let noise = key.fold("noise").stream().normals(count * dims, 1.0);
    let (mut x, step) = (Mat::from_vec(count, dims, noise), 1.0 / steps.max(1) as f64);
    for k in 0..steps {
        check_interrupted(monitor)?;
        let t = k as f64 * step;
        let half = moved(&x, 0.5 * step, &net.outputs(&with_time(&x, t)).map_err(failed)?);
        let velocity = net.outputs(&with_time(&half, t + 0.5 * step)).map_err(failed)?;
        x = moved(&x, step, &velocity);
    }
    Ok(x)
}

/// Negative log-likelihood of points in nats, by `steps` steps of the midpoint rule back to noise.
///
/// # Errors
/// [`FlowError::Option`] for points of more than 64 numbers, [`FlowError::Net`] for numbers that
/// are not finite, [`FlowError::Interrupted`].
pub fn velocity_nll(
    net: &mut Net,
    points: &Mat<f32>,
    steps: usize,
    monitor: &mut dyn Monitor,
) -> Result<Vec<f64>, FlowError> {
    let dims = points.cols();
    if dims > MOST_DIMENSIONS || dims + 1 != net.input().channels {
        let found = format!("points of {dims} numbers");
        let expected = format!("{}, at most {MOST_DIMENSIONS}", net.input().channels - 1);
        return Err(FlowError::Option { option: "data", found, expected });
    }
    let (mut x, step) = (points.clone(), 1.0 / steps.max(1) as f64);
    let mut nll = vec![0.0; points.rows()];
    for k in (1..=steps).rev() {
        monitor.progress((steps - k) as u64, steps as u64);
        let t = k as f64 * step;
        let half = moved(&x, -0.5 * step, &net.outputs(&with_time(&x, t)).map_err(failed)?);
        let (velocity, divergence) = with_divergence(net, &half, t - 0.5 * step, monitor)?;
        x = moved(&x, -step, &velocity);
        nll.iter_mut().zip(divergence).for_each(|(nll, own)| *nll += step * own);
    }
    for (i, nll) in nll.iter_mut().enumerate() {
        let square: f64 = x.row(i).iter().map(|v| f64::from(*v).powi(2)).sum();
        *nll += 0.5 * (square + dims as f64 * TAU.ln());
    }
    crate::error::check_finite("the density of a point", &nll)?;
    Ok(nll)
}

/// Velocities at points, and the divergence of each.
fn with_divergence(
    net: &mut Net,
    x: &Mat<f32>,
    t: f64,
    monitor: &dyn Monitor,
) -> Result<(Mat<f32>, Vec<f64>), FlowError> {
    let (mut divergence, mut velocity) = (vec![0.0; x.rows()], Mat::default());
    let mut ws = Workspace::default();
    for d in 0..x.cols() {
        check_interrupted(monitor)?;
        let (y, passed) = net.pass_in(with_time(x, t), None, &mut ws).map_err(failed)?;
        let one = Mat::from_fn(y.rows(), y.cols(), |_, j| f32::from(u8::from(j == d)));
        let (_, dx) = net.gradients(passed, one);
        divergence.iter_mut().enumerate().for_each(|(i, sum)| *sum += f64::from(dx.at(i, d)));
        velocity = y;
    }
    Ok((velocity, divergence))
}

fn check_interrupted(monitor: &dyn Monitor) -> Result<(), FlowError> {
    if monitor.interrupted() { Err(FlowError::Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_nets::{Loss, NetTraining, TrainingPlan};
    use linwright_run::{Silent, Stopped};
    use linwright_train::{
        Control, OptimizerSettings, Progress, Rules, Schedule, TrainSettings, train,
    };

    fn spec(operator: Option<OpSpec>) -> VelocitySpec {
        VelocitySpec { dimensions: 2, hidden: 32, layers: 2, operator }
    }

    struct Quiet;

    impl Control for Quiet {
        fn progress(&mut self, _progress: &Progress<'_>) {}

        fn interrupted(&self) -> bool {
            false
        }
    }

    fn trained(operator: Option<OpSpec>) -> Net {
        let examples = FlowExamples::open("circles", None).unwrap();
        let (training, held_out) = (
            velocity_examples(&examples, 4096, RngKey::new(1)).unwrap(),
            velocity_examples(&examples, 256, RngKey::new(2)).unwrap(),
        );
        let mut net = Net::random(&spec(operator).net(), RngKey::new(3)).unwrap();
        let plan = TrainingPlan { loss: Loss::SquaredError, batch: 256, key: RngKey::new(4) };
        let settings = TrainSettings {
            name: "velocity".into(),
            steps: 200,
            schedule: Schedule { peak: 5e-3, warmup: 10, floor: 1e-4 },
            optimizer: OptimizerSettings::default(),
            validate_every: 50,
            keep_best: true,
            divergence_factor: 10.0,
            rules: Rules::default(),
        };
        let mut problem = NetTraining::new(&mut net, &training, &held_out, plan).unwrap();
        let outcome = train(&mut problem, &settings, None, &mut Quiet).unwrap();
        assert!(outcome.best_loss < 0.95 * outcome.curve[0].validation, "{outcome:?}");
        net
    }

    /// The divergence is that of central differences, and densities integrate to one.
    #[test]
    fn densities_follow_the_velocity_back() {
        let operator = OpSpec::default_of("circulant_diagonal").unwrap();
        let mut net = trained(Some(operator));
        assert_eq!(net.current_spec().operators.len(), 2, "hidden layers hold the operator");
        let x = Mat::from_vec(3, 2, vec![0.1, -0.4, 1.0, 0.3, -0.7, 0.2]);
        let (_, found) = with_divergence(&mut net, &x, 0.3, &Silent).unwrap();
        for (i, found) in found.iter().enumerate() {
            let mut expected = 0.0;
            for d in 0..2 {
                let at = |by: f32| {
                    let mut near = x.clone();
                    *near.at_mut(i, d) += by;
                    f64::from(net.outputs(&with_time(&near, 0.3)).unwrap().at(i, d))
                };
                expected += (at(1e-2) - at(-1e-2)) / 2e-2;
            }
            assert!(
                (found - expected).abs() < 2e-2 * expected.abs().max(1.0),
                "{found}, {expected}"
            );
        }
        let (side, reach) = (60, 3.0_f32);
        let cell = 2.0 * reach / side as f32;
        let at = |k: usize| (k as f32 + 0.5) * cell - reach;
        let grid =
            Mat::from_fn(side * side, 2, |i, c| at(if c == 0 { i / side } else { i % side }));
        let nll = velocity_nll(&mut net, &grid, 20, &mut Silent).unwrap();
        let sum: f64 = nll.iter().map(|nll| (-nll).exp()).sum::<f64>() * f64::from(cell * cell);
        assert!((sum - 1.0).abs() < 0.05, "{sum}");
        let samples = velocity_samples(&net, 200, 20, RngKey::new(5), &Silent).unwrap();
        let far = (0..200).filter(|i| samples.at(*i, 0).hypot(samples.at(*i, 1)) > 1.6).count();
        assert!(far < 20, "{far} of 200 samples are far from the circles");
        let stopped = velocity_nll(&mut net, &grid, 20, &mut Stopped);
        assert!(matches!(stopped, Err(FlowError::Interrupted)), "{stopped:?}");
        let stopped = velocity_samples(&net, 200, 20, RngKey::new(5), &Stopped);
        assert!(matches!(stopped, Err(FlowError::Interrupted)), "{stopped:?}");
    }

    #[test]
    fn images_have_no_velocity() {
        let images = linwright_data::images::Images::new(
            linwright_data::images::ImageShape { height: 8, width: 8, channels: 1 },
            linwright_data::images::Pixels::Bytes(vec![0; 128]),
            None,
        );
        let examples = FlowExamples::images(images, std::path::Path::new("a"), None).unwrap();
        let error = velocity_examples(&examples, 4, RngKey::new(1)).unwrap_err().to_string();
        assert!(error.contains("images of 8 x 8 x 1; expected points"), "{error}");
        let mut net = Net::random(&spec(None).net(), RngKey::new(3)).unwrap();
        assert!(velocity_nll(&mut net, &Mat::zeros(1, 3), 2, &mut Silent).is_err());
    }
}
