//! Options and data sets of the LASER tasks.

use crate::jobs::EvaluationOptions;
use crate::jobs::Failure;
use linwright_evaluate::{LaserOptions, LaserSet, LaserTask, Scoring, Split};

/// Refuses options of `laser_` tasks that apply to none of the tasks.
pub(super) fn check(asked: &EvaluationOptions) -> Result<(), Failure> {
    let sets: Vec<&LaserSet> =
        asked.tasks.iter().filter_map(|name| LaserSet::named(name)).collect();
    let unread = [
        ("--laser-scoring", asked.laser_scoring != Scoring::default() && sets.is_empty()),
        ("--split", asked.split != Split::default() && sets.is_empty()),
        (
            "--laser-new-tokens",
            asked.laser_new_tokens.is_some() && !sets.iter().any(|set| set.is_generated()),
        ),
    ];
    match unread.iter().find(|(_, is_unread)| *is_unread) {
        Some((option, _)) => Err(Failure::usage(format!("{option} applies to none of the tasks"))
            .hint("it is for tasks of `linwright ls tasks` whose names begin with laser_")),
        None => Ok(()),
    }
}

/// The task of a LASER data set.
pub(super) fn laser_task(
    set: &'static LaserSet,
    args: &EvaluationOptions,
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
        scoring: args.laser_scoring,
        split: args.split,
        new_tokens: args.laser_new_tokens,
        limit: args.limit,
        bos: args.bos,
        whole_texts,
    };
    Ok(LaserTask::open(set, &options)?)
}
