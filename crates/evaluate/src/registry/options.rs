//! Options of tasks, and which of them were given.

use crate::{DataFile, HarnessOptions, LaserOptions, Scoring, Split, TaskOptions};

/// An option that some tasks read and others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOption {
    /// Window of perplexity.
    Window,
    /// Stride of perplexity.
    Stride,
    /// Whether only the second half of windows counts.
    SecondHalf,
    /// Whether documents are joined.
    Join,
    /// Field with the text.
    TextField,
    /// Number of few-shot examples.
    Shots,
    /// Seed of few-shot examples.
    ShotsSeed,
    /// Bootstrap iterations.
    Bootstrap,
    /// System instruction.
    Instruction,
    /// The chat template.
    Chat,
    /// Documents by index.
    Samples,
    /// Scoring of the data sets of LASER.
    Scoring,
    /// Part of the data sets of LASER.
    Split,
    /// Largest number of generated tokens in the data sets of LASER.
    NewTokens,
}

impl TaskOption {
    /// Its flag.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Window => "--window",
            Self::Stride => "--stride",
            Self::SecondHalf => "--second-half",
            Self::Join => "--join",
            Self::TextField => "--text-field",
            Self::Shots => "--num-fewshot",
            Self::ShotsSeed => "--fewshot-seed",
            Self::Bootstrap => "--bootstrap-iters",
            Self::Instruction => "--system-instruction",
            Self::Chat => "--apply-chat-template",
            Self::Samples => "--samples",
            Self::Scoring => "--laser-scoring",
            Self::Split => "--laser-split",
            Self::NewTokens => "--laser-new-tokens",
        }
    }

    /// The tasks that read it, for advice.
    #[must_use]
    pub fn readers(self) -> &'static str {
        match self {
            Self::Window | Self::Stride | Self::SecondHalf | Self::Join => {
                "the perplexity of a text (--text)"
            }
            Self::TextField => "tasks of texts",
            Self::Shots
            | Self::ShotsSeed
            | Self::Bootstrap
            | Self::Instruction
            | Self::Chat
            | Self::Samples => "task files of lm-evaluation-harness",
            Self::Scoring | Self::Split | Self::NewTokens => {
                "tasks of `linwright ls tasks` whose names begin with laser_"
            }
        }
    }

    /// Whether task files of lm-evaluation-harness read it.
    pub(crate) fn is_of_harness(self) -> bool {
        match self {
            Self::Shots
            | Self::ShotsSeed
            | Self::Bootstrap
            | Self::Instruction
            | Self::Chat
            | Self::Samples => true,
            Self::Window
            | Self::Stride
            | Self::SecondHalf
            | Self::Join
            | Self::TextField
            | Self::Scoring
            | Self::Split
            | Self::NewTokens => false,
        }
    }
}

/// Options of all tasks; each reads those that concern it.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions<'a> {
    /// Files of tasks, or of splits of their data sets.
    pub data: Vec<DataFile>,
    /// Options of texts, and limit and beginning-of-sequence token of all tasks.
    pub(crate) text: TaskOptions,
    pub(crate) harness: HarnessOptions<'a>,
    pub(crate) laser: LaserOptions,
    /// Names of tasks that only other parts of the command read; they may have data, too.
    pub(crate) elsewhere: Vec<String>,
}

impl<'a> OpenOptions<'a> {
    /// Joins options; data files, limit and beginning-of-sequence token in `harness` and `laser`
    /// are replaced by those of `data` and `text`.
    #[must_use]
    pub fn new(
        data: Vec<DataFile>,
        text: TaskOptions,
        harness: HarnessOptions<'a>,
        laser: LaserOptions,
    ) -> Self {
        let (limit, bos) = (text.limit, text.bos);
        let harness = HarnessOptions { limit, bos, data: data.clone(), ..harness };
        let laser = LaserOptions { limit, bos, files: Vec::new(), ..laser };
        Self { data, text, harness, laser, elsewhere: Vec::new() }
    }

    /// Allows data of tasks with these names, which another part of the command reads.
    #[must_use]
    pub fn beside(self, elsewhere: &[String]) -> Self {
        Self { elsewhere: elsewhere.to_vec(), ..self }
    }

    /// Options with other values than the defaults.
    #[must_use]
    pub fn given(&self) -> Vec<TaskOption> {
        let Self { data: _, text, harness, laser, elsewhere: _ } = self;
        let default = TaskOptions::default();
        let given = [
            (TaskOption::Window, text.window != default.window),
            (TaskOption::Stride, text.stride != text.window),
            (TaskOption::SecondHalf, text.second_half),
            (TaskOption::Join, text.join != default.join),
            (TaskOption::Shots, harness.shots.is_some()),
            (TaskOption::ShotsSeed, harness.shots_seed.is_some_and(|seed| seed != 1234)),
            (TaskOption::Bootstrap, harness.bootstrap.is_some_and(|count| count != 100_000)),
            (TaskOption::Instruction, !harness.instruction.is_empty()),
            (TaskOption::Chat, harness.chat.is_some()),
            (TaskOption::Samples, !harness.samples.is_empty()),
            (TaskOption::Scoring, laser.scoring != Scoring::default()),
            (TaskOption::Split, laser.split != Split::default()),
            (TaskOption::NewTokens, laser.new_tokens.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option).collect()
    }
}
