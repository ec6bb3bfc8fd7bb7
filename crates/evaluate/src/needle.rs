//! A needle in a haystack: whether a model finds a number in a long text.
//!
//! A sentence with a number of seven digits, drawn, is put into a text at a depth of 0, 1/4, 1/2,
//! 3/4 or 1, and the model is asked for the number. Prompts have 256, 512, 1024, … tokens, new ones
//! included, up to the context of the model (`--max-length` lowers it); by default five prompts for
//! each length and depth, and `limit` changes this number. `recall` is the share of answers that
//! contain the number, by length and depth as well, with the standard error √(p(1−p)/(n−1)).
//!
//! The text is cut between sentences, begins at a drawn sentence, and is repeated if it is too
//! short. Decoding is greedy, up to the end of a line.
//!
//! Source: the task `niah_single` of RULER (Hsieh et al. 2024, arXiv:2404.06654). Deviations: own
//! wording; five fixed depths, not 40 of which one is drawn; few prompts, not 500 a length; the
//! haystack is the user's; at most 24 new tokens, not 128; the number must not be part of a longer
//! one. Scores do not compare with those of RULER.

use super::result::{Sample, accuracy, by_group};
use super::{
    Bos, Counts, EvaluationError, FileTask, Generation, Item, LanguageModel, Metric, Reply,
    Request, Task, TaskOption, TaskOptions, TaskResult,
};
use linwright_data::Corpus;
use linwright_tensor::RngKey;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Registry entry of this task.
pub(super) const ENTRY: FileTask = FileTask {
    name: "needle",
    summary: "share of numbers that are found in a long text, by its length and their depth",
    reads: &[TaskOption::TextField],
    is_divided: true,
    open: |path, options| Ok(Box::new(Needle::open(path, options)?)),
};

/// Smallest length of a prompt with its answer, in tokens; each length is twice the one before.
const SHORTEST: usize = 256;
/// Where the needle is, as a share of the text before it.
const DEPTHS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// Prompts of each length and depth.
const PROMPTS: usize = 5;
/// Largest number of new tokens.
const NEW_TOKENS: usize = 24;
/// Bytes of the haystack that are read: more than a million tokens of English.
const HAYSTACK_BYTES: usize = 1 << 23;
/// Longest piece of the haystack, in bytes.
const PIECE_BYTES: usize = 400;
/// What the numbers belong to.
const NAMES: [&str; 12] = [
    "harbour",
    "orchard",
    "lighthouse",
    "library",
    "bridge",
    "market",
    "mill",
    "garden",
    "station",
    "theatre",
    "castle",
    "island",
];

/// The task for one haystack.
#[derive(Debug)]
struct Needle {
    path: PathBuf,
    sha256: String,
    haystack: String,
    /// Text of the needles without numbers: all that belongs to the task.
    own: [String; 1],
    prompts: usize,
    bos: Bos,
}

/// One prompt, without its haystack.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Question {
    length: usize,
    depth: f64,
    name: &'static str,
    number: usize,
    /// Draws the start of the haystack.
    key: RngKey,
}

/// The haystack in pieces, as a tokenizer sees it.
struct Pieces<'a> {
    texts: Vec<&'a str>,
    tokens: Vec<usize>,
}

impl Needle {
    fn open(path: &Path, options: &TaskOptions) -> Result<Self, EvaluationError> {
        let corpus = Corpus::open(path, options.text_field.as_deref())?;
        let mut haystack = String::new();
        for document in &corpus.documents {
            haystack += &document.text;
            haystack.push('\n');
            if haystack.len() > HAYSTACK_BYTES {
                haystack.truncate(haystack.floor_char_boundary(HAYSTACK_BYTES));
                break;
            }
        }
        let own = [format!("{} {}", sentence(NAMES[0], ""), question(NAMES[0]))];
        Ok(Self {
            path: corpus.path,
            sha256: corpus.sha256,
            haystack,
            own,
            prompts: options.limit.unwrap_or(PROMPTS).max(1),
            bos: options.bos,
        })
    }

    /// Number of prompts of one length.
    fn per_length(&self) -> usize {
        self.prompts * DEPTHS.len()
    }

    /// The prompt with this index: by length, depth, and number.
    fn question(&self, index: usize) -> Question {
        let (length, rest) = (index / self.per_length(), index % self.per_length());
        let (depth, prompt) = (rest / self.prompts, rest % self.prompts);
        let key = RngKey::new(0).fold("needle").fold_index(length as u64);
        let key = key.fold_index(depth as u64).fold_index(prompt as u64);
        let mut stream = key.fold("number").stream();
        Question {
            length: SHORTEST << length,
            depth: DEPTHS[depth],
            name: NAMES[stream.below(NAMES.len())],
            number: 1_000_000 + stream.below(9_000_000),
            key,
        }
    }

