//! The smallest task of one data file: how likely is each line?

use super::task::remove_at;
use super::{
    Bos, Counts, EvaluationError, FileTask, Item, Metric, Reply, Request, Task, TaskResult,
};
use linwright_data::{Table, TableFormat};
use serde_json::Value;

/// Registry entry of this task.
pub(super) const ENTRY: FileTask = FileTask {
    name: "dummy",
    summary: "mean log-likelihood of the lines of a file",
    reads: &[],
    is_divided: true,
    open: |path, options| {
        let table = Table::open(path, TableFormat::Text, None)?;
        let rows = table.rows.iter().take(options.limit.unwrap_or(usize::MAX));
        let line = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines = rows.filter_map(|row| row.fields.get("text").map(line)).collect();
        Ok(Box::new(Dummy { lines, bos: options.bos }))
    },
};

struct Dummy {
    lines: Vec<String>,
    bos: Bos,
}

impl Task for Dummy {
    fn id(&self) -> String {
        ENTRY.name.to_owned()
    }

    fn version(&self) -> f64 {
        1.0
    }

    fn bos(&self) -> Bos {
        self.bos
    }

    fn items(&self) -> Vec<Item<'_>> {
        let item = |(index, line): (usize, &String)| Item {
            place: format!("line {}", index + 1),
            requests: vec![Request::LogLikelihood {
                context: "".into(),
                continuation: line.clone().into(),
                details: None,
            }],
            own: &[],
        };
        self.lines.iter().enumerate().map(item).collect()
    }

    fn leave_out(&mut self, indices: &[usize]) -> bool {
        remove_at(&mut self.lines, indices);
        true
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        let mut counts = Counts { items: replies.len(), ..Counts::default() };
        let nats = |reply: &Reply| match reply {
            Reply::LogLikelihood { log_likelihood, .. } => *log_likelihood,
            _ => 0.0,
        };
        let sum: f64 = replies.iter().flatten().inspect(|reply| counts.add(reply)).map(nats).sum();
        let metrics = vec![Metric::new("nats", sum / replies.len() as f64, None, true)];
        Ok(TaskResult { task: self.id(), bos_used, metrics, counts, ..TaskResult::default() })
    }
}
