//! Messages between atoms: sums of neighbours' tensors by radial filters, and their adjoint.
//!
//! `M_i = f(0) Y_i + Σ_j f(d_ij) Y_j`, with a filter for each irreducible part and channel. The
//! sums of a receiver stay in registers, a slab of channels at a time, while its neighbours pass.

use super::filters::{SLAB, Stencil, TO_NEXT, offset_of, row_len};
use super::{COMPONENTS, ChannelLoop, PARTS, STARTS, load, over_channels, splat, store};
use crate::Scratch;
use crate::kernels::registers::Lanes;
use std::ops::Range;

/// Neighbours of atoms: row by row, the sender and the position of its distance in the tables.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// Where the row of each atom starts; one more than atoms.
    pub starts: &'a [u32],
    /// The senders.
    pub senders: &'a [u32],
    /// Their distances.
    pub stencils: &'a [Stencil],
}

impl Edges<'_> {
    #[inline(always)]
    pub(super) fn row(&self, atom: usize) -> Range<usize> {
        self.starts[atom] as usize..self.starts[atom + 1] as usize
    }

    /// Entries of consecutive atoms.
    #[must_use]
    pub fn of(&self, atoms: Range<usize>) -> Range<usize> {
        self.starts[atoms.start] as usize..self.starts[atoms.end] as usize
    }
}

/// The messages `m` (receivers, 9, channels) of some receivers, from the features `y` (atoms, 9,
/// channels) of all, with the filters of a table and those of an atom to itself, `own` (3,
/// channels).
///
/// # Panics
/// If lengths do not match, an edge is out of range, or channels are not a multiple of [`SLAB`].
#[track_caller]
pub fn gather(
    edges: Edges<'_>,
    receivers: Range<usize>,
    table: &[f32],
    own: &[f32],
    y: &[f32],
    m: &mut [f32],
) {
    let channels = channels_of(own);
    assert_eq!(m.len(), receivers.len() * COMPONENTS * channels, "messages of {receivers:?}");
    over_channels(channels, Gather { edges, receivers, table, own, y, m });
}

#[track_caller]
fn channels_of(own: &[f32]) -> usize {
    let channels = own.len() / PARTS;
    let whole = own.len() == PARTS * channels && channels.is_multiple_of(SLAB);
    assert!(whole, "{} filters of three parts in slabs of {SLAB}", own.len());
    channels
}

struct Gather<'a> {
    edges: Edges<'a>,
    receivers: Range<usize>,
    table: &'a [f32],
    own: &'a [f32],
    y: &'a [f32],
    m: &'a mut [f32],
}

impl ChannelLoop for Gather<'_> {
    #[inline(always)]
    fn run<V: Lanes<Number = f32>>(mut self) {
        let channels = self.own.len() / PARTS;
        let mut c = 0;
        // Two registers of sums for each number of a tensor, if the machine has enough. All
        // receivers read the same slabs of the table before the next ones.
        if V::WIDTH == SLAB {
            while c + 2 * SLAB <= channels {
                for place in 0..self.receivers.len() {
                    gather_row::<V, 2>(&mut self, channels, place, c);
                }
                c += 2 * SLAB;
            }
        }
        while c < channels {
            for place in 0..self.receivers.len() {
                gather_row::<V, 1>(&mut self, channels, place, c);
            }
            c += V::WIDTH;
        }
    }
}

