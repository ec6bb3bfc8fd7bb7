//! Readers of task files, recipes and plans. Their messages may quote lines of the file.

use super::few;
use crate::signature::signature;
use linwright::flow::FlowSpec;
use linwright::nets::{Batch, Net, NetError, NetSpec};
use linwright::recipes;
use linwright_compress::plan::parse_plan;
use linwright_evaluate::prompt_of_text;
use linwright_tensor::{Mat, RngKey};
use serde_json::{Map, Value, json};
use std::fmt::Debug;
use std::path::Path;

/// Outcome for an input: `read ...`, or the kind of error.
pub(super) fn outcome<E: Debug>(result: Result<String, E>) -> String {
    match result {
        Ok(read) => format!("read {read}"),
        Err(error) => signature(&format!("{error:?}")),
    }
}

/// Reads a task file and writes its prompt for a document.
pub(super) fn task_file(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    let document = json!({
        "question": "How old is the moon?", "choices": {"text": ["old", "it's new"], "label": ["A", "B"]},
        "answerKey": "A", "label": 1, "text": "one two  three", "nothing": null,
    });
    let document: Map<String, Value> = document.as_object().cloned().unwrap_or_default();
    outcome(prompt_of_text(text, &document).map(|prompt| {
        let lines = prompt.as_deref().map(|prompt| few(prompt.lines().count()));
        format!("{lines:?} {}", prompt.is_some_and(|prompt| prompt.contains("moon")))
    }))
}

/// Reads a recipe of jobs, with the options of each job, and writes it again.
pub(super) fn jobs(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    let path = Path::new("recipe.yaml");
    let list = match recipes::read(path, "recipe", text, &[]) {
        Ok(list) => list,
        Err(error) => return signature(&format!("{error:?}")),
    };
    outcome(list.check().map(|()| {
        let written = list.to_value().to_string();
        let again = recipes::read(path, "recipe", &written, &[]);
        let again = again.unwrap_or_else(|error| panic!("{error:?}: {written}"));
        assert_eq!(again.to_value(), list.to_value(), "{written}");
        let verbs: Vec<&str> = list.entries.iter().map(|entry| entry.verb.name).collect();
        format!("{} jobs, first {:?}", few(verbs.len()), verbs.first())
    }))
}

/// Reads a plan of edits.
pub(super) fn plan(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    outcome(parse_plan(Path::new("plan"), text).map(|plan| {
        let text = if plan.needs_text() { "fits" } else { "cuts" };
        format!("{} edits, {text}", few(plan.edits.len()))
    }))
}

/// Largest size of a network, and of one example between two layers, that is run.
const MOST_OF_NET: usize = 1 << 14;

/// Reads the description of a flow.
pub(super) fn flow(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    outcome(FlowSpec::parse(Path::new("config.json"), text).map(|spec| {
        let sizes = [spec.levels, spec.steps, spec.hidden].map(few);
        let layer = spec.layer.to_string();
        let kind = layer.split(':').next().unwrap_or_default();
        format!("{kind} of {sizes:?}, image: {}", spec.is_image())
    }))
}

/// Reads a description of a small network, and passes an example through a small one, and back.
pub(super) fn net(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".into() };
    outcome(NetSpec::parse(Path::new("net.yaml"), text).map(|(spec, weights)| {
        let layers = format!("{} layers, {}", few(spec.layers.len()), weights.is_some());
        let mut left = MOST_OF_NET;
        let built = Net::<f32>::build(&spec, |name, shape| {
            let count: usize = shape.iter().product();
            left = left.checked_sub(count).ok_or(NetError::InputNotFinite)?;
            Ok(vec![if name.ends_with("running_var") { 1.0 } else { 0.01 }; count])
        });
        let Ok(mut net) = built else { return layers };
        let input = net.input();
        if input.numbers().max(net.output().numbers()) > MOST_OF_NET {
            return layers;
        }
        let rows = Mat::from_fn(input.places(), input.channels, |i, j| (i + j) as f32 / 8.0);
        let passed = net.pass(&Batch { rows, examples: 1 }, Some(RngKey::new(1)));
        let Ok((y, passed)) = passed else { return format!("{layers}, no pass") };
        let (gradients, _) = net.gradients(passed, y);
        format!("{layers}, {} tensors", few(gradients.len()))
    }))
}
