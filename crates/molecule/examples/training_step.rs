//! Times training steps of a TensorNet for `tools/bench/tensornet_step.py`, which runs torchmd-net
//! in turns with it: prints `ready`, then the milliseconds of one step and its loss for every line
//! that it reads. A step is neighbours, loss of energies and forces, gradients of all parameters,
//! and Adam.
//!
//! `cargo run --release -p linwright-molecule --example training_step -- CHECKPOINT XYZ [threads]`

use linwright_molecule::training::{LossKind, TensorNetTraining, TrainingPlan};
use linwright_molecule::{LabelKeys, MoleculeModel, read_xyz};
use linwright_tensor::{RngKey, parallel};
use linwright_train::{Optimizer, OptimizerSettings, Problem};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;
use std::time::Instant;

/// That of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Step size of Adam.
const RATE: f64 = 1e-4;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [checkpoint, structures, rest @ ..] = paths.as_slice() else {
        return Err("expected CHECKPOINT XYZ [threads]".into());
    };
    let threads = rest.first().map_or(Ok(1), |given| given.to_string_lossy().parse())?;
    parallel::set_threads(threads)?;
    let mut network = MoleculeModel::open(checkpoint)?.network.cast::<f32>()?;
    let structures = read_xyz(structures, &LabelKeys::default())?;
    let plan = TrainingPlan {
        energy_weight: 0.5,
        force_weight: 0.5,
        loss: LossKind::Square,
        batch: structures.len(),
        key: RngKey::new(1),
    };
    let mut problem = TensorNetTraining::new(&mut network, &structures, &structures, plan)?;
    let (mut optimizer, settings) = (Optimizer::default(), OptimizerSettings::default());
    let mut step = 0;
    let mut one = || -> Result<(f64, f64), Box<dyn Error>> {
        let start = Instant::now();
        let loss = problem.step(step).map_err(|error| error.to_string())?;
        step += 1;
        optimizer.update(&settings, RATE, step, problem.slices());
        Ok((start.elapsed().as_secs_f64() * 1e3, loss))
    };
    let mut out = stdout();
    writeln!(out, "ready")?;
    for line in stdin().lock().lines() {
        line?;
        let (milliseconds, loss) = one()?;
        writeln!(out, "{milliseconds} {loss}")?;
        out.flush()?;
    }
    Ok(())
}