    /// The pieces of the haystack, enough for this number of tokens.
    fn pieces(
        &self,
        model: &dyn LanguageModel,
        enough: usize,
    ) -> Result<Pieces<'_>, EvaluationError> {
        let mut pieces = Pieces { texts: Vec::new(), tokens: Vec::new() };
        let mut sum = 0;
        for text in pieces_of(&self.haystack) {
            let tokens = self.tokens(model, &format!(" {text}"))?;
            if tokens > 0 {
                pieces.texts.push(text);
                pieces.tokens.push(tokens);
                sum += tokens;
            }
            // Twice as many, so that prompts can begin at different places.
            if sum > 2 * enough {
                break;
            }
        }
        if pieces.texts.is_empty() {
            let what = "sentences to hide a number in";
            return Err(EvaluationError::Nothing { task: ENTRY.name.to_owned(), what });
        }
        Ok(pieces)
    }

    fn tokens(&self, model: &dyn LanguageModel, text: &str) -> Result<usize, EvaluationError> {
        let place = self.path.display().to_string();
        let failed = |source| EvaluationError::Tokenizer { place, source };
        Ok(model.encode(text).map_err(failed)?.len())
    }

    /// The prompt of a question, as long as it may be.
    fn prompt(
        &self,
        model: &dyn LanguageModel,
        pieces: &Pieces<'_>,
        question: &Question,
    ) -> Result<String, EvaluationError> {
        // One for the beginning of the sequence.
        let room = question.length - NEW_TOKENS - 1;
        let start = question.key.fold("start").stream().below(pieces.texts.len());
        let at = |index: usize| (start + index) % pieces.texts.len();
        let mut left = room.saturating_sub(self.tokens(model, &question.within(&[]))?);
        let mut hay = Vec::new();
        while let Some(rest) = left.checked_sub(pieces.tokens[at(hay.len())]) {
            hay.push(pieces.texts[at(hay.len())]);
            left = rest;
        }
        loop {
            let prompt = question.within(&hay);
            let found = self.tokens(model, &prompt)?;
            if found <= room {
                return Ok(prompt);
            }
            // Pieces have a few tokens more together than alone.
            let mut excess = found - room;
            while excess > 0 {
                if hay.pop().is_none() {
                    let (tokens, longest) = (found, room);
                    let place = question.place();
                    return Err(EvaluationError::TooLong { place, tokens, longest });
                }
                excess = excess.saturating_sub(pieces.tokens[at(hay.len())]);
            }
        }
    }
}

impl Question {
    /// The prompt with the pieces of a haystack.
    fn within(&self, hay: &[&str]) -> String {
        let (before, behind) = hay.split_at((self.depth * hay.len() as f64).round() as usize);
        let needle = sentence(self.name, &self.number.to_string());
        let text = [before, &[needle.as_str()], behind].concat().join(" ");
        format!("A secret number is hidden in this text.\n\n{text}\n\n{}", question(self.name))
    }

    fn place(&self) -> String {
        format!("needle at depth {} of {} tokens", self.depth, self.length)
    }

    /// Whether an answer contains the number.
    fn is_found(&self, answer: &str) -> bool {
        let number = self.number.to_string();
        answer.split(|c: char| !c.is_ascii_digit()).any(|digits| digits == number)
    }
}

fn sentence(name: &str, number: &str) -> String {
    format!("The secret number of the {name} is {number}.")
}

fn question(name: &str) -> String {
    format!(
        "Question: What is the secret number of the {name}?\n\
         Answer: The secret number of the {name} is"
    )
}

/// Sentences of a text, or parts of long ones, without white space at their ends.
fn pieces_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let mut before = ' ';
        let mut end = rest.len();
        for (index, c) in rest.char_indices() {
            let is_end = matches!(before, '.' | '!' | '?') || index >= PIECE_BYTES;
            if c == '\n' || (c.is_whitespace() && is_end) || index >= 2 * PIECE_BYTES {
                end = index;
                break;
            }
            before = c;
        }
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        Some(piece.trim_end())
    })
}

impl Task for Needle {
    fn id(&self) -> String {
        ENTRY.name.to_owned()
    }

    fn version(&self) -> f64 {
        1.0
    }

    fn bos(&self) -> Bos {
        self.bos
    }