/// `WIDE` registers of channels from `c` on of the message of one receiver.
#[inline(always)]
fn gather_row<V: Lanes<Number = f32>, const WIDE: usize>(
    job: &mut Gather<'_>,
    channels: usize,
    place: usize,
    c: usize,
) {
    let (size, row) = (COMPONENTS * channels, row_len(channels));
    let atom = job.receivers.start + place;
    let features = &job.y[atom * size..][..size];
    let mut sums = [[V::splat(0.0); COMPONENTS]; WIDE];
    for (wide, sums) in sums.iter_mut().enumerate() {
        let c = c + wide * V::WIDTH;
        // SAFETY: the register is within the channels of nine numbers, and of three filters.
        unsafe {
            *sums = load::<V>(features.as_ptr().add(c), channels);
            for part in 0..PARTS {
                let own = V::load(job.own.as_ptr().add(part * channels + c));
                for sum in &mut sums[STARTS[part]..STARTS[part + 1]] {
                    *sum = sum.times(own);
                }
            }
        }
    }
    let edges = job.edges.row(atom);
    let (senders, stencils) = (&job.edges.senders[edges.clone()], &job.edges.stencils[edges]);
    for (sender, stencil) in senders.iter().zip(stencils) {
        let features = &job.y[*sender as usize * size..][..size];
        let rows = &job.table[stencil.row as usize * row..][..row];
        let weights = splat(stencil.value);
        for (wide, sums) in sums.iter_mut().enumerate() {
            let c = c + wide * V::WIDTH;
            for part in 0..PARTS {
                // SAFETY: as above, within a row of the table and the features of one atom.
                unsafe {
                    let at = rows.as_ptr().add(offset_of(c) + part * SLAB);
                    let filter = value_of(at, weights);
                    let range = STARTS[part]..STARTS[part + 1];
                    for (number, sum) in range.clone().zip(&mut sums[range]) {
                        let feature = V::load(features.as_ptr().add(number * channels + c));
                        *sum = feature.times_plus(filter, *sum);
                    }
                }
            }
        }
    }
    let m = &mut job.m[place * size..][..size];
    for (wide, sums) in sums.into_iter().enumerate() {
        // SAFETY: as above.
        unsafe { store(sums, m.as_mut_ptr().add(c + wide * V::WIDTH), channels) };
    }
}

/// A filter from its coefficients.
///
/// # Safety
/// All four can be read.
#[inline(always)]
pub(super) unsafe fn value_of<V: Lanes<Number = f32>>(at: *const f32, powers: [V; 3]) -> V {
    // SAFETY: the caller's contract.
    unsafe {
        let sum = V::load(at.add(TO_NEXT)).times_plus(powers[0], V::load(at));
        let sum = V::load(at.add(2 * TO_NEXT)).times_plus(powers[1], sum);
        V::load(at.add(3 * TO_NEXT)).times_plus(powers[2], sum)
    }
}

/// The derivative of a filter.
///
/// # Safety
/// As [`value_of`].
#[inline(always)]
pub(super) unsafe fn slope_of<V: Lanes<Number = f32>>(at: *const f32, powers: [V; 3]) -> V {
    // SAFETY: the caller's contract.
    unsafe {
        let sum = V::load(at.add(TO_NEXT)).times(powers[0]);
        let sum = V::load(at.add(2 * TO_NEXT)).times_plus(powers[1], sum);
        V::load(at.add(3 * TO_NEXT)).times_plus(powers[2], sum)
    }
}

/// Gradients of the features and distances of [`gather`].
#[derive(Debug)]
pub struct Adjoint<'a> {
    /// Gradients of all messages (atoms, 9, channels).
    pub dm: &'a [f32],
    /// To be added to: gradients of the features of the receivers (receivers, 9, channels).
    pub dy: &'a mut [f32],
    /// To be added to: for the entries of the receivers' rows, the gradient of the distance through
    /// the message in the opposite direction, from the receiver to the entry's sender. Those of
    /// both entries of a pair add up to the pair's.
    pub dd: &'a mut [f32],
}

/// Backward pass of [`gather`] with the same lists, whose graph is symmetric: a message that atom i
/// receives from j has a counterpart in j's row.
///
/// # Panics
/// As [`gather`].
#[track_caller]
pub fn gather_backward(
    edges: Edges<'_>,
    receivers: Range<usize>,
    table: &[f32],
    own: &[f32],
    y: &[f32],
    to: Adjoint<'_>,
) {
    let channels = channels_of(own);
    let size = COMPONENTS * channels;
    let entries = edges.of(receivers.clone()).len();
    assert_eq!(to.dy.len(), receivers.len() * size, "features of {receivers:?}");
    assert_eq!(to.dd.len(), entries, "distances of {receivers:?}");
    let mut sums = Scratch::zeros(entries * SLAB);
    let job = Backward { edges, receivers, table, own, y, to, sums: &mut sums };
    over_channels(channels, job);
}

