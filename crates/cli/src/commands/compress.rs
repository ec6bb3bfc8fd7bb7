//! `linwright compress`: replace linear layers and save the model.

use super::{grouped, print, print_json, table};
use crate::args::Shared;
use crate::commands::eval::BosArg;
use crate::console::Console;
use crate::failure::{Failure, Kind};
use crate::source::{data_file, model_dir, open_model};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use linwright::compress::calibration::{Calibration, Split};
use linwright::compress::capture::Bounds;
use linwright::compress::fit_store::{Fingerprint, FitStore};
use linwright::compress::methods::{
    BlockHadamardMethod, DenseMethod, How, LowRankMethod, RotorMethod, Training,
};
use linwright::compress::pipeline::{Context, Edit, Edited, Plan, apply};
use linwright::compress::study::{self, RunDirectory, StudyError};
use linwright::compress::{MethodSpec, Monitor};
use linwright::measure::data::Corpus;
use linwright::model::Decoder;
use linwright::model::checkpoint::{Form, LoadedModel, SaveOptions, SavedModel, save};
use linwright::ops::{Role, Sites};
use linwright::tensor::dtype::DType;
use std::path::{Path, PathBuf};

/// Replace linear layers by cheaper ones fitted to calibration text, and save the model.
#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// A checkpoint directory, or `pocket` for the built-in model.
    model: String,
    /// What replaces the weights.
    #[arg(long, value_enum, default_value_t = MethodArg::LowRank)]
    method: MethodArg,
    /// Share of the parameters of the targeted layers that is kept (low rank).
    #[arg(long, conflicts_with = "rank")]
    keep: Option<f64>,
    /// Rank of the factors (low rank).
    #[arg(long)]
    rank: Option<usize>,
    /// Train low-rank factors instead of computing them.
    #[arg(long)]
    trained: bool,
    /// Passes over the samples, for trained methods.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Layers, in the order in which they are replaced: `3`, `3,5`, `0-7` [default: all].
    #[arg(long)]
    layers: Option<String>,
    /// Roles that are replaced [default: all linears of a layer].
    #[arg(long, value_delimiter = ',')]
    targets: Vec<RoleArg>,
    /// How the output projection heals when query, key or value are replaced and it is not.
    #[arg(long, value_enum, default_value_t = HealArg::Ridge)]
    heal: HealArg,
    /// Calibration text: a file, JSONL with a `text` field, or `pocket`. It should not be the text
    /// that the model is judged by.
    #[arg(long)]
    dataset: Option<String>,
    /// Calibration tokens, at most.
    #[arg(long, default_value_t = 40_000, alias = "num_tokens")]
    num_tokens: usize,
    /// Tokens in a calibration window.
    #[arg(long, default_value_t = 256, alias = "seq_len",
          value_parser = RangedU64ValueParser::<usize>::new().range(2..))]
    seq_len: usize,
    /// Whether calibration documents start with the beginning-of-sequence token.
    #[arg(long, value_enum, default_value_t = BosArg::Auto)]
    bos: BosArg,
    /// Where random starts come from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Directory to write.
    #[arg(short, long)]
    output: PathBuf,
    /// Dense weights, which any runtime loads, or operators by their parameters.
    #[arg(long, value_enum, default_value_t = FormArg::Native)]
    form: FormArg,
    /// Storage type of the weights [default: that of the model].
    #[arg(long, value_enum)]
    dtype: Option<DTypeArg>,
    /// Replace the directory if it exists.
    #[arg(long)]
    force: bool,
    /// Say what would be done, with parameters, memory and time, and stop.
    #[arg(long, alias = "dry_run")]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MethodArg {
    /// Two thin factors; with all targets and --keep, whitened SVD of the whole model.
    LowRank,
    /// A rotor network.
    Rotor,
    /// A block-diagonal map.
    BlockHadamard,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleArg {
    Query,
    Key,
    Value,
    Output,
    Gate,
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HealArg {
    /// Ridge regression in closed form.
    Ridge,
    /// Trained from a random start, as in the rotor paper.
    Trained,
    /// Not at all.
    None,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormArg {
    Dense,
    Native,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DTypeArg {
    F32,
    F16,
    Bf16,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Query => Self::Query,
            RoleArg::Key => Self::Key,
            RoleArg::Value => Self::Value,
            RoleArg::Output => Self::Output,
            RoleArg::Gate => Self::Gate,
            RoleArg::Up => Self::Up,
            RoleArg::Down => Self::Down,
        }
    }
}

/// Slots that read the same input and are therefore captured together, in the order of computation.
const GROUPS: [&[Role]; 4] = [
    &[Role::Query, Role::Key, Role::Value],
    &[Role::Output],
    &[Role::Gate, Role::Up],
    &[Role::Down],
];

pub(crate) fn run(args: &CompressArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    if args.output.symlink_metadata().is_ok() && !args.force {
        return Err(Failure::usage(format!("{} exists", args.output.display()))
            .hint("choose another directory or give --force"));
    }
    if matches!((args.form, args.method), (FormArg::Dense, MethodArg::Rotor)) {
        return Err(Failure::usage("a rotor network is not linear and has no dense form")
            .hint("give --form native"));
    }
    let loaded = open_model(&args.model, &mut console)?;
    let plan = plan(args, &loaded.decoder)?;
    plan.sites(&loaded.decoder)?;
    let calibration = calibration(args, &loaded)?;
    if args.dry_run {
        console.finish();
        return dry_run(&plan, &loaded.decoder, &calibration, shared);
    }
    let state = state_directory(&args.output)?;
    let fingerprint = study::plan_fingerprint(&plan, &loaded.hash, &calibration);
    let directory = open_state(&state, &fingerprint, args.force)?;
    let work = (&loaded, &plan, &calibration);
    let (edited, saved) = fit_and_save(args, work, &directory, &mut console)
        .map_err(|failure| tidy(&state, failure))?;
    remove_state(&state)?;
    let times = console.finish();
    let before = directory_bytes(&model_dir(&args.model)?);
    let summary = Summary::new(
        &edited,
        &loaded.decoder,
        (before, saved.bytes()),
        f64::from(saved.max_difference),
    );
    if shared.json {
        let stages: Vec<_> = times
            .iter()
            .map(|(stage, seconds)| serde_json::json!({"stage": stage, "seconds": seconds}))
            .collect();
        return print_json(&serde_json::json!({
            "output": args.output, "plan": plan, "summary": summary, "sites": edited.sites, "stages": stages,
        }));
    }
    print(&summary.render(&edited, &args.output))
}

fn fit_and_save(
    args: &CompressArgs,
    (loaded, plan, calibration): (&LoadedModel, &Plan, &Calibration),
    directory: &RunDirectory,
    console: &mut Console,
) -> Result<(Edited, SavedModel), Failure> {
    let store = FitStore::open(&directory.path().join("fits"))?;
    let context =
        Context { model_hash: &loaded.hash, bounds: Bounds::default(), store: Some(&store) };
    let edited = apply(&loaded.decoder, calibration, plan, &context, console)?;
    console.stage("saving and loading back");
    let mut options = SaveOptions::new(match args.form {
        FormArg::Dense => Form::Dense,
        FormArg::Native => Form::Native,
    });
    options.force = args.force;
    options.dtype = args.dtype.map(|dtype| match dtype {
        DTypeArg::F32 => DType::F32,
        DTypeArg::F16 => DType::F16,
        DTypeArg::Bf16 => DType::Bf16,
    });
    let saved = save(&edited.model, &loaded.source, &options, &args.output)?;
    Ok((edited, saved))
}

fn plan(args: &CompressArgs, model: &Decoder) -> Result<Plan, Failure> {
    let layers = match &args.layers {
        Some(text) => parse_layers(text)?,
        None => (0..model.config().layers).collect(),
    };
    let method = method(args)?;
    let targets: Vec<Role> = if args.targets.is_empty() {
        GROUPS.concat()
    } else {
        args.targets.iter().map(|&role| role.into()).collect()
    };
    let attention = GROUPS[0].iter().any(|role| targets.contains(role));
    let mut edits = Vec::new();
    for group in GROUPS {
        let roles: Vec<Role> =
            group.iter().copied().filter(|role| targets.contains(role)).collect();
        if !roles.is_empty() {
            edits.push(Edit { roles, method: method.clone() });
        } else if group == [Role::Output] && attention && args.heal != HealArg::None {
            let fit = if args.heal == HealArg::Trained { How::Trained } else { How::Closed };
            let heal = MethodSpec::Dense(DenseMethod { fit, ..DenseMethod::default() });
            edits.push(Edit { roles: vec![Role::Output], method: heal });
        }
    }
    Ok(Plan { layers, edits, seed: args.seed })
}

fn method(args: &CompressArgs) -> Result<MethodSpec, Failure> {
    let low_rank_only = |present: bool, flag: &str| {
        if present {
            Err(Failure::usage(format!("{flag} goes with --method low-rank")))
        } else {
            Ok(())
        }
    };
    let epochs = args.epochs;
    Ok(match args.method {
        MethodArg::LowRank => {
            if args.rank.is_none() && args.keep.is_none() {
                return Err(
                    Failure::usage("low rank needs a budget").hint("give --keep SHARE or --rank N")
                );
            }
            let fit = if args.trained { How::Trained } else { How::Closed };
            let training = Training { epochs, ..Training::default() };
            MethodSpec::LowRank(LowRankMethod { rank: args.rank, keep: args.keep, fit, training })
        }
        MethodArg::Rotor | MethodArg::BlockHadamard => {
            low_rank_only(args.rank.is_some(), "--rank")?;
            low_rank_only(args.keep.is_some(), "--keep")?;
            low_rank_only(args.trained, "--trained")?;
            if matches!(args.method, MethodArg::Rotor) {
                let mut method = RotorMethod::default();
                method.training.epochs = epochs;
                MethodSpec::Rotor(method)
            } else {
                let mut method = BlockHadamardMethod::default();
                method.training.epochs = epochs;
                MethodSpec::BlockHadamard(method)
            }
        }
    })
}

/// `3`, `3,5`, `0-7` and their mixtures.
fn parse_layers(text: &str) -> Result<Vec<usize>, Failure> {
    let wrong = || {
        Failure::usage(format!("--layers {text:?}: expected numbers and ranges such as 3,5 or 0-7"))
    };
    let mut layers = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        match part.split_once('-') {
            None => layers.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last || last > 100_000 {
                    return Err(wrong());
                }
                layers.extend(first..=last);
            }
        }
    }
    let mut seen = layers.clone();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != layers.len() {
        return Err(Failure::usage(format!("--layers {text:?} names a layer twice")));
    }
    Ok(layers)
}

