//! Translation edit rate (TER) of a corpus, with one reference for each text, as sacreBLEU 2
//! computes it by default and lm-evaluation-harness uses it.
//!
//! TER (Snover et al. 2006) is 100 · edits / words of the references, 0 for two empty sides and 100
//! for text without any reference word. Words are those between white space, in lower case. Edits
//! are insertions, deletions and substitutions of words, and shifts of a phrase, one each. Shifts
//! are chosen greedily, as in Tercom: of the phrases of up to 10 words that also occur in the
//! reference at most 50 words away, and that are wrong on both sides, the one whose shift saves
//! most edits; then the longest, the first, and the one with the first target.
//!
//! Two bounds of sacreBLEU are part of the score: edit distances are searched within 25 words of
//! the diagonal, and after 1000 candidates of a text the last shift found is not applied.
//!
//! A row of distances is stored for its band only, so memory is linear in the words of both sides.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

/// Longest phrase that is shifted, in words.
const PHRASE: usize = 10;
/// Furthest distance between a phrase and its place in the reference, in words.
const REACH: usize = 50;
/// Half of the width of the band around the diagonal.
const BEAM: usize = 25;
/// Number of shifts that are tried for a text.
const TRIED: usize = 1000;
/// Distance of cells outside of the band.
const FAR: u64 = 1 << 52;

/// Edits of a text and words of its reference, which add up over a corpus.
pub(super) fn counts(reference: &str, text: &str) -> Vec<f64> {
    let mut known = HashMap::new();
    let mut words = |text: &str| -> Vec<u32> {
        // White space of Python's `split` has four control characters more.
        let is_space = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
        let lower = text.to_lowercase();
        let mut ids = Vec::new();
        for word in lower.split(is_space).filter(|word| !word.is_empty()) {
            let next = known.len() as u32;
            ids.push(*known.entry(word.to_owned()).or_insert(next));
        }
        ids
    };
    let (reference, text) = (words(reference), words(text));
    vec![edits(&reference, text) as f64, reference.len() as f64]
}

/// The score of a corpus from the sum of its counts, in per cent.
pub(super) fn score(counts: &[f64]) -> f64 {
    match counts {
        [edits, words] if *words > 0.0 => 100.0 * (edits / words),
        [edits, _] if *edits > 0.0 => 100.0,
        _ => 0.0,
    }
}

/// Edits that turn a text into its reference.
fn edits(reference: &[u32], mut text: Vec<u32>) -> u64 {
    if reference.is_empty() {
        return text.len() as u64;
    }
    let mut distances = Distances::new(reference, text.len());
    let (mut shifts, mut tried) = (0, 0);
    loop {
        let before = distances.of(&text);
        let best = best_shift(&mut distances, &text, before, &mut tried);
        match best {
            Some(shift) if tried < TRIED && shift.saved > 0 => {
                text = shifted(&text, shift.from, shift.length, shift.to());
                shifts += 1;
            }
            _ => return shifts + distances.of(&text),
        }
    }
}

/// A shift, in the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shift {
    /// Edits that it saves.
    saved: i64,
    length: usize,
    /// Start of the phrase, counted from the end so that the first one is largest.
    earlier: Reverse<usize>,
    /// Its target, likewise.
    target: Reverse<usize>,
    from: usize,
}

impl Shift {
    fn to(self) -> usize {
        self.target.0
    }
}

/// The best shift of a phrase, counting those tried.
fn best_shift(
    distances: &mut Distances<'_>,
    text: &[u32],
    before: u64,
    tried: &mut usize,
) -> Option<Shift> {
    let alignment = distances.alignment(text.len());
    let reference = distances.reference;
    let mut best: Option<Shift> = None;
    for from in 0..text.len() {
        for place in from.saturating_sub(REACH)..reference.len().min(from + REACH + 1) {
            let pairs = text[from..].iter().zip(&reference[place..]);
            let common = pairs.take(PHRASE).take_while(|(own, other)| own == other).count();
            for length in 1..=common {
                if !alignment.is_wrong(from, place, length) {
                    continue;
                }
                for target in alignment.targets(place, length) {
                    let candidate = shifted(text, from, length, target);
                    let saved = before as i64 - distances.of(&candidate) as i64;
                    let (earlier, target) = (Reverse(from), Reverse(target));
                    best = best.max(Some(Shift { saved, length, earlier, target, from }));
                    *tried += 1;
                }
                if *tried >= TRIED {
                    return best;
                }
            }
        }
    }
    best
}

