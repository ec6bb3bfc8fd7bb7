//! Options and data sets of the LASER tasks.

use super::TaskArgs;
use crate::args::one_of;
use crate::failure::Failure;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use linwright::evaluate::{LaserOptions, LaserSet, LaserTask, Scoring, Split};

/// Options of the tasks whose names begin with `laser_`.
#[derive(Clone, Debug, Args)]
pub(super) struct LaserTaskArgs {
    /// Scoring of `laser_` tasks: `correct` scores the generated answer, `compat` reproduces the
    /// paper's code, including its defects.
    #[arg(long, default_value = "correct", value_parser = one_of(&Scoring::ALL, Scoring::name))]
    laser_scoring: Scoring,
    /// Largest number of generated tokens in `laser_` tasks with generated answers; with 1 the most
    /// likely token must be the answer [default: that of the data set].
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    laser_new_tokens: Option<usize>,
    /// Records of `laser_` tasks to use: `validation` is the first fifth, in the order of the
    /// files, `test` the rest.
    #[arg(long, default_value = "all", value_parser = one_of(&Split::ALL, Split::name))]
    pub(super) split: Split,
}

impl LaserTaskArgs {
    /// Refuses options that apply to none of the tasks.
    pub(super) fn check(&self, tasks: &[String]) -> Result<(), Failure> {
        let sets: Vec<&LaserSet> = tasks.iter().filter_map(|name| LaserSet::named(name)).collect();
        let unread = [
            ("--laser-scoring", self.laser_scoring != Scoring::default() && sets.is_empty()),
            ("--split", self.split != Split::default() && sets.is_empty()),
            (
                "--laser-new-tokens",
                self.laser_new_tokens.is_some() && !sets.iter().any(|set| set.is_generated()),
            ),
        ];
        match unread.iter().find(|(_, is_unread)| *is_unread) {
            Some((option, _)) => {
                Err(Failure::usage(format!("{option} applies to none of the tasks"))
                    .hint("it is for tasks of `linwright ls tasks` whose names begin with laser_"))
            }
            None => Ok(()),
        }
    }
}

/// The task of a LASER data set.
pub(super) fn laser_task(
    set: &'static LaserSet,
    args: &TaskArgs,
    whole_texts: bool,
) -> Result<LaserTask, Failure> {
    let mut files = Vec::new();
    for data in args.data.iter().filter(|data| data.task == set.name) {
        if let Some(split) = &data.split {
            return Err(Failure::usage(format!(
                "--data {}:{split}: this task has no such split",
                set.name
            ))
            .hint(format!(
                "give its files in order, --data {}=FILE, and choose with --split",
                set.name
            )));
        }
        files.push(data.path.clone());
    }
    let options = LaserOptions {
        files,
        scoring: args.laser.laser_scoring,
        split: args.laser.split,
        new_tokens: args.laser.laser_new_tokens,
        limit: args.limit,
        bos: args.bos,
        whole_texts,
    };
    Ok(LaserTask::open(set, &options)?)
}
