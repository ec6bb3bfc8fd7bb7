//! The little world in plain English: the training text of the built-in model `pocket`.
//!
//! It has stories of known entropy, drawn from a grammar ([`Grammar`]); facts about a hundred and
//! sixty people, forty towns and forty-eight treasures, each stated a known number of times in
//! training text; small sums; and attention games. Everything is determined by [`WorldSettings`],
//! including the seed.
//!
//! Held-out stories are drawn first; a training story that shares [`RUN`] consecutive sentences
//! with one of them is redrawn. Stories contain no facts, so the number of statements of a fact is
//! exact.

mod facts;
mod games;
mod grammar;
mod lexicon;
mod stories;
mod sums;

pub use facts::{Band, Fact, FactQuestion};
pub use grammar::{Grammar, GrammarError, Lexicon, Sample};
pub use stories::{RUN, runs, story_grammar};

use linwright_tensor::{RngKey, parallel};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stories::StorySampler;

/// Settings that determine a world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldSettings {
    /// Seed; each seed has other facts and stories.
    pub seed: u64,
    /// Number of stories in the training text.
    pub stories: usize,
    /// Number of documents of sums in the training text.
    pub sums: usize,
    /// Number of attention games in the training text.
    pub games: usize,
    /// Number of statements in a document of facts, and of lines in one of sums.
    pub lines: usize,
    /// Numbers of statements of facts.
    pub bands: Vec<Band>,
    /// Number of held-out stories for validation.
    pub validation: usize,
    /// Number of held-out stories for test.
    pub test: usize,
}

impl Default for WorldSettings {
    /// The world of `pocket`.
    fn default() -> Self {
        let band = |name: &str, least, most| Band { name: name.to_owned(), least, most };
        Self {
            seed: 1,
            stories: 25_000,
            sums: 1_500,
            games: 5_000,
            lines: 8,
            bands: vec![band("rare", 7, 13), band("medium", 40, 60), band("frequent", 200, 240)],
            validation: 100,
            test: 400,
        }
    }
}

/// A world: its facts and its held-out stories. Training text is generated on demand.
#[derive(Clone, Debug)]
pub struct World {
    settings: WorldSettings,
    grammar: Grammar,
    facts: Vec<Fact>,
    validation: Vec<Sample>,
    test: Vec<Sample>,
}

/// The training text of a world.
#[derive(Clone, Debug)]
pub struct Training {
    /// All documents, shuffled.
    pub documents: Vec<String>,
    /// Number of stories redrawn because of overlap with a held-out one.
    pub redrawn: u64,
}

impl World {
    /// Draws facts and held-out stories.
    #[must_use]
    pub fn new(settings: WorldSettings) -> Self {
        let (key, grammar) = (RngKey::new(settings.seed).fold("world"), story_grammar());
        let held_out = |label: &str, count: usize| -> Vec<Sample> {
            let key = key.fold(label);
            let draw = |index| grammar.sample(&mut key.fold_index(index).stream());
            (0..count as u64).map(draw).collect()
        };
        let validation = held_out("validation", settings.validation);
        let test = held_out("test", settings.test);
        let facts = facts::facts(key.fold("facts"), &settings.bands);
        Self { settings, grammar, facts, validation, test }
    }

    /// Settings of this world.
    #[must_use]
    pub fn settings(&self) -> &WorldSettings {
        &self.settings
    }

    /// All facts.
    #[must_use]
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// Held-out stories for validation, with their information.
    #[must_use]
    pub fn validation(&self) -> &[Sample] {
        &self.validation
    }

    /// Held-out stories for test, with their information.
    #[must_use]
    pub fn test(&self) -> &[Sample] {
        &self.test
    }

    /// One question per fact.
    #[must_use]
    pub fn questions(&self) -> Vec<FactQuestion> {
        let key = self.key().fold("questions");
        let ask = |(index, fact): (usize, &Fact)| {
            fact.question(&mut key.fold_index(index as u64).stream())
        };
        self.facts.iter().enumerate().map(ask).collect()
    }

    /// The training text: stories, facts, sums and games in random order.
    #[must_use]
    pub fn training(&self) -> Training {
        let key = self.key();
        let sampler = StorySampler::avoiding(&self.grammar, &[&self.validation, &self.test]);
        let pieces: Vec<usize> = (0..self.settings.stories).step_by(PIECE).collect();
        let stories = parallel::map(pieces, |_, first| {
            let last = (first + PIECE).min(self.settings.stories);
            let key = key.fold("stories");
            (first..last).map(|index| sampler.draw(key, index as u64)).collect::<Vec<_>>()
        });
        let mut documents = Vec::new();
        let mut redrawn = 0;
        for (story, times) in stories.into_iter().flatten() {
            documents.push(story.text);
            redrawn += times;
        }
        let lines = self.settings.lines;
        documents.extend(facts::fact_documents(key.fold("statements"), &self.facts, lines));
        documents.extend(sums::documents(key.fold("sums"), self.settings.sums, lines));
        documents.extend(games::documents(key.fold("games"), self.settings.games));
        key.fold("order").stream().shuffle(&mut documents);
        Training { documents, redrawn }
    }

    fn key(&self) -> RngKey {
        RngKey::new(self.settings.seed).fold("world")
    }
}

/// Stories per work item.
const PIECE: usize = 1024;

/// SHA-256 over documents, each followed by a zero byte, in hexadecimal.
#[must_use]
pub fn documents_sha256<S: AsRef<str>>(documents: &[S]) -> String {
    let mut hash = Sha256::new();
    for document in documents {
        hash.update(document.as_ref().as_bytes());
        hash.update([0]);
    }
    hexadecimal(&hash.finalize())
}

/// SHA-256 of bytes, in hexadecimal.
#[must_use]
pub fn bytes_sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
