//! K types: blocks of 256 numbers, in runs with their own scales.

use super::{LARGE, half_at};

/// Bytes of low bits per line.
const LINE: usize = 32;

/// A part of a block as an array.
#[inline(always)]
fn part<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    &block[at..].as_chunks::<N>().0[0]
}

/// `(d s) q - (d' s')`; bytes: 16 of scales (s in the lower half, s' in the upper one), 64 of q, d
/// f16, d' f16. Two bits of four numbers that are 32 apart share a byte.
#[inline(always)]
pub(super) fn q2(block: &[u8; 84], out: &mut [f32; LARGE]) {
    let (scales, d, least) = (part::<16>(block, 0), half_at(block, 80), half_at(block, 82));
    let lines = out.as_chunks_mut::<LINE>().0;
    for (index, line) in lines.iter_mut().enumerate() {
        let qs = part::<LINE>(block, 16 + index / 4 * LINE);
        let shift = 2 * (index % 4);
        for (half, run) in line.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = scales[2 * index + half];
            let (s, m) = (d * f32::from(scale & 15), least * f32::from(scale >> 4));
            for (out, q) in run.iter_mut().zip(&qs[16 * half..]) {
                *out = s * f32::from(q >> shift & 3) - m;
            }
        }
    }
}

/// The sixteen 6-bit scales in twelve bytes: low four bits in the first eight bytes, high two bits
/// in the rest.
#[inline(always)]
fn six_bits(bytes: &[u8; 12]) -> [i32; 16] {
    let mut scales = [0; 16];
    for (i, scale) in scales.iter_mut().enumerate() {
        let low = bytes[i % 8] >> (4 * (i / 8)) & 15;
        let high = bytes[8 + i % 4] >> (2 * (i / 4)) & 3;
        *scale = i32::from(low | high << 4) - 32;
    }
    scales
}

/// `(d s) q` with q from -4 to 3; bytes: 32 of third bits, 64 of two lower bits as in [`q2`], 12 of
/// scales, d f16. A third bit that is missing subtracts four; bit `i` belongs to line `i`.
#[inline(always)]
pub(super) fn q3(block: &[u8; 110], out: &mut [f32; LARGE]) {
    let (third, scales, d) =
        (part::<LINE>(block, 0), six_bits(part(block, 96)), half_at(block, 108));
    let lines = out.as_chunks_mut::<LINE>().0;
    for (index, line) in lines.iter_mut().enumerate() {
        let qs = part::<LINE>(block, 32 + index / 4 * LINE);
        let shift = 2 * (index % 4);
        for (half, run) in line.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let s = d * scales[2 * index + half] as f32;
            let bits = qs[16 * half..].iter().zip(&third[16 * half..]);
            for (out, (q, third)) in run.iter_mut().zip(bits) {
                let q = q >> shift & 3 | (third >> index & 1) << 2;
                *out = s * (i32::from(q) - 4) as f32;
            }
        }
    }
}

/// The eight 6-bit scales and eight 6-bit minima in twelve bytes: the first four of each are the
/// low bits of the first and the second four bytes, whose two high bits belong to the last four.
#[inline(always)]
fn scales_and_least(bytes: &[u8; 12]) -> ([f32; 8], [f32; 8]) {
    let (mut scales, mut least) = ([0.0; 8], [0.0; 8]);
    for i in 0..4 {
        let (a, b, c) = (bytes[i], bytes[4 + i], bytes[8 + i]);
        scales[i] = f32::from(a & 63);
        least[i] = f32::from(b & 63);
        scales[4 + i] = f32::from(c & 15 | (a >> 6) << 4);
        least[4 + i] = f32::from(c >> 4 | (b >> 6) << 4);
    }
    (scales, least)
}

/// `(d s) q - (d' s')`; bytes: d f16, d' f16, 12 of scales, 128 of q. Two lines share 32 bytes.
#[inline(always)]
pub(super) fn q4(block: &[u8; 144], out: &mut [f32; LARGE]) {
    let (d, least) = (half_at(block, 0), half_at(block, 2));
    let (scales, mins) = scales_and_least(part(block, 4));
    let lines = out.as_chunks_mut::<LINE>().0;
    for (index, line) in lines.iter_mut().enumerate() {
        let (s, m) = (d * scales[index], least * mins[index]);
        let qs = part::<LINE>(block, 16 + index / 2 * LINE);
        let shift = 4 * (index % 2);
        for (out, q) in line.iter_mut().zip(qs) {
            *out = s * f32::from(q >> shift & 15) - m;
        }
    }
}

/// As [`q4`], with 32 bytes of fifth bits before q; bit `i` belongs to line `i`.
#[inline(always)]
pub(super) fn q5(block: &[u8; 176], out: &mut [f32; LARGE]) {
    let (d, least) = (half_at(block, 0), half_at(block, 2));
    let (scales, mins) = scales_and_least(part(block, 4));
    let fifth = part::<LINE>(block, 16);
    let lines = out.as_chunks_mut::<LINE>().0;
    for (index, line) in lines.iter_mut().enumerate() {
        let (s, m) = (d * scales[index], least * mins[index]);
        let qs = part::<LINE>(block, 48 + index / 2 * LINE);
        let shift = 4 * (index % 2);
        for (out, (q, fifth)) in line.iter_mut().zip(qs.iter().zip(fifth)) {
            *out = s * f32::from(q >> shift & 15 | (fifth >> index & 1) << 4) - m;
        }
    }
}

/// `(d s) (q - 32)`; bytes: 128 of four lower bits, 64 of two upper bits, 16 of scales i8, d f16.
/// Of each half of the block, lines 0 and 2 share bytes of lower bits, and lines 1 and 3 do; all
/// four share those of upper bits.
#[inline(always)]
pub(super) fn q6(block: &[u8; 210], out: &mut [f32; LARGE]) {
    let (scales, d) = (part::<16>(block, 192), half_at(block, 208));
    let lines = out.as_chunks_mut::<LINE>().0;
    for (index, line) in lines.iter_mut().enumerate() {
        let (side, place) = (index / 4, index % 4);
        let low = part::<LINE>(block, side * 64 + place % 2 * LINE);
        let high = part::<LINE>(block, 128 + side * LINE);
        let (low_shift, high_shift) = (place / 2 * 4, 2 * place);
        for (half, run) in line.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let s = d * f32::from(scales[2 * index + half].cast_signed());
            let bits = low[16 * half..].iter().zip(&high[16 * half..]);
            for (out, (low, high)) in run.iter_mut().zip(bits) {
                let q = low >> low_shift & 15 | (high >> high_shift & 3) << 4;
                *out = s * (i32::from(q) - 32) as f32;
            }
        }
    }
}

/// `d q`; bytes: d f32, q i8, sums of q.
#[inline(always)]
pub(super) fn q8(block: &[u8; 292], out: &mut [f32; LARGE]) {
    let d = f32::from_le_bytes(*part(block, 0));
    for (out, q) in out.iter_mut().zip(&block[4..]) {
        *out = d * f32::from(q.cast_signed());
    }
}
