//! Small sums.

use linwright_tensor::RngKey;

/// Largest number that is added.
const MAX_TERM: usize = 20;

/// `count` documents of `lines` sums each, one a line: `7 plus 5 is 12.`, or as a question.
#[must_use]
pub(super) fn documents(key: RngKey, count: usize, lines: usize) -> Vec<String> {
    let document = |index: u64| {
        let mut stream = key.fold_index(index).stream();
        let mut line = || {
            let (a, b) = (stream.below(MAX_TERM + 1), stream.below(MAX_TERM + 1));
            match stream.below(3) {
                0 => format!("{a} plus {b} is {}.", a + b),
                1 => format!("If you add {b} to {a}, you get {}.", a + b),
                _ => format!("Question: What is {a} plus {b}?\nAnswer: {}.", a + b),
            }
        };
        (0..lines).map(|_| line()).collect::<Vec<_>>().join("\n")
    };
    (0..count as u64).map(document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sum_is_right() {
        let documents = documents(RngKey::new(2), 20, 6);
        assert_eq!(documents.len(), 20);
        for line in documents.iter().flat_map(|text| text.lines()) {
            let numbers: Vec<usize> = line
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|word| word.parse().ok())
                .collect();
            if let [a, b, sum] = numbers[..] {
                assert_eq!(a + b, sum, "{line}");
            }
        }
    }
}
