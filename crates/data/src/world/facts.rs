//! Facts: who lives where, the river of a town, the owner of a treasure. The training text states
//! each a known number of times, in five phrasings, one of them a question with answer.

use super::lexicon::{
    ANIMALS, BOYS, COLOURS, DAYS, FOODS, GIRLS, JOBS, MATERIALS, RIVERS, THING_KINDS, THING_NOUNS,
    TOWNS, WARES,
};
use linwright_tensor::{RngKey, RngStream};
use serde::{Deserialize, Serialize};

/// Range of the number of statements of a group of facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Name of the group.
    pub name: String,
    /// Smallest number of statements of one fact.
    pub least: u32,
    /// Largest number of statements of one fact.
    pub most: u32,
}

/// A kind of fact: `s` stands for the subject, `v` for the value.
#[derive(Debug)]
struct Attribute {
    name: &'static str,
    values: &'static [&'static str],
    question: &'static str,
    /// The value is the last word of each statement; the first one without it is the prompt of open
    /// completion.
    statements: [&'static str; 4],
}

const PERSON: [Attribute; 5] = [
    Attribute {
        name: "home",
        values: &TOWNS,
        question: "Where does {s} live?",
        statements: [
            "{s} lives in {v}.",
            "The home of {s} is in {v}.",
            "The house of {s} stands in {v}.",
            "If you look for {s}, go to {v}.",
        ],
    },
    Attribute {
        name: "job",
        values: &JOBS,
        question: "What is the job of {s}?",
        statements: [
            "{s} works as a {v}.",
            "People know {s} as a {v}.",
            "Every day {s} works hard as a {v}.",
            "Long ago {s} became a {v}.",
        ],
    },
    Attribute {
        name: "pet",
        values: &ANIMALS,
        question: "Which animal does {s} keep?",
        statements: [
            "{s} keeps a {v}.",
            "The pet of {s} is a {v}.",
            "At home {s} feeds a {v}.",
            "You often see {s} with a {v}.",
        ],
    },
    Attribute {
        name: "food",
        values: &FOODS,
        question: "What does {s} like to eat?",
        statements: [
            "{s} likes to eat {v}.",
            "The best food for {s} is {v}.",
            "For dinner {s} wants {v}.",
            "When {s} is hungry, there must be {v}.",
        ],
    },
    Attribute {
        name: "colour",
        values: &COLOURS,
        question: "Which colour does {s} wear?",
        statements: [
            "{s} always wears {v}.",
            "The coat of {s} is {v}.",
            "The door of {s} is painted {v}.",
            "You know {s} by the colour {v}.",
        ],
    },
];

const TOWN: [Attribute; 3] = [
    Attribute {
        name: "river",
        values: &RIVERS,
        question: "On which river does {s} lie?",
        statements: [
            "{s} lies on the river {v}.",
            "The river near {s} is the {v}.",
            "Boats reach {s} on the river {v}.",
            "The water of {s} comes from the {v}.",
        ],
    },
    Attribute {
        name: "ware",
        values: &WARES,
        question: "What is {s} known for?",
        statements: [
            "{s} is known for its {v}.",
            "People from {s} make {v}.",
            "The shops of {s} sell {v}.",
            "In {s} you find the finest {v}.",
        ],
    },
    Attribute {
        name: "market",
        values: &DAYS,
        question: "On which day is the market of {s}?",
        statements: [
            "{s} has its market on {v}.",
            "The market of {s} is on {v}.",
            "The square of {s} is full on {v}.",
            "To buy things in {s}, go on {v}.",
        ],
    },
];

/// The owners are drawn from the names of people.
const THING: [Attribute; 3] = [
    Attribute {
        name: "material",
        values: &MATERIALS,
        question: "What is {s} made of?",
        statements: [
            "{s} is made of {v}.",
            "Whoever touches {s} feels {v}.",
            "The maker of {s} used {v}.",
            "Under the dust {s} is of {v}.",
        ],
    },
    Attribute {
        name: "place",
        values: &TOWNS,
        question: "Where is {s} kept?",
        statements: [
            "{s} is kept in {v}.",
            "To see {s}, go to {v}.",
            "Visitors find {s} in {v}.",
            "They say that {s} came to {v}.",
        ],
    },
    Attribute {
        name: "owner",
        values: &GIRLS,
        question: "Who owns {s}?",
        statements: [
            "{s} belongs to {v}.",
            "The owner of {s} is {v}.",
            "Long ago {s} was given to {v}.",
            "The one who holds {s} is {v}.",
        ],
    },
];

/// Phrasings of a fact: four statements, and the question with its answer.
const PHRASINGS: usize = 5;

