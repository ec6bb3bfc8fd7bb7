//! Times training steps of an MLP for `tools/bench/mlp_step.py`, which runs torch in turns with it:
//! prints `ready`, then the milliseconds of one step for every line that it reads.
//!
//! `cargo run --release -p linwright-nets --example mlp_step -- [width] [layers] [batch] [threads]`

use linwright_nets::{Labelled, Loss, Net, NetSpec, NetTraining, Targets, TrainingPlan};
use linwright_tensor::{Mat, RngKey, parallel};
use linwright_train::{Optimizer, OptimizerSettings, Problem};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

/// Outputs of the last layer.
const CLASSES: usize = 10;

/// Steps before the first time.
const WARM: u64 = 3;

fn spec(width: usize, layers: usize) -> Result<NetSpec, Box<dyn Error>> {
    let hidden: String =
        (0..layers).map(|i| format!("{{linear: {{name: l{i}, out: {width}}}}}, relu, ")).collect();
    let head = format!("{{linear: {{name: head, out: {CLASSES}}}}}");
    let text = format!("{{input: {{channels: {width}}}, layers: [{hidden}{head}]}}");
    Ok(serde_saphyr::from_str(&text)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = [2048, 4, 256, 0];
    for (number, given) in numbers.iter_mut().zip(std::env::args().skip(1)) {
        *number = given.parse()?;
    }
    let [width, layers, batch, threads] = numbers;
    parallel::set_threads(threads)?;
    let key = RngKey::new(1);
    let rows = Mat::from_vec(batch, width, key.stream().normals(batch * width, 1.0));
    let classes = (0..batch as u32).map(|i| i % CLASSES as u32).collect();
    let examples = Labelled::new(rows, 1, Targets::Classes(classes))?;
    let mut net = Net::random(&spec(width, layers)?, key)?;
    let plan = TrainingPlan { loss: Loss::CrossEntropy, batch, key };
    let mut problem = NetTraining::new(&mut net, &examples, &examples, plan)?;
    let (mut optimizer, settings) = (Optimizer::default(), OptimizerSettings::default());
    let mut step = 0;
    let mut one = || -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        problem.step(step).map_err(|error| error.to_string())?;
        step += 1;
        optimizer.update(&settings, 1e-3, step, problem.slices());
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    for _ in 0..WARM {
        one()?;
    }
    let mut out = stdout();
    writeln!(out, "ready")?;
    for line in stdin().lock().lines() {
        line?;
        writeln!(out, "{}", one()?)?;
        out.flush()?;
    }
    Ok(())
}
