//! Times training steps of a flow for `tools/bench/flow.py`, which runs torch in turns with it:
//! prints `ready`, then the milliseconds of one step for every line that it reads.
//!
//! `cargo run --release -p linwright-flow --example flow_step -- [side] [channels] [levels] [steps]
//! [hidden] [batch] [threads]`

use linwright_data::images::{ImageShape, Images, Pixels};
use linwright_flow::{Flow, FlowExamples, FlowPlan, FlowSpec, FlowTraining, MixSpec};
use linwright_tensor::{RngKey, parallel};
use linwright_train::{Optimizer, OptimizerSettings, Problem};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;
use std::time::Instant;

/// Steps before the first time.
const WARM: u64 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = [8, 3, 2, 2, 8, 2, 0];
    for (number, given) in numbers.iter_mut().zip(std::env::args().skip(1)) {
        *number = given.parse()?;
    }
    let [side, channels, levels, steps, hidden, batch, threads] = numbers;
    parallel::set_threads(threads)?;
    let (key, shape) = (RngKey::new(1), ImageShape { height: side, width: side, channels });
    let mut stream = key.stream();
    let pixels = (0..batch * shape.numbers()).map(|_| stream.below(256) as u8).collect();
    let images = Images::new(shape, Pixels::Bytes(pixels), None);
    let examples = FlowExamples::images(images, Path::new("drawn"), Some([side, side]))?;
    let layer = MixSpec::parse("cd:2")?;
    let spec = FlowSpec {
        levels,
        steps,
        hidden,
        ..FlowSpec::for_data(examples.extent(), examples.values(), layer)
    };
    let mut flow = Flow::random(&spec, key)?;
    let all: Vec<u32> = (0..batch as u32).collect();
    let plan = FlowPlan { training: all.clone(), held_out: all, batch, key };
    let mut problem = FlowTraining::new(&mut flow, &examples, plan)?;
    let (mut optimizer, settings) = (Optimizer::default(), OptimizerSettings::default());
    let mut step = 0;
    let mut one = || -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        problem.step(step).map_err(|error| error.to_string())?;
        step += 1;
        optimizer.update(&settings, 1e-4, step, problem.slices());
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
