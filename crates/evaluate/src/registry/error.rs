//! Errors in the tasks that a command requests.

use super::TaskOption;
use linwright_run::shown;

/// Tasks, data or options that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// No task is requested.
    #[error("no task, text or questions to evaluate")]
    Nothing,
    /// A name twice among those of the command.
    #[error("--tasks names {} twice", shown(name))]
    Named {
        /// The name.
        name: String,
    },
    /// Two tasks with one name.
    #[error("two tasks are called {}", shown(name))]
    Twice {
        /// The name.
        name: String,
    },
    /// An option that none of the tasks reads.
    #[error("{} applies to none of the tasks", option.flag())]
    Unread {
        /// The option.
        option: TaskOption,
    },
    /// A task without its data.
    #[error("{task} has no {what}")]
    NoData {
        /// The task.
        task: String,
        /// Its data.
        what: &'static str,
    },
    /// Data of a task that was not requested.
    #[error("--data names {}, which is not a task of this command", shown(task))]
    OtherData {
        /// The name.
        task: String,
    },
    /// Data of a split, for a task without splits.
    #[error("--data {task}:{}: this task has no such split", shown(split))]
    NoSplit {
        /// The task.
        task: String,
        /// The split.
        split: String,
    },
    /// Selected documents of a task that was not requested, or has no indices.
    #[error(
        "--samples names {}{}", shown(name),
        if tasks.is_empty() {
            "; it applies only to task files".to_owned()
        } else {
            format!(", which is not a task of this command; its tasks are {}", tasks.join(", "))
        }
    )]
    OtherSamples {
        /// The name.
        name: String,
        /// The tasks whose documents are selected by index.
        tasks: Vec<String>,
    },
    /// Several tasks or none where one is expected.
    #[error("{count} evaluation tasks, expected one")]
    NotOne {
        /// The number.
        count: usize,
    },
    /// A name of several tasks where one is expected.
    #[error("several tasks, expected one")]
    Several,
    /// An option that is incompatible with a division into validation and test items.
    #[error("this command does not support {}", option.flag())]
    NotWithParts {
        /// The option.
        option: TaskOption,
    },
    /// A task without a division into validation and test items.
    #[error("--tasks {task} is not divided into validation and test items")]
    NotDivided {
        /// The task.
        task: String,
    },
    /// A task whose division is fixed.
    #[error("shuffle does not apply to the data sets of the LASER paper")]
    Shuffled,
    /// Too few items for a division.
    #[error("{count} items; a fifth of them is used for selection, so at least 5 are needed")]
    TooFew {
        /// The number of items.
        count: usize,
    },
}

impl RegistryError {
    /// What to do next, if known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Nothing => {
                "give --tasks NAME,... or --text FILE; --tasks questions --data questions=FILE for \
                 questions"
                    .into()
            }
            Self::Unread { option } => format!("it is for {}", option.readers()),
            Self::NoData { task, .. } => format!("give --data {task}=FILE"),
            Self::NoSplit { task, .. } => {
                format!(
                    "give its files in order, --data {task}=FILE, and choose with --laser-split"
                )
            }
            Self::NotOne { .. } => "give one of --tasks NAME and --text FILE".into(),
            Self::Several => "name a single task, not a group".into(),
            Self::NotWithParts { .. } => {
                "it splits validation and test items itself, and uses no chat template".into()
            }
            Self::NotDivided { .. } => {
                "give --tasks questions --data questions=FILE, or --text FILE".into()
            }
            Self::Shuffled => {
                "the paper validates on the first fifth, in the order of the files".into()
            }
            Self::Named { .. }
            | Self::Twice { .. }
            | Self::OtherData { .. }
            | Self::OtherSamples { .. }
            | Self::TooFew { .. } => return None,
        })
    }
}