/// A text with the phrase at `from` moved before the word that is now at `target`; within the
/// phrase, behind as many of the words that follow it.
fn shifted(text: &[u32], from: usize, length: usize, target: usize) -> Vec<u32> {
    let end = from + length;
    let phrase = &text[from..end];
    if target < from {
        [&text[..target], phrase, &text[target..from], &text[end..]].concat()
    } else {
        let behind = if target > end { target } else { (length + target).min(text.len()) };
        [&text[..from], &text[end..behind], phrase, &text[behind..]].concat()
    }
}

/// How a reference is aligned with a text.
struct Alignment {
    /// For each word of the reference, the number of words of the text up to its partner.
    up_to: Vec<usize>,
    /// Number of wrong words of the reference and of the text before each.
    wrong_reference: Vec<usize>,
    wrong_text: Vec<usize>,
}

impl Alignment {
    /// Whether a phrase is wrong in the text and in the reference, and not where it should be.
    fn is_wrong(&self, from: usize, place: usize, length: usize) -> bool {
        let any = |counts: &[usize], start: usize| counts[start + length] > counts[start];
        let partner = self.up_to[place];
        any(&self.wrong_text, from)
            && any(&self.wrong_reference, place)
            && !(from < partner && partner <= from + length)
    }

    /// Targets of a phrase: before the partner of its place in the reference, and behind the
    /// partners of the words there.
    fn targets(&self, place: usize, length: usize) -> Vec<usize> {
        let start = place.checked_sub(1).map_or(0, |before| self.up_to[before]);
        let mut targets = vec![start];
        targets.extend(&self.up_to[place..(place + length).min(self.up_to.len())]);
        targets.dedup();
        targets
    }
}

/// An edit that turns a text into the reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit {
    Keep,
    Substitute,
    Delete,
    Insert,
    None,
}

/// Distances of the first words of a text from those of the reference, within a band.
struct Row {
    band: Range<usize>,
    cells: Vec<(u64, Edit)>,
}

impl Row {
    fn at(&self, column: usize) -> (u64, Edit) {
        match self.band.contains(&column) {
            true => self.cells[column - self.band.start],
            false => (FAR, Edit::None),
        }
    }
}

/// Edit distances of texts of one length from a reference.
struct Distances<'a> {
    reference: &'a [u32],
    /// The text of the rows.
    text: Vec<u32>,
    /// One row for each number of words, of which the first are valid.
    rows: Vec<Row>,
    valid: usize,
}

impl<'a> Distances<'a> {
    fn new(reference: &'a [u32], words: usize) -> Self {
        let columns = reference.len() + 1;
        let cells = (0..columns as u64).map(|column| (column, Edit::Insert)).collect();
        let first = Row { band: 0..columns, cells };
        let ratio = if words == 0 { 1.0 } else { reference.len() as f64 / words as f64 };
        // A band wide enough to meet that of the row before.
        let beam = match (BEAM as f64) < ratio / 2.0 {
            true => (ratio / 2.0 + BEAM as f64).ceil() as usize,
            false => BEAM,
        };
        let row = |index: usize| {
            let middle = (index as f64 * ratio).floor() as usize;
            let end = if index == words { columns } else { columns.min(middle + beam) };
            let band = middle.saturating_sub(beam)..end;
            Row { cells: vec![(FAR, Edit::None); band.len()], band }
        };
        let rows = std::iter::once(first).chain((1..=words).map(row)).collect();
        Self { reference, text: vec![0; words], rows, valid: 0 }
    }

