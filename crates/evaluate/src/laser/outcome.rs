//! Scores of records and of a set from the responses of a model.

use super::figures::{Row, TOPS, metrics};
use super::set::{Form, Record};
use super::words::{contains, folded, overlap};
use super::{LaserTask, Scoring, VERSION};
use crate::result::by_group;
use crate::{Counts, Details, EvaluationError, Reply, Sample, Task, TaskResult};
use serde_json::{Map, Value, json};

/// Number of top log-probabilities in a record.
pub(super) const TOP_LOGPROBS: usize = TOPS[2];

/// Responses of a model to a record.
struct Responses {
    /// Form of the request.
    form: Form,
    /// Whether the model is a masked language model.
    is_masked: bool,
    /// Log-likelihood in nats and number of tokens of each choice, or of the answer.
    scores: Vec<(f64, usize)>,
    /// Generated answer; `None` for choices.
    generated: Option<String>,
    details: Details,
}

/// Scores of one record.
struct RecordScores {
    row: Row,
    /// Index of the chosen answer, for choices.
    chosen: Option<usize>,
    tie: bool,
    generation: String,
}

impl Responses {
    fn of(task: &LaserTask, record: &Record, replies: &[Reply]) -> Result<Self, EvaluationError> {
        let is_masked = replies.iter().any(|reply| matches!(reply, Reply::Infilled { .. }));
        let form = task.form(is_masked);
        let is_generated = matches!(form, Form::Generated { .. });
        let (scores, details) = (Vec::new(), Details::default());
        let mut responses = Self { form, is_masked, scores, generated: None, details };
        for reply in replies {
            match reply {
                Reply::LogLikelihood { log_likelihood, tokens, details, .. } => {
                    responses.scores.push((*log_likelihood, *tokens));
                    if let Some(details) = details {
                        responses.details = Details::clone(details);
                    }
                }
                Reply::Generated { text, .. } => responses.generated = Some(text.clone()),
                Reply::Infilled { answers, text, details, .. } => {
                    responses.scores.clone_from(answers);
                    responses.details = Details::clone(details);
                    responses.generated = is_generated.then(|| text.clone());
                }
                Reply::Rolling { .. } | Reply::Similarity { .. } => {}
            }
        }
        if let (Form::Generated { new_tokens: 1, .. }, None) = (form, &responses.generated) {
            let first = responses.details.top_logprobs.first();
            responses.generated = first.map(|(text, _)| text.clone());
        }
        let asked = match form {
            Form::Choice { .. } => record.choices.len(),
            Form::Generated { .. } => 1,
        };
        if responses.scores.len() == asked && responses.generated.is_some() == is_generated {
            return Ok(responses);
        }
        Err(EvaluationError::Document {
            place: record.place.clone(),
            task: task.id(),
            field: "replies".to_owned(),
            reason: format!("{} do not match the requests", replies.len()),
        })
    }

    /// Whether the answer is among the `k` most likely tokens, for each `k` of [`TOPS`].
    fn tops(&self, record: &Record, scoring: Scoring) -> [bool; 3] {
        let rank = match scoring {
            Scoring::Correct => self.details.rank,
            Scoring::Compat => {
                let answer = folded(&record.answer);
                let mut texts = self.details.top_logprobs.iter().map(|(text, _)| folded(text));
                texts.position(|text| text == answer).unwrap_or(usize::MAX)
            }
        };
        TOPS.map(|top| rank < top)
    }
}

/// Rounds to half precision.
fn halved(value: f64) -> f64 {
    // Ten bits after the leading one; subnormal below 2⁻¹⁴.
    let exponent = value.abs().log2().floor().max(-14.0);
    let step = (exponent - 10.0).exp2();
    let rounded = (value / step).round_ties_even() * step;
    if rounded.abs() >= 65_520.0 { f64::INFINITY.copysign(value) } else { rounded }
}

/// Index of the first maximum, and whether it occurs again.
fn best(scores: &[f64]) -> (usize, bool) {
    let mut best = 0;
    for (index, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = index;
        }
    }
    (best, scores.iter().filter(|score| **score == scores[best]).count() > 1)
}

fn score(task: &LaserTask, record: &Record, responses: &Responses) -> RecordScores {
    let scoring = task.options.scoring;
    let top = Some(responses.tops(record, scoring));
    match responses.form {
        Form::Choice { two } => {
            let own = |score: f64| match scoring {
                Scoring::Correct => score,
                Scoring::Compat => halved(score),
            };
            let scores: Vec<f64> = responses.scores.iter().map(|(nats, _)| own(*nats)).collect();
            let (chosen, tie) = best(&scores);
            let beaten = two && tie && scoring == Scoring::Compat;
            let right = chosen == record.gold && !beaten;
            let answer = Some(responses.scores[record.gold]);
            let generation = record.choices[chosen].clone();
            let row = Row { right, answer, overlap: None, top };
            RecordScores { row, chosen: Some(chosen), tie, generation }
        }
        Form::Generated { new_tokens, .. } => {
            let generation = responses.generated.clone().unwrap_or_default();
            let text = match scoring {
                Scoring::Correct => generation.clone(),
                Scoring::Compat if new_tokens == 1 => generation.clone(),
                Scoring::Compat => format!("{}{generation}", record.prompt),
            };
            let right = match new_tokens {
                1 => folded(&text) == folded(&record.answer),
                _ => contains(&text, &record.answer),
            };
            let overlap = Some(overlap(&text, &record.answer, scoring == Scoring::Compat));
            let mut answer = responses.scores.first().copied();
            if let (Scoring::Compat, true, Some((_, tokens))) =
                (scoring, responses.is_masked, &mut answer)
            {
                // The paper's code counts one mask too many.
                *tokens += 1;
            }
            let row = Row { right, answer, overlap, top };
            RecordScores { row, chosen: None, tie: false, generation }
        }
    }
}

