//! Stories, of which held-out ones share no run of sentences with training ones.

use super::grammar::{Grammar, GrammarError, Sample};
use super::lexicon::lexicon;
use linwright_tensor::RngKey;
use std::collections::{BTreeMap, HashSet};

const PLOTS: &str = include_str!("plots.txt");

/// Number of consecutive sentences that no training story shares with a held-out one. Runs of one
/// or two sentences recur by chance, since the grammar has few short sentences.
pub const RUN: usize = 3;

/// The grammar of the stories of the little world.
///
/// # Panics
/// Never for the built-in plots; a test reads them.
#[must_use]
pub fn story_grammar() -> Grammar {
    read(PLOTS).unwrap_or_else(|error| panic!("the built-in plots: {error}"))
}

fn read(source: &str) -> Result<Grammar, GrammarError> {
    let mut parts = BTreeMap::new();
    let mut plots: Vec<String> = Vec::new();
    let mut open = false;
    for line in source.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, text)) = line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            parts.insert(format!("<{name}>"), text.to_owned());
        } else if line.is_empty() {
            open = false;
        } else if open && let Some(plot) = plots.last_mut() {
            plot.push(' ');
            plot.push_str(line);
        } else {
            plots.push(line.to_owned());
            open = true;
        }
    }
    for (name, text) in &parts {
        for plot in &mut plots {
            *plot = plot.replace(name, text);
        }
    }
    // Parts may use other parts, to a depth of one.
    for (name, text) in &parts {
        for plot in &mut plots {
            *plot = plot.replace(name, text);
        }
    }
    Grammar::new(lexicon(), &plots)
}

/// All runs of [`RUN`] sentences of a text.
pub fn runs(text: &str) -> impl Iterator<Item = &str> {
    let mut borders = vec![0];
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        // A sentence ends at its punctuation mark, or at the quote after it.
        if matches!(byte, b'.' | b'?' | b'!') {
            let quoted = bytes.get(at + 1) == Some(&b'"');
            borders.push(at + 1 + usize::from(quoted));
        }
    }
    let count = borders.len().saturating_sub(RUN);
    (0..count).map(move |first| text[borders[first]..borders[first + RUN]].trim())
}

/// Draws stories that share no run of sentences with given ones.
#[derive(Debug)]
pub(super) struct StorySampler<'a> {
    grammar: &'a Grammar,
    forbidden: HashSet<&'a str>,
}

impl<'a> StorySampler<'a> {
    /// A sampler that avoids every run of the given stories.
    pub(super) fn avoiding(grammar: &'a Grammar, stories: &[&'a [Sample]]) -> Self {
        let stories = stories.iter().flat_map(|stories| stories.iter());
        let forbidden = stories.flat_map(|story| runs(&story.text)).collect();
        Self { grammar, forbidden }
    }

    /// The story of `key` with this index, and how often it was redrawn.
    pub(super) fn draw(&self, key: RngKey, index: u64) -> (Sample, u64) {
        let key = key.fold_index(index);
        let mut redrawn = 0;
        loop {
            let story = self.grammar.sample(&mut key.fold_index(redrawn).stream());
            if !runs(&story.text).any(|run| self.forbidden.contains(run)) {
                return (story, redrawn);
            }
            redrawn += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_read_and_a_parse_finds_the_information_of_each_story_again() {
        let grammar = story_grammar();
        for index in 0..300 {
            let story = grammar.sample(&mut RngKey::new(5).fold_index(index).stream());
            let parsed = -grammar.probability(&story.text).ln();
            assert!((parsed - story.nats).abs() < 1e-9, "{parsed} {}: {}", story.nats, story.text);
            assert!(story.text.is_ascii() && !story.text.contains("  "), "{}", story.text);
            assert!(!story.text.contains(['<', '>', '{', '[']), "{}", story.text);
        }
    }

    #[test]
    fn runs_are_of_three_sentences() {
        let text = "One. \"Two?\" said A. Three! Four.";
        let found: Vec<&str> = runs(text).collect();
        assert_eq!(
            found,
            ["One. \"Two?\" said A.", "\"Two?\" said A. Three!", "said A. Three! Four."]
        );
        assert_eq!(runs("One. Two.").count(), 0);
    }

    #[test]
    fn a_sampler_avoids_what_is_forbidden() {
        let grammar = Grammar::new(
            super::super::grammar::Lexicon::default().with("w", &["a", "b", "c"]),
            &["{x=w}. {y=w}. Z.".to_owned()],
        )
        .expect("reads");
        let held_out = [Sample { text: "a. a. Z.".into(), nats: 0.0 }];
        let sampler = StorySampler::avoiding(&grammar, &[&held_out]);
        let mut redrawn = 0;
        for index in 0..200 {
            let (story, times) = sampler.draw(RngKey::new(1), index);
            assert_ne!(story.text, held_out[0].text);
            redrawn += times;
        }
        assert!(redrawn > 0, "a forbidden story is drawn now and then");
    }
}
