//! Perplexity of running text.
//!
//! ppl = exp(Σ nll / counted tokens), nll in nats. The mean in the exponent, the log-perplexity of
//! papers, is `nll_nats_per_token`.
//!
//! A document is tokenized once and scored from its start. Windows of `window` tokens start every
//! `stride` tokens. With stride = window, each window is scored from its second token on. With a
//! smaller stride, the first window counts all tokens except its first, and each later one only
//! those that no earlier window has counted: its last `stride` tokens, or fewer in a last, short
//! window. A beginning-of-sequence token, if used, is the first token of the document, and takes
//! the place of the first token of every later window, which is never counted: as in llama.cpp,
//! since some models cannot read text without it. The protocols of papers have it only at the start
//! of the document, as in their code.
//!
//! `rotor_paper` is window 512, stride 256 on documents joined by a space, as in the experiments of
//! the rotor paper. Perplexities per word and per byte follow the definitions of
//! lm-evaluation-harness (whitespace-separated words, UTF-8 bytes); they are given only if every
//! token of the text was counted, since they would be too low otherwise.

use super::divergence::{self, TokenDivergences};
use super::request::Cut;
use super::task::remove_at;
use super::{
    Answered, AnsweredDocuments, Bos, Counts, DataUsed, EvaluationError, FileTask, Item, Metric,
    OpenOptions, OpenTasks, Reply, Request, Sample, Task, TaskData, TaskEntry, TaskOption,
    TaskOptions, TaskRequest, TaskResult, WindowLoss,
};
use linwright_data::{Corpus, Document};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// Registry entry of this task.
pub(super) const ENTRY: FileTask = FileTask {
    name: "text",
    summary: "perplexity per token of a text file or of the documents of a JSONL file",
    reads: &[
        TaskOption::Window,
        TaskOption::Stride,
        TaskOption::SecondHalf,
        TaskOption::Join,
        TaskOption::TextField,
    ],
    is_divided: false,
    open: |path, options| Ok(Box::new(TextPerplexity::open(path, options)?)),
};

/// Whether documents are scored separately or as one text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Each document from its start.
    #[default]
    Separate,
    /// All documents joined by spaces.
    Space,
    /// All documents joined by blank lines.
    BlankLine,
}

impl Join {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Separate, Self::Space, Self::BlankLine];

    /// Its name in options and recipes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Space => "space",
            Self::BlankLine => "blank_line",
        }
    }
}

/// Division of running text into windows, and the counted tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// Window in tokens, at least 2.
    window: usize,
    /// Stride in tokens, 1 to `window`.
    stride: usize,
    /// Beginning-of-sequence token.
    bos: Bos,
    /// Whether every window begins with that token, not only the document.
    #[serde(default)]
    bos_in_windows: bool,
    /// Whether documents are joined.
    join: Join,
    /// Whether a last window shorter than `window` is left out.
    #[serde(default)]
    whole_windows: bool,
    /// Whether only the tokens after the first half of each window are counted.
    #[serde(default)]
    second_half: bool,
    /// Largest number of windows.
    #[serde(default)]
    most_windows: Option<usize>,
}

/// A protocol with a name, which is also the name of its task.
#[derive(Clone, Copy, Debug)]
pub struct NamedProtocol {
    /// The name.
    pub name: &'static str,
    /// One sentence for the listing.
    pub summary: &'static str,
    protocol: Protocol,
}

/// The protocols of papers. All join the documents into one text, which is tokenized once.
pub const PROTOCOLS: &[NamedProtocol] = {
    const fn of(window: usize, stride: usize, join: Join, whole_windows: bool) -> Protocol {
        Protocol {
            window,
            stride,
            bos: Bos::Auto,
            bos_in_windows: false,
            join,
            whole_windows,
            second_half: false,
            most_windows: None,
        }
    }
    &[
        NamedProtocol {
            name: "wikitext2_token_ppl_2048",
            summary: "WikiText-2 of compression papers: joined by blank lines, whole windows of 2048",
            protocol: of(2048, 2048, Join::BlankLine, true),
        },
        NamedProtocol {
            name: "ptb_token_ppl_2048",
            summary: "Penn Treebank of compression papers: joined by spaces, whole windows of 2048",
            protocol: of(2048, 2048, Join::Space, true),
        },
        NamedProtocol {
            name: "c4_token_ppl_2048",
            summary: "C4 of compression papers: joined by spaces, whole windows of 2048",
            protocol: of(2048, 2048, Join::Space, true),
        },
        NamedProtocol {
            name: "wikitext2_token_ppl_128",
            summary: "WikiText-2 of the feature-space decomposition: whole windows of 128",
            protocol: of(128, 128, Join::BlankLine, true),
        },
        NamedProtocol {
            name: "rotor_paper",
            summary: "text of the rotor paper: joined by spaces, windows of 512 every 256",
            protocol: of(512, 256, Join::Space, false),
        },
        NamedProtocol {
            name: "rotor_wikitext2",
            summary: "WikiText-2 of the rotor paper: joined by blank lines, windows of 512 every 256",
            protocol: of(512, 256, Join::BlankLine, false),
        },
        NamedProtocol {
            name: "rotor_ptb",
            summary: "Penn Treebank of the rotor paper: joined by spaces, windows of 512 every 256",
            protocol: of(512, 256, Join::Space, false),
        },
        NamedProtocol {
            name: "rotor_c4",
            summary: "C4 of the rotor paper: joined by spaces, windows of 512 every 256",
            protocol: of(512, 256, Join::Space, false),
        },
    ]
};

