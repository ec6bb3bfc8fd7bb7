//! Metrics and samples of a task from the responses of a model.

use super::functions::{Kind, Outcome, words};
use super::metric::MetricRule;
use super::prompt::{Prompt, text_of};
use super::value::Value as Measured;
use super::{HarnessTask, OutputType, place, task_hash};
use crate::divergence;
use crate::result::Sample;
use crate::{Counts, EvaluationError, Metric, Reply, Request, Task, TaskResult};
use linwright_run::sha256_hex;
use serde_json::{Map, Value, json};

/// The result of a task.
pub(super) fn result(
    task: &HarnessTask,
    replies: &[Vec<Reply>],
    bos_used: bool,
) -> Result<TaskResult, EvaluationError> {
    let mut counts = Counts { items: replies.len(), ..Counts::default() };
    replies.iter().flatten().for_each(|reply| counts.add(reply));
    let mut samples = Vec::new();
    let mut metrics = Vec::new();
    for filter in &task.filters {
        let mut outcomes = Vec::with_capacity(replies.len());
        for (prompt, replies) in task.prompts.iter().zip(replies) {
            let answers = replies.iter().filter_map(written).map(str::to_owned).collect();
            let filtered = filter.apply(answers, &prompt.fields);
            let filtered = filtered.map_err(|reason| wrong(task, prompt, "filter_list", reason))?;
            let (outcome, tie) = outcome(task, prompt, replies, &filtered)?;
            counts.ties += usize::from(tie);
            samples.push(sample(task, prompt, replies, &filtered, &filter.name, &outcome));
            outcomes.push(outcome);
        }
        metrics.extend(
            task.metrics
                .iter()
                .filter_map(|rule| figure(rule, &filter.name, &outcomes, task.bootstrap)),
        );
    }
    metrics.extend(divergence::metrics(&divergence::pieces(replies.iter().flatten())));
    Ok(TaskResult {
        task: task.id(),
        protocol: task.protocol(),
        version: task.version(),
        data_sha256: task.split.sha256.clone(),
        files: task.split.files.clone(),
        notes: task.split.notes.clone(),
        bos_used,
        metrics,
        groups: Vec::new(),
        counts,
        shots: task.shots,
        original: task.original,
        description: Value::Object(task.file.fields.clone()),
        task_hash: task_hash(&task.file),
        samples,
    })
}

fn figure(rule: &MetricRule, filter: &str, outcomes: &[Outcome], draws: usize) -> Option<Metric> {
    let values: Vec<Measured> =
        outcomes.iter().filter_map(|o| o.get(&rule.name)).cloned().collect();
    (!values.is_empty()).then(|| Metric {
        name: rule.name.clone(),
        filter: filter.to_owned(),
        value: rule.aggregation.of(&values),
        stderr: rule.aggregation.standard_error(&values, draws),
        higher_is_better: rule.higher_is_better,
    })
}

fn written(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Generated { text, .. } => Some(text),
        _ => None,
    }
}

fn likelihood(reply: &Reply) -> (f64, bool) {
    match reply {
        Reply::LogLikelihood { log_likelihood, is_greedy, .. } => (*log_likelihood, *is_greedy),
        Reply::Rolling { nll, .. } => (-nll, false),
        _ => (0.0, false),
    }
}

/// Metrics of a document, and whether several choices had the highest score.
fn outcome(
    task: &HarnessTask,
    prompt: &Prompt,
    replies: &[Reply],
    filtered: &[String],
) -> Result<(Outcome, bool), EvaluationError> {
    let pairs: Vec<(f64, bool)> = replies.iter().map(likelihood).collect();
    let likelihoods: Vec<f64> = pairs.iter().map(|(value, _)| *value).collect();
    let own = match task.results.map(|function| &function.kind) {
        Some(Kind::Results(score)) => Some(score(&prompt.fields, &likelihoods)),
        Some(Kind::Answer(scorer)) => {
            Some((scorer.score)(&prompt.fields, filtered.first().map_or("", String::as_str)))
        }
        // Other kinds are rejected when the task is opened.
        _ => None,
    };
    if let Some(outcome) = own {
        let bad = |reason| wrong(task, prompt, "process_results", reason);
        return Ok((outcome.map_err(bad)?, false));
    }
    let metrics = match task.output {
        OutputType::Loglikelihood => {
            let (value, is_greedy) = pairs.first().copied().unwrap_or((f64::NAN, false));
            vec![("perplexity", Measured::Number(value)), ("acc", right(is_greedy))]
        }
        OutputType::LoglikelihoodRolling => {
            let text = text_of(prompt.target.clone());
            let value = likelihoods.first().copied().unwrap_or(f64::NAN);
            let per = |count: usize| Measured::Weighted(value, count as f64);
            vec![
                ("word_perplexity", per(words(&text))),
                ("byte_perplexity", per(text.len())),
                ("bits_per_byte", per(text.len())),
            ]
        }
        OutputType::GenerateUntil => {
            let answer = filtered.first().map_or("", String::as_str);
            let rule = task.metrics.iter().find(|rule| rule.name == "exact_match");
            let is_right = rule.map(|rule| matches(rule, prompt, answer)).transpose();
            let is_right = is_right.map_err(|reason| wrong(task, prompt, "metric_list", reason))?;
            let mut metrics = vec![("exact_match", right(is_right.unwrap_or(false)))];
            metrics.extend(translated(task, prompt, answer)?);
            metrics
        }
        OutputType::MultipleChoice => return Ok(choice(task, prompt, &pairs)),
    };
    let metrics = metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok((metrics, false))
}

