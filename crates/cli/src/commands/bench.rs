//! `linwright bench`: speed of operators and models on this machine.

use super::figures::Figures;
use super::{plain, print, print_json, table};
use crate::args::{Shared, one_of, within};
use crate::console::Console;
use crate::face::Face;
use crate::failure::{Failure, Kind, message_of};
use clap::{Args, Subcommand};
use linwright::bench::report::{operator_growth, remarks, times};
use linwright::bench::{
    Dtype, Entry, ModelPlan, OperatorBench, OperatorPlan, Pass, Subject, crossovers,
    forward_peak_bytes, run as run_bench, standard, time_model, to_csv,
};
use linwright::compress::form;
use linwright::jobs::source::{OpenModel, open_model_as};
use linwright::jobs::{PrecisionOptions, bounds};
use linwright::measure::timing::MedianRange;
use linwright::ops::{Network, OpSpec, Shape};
use linwright::run::Monitor;
use linwright::run::memory::{self, peak_resident_bytes};
use linwright::tensor::parallel;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Feature counts of `--growth`.
const GROWTH: [usize; 9] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];
/// Default number of features.
const USUAL: usize = 2048;
/// Default length of a model's sequence, in tokens.
const TOKENS: usize = 512;
/// Largest number of rounds of a timing.
const ROUNDS: usize = bounds::REPEATS as usize;
/// Name of the files of the growth figure, without extension.
const FIGURE: &str = "operator-growth";

/// Time operators and models on this machine.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Operators(OperatorsArgs),
    Model(ModelArgs),
    #[command(hide = true)]
    ForwardMemory(MemoryArgs),
}

/// Time operators against the dense layer of the same shape, in the same run.
///
/// Before timing, each operator's output is checked against its dense weight, or against the same
/// operator in f64 if it is not linear or larger than 2048 x 2048; an operator with wrong output is
/// not timed. Each round runs all operators one after another. Backward includes the gradient of
/// the input; a training step (forward, mean squared error, backward, Adam) does not.
#[derive(Debug, Args)]
struct OperatorsArgs {
    /// Operators: kinds (`linwright ls operators`) or specifications as in recipes, `{kind:
    /// block_hadamard, depth: 3}`. A bare kind has its default options, except that low_rank has
    /// rank 64 and block_hadamard depth 2 [default: all kinds].
    #[arg(value_name = "KIND")]
    operators: Vec<String>,
    /// Shapes, a list: `2048` is square, `512x2048` has 512 output and 2048 input features
    /// [default: 2048].
    #[arg(long, value_delimiter = ',', value_parser = shape)]
    dims: Vec<Shape>,
    /// Number of rows (tokens) of the input.
    #[arg(long, default_value_t = 4096, value_parser = within(1..=bounds::BATCH))]
    rows: usize,
    /// Number of rounds; the median is reported.
    #[arg(long, default_value_t = 5, value_parser = within(1..=ROUNDS))]
    rounds: usize,
    /// Passes to time, a list [default: all that exist for the data type].
    #[arg(long, value_delimiter = ',', value_parser = one_of(Pass::ALL, Pass::name))]
    passes: Vec<Pass>,
    /// Data type. Training steps exist only in f32, the type of Adam's moments.
    #[arg(long, default_value = "f32", value_parser = one_of(Dtype::ALL, Dtype::name))]
    dtype: Dtype,
    /// Seed of the random parameters and inputs.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Do not measure the peak memory of forward passes.
    #[arg(long, alias = "no_memory")]
    no_memory: bool,
    /// Time forward passes against the number of features, by default 64, 128, ... 16384, and
    /// write a figure to the directory of --out.
    #[arg(long, requires = "out")]
    growth: bool,
    /// Directory for operator-growth.svg, .csv and .json.
    #[arg(short, long, requires = "growth")]
    out: Option<PathBuf>,
    /// Overwrite existing figures.
    #[arg(long, requires = "out")]
    force: bool,
}

/// Time a model: the logits of a sequence, and generation after it.
///
/// The tokens of the sequence are fixed; every round computes all of its logits. Loading is timed
/// too; on Linux the peak resident set of the process is reported.
#[derive(Debug, Args)]
struct ModelArgs {
    /// A checkpoint directory, a `.gguf` file, or `pocket` for the built-in model.
    model: String,
    /// Length of the sequence in tokens [default: 512, or as many as leave room for the new
    /// tokens].
    #[arg(long, value_parser = within(1..=bounds::POSITIONS))]
    tokens: Option<usize>,
    /// Number of tokens to generate after it; with fewer than 2, generation is not timed.
    #[arg(long, alias = "new_tokens", default_value_t = 0,
          value_parser = within(0..=bounds::POSITIONS))]
    new_tokens: usize,
    /// Number of rounds; the median is reported. 0 times only the loading.
    #[arg(long, default_value_t = 5, value_parser = within(0..=ROUNDS))]
    rounds: usize,
    #[command(flatten)]
    precision: Face<PrecisionOptions>,
}