fn calibration(args: &CompressArgs, loaded: &LoadedModel) -> Result<Calibration, Failure> {
    let dataset = args
        .dataset
        .as_deref()
        .or((args.model == crate::source::POCKET).then_some(crate::source::POCKET));
    let dataset = dataset.ok_or_else(|| {
        Failure::usage("no calibration text")
            .hint("give --dataset FILE: a text or JSONL file like what the model is used on")
    })?;
    let corpus = Corpus::open(&data_file(dataset, "calibration.jsonl")?)?;
    let tokenizer = loaded
        .tokenizer
        .as_ref()
        .ok_or_else(|| Failure::general(format!("{} has no tokenizer.json", args.model)))?;
    let mut documents = Vec::new();
    let mut tokens = 0;
    for document in &corpus.documents {
        let encoded = tokenizer.encode_document(&document.text, args.bos.into())?;
        tokens += encoded.len();
        documents.push(encoded);
        if tokens >= args.num_tokens {
            break;
        }
    }
    let calibration =
        Calibration::new(&documents, args.seq_len, args.num_tokens, Split::Contiguous)?;
    calibration.check_positions(loaded.decoder.config().max_positions)?;
    Ok(calibration)
}

/// Where fits of an unfinished job are kept: beside the output, under a hidden name.
fn state_directory(output: &Path) -> Result<PathBuf, Failure> {
    let name = output.file_name().ok_or_else(|| {
        Failure::usage(format!("--output {} names no directory", output.display()))
    })?;
    Ok(output.with_file_name(format!(".{}.linwright-state", name.to_string_lossy())))
}

