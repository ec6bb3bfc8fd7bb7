//! `linwright compress`: replace linear layers and save the model.

pub(super) mod plan;
mod state;
mod summary;

use super::form::{self, Saving};
use super::tasks::{Judged, Tasks, before_and_after, check_tasks};
use super::{print, print_json};
use crate::args::{AnyDash, Shared, one_of, role_of};
use crate::console::Console;
use crate::face::Face;
use crate::failure::Failure;
use crate::outputs;
use crate::source::{OpenModel, open_model, text_file};
use clap::builder::{EnumValueParser, PossibleValue, RangedU64ValueParser};
use clap::{Args, ValueEnum};
use linwright::compress::fit_store::FitStore;
use linwright::compress::pipeline::{Context, Edited, Plan, SiteOutcome, apply};
use linwright::compress::study;
use linwright::data::Corpus;
use linwright::evaluate::{Task, tokens_per_second};
use linwright::jobs::{EvaluationOptions, SavedForm};
use linwright::measure::calibration::{Calibration, Split};
use linwright::measure::capture::Bounds;
use linwright::model::Transformer;
use linwright::model::checkpoint::LoadedModel;
use linwright::model::checkpoint::export::Exported;
use linwright::ops::{Op, Role, SiteId, Sites};
use linwright::run::{Monitor, RunDirectory};
use linwright::tensor::dtype::DType;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use summary::Summary;

/// Replace linear layers by smaller ones fitted to calibration text, and save the model.
#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// A checkpoint directory, `pocket` for the built-in model, or `owner/name[@revision]` on the
    /// hub.
    model: String,
    /// Method of replacement [default: low_rank, or structured with --operator].
    #[arg(long, value_parser = AnyDash(EnumValueParser::<MethodArg>::new()))]
    method: Option<MethodArg>,
    /// Operator for --method structured: a kind (`linwright ls operators`) or a specification as in
    /// recipes, `{kind: diagonal_low_rank, rank: 4}`.
    #[arg(long, value_name = "KIND|SPEC")]
    operator: Option<String>,
    /// Share of parameters kept in the targeted layers. A method may only have some sizes: the
    /// nearest is used, and --dry-run shows it; low rank never keeps more than this share.
    #[arg(long, conflicts_with = "rank")]
    keep: Option<f64>,
    /// Rank of the factors (low_rank).
    #[arg(long)]
    rank: Option<usize>,
    /// Train low-rank factors instead of computing them in closed form.
    #[arg(long)]
    trained: bool,
    /// Epochs over the calibration samples, for trained methods.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Layers to replace, in this order: `3`, `3,5`, `0-7` [default: all].
    #[arg(long)]
    layers: Option<String>,
    /// Roles to replace [default: all linear layers of a transformer layer].
    #[arg(long, value_delimiter = ',', value_parser = role_of(&plan::ROLES))]
    targets: Vec<Role>,
    /// How to refit the output projection after query, key or value were replaced and it was not.
    #[arg(long, value_enum, default_value_t = HealArg::Ridge)]
    heal: HealArg,
    /// Calibration text: a file, rows with a `text` field as for --text, or `pocket`. It should not
    /// overlap with the evaluation text.
    #[arg(long)]
    dataset: Option<String>,
    /// Largest number of calibration tokens.
    #[arg(long, default_value_t = 40_000, alias = "num_tokens")]
    num_tokens: usize,
    /// Length of a calibration window, in tokens.
    #[arg(long, default_value_t = 256, alias = "seq_len",
          value_parser = RangedU64ValueParser::<usize>::new().range(2..))]
    seq_len: usize,
    /// Seed of random initial parameters.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Evaluation before and after, if any task is given; `--bos` applies to calibration documents
    /// as well.
    #[command(flatten)]
    asked: Face<EvaluationOptions>,
    /// Output directory.
    #[arg(short, long)]
    output: PathBuf,
    /// Form of the saved model; `auto` is the one that most runtimes load and that is no larger
    /// than necessary.
    #[arg(long, value_parser = one_of(&SavedForm::EDITED, SavedForm::name), default_value = "auto")]
    form: SavedForm,
    /// Storage type of the weights [default: that of the model].
    #[arg(long, value_enum)]
    dtype: Option<DTypeArg>,
    /// Replace the directory if it exists.
    #[arg(long)]
    force: bool,
    /// Print the plan with its parameters, memory and time, and stop.
    #[arg(long, alias = "dry_run")]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug)]
