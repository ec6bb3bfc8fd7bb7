//! Products in single precision on tile registers, which multiply numbers of 8 bits (AMX, bf16).
//!
//! A number of 24 bits is exactly a sum of three of 8, `x = x1 + x2 + x3`, each at most 2^-8 of the
//! one before. So `x y = x1 y1 + x1 y2 + x2 y1 + x2 y2 + x1 y3 + x3 y1`, but for less than 2^-22 of
//! it at worst and 2^-26 in the mean square, which is below what sums in single precision lose.
//! Six products of tiles are four times as fast as one in vector registers.
//!
//! Lines are packed in blocks of sixteen lines and 32 numbers of depth: three tiles of rows of 64
//! bytes. Rows of the left factor's tiles are lines; rows of the right factor's are pairs of depth.
//!
//! Source: Henry, Tang and Heinecke 2019, arXiv 1904.06376. Numerical notes: sums are in single
//! precision, and denormal numbers are zero, so what is below 2^-109 has fewer digits. Infinite
//! numbers, and finite ones beyond 3.38e38, give NaN.
#![allow(
    unsafe_code,
    reason = "tile registers are reached by inline assembly; every function states its bounds"
)]

use super::tile::Lines;
use crate::kernels::instructions::Instructions;
use crate::kernels::transpose::x86::transpose;
use std::arch::asm;
use std::arch::x86_64::{
    __cpuid_count, __m512, _mm512_add_epi32, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_maskz_loadu_ps, _mm512_or_si512, _mm512_permutex2var_epi16,
    _mm512_set1_epi32, _mm512_setr_epi32, _mm512_srli_epi32, _mm512_storeu_si512, _mm512_sub_ps,
};
use std::sync::OnceLock;

/// Lines of a tile.
pub(super) const LINES: usize = 16;
/// Numbers of depth of a tile.
pub(super) const DEPTH: usize = 32;
/// Parts of a number.
const PARTS: usize = 3;
/// Words of a tile, each two numbers.
const TILE: usize = LINES * DEPTH / 2;
/// Words of a block.
const BLOCK: usize = PARTS * TILE;

/// Whether this machine has the tiles, and the system lets this process use them.
pub(super) fn is_here() -> bool {
    static HERE: OnceLock<bool> = OnceLock::new();
    *HERE.get_or_init(|| {
        Instructions::here() == Instructions::Avx512 && has_tiles() && system_allows_tiles()
    })
}

/// Whether the processor has tiles of bf16, and the system saves them.
fn has_tiles() -> bool {
    /// Bits of leaf 7: `amx-bf16`, `amx-tile`.
    const FOUND: u32 = 1 << 22 | 1 << 24;
    /// Bits of the states that the system saves: configuration and contents of tiles.
    const SAVED: u32 = 1 << 17 | 1 << 18;
    if __cpuid_count(7, 0).edx & FOUND != FOUND {
        return false;
    }
    let saved: u32;
    // SAFETY: a processor with AVX-512 whose registers the system saves has this instruction, which
    // reads a register of the processor.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") saved, out("edx") _, options(nomem, nostack)) };
    saved & SAVED == SAVED
}

/// Asks Linux for the memory that threads need to save tiles.
#[cfg(target_os = "linux")]
fn system_allows_tiles() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let result: i64;
    // SAFETY: the call takes two numbers and touches no memory of this process.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn system_allows_tiles() -> bool {
    false
}

/// Words of this number of packed lines.
pub(super) fn words(lines: usize, depth: usize) -> usize {
    lines.div_ceil(LINES) * words_of_lines(depth)
}

/// Words of sixteen packed lines.
pub(super) fn words_of_lines(depth: usize) -> usize {
    depth.div_ceil(DEPTH) * BLOCK
}

/// The factor for which lines are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Lines are rows.
    Left,
    /// Lines are columns.
    Right,
}

/// Packs at most sixteen lines for all of their depth; missing ones are zeros.
///
/// # Panics
/// If lines reach out of bounds.
pub(super) fn pack(side: Side, lines: Lines<'_>, count: usize, depth: usize, to: &mut [u32]) {
    assert!(is_here() && count <= LINES, "{count} lines of a tile");
    assert_eq!(to.len(), words_of_lines(depth), "words of packed lines");
    let (far, near) = if lines.along { (count, depth) } else { (depth, count) };
    assert!(
        far * near == 0 || lines.data.len() >= (far - 1) * lines.stride + near,
        "lines out of bounds"
    );
    for (block, to) in to.chunks_exact_mut(BLOCK).enumerate() {
        let first = block * DEPTH;
        let numbers = DEPTH.min(depth - first);
        // SAFETY: the machine has AVX-512; lines and words are those asserted above.
        unsafe { pack_block(side, lines.skip(0, first), [count, numbers], to) };
    }
}

