//! The passes over the text.

use super::CollapseLm;
use super::contexts::Contexts;
use super::result::{CollapseOfModel, PassSeconds};
use crate::jobs::collapse::options::{Files, check_result, detail_notes, finish};
use crate::jobs::kit::layers::parse_layers;
use crate::jobs::kit::source::{open_model, text_file};
use crate::jobs::kit::{Failure, Outcome, Session, outputs};
use linwright_collapse::{
    ClassStatistics, ClassSums, Decisions, HeadRef, Keep, LayerReport, metrics,
};
use linwright_data::Corpus;
use linwright_model::{Batch, Transformer};
use linwright_ops::NoProbe;
use linwright_run::{Measured, Monitor};
use linwright_tensor::{Mat, MatRef};

/// Tokens of a batch.
const BATCH_TOKENS: usize = 2048;
/// Where hidden states are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Input of the first layer.
    Embedding,
    /// Output of a layer.
    Layer(usize),
    /// Input of the head: the last layer after the final norm.
    Head,
}

impl Place {
    fn name(self) -> String {
        match self {
            Self::Embedding => "embedding".into(),
            Self::Layer(layer) => format!("layer {layer}"),
            Self::Head => "input of the head".into(),
        }
    }

    /// Layers that run before it.
    fn depth(self, layers: usize) -> usize {
        match self {
            Self::Embedding => 0,
            Self::Layer(layer) => layer + 1,
            Self::Head => layers,
        }
    }
}

/// Sums of one place, and with permuted classes.
struct Sums {
    own: ClassSums,
    permuted: Option<ClassSums>,
}

pub(super) fn run(job: &CollapseLm, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let inputs = outputs::inputs_of(job, session);
    check_result(job.output.as_deref(), job.force, &inputs, session)?;
    session.step(&format!("loading {}", job.model));
    let model = open_model(&job.model, session)?;
    let decoder = &model.loaded.decoder;
    let places = places(job, decoder)?;
    session.step("reading the text");
    let field = job.text_field.as_deref();
    let (path, field) = text_file(&job.text, "stories-test.jsonl", field, session)?;
    let corpus = Corpus::open(&path, field)?;
    let contexts = Contexts::of(job, &corpus, &model, session)?;
    let (classes, d) = (contexts.tokens.len(), decoder.config().hidden);
    let keep = if job.scatter { Keep::Scatter } else { Keep::Traces };
    let new = || ClassSums::new(classes, d, keep);
    let with_permuted = !job.options.no_baselines;
    let count = places.len() * if with_permuted { 2 } else { 1 };
    ClassSums::check_memory(count, classes, d, keep)?;
    let of_place = |_: &Place| Sums { own: new(), permuted: with_permuted.then(new) };
    let mut sums: Vec<Sums> = places.iter().map(of_place).collect();
    session.step("running the model");
    let (began, mut adding) = (session.seconds(), 0.0);
    pass(decoder, &contexts, &places, (session, &mut adding), &mut |place, rows| {
        let Sums { own, permuted } = &mut sums[place];
        own.add(rows.x, rows.labels)?;
        permuted.iter_mut().try_for_each(|sums| sums.add(rows.x, rows.permuted))?;
        Ok(())
    })?;
    let seconds = PassSeconds { model: session.seconds() - began - adding, sums: adding };
    let layers = reports(job, (decoder, &contexts), &places, sums, session)?;
    session.finish();
    let classes_are = if decoder.config().is_causal() { "next tokens" } else { "own tokens" };
    let result = CollapseOfModel {
        model: session.portable(&job.model),
        text: session.portable(&job.text),
        text_sha256: corpus.sha256,
        classes_are: classes_are.to_owned(),
        contexts: contexts.contexts,
        tokens_seen: contexts.seen,
        classes_kept: classes,
        min_count: job.min_count,
        max_count: job.max_count,
        window: job.window,
        seconds: Some(Measured(seconds)),
        layers,
    };
    detail_notes(&result.layers, session);
    let files = Files { result: job.output.as_deref(), sums: None, force: job.force };
    finish(result, files, session)
}

/// Measures all places.
fn reports(
    job: &CollapseLm,
    (decoder, contexts): (&Transformer, &Contexts),
    places: &[Place],
    sums: Vec<Sums>,
    session: &mut Session<'_>,
) -> Result<Vec<LayerReport>, Failure> {
    let keep = if job.scatter { Keep::Scatter } else { Keep::Traces };
    let (mut statistics, mut permuted) = (Vec::new(), Vec::new());
    for sums in sums {
        statistics.push(sums.own.finish()?);
        permuted.push(sums.permuted);
    }
    let head: Option<Mat<f64>> = decoder.head_rows(&contexts.tokens).map(|rows| rows.cast());
    let agreements = match job.decisions {
        true => Some(decide(decoder, contexts, places, (&statistics, head.as_ref()), session)?),
        false => None,
    };
    let options = job.options.of_layer(keep);
    let mut reports = Vec::new();
    for (index, (place, permuted)) in places.iter().zip(permuted).enumerate() {
        session.step(&format!("measuring {}", place.name()));
        let own = head.as_ref().filter(|_| *place == Place::Head);
        let of_head = own.map(|rows| HeadRef { rows, bias: None });
        let (name, own_statistics) = (place.name(), &statistics[index]);
        let mut report = LayerReport::of(&name, own_statistics, None, of_head, options, session)?;
        if let (Some(baselines), Some(permuted)) = (&mut report.baselines, permuted) {
            baselines.shuffled_labels = Some(metrics(&permuted.finish()?, own)?);
        }
        if let Some(agreements) = &agreements {
            report.add_metrics(&agreements[index]);
        }
        if *place == Place::Head && head.is_none() {
            report.notes.push("no head reads the normed rows: no NC3".into());
        }
        reports.push(report);
    }
    Ok(reports)
}