    /// The haystack as one text; prompts need a tokenizer.
    fn items(&self) -> Vec<Item<'_>> {
        let generation = Generation::greedy(vec![self.prompts.to_string()], NEW_TOKENS);
        let request = Request::Generate { context: (&self.haystack).into(), generation };
        let place = self.path.display().to_string();
        vec![Item { place, requests: vec![request], own: &self.own }]
    }

    fn items_for(
        &self,
        model: &dyn LanguageModel,
    ) -> Result<Option<Vec<Item<'_>>>, EvaluationError> {
        let positions = model.max_positions().unwrap_or(SHORTEST);
        let lengths = (0..).take_while(|length| SHORTEST << length <= positions).count();
        if lengths == 0 {
            return Err(EvaluationError::TooLong {
                place: ENTRY.name.to_owned(),
                tokens: SHORTEST,
                longest: positions,
            });
        }
        let pieces = self.pieces(model, SHORTEST << (lengths - 1))?;
        let item = |index: usize| {
            let question = self.question(index);
            let context = self.prompt(model, &pieces, &question)?.into();
            let generation = Generation::greedy(vec!["\n".to_owned()], NEW_TOKENS);
            let requests = vec![Request::Generate { context, generation }];
            Ok(Item { place: question.place(), requests, own: &self.own })
        };
        (0..lengths * self.per_length()).map(item).collect::<Result<_, _>>().map(Some)
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        let mut counts = Counts { items: replies.len(), ..Counts::default() };
        replies.iter().flatten().for_each(|reply| counts.add(reply));
        let questions: Vec<Question> =
            (0..replies.len()).map(|index| self.question(index)).collect();
        let answer = |replies: &[Reply]| match replies.first() {
            Some(Reply::Generated { text, .. }) => text.clone(),
            _ => String::new(),
        };
        let answers: Vec<String> = replies.iter().map(|replies| answer(replies)).collect();
        let found: Vec<bool> =
            questions.iter().zip(&answers).map(|(asked, text)| asked.is_found(text)).collect();
        let metrics = |items: &[usize]| -> Vec<Metric> {
            let of = |name: &str, is_in: &dyn Fn(&Question) -> bool| {
                let members = items.iter().filter(|&&item| is_in(&questions[item]));
                accuracy(name, members.map(|&item| found[item]))
            };
            let at = |depth: &f64| {
                of(&format!("recall_depth_{depth}"), &|asked: &Question| asked.depth == *depth)
            };
            let all = std::iter::once(of("recall", &|_| true));
            all.chain(DEPTHS.iter().map(at)).collect()
        };
        let all: Vec<usize> = (0..replies.len()).collect();
        let names: Vec<String> =
            questions.iter().map(|asked| format!("tokens_{:07}", asked.length)).collect();
        let groups: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
        let sample = |index: usize| sample(&questions[index], index, &answers[index], found[index]);
        let samples =
            all.iter().map(|&index| Sample { group: Some(names[index].clone()), ..sample(index) });
        Ok(TaskResult {
            task: self.id(),
            protocol: format!("needle_{}-of-each_bos-{}", self.prompts, self.bos.name()),
            version: self.version(),
            data_sha256: self.sha256.clone(),
            bos_used,
            metrics: metrics(&all),
            groups: by_group(&groups, metrics),
            counts,
            original: replies.len(),
            samples: samples.collect(),
            ..TaskResult::default()
        })
    }
}