/// One forward pass in a separate process, to measure its memory.
#[derive(Debug, Args)]
struct MemoryArgs {
    operator: String,
    #[arg(long, value_parser = shape)]
    dims: Shape,
    #[arg(long, value_parser = within(1..=bounds::BATCH))]
    rows: usize,
    #[arg(long)]
    seed: u64,
    #[arg(long, value_parser = one_of(Dtype::ALL, Dtype::name))]
    dtype: Dtype,
}

fn shape(text: &str) -> Result<Shape, String> {
    let number = |text: &str| match text.parse::<usize>() {
        Ok(0) => Err("features are at least 1".to_owned()),
        Ok(count) if count <= bounds::FEATURES => Ok(count),
        Ok(count) => Err(format!("{count} features, expected at most {}", bounds::FEATURES)),
        Err(_) => {
            Err(format!("`{text}` is not a shape; expected 2048, or 512x2048 for 512 out, 2048 in"))
        }
    };
    match text.split_once('x') {
        Some((out, inp)) => Ok(Shape { out: number(out)?, inp: number(inp)? }),
        None => number(text).map(|count| Shape { out: count, inp: count }),
    }
}

pub(crate) fn run(args: &BenchArgs, shared: &Shared) -> Result<(), Failure> {
    match &args.what {
        What::Operators(args) => operators(args, shared),
        What::Model(args) => model(args, shared),
        What::ForwardMemory(args) => {
            let subject = subject(&args.operator)?;
            let MemoryArgs { dims, rows, seed, dtype, .. } = *args;
            let peak = forward_peak_bytes(&subject, dims, rows, seed, dtype)?;
            print_json(&json!({ "forward_peak_bytes": peak }))
        }
    }
}

fn model(args: &ModelArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let began = Instant::now();
    let OpenModel { loaded, place } =
        open_model_as(&args.model, args.precision.dtype, &mut console.session())?;
    let load_seconds = began.elapsed().as_secs_f64();
    let decoder = &loaded.decoder;
    if args.rounds > 0 && !(decoder.has_head() && decoder.config().is_causal()) {
        return Err(Failure::usage(format!("{} is not a causal language model", args.model)));
    }
    console.step(&format!("timing {}", args.model));
    let ModelArgs { new_tokens, rounds, .. } = *args;
    // The last generated token is not fed back.
    let room = decoder.config().max_positions.saturating_sub(new_tokens.saturating_sub(1));
    let tokens = args.tokens.unwrap_or(TOKENS.min(room.max(1)));
    let timed = (rounds > 0).then(|| time_model(decoder, ModelPlan { tokens, new_tokens, rounds }));
    let timed = timed.transpose()?;
    console.finish();
    let held = decoder.held_in_half().map_or("f32", |(_, half)| half.name());
    let peak = peak_resident_bytes();
    if shared.json {
        return print_json(&json!({
            "model": place.name, "model_hash": loaded.hash, "held": held,
            "parameters": decoder.parameters(), "load_seconds": load_seconds,
            "peak_resident_bytes": peak, "timed": timed,
        }));
    }
    let mut rows = vec![("loading", "s", MedianRange::of(&[load_seconds]))];
    if let Some(timed) = &timed {
        let passes = [
            ("forward", "ms", timed.forward_milliseconds),
            ("decode", "tokens/s", timed.decode_tokens_per_second),
            ("generate", "tokens/s", timed.generate_tokens_per_second),
        ];
        rows.extend(passes.into_iter().filter_map(|(pass, unit, s)| Some((pass, unit, s?))));
    }
    let cells = |(pass, unit, spread): (&str, &str, MedianRange)| {
        let numbers = [spread.median, spread.min, spread.max].map(|value| format!("{value:.4}"));
        [pass.to_owned(), unit.to_owned()].into_iter().chain(numbers).collect()
    };
    let rows: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
    let peak = peak.map_or("unknown".to_owned(), |bytes| format!("{:.0}", bytes as f64 / 1e6));
    let header = ["pass", "unit", "median", "min", "max"];
    print(&format!("{}\nheld in {held}, peak resident set {peak} MB", table(&header, &rows)))
}

