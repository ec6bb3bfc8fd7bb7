//! The passes over the text.

use super::CollapseLm;
use crate::jobs::collapse::{check_result, outcome};
use crate::jobs::layers::parse_layers;
use crate::jobs::source::{open_model, text_file};
use crate::jobs::{Failure, Outcome, Session, outputs};
use linwright_collapse::{ClassStatistics, ClassSums, Decisions, HeadRef, Keep, LayerReport};
use linwright_data::Corpus;
use linwright_model::tokenizer::Bos;
use linwright_model::{Batch, Transformer};
use linwright_ops::NoProbe;
use linwright_run::Monitor;
use linwright_tensor::{Mat, MatRef};
use serde_json::json;

/// Tokens of a batch.
const BATCH_TOKENS: usize = 2048;
/// Rows that are widened at a time.
const ROWS: usize = 512;

/// A text in windows, with the class of each next token.
struct Contexts {
    /// Tokens that are read; the last one of a document is none.
    windows: Vec<Vec<u32>>,
    /// The class of the token after each of them, if it is kept.
    labels: Vec<Vec<Option<u32>>>,
    /// The tokens of the classes.
    tokens: Vec<u32>,
    /// Different next tokens, kept or not.
    seen: usize,
    /// Contexts, kept or not.
    contexts: u64,
}

pub(super) fn run(job: &CollapseLm, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let inputs = outputs::inputs_of(job, session);
    check_result(job.output.as_ref(), job.force, &inputs, session)?;
    session.step(&format!("loading {}", job.model));
    let model = open_model(&job.model, session)?;
    let decoder = &model.loaded.decoder;
    check_model(decoder)?;
    let layers = layers(job, decoder)?;
    session.step("reading the text");
    let field = job.text_field.as_deref();
    let (path, field) = text_file(&job.text, "stories-test.jsonl", field, session)?;
    let corpus = Corpus::open(&path, field)?;
    let contexts = contexts(job, &corpus, &model, session)?;
    let (classes, d) = (contexts.tokens.len(), decoder.config().hidden);
    let keep = if job.scatter { Keep::Scatter } else { Keep::Traces };
    let new = || ClassSums::new(classes, d, keep);
    let mut sums: Vec<ClassSums> = (0..=layers.len()).map(|_| new()).collect();
    session.step("running the model");
    let (began, mut adding) = (session.seconds(), 0.0);
    pass(decoder, &contexts, &layers, (session, &mut adding), &mut |place, x, labels| {
        Ok(sums[place].add(x, labels)?)
    })?;
    let seconds = json!({ "model": session.seconds() - began - adding, "sums": adding });
    let statistics: Vec<ClassStatistics> =
        sums.into_iter().map(ClassSums::finish).collect::<Result<_, _>>()?;
    let head: Option<Mat<f64>> = decoder.head_rows(&contexts.tokens).map(|rows| rows.cast());
    let agreements = match job.decisions {
        true => Some(decide(decoder, &contexts, &layers, (&statistics, head.as_ref()), session)?),
        false => None,
    };
    let options = job.options.of_layer(keep);
    let mut reports = Vec::new();
    for (place, statistics) in statistics.iter().enumerate() {
        let is_last = place == layers.len();
        let name = match layers.get(place) {
            Some(layer) => format!("layer {layer}"),
            None => "input of the head".to_owned(),
        };
        session.step(&format!("measuring {name}"));
        let head = head.as_ref().filter(|_| is_last).map(|rows| HeadRef { rows, bias: None });
        let mut report = LayerReport::of(&name, statistics, None, head, options, session)?;
        if let Some(agreements) = &agreements {
            report.add_metrics(&agreements[place]);
        }
        if is_last && head.is_none() {
            report.notes.push("the head reads something else than the normed rows: no NC3".into());
        }
        reports.push(report);
    }
    session.finish();
    let about = json!({
        "model": session.portable(&job.model),
        "text": session.portable(&job.text),
        "text_sha256": corpus.sha256,
        "contexts": contexts.contexts,
        "next_tokens": contexts.seen,
        "classes_kept": classes,
        "min_count": job.min_count,
        "max_count": job.max_count,
        "window": job.window,
        "seconds": seconds,
    });
    outcome("lm", (about, reports), job.output.as_ref(), session)
}

fn check_model(decoder: &Transformer) -> Result<(), Failure> {
    if decoder.config().is_causal() {
        return Ok(());
    }
    Err(Failure::general(match decoder.has_head() {
        true => "collapse lm needs next tokens, and this is a masked language model",
        false => "collapse lm needs next tokens, but this model has no head for them",
    })
    .hint("measure its features with `linwright collapse measure --features FILE`"))
}

fn layers(job: &CollapseLm, decoder: &Transformer) -> Result<Vec<usize>, Failure> {
    let count = decoder.config().layers.len();
    let mut layers = match &job.layers {
        Some(text) => parse_layers("layers", text)?,
        None => (0..count).collect(),
    };
    layers.sort_unstable();
    match layers.last().filter(|last| **last >= count) {
        Some(last) => Err(Failure::usage(format!("--layers: there is no layer {last}"))
            .hint(format!("the model has layers 0 to {}", count.saturating_sub(1)))),
        None => Ok(layers),
    }
}