/// Packs one block of at most sixteen lines and 32 numbers of depth.
///
/// # Safety
/// `to` has the words of a block, and the lines have as many numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn pack_block(side: Side, lines: Lines<'_>, [count, depth]: [usize; 2], to: &mut [u32]) {
    let mut turned = [0.0; LINES * DEPTH];
    let (mut from, mut stride) = (lines.data.as_ptr(), lines.stride);
    match (side, lines.along) {
        (Side::Left, true) | (Side::Right, false) => {}
        (Side::Left, false) => {
            transpose(lines.data, stride, &mut turned, DEPTH, depth, count);
            (from, stride) = (turned.as_ptr(), DEPTH);
        }
        (Side::Right, true) => {
            transpose(lines.data, stride, &mut turned, LINES, count, depth);
            (from, stride) = (turned.as_ptr(), LINES);
        }
    }
    let mask = |numbers: usize| ((1_u32 << numbers.min(16)) - 1) as u16;
    // SAFETY: only numbers that the masks name are read, which the lines have; a row of each of
    // the three tiles is written.
    unsafe {
        for row in 0..LINES {
            let parts = match side {
                Side::Left => {
                    let at = from.wrapping_add(row * stride);
                    let there = if row < count { depth } else { 0 };
                    let low = _mm512_maskz_loadu_ps(mask(there), at);
                    let high = mask(there.saturating_sub(16));
                    adjacent(low, _mm512_maskz_loadu_ps(high, at.wrapping_add(16)))
                }
                Side::Right => {
                    let at = from.wrapping_add(2 * row * stride);
                    let there = |pair: usize| if 2 * row + pair < depth { count } else { 0 };
                    let first = _mm512_maskz_loadu_ps(mask(there(0)), at);
                    let second = mask(there(1));
                    pairs(first, _mm512_maskz_loadu_ps(second, at.wrapping_add(stride)))
                }
            };
            for (part, numbers) in parts.into_iter().enumerate() {
                let at = to.as_mut_ptr().add(part * TILE + row * LINES);
                _mm512_storeu_si512(at.cast(), numbers);
            }
        }
    }
}

type Words = std::arch::x86_64::__m512i;

/// The three parts of numbers, in the upper halves of words: the first two are rounded, the last
/// one is what they leave, of at most eight bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn thirds(x: __m512) -> [Words; PARTS] {
    let (half, upper) = (_mm512_set1_epi32(0x8000), _mm512_set1_epi32(0xffff_0000_u32 as i32));
    let rounded = |x| _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper);
    let first = rounded(x);
    let rest = _mm512_sub_ps(x, _mm512_castsi512_ps(first));
    let second = rounded(rest);
    let rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(second));
    [first, second, _mm512_castps_si512(rest)]
}

/// Parts of 32 adjacent numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn adjacent(low: __m512, high: __m512) -> [Words; PARTS] {
    // Of the words of both, the upper halves, in order.
    let w = |k: i32| (4 * k + 3) << 16 | (4 * k + 1);
    let order = _mm512_setr_epi32(
        w(0),
        w(1),
        w(2),
        w(3),
        w(4),
        w(5),
        w(6),
        w(7),
        w(8),
        w(9),
        w(10),
        w(11),
        w(12),
        w(13),
        w(14),
        w(15),
    );
    let (low, high) = (thirds(low), thirds(high));
    let part = |k: usize| _mm512_permutex2var_epi16(low[k], order, high[k]);
    [part(0), part(1), part(2)]
}

/// Parts of sixteen pairs of numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn pairs(first: __m512, second: __m512) -> [Words; PARTS] {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    let (first, second) = (thirds(first), thirds(second));
    let part = |k: usize| {
        let second = _mm512_and_si512(second[k], upper);
        _mm512_or_si512(_mm512_srli_epi32::<16>(first[k]), second)
    };
    [part(0), part(1), part(2)]
}

/// Tile registers that are configured, until this is dropped.
pub(super) struct Registers(());