/// What is wrong with a document under a field of the task file.
fn wrong(task: &HarnessTask, prompt: &Prompt, field: &str, reason: String) -> EvaluationError {
    let (place, task, field) = (place(prompt), task.id(), field.to_owned());
    EvaluationError::Document { place, task, field, reason }
}

/// What an answer has in common with the one reference, for BLEU, chrF and TER.
fn translated<'t>(
    task: &'t HarnessTask,
    prompt: &Prompt,
    answer: &str,
) -> Result<Vec<(&'t str, Measured)>, EvaluationError> {
    let mut metrics = Vec::new();
    for rule in &task.metrics {
        let Some(score) = rule.translation() else { continue };
        let [reference] = &golds(prompt)[..] else {
            let reason = format!("{} takes one reference, found a list", rule.name);
            return Err(wrong(task, prompt, "doc_to_target", reason));
        };
        let counts = score.counts(reference, answer);
        let texts = [reference.clone(), answer.to_owned()];
        metrics.push((rule.name.as_str(), Measured::Overlap(texts, counts)));
    }
    Ok(metrics)
}

fn right(is_right: bool) -> Measured {
    Measured::Number(f64::from(u8::from(is_right)))
}

/// Metrics of a multiple-choice document.
fn choice(task: &HarnessTask, prompt: &Prompt, pairs: &[(f64, bool)]) -> (Outcome, bool) {
    let count = prompt.choices.len();
    let (pairs, alone) = pairs.split_at(count.min(pairs.len()));
    let scores: Vec<f64> = pairs.iter().map(|(value, _)| *value).collect();
    let per = |length: fn(&str) -> usize| {
        let lengths = prompt.choices.iter().map(|choice| length(choice) as f64);
        let shares: Vec<f64> = scores.iter().zip(lengths).map(|(s, l)| s / l).collect();
        best(&shares).0
    };
    let (likeliest, tie) = best(&scores);
    let is_gold = |choice: usize| prompt.gold.contains(&Some(choice));
    let first = prompt.gold.first().copied().flatten();
    let greedy = if task.multiple_targets {
        prompt.gold.iter().flatten().any(|&gold| pairs.get(gold).is_some_and(|pair| pair.1))
    } else {
        first.and_then(|gold| pairs.get(gold)).is_some_and(|pair| pair.1)
    };
    let mut outcome = Outcome::from([
        ("acc".to_owned(), right(is_gold(likeliest))),
        ("acc_norm".to_owned(), right(is_gold(per(|choice| choice.chars().count())))),
        ("acc_bytes".to_owned(), right(is_gold(per(str::len)))),
        ("exact_match".to_owned(), right(greedy)),
        ("f1".to_owned(), Measured::Classes(first, likeliest)),
        ("mcc".to_owned(), Measured::Classes(first, likeliest)),
        ("brier_score".to_owned(), Measured::Probabilities(first, shares(&scores))),
    ]);
    if alone.len() == count {
        let gains: Vec<f64> = scores.iter().zip(alone).map(|(s, (a, _))| s - a).collect();
        let chosen = Some(best(&gains).0);
        outcome.insert("acc_mutual_info".to_owned(), right(chosen == first));
    }
    outcome.retain(|name, _| task.metrics.iter().any(|rule| rule.name == *name));
    (outcome, tie)
}