/// A prompt with its answer, for comparisons and logs.
fn sample(question: &Question, index: usize, answer: &str, is_found: bool) -> Sample {
    let Question { length, depth, name, number, key: _ } = question;
    let number = number.to_string();
    let recall = f64::from(u8::from(is_found));
    let record: [(&str, Value); 7] = [
        ("doc_id", json!(index)),
        ("doc", json!({"tokens": length, "depth": depth, "name": name})),
        ("target", json!(number)),
        ("resps", json!([[answer]])),
        ("filter", json!("none")),
        ("metrics", json!(["recall"])),
        ("recall", json!(recall)),
    ];
    Sample {
        place: question.place(),
        filter: "none".to_owned(),
        group: None,
        numbers: [("recall".to_owned(), recall)].into(),
        record: record
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<_, _>>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Fake, run_with};
    use crate::{OpenOptions, TaskRequest, open_task, open_tasks};

    const HAY: &str =
        "The mill turned slowly. Was it late? Nobody knew!\nA long line without an end";

    fn opened(text: &str, limit: Option<usize>) -> Needle {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hay.txt");
        std::fs::write(&path, text).unwrap();
        let options = TaskOptions { limit, bos: Bos::Never, ..TaskOptions::default() };
        Needle::open(&path, &options).unwrap()
    }

    fn fake(positions: usize) -> Fake {
        let mut fake = Fake::default();
        fake.positions = positions;
        fake
    }

    fn contexts(task: &Needle, model: &Fake) -> Vec<String> {
        let items = task.items_for(model).unwrap().unwrap();
        items.iter().map(|item| item.requests[0].text().to_owned()).collect()
    }

    #[test]
    fn texts_are_cut_into_sentences() {
        let want = [
            "The mill turned slowly.",
            "Was it late?",
            "Nobody knew!",
            "A long line without an end",
        ];
        assert_eq!(pieces_of(HAY).collect::<Vec<_>>(), want);
        let words = "word ".repeat(300);
        assert!(pieces_of(&words).count() > 2 && pieces_of(&words).all(|piece| piece.len() <= 800));
        assert_eq!(pieces_of(&"x".repeat(2000)).map(str::len).collect::<Vec<_>>(), [800, 800, 400]);
        assert_eq!(pieces_of(" \n ").count(), 0);
    }

    #[test]
    fn prompts_are_as_long_as_they_may_be_and_have_their_needle() {
        let (task, model) = (opened(HAY, Some(2)), fake(1100));
        let contexts = contexts(&task, &model);
        assert_eq!(contexts.len(), 3 * 5 * 2, "256, 512 and 1024 tokens");
        for (index, context) in contexts.iter().enumerate() {
            let question = task.question(index);
            // A token is a byte.
            let room = question.length - NEW_TOKENS - 1;
            assert!(context.len() <= room && context.len() + 60 > room, "{context}");
            let needle = sentence(question.name, &question.number.to_string());
            let place = context.find(&needle).unwrap();
            let (before, behind) = (&context[..place], &context[place + needle.len()..]);
            if question.depth == 0.0 {
                assert!(before.ends_with("text.\n\n"), "{context}");
            } else if question.depth == 1.0 {
                assert!(behind.starts_with("\n\nQuestion"), "{context}");
            } else if question.length == 1024 {
                let depth = place as f64 / (context.len() - needle.len()) as f64;
                assert!((depth - question.depth).abs() < 0.15, "{depth}: {context}");
            }
            assert_eq!(context.matches("secret number of").count(), 3);
        }
        assert_eq!(task.question(0).depth, 0.0);
        assert_eq!((task.question(29).depth, task.question(29).length), (1.0, 1024));
        let error = task.items_for(&fake(200)).unwrap_err().to_string();
        assert!(error.contains("256") && error.contains("200"), "{error}");
    }

    #[test]
    fn answers_are_found_by_their_number() {
        let task = opened(HAY, Some(1));
        let reply = |index: usize| {
            let number = task.question(index).number;
            let text = match index {
                0 => format!(" {number}."),
                1 => format!("it is {number}, I think"),
                2 => format!(" {number}0"),
                _ => String::new(),
            };
            vec![Reply::Generated { text, tokens: 3, truncated: 0 }]
        };
        let result = task.score(&(0..10).map(reply).collect::<Vec<_>>(), false).unwrap();
        let value = |name: &str| result.metric(name).unwrap().value;
        assert_eq!(
            (value("recall"), value("recall_depth_0"), value("recall_depth_0.5")),
            (0.2, 0.5, 0.0)
        );
        let groups: Vec<(&str, usize, f64)> = result
            .groups
            .iter()
            .map(|group| (group.group.as_str(), group.items, group.metrics[0].value))
            .collect();
        assert_eq!(groups, [("tokens_0000256", 5, 0.4), ("tokens_0000512", 5, 0.0)]);
        assert_eq!(result.samples[1].record["target"], json!(task.question(1).number.to_string()));
    }

    #[test]
    fn it_runs_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hay.jsonl");
        std::fs::write(&path, "{\"body\": \"One. Two.\"}\n{\"body\": \"Three.\"}\n").unwrap();
        let text = TaskOptions {
            text_field: Some("body".into()),
            limit: Some(1),
            ..TaskOptions::default()
        };
        let task = open_task("needle", &path, &text).unwrap();
        let result = run_with(&*task, &fake(300), 4096).unwrap();
        assert_eq!((result.counts.items, result.counts.truncated), (5, 0));
        let error = open_tasks(&[TaskRequest::named("needle")], &OpenOptions::default()).err();
        assert!(error.unwrap().to_string().contains("needle"));
    }
}
