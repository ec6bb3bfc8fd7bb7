//! Exact products of Pauli matrices: two bit masks and a power of i.

/// `i^phase X^x Z^z` on qubits 0, 1, ...: bit q of a mask says whether qubit q has the letter.
///
/// Column j has one entry, in row `j ^ x`: `i^phase (-1)^popcount(z & j)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pauli {
    pub(super) x: u32,
    pub(super) z: u32,
    pub(super) phase: u8,
}

impl Pauli {
    /// From letters, qubit 0 first. `Y = i X Z`.
    fn from_letters(letters: &str) -> Self {
        let mut product = Self::default();
        for (qubit, letter) in letters.bytes().enumerate() {
            let bit = 1 << qubit;
            product.x |= if matches!(letter, b'X' | b'Y') { bit } else { 0 };
            product.z |= if matches!(letter, b'Z' | b'Y') { bit } else { 0 };
            product.phase += u8::from(letter == b'Y');
        }
        product.turned(0)
    }

    /// The matrix product `self · other`.
    pub(super) fn times(self, other: Self) -> Self {
        let swaps = 2 * ((self.z & other.x).count_ones() as u8 % 2);
        Self { x: self.x ^ other.x, z: self.z ^ other.z, phase: self.phase + other.phase }
            .turned(swaps)
    }

    /// Times `i^quarters`.
    pub(super) fn turned(self, quarters: u8) -> Self {
        Self { phase: (self.phase + quarters) % 4, ..self }
    }

    /// Whether all entries are real.
    pub(super) fn is_real(self) -> bool {
        self.phase.is_multiple_of(2)
    }

    /// Row and value (real and imaginary part) of the entry of a column.
    pub(super) fn entry(self, column: usize) -> (usize, f64, f64) {
        let sign = if (self.z & column as u32).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let (re, im) = [(sign, 0.0), (0.0, sign), (-sign, 0.0), (0.0, -sign)][self.phase as usize];
        (column ^ self.x as usize, re, im)
    }
}

/// `n` (odd) anticommuting matrices of square one on (n - 1) / 2 qubits.
///
/// The Jordan-Wigner matrices, except for n = 7 and n = 9, where purely imaginary and purely real
/// matrices exist: with them the rotors of n = 7, 8 and 9 are real, which halves the work.
pub(super) fn generators(n: usize) -> Vec<Pauli> {
    const SEVEN: [&str; 7] = ["YIX", "YIZ", "IXY", "IZY", "XYI", "ZYI", "YYY"];
    match n {
        7 => SEVEN.map(Pauli::from_letters).to_vec(),
        9 => {
            let letters = SEVEN.iter().map(|seven| format!("Y{seven}"));
            let letters = letters.chain(["XIII".into(), "ZIII".into()]);
            letters.map(|letters| Pauli::from_letters(&letters)).collect()
        }
        _ => {
            let qubits = n / 2;
            let below = |qubit: usize| (1u32 << qubit) - 1;
            let pair = |qubit: usize| {
                let bit = 1u32 << qubit;
                let x = Pauli { x: bit, z: below(qubit), phase: 0 };
                let y = Pauli { x: bit, z: below(qubit) | bit, phase: 1 };
                [x, y]
            };
            let last = Pauli { x: 0, z: below(qubits), phase: 0 };
            (0..qubits).flat_map(pair).chain([last]).take(n).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_square_to_one_and_anticommute() {
        for n in (1..=15).step_by(2) {
            let gammas = generators(n);
            assert_eq!(gammas.len(), n);
            for (i, &a) in gammas.iter().enumerate() {
                assert_eq!(a.times(a), Pauli::default(), "n {n}, {i}");
                for &b in &gammas[..i] {
                    assert_eq!(a.times(b), b.times(a).turned(2), "n {n}, {i}");
                }
            }
        }
        assert!(generators(7).iter().all(|g| !g.is_real()));
        assert!(generators(9).iter().all(|g| g.is_real()));
    }
}
