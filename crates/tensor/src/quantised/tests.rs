use super::*;
use crate::RngKey;
use half::f16;
use std::path::Path;

/// Bytes of the hash behind each block of a golden file.
const HASH: usize = 8;

/// Number `i` of a block, from the definition of the format, one number at a time.
fn naive(kind: Quantised, b: &[u8], i: usize) -> f32 {
    let half = |at: usize| f16::from_le_bytes([b[at], b[at + 1]]).to_f32();
    let signed = |at: usize| f32::from(b[at].cast_signed());
    let bits = |at: usize, shift: usize, count: u32| i32::from(b[at]) >> shift & ((1 << count) - 1);
    // Of the small types: the lower four bits, and the fifth one.
    let nibble = |at: usize| bits(at + i % 16, i / 16 * 4, 4);
    let fifth = |at: usize| bits(at + i / 8, i % 8, 1) << 4;
    // Of the K types: line of 32, place in it, run of 16.
    let (line, at, run) = (i / 32, i % 32, i / 16);
    let pair = |from: usize| bits(from + line / 4 * 32 + at, line % 4 * 2, 2);
    let four = |from: usize| bits(from + line / 2 * 32 + at, line % 2 * 4, 4);
    let scale_and_least = || {
        if line < 4 {
            (bits(4 + line, 0, 6), bits(8 + line, 0, 6))
        } else {
            let (low, l) = (8 + line, line - 4);
            (bits(low, 0, 4) | bits(4 + l, 6, 2) << 4, bits(low, 4, 4) | bits(8 + l, 6, 2) << 4)
        }
    };
    match kind {
        Quantised::Q4_0 => half(0) * (nibble(2) - 8) as f32,
        Quantised::Q4_1 => half(0) * nibble(4) as f32 + half(2),
        Quantised::Q5_0 => half(0) * ((nibble(6) | fifth(2)) - 16) as f32,
        Quantised::Q5_1 => half(0) * (nibble(8) | fifth(4)) as f32 + half(2),
        Quantised::Q8_0 => half(0) * signed(2 + i),
        Quantised::Q2_K => {
            let (s, m) = (bits(run, 0, 4), bits(run, 4, 4));
            half(80) * s as f32 * pair(16) as f32 - half(82) * m as f32
        }
        Quantised::Q3_K => {
            let low = bits(96 + run % 8, run / 8 * 4, 4);
            let s = (low | bits(104 + run % 4, run / 4 * 2, 2) << 4) - 32;
            let q = pair(32) - if bits(at, line, 1) == 1 { 0 } else { 4 };
            half(108) * s as f32 * q as f32
        }
        Quantised::Q4_K => {
            let (s, m) = scale_and_least();
            half(0) * s as f32 * four(16) as f32 - half(2) * m as f32
        }
        Quantised::Q5_K => {
            let (s, m) = scale_and_least();
            let q = four(48) | bits(16 + at, line, 1) << 4;
            half(0) * s as f32 * q as f32 - half(2) * m as f32
        }
        Quantised::Q6_K => {
            let (side, place) = (i / 128, i % 128 / 32);
            let low = bits(side * 64 + place % 2 * 32 + at, place / 2 * 4, 4);
            let q = (low | bits(128 + side * 32 + at, place * 2, 2) << 4) - 32;
            half(208) * signed(192 + run) * q as f32
        }
        Quantised::Q8_K => f32::from_le_bytes([b[0], b[1], b[2], b[3]]) * signed(4 + i),
    }
}

/// Bits of a number; one pattern for all NaN.
fn bits(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}

fn fnv1a(values: &[f32]) -> u64 {
    values.iter().flat_map(|v| bits(*v).to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Blocks and hashes of a golden file.
fn golden(kind: Quantised) -> Vec<(Vec<u8>, u64)> {
    let name = format!("../../testdata/gguf/blocks/{}.bin", kind.name().to_lowercase());
    let file = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let size = kind.block_bytes();
    let record = |r: &[u8]| (r[..size].to_vec(), u64::from_le_bytes(r[size..].try_into().unwrap()));
    file.chunks_exact(size + HASH).map(record).collect()
}

#[test]
fn golden_blocks_agree_bit_for_bit() {
    for kind in Quantised::ALL {
        let blocks = golden(kind);
        assert_eq!(blocks.len(), 96, "{kind:?}");
        for (index, (block, hash)) in blocks.iter().enumerate() {
            let mut values = vec![0.0; kind.block_numbers()];
            kind.decode_into(block, &mut values);
            assert_eq!(fnv1a(&values), *hash, "{kind:?}, block {index}: {:?}", &values[..8]);
        }
    }
}

#[test]
fn many_random_blocks_agree_with_the_naive_twin() {
    let mut stream = RngKey::new(11).fold("blocks").stream();
    for kind in Quantised::ALL {
        let bytes: Vec<u8> =
            (0..257 * kind.block_bytes()).map(|_| stream.below(256) as u8).collect();
        let mut values = vec![0.0; 257 * kind.block_numbers()];
        kind.decode_into(&bytes, &mut values);
        for (block, values) in
            bytes.chunks(kind.block_bytes()).zip(values.chunks(kind.block_numbers()))
        {
            for (i, &value) in values.iter().enumerate() {
                assert_eq!(bits(value), bits(naive(kind, block, i)), "{kind:?}, number {i}");
            }
        }
    }
}

#[test]
fn all_halves_are_read_exactly() {
    for pattern in 0..=u16::MAX {
        let [found, expected] =
            [half_at(&pattern.to_le_bytes(), 0), f16::from_bits(pattern).to_f32()];
        assert_eq!(bits(found), bits(expected), "{pattern:#x}");
    }
}

#[test]
#[should_panic(expected = "36 bytes of Q4_0, 32 numbers")]
fn a_wrong_count_of_numbers_is_a_broken_contract() {
    Quantised::Q4_0.decode_into(&[0; 36], &mut [0.0; 32]);
}