impl TaskEntry for NamedProtocol {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn data(&self) -> TaskData {
        TaskData::File("text")
    }

    fn reads(&self, option: TaskOption) -> bool {
        option == TaskOption::TextField
    }

    fn is_divided(&self) -> bool {
        false
    }

    fn open(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
    ) -> Result<OpenTasks, EvaluationError> {
        let path = request.file(options, "text")?;
        let task = TextPerplexity::named(self, path, &request.text_options(options))?;
        Ok(OpenTasks::one(task))
    }
}

impl Protocol {
    /// Validates the options.
    ///
    /// # Errors
    /// [`EvaluationError::BadProtocol`] if the window is shorter than 2 tokens, or the stride is 0
    /// or longer than the window.
    pub fn new(
        window: usize,
        stride: usize,
        bos: Bos,
        join: Join,
    ) -> Result<Self, EvaluationError> {
        let reason = if window < 2 {
            "a window needs at least 2 tokens, of which the first has no prediction"
        } else if stride == 0 {
            "the stride must be at least 1"
        } else if stride > window {
            "a stride larger than the window would skip tokens"
        } else {
            return Ok(Self {
                window,
                stride,
                bos,
                bos_in_windows: true,
                join,
                whole_windows: false,
                second_half: false,
                most_windows: None,
            });
        };
        Err(EvaluationError::BadProtocol { window, stride, reason })
    }

    /// Window 512, stride 256 on text joined by a space.
    #[must_use]
    pub fn rotor_paper() -> Self {
        Self {
            window: 512,
            stride: 256,
            bos: Bos::Auto,
            bos_in_windows: false,
            join: Join::Space,
            whole_windows: false,
            second_half: false,
            most_windows: None,
        }
    }

    /// The protocol of `llama-perplexity`: whole windows side by side, each of which begins with
    /// the beginning-of-sequence token, and counts the tokens after its first half.
    ///
    /// # Errors
    /// [`EvaluationError::BadProtocol`] if the second half of a window has no prediction.
    pub fn second_halves(
        window: usize,
        bos: Bos,
        join: Join,
        most_windows: Option<usize>,
    ) -> Result<Self, EvaluationError> {
        if window < 3 {
            let reason = "the second half of a window needs a prediction, and so at least 3 tokens";
            return Err(EvaluationError::BadProtocol { window, stride: window, reason });
        }
        let whole = Self::new(window, window, bos, join)?;
        Ok(Self { second_half: true, whole_windows: true, most_windows, ..whole })
    }

    /// Id of the protocol; perplexities compare only under the same id.
    #[must_use]
    pub fn id(&self) -> String {
        // Named protocols leave the first token to the tokenizer.
        if let Some(named) = PROTOCOLS.iter().find(|named| named.protocol == *self) {
            return named.name.to_owned();
        }
        let join = match self.join {
            Join::Separate => "",
            Join::Space => "_joined-space",
            Join::BlankLine => "_joined-blank-line",
        };
        let windows = match self.bos_in_windows && self.bos != Bos::Never {
            true => "-each-window",
            false => "",
        };
        let half = if self.second_half { "_second-half" } else { "" };
        let (window, stride, bos) = (self.window, self.stride, self.bos.name());
        format!("text_ppl_w{window}_s{stride}{half}_bos-{bos}{windows}{join}")
    }

