//! Rotors of a Clifford algebra through spin representations: `y = r x reverse(s)` as small matrix
//! products instead of a dense 2^n x 2^n one.
//!
//! A multivector `x = Σ x_A e_A` becomes `X = Σ x_A Γ_A` with `Γ_i` products of Pauli matrices.
//! Then `r x reverse(s)` becomes `R X Sᴴ`, and `y_A = Re tr(Γ_Aᴴ Y) / size`. Since each `Γ_A` is a
//! signed (or i-fold) permutation `X^x Z^z`, the change of basis is a gather followed by
//! Walsh-Hadamard transforms.
//!
//! The number of values needed for `X` depends on n mod 8; **sheets** are the square blocks that
//! are stored:
//!
//! | n mod 8 | sheets | each | multiply-adds of `R X Sᴴ` |
//! | --- | --- | --- | --- |
//! | 0 (n = 8; 16 as 4) | 4 | real, size 2^(n/2 - 1) | d^1.5 |
//! | 1, 7 (n = 1, 7, 9; 15 as 3) | 1 | complex, real rotors, size 2^((n - 1)/2) | √2 d^1.5 |
//! | 3, 5 | 2 | quaternionic: complex, size 2^((n - 1)/2), half of the columns | √8 d^1.5 |
//! | 2, 6 | 2 | complex, size 2^(n/2 - 1) | 2 d^1.5 |
//! | 4 | 4 | quaternionic: complex, size 2^(n/2 - 1), half of the columns | 2 d^1.5 |
//!
//! If rotors are quaternionic, products in single precision take half of these multiplications.
//!
//! - n = 3 mod 4: one complex matrix holds each number once.
//! - n = 1 mod 4: the product of all generators is a scalar, so a blade and its dual have the same
//!   matrix up to sign. Rotors are even, hence act separately on the even and the odd part, and the
//!   even matrices are the real (or quaternionic) half of all: odd blades are multiplied by i, and
//!   one complex matrix again holds each number once.
//! - n = 3 or 5 mod 8: the even and the odd blades are quaternion matrices each, up to a factor of
//!   i. They form two sheets as for n = 4 mod 8, so that quaternion products apply.
//! - n even: `Γ_i = γ_i ⊗ X`, `Γ_last = 1 ⊗ Y` over n - 1 generators. Even blades are block
//!   diagonal, odd ones off-diagonal, rotors block diagonal; for n = 2 mod 4 the first column of
//!   blocks holds each number once.
//! - n = 4 mod 8: a signed permutation B with `B conj(X) B⁻¹ = X` pairs the columns; one of each
//!   pair is stored, and the two rows paired by B are adjacent, so that a real matrix acts on them
//!   from the right.
//!
//! Source: the classification of Clifford algebras (Lounesto, *Clifford Algebras and Spinors*,
//! 2001, chapters 16 and 17) for the use in arXiv 2507.11688, which multiplies by dense matrices
//! instead.

mod basis;
mod change;
mod chunk;
mod entry;
mod multivector;
mod pauli;
mod rotor;
mod sandwich;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use basis::{BladeOrder, MAX_GENERATORS, SpinBasis, bivector_pairs, graded_blades};
pub use chunk::Chunk;
pub use entry::Side;
pub use multivector::{product_of_simple_rotors, rotor_by_series};
pub use rotor::{SpinRotor, skew_matrix};
pub use sandwich::{Sandwich, TurnSums};