enum MethodArg {
    LowRank,
    Rotor,
    BlockHadamard,
    Structured,
    /// `structured`, with an operator of this kind and its default options.
    Kind(&'static str),
}

impl MethodArg {
    fn name_and_help(self) -> (&'static str, String) {
        let (name, help) = match self {
            Self::LowRank => (
                "low_rank",
                "Two low-rank factors; with all targets and --keep, whitened SVD of the whole model",
            ),
            Self::Rotor => ("rotor", "A rotor network"),
            Self::BlockHadamard => {
                ("block_hadamard", "A block-diagonal map: block-Hadamard of depth 1")
            }
            Self::Structured => ("structured", "Any linear operator: give --operator"),
            Self::Kind(kind) => return (kind, format!("Structured, with --operator {kind}")),
        };
        (name, help.to_owned())
    }
}

impl ValueEnum for MethodArg {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<MethodArg>> = LazyLock::new(|| {
            let own = [
                MethodArg::LowRank,
                MethodArg::Rotor,
                MethodArg::BlockHadamard,
                MethodArg::Structured,
            ];
            let kinds = plan::kinds().into_iter().map(MethodArg::Kind);
            own.into_iter().chain(kinds).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = self.name_and_help();
        Some(PossibleValue::new(name).help(help))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HealArg {
    /// Ridge regression in closed form.
    Ridge,
    /// Trained from a random start, as in the rotor paper.
    Trained,
    /// No refit.
    None,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DTypeArg {
    F32,
    F16,
    Bf16,
}

pub(crate) fn run(args: &CompressArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    if !args.dry_run {
        outputs::directory(&args.output, args.force, &inputs(args))?;
    }
    if args.form.is_dense() && matches!(args.method, Some(MethodArg::Rotor)) {
        return Err(Failure::usage("a rotor network is not linear and has no dense form")
            .hint("give --form native"));
    }
    let dataset = args.dataset.as_deref().map(Path::new);
    args.asked.check_text_field(dataset.as_slice())?;
    // Errors in tasks are reported before a model is loaded.
    let tasks = Tasks::open_if_any(&args.asked, &mut console)?;
    let model = open_model(&args.model, &mut console)?;
    let OpenModel { loaded, place } = &model;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model)?;
    let plan = plan::plan(args, &loaded.decoder)?;
    plan.sites(&loaded.decoder)?;
    if args.form.is_dense() {
        check_dense(&plan, &loaded.decoder)?;
    }
    let calibration = calibration(args, loaded)?;
    if args.dry_run {
        console.finish();
        return summary::dry_run(&plan, &loaded.decoder, &calibration, shared);
    }
    let state = state::directory(&args.output)?;
    let fingerprint = study::plan_fingerprint(&plan, &loaded.hash, &calibration);
    let directory = state::open(&state, &fingerprint, args.force)?;
    let work = Work { model: &model, plan: &plan, calibration: &calibration, tasks: &tasks };
    let done = fit_and_save(args, &work, &directory, &mut console)
        .map_err(|failure| state::tidy(&state, failure))?;
    state::remove(&state)?;
    let times = console.finish();
    let summary = Summary::new(&done, &loaded.decoder, &place.path);
    if shared.json {
        let stages: Vec<_> = times
            .iter()
            .map(|(stage, seconds)| serde_json::json!({"stage": stage, "seconds": seconds}))
            .collect();
        return print_json(&serde_json::json!({
            "model": place.name, "output": args.output, "plan": plan, "saved": form::summary(&done.saved),
            "summary": summary, "sites": done.edited.sites, "stages": stages,
            "dense": done.judged.dense, "results": done.judged.results,
            "comparisons": done.judged.comparisons,
        }));
    }
    print(&summary.render(&done, &args.output))?;
    done.judged.show()
}

/// The input files, which no output may overwrite.
fn inputs(args: &CompressArgs) -> Vec<PathBuf> {
    let mut inputs = outputs::of_model(&args.model);
    inputs.extend(args.dataset.as_ref().map(PathBuf::from));
    inputs.extend(args.asked.inputs());
    inputs
}

/// Refuses before the work a dense form of a model that keeps a nonlinear operator.
fn check_dense(plan: &Plan, model: &Transformer) -> Result<(), Failure> {
    let edited = plan.sites(model)?;
    let replaced = |site: &SiteId| edited.iter().any(|edit| edit.sites.contains(site));
    let slots = model.slots();
    let stays = slots.iter().find(|s| matches!(s.op(), Op::Map(_)) && !replaced(s.id()));
    stays.map_or(Ok(()), |slot| {
        let kind = slot.op().map().spec().kind();
        Err(Failure::usage(format!("{} is a {kind}, which has no dense form", slot.id()))
            .hint("give --form native"))
    })
}

/// An edited and saved model.
struct Done {
    edited: Edited,
    judged: Judged,
    saved: Exported,
    /// Scoring speed of the original and the edited model, in tokens per second.
    speeds: [f64; 2],
}

/// Everything that a model is compressed with.
struct Work<'a> {
    model: &'a OpenModel,
    plan: &'a Plan,
    calibration: &'a Calibration,
    /// The evaluation before and after, if any.
    tasks: &'a [Box<dyn Task>],
}

fn fit_and_save(
    args: &CompressArgs,
    work: &Work<'_>,
    directory: &RunDirectory,
    console: &mut Console,
) -> Result<Done, Failure> {
    let Work { model, plan, calibration, tasks } = *work;
    let loaded = &model.loaded;
    let store = FitStore::open(&directory.path().join("fits"))?;
    let context =
        Context { model_hash: &loaded.hash, bounds: Bounds::default(), store: Some(&store) };
    let edited = apply(&loaded.decoder, calibration, plan, &context, console)?;
    for site in &edited.sites {
        console.trace(|| fit_told(site));
    }
    let replaced = edited.sites.iter().map(|site| &site.site);
    let judged = before_and_after(tasks, &args.asked, model, &edited.model, replaced, console)?;
    console.step("timing both models");
    let speeds =
        tokens_per_second(&[&loaded.decoder, &edited.model], calibration.windows(), &|| {
            console.interrupted()
        })?;
    let dtype = args.dtype.map(|dtype| match dtype {
        DTypeArg::F32 => DType::F32,
        DTypeArg::F16 => DType::F16,
        DTypeArg::Bf16 => DType::Bf16,
    });
    let saving = Saving { form: args.form, dtype, force: args.force, output: &args.output };
    let saved = saving.write(&edited.model, model, console)?;
    Ok(Done { edited, judged, saved, speeds: [speeds[0], speeds[1]] })
}

/// One line about the fit of a site.
fn fit_told(SiteOutcome { site, method, fit, parameters, .. }: &SiteOutcome) -> String {
    let (error, seconds) = (fit.relative_error, fit.seconds);
    format!("{site}: {method}, {parameters} parameters, relative error {error:.3e}, {seconds:.2} s")
}

fn calibration(args: &CompressArgs, loaded: &LoadedModel) -> Result<Calibration, Failure> {
    let dataset = args
        .dataset
        .as_deref()
        .or((args.model == crate::source::POCKET).then_some(crate::source::POCKET));
    let dataset = dataset.ok_or_else(|| {
        Failure::usage("no calibration text")
            .hint("give --dataset FILE: a text or JSONL file like the inputs of the model in use")
    })?;
    let field = args.asked.text_field.as_deref();
    let (path, field) = text_file(dataset, "calibration.jsonl", field)?;
    let corpus = Corpus::open(&path, field)?;
    let tokenizer = loaded
        .tokenizer
        .as_ref()
        .ok_or_else(|| Failure::general(format!("{} has no tokenizer.json", args.model)))?;
    let calibration = Calibration::encode(
        corpus.documents.iter().map(|document| (document.line, document.text.as_str())),
        tokenizer,
        args.asked.bos,
        args.seq_len,
        args.num_tokens,
        Split::Contiguous,
    )?;
    calibration.check_positions(loaded.decoder.config().max_positions)?;
    Ok(calibration)
}
