//! Blocks of 32 numbers. Number `i` has its low four bits in the low half of byte `i`, or for the
//! last sixteen in the high half of byte `i - 16`.

use super::{SMALL, half_at};

/// Half a block.
const HALF: usize = SMALL / 2;

/// The sixteen bytes of low bits at the end of a block.
#[inline(always)]
fn nibbles<const BYTES: usize>(block: &[u8; BYTES]) -> &[u8; HALF] {
    let (_, tail) = block.as_rchunks::<HALF>();
    &tail[tail.len() - 1]
}

/// `d (q - 8)`; bytes: d f16, q.
#[inline(always)]
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; SMALL]) {
    let (d, qs) = (half_at(block, 0), nibbles(block));
    for (i, &q) in qs.iter().enumerate() {
        out[i] = d * (i32::from(q & 15) - 8) as f32;
        out[i + HALF] = d * (i32::from(q >> 4) - 8) as f32;
    }
}

/// `d q + m`; bytes: d f16, m f16, q.
#[inline(always)]
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; SMALL]) {
    let (d, m, qs) = (half_at(block, 0), half_at(block, 2), nibbles(block));
    for (i, &q) in qs.iter().enumerate() {
        out[i] = d * f32::from(q & 15) + m;
        out[i + HALF] = d * f32::from(q >> 4) + m;
    }
}

/// The 5-bit integers: the fifth bit of number `i` is bit `i` of a 32-bit word.
#[inline(always)]
fn five_bits(fifth: [u8; 4], qs: &[u8; HALF]) -> [i32; SMALL] {
    let fifth = u32::from_le_bytes(fifth);
    let mut all = [0; SMALL];
    for (i, &q) in qs.iter().enumerate() {
        all[i] = i32::from(q & 15) | ((fifth >> i & 1) << 4).cast_signed();
        all[i + HALF] = i32::from(q >> 4) | ((fifth >> (i + HALF) & 1) << 4).cast_signed();
    }
    all
}

/// `d (q - 16)`; bytes: d f16, fifth bits, q.
#[inline(always)]
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; SMALL]) {
    let d = half_at(block, 0);
    let qs = five_bits([block[2], block[3], block[4], block[5]], nibbles(block));
    for (out, q) in out.iter_mut().zip(qs) {
        *out = d * (q - 16) as f32;
    }
}

/// `d q + m`; bytes: d f16, m f16, fifth bits, q.
#[inline(always)]
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; SMALL]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let qs = five_bits([block[4], block[5], block[6], block[7]], nibbles(block));
    for (out, q) in out.iter_mut().zip(qs) {
        *out = d * q as f32 + m;
    }
}

/// `d q`; bytes: d f16, q i8.
#[inline(always)]
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; SMALL]) {
    let d = half_at(block, 0);
    for (out, q) in out.iter_mut().zip(&block[2..]) {
        *out = d * f32::from(q.cast_signed());
    }
}
