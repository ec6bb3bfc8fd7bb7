//! Edges of the embedding: atoms' first tensors, from species and directions of their neighbours.
//!
//! `X_i = Σ_j Z_ij (q0(d) 1 + q1(d) A(u) + q2(d) S(u))` by channel, where `Z` belongs to the
//! ordered pair of species, `q` are radial filters, and `A` and `S` the antisymmetric and symmetric
//! traceless tensors of the unit vector u from sender to receiver. The edge of an atom to itself
//! has only the first term.

use super::filters::{SLAB, Stencil, offset_of, row_len};
use super::messages::{Edges, slope_of, value_of};
use super::{COMPONENTS, ChannelLoop, PARTS, STARTS, load, over_channels, splat, store};
use crate::kernels::registers::Lanes;
use std::ops::Range;

/// The tensors `1 + A(u) + S(u)` of a unit vector, by [irreducible parts](super).
#[must_use]
pub fn shape_of_direction(u: [f64; 3]) -> [f64; COMPONENTS] {
    let two = 2.0_f64.sqrt();
    let [x, y, z] = u;
    [
        3.0_f64.sqrt(),
        two * x,
        two * y,
        two * z,
        (x * x - y * y) / two,
        1.5_f64.sqrt() * (z * z - (x * x + y * y + z * z) / 3.0),
        two * x * y,
        two * x * z,
        two * y * z,
    ]
}

/// Neighbours with species and directions.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingEdges<'a> {
    /// Lists and distances.
    pub edges: Edges<'a>,
    /// For each entry, the row of its ordered pair of species.
    pub kinds: &'a [u32],
    /// For each entry, [`shape_of_direction`].
    pub shapes: &'a [[f32; COMPONENTS]],
    /// Numbers of the ordered pairs of species (kinds, channels).
    pub pairs: &'a [f32],
}

impl EmbeddingEdges<'_> {
    #[track_caller]
    fn check(&self, own: usize, channels: usize, receivers: &Range<usize>) {
        let entries = self.edges.senders.len();
        let found = [self.kinds.len(), self.shapes.len(), self.edges.stencils.len()];
        assert_eq!(found, [entries; 3], "entries of the embedding");
        assert_eq!(own, receivers.len() * channels, "own terms of {receivers:?}");
        assert!(channels.is_multiple_of(SLAB), "{channels} channels in slabs of {SLAB}");
    }
}

/// Writes the tensors of some receivers to `x` (receivers, 9, channels); `own` (receivers,
/// channels) are the factors of the unit tensor for the edges of atoms to themselves.
///
/// # Panics
/// If lengths do not match, an edge is out of range, or channels are not a multiple of [`SLAB`].
#[track_caller]
pub fn embed(
    edges: EmbeddingEdges<'_>,
    receivers: Range<usize>,
    table: &[f32],
    own: &[f32],
    x: &mut [f32],
) {
    let channels = x.len() / (COMPONENTS * receivers.len()).max(1);
    assert_eq!(x.len(), receivers.len() * COMPONENTS * channels, "tensors of {receivers:?}");
    edges.check(own.len(), channels, &receivers);
    over_channels(channels, Embed { edges, receivers, channels, table, own, x });
}

struct Embed<'a> {
    edges: EmbeddingEdges<'a>,
    receivers: Range<usize>,
    channels: usize,
    table: &'a [f32],
    own: &'a [f32],
    x: &'a mut [f32],
}

impl ChannelLoop for Embed<'_> {
    #[inline(always)]
    fn run<V: Lanes<Number = f32>>(mut self) {
        for c in (0..self.channels).step_by(V::WIDTH) {
            for place in 0..self.receivers.len() {
                embed_row::<V>(&mut self, place, c);
            }
        }
    }
}

/// A register of channels of one receiver.
#[inline(always)]
fn embed_row<V: Lanes<Number = f32>>(job: &mut Embed<'_>, place: usize, c: usize) {
    let (channels, all) = (job.channels, job.edges);
    let row = row_len(channels);
    let edges = all.edges.row(job.receivers.start + place);
    let mut sums = [V::splat(0.0); COMPONENTS];
    // SAFETY: `check` found one register for each of the receivers' channels.
    let own = unsafe { V::load(job.own[place * channels..][..channels].as_ptr().add(c)) };
    sums[0] = own.times(V::splat(3.0_f32.sqrt()));
    for entry in edges {
        let (shape, stencil) = (&all.shapes[entry], &all.edges.stencils[entry]);
        let pair = &all.pairs[all.kinds[entry] as usize * channels..][..channels];
        let rows = &job.table[stencil.row as usize * row..][..row];
        let weights = splat(stencil.value);
        // SAFETY: within the channels of a pair, and a row of the table.
        unsafe {
            let pair = V::load(pair.as_ptr().add(c));
            for part in 0..PARTS {
                let at = rows.as_ptr().add(offset_of(c) + part * SLAB);
                let filter = pair.times(value_of(at, weights));
                for number in STARTS[part]..STARTS[part + 1] {
                    sums[number] = filter.times_plus(V::splat(shape[number]), sums[number]);
                }
            }
        }
    }
    let x = &mut job.x[place * COMPONENTS * channels..][..COMPONENTS * channels];
    // SAFETY: the register is within the channels of nine numbers.
    unsafe { store(sums, x.as_mut_ptr().add(c), channels) };
}

