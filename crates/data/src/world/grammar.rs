//! A probabilistic grammar of texts with known entropy.
//!
//! A template draws words and phrasings. All draws are uniform, so a derivation with draws of n₁,
//! n₂, ... alternatives has probability 1 / (n₁ n₂ ...) and information `Σ ln nᵢ` nats. If no text
//! has two derivations, this is also the information of the text. [`Grammar::probability`] sums
//! over all derivations of a text and thus checks both claims independently.
//!
//! | template | meaning |
//! | --- | --- |
//! | `[a\|b\|c]` | one of the parts; a part may be empty |
//! | `{x=list}` | draws a word of `list` as `x` and writes it |
//! | `{x=list!y!z}` | the same, without the words of `y` and `z` |
//! | `{x}`, `{x.he}` | writes `x` again, or a pronoun of it: `he`, `him`, `his`, `He`, `His` |
//! | `{x+y}` | writes the sum of two drawn numbers |
//!
//! Repeated words, pronouns and sums are determined by earlier draws and carry no information.

use linwright_tensor::RngStream;
use std::collections::BTreeMap;

mod derive;
mod parse;

/// Word lists by name.
#[derive(Clone, Debug, Default)]
pub struct Lexicon {
    lists: BTreeMap<&'static str, Vec<&'static str>>,
    female: Vec<&'static str>,
}

impl Lexicon {
    /// Adds a list.
    #[must_use]
    pub fn with(mut self, name: &'static str, words: &[&'static str]) -> Self {
        self.lists.insert(name, words.to_vec());
        self
    }

    /// Marks the words with the pronouns `she` and `her`.
    #[must_use]
    pub fn with_female(mut self, words: &[&'static str]) -> Self {
        self.female.extend(words);
        self
    }

    /// The words of a list.
    #[must_use]
    pub fn list(&self, name: &str) -> Option<&[&'static str]> {
        self.lists.get(name).map(Vec::as_slice)
    }

    fn pronoun(&self, word: &str, pronoun: Pronoun) -> &'static str {
        let female = self.female.contains(&word);
        match (pronoun, female) {
            (Pronoun::Subject, false) => "he",
            (Pronoun::Subject, true) => "she",
            (Pronoun::Object, false) => "him",
            (Pronoun::Object | Pronoun::Possessive, true) => "her",
            (Pronoun::Possessive, false) => "his",
            (Pronoun::CapitalSubject, false) => "He",
            (Pronoun::CapitalSubject, true) => "She",
            (Pronoun::CapitalPossessive, false) => "His",
            (Pronoun::CapitalPossessive, true) => "Her",
        }
    }
}