    /// Window in tokens.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window
    }

    /// Whether every window begins with the beginning-of-sequence token, if it is used.
    pub(super) fn bos_in_windows(&self) -> bool {
        self.bos_in_windows
    }

    /// The same protocol with that token only at the start of the document.
    #[cfg(test)]
    pub(super) fn of_document(self) -> Self {
        Self { bos_in_windows: false, ..self }
    }

    /// The windows of a document of `tokens` tokens: token range, and index within the window of
    /// the first counted token. Windows without counted tokens are left out.
    pub(super) fn windows(&self, tokens: usize) -> Vec<(Range<usize>, usize)> {
        let mut windows = Vec::new();
        let (mut start, mut counted) = (0, 0);
        while counted < tokens && windows.len() < self.most_windows.unwrap_or(usize::MAX) {
            let end = tokens.min(start + self.window);
            // The first token of a window has no prediction.
            let first = match self.second_half {
                true => self.window / 2 + 1,
                false => (counted - start).max(1),
            };
            let is_whole = end - start == self.window || !self.whole_windows;
            if first < end - start && is_whole {
                windows.push((start..end, first));
            }
            counted = end;
            start += self.stride;
        }
        windows
    }
}

/// The task for one corpus.
#[derive(Clone, Debug)]
pub struct TextPerplexity {
    name: Cow<'static, str>,
    protocol: Protocol,
    sha256: String,
    documents: Vec<Document>,
    file: String,
}

impl TextPerplexity {
    /// The documents of `corpus`.
    #[must_use]
    pub fn new(corpus: Corpus, protocol: Protocol) -> Self {
        let separator = match protocol.join {
            Join::Separate => None,
            Join::Space => Some(" "),
            Join::BlankLine => Some("\n\n"),
        };
        let documents = match separator {
            None => corpus.documents,
            Some(separator) => {
                let texts: Vec<&str> = corpus.documents.iter().map(|d| &*d.text).collect();
                vec![Document::new(texts.join(separator), 1)]
            }
        };
        let file = corpus.path.display().to_string();
        Self { name: ENTRY.name.into(), protocol, sha256: corpus.sha256, documents, file }
    }

    /// The task of a named protocol for a file. Window and stride are those of the protocol, not of
    /// the options.
    ///
    /// # Errors
    /// [`EvaluationError::Data`].
    pub fn named(
        named: &NamedProtocol,
        path: &Path,
        options: &TaskOptions,
    ) -> Result<Self, EvaluationError> {
        let protocol = Protocol { bos: options.bos, ..named.protocol };
        Ok(Self { name: named.name.into(), ..Self::new(corpus(path, options)?, protocol) })
    }

    /// One of several texts, with a separate name: `text:wiki` for `wiki.jsonl`; `text_field` names
    /// the text in its rows.
    ///
    /// # Errors
    /// As [`Protocol::new`]; [`EvaluationError::Data`].
    pub fn one_of_several(
        path: &Path,
        text_field: Option<&str>,
        options: &OpenOptions<'_>,
    ) -> Result<Self, EvaluationError> {
        let text_field = text_field.map(str::to_owned);
        let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        let name = format!("{}:{stem}", ENTRY.name).into();
        let text = Self::open(path, &TaskOptions { text_field, ..options.text.clone() })?;
        Ok(Self { name, ..text })
    }

    fn open(path: &Path, options: &TaskOptions) -> Result<Self, EvaluationError> {
        let TaskOptions { window, bos, join, limit, .. } = *options;
        if !options.second_half {
            let protocol = Protocol::new(window, options.stride, bos, join)?;
            return Ok(Self::new(corpus(path, options)?, protocol));
        }
        // A limit is one of windows: they are those of a single text.
        let protocol = Protocol::second_halves(window, bos, join, limit)?;
        let text =
            Self::new(corpus(path, &TaskOptions { limit: None, ..options.clone() })?, protocol);
        if text.documents.len() > 1 {
            let reason =
                "windows whose second half counts are those of one text: join the documents";
            return Err(EvaluationError::BadProtocol { window, stride: window, reason });
        }
        Ok(text)
    }

    /// The protocol.
    #[must_use]
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }
}

/// The documents selected by the options.
fn corpus(path: &Path, options: &TaskOptions) -> Result<Corpus, EvaluationError> {
    let mut corpus = Corpus::open(path, options.text_field.as_deref())?;
    corpus.documents.truncate(options.limit.unwrap_or(usize::MAX));
    Ok(corpus)
}

impl Task for TextPerplexity {
    fn id(&self) -> String {
        self.name.to_string()
    }

    fn version(&self) -> f64 {
        1.0
    }

    fn bos(&self) -> Bos {
        self.protocol.bos
    }

