//! A task of one's own: does the model prefer the natural order of two words?
//! `cargo run --example 04_own_task -- MODEL_DIR`
#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use linwright::evaluate::{
    Bos, Counts, EvaluationError, Hooks, Item, Metric, Reply, Request, RunOptions, Subject, Task,
    TaskResult, evaluate,
};
use linwright::model::checkpoint::load;
use std::borrow::Cow;
use std::error::Error;
use std::path::Path;

/// Pairs in their natural order.
const PAIRS: [(&str, &str); 4] =
    [("salt", "pepper"), ("bread", "butter"), ("day", "night"), ("black", "white")];

struct WordOrder;

impl Task for WordOrder {
    fn id(&self) -> String {
        "word_order".to_owned()
    }

    fn version(&self) -> f64 {
        1.0
    }

    fn bos(&self) -> Bos {
        Bos::Auto
    }

    fn items(&self) -> Vec<Item<'_>> {
        let request = |text: String| Request::LogLikelihood {
            context: Cow::Borrowed("They said:"),
            continuation: Cow::Owned(text),
            details: None,
        };
        let item = |(first, second): &(&str, &str)| Item {
            place: format!("{first} and {second}"),
            requests: vec![
                request(format!(" {first} and {second}")),
                request(format!(" {second} and {first}")),
            ],
            own: &[],
        };
        PAIRS.iter().map(item).collect()
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        let value = |reply: &Reply| {
            let Reply::LogLikelihood { log_likelihood, .. } = reply else { return f64::NAN };
            *log_likelihood
        };
        let right = replies.iter().filter(|pair| value(&pair[0]) > value(&pair[1])).count();
        let share = right as f64 / replies.len() as f64;
        let metrics = vec![Metric::new("acc", share, None, true)];
        let counts = Counts { items: replies.len(), ..Counts::default() };
        Ok(TaskResult { task: self.id(), metrics, counts, bos_used, ..TaskResult::default() })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let model = std::env::args().nth(1).ok_or("expected a model directory")?;
    println!("accuracy {:.2}", accuracy(Path::new(&model))?);
    Ok(())
}

pub(crate) fn accuracy(model: &Path) -> Result<f64, Box<dyn Error>> {
    let loaded = load(model)?;
    let tokenizer = loaded.tokenizer.as_ref().ok_or("the model has no tokenizer")?;
    let subject = Subject::new(&loaded.decoder, tokenizer);
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
    let result = evaluate(&WordOrder, &subject, &RunOptions::default(), &mut hooks)?.complete()?;
    Ok(result.metrics[0].value)
}