/// Opens the directory of an unfinished job. What another job left there is dropped with `force`.
fn open_state(
    state: &Path,
    fingerprint: &Fingerprint,
    force: bool,
) -> Result<RunDirectory, Failure> {
    match RunDirectory::open(state, fingerprint) {
        Err(StudyError::Fingerprint { .. }) if force => {
            remove_state(state)?;
            Ok(RunDirectory::open(state, fingerprint)?)
        }
        Err(StudyError::Fingerprint { .. }) => Err(Failure::new(
            Kind::Fingerprint,
            format!(
                "{} holds the unfinished work of another command for this output",
                state.display()
            ),
        )
        .hint("give that same command again to finish it, or --force to drop it and begin anew")),
        other => Ok(other?),
    }
}

/// After a failure: removes a state directory without a finished fit, and tells of one with fits.
fn tidy(state: &Path, failure: Failure) -> Failure {
    if failure.is_resumable() {
        return failure;
    }
    let fits = std::fs::read_dir(state.join("fits"));
    if fits.is_ok_and(|mut fits| fits.next().is_some()) {
        return failure.hint(format!(
            "the fits so far are kept in {}; the same command goes on from there",
            state.display()
        ));
    }
    // The failure itself is what the user must hear of.
    drop(std::fs::remove_dir_all(state));
    failure
}

