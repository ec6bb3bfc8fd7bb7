//! The sparse Johnson-Lindenstrauss transform (SJLT): every input is added, with a random sign, to
//! `s` random outputs.
//!
//! `y[h(j, q)] += e(j, q) x[j] / √s` for `q < s`, with targets `h` uniform in `0..out`, drawn with
//! replacement, and signs `e = ±1`. Inner products are unbiased: `E⟨Sx, Sz⟩ = ⟨x, z⟩`; for s = 1
//! their variance is `(|x|²|z|² + ⟨x, z⟩² - 2 Σ x²z²) / out`.
//!
//! | | |
//! |---|---|
//! | stored | `s inp` codes of 4 bytes: target and sign |
//! | time | `s inp` additions |
//!
//! Source: Kane and Nelson 2014, doi:10.1145/2559902; with replacement as in GraSS,
//! arXiv:2505.18976, where s = 1. Zero inputs are not skipped, which changes no sum.

use super::{Rows, VectorMap, check_adjoint, check_part, check_shapes, check_size};
use crate::AttributeError;
use crate::map_file::{Content, Parts};
use linwright_ops::Shape;
use linwright_tensor::kernels::sparse_signs::{
    MOST_TARGETS, add_signed, code, decode, signed_sums,
};
use linwright_tensor::{MatMut, MatRef, RngKey, Scratch, parallel};

/// A map with `per_input` signs for every input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparseSigns {
    inp: usize,
    out: usize,
    per_input: usize,
    codes: Vec<u32>,
}

impl SparseSigns {
    pub(super) const KIND: &'static str = "sparse_signs";

    /// The map with these targets and signs: those of the first input, then those of the second.
    ///
    /// # Errors
    /// [`AttributeError::Map`] unless there are `per_input` of both for each of `inp` inputs, all
    /// targets are below `out`, and `per_input` is from 1 to `out`.
    pub fn new(
        shape: Shape,
        per_input: usize,
        targets: &[u32],
        is_minus: &[bool],
    ) -> Result<Self, AttributeError> {
        let Shape { out, inp } = shape;
        let parts = Parts::new(Self::KIND, inp);
        if per_input == 0 || per_input > out || out > MOST_TARGETS {
            let expected = format!("1 to {out}, the number of outputs, of at most {MOST_TARGETS}");
            return Err(parts.refused(format!("{per_input} signs for each input"), expected));
        }
        if (Some(targets.len()), targets.len()) != (inp.checked_mul(per_input), is_minus.len()) {
            let found = format!("{} targets and {} signs", targets.len(), is_minus.len());
            return Err(parts.refused(found, format!("{per_input} for each of {inp} inputs")));
        }
        if let Some(bad) = targets.iter().find(|target| **target as usize >= out) {
            return Err(parts.refused(format!("target {bad}"), format!("targets below {out}")));
        }
        let codes = targets.iter().zip(is_minus).map(|(&target, &minus)| code(target, minus));
        Ok(Self { inp, out, per_input, codes: codes.collect() })
    }

    /// Random targets and signs.
    ///
    /// # Errors
    /// As [`Self::new`], and [`AttributeError::MapTooLarge`].
    pub fn random(shape: Shape, per_input: usize, key: RngKey) -> Result<Self, AttributeError> {
        let Shape { out, inp } = shape;
        let count = check_size(Self::KIND, inp.checked_mul(per_input))?;
        if out == 0 {
            return Self::new(shape, per_input, &[], &[]);
        }
        let mut targets = key.fold("targets").stream();
        let targets: Vec<u32> = (0..count).map(|_| targets.below(out) as u32).collect();
        Self::new(shape, per_input, &targets, &random_signs(count, key.fold("signs")))
    }

    /// Number of signs for every input.
    #[must_use]
    pub fn per_input(&self) -> usize {
        self.per_input
    }

    pub(super) fn read(parts: &Parts) -> Result<Self, AttributeError> {
        let (out, per_input) = (parts.option("out")?, parts.option("per_input")?);
        let (targets, signs) = (parts.indices("idx")?, parts.signs("sign")?);
        Self::new(Shape { out, inp: parts.inp }, per_input, &targets, &signs)
    }

    fn scale(&self) -> f32 {
        1.0 / (self.per_input as f32).sqrt()
    }

    /// Codes of `count` inputs from `first` on.
    fn codes(&self, first: usize, count: usize) -> &[u32] {
        &self.codes[first * self.per_input..(first + count) * self.per_input]
    }

    fn add(&self, first: usize, x: &[f32], y: &mut [f32]) {
        if self.per_input == 1 {
            return add_signed(x, self.codes(first, x.len()), 1, y);
        }
        let (scale, mut scaled) = (self.scale(), Scratch::new(x.len()));
        scaled.iter_mut().zip(x).for_each(|(scaled, x)| *scaled = scale * x);
        add_signed(&scaled, self.codes(first, x.len()), self.per_input, y);
    }
}

/// Random signs, as whether they are minus: sixty-four from each draw.
pub(super) fn random_signs(count: usize, key: RngKey) -> Vec<bool> {
    let (mut stream, mut signs) = (key.stream(), Vec::with_capacity(count));
    while signs.len() < count {
        let bits = stream.bits();
        signs.extend((0..64.min(count - signs.len())).map(|place| bits >> place & 1 == 1));
    }
    signs
}

impl VectorMap for SparseSigns {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn inp(&self) -> usize {
        self.inp
    }

    fn out(&self) -> usize {
        self.out
    }

    fn apply(&self, x: Rows<'_>, y: MatMut<'_, f32>) {
        check_shapes(self, &x, &y);
        parallel::for_each(y.row_blocks(parallel::ROW_BLOCK), |block, mut y| {
            for i in 0..y.rows() {
                let row = y.row_mut(i);
                row.fill(0.0);
                self.add(0, x.x.row(block * parallel::ROW_BLOCK + i), row);
                if x.one {
                    self.add(x.x.cols(), &[1.0], row);
                }
            }
        });
    }

    fn add_part(&self, first: usize, part: &[f32], y: &mut [f32]) {
        check_part(self, first, part, y);
        self.add(first, part, y);
    }

    fn adjoint(&self, y: MatRef<'_, f32>, mut x: MatMut<'_, f32>) {
        check_adjoint(self, &y, &x);
        let scale = self.scale();
        for i in 0..x.rows() {
            let row = x.row_mut(i);
            signed_sums(y.row(i), &self.codes, self.per_input, row);
            row.iter_mut().for_each(|x| *x *= scale);
        }
    }

    fn steps(&self) -> u64 {
        self.codes.len() as u64
    }

    fn bytes(&self) -> u64 {
        4 * self.codes.len() as u64
    }

    fn parts(&self) -> Parts {
        let (targets, signs) = self.codes.iter().map(|&code| decode(code)).unzip();
        Parts::new(Self::KIND, self.inp)
            .with_option("out", self.out)
            .with_option("per_input", self.per_input)
            .with("idx", Content::Indices(targets))
            .with("sign", Content::Signs(signs))
    }
}