fn contexts(
    job: &CollapseLm,
    corpus: &Corpus,
    model: &crate::jobs::source::OpenModel,
    session: &Session<'_>,
) -> Result<Contexts, Failure> {
    let positions = model.loaded.decoder.config().max_positions;
    let window = job.window.min(positions);
    if window < job.window {
        session.note(&format!("note: windows of {window} tokens, the positions of the model"));
    }
    let tokenizer = model.tokenizer()?;
    let (mut windows, mut next): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
    let mut left = job.num_tokens.unwrap_or(usize::MAX);
    for document in &corpus.documents {
        let mut ids = tokenizer.encode_document(&document.text, Bos::Auto)?;
        ids.truncate(left);
        left -= ids.len();
        for start in (0..ids.len().saturating_sub(1)).step_by(window) {
            let end = (start + window).min(ids.len() - 1);
            windows.push(ids[start..end].to_vec());
            next.push(ids[start + 1..=end].to_vec());
        }
    }
    let vocab = model.loaded.decoder.config().vocab;
    let mut counts = vec![0u64; vocab];
    for &token in next.iter().flatten() {
        match counts.get_mut(token as usize) {
            Some(count) => *count += 1,
            None => {
                return Err(Failure::general(format!(
                    "the tokenizer gives token {token}, but the model has {vocab}"
                )));
            }
        }
    }
    let most = job.max_count.unwrap_or(u64::MAX);
    let is_kept = |token: &u32| (job.min_count..=most).contains(&counts[*token as usize]);
    let tokens: Vec<u32> = (0..vocab as u32).filter(is_kept).collect();
    let mut classes = vec![None; vocab];
    for (class, token) in tokens.iter().enumerate() {
        classes[*token as usize] = Some(class as u32);
    }
    if tokens.len() < 2 {
        let seen = counts.iter().filter(|count| **count > 0).count();
        return Err(Failure::usage(format!(
            "{} of {seen} next tokens come {} to {most} times; collapse compares 2 or more",
            tokens.len(),
            job.min_count
        ))
        .hint("give more text, or other values of --min-count and --max-count"));
    }
    let of = |next: &Vec<u32>| next.iter().map(|token| classes[*token as usize]).collect();
    Ok(Contexts {
        labels: next.iter().map(of).collect(),
        windows,
        tokens,
        seen: counts.iter().filter(|count| **count > 0).count(),
        contexts: counts.iter().sum(),
    })
}

/// Takes rows of a place with their classes: a layer, or last what the head reads.
type Take<'a> = dyn FnMut(usize, MatRef<'_, f64>, &[u32]) -> Result<(), Failure> + 'a;

/// Runs the model once, and gives the rows with a class of all layers; adds the seconds that taking
/// them needed.
fn pass(
    decoder: &Transformer,
    contexts: &Contexts,
    layers: &[usize],
    (session, taking): (&mut Session<'_>, &mut f64),
    take: &mut Take<'_>,
) -> Result<(), Failure> {
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
        let labels: Vec<Option<u32>> =
            contexts.labels[first..last].iter().flatten().copied().collect();
        let mut give = |place: usize, rows: &Mat<f32>| {
            let began = session.seconds();
            rows_of_classes(rows, &labels, place, take)?;
            *taking += session.seconds() - began;
            Ok::<(), Failure>(())
        };
        let model_failed =
            |error: linwright_model::ModelError| Failure::general(crate::jobs::message_of(&error));
        let mut hidden = decoder.embed(&batch).map_err(model_failed)?;
        let mut done = 0;
        for (place, &layer) in layers.iter().enumerate() {
            let span = done..layer + 1;
            decoder.run_layers(&mut hidden, &batch, span, &mut NoProbe).map_err(model_failed)?;
            done = layer + 1;
            give(place, &hidden)?;
        }
        let span = done..decoder.config().layers.len();
        decoder.run_layers(&mut hidden, &batch, span, &mut NoProbe).map_err(model_failed)?;
        give(layers.len(), &decoder.normed(hidden.view()))?;
        first = last;
        session.progress(first as u64, contexts.windows.len() as u64);
    }
    Ok(())
}

/// Gives the rows that have a class, in double precision.
fn rows_of_classes(
    rows: &Mat<f32>,
    labels: &[Option<u32>],
    place: usize,
    take: &mut Take<'_>,
) -> Result<(), Failure> {
    let kept: Vec<(usize, u32)> =
        labels.iter().enumerate().filter_map(|(row, label)| Some((row, (*label)?))).collect();
    for some in kept.chunks(ROWS) {
        let x = Mat::from_fn(some.len(), rows.cols(), |i, j| f64::from(rows.at(some[i].0, j)));
        let labels: Vec<u32> = some.iter().map(|(_, label)| *label).collect();
        take(place, x.view(), &labels)?;
    }
    Ok(())
}

/// The second pass: metrics of decisions for each place.
fn decide(
    decoder: &Transformer,
    contexts: &Contexts,
    layers: &[usize],
    (statistics, head): (&[ClassStatistics], Option<&Mat<f64>>),
    session: &mut Session<'_>,
) -> Result<Vec<linwright_collapse::Metrics>, Failure> {
    let mut decisions = Vec::new();
    for (place, statistics) in statistics.iter().enumerate() {
        let head = head.filter(|_| place == layers.len()).map(|head| (head, None));
        decisions.push(Decisions::new(statistics, head)?);
    }
    session.step("deciding");
    pass(decoder, contexts, layers, (session, &mut 0.0), &mut |place, x, labels| {
        Ok(decisions[place].add(x, labels)?)
    })?;
    Ok(decisions.iter().map(Decisions::metrics).collect())
}