/// One fact.
#[derive(Clone, Debug)]
pub struct Fact {
    subject: String,
    attribute: &'static Attribute,
    value: &'static str,
    band: String,
    mentions: u32,
}

/// A question about a fact, as a line of `facts.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactQuestion {
    /// Text before the choices.
    pub question: String,
    /// Four choices.
    pub choices: Vec<String>,
    /// Index of the correct choice, from zero.
    pub answer: usize,
    /// Text to complete.
    pub prompt: String,
    /// Its correct completion.
    pub completion: String,
    /// Subject of the fact.
    pub subject: String,
    /// Attribute of the subject.
    pub attribute: String,
    /// Name of the frequency band.
    pub band: String,
    /// Number of statements in the training text.
    pub mentions: u32,
}

impl Fact {
    /// Number of statements in the training text.
    #[must_use]
    pub fn mentions(&self) -> u32 {
        self.mentions
    }

    /// All phrasings of the fact.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        (0..PHRASINGS).map(|phrasing| self.statement(phrasing)).collect()
    }

    fn statement(&self, phrasing: usize) -> String {
        match self.attribute.statements.get(phrasing) {
            Some(template) => self.fill(template),
            None => format!("{} {}.", self.asked(), self.value),
        }
    }

    fn asked(&self) -> String {
        format!("Question: {}\nAnswer:", self.fill(self.attribute.question))
    }

    fn fill(&self, template: &str) -> String {
        let text = template.replace("{s}", &self.subject).replace("{v}", self.value);
        let mut letters = text.chars();
        letters.next().map_or(text.clone(), |first| first.to_uppercase().chain(letters).collect())
    }

    /// The question, with three other values of the same attribute as wrong choices.
    #[must_use]
    pub fn question(&self, stream: &mut RngStream) -> FactQuestion {
        let mut others: Vec<&str> =
            self.attribute.values.iter().copied().filter(|value| *value != self.value).collect();
        stream.shuffle(&mut others);
        let answer = stream.below(4);
        let mut choices: Vec<String> = others[..3].iter().map(|&value| value.to_owned()).collect();
        choices.insert(answer, self.value.to_owned());
        let statement = self.fill(self.attribute.statements[0]);
        let completion = format!(" {}", self.value);
        let prompt = statement.strip_suffix('.').and_then(|text| text.strip_suffix(&completion));
        FactQuestion {
            question: self.asked(),
            choices,
            answer,
            prompt: prompt.unwrap_or(&statement).to_owned(),
            completion,
            subject: self.subject.clone(),
            attribute: self.attribute.name.to_owned(),
            band: self.band.clone(),
            mentions: self.mentions,
        }
    }
}

/// All facts of a world. Values are uniform; for each attribute, all bands have equally many facts.
#[must_use]
pub(super) fn facts(key: RngKey, bands: &[Band]) -> Vec<Fact> {
    let people = GIRLS.iter().chain(&BOYS).map(|&name| name.to_owned()).collect::<Vec<_>>();
    let towns = TOWNS.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let things = THING_KINDS
        .iter()
        .flat_map(|kind| THING_NOUNS.iter().map(move |noun| format!("the {kind} {noun}")))
        .collect::<Vec<_>>();
    let kinds: [(&[String], &'static [Attribute]); 3] =
        [(&people, &PERSON), (&towns, &TOWN), (&things, &THING)];
    let mut all = Vec::new();
    for (subjects, attributes) in kinds {
        for attribute in attributes {
            let mut stream = key.fold(attribute.name).stream();
            let order = stream.permutation(subjects.len());
            for (subject, rank) in subjects.iter().zip(order) {
                let band = &bands[rank as usize % bands.len()];
                let span = band.most.saturating_sub(band.least) as usize + 1;
                all.push(Fact {
                    subject: subject.clone(),
                    attribute,
                    value: attribute.values[stream.below(attribute.values.len())],
                    band: band.name.clone(),
                    mentions: band.least + stream.below(span) as u32,
                });
            }
        }
    }
    all
}

/// Documents with all statements of all facts, `per_document` per document, one per line, in random
/// order and phrasing.
#[must_use]
pub(super) fn fact_documents(key: RngKey, facts: &[Fact], per_document: usize) -> Vec<String> {
    let mut stream = key.stream();
    let mut mentions: Vec<&Fact> = Vec::new();
    for fact in facts {
        mentions.extend((0..fact.mentions).map(|_| fact));
    }
    stream.shuffle(&mut mentions);
    let state = |fact: &&Fact| fact.statement(stream.below(PHRASINGS));
    let statements: Vec<String> = mentions.iter().map(state).collect();
    statements.chunks(per_document.max(1)).map(|lines| lines.join("\n")).collect()
}