    /// Distance of a text. Rows of words that it shares with the last one are kept.
    fn of(&mut self, text: &[u32]) -> u64 {
        let common = self.text.iter().zip(text).take_while(|(own, other)| own == other).count();
        let start = common.min(self.valid);
        for index in start + 1..=text.len() {
            let (before, rest) = self.rows.split_at_mut(index);
            let (before, row) = (&before[index - 1], &mut rest[0]);
            let mut left = FAR;
            for column in row.band.clone() {
                let cell = match column {
                    0 => (before.at(0).0 + 1, Edit::Delete),
                    _ => {
                        let is_same = text[index - 1] == self.reference[column - 1];
                        let diagonal = before.at(column - 1).0;
                        let (cost, edit) =
                            if is_same { (0, Edit::Keep) } else { (1, Edit::Substitute) };
                        let mut best = (FAR, Edit::None);
                        // The first of equal ones, in this order.
                        for other in [
                            (diagonal + cost, edit),
                            (before.at(column).0 + 1, Edit::Delete),
                            (left + 1, Edit::Insert),
                        ] {
                            if other.0 < best.0 {
                                best = other;
                            }
                        }
                        best
                    }
                };
                left = cell.0;
                row.cells[column - row.band.start] = cell;
            }
        }
        self.text.copy_from_slice(text);
        self.valid = text.len();
        self.rows[text.len()].at(self.reference.len()).0
    }

    /// Alignment of the last text, of this number of words.
    fn alignment(&self, words: usize) -> Alignment {
        let (mut row, mut column) = (words, self.reference.len());
        let mut trace = Vec::with_capacity(row + column);
        while row > 0 || column > 0 {
            let edit = self.rows[row].at(column).1;
            match edit {
                Edit::Keep | Edit::Substitute => (row, column) = (row - 1, column - 1),
                Edit::Insert => column -= 1,
                Edit::Delete => row -= 1,
                Edit::None => unreachable!("bands of neighbouring rows meet"),
            }
            trace.push(edit);
        }
        let mut alignment =
            Alignment { up_to: Vec::new(), wrong_reference: vec![0], wrong_text: vec![0] };
        let push = |counts: &mut Vec<usize>, is_wrong: bool| {
            counts.push(counts[counts.len() - 1] + usize::from(is_wrong));
        };
        for edit in trace.into_iter().rev() {
            if edit != Edit::Insert {
                push(&mut alignment.wrong_text, edit != Edit::Keep);
            }
            if edit != Edit::Delete {
                push(&mut alignment.wrong_reference, edit != Edit::Keep);
                alignment.up_to.push(alignment.wrong_text.len() - 1);
            }
        }
        alignment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Golden {
        corpora: Vec<Corpus>,
    }

    #[derive(Deserialize)]
    struct Corpus {
        pairs: Vec<[String; 2]>,
        scores: [f64; 2],
    }

    #[test]
    fn scores_are_those_of_sacrebleu_in_both_directions() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/edit-rate");
        let golden = std::fs::read_to_string(format!("{root}/sacrebleu.json")).unwrap();
        let golden: Golden = serde_json::from_str(&golden).unwrap();
        assert!(golden.corpora.len() > 30);
        for Corpus { pairs, scores } in golden.corpora {
            for (side, expected) in scores.into_iter().enumerate() {
                let mut sum = vec![0.0; 2];
                for pair in &pairs {
                    let counts = counts(&pair[side], &pair[1 - side]);
                    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
                let found = score(&sum);
                assert!((found - expected).abs() < 1e-9, "{found}, not {expected}: {pairs:?}");
            }
        }
    }

    #[test]
    fn memory_is_that_of_the_band() {
        let reference: Vec<u32> = (0..50_000).collect();
        let distances = Distances::new(&reference, 300);
        let cells: usize = distances.rows.iter().map(|row| row.cells.len()).sum();
        assert!(cells < 300_000, "{cells} cells");
    }
}