    fn items(&self) -> Vec<Item<'_>> {
        self.documents
            .iter()
            .map(|document| Item {
                place: format!("{}, document at line {}", self.file, document.line),
                requests: vec![Request::Rolling {
                    text: Cow::Borrowed(&document.text),
                    cut: Cut::Protocol(self.protocol),
                }],
                own: &[],
            })
            .collect()
    }

    fn answered(&self) -> Option<AnsweredDocuments> {
        let whole = |document: &Document| Answered {
            place: format!("{}, line {}", self.file, document.line),
            text: document.text.clone(),
        };
        let documents = self.documents.iter().map(whole).collect();
        let (path, sha256) = (self.file.clone(), self.sha256.clone());
        let data = vec![DataUsed { split: "all".into(), path, sha256 }];
        Some(AnsweredDocuments { documents, data })
    }

    fn leave_out(&mut self, indices: &[usize]) -> bool {
        let is_possible = self.protocol.join == Join::Separate;
        if is_possible {
            remove_at(&mut self.documents, indices);
        }
        is_possible
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        let (mut nll, mut counted, mut whole) = (0.0, 0, 0);
        for reply in replies.iter().flatten() {
            if let Reply::Rolling { nll: n, tokens, text_tokens, .. } = reply {
                nll += n;
                counted += tokens;
                whole += text_tokens;
            }
        }
        if counted == 0 {
            return Err(EvaluationError::Nothing { task: self.id(), what: "tokens" });
        }
        let mean = nll / counted as f64;
        let mut metrics =
            vec![lower("token_perplexity", mean.exp()), lower("nll_nats_per_token", mean)];
        if counted == whole {
            let texts = || self.documents.iter().map(|d| d.text.as_str());
            let words = texts().map(|t| t.split_whitespace().count()).sum::<usize>() as f64;
            let bytes = texts().map(str::len).sum::<usize>() as f64;
            metrics.extend([
                lower("word_perplexity", (nll / words).exp()),
                lower("byte_perplexity", (nll / bytes).exp()),
                lower("bits_per_byte", nll / bytes / std::f64::consts::LN_2),
            ]);
        }
        let compared = divergence::pieces(replies.iter().flatten());
        metrics.extend(divergence::metrics(&compared));
        let samples = self.samples(replies, counted, mean, &compared);
        Ok(TaskResult {
            task: self.id(),
            protocol: self.protocol.id(),
            version: self.version(),
            data_sha256: self.sha256.clone(),
            bos_used,
            metrics,
            counts: Counts {
                items: self.documents.len(),
                tokens_counted: counted,
                ..Counts::default()
            },
            original: self.documents.len(),
            samples,
            ..TaskResult::default()
        })
    }
}

impl TextPerplexity {
    /// Documents, or the windows of a single one, with their influences on the mean loss and on the
    /// perplexity. Both are ratios of sums; score plus influence has the score as its mean, so two
    /// models can be compared document by document.
    fn samples(
        &self,
        replies: &[Vec<Reply>],
        counted: usize,
        mean: f64,
        compared: &[TokenDivergences],
    ) -> Vec<Sample> {
        let mut pieces = Vec::new();
        for (document, reply) in self.documents.iter().zip(replies.iter().flatten()) {
            let Reply::Rolling { nll, tokens, windows, .. } = reply else { continue };
            let place = format!("{}, document at line {}", self.file, document.line);
            if self.documents.len() > 1 {
                pieces.push((place, WindowLoss { nll: *nll, tokens: *tokens }));
                continue;
            }
            let window = |(index, of)| (format!("{place}, window {index}"), of);
            pieces.extend(windows.iter().copied().enumerate().map(window));
        }
        let tokens_each = counted as f64 / pieces.len() as f64;
        let divergences = divergence::scores(compared);
        let perplexity = mean.exp();
        let sample = |(index, (place, loss)): (usize, (String, WindowLoss))| {
            let WindowLoss { nll, tokens: own } = loss;
            let influence = (nll - mean * own as f64) / tokens_each;
            let figures = [
                ("nll_nats_per_token", mean + influence),
                ("token_perplexity", perplexity * (1.0 + influence)),
            ];
            let diverged = divergences.get(index).copied().into_iter().flatten();
            let figures = figures.into_iter().chain(diverged);
            let finite = figures.filter(|(_, figure)| figure.is_finite());
            let record = json!({"doc_id": index, "place": place, "nll": nll, "tokens": own});
            Sample {
                place,
                filter: "none".to_owned(),
                group: None,
                numbers: finite.map(|(name, figure)| (name.to_owned(), figure)).collect(),
                record: record.as_object().cloned().unwrap_or_default(),
            }
        };
        pieces.into_iter().enumerate().map(sample).collect()
    }
}