/// An invalid template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// Unbalanced brackets or braces, or an invalid expression.
    #[error("template, byte {at}: {found}")]
    Syntax {
        /// Position in bytes.
        at: usize,
        /// The text at this position.
        found: String,
    },
    /// A list that is unknown, or has no word left after exclusions.
    #[error("template: list {name} is unknown or has too few words")]
    List {
        /// The list.
        name: String,
    },
    /// A variable that is not drawn before its use in some derivation.
    #[error("template: {name} is used where it may not have been drawn")]
    Unbound {
        /// The variable.
        name: String,
    },
    /// A variable that is drawn twice in some derivation.
    #[error("template: {name} is drawn twice")]
    Redrawn {
        /// The variable.
        name: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pronoun {
    Subject,
    Object,
    Possessive,
    CapitalSubject,
    CapitalPossessive,
}

#[derive(Clone, Debug)]
enum Node {
    Text(String),
    Draw { variable: usize, list: Vec<&'static str>, except: Vec<usize> },
    Word(usize),
    Pronoun(usize, Pronoun),
    Sum(usize, usize),
    Choice(Vec<Vec<Self>>),
}

/// A grammar: a list of templates, of which one is drawn uniformly.
#[derive(Clone, Debug)]
pub struct Grammar {
    lexicon: Lexicon,
    start: Vec<Node>,
    variables: usize,
}

/// A text drawn from a grammar.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The text.
    pub text: String,
    /// Its information in nats: minus the natural logarithm of the probability of its derivation.
    pub nats: f64,
}

impl Grammar {
    /// Parses templates.
    ///
    /// # Errors
    /// [`GrammarError`] for an invalid template.
    pub fn new(lexicon: Lexicon, templates: &[String]) -> Result<Self, GrammarError> {
        let mut parser = parse::Parser::new(&lexicon);
        let start = templates.iter().map(|text| parser.template(text)).collect::<Result<_, _>>()?;
        let variables = parser.variables();
        Ok(Self { start: vec![Node::Choice(start)], variables, lexicon })
    }

    /// Draws a text.
    pub fn sample(&self, stream: &mut RngStream) -> Sample {
        derive::sample(self, stream)
    }

    /// Probability of a text, summed over all derivations; zero if there is none.
    #[must_use]
    pub fn probability(&self, text: &str) -> f64 {
        derive::probability(self, text)
    }

    /// All texts with their probabilities, one entry per derivation. For small grammars.
    #[must_use]
    pub fn enumerate(&self) -> Vec<(String, f64)> {
        derive::enumerate(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;
    use std::collections::BTreeMap;

    fn small() -> Grammar {
        let lexicon = Lexicon::default()
            .with("person", &["Ada", "Ben", "Cora"])
            .with("number", &["1", "2", "3"])
            .with_female(&["Ada", "Cora"]);
        let templates = [
            "{a=person} saw {b=person!a}[| and {c=person!a!b}]. {b} saw {a.him}.",
            "{a=person} has {n=number}[ plums| pears and {m=number} figs, {n+m} in all].",
        ];
        Grammar::new(lexicon, &templates.map(str::to_owned)).expect("reads")
    }

    #[test]
    fn probabilities_of_all_texts_add_up_to_one() {
        let grammar = small();
        let all = grammar.enumerate();
        let total: f64 = all.iter().map(|(_, probability)| probability).sum();
        assert!((total - 1.0).abs() < 1e-12, "total {total}");
        let mut by_text = BTreeMap::<String, f64>::new();
        for (text, probability) in &all {
            *by_text.entry(text.clone()).or_default() += probability;
        }
        assert_eq!(by_text.len(), all.len(), "no text has two derivations");
        for (text, probability) in by_text {
            assert!((grammar.probability(&text) - probability).abs() < 1e-15, "{text}");
        }
        assert_eq!(grammar.probability("Ada saw Ada. Ada saw her."), 0.0);
    }

    #[test]
    fn entropy_is_the_mean_information_of_samples() {
        let grammar = small();
        let entropy: f64 = grammar.enumerate().iter().map(|(_, p)| -p * p.ln()).sum();
        let mut stream = RngKey::new(3).stream();
        let count = 20_000;
        let mean =
            (0..count).map(|_| grammar.sample(&mut stream).nats).sum::<f64>() / f64::from(count);
        assert!((mean - entropy).abs() < 0.02, "{mean} against {entropy}");
    }

    #[test]
    fn an_ambiguous_text_gets_the_sum_over_its_derivations() {
        let lexicon = Lexicon::default().with("word", &["a", "b"]);
        let grammar = Grammar::new(lexicon, &["[a|{x=word}]".to_owned()]).expect("reads");
        assert!((grammar.probability("a") - 0.75).abs() < 1e-15);
        assert!((grammar.probability("b") - 0.25).abs() < 1e-15);
    }

    #[test]
    fn pronouns_follow_the_word() {
        let lexicon = Lexicon::default().with("p", &["Ada"]).with_female(&["Ada"]);
        let template = "{x=p} {x.he} {x.him} {x.his} {x.He} {x.His}".to_owned();
        let grammar = Grammar::new(lexicon, &[template]).expect("reads");
        let sample = grammar.sample(&mut RngKey::new(0).stream());
        assert_eq!(sample, Sample { text: "Ada she her her She Her".into(), nats: 0.0 });
    }

    #[test]
    fn wrong_templates_are_named() {
        let read = |template: &str| {
            let lexicon = Lexicon::default().with("p", &["Ada"]).with("q", &["x", "y"]);
            Grammar::new(lexicon, &[template.to_owned()]).map(|_| ()).expect_err(template)
        };
        assert!(matches!(read("[a|b"), GrammarError::Syntax { .. }));
        assert!(matches!(read("a]"), GrammarError::Syntax { .. }));
        assert!(matches!(read("{x"), GrammarError::Syntax { .. }));
        assert!(matches!(read("{x=p} {x.they}"), GrammarError::Syntax { .. }));
        assert!(matches!(read("{x=nothing}"), GrammarError::List { .. }));
        assert!(matches!(read("{x=p} {y=p!x}"), GrammarError::List { .. }));
        assert!(matches!(read("[{x=p}|] {x}"), GrammarError::Unbound { .. }));
        assert!(matches!(read("{x=q} {x=q}"), GrammarError::Redrawn { .. }));
    }
}
