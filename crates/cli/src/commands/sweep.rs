//! `linwright sweep`: every cut of a grid, judged on a task.

use super::cuts::{CutArgs, Findings, SlotArgs};
use super::tasks::{Division, Parts, TaskArgs};
use super::{print, print_json};
use crate::args::Shared;
use crate::console::Console;
use crate::failure::Failure;
use crate::provenance;
use crate::source::{Place, open_model};
use clap::Args;
use linwright::compress::intervention::sweep::{Grid, Swept, Work, places, sweep};
use linwright::compress::study::RunDirectory;
use linwright::measure::evaluate::RunOptions;
use linwright::model::checkpoint::LoadedModel;
use linwright::model::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Cut weights of each layer to each of some sizes, judge every one on a task, and the best on items that it
/// was not chosen by.
///
/// The same command goes on where it stopped.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// A checkpoint directory, `pocket` for the built-in model, or `owner/name[@revision]` on the hub.
    model: String,
    #[command(flatten)]
    slots: SlotArgs,
    #[command(flatten)]
    cut: CutArgs,
    #[command(flatten)]
    asked: TaskArgs,
    /// The figure that cells compare by [default: the task's first].
    #[arg(long)]
    metric: Option<String>,
    /// Draw the order of the items before they are divided into validation and test [default: that of the
    /// file].
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Compute each cell by itself: the same, slower.
    #[arg(long, alias = "no_share")]
    no_share: bool,
    /// Heading of the report.
    #[arg(long, default_value = "Sweep")]
    title: String,
    /// Directory of the run [default: runs/sweep- and its fingerprint].
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// What a sweep or a composition works on, opened.
pub(super) struct Opened {
    pub(super) loaded: LoadedModel,
    pub(super) place: Place,
    pub(super) parts: Parts,
}

impl Opened {
    pub(super) fn new(
        model: &str,
        (asked, shuffle): (&TaskArgs, Option<u64>),
        console: &mut Console,
    ) -> Result<Self, Failure> {
        // Mistakes in tasks are told before a model is loaded.
        let parts = Parts::open(asked, Division { shuffle }, console)?;
        let (loaded, place) = open_model(model, console)?;
        Ok(Self { loaded, place, parts })
    }

    pub(super) fn tokenizer(&self) -> Result<&Tokenizer, Failure> {
        self.loaded.tokenizer.as_ref().ok_or_else(|| {
            Failure::general(format!("{} has no tokenizer.json", self.place.name))
                .hint("text can only be scored with the model's tokenizer")
        })
    }

    /// What a reader must know.
    pub(super) fn notes(&self, swept: &linwright::measure::evaluate::TaskResult) -> Vec<String> {
        let items = swept.counts.items;
        let test = self.parts.test.as_ref().map_or_else(
            || "there are no test items".to_owned(),
            |test| format!("{} test items", test.items().len()),
        );
        vec![
            format!("Model: {}.", self.place.name),
            format!("Task: {}, protocol {}; {items} validation items, {test}.", swept.task, swept.protocol),
        ]
    }
}

/// The grid that options describe.
pub(super) fn grid(slots: &SlotArgs, cut: &CutArgs) -> Result<Grid, Failure> {
    if slots.lname.is_empty() {
        return Err(Failure::usage("nothing says which weights are cut")
            .hint("give --lname NAME,..., such as fc_in,fc_out"));
    }
    let sizes = cut.sizes()?;
    Ok(Grid {
        lnames: slots.lname.clone(),
        layers: slots.layers()?,
        together: slots.all_at_once(),
        cut: cut.cut(sizes[0]),
        sizes,
    })
}

pub(crate) fn run(args: &SweepArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let grid = grid(&args.slots, &args.cut)?;
    let opened = Opened::new(&args.model, (&args.asked, args.shuffle), &mut console)?;
    let store = args.cut.store(&console)?;
    places(&grid, &opened.loaded.decoder)?;
    let work = Work {
        model: &opened.loaded.decoder,
        tokenizer: opened.tokenizer()?,
        model_hash: &opened.loaded.hash,
        validation: opened.parts.validation.as_ref(),
        test: opened.parts.test.as_deref(),
        metric: args.metric.as_deref(),
        store: &store,
        run: RunOptions { max_batch_tokens: args.asked.batch_size, longest: None },
        max_length: args.asked.max_length,
        shares: !args.no_share,
    };
    let fingerprint = work.fingerprint(&grid);
    let own = || Path::new("runs").join(format!("sweep-{}", &fingerprint.0[..8]));
    let output = args.output.clone().unwrap_or_else(own);
    let directory = RunDirectory::open(&output, &fingerprint)?;
    let swept = sweep(&work, &grid, &directory, &mut console)?;
    let times = console.finish();
    let json = result(&opened, &swept, &times)?;
    let notes = opened.notes(&swept.dense);
    let findings = Findings { title: &args.title, swept: &swept, notes, json };
    findings.write(&output)?;
    if shared.json {
        return print_json(&findings.json);
    }
    let report = output.join("report.html");
    print(&format!("{}\n\nreport: {}", findings.terminal(), report.display()))
}

fn result(opened: &Opened, swept: &Swept, times: &[(String, f64)]) -> Result<Value, Failure> {
    let sweep = serde_json::to_value(swept)
        .map_err(|error| Failure::general(format!("cannot write the sweep as JSON: {error}")))?;
    let results: Vec<_> = std::iter::once(&swept.dense)
        .chain(swept.test.iter().map(|test| &test.dense))
        .cloned()
        .collect();
    let mut provenance = provenance::of_evaluation(&opened.loaded, &results);
    provenance.recipe = "linwright sweep".into();
    provenance.seeds = vec![swept.grid.cut.seed];
    let seconds: f64 = times.iter().map(|(_, seconds)| seconds).sum();
    Ok(json!({
        "model": opened.place.name, "sweep": sweep, "provenance": provenance, "seconds": seconds,
    }))
}
