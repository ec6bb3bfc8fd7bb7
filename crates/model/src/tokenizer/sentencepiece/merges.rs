//! BPE merges from pieces and scores.
//!
//! SentencePiece merges the neighbours whose joined piece scores highest; the tokenizers library
//! merges the pair of lowest rank. So every split of a piece into two pieces becomes a merge,
//! ranked by descending score of the piece, then by its id, then by the length of the left part:
//! the order of transformers wherever scores fall with ids, as in trained models.

use std::collections::HashMap;

/// Limit of byte comparisons for all splits: about two seconds; the largest known vocabulary needs
/// a hundredth of a second.
const MAX_WORK: usize = 1 << 31;
/// Limit of the bytes of merges per byte of pieces, and a constant allowance.
const MAX_BYTES: (usize, usize) = (16, 1 << 20);

/// All merges, best first.
pub(super) fn merges(pieces: &[(&str, f32)]) -> Result<Vec<(String, String)>, String> {
    let work: usize = pieces.iter().map(|(piece, _)| piece.len() * piece.len()).sum();
    if work > MAX_WORK {
        return Err(format!("pieces so long that their splits need {work} comparisons"));
    }
    let limit = MAX_BYTES.0 * pieces.iter().map(|(piece, _)| piece.len()).sum::<usize>();
    let limit = limit + MAX_BYTES.1;
    let known: HashMap<&str, usize> =
        pieces.iter().enumerate().map(|(id, (piece, _))| (*piece, id)).collect();
    let mut ranked: Vec<usize> = (0..pieces.len()).collect();
    ranked.sort_by(|&a, &b| pieces[b].1.total_cmp(&pieces[a].1).then(a.cmp(&b)));
    let mut merges = Vec::new();
    let mut bytes = 0;
    for id in ranked {
        let piece = pieces[id].0;
        for (at, _) in piece.char_indices().skip(1) {
            let (left, right) = piece.split_at(at);
            if known.contains_key(left) && known.contains_key(right) {
                bytes += piece.len();
                if bytes > limit {
                    return Err(format!("more than {limit} bytes of merges"));
                }
                merges.push((left.to_owned(), right.to_owned()));
            }
        }
    }
    Ok(merges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_is_a_merge_and_the_highest_score_comes_first() {
        let pieces =
            [("a", -9.0), ("b", -9.0), ("ab", -2.0), ("aba", -1.0), ("ba", -3.0), ("x", 0.0)];
        let found = merges(&pieces).unwrap();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(l, r)| (l.as_str(), r.as_str())).collect();
        assert_eq!(found, [("a", "ba"), ("ab", "a"), ("a", "b"), ("b", "a")]);
    }

    #[test]
    fn pieces_that_would_need_quadratic_time_or_memory_are_refused() {
        let long: Vec<String> = (0..16).map(|i| format!("{i}{}", "y".repeat(20_000))).collect();
        let pieces: Vec<(&str, f32)> = long.iter().map(|piece| (piece.as_str(), 0.0)).collect();
        assert!(merges(&pieces).unwrap_err().contains("comparisons"));
        let runs: Vec<String> = (1..400).map(|n| "a".repeat(n)).collect();
        let pieces: Vec<(&str, f32)> = runs.iter().map(|piece| (piece.as_str(), 0.0)).collect();
        assert!(merges(&pieces).unwrap_err().contains("bytes of merges"));
    }
}