/// Rows and bytes of rows of the eight tile registers.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// The product of one or two bands with 32 columns. Both bodies add in the same order, so that bits
/// do not depend on the neighbouring band.
macro_rules! product {
    (($right:ident $other:ident $row:ident $stride:ident $blocks:ident $add:ident)
     $zero:literal $read:literal $first:literal $second:literal $third:literal $step:literal
     $times:literal $write:literal $($left:ident $corner:ident)+) => {
        asm!(
            "test {add:e}, {add:e}",
            "jnz 2f",
            $zero,
            "jmp 3f",
            "2:",
            $read,
            "3:",
            // First parts of the left factor with all of the right one.
            $first,
            "tileloadd tmm6, [{b} + {row} + 2048]",
            "tileloadd tmm7, [{c} + {row} + 2048]",
            $times,
            "tileloadd tmm6, [{b} + {row} + 1024]",
            "tileloadd tmm7, [{c} + {row} + 1024]",
            $times,
            $second,
            $times,
            "tileloadd tmm6, [{b} + {row}]",
            "tileloadd tmm7, [{c} + {row}]",
            $times,
            $third,
            $times,
            $first,
            $times,
            $step,
            "add {b}, 3072",
            "add {c}, 3072",
            "dec {blocks}",
            "jnz 3b",
            $write,
            $($left = inout(reg) $left => _, $corner = in(reg) $corner,)+
            b = inout(reg) $right => _,
            c = inout(reg) $other => _,
            row = in(reg) $row,
            stride = in(reg) $stride,
            blocks = inout(reg) $blocks => _,
            add = in(reg) u32::from($add),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

impl Registers {
    /// Configures the registers of this thread.
    ///
    /// # Panics
    /// If the machine has none.
    pub(super) fn new() -> Self {
        assert!(is_here(), "tile registers");
        let mut whole = Configuration {
            palette: 1,
            start: 0,
            reserved: [0; 14],
            bytes: [0; 16],
            rows: [0; 16],
        };
        whole.bytes[..8].fill(64);
        whole.rows[..8].fill(LINES as u8);
        // SAFETY: the processor has tiles, and the system saves them; the configuration is one that
        // it supports. Rust does not use these registers.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const whole, options(nostack, readonly)) };
        Self(())
    }

    /// Writes or adds the product of two bands of sixteen rows, or one, with 32 columns.
    ///
    /// # Safety
    /// The bands of the left factor and the two of the right factor are sixteen packed lines each,
    /// of this number of words; a corner points to sixteen rows of 32 numbers at the stride.
    pub(super) unsafe fn multiply<const BANDS: usize>(
        &self,
        words: usize,
        left: [*const u32; BANDS],
        [right, other]: [*const u32; 2],
        (to, stride): ([*mut f32; BANDS], usize),
        add: bool,
    ) {
        let blocks = words / BLOCK;
        let (row, stride) = (64_usize, 4 * stride);
        if blocks == 0 {
            return;
        }
        // SAFETY: the caller's contract; registers are configured while this lives.
        unsafe {
            match BANDS {
                1 => {
                    let (p, u) = (left[0], to[0]);
                    product!(
                        (right other row stride blocks add)
                        "tilezero tmm0\ntilezero tmm1"
                        "tileloadd tmm0, [{u} + {stride}]\ntileloadd tmm1, [{u} + {stride} + 64]"
                        "tileloadd tmm4, [{p} + {row}]"
                        "tileloadd tmm4, [{p} + {row} + 1024]"
                        "tileloadd tmm4, [{p} + {row} + 2048]"
                        "add {p}, 3072"
                        "tdpbf16ps tmm0, tmm4, tmm6\ntdpbf16ps tmm1, tmm4, tmm7"
                        "tilestored [{u} + {stride}], tmm0\ntilestored [{u} + {stride} + 64], tmm1"
                        p u
                    );
                }
                _ => {
                    let (p, q, u, v) = (left[0], left[1], to[0], to[1]);
                    product!(
                        (right other row stride blocks add)
                        "tilezero tmm0\ntilezero tmm1\ntilezero tmm2\ntilezero tmm3"
                        "tileloadd tmm0, [{u} + {stride}]\ntileloadd tmm1, [{u} + {stride} + 64]
                         tileloadd tmm2, [{v} + {stride}]\ntileloadd tmm3, [{v} + {stride} + 64]"
                        "tileloadd tmm4, [{p} + {row}]\ntileloadd tmm5, [{q} + {row}]"
                        "tileloadd tmm4, [{p} + {row} + 1024]\ntileloadd tmm5, [{q} + {row} + 1024]"
                        "tileloadd tmm4, [{p} + {row} + 2048]\ntileloadd tmm5, [{q} + {row} + 2048]"
                        "add {p}, 3072\nadd {q}, 3072"
                        "tdpbf16ps tmm0, tmm4, tmm6\ntdpbf16ps tmm1, tmm4, tmm7
                         tdpbf16ps tmm2, tmm5, tmm6\ntdpbf16ps tmm3, tmm5, tmm7"
                        "tilestored [{u} + {stride}], tmm0\ntilestored [{u} + {stride} + 64], tmm1
                         tilestored [{v} + {stride}], tmm2\ntilestored [{v} + {stride} + 64], tmm3"
                        p u q v
                    );
                }
            }
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: the registers were configured, and hold nothing that is used.
        unsafe { asm!("tilerelease", options(nomem, nostack)) };
    }
}