/// Softmax of log-likelihoods.
fn shares(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

/// Index of the first maximum, and whether it occurs again.
fn best(scores: &[f64]) -> (usize, bool) {
    let (mut best, mut tie) = (0, false);
    for (index, score) in scores.iter().enumerate().skip(1) {
        if *score > scores[best] {
            (best, tie) = (index, false);
        } else if *score == scores[best] {
            tie = true;
        }
    }
    (best, tie)
}

/// The accepted answers.
fn golds(prompt: &Prompt) -> Vec<String> {
    match (&prompt.target, prompt.choices.is_empty()) {
        (Value::Array(several), true) => several.iter().cloned().map(text_of).collect(),
        (target, true) => vec![text_of(target.clone())],
        (_, false) => {
            prompt.gold.iter().flatten().map(|&gold| prompt.choices[gold].clone()).collect()
        }
    }
}

/// Whether an answer equals an accepted one, under the options of `exact_match`. Errors are the
/// reason only.
fn matches(rule: &MetricRule, prompt: &Prompt, answer: &str) -> Result<bool, String> {
    let golds = golds(prompt);
    let is_set = |name: &str| rule.options.get(name).and_then(Value::as_bool) == Some(true);
    let ignored = rule.ignored()?;
    let plain = |text: &str| {
        let mut text = text.to_owned();
        for pattern in &ignored {
            let rest = pattern.try_replacen(&text, 0, "");
            text = rest.map_err(|error| format!("regexes_to_ignore: {error}"))?.into_owned();
        }
        if is_set("ignore_case") {
            text = text.to_lowercase();
        }
        if is_set("ignore_punctuation") {
            text.retain(|c| !c.is_ascii_punctuation());
        }
        if is_set("ignore_numbers") {
            text.retain(|c| !c.is_ascii_digit());
        }
        Ok::<_, String>(text)
    };
    let answer = plain(answer)?;
    for gold in &golds {
        if plain(gold)? == answer {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A sample, in the format of the harness's log.
fn sample(
    task: &HarnessTask,
    prompt: &Prompt,
    replies: &[Reply],
    filtered: &[String],
    filter: &str,
    outcome: &Outcome,
) -> Sample {
    let requests = task.requests(prompt);
    let mut arguments = Map::new();
    // Several answers of a document are to one request.
    let is_generated = task.output == OutputType::GenerateUntil;
    let asked = if is_generated { 1 } else { requests.len() };
    for (index, request) in requests.iter().take(asked).enumerate() {
        let values = match request {
            Request::LogLikelihood { context, continuation, .. } => {
                json!({"arg_0": context, "arg_1": continuation})
            }
            Request::Rolling { text, .. } => json!({"arg_0": text}),
            Request::Cloze(cloze) => json!({"arg_0": cloze.context, "arg_1": cloze.answers}),
            Request::Similarity([one, other]) => json!({"arg_0": one, "arg_1": other}),
            Request::Generate { context, .. } => {
                json!({"arg_0": context, "arg_1": task.answers.json()})
            }
        };
        arguments.insert(format!("gen_args_{index}"), values);
    }
    let truth = |is: bool| if is { "True" } else { "False" };
    let reply = |reply: &Reply| match reply {
        Reply::LogLikelihood { log_likelihood, is_greedy, .. } => {
            json!([log_likelihood.to_string(), truth(*is_greedy)])
        }
        Reply::Rolling { nll, .. } => json!((-nll).to_string()),
        Reply::Generated { text, .. } | Reply::Infilled { text, .. } => json!(text),
        Reply::Similarity { cosine, .. } => json!(cosine),
    };
    let replied: Vec<Value> = replies.iter().map(reply).collect();
    let chosen = if filtered.is_empty() { json!(replied) } else { json!(filtered) };
    let each = replied.iter().map(|reply| json!([reply])).collect();
    let target = text_of(prompt.target.clone());
    let first = requests.first().map_or("", |request| request.text());
    let document = serde_json::to_string_pretty(&prompt.fields).unwrap_or_default();
    let mut record = Map::new();
    for (name, value) in [
        ("doc_id", json!(prompt.index)),
        ("doc", Value::Object(prompt.fields.clone())),
        ("target", json!(target)),
        ("arguments", Value::Object(arguments)),
        ("resps", if is_generated { json!([replied]) } else { each }),
        ("filtered_resps", chosen),
        ("filter", json!(filter)),
        ("metrics", outcome.keys().cloned().collect()),
        ("doc_hash", json!(sha256_hex(document.as_bytes()))),
        ("prompt_hash", json!(sha256_hex(first.as_bytes()))),
        ("target_hash", json!(sha256_hex(target.as_bytes()))),
    ] {
        record.insert(name.to_owned(), value);
    }
    record.extend(outcome.iter().map(|(name, value)| (name.clone(), value.json())));
    let numbers = outcome.iter().filter_map(|(name, value)| Some((name.clone(), value.number()?)));
    let (filter, numbers) = (filter.to_owned(), numbers.collect());
    Sample { place: place(prompt), filter, group: None, numbers, record }
}
