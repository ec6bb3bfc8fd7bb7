//! Documents of the little world, and questions whose answers some of them state.

mod result;

use self::result::WorldWritten;
use crate::jobs::kit::{
    Failure, FailureKind, Job, Outcome, OutputPath, Session, bounds, outputs, record, room,
};
use linwright_data::world::{FactQuestion, World, WorldSettings};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_run::atomic::AtomicDir;
use linwright_tensor::RngKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a story with its place in a list, at least.
const STORY_BYTES: u64 = 256;
/// Documents between two questions whether to stop.
const LOOKS: usize = 1024;

/// Documents and questions of the little world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeWorld {
    /// Seed of the world; `pocket` was trained on the world of seed 1.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Stories of the world; `pocket` has read 25,000.
    #[schemars(range(min = 0, max = bounds::EXAMPLES))]
    pub stories: usize,
    /// Write the first N documents [default: all].
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-value" = "N"))]
    pub documents: Option<usize>,
    /// Questions of each band of frequency.
    #[schemars(range(min = 1, max = bounds::EXAMPLES))]
    pub questions: usize,
    /// Directory of documents.jsonl and questions.jsonl.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Replace the directory if it exists.
    pub force: bool,
}

impl Default for AttributeWorld {
    fn default() -> Self {
        Self {
            seed: 1,
            stories: WorldSettings::default().stories,
            documents: None,
            questions: 30,
            output: OutputPath::default(),
            force: false,
        }
    }
}

impl Job for AttributeWorld {
    const VERB: &str = "attribute-world";
    const ABOUT: &str = "Write texts on which the built-in model was trained, and questions about \
        facts with the documents that state them.\n\n\
        documents.jsonl has `id` and `text`, questions.jsonl `prompt`, `completion`, `band` (rare, \
        medium or frequent) and `relevant`, the ids of the documents: `attribute recall` measures \
        which methods find them. `question`, `choices` and `answer` are for `eval --tasks \
        multiple_choice`.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<WorldWritten>()];

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        outputs::directory(&self.output, self.force, &[], session)?;
        let what = || format!("a world of {} stories", self.stories);
        room::ensure(what, &[self.stories as u64, STORY_BYTES], "give fewer --stories")?;
        session.step("generating texts");
        let (seed, stories) = (self.seed, self.stories);
        let world = World::new(WorldSettings { seed, stories, ..WorldSettings::default() });
        let mut documents = world.training().documents;
        documents.truncate(self.documents.unwrap_or(documents.len()));
        session.step("looking for statements");
        let asked = self.chosen(&world);
        let relevant = stating(&world, &asked, &documents, session)?;
        let questions = asked.iter().zip(&relevant).map(|((index, question), stating)| Question {
            id: format!("fact-{index}"),
            question: &question.question,
            choices: &question.choices,
            answer: question.answer,
            prompt: &question.prompt,
            completion: &question.completion,
            band: &question.band,
            relevant: stating.iter().map(|at| id(*at)).collect(),
        });
        let texts = documents.iter().enumerate().map(|(at, text)| Text { id: id(at), text });
        let (texts, questions) = (record::lines(texts)?, record::lines(questions)?);
        let mut directory = AtomicDir::create(&self.output, self.force)?;
        for (name, lines) in [("documents.jsonl", texts), ("questions.jsonl", questions)] {
            directory.write(name, |out| out.write_all(lines.as_bytes()))?;
        }
        directory.commit()?;
        session.finish();
        session.note(&format!("wrote {}", self.output.display()));
        Ok(Outcome::of(self.written(&asked, &relevant, documents.len(), session)))
    }
}

/// A line of `documents.jsonl`.
#[derive(Serialize)]
struct Text<'a> {
    id: String,
    text: &'a str,
}

/// A line of `questions.jsonl`.
#[derive(Serialize)]
struct Question<'a> {
    id: String,
    question: &'a str,
    choices: &'a [String],
    answer: usize,
    prompt: &'a str,
    completion: &'a str,
    band: &'a str,
    relevant: Vec<String>,
}

/// A fact: its number, and its question.
type Asked = (usize, FactQuestion);

impl AttributeWorld {
    /// The questions, the same number from each band, in the order of the facts.
    fn chosen(&self, world: &World) -> Vec<Asked> {
        let mut by_band: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
        for (index, question) in world.questions().into_iter().enumerate() {
            by_band.entry(question.band.clone()).or_default().push((index, question));
        }
        let mut chosen = Vec::new();
        for (band, mut all) in by_band {
            let key = RngKey::new(self.seed).fold("attribute world").fold(&band);
            key.stream().shuffle(&mut all);
            all.truncate(self.questions);
            chosen.extend(all);
        }
        chosen.sort_by_key(|(index, _)| *index);
        chosen
    }

    fn written(
        &self,
        asked: &[Asked],
        relevant: &[BTreeSet<usize>],
        documents: usize,
        session: &Session<'_>,
    ) -> WorldWritten {
        let (mut questions, mut stated): (BTreeMap<String, usize>, BTreeMap<String, f64>) =
            Default::default();
        for ((_, question), stating) in asked.iter().zip(relevant) {
            *questions.entry(question.band.clone()).or_default() += 1;
            *stated.entry(question.band.clone()).or_default() += stating.len() as f64;
        }
        stated.iter_mut().for_each(|(band, stated)| *stated /= questions[band] as f64);
        WorldWritten {
            output: session.portable(&self.output),
            documents,
            questions: asked.len(),
            questions_of_a_band: questions,
            documents_of_a_question: stated,
        }
    }
}

fn id(document: usize) -> String {
    format!("document-{document}")
}

/// For each question the documents that state its fact in any words.
fn stating(
    world: &World,
    asked: &[Asked],
    documents: &[String],
    monitor: &mut dyn Monitor,
) -> Result<Vec<BTreeSet<usize>>, Failure> {
    // Only a document with the first word of a subject can have a statement about it.
    let mut by_word: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, (_, question)) in asked.iter().enumerate() {
        let first = question.subject.split_whitespace().last().unwrap_or_default();
        by_word.entry(first).or_default().push(at);
    }
    let statements: Vec<Vec<String>> =
        asked.iter().map(|(index, _)| world.facts()[*index].statements()).collect();
    let mut found = vec![BTreeSet::new(); asked.len()];
    for (document, text) in documents.iter().enumerate() {
        if document.is_multiple_of(LOOKS) {
            monitor.progress(document as u64, documents.len() as u64);
            if monitor.interrupted() {
                return Err(Failure::new(FailureKind::Interrupted, "interrupted"));
            }
        }
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        let candidates = words.iter().filter_map(|word| by_word.get(word)).flatten();
        for &at in candidates {
            if statements[at].iter().any(|statement| text.contains(statement.as_str())) {
                found[at].insert(document);
            }
        }
    }
    Ok(found)
}
