//! Format-aware mutations: lengths, numbers, words and pieces of other files.

use linwright_tensor::RngStream;

/// Boundary values of sizes and signs.
const INTERESTING: [u64; 22] = [
    0,
    1,
    2,
    3,
    7,
    8,
    9,
    16,
    255,
    256,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 40,
    1 << 62,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];
/// Largest number of changes per mutation.
const CHANGES: usize = 4;
/// Largest piece that is moved, in bytes.
const PIECE: usize = 64;

/// Sources of mutations.
pub(crate) struct Material<'a> {
    pub(crate) stream: &'a mut RngStream,
    /// Another input, for splicing.
    pub(crate) other: &'a [u8],
    /// Words of the format.
    pub(crate) tokens: &'a [Vec<u8>],
    /// Longest mutated input.
    pub(crate) longest: usize,
}

impl Material<'_> {
    /// Changes an input in a few places.
    pub(crate) fn mutate(&mut self, input: &mut Vec<u8>) {
        for _ in 0..=self.stream.below(CHANGES) {
            self.change(input);
            input.truncate(self.longest);
        }
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            input.extend_from_slice(self.other);
            return;
        }
        match self.stream.below(14) {
            0 => {
                let at = self.stream.below(input.len());
                input[at] ^= 1 << self.stream.below(8);
            }
            1 => {
                let at = self.stream.below(input.len());
                input[at] = self.stream.bits() as u8;
            }
            2 => input.truncate(self.stream.below(input.len())),
            3 => {
                let piece = self.piece(input.len());
                input.drain(piece);
            }
            4 => {
                let piece = input[self.piece(input.len())].to_vec();
                self.insert(input, &piece);
            }
            5 => self.splice(input),
            6 if !self.other.is_empty() => {
                let piece = self.piece(self.other.len());
                let piece = &self.other[piece];
                self.insert(input, piece);
            }
            7 | 8 => self.number(input),
            9 => self.length(input),
            10 | 11 if !self.tokens.is_empty() => self.token(input),
            12 => self.decimal(input),
            _ => {
                let [from, to] = [self.piece(input.len()), self.piece(input.len())];
                let piece = input[from].to_vec();
                let length = piece.len().min(input.len() - to.start);
                input[to.start..to.start + length].copy_from_slice(&piece[..length]);
            }
        }
    }

    /// A short range within `0..length`.
    fn piece(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.stream.below(length);
        let most = (length - start).min(PIECE);
        start..start + 1 + self.stream.below(most)
    }

    fn insert(&mut self, input: &mut Vec<u8>, piece: &[u8]) {
        let at = self.stream.below(input.len() + 1);
        input.splice(at..at, piece.iter().copied());
    }

    /// The head of one input and the tail of another.
    fn splice(&mut self, input: &mut Vec<u8>) {
        input.truncate(self.stream.below(input.len()));
        let from = self.stream.below(self.other.len() + 1);
        input.extend_from_slice(&self.other[from..]);
    }

    /// Writes a boundary value in one of the usual widths.
    fn number(&mut self, input: &mut [u8]) {
        let width = 1 << self.stream.below(4);
        if input.len() < width {
            return;
        }
        let at = self.stream.below(input.len() - width + 1);
        let mut value = INTERESTING[self.stream.below(INTERESTING.len())];
        match self.stream.below(4) {
            0 => value = value.wrapping_neg(),
            1 => value = input.len() as u64,
            _ => {}
        }
        let mut bytes = value.to_le_bytes();
        if self.stream.below(8) == 0 {
            bytes[..width].reverse();
        }
        input[at..at + width].copy_from_slice(&bytes[..width]);
    }

    /// Changes a number within the size of the input, which may be a length or an offset.
    fn length(&mut self, input: &mut [u8]) {
        let width = [2, 4, 8][self.stream.below(3)];
        if input.len() < width {
            return;
        }
        let places = input.len() - width + 1;
        let start = self.stream.below(places);
        let read = |at: usize| {
            let mut bytes = [0; 8];
            bytes[..width].copy_from_slice(&input[at..at + width]);
            u64::from_le_bytes(bytes)
        };
        let is_length = |at: &usize| (1..=input.len() as u64).contains(&read(*at));
        let Some(at) = (start..places).chain(0..start).find(is_length) else { return };
        let delta = [1, 2, 4, 8, 16, 64][self.stream.below(6)];
        let value = read(at);
        let value = match self.stream.below(3) {
            0 => value.wrapping_add(delta),
            1 => value.wrapping_sub(delta),
            _ => value.wrapping_mul(2),
        };
        input[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    /// Inserts a word of the format, or overwrites bytes with it.
    fn token(&mut self, input: &mut Vec<u8>) {
        let token = &self.tokens[self.stream.below(self.tokens.len())];
        let at = self.stream.below(input.len() + 1);
        let end = match self.stream.below(2) {
            0 => at,
            _ => input.len().min(at + token.len()),
        };
        input.splice(at..end, token.iter().copied());
    }

    /// Replaces a decimal number by another.
    fn decimal(&mut self, input: &mut Vec<u8>) {
        let from = self.stream.below(input.len());
        let is_digit = |at: &usize| input[*at].is_ascii_digit();
        let Some(start) = (from..input.len()).chain(0..from).find(is_digit) else { return };
        let end = (start..input.len()).find(|at| !is_digit(at)).unwrap_or(input.len());
        let value = match self.stream.below(3) {
            0 => self.stream.below(20).to_string(),
            1 => format!("-{}", self.stream.below(20)),
            _ => INTERESTING[self.stream.below(INTERESTING.len())].to_string(),
        };
        input.splice(start..end, value.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    #[test]
    fn mutations_differ_stay_bounded_and_are_the_same_for_a_seed() {
        let run = || {
            let mut stream = RngKey::new(3).stream();
            let tokens = [b"token".to_vec()];
            let mut mutants = Vec::new();
            for _ in 0..2000 {
                let mut input = b"{\"a\": 12} and more \x05\0\0\0 bytes".to_vec();
                let (stream, other) = (&mut stream, &b"others"[..]);
                Material { stream, other, tokens: &tokens, longest: 40 }.mutate(&mut input);
                assert!(input.len() <= 40);
                mutants.push(input);
            }
            mutants
        };
        let mutants = run();
        assert_eq!(mutants, run());
        let different: std::collections::BTreeSet<_> = mutants.iter().collect();
        assert!(different.len() > 1500, "{}", different.len());
        assert!(mutants.iter().any(|input| input.windows(5).any(|window| window == b"token")));
    }
}