/// The result of a task.
pub(super) fn result(
    task: &LaserTask,
    replies: &[Vec<Reply>],
    bos_used: bool,
) -> Result<TaskResult, EvaluationError> {
    let mut counts = Counts::default();
    let (mut rows, mut groups, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    let first = replies.first().and_then(|replies| replies.first());
    let is_masked = matches!(first, Some(Reply::Infilled { .. }));
    for (index, (record, replies)) in task.records.iter().zip(replies).enumerate() {
        let responses = Responses::of(task, record, replies)?;
        if let Form::Generated { longest: Some(longest), .. } = responses.form
            && responses.scores[0].1 > longest
        {
            continue;
        }
        let scores = score(task, record, &responses);
        replies.iter().for_each(|reply| counts.add(reply));
        counts.ties += usize::from(scores.tie);
        samples.push(sample(task, index, record, &responses, &scores));
        rows.push(scores.row);
        groups.push(record.group);
    }
    if rows.is_empty() {
        return Err(EvaluationError::Nothing {
            task: task.id(),
            what: "records with short answers",
        });
    }
    counts.items = rows.len();
    let of = |members: &[usize]| {
        metrics(&members.iter().map(|&member| rows[member]).collect::<Vec<_>>())
    };
    Ok(TaskResult {
        task: task.id(),
        protocol: task.protocol(is_masked),
        version: VERSION,
        data_sha256: task.sha256.clone(),
        bos_used,
        metrics: metrics(&rows),
        groups: by_group(&groups, of),
        counts,
        original: task.original,
        description: description(task, is_masked, replies.len() - rows.len()),
        samples,
        ..TaskResult::default()
    })
}

/// Description of the task in the result, with the excluded records: `long` counts those with too
/// long answers.
fn description(task: &LaserTask, is_masked: bool, long: usize) -> Value {
    let form = task.form(is_masked);
    let mut left_out: Map<String, Value> = Map::new();
    for (reason, count) in &task.left_out {
        left_out.insert((*reason).to_owned(), json!(count));
    }
    let mut fields = json!({
        "task": task.id(),
        "output_type": match form {
            Form::Choice { .. } => "multiple_choice",
            Form::Generated { .. } => "generate_until",
        },
        "scoring": task.options.scoring.name(),
        "split": task.options.split.name(),
        "files": task.options.files.len(),
        "metadata": {"version": VERSION, "protocol": task.protocol(is_masked)},
    });
    if let Form::Generated { new_tokens, longest } = form {
        fields["new_tokens"] = json!(new_tokens);
        if let Some(longest) = longest {
            left_out.insert(format!("answers of more than {longest} tokens"), json!(long));
        }
    }
    fields["left_out"] = left_out.into();
    fields
}

/// A record, with the fields of the paper's code.
fn sample(
    task: &LaserTask,
    index: usize,
    record: &Record,
    responses: &Responses,
    scores: &RecordScores,
) -> Sample {
    let (row, details) = (&scores.row, &responses.details);
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("ix", json!(index));
    add("place", json!(record.place));
    add("question", json!(record.question));
    add("prompted-question", json!(record.prompt));
    add("gold-answer", json!(record.answer));
    if let Some(chosen) = scores.chosen {
        add("gold-answer-ix", json!(record.gold));
        add("predicted-answer-ix", json!(chosen));
    }
    add("generation", json!(scores.generation));
    add("correct", json!(row.right));
    for (name, within) in
        ["top_1_acc", "top_5_acc", "top_10_acc"].iter().zip(row.top.iter().flatten())
    {
        add(name, json!(within));
    }
    let top_logprobs = details.top_logprobs.iter();
    add("top_10_logprob", top_logprobs.clone().map(|(_, nats)| json!(nats)).collect());
    add("top_10_tokens", top_logprobs.map(|(text, _)| json!(text)).collect());
    if let Some(overlap) = row.overlap {
        add("f1_score", json!(overlap.f1));
        add("precision", json!(overlap.precision));
        add("recall", json!(overlap.recall));
    }
    add("case-sensitive", json!(false));
    add("white-space-strip", json!(true));
    let (nats, tokens) = row.answer.unwrap_or((f64::NAN, 0));
    add("total_logprob", json!(details.context_log_likelihood.map(|context| context + nats)));
    add("question_logprob", json!(details.context_log_likelihood));
    add("answer_logprob", json!(nats));
    add("answer_length", json!(tokens));
    add("question_answer_length", json!(details.context_tokens + tokens));
    for (choice, (nats, _)) in record.choices.iter().zip(&responses.scores) {
        add(&format!("{choice}_logprob"), json!(nats));
    }
    add("protocol", json!(task.protocol(responses.is_masked)));
    if let Some(group) = record.group {
        add("group", json!(group));
    }
    let numbers = row.numbers().into_iter().map(|(name, value)| (name.to_owned(), value));
    Sample {
        place: record.place.clone(),
        filter: "none".to_owned(),
        group: record.group.map(str::to_owned),
        numbers: numbers.collect(),
        record: fields,
    }
}
