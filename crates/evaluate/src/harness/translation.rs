//! BLEU and chrF of a corpus, with one reference for each text, as sacreBLEU 2 computes them by
//! default and lm-evaluation-harness uses them.
//!
//! BLEU (Papineni et al. 2002) is the geometric mean of the precisions of n-grams of 1 to 4 words,
//! cut off at the counts of the reference, times a penalty for texts that are too short; words are
//! those of mteval-v13a, and orders without a match count as 1/2, 1/4, … of one (smoothing `exp`).
//! chrF (Popović 2015) is the F-score, β = 2, of the mean precision and recall of n-grams of 1 to 6
//! characters without white space; chrF++ (2017) adds those of 1 and 2 words. Both are percentages.
//! The translation edit rate is in [`edit_rate`].

use super::edit_rate;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::LazyLock;

/// Longest n-grams of words of BLEU.
const WORDS: usize = 4;
/// Longest n-grams of characters of chrF.
const CHARACTERS: usize = 6;
/// Longest n-grams of words of chrF++.
const WORDS_OF_CHRF: usize = 2;
/// Weight of recall against precision in chrF.
const BETA: f64 = 2.0;
/// What stands for the logarithm of zero.
const LOG_OF_ZERO: f64 = -9_999_999_999.0;

/// A score of a text against its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Translation {
    /// BLEU.
    Bleu,
    /// chrF.
    Chrf,
    /// chrF++.
    ChrfPlus,
    /// Translation edit rate.
    Ter,
}

impl Translation {
    /// The counts of one text, which add up over a corpus.
    pub(super) fn counts(self, reference: &str, text: &str) -> Vec<f64> {
        match self {
            Self::Bleu => bleu_counts(reference, text),
            Self::Chrf => chrf_counts(reference, text, 0),
            Self::ChrfPlus => chrf_counts(reference, text, WORDS_OF_CHRF),
            Self::Ter => edit_rate::counts(reference, text),
        }
    }

    /// The score of a corpus from the sum of its counts, in per cent.
    pub(super) fn score(self, counts: &[f64]) -> f64 {
        match self {
            Self::Bleu => bleu(counts),
            Self::Chrf | Self::ChrfPlus => chrf(counts),
            Self::Ter => edit_rate::score(counts),
        }
    }
}

/// Counts of the n-grams of these lengths.
fn grams<T: Clone + Eq + Hash>(parts: &[T], length: usize) -> HashMap<&[T], usize> {
    let mut counts = HashMap::new();
    for gram in parts.windows(length) {
        *counts.entry(gram).or_default() += 1;
    }
    counts
}

/// N-grams of the text, those of the reference, and those of both, cut off at its counts.
fn overlap<T: Clone + Eq + Hash>(reference: &[T], text: &[T], length: usize) -> [f64; 3] {
    let (of_reference, of_text) = (grams(reference, length), grams(text, length));
    let common = of_text
        .iter()
        .map(|(gram, count)| *of_reference.get(gram).unwrap_or(&0).min(count))
        .sum::<usize>();
    let all = |parts: &[T]| (parts.len() + 1).saturating_sub(length) as f64;
    [all(text), all(reference), common as f64]
}

/// Words of both, then the common and all n-grams of the text by length.
fn bleu_counts(reference: &str, text: &str) -> Vec<f64> {
    let (reference, text) = (words_13a(reference), words_13a(text));
    let (reference, text): (Vec<&str>, Vec<&str>) =
        (reference.split_whitespace().collect(), text.split_whitespace().collect());
    let mut counts = vec![text.len() as f64, reference.len() as f64];
    for length in 1..=WORDS {
        let [all, _, common] = overlap(&reference, &text, length);
        counts.extend([common, all]);
    }
    counts
}

fn bleu(counts: &[f64]) -> f64 {
    let (&[own, reference], grams) = counts.split_first_chunk().expect("counts of BLEU");
    if grams.chunks(2).all(|pair| pair[0] == 0.0) {
        return 0.0;
    }
    let penalty = if own < reference { (1.0 - reference / own).exp() } else { 1.0 };
    let mut sum = 0.0;
    let (mut smoothing, mut ended) = (1.0, false);
    for pair in grams.chunks(2) {
        let (common, all) = (pair[0], pair[1]);
        ended |= all == 0.0;
        sum += match (ended, common == 0.0) {
            (true, _) => LOG_OF_ZERO,
            (false, true) => {
                smoothing *= 2.0;
                (100.0 / (smoothing * all)).ln()
            }
            (false, false) => (100.0 * common / all).ln(),
        };
    }
    penalty * (sum / WORDS as f64).exp()
}

