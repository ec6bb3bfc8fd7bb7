//! Common parts of the attribution commands: models with their examples, stores with their origin,
//! and scores by any method.

pub(crate) mod best;
pub(crate) mod cache;
mod encoding;
mod examples;
pub(crate) mod fisher;
pub(crate) mod lds;
mod origin;
pub(crate) mod recall;
pub(crate) mod score;
mod scores;
pub(crate) mod self_influence;
pub(crate) mod show;
mod subject;
pub(crate) mod world;

pub(in crate::jobs) use examples::{Data, ExampleOptions, Reading, Texts};
pub(in crate::jobs) use origin::{Opened, Origin, described, identity};
pub(in crate::jobs) use scores::{Scorer, ScoringOptions};
pub(in crate::jobs) use subject::{Subject, Work};

use crate::jobs::kit::{Failure, Session};
use linwright_attribute::Scored;
use linwright_run::undefined::or_nan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A scored example of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScoredExample {
    /// Its number in the store, from zero.
    pub index: usize,
    /// Its id: a text or a number.
    pub id: Value,
    /// Its score.
    #[serde(deserialize_with = "or_nan")]
    pub score: f64,
}

impl ScoredExample {
    /// An example with its id among those of all.
    pub(in crate::jobs) fn of(scored: &Scored, ids: &[Value]) -> Self {
        let Scored { index, score } = *scored;
        Self { index, id: ids[index].clone(), score }
    }
}

/// An id for readers: a text without quotes.
pub(in crate::jobs) fn shown_id(id: &Value) -> String {
    match id {
        Value::String(text) => linwright_run::shown(text),
        other => other.to_string(),
    }
}

/// The first words of a text, for a table.
pub(in crate::jobs) fn beginning(text: &str) -> String {
    const SHOWN: usize = 60;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}..", linwright_run::shown(&line[..end])),
        None => linwright_run::shown(&line),
    }
}

/// The damping that an option asks for.
pub(in crate::jobs) fn damping_of(
    text: Option<&str>,
) -> Result<linwright_attribute::Damping, Failure> {
    Ok(text.unwrap_or("relative:0.1").parse()?)
}

/// Notes about the examples that were read.
pub(in crate::jobs) fn tell(data: &Data, name: &str, session: &Session<'_>) {
    if let Data::Texts(texts) = data
        && texts.cut > 0
    {
        let longest = texts.longest;
        let count = texts.cut;
        session.note(&format!("note: {count} texts of {name} were cut after {longest} tokens"));
    }
}