fn remove_state(state: &Path) -> Result<(), Failure> {
    std::fs::remove_dir_all(state)
        .map_err(|error| Failure::io(&state.display().to_string(), &error))
}

fn directory_bytes(path: &Path) -> u64 {
    let weights = |name: &str| name.ends_with(".safetensors");
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| weights(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

#[derive(serde::Serialize)]
struct Summary {
    targeted_dense: u64,
    targeted: u64,
    keep: f64,
    model_dense: u64,
    model: u64,
    bytes_before: u64,
    bytes: u64,
    max_logit_difference: f64,
}

impl Summary {
    fn new(
        edited: &Edited,
        original: &Decoder,
        (bytes_before, bytes): (u64, u64),
        difference: f64,
    ) -> Self {
        let sum = |model: &Decoder| {
            model.slots().iter().map(|slot| slot.parameters() as u64).sum::<u64>()
        };
        let targeted_dense: u64 =
            edited.sites.iter().map(|site| site.dense_parameters as u64).sum();
        let targeted: u64 = edited.sites.iter().map(|site| site.parameters as u64).sum();
        let model_dense = original.config().parameters();
        Self {
            targeted_dense,
            targeted,
            keep: targeted as f64 / targeted_dense.max(1) as f64,
            model_dense,
            model: model_dense + sum(&edited.model) - sum(original),
            bytes_before,
            bytes,
            max_logit_difference: difference,
        }
    }

    fn render(&self, edited: &Edited, output: &Path) -> String {
        let rows: Vec<Vec<String>> = edited
            .sites
            .iter()
            .map(|site| {
                vec![
                    site.site.to_string(),
                    site.method.clone(),
                    grouped(site.dense_parameters as u64),
                    grouped(site.parameters as u64),
                    format!("{:.2e}", site.fit.relative_error),
                ]
            })
            .collect();
        format!(
            "{}\n\nreplaced layers: {} -> {} parameters (keep {:.4})\nmodel: {} -> {} parameters, {} -> {} bytes\nwrote {}; loaded back, logits differ by at most {:.1e}",
            table(&["site", "method", "dense", "now", "fit error"], &rows),
            grouped(self.targeted_dense),
            grouped(self.targeted),
            self.keep,
            grouped(self.model_dense),
            grouped(self.model),
            grouped(self.bytes_before),
            grouped(self.bytes),
            output.display(),
            self.max_logit_difference,
        )
    }
}

fn dry_run(
    plan: &Plan,
    model: &Decoder,
    calibration: &Calibration,
    shared: &Shared,
) -> Result<(), Failure> {
    let estimate = study::estimate(plan, model, calibration)?;
    if shared.json {
        return print_json(&serde_json::json!({"plan": plan, "estimate": estimate}));
    }
    let rows: Vec<Vec<String>> = estimate
        .sites
        .iter()
        .map(|site| {
            vec![
                site.site.to_string(),
                site.method.clone(),
                grouped(site.dense_parameters),
                grouped(site.parameters),
            ]
        })
        .collect();
    print(&format!(
        "{}\n\nparameters of these layers: {} -> {}\nmemory: about {} MB\ntime: about {:.0} s",
        table(&["site", "method", "dense", "then"], &rows),
        grouped(estimate.targeted_dense),
        grouped(estimate.targeted),
        grouped(estimate.memory_bytes >> 20),
        estimate.seconds,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_numbers_and_ranges_without_repeats() {
        assert_eq!(parse_layers("3,5,0-2").expect("parses"), [3, 5, 0, 1, 2]);
        for text in ["", "a", "3-", "5-3", "1,1", "0-2,1", "-1", "0-99999999"] {
            assert!(parse_layers(text).is_err(), "{text:?}");
        }
    }
}