/// A text with spaces between its words, by the rules of mteval-v13a for Western languages.
fn words_13a(text: &str) -> String {
    use fancy_regex::Regex;
    static RULES: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
        [
            (r"([\{-\~\[-\` -\&\(-\+\:-\@\/])", " $1 "),
            // Stops and commas but between digits, and dashes behind digits.
            (r"([^0-9])([\.,])", "$1 $2 "),
            (r"([\.,])([^0-9])", " $1 $2"),
            (r"([0-9])(-)", "$1 $2 "),
        ]
        .map(|(rule, to)| (Regex::new(rule).expect("a rule of this file"), to))
    });
    let mut text = text.trim_end().replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    for (entity, character) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
        text = text.replace(entity, character);
    }
    let mut text = format!(" {text} ");
    for (rule, to) in RULES.iter() {
        text = rule.replace_all(&text, *to).into_owned();
    }
    text
}

/// For each length n-grams of the text, of the reference, and of both: of characters, then of up to
/// `words` words.
fn chrf_counts(reference: &str, text: &str, words: usize) -> Vec<f64> {
    let characters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<Vec<_>>();
    let (own, other) = (characters(text), characters(reference));
    let mut counts: Vec<f64> = Vec::with_capacity(3 * (CHARACTERS + words));
    for length in 1..=CHARACTERS {
        counts.extend(counted(overlap(&other, &own, length)));
    }
    let (own, other) = (words_apart(text), words_apart(reference));
    for length in 1..=words {
        counts.extend(counted(overlap(&other, &own, length)));
    }
    counts
}

/// N-grams of a text do not count where the reference has none of their length.
fn counted([own, reference, common]: [f64; 3]) -> [f64; 3] {
    [if reference > 0.0 { own } else { 0.0 }, reference, common]
}

/// Words, with one punctuation mark at their end or else at their start apart.
fn words_apart(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let is_mark = |c: Option<char>| c.is_some_and(|c| c.is_ascii_punctuation());
        let mut characters = word.chars();
        let (first, last) = (characters.next(), characters.next_back());
        match (last, is_mark(last), is_mark(first)) {
            (None, ..) => words.push(word),
            (Some(_), true, _) => words.extend([&word[..word.len() - 1], &word[word.len() - 1..]]),
            (Some(_), false, true) => words.extend([&word[..1], &word[1..]]),
            (Some(_), false, false) => words.push(word),
        }
    }
    words
}

fn chrf(counts: &[f64]) -> f64 {
    let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
    for order in counts.chunks(3) {
        let [own, reference, common] = [order[0], order[1], order[2]];
        if own > 0.0 && reference > 0.0 {
            precision += common / own;
            recall += common / reference;
            orders += 1.0;
        }
    }
    if precision + recall == 0.0 {
        return 0.0;
    }
    let (precision, recall, weight) = (precision / orders, recall / orders, BETA * BETA);
    100.0 * (1.0 + weight) * precision * recall / (weight * precision + recall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_sacrebleu() {
        // sacrebleu 2: corpus_bleu, corpus_chrf, corpus_chrf with word_order 2.
        let corpora: [(&[[&str; 2]], [f64; 3]); 6] = [
            (
                &[
                    ["The cat sat on the mat.", "The cat is on the mat."],
                    [
                        "It costs 1,250.50 dollars - about 3-4 euros.",
                        "It cost 1,250.50 dollars, about 3-4 euro.",
                    ],
                ],
                [36.889_397_323_344_05, 71.616_553_924_762_21, 68.451_325_601_560_82],
            ),
            (
                &[
                    [
                        "Er hat \"alles\" gesehen & gehört.",
                        "Er hat &quot;alles&quot; gesehen &amp; gehört.",
                    ],
                    ["Ọjọ́ dára púpọ̀ lónìí!", "Ọjọ́ náà dára lónìí."],
                    ["x", ""],
                ],
                [68.906_355_316_173_57, 45.999_281_183_868_41, 43.941_764_572_404_97],
            ),
            (
                &[["one two three", "four five six"]],
                [0.0, 4.545_454_545_454_545, 3.409_090_909_090_908_7],
            ),
            (
                &[["short", "a much longer text than the reference"]],
                [0.0, 10.031_635_558_367_604, 8.359_696_298_639_67],
            ),
            (
                &[["a b c d e f g h", "a b c d e"]],
                [54.881_163_609_402_66, 52.501_198_657_503_6, 56.159_420_289_855_07],
            ),
            (
                &[[
                    "Ünï cödé (test): [x] {y} ~z/ a.b,c 5.",
                    "Ünï code (test) : [x] {y}~ z/ a.b,c 5 .",
                ]],
                [91.320_270_132_860_06, 80.756_297_980_435_9, 73.275_859_781_045_75],
            ),
        ];
        let scores = [Translation::Bleu, Translation::Chrf, Translation::ChrfPlus];
        for (corpus, expected) in corpora {
            for (score, expected) in scores.into_iter().zip(expected) {
                let mut sum: Vec<f64> = Vec::new();
                for [reference, text] in corpus {
                    let counts = score.counts(reference, text);
                    sum.resize(counts.len(), 0.0);
                    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
                let found = score.score(&sum);
                assert!((found - expected).abs() < 1e-9, "{score:?} {corpus:?}: {found}");
            }
        }
    }
}