fn lower(name: &str, value: f64) -> Metric {
    Metric::new(name, value, None, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(window: usize, stride: usize, tokens: usize) -> Vec<(Range<usize>, usize)> {
        Protocol::new(window, stride, Bos::Never, Join::Separate).unwrap().windows(tokens)
    }

    #[test]
    fn windows_side_by_side_count_from_their_second_token() {
        assert_eq!(windows(4, 4, 10), [(0..4, 1), (4..8, 1), (8..10, 1)]);
        // A last window of one token counts nothing.
        assert_eq!(windows(4, 4, 9), [(0..4, 1), (4..8, 1)]);
        assert_eq!(windows(4, 4, 3), [(0..3, 1)]);
        assert_eq!(windows(4, 4, 1), []);
        assert_eq!(windows(4, 4, 0), []);
    }

    #[test]
    fn later_windows_count_their_last_stride() {
        assert_eq!(windows(4, 2, 8), [(0..4, 1), (2..6, 2), (4..8, 2)]);
        assert_eq!(windows(4, 2, 7), [(0..4, 1), (2..6, 2), (4..7, 2)]);
        assert_eq!(windows(4, 1, 6), [(0..4, 1), (1..5, 3), (2..6, 3)]);
        assert_eq!(windows(512, 256, 512), [(0..512, 1)]);
        for tokens in 1..40 {
            for stride in 1..6 {
                let counted: usize = windows(7, stride, tokens)
                    .iter()
                    .map(|(range, first)| range.len() - first)
                    .sum();
                assert_eq!(counted, tokens - 1, "{tokens} tokens, stride {stride}");
            }
        }
    }

    #[test]
    fn only_one_protocol_has_the_papers_name() {
        assert_eq!(Protocol::rotor_paper().id(), "rotor_paper");
        let id = |window, stride, bos, join| Protocol::new(window, stride, bos, join).unwrap().id();
        assert_eq!(
            id(512, 512, Bos::Always, Join::Separate),
            "text_ppl_w512_s512_bos-always-each-window"
        );
        assert_eq!(
            id(512, 128, Bos::Auto, Join::BlankLine),
            "text_ppl_w512_s128_bos-auto-each-window_joined-blank-line"
        );
        assert_eq!(id(512, 512, Bos::Never, Join::Separate), "text_ppl_w512_s512_bos-never");
        // The paper's windows do not begin with that token.
        let own = id(512, 256, Bos::Auto, Join::Space);
        assert_eq!(own, "text_ppl_w512_s256_bos-auto-each-window_joined-space");
        let named = Protocol { bos: Bos::Always, ..PROTOCOLS[0].protocol };
        assert_eq!(named.id(), "text_ppl_w2048_s2048_bos-always_joined-blank-line");
    }

    #[test]
    fn papers_leave_a_short_last_window_out() {
        let paper = Protocol {
            whole_windows: true,
            ..Protocol::new(4, 4, Bos::Never, Join::Space).unwrap()
        };
        assert_eq!(paper.windows(10), [(0..4, 1), (4..8, 1)]);
        assert_eq!(paper.windows(3), []);
        let mut names: Vec<_> = PROTOCOLS.iter().map(|named| named.protocol.id()).collect();
        // Penn Treebank and C4 have the same protocol.
        names.dedup();
        assert_eq!(names[0], "wikitext2_token_ppl_2048");
        assert_eq!(names[names.len() - 3..], ["rotor_paper", "rotor_wikitext2", "rotor_paper"]);
    }

    #[test]
    fn second_halves_are_those_of_whole_windows() {
        let halves = |window, most| {
            Protocol::second_halves(window, Bos::Auto, Join::Separate, most).unwrap()
        };
        assert_eq!(halves(4, None).windows(11), [(0..4, 3), (4..8, 3)]);
        assert_eq!(halves(5, None).windows(11), [(0..5, 3), (5..10, 3)]);
        assert_eq!(halves(3, Some(2)).windows(11), [(0..3, 2), (3..6, 2)]);
        assert_eq!(halves(4, None).windows(3), []);
        assert_eq!(
            halves(512, Some(2)).id(),
            "text_ppl_w512_s512_second-half_bos-auto-each-window"
        );
        assert!(Protocol::second_halves(2, Bos::Auto, Join::Separate, None).is_err());
    }

    #[test]
    fn windows_that_make_no_sense_are_refused() {
        for (window, stride) in [(1, 1), (0, 0), (8, 0), (8, 9)] {
            let error = Protocol::new(window, stride, Bos::Auto, Join::Separate).unwrap_err();
            assert!(error.to_string().contains("do not fit"), "{error}");
        }
    }
}