struct Backward<'a> {
    edges: Edges<'a>,
    receivers: Range<usize>,
    table: &'a [f32],
    own: &'a [f32],
    y: &'a [f32],
    to: Adjoint<'a>,
    /// A register of partial sums for each entry.
    sums: &'a mut [f32],
}

impl ChannelLoop for Backward<'_> {
    #[inline(always)]
    fn run<V: Lanes<Number = f32>>(mut self) {
        let channels = self.own.len() / PARTS;
        for c in (0..channels).step_by(V::WIDTH) {
            let mut entry = 0;
            for place in 0..self.receivers.len() {
                backward_row::<V>(&mut self, channels, place, entry, c);
                entry += self.edges.row(self.receivers.start + place).len();
            }
        }
        let (all, rest) = self.to.dd.as_chunks_mut::<4>();
        let last = all.len() * 4;
        let register = |entry: usize| {
            let sums = &self.sums[entry * SLAB..][..SLAB];
            // SAFETY: a register has at most this many numbers.
            unsafe { V::load(sums.as_ptr()) }
        };
        for (group, to) in all.iter_mut().enumerate() {
            let k = 4 * group;
            let four = [register(k), register(k + 1), register(k + 2), register(k + 3)];
            let found = V::sums(four);
            to.iter_mut().zip(found).for_each(|(to, sum)| *to += sum);
        }
        for (entry, to) in rest.iter_mut().enumerate() {
            let zero = V::splat(0.0);
            *to += V::sums([register(last + entry), zero, zero, zero])[0];
        }
    }
}

/// A register of channels from `c` on of the gradients of one receiver, whose entries start at
/// `entry`.
#[inline(always)]
fn backward_row<V: Lanes<Number = f32>>(
    job: &mut Backward<'_>,
    channels: usize,
    place: usize,
    entry: usize,
    c: usize,
) {
    let (size, row) = (COMPONENTS * channels, row_len(channels));
    let atom = job.receivers.start + place;
    let to = &mut job.to.dy[place * size..][..size];
    let (own_dm, own_y) = (&job.to.dm[atom * size..][..size], &job.y[atom * size..][..size]);
    // SAFETY: the register is within the channels of nine numbers, and of three filters.
    let (features, mut sums) = unsafe {
        let own_dm = load::<V>(own_dm.as_ptr().add(c), channels);
        let mut sums = load::<V>(to.as_ptr().add(c), channels);
        for part in 0..PARTS {
            let own = V::load(job.own.as_ptr().add(part * channels + c));
            for number in STARTS[part]..STARTS[part + 1] {
                sums[number] = own_dm[number].times_plus(own, sums[number]);
            }
        }
        (load::<V>(own_y.as_ptr().add(c), channels), sums)
    };
    let edges = job.edges.row(atom);
    let (senders, stencils) = (&job.edges.senders[edges.clone()], &job.edges.stencils[edges]);
    let distances = job.sums[entry * SLAB..].chunks_exact_mut(SLAB);
    for ((sender, stencil), distance) in senders.iter().zip(stencils).zip(distances) {
        let dm = &job.to.dm[*sender as usize * size..][..size];
        let rows = &job.table[stencil.row as usize * row..][..row];
        let (weights, slopes) = (splat(stencil.value), splat(stencil.slope));
        // SAFETY: as above, within a row of the table and the gradients of one atom; a register
        // has at most the numbers of a slab.
        unsafe {
            let mut total = V::load(distance.as_ptr());
            for part in 0..PARTS {
                let at = rows.as_ptr().add(offset_of(c) + part * SLAB);
                let filter = value_of(at, weights);
                let slope = slope_of(at, slopes);
                let mut product = V::splat(0.0);
                for number in STARTS[part]..STARTS[part + 1] {
                    let dm = V::load(dm.as_ptr().add(number * channels + c));
                    sums[number] = dm.times_plus(filter, sums[number]);
                    product = dm.times_plus(features[number], product);
                }
                total = product.times_plus(slope, total);
            }
            total.store(distance.as_mut_ptr());
        }
    }
    // SAFETY: as above.
    unsafe { store(sums, to.as_mut_ptr().add(c), channels) };
}