fn operators(args: &OperatorsArgs, shared: &Shared) -> Result<(), Failure> {
    let kinds = OpSpec::KINDS.iter().map(ToString::to_string);
    let named = if args.operators.is_empty() { kinds.collect() } else { args.operators.clone() };
    let square = |dims: &[usize]| dims.iter().map(|&d| Shape { out: d, inp: d }).collect();
    let plan = OperatorPlan {
        subjects: named.iter().map(|text| subject(text)).collect::<Result<_, _>>()?,
        shapes: match (args.dims.is_empty(), args.growth) {
            (false, _) => args.dims.clone(),
            (true, true) => square(&GROWTH),
            (true, false) => square(&[USUAL]),
        },
        passes: match (args.passes.is_empty(), args.growth) {
            (false, _) => args.passes.clone(),
            (true, true) => vec![Pass::Forward],
            (true, false) => args.dtype.passes().collect(),
        },
        dtype: args.dtype,
        rows: args.rows,
        rounds: args.rounds,
        seed: args.seed,
    };
    plan.shapes.iter().try_for_each(|shape| check_memory(*shape, plan.rows))?;
    let folder = args.out.as_deref();
    let figures = folder.map(|folder| Figures { name: FIGURE, folder, force: args.force });
    figures.as_ref().map_or(Ok(()), Figures::check)?;
    let mut console = Console::new(shared);
    let mut bench = timed(&plan, &mut console)?;
    if !args.no_memory && !args.growth {
        console.step("measuring memory");
        for entry in &mut bench.results {
            if console.interrupted() {
                return Err(Failure::new(Kind::Interrupted, "interrupted"));
            }
            entry.forward_peak_bytes = peak_of(entry, &plan)?;
        }
    }
    console.finish();
    if let Some(figures) = &figures {
        figures.write(texts(&bench)?)?;
    }
    if shared.json {
        return print_json(&bench);
    }
    print(&shown(&bench))?;
    args.out.as_ref().map_or(Ok(()), |out| print(&format!("wrote {FIGURE}.* to {}", out.display())))
}

/// Rejects a shape whose dense weight, inputs and outputs do not fit in memory.
fn check_memory(shape: Shape, rows: usize) -> Result<(), Failure> {
    let [out, inp, rows] = [shape.out, shape.inp, rows].map(|n| n as u64);
    let weight = memory::product(&[out, inp]);
    let numbers = weight.saturating_add(memory::product(&[rows, out + inp]));
    let what = || format!("a dense layer of {out} x {inp} features on {rows} rows");
    memory::check(what, &[numbers, size_of::<f32>() as u64])
        .map_err(|error| Failure::from(error).hint("give smaller --dims, or fewer --rows"))
}

fn timed(plan: &OperatorPlan, console: &mut Console) -> Result<OperatorBench, Failure> {
    Ok(run_bench(plan, console)?)
}

/// Parses a kind with its standard options, or a specification.
fn subject(text: &str) -> Result<Subject, Failure> {
    if let Some(spec) = standard(&text.replace('-', "_")) {
        return Ok(Subject::new(spec));
    }
    let spec = form::operator(text).map_err(|error| Failure::usage(message_of(&error)))?;
    Ok(Subject::new(spec))
}

/// Measures in a separate process, since memory held by this one from the timing would hide the
/// need of a pass; its allocator uses no huge pages, since touching one counts two megabytes.
fn peak_of(entry: &Entry, plan: &OperatorPlan) -> Result<Option<u64>, Failure> {
    let failed = |why: String| Failure::general(format!("memory of {}: {why}", entry.label));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let spec = serde_json::to_string(&entry.spec).map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .args(["bench", "forward-memory", &spec])
        .args(["--dims", &format!("{}x{}", entry.shape.out, entry.shape.inp)])
        .args(["--rows", &plan.rows.to_string(), "--seed", &plan.seed.to_string()])
        .args(["--dtype", plan.dtype.name()])
        .env("MIMALLOC_ALLOW_THP", "0")
        .args(["--threads", &parallel::threads().to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let found: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(found["forward_peak_bytes"].as_u64())
}

/// The figure, its numbers as a table, and everything as JSON.
fn texts(bench: &OperatorBench) -> Result<[String; 3], Failure> {
    let svg = operator_growth(bench)?;
    let value = json!({ "bench": bench, "crossovers": crossovers(bench) });
    let text = serde_json::to_string_pretty(&value)
        .map_err(|error| Failure::general(format!("cannot write the figures as JSON: {error}")))?;
    Ok([svg, to_csv(bench), text + "\n"])
}

/// Times, then skipped entries, and the machine.
fn shown(bench: &OperatorBench) -> String {
    [vec![plain(&times(bench))], remarks(bench)].concat().join("\n")
}
