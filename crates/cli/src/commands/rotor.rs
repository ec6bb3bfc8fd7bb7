//! `linwright rotor`: experiments on rotors.

use super::figures::Figures;
use super::{plain, print, print_json};
use crate::args::{Shared, within};
use crate::console::Console;
use crate::failure::Failure;
use clap::{Args, Subcommand};
use linwright::bench::convergence::report::{drawn, rotor_convergence, tables};
use linwright::bench::convergence::{Convergence, ConvergencePlan, run as run_experiment};
use linwright::jobs::bounds;
use linwright::run::Monitor;
use std::path::PathBuf;

/// Name of the written files, without extension.
const FIGURE: &str = "rotor-convergence";

/// Experiments on rotors.
#[derive(Debug, Args)]
pub(crate) struct RotorArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Convergence(ConvergenceArgs),
}

/// Measure the convergence of the rotor paper's power iteration, and its distance from the exact
/// rotor.
///
/// First the experiment of its appendix D: iterations for the first plane while one rotor is
/// trained to match another, warm-started from the previous step. Then the errors of rotor and
/// derivative after fixed numbers of iterations, for random bivectors and for equal or nearly equal
/// angles.
#[derive(Debug, Args)]
struct ConvergenceArgs {
    /// Features, powers of two from 16 to 4096: a list, or a range such as 64..4096.
    #[arg(long, default_value = "64..4096")]
    dims: String,
    /// Number of random bivectors per size.
    #[arg(long, default_value_t = 50, value_parser = within(1..=bounds::REPEATS as usize))]
    seeds: usize,
    /// Seed of the random bivectors.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Directory for rotor-convergence.svg, .csv and .json.
    #[arg(short, long)]
    out: Option<PathBuf>,
    /// Overwrite existing figures.
    #[arg(long, requires = "out")]
    force: bool,
}

pub(crate) fn run(args: &RotorArgs, shared: &Shared) -> Result<(), Failure> {
    let What::Convergence(args) = &args.what;
    let plan = ConvergencePlan {
        generators: generators(&args.dims)?,
        repeats: args.seeds,
        seed: args.seed,
    };
    let folder = args.out.as_deref();
    let figures = folder.map(|folder| Figures { name: FIGURE, folder, force: args.force });
    figures.as_ref().map_or(Ok(()), Figures::check)?;
    let mut console = Console::new(shared);
    let found = computed(&plan, &mut console)?;
    console.finish();
    if let Some(figures) = &figures {
        figures.write(texts(&found)?)?;
    }
    if shared.json {
        return print_json(&found);
    }
    print(&shown(&found))?;
    args.out.as_ref().map_or(Ok(()), |out| print(&format!("wrote {FIGURE}.* to {}", out.display())))
}

/// Parses powers of two, as exponents.
fn generators(text: &str) -> Result<Vec<usize>, Failure> {
    let exponent = |text: &str| {
        let dim: Option<usize> = text.trim().parse().ok();
        let power = dim.filter(|dim| dim.is_power_of_two()).map(|dim| dim.ilog2() as usize);
        power.ok_or_else(|| {
            Failure::usage(format!(
                "--dims: `{}` is not a power of two",
                linwright::run::shown(text)
            ))
            .hint("write a list such as 64,256 or a range such as 64..4096")
        })
    };
    match text.split_once("..") {
        Some((from, to)) => Ok((exponent(from)?..=exponent(to)?).collect()),
        None => text.split(',').map(exponent).collect(),
    }
}

fn computed(plan: &ConvergencePlan, console: &mut Console) -> Result<Convergence, Failure> {
    Ok(run_experiment(plan, console)?)
}

/// The figure, its numbers as a table, and everything as JSON.
fn texts(found: &Convergence) -> Result<[String; 3], Failure> {
    let svg = rotor_convergence(found)?;
    let json = serde_json::to_string_pretty(found)
        .map_err(|error| Failure::general(format!("cannot write the result as JSON: {error}")))?;
    Ok([svg, found.to_csv(), json + "\n"])
}

fn shown(found: &Convergence) -> String {
    let [training, accuracy] = tables(found).map(|table| plain(&table));
    format!("{training}\n\n{accuracy}\n{}", drawn(found))
}