/// The places in the order of a pass.
fn places(job: &CollapseLm, decoder: &Transformer) -> Result<Vec<Place>, Failure> {
    let count = decoder.config().layers.len();
    let mut layers = match &job.layers {
        Some(text) => parse_layers("layers", text)?,
        None => (0..count).collect(),
    };
    layers.sort_unstable();
    if let Some(last) = layers.last().filter(|last| **last >= count) {
        return Err(Failure::usage(format!("--layers: there is no layer {last}"))
            .hint(format!("the model has layers 0 to {}", count.saturating_sub(1))));
    }
    let first = job.layers.is_none().then_some(Place::Embedding);
    Ok(first.into_iter().chain(layers.into_iter().map(Place::Layer)).chain([Place::Head]).collect())
}

/// Rows of a place, with their classes and permuted ones.
struct Rows<'a> {
    x: MatRef<'a, f32>,
    labels: &'a [u32],
    permuted: &'a [u32],
}

/// Takes rows of a place, by its index.
type Take<'a> = dyn FnMut(usize, Rows<'_>) -> Result<(), Failure> + 'a;

/// Runs the model once, and gives the rows with a class of all places; adds the seconds that taking
/// them needed.
fn pass(
    decoder: &Transformer,
    contexts: &Contexts,
    places: &[Place],
    (session, taking): (&mut Session<'_>, &mut f64),
    take: &mut Take<'_>,
) -> Result<(), Failure> {
    let count = decoder.config().layers.len();
    let mut first = 0;
    while first < contexts.windows.len() {
        if session.interrupted() {
            return Err(Failure::interrupted("interrupted".into()).not_resumable());
        }
        let mut last = first;
        let mut tokens = 0;
        while last < contexts.windows.len() && (tokens == 0 || tokens < BATCH_TOKENS) {
            tokens += contexts.windows[last].len();
            last += 1;
        }
        let sequences: Vec<&[u32]> =
            contexts.windows[first..last].iter().map(Vec::as_slice).collect();
        let batch = Batch::new(&sequences);
        let labels: Vec<Option<[u32; 2]>> =
            contexts.labels[first..last].iter().flatten().copied().collect();
        let model_failed = |error: linwright_model::ModelError| {
            Failure::general(crate::jobs::kit::message_of(&error))
        };
        let mut hidden = decoder.embed(&batch).map_err(model_failed)?;
        let mut done = 0;
        for (index, place) in places.iter().enumerate() {
            let depth = place.depth(count);
            decoder
                .run_layers(&mut hidden, &batch, done..depth, &mut NoProbe)
                .map_err(model_failed)?;
            done = depth;
            let normed = (*place == Place::Head).then(|| decoder.normed(hidden.view()));
            let began = session.seconds();
            rows_of_classes(normed.as_ref().unwrap_or(&hidden), &labels, index, take)?;
            *taking += session.seconds() - began;
        }
        first = last;
        session.progress(first as u64, contexts.windows.len() as u64);
    }
    Ok(())
}

/// Gives the rows that have a class.
fn rows_of_classes(
    rows: &Mat<f32>,
    labels: &[Option<[u32; 2]>],
    place: usize,
    take: &mut Take<'_>,
) -> Result<(), Failure> {
    let kept = labels.iter().enumerate().filter_map(|(row, label)| Some((row, (*label)?)));
    let (mut x, mut own, mut permuted) = (Vec::new(), Vec::new(), Vec::new());
    for (row, [label, other]) in kept {
        x.extend_from_slice(rows.row(row));
        own.push(label);
        permuted.push(other);
    }
    let x = Mat::from_vec(own.len(), rows.cols(), x);
    take(place, Rows { x: x.view(), labels: &own, permuted: &permuted })
}

/// The second pass: metrics of decisions for each place.
fn decide(
    decoder: &Transformer,
    contexts: &Contexts,
    places: &[Place],
    (statistics, head): (&[ClassStatistics], Option<&Mat<f64>>),
    session: &mut Session<'_>,
) -> Result<Vec<linwright_collapse::Metrics>, Failure> {
    let mut decisions = Vec::new();
    for (place, statistics) in places.iter().zip(statistics) {
        let head = head.filter(|_| *place == Place::Head).map(|head| (head, None));
        decisions.push(Decisions::new(statistics, head)?);
    }
    session.step("deciding");
    pass(decoder, contexts, places, (session, &mut 0.0), &mut |place, rows| {
        let wide: Mat<f64> = rows.x.to_mat().cast();
        Ok(decisions[place].add(wide.view(), rows.labels)?)
    })?;
    Ok(decisions.iter().map(Decisions::metrics).collect())
}