/// Backward pass of [`embed`] from the gradient `dx` of the receivers' tensors: for each entry of
/// their rows, the gradient of the distance, then that of the numbers 1 to 8 of its shape.
///
/// # Panics
/// As [`embed`].
#[track_caller]
pub fn embed_backward(
    edges: EmbeddingEdges<'_>,
    receivers: Range<usize>,
    table: &[f32],
    dx: &[f32],
    to: &mut [[f32; COMPONENTS]],
) {
    let channels = dx.len() / (COMPONENTS * receivers.len()).max(1);
    assert_eq!(dx.len(), receivers.len() * COMPONENTS * channels, "tensors of {receivers:?}");
    edges.check(receivers.len() * channels, channels, &receivers);
    assert_eq!(to.len(), edges.edges.of(receivers.clone()).len(), "entries of {receivers:?}");
    over_channels(channels, Backward { edges, receivers, channels, table, dx, to });
}

struct Backward<'a> {
    edges: EmbeddingEdges<'a>,
    receivers: Range<usize>,
    channels: usize,
    table: &'a [f32],
    dx: &'a [f32],
    to: &'a mut [[f32; COMPONENTS]],
}

impl ChannelLoop for Backward<'_> {
    #[inline(always)]
    fn run<V: Lanes<Number = f32>>(self) {
        let Backward { edges, receivers, channels, table, dx, to } = self;
        let mut next = 0;
        for (place, atom) in receivers.enumerate() {
            let dx = &dx[place * COMPONENTS * channels..][..COMPONENTS * channels];
            for entry in edges.edges.row(atom) {
                let stencil = &edges.edges.stencils[entry];
                let pair = &edges.pairs[edges.kinds[entry] as usize * channels..][..channels];
                let row = row_len(channels);
                let rows = &table[stencil.row as usize * row..][..row];
                to[next] = backward_entry::<V>(rows, stencil, pair, &edges.shapes[entry], dx);
                next += 1;
            }
        }
    }
}

/// The gradients of one entry.
#[inline(always)]
fn backward_entry<V: Lanes<Number = f32>>(
    rows: &[f32],
    stencil: &Stencil,
    pair: &[f32],
    shape: &[f32; COMPONENTS],
    dx: &[f32],
) -> [f32; COMPONENTS] {
    let channels = pair.len();
    assert!(
        rows.len() == row_len(channels) && dx.len() == COMPONENTS * channels,
        "rows of an entry"
    );
    let (weights, slopes) = (splat(stencil.value), splat(stencil.slope));
    let mut sums = [V::splat(0.0); COMPONENTS];
    for c in (0..channels).step_by(V::WIDTH) {
        // SAFETY: the register is within the channels, of a row and nine numbers.
        unsafe {
            let pair = V::load(pair.as_ptr().add(c));
            let dx = load::<V>(dx.as_ptr().add(c), channels);
            for part in 0..PARTS {
                let at = rows.as_ptr().add(offset_of(c) + part * SLAB);
                let slope = pair.times(slope_of(at, slopes));
                let mut along = V::splat(0.0);
                for number in STARTS[part]..STARTS[part + 1] {
                    along = dx[number].times_plus(V::splat(shape[number]), along);
                }
                sums[0] = along.times_plus(slope, sums[0]);
                if part > 0 {
                    let filter = pair.times(value_of(at, weights));
                    for number in STARTS[part]..STARTS[part + 1] {
                        sums[number] = dx[number].times_plus(filter, sums[number]);
                    }
                }
            }
        }
    }
    let zero = V::splat(0.0);
    let a = V::sums([sums[0], sums[1], sums[2], sums[3]]);
    let b = V::sums([sums[4], sums[5], sums[6], sums[7]]);
    let last = V::sums([sums[8], zero, zero, zero]);
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], last[0]]
}
