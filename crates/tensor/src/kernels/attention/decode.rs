//! Decoding: few queries. Keys and values are read once, in place, by all heads.
//!
//! A work item takes a range of keys of a sequence with all heads, so that memory is read
//! sequentially; the partial results are combined in the order of the keys (Milakov and Gimelshein
//! 2018, arXiv:1805.02867, eq. 4).
#![allow(
    unsafe_code,
    reason = "registers are loaded and stored through raw pointers; bounds are checked here"
)]

use super::softmax::{cap, log_sum, power, scaled};
use super::{Attention, Results, Sequence};
use crate::kernels::instructions::vectorised;
use crate::kernels::lanes;
use crate::kernels::registers::{Job, Lanes, Pass, dispatch_columns};
use crate::parallel;
use crate::{MatRef, Scalar, Scratch};
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// Largest number of queries, over all heads that share a key, for this path: with more, packing
/// keys and values pays.
const FEW: usize = 32;
/// Smallest number of keys of a work item, and smallest number of values in them.
const KEYS: usize = 128;
const NUMBERS: usize = 1 << 16;
/// Number of work items per sequence up to which they shrink to their smallest size.
const PIECES: usize = 16;
/// Keys whose products with queries are summed together.
const ROWS: usize = 4;
/// Keys whose values are added together: few enough memory pages.
const ADDED: usize = 16;
/// Registers of a row of values that are added together.
const REGISTERS: usize = 4;

/// Whether a sequence has few queries.
pub(super) fn suits(attention: &Attention, sequence: &Sequence<'_>) -> bool {
    sequence.queries.len() * attention.group() <= FEW
}

/// Attends with the queries of sequences.
pub(super) fn forward(
    attention: &Attention,
    query: MatRef<'_, f32>,
    sequences: &[&Sequence<'_>],
    results: &Results<'_>,
) {
    let mut pieces = Vec::new();
    let mut counts = Vec::with_capacity(sequences.len());
    for &sequence in sequences {
        let attended = attended(attention, sequence);
        let fewest = KEYS.max(NUMBERS / sequence.key.cols());
        let step = (attended.len() / PIECES).max(fewest).next_multiple_of(ADDED);
        let cuts = attended.clone().step_by(step);
        counts.push(cuts.len());
        pieces.extend(cuts.map(|start| (sequence, start..attended.end.min(start + step))));
    }
    let mut parts =
        parallel::map(pieces, |_, (sequence, keys)| Part::new(attention, query, sequence, keys))
            .into_iter();
    for (sequence, count) in sequences.iter().zip(counts) {
        let members = sequence.queries.len() * attention.heads;
        let mut whole = Part::nothing(members, attention.head_dim);
        for (k, part) in parts.by_ref().take(count).enumerate() {
            if k == 0 {
                whole = part;
            } else {
                whole.add(part);
            }
        }
        whole.finish(attention, sequence, results);
    }
}

/// Positions of the keys that any query of a sequence attends to.
fn attended(attention: &Attention, sequence: &Sequence<'_>) -> Range<usize> {
    let (queries, keys) = (sequence.queries.len(), sequence.key.rows());
    if queries == 0 {
        return 0..0;
    }
    let of = |index| attention.attended(index, queries, keys);
    of(0).start..of(queries - 1).end
}

/// Partial result of all queries of a sequence over a range of keys. Members are (key head, query,
/// query head of the group) in this order.
struct Part {
    /// Binary logarithm of the largest exponential, and the sum of all exponentials divided by it.
    normalisers: Vec<(f32, f32)>,
    /// Sums of values (members, head_dim), weighted by the exponentials.
    sums: Vec<f32>,
}

impl Part {
    fn nothing(members: usize, dim: usize) -> Self {
        Self {
            normalisers: vec![(f32::NEG_INFINITY, 0.0); members],
            sums: vec![0.0; members * dim],
        }
    }

    fn new(
        attention: &Attention,
        query: MatRef<'_, f32>,
        sequence: &Sequence<'_>,
        keys: Range<usize>,
    ) -> Self {
        let Attention { heads, kv_heads, head_dim: dim, scale, softcap, .. } = *attention;
        let count = sequence.queries.len();
        let members = count * heads;
        let mut part = Self::nothing(members, dim);
        let mut queries = Scratch::new(members * dim);
        let factor = softcap.map_or(scale * LOG2_E, |cap| scale / cap);
        for (member, target) in queries.chunks_exact_mut(dim).enumerate() {
            let (row, head) = place(attention, count, member);
            let query = &query.row(sequence.queries.start + row)[head * dim..][..dim];
            scaled(query, factor, target);
        }
        let mut scores = Scratch::new(members * keys.len());
        let [key, value] =
            [sequence.key, sequence.value].map(|mat| mat.rows_range(keys.start, keys.len()));
        let members_of_key = members / kv_heads;
        dispatch_columns(
            dim,
            Scores { key, queries: &queries, members: members_of_key, dim, scores: &mut scores },
        );
        if let Some(most) = softcap {
            cap(&mut scores, most);
        }
        for (member, scores) in scores.chunks_exact_mut(keys.len()).enumerate() {
            let (row, _) = place(attention, count, member);
            let attended = attention.attended(row, count, sequence.key.rows());
            let [from, to] = [attended.start, attended.end]
                .map(|end| end.clamp(keys.start, keys.end) - keys.start);
            scores[..from].fill(0.0);
            scores[to..].fill(0.0);
            if from < to {
                part.normalisers[member] = powers(&mut scores[from..to]);
            }
        }
        dispatch_columns(
            dim,
            Sums { value, scores: &scores, members: members_of_key, dim, sums: &mut part.sums },
        );
        part
    }

    /// Appends the partial result of the next keys.
    fn add(&mut self, other: Self) {
        let dim = self.sums.len() / self.normalisers.len();
        let sums = self.sums.chunks_exact_mut(dim).zip(other.sums.chunks_exact(dim));
        for ((normaliser, other), (sums, others)) in
            self.normalisers.iter_mut().zip(other.normalisers).zip(sums)
        {
            if other.1 == 0.0 {
                continue;
            }
            let max = normaliser.0.max(other.0);
            let (here, there) = ((normaliser.0 - max).exp2(), (other.0 - max).exp2());
            *normaliser = (max, normaliser.1 * here + other.1 * there);
            for (sum, other) in sums.iter_mut().zip(others) {
                *sum = *sum * here + other * there;
            }
        }
    }

    fn finish(mut self, attention: &Attention, sequence: &Sequence<'_>, results: &Results<'_>) {
        let count = sequence.queries.len();
        let of_members =
            self.normalisers.iter().zip(self.sums.chunks_exact_mut(attention.head_dim));
        for (member, (&(max, sum), sums)) in of_members.enumerate() {
            let (row, head) = place(attention, count, member);
            let share = if sum > 0.0 { 1.0 / sum } else { 0.0 };
            sums.iter_mut().for_each(|number| *number *= share);
            // SAFETY: one thread writes the results of all sequences that have few queries.
            unsafe { results.write(sequence.queries.start + row, head, sums, log_sum(max, sum)) };
        }
    }
}

/// Query (from the first of the sequence) and head of a member.
fn place(attention: &Attention, queries: usize, member: usize) -> (usize, usize) {
    let group = attention.group();
    let (kv_head, rest) = (member / (queries * group), member % (queries * group));
    (rest / group, kv_head * group + rest % group)
}

vectorised! {
    /// Replaces scores by powers of two of their distance to the maximum; returns the maximum and
    /// the sum of the powers.
    fn powers<const FUSED: bool>(scores: &mut [f32]) -> (f32, f32) {
        let max = lanes::max(scores);
        lanes::map(scores, |score| power::<FUSED>(score - max));
        (max, lanes::sum(scores))
    }
}

/// Products of queries (members of each key's heads, dim) with keys (keys, heads * dim): scores
/// (members, keys).
struct Scores<'a, 's, T> {
    key: MatRef<'a, T>,
    queries: &'a [T],
    members: usize,
    dim: usize,
    scores: &'s mut [T],
}

impl<T: Scalar> Job<T> for Scores<'_, '_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(self) {
        V::run(self);
    }
}

impl<V: Lanes> Pass<V> for Scores<'_, '_, V::Number> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (keys, heads) = (self.key.rows(), self.key.cols() / self.dim);
        let members = heads * self.members;
        assert!(self.queries.len() >= members * self.dim && self.scores.len() >= members * keys);
        assert!(self.key.data().len() >= (keys - 1) * self.key.stride() + self.key.cols());
        for first in (0..keys).step_by(ROWS) {
            for head in 0..heads {
                let mut member = head * self.members;
                let end = member + self.members;
                while member < end {
                    // SAFETY: the assertions above hold for all keys and members.
                    let (products, count) = unsafe {
                        match end - member {
                            1 => (self.products::<V, 1>(first, head, member), 1),
                            2 | 3 => (self.products::<V, 2>(first, head, member), 2),
                            _ => (self.products::<V, 4>(first, head, member), 4),
                        }
                    };
                    for (k, products) in products.iter().enumerate().take(count) {
                        let scores = &mut self.scores[(member + k) * keys..][..keys];
                        let ends = scores[first..].iter_mut();
                        ends.zip(products).for_each(|(score, &product)| *score = product);
                    }
                    member += count;
                }
            }
        }
    }
}

impl<T: Scalar> Scores<'_, '_, T> {
    /// Products of the keys from `first` on with the next members; keys beyond the end repeat the
    /// last one.
    ///
    /// # Safety
    /// The keys and the head are in bounds, and the head has MEMBERS members.
    #[inline(always)]
    unsafe fn products<V: Lanes<Number = T>, const MEMBERS: usize>(
        &self,
        first: usize,
        head: usize,
        member: usize,
    ) -> [[T; ROWS]; 4] {
        let (last, stride) = (self.key.rows() - 1, self.key.stride());
        let mut sums = [[V::splat(T::ZERO); ROWS]; MEMBERS];
        // SAFETY: the caller's contract; registers divide a head.
        unsafe {
            let keys: [*const T; ROWS] = std::array::from_fn(|r| {
                self.key.data().as_ptr().add((first + r).min(last) * stride + head * self.dim)
            });
            let queries = self.queries.as_ptr().add(member * self.dim);
            for at in (0..self.dim).step_by(V::WIDTH) {
                let keys: [V; ROWS] = std::array::from_fn(|r| V::load(keys[r].add(at)));
                for (k, sums) in sums.iter_mut().enumerate() {
                    let query = V::load(queries.add(k * self.dim + at));
                    for (sum, key) in sums.iter_mut().zip(keys) {
                        *sum = query.times_plus(key, *sum);
                    }
                }
            }
        }
        let mut products = [[T::ZERO; ROWS]; 4];
        for (products, sums) in products.iter_mut().zip(sums) {
            *products = V::sums(sums);
        }
        products
    }
}

/// Adds values (keys, heads * dim), times scores (members, keys), to sums (members, dim).
struct Sums<'a, 's, T> {
    value: MatRef<'a, T>,
    scores: &'a [T],
    members: usize,
    dim: usize,
    sums: &'s mut [T],
}

impl<T: Scalar> Job<T> for Sums<'_, '_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(self) {
        V::run(self);
    }
}

impl<V: Lanes> Pass<V> for Sums<'_, '_, V::Number> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (keys, heads) = (self.value.rows(), self.value.cols() / self.dim);
        let members = heads * self.members;
        assert!(self.sums.len() >= members * self.dim && self.scores.len() >= members * keys);
        assert!(self.value.data().len() >= (keys - 1) * self.value.stride() + self.value.cols());
        for first in (0..keys).step_by(ADDED) {
            let keys = first..keys.min(first + ADDED);
            for head in 0..heads {
                let mut member = head * self.members;
                let end = member + self.members;
                while member < end {
                    // SAFETY: the assertions above hold for all keys and members.
                    unsafe {
                        member += match end - member {
                            1 => self.of_members::<V, 1>(keys.clone(), head, member),
                            2 | 3 => self.of_members::<V, 2>(keys.clone(), head, member),
                            _ => self.of_members::<V, 4>(keys.clone(), head, member),
                        }
                    }
                }
            }
        }
    }
}

impl<T: Scalar> Sums<'_, '_, T> {
    /// Adds to the sums of the next members; returns their number.
    ///
    /// # Safety
    /// The keys and the head are in bounds, and the head has MEMBERS members.
    #[inline(always)]
    unsafe fn of_members<V: Lanes<Number = T>, const MEMBERS: usize>(
        &mut self,
        keys: Range<usize>,
        head: usize,
        member: usize,
    ) -> usize {
        let mut at = 0;
        // SAFETY: the caller's contract; registers divide a head.
        unsafe {
            while at + REGISTERS * V::WIDTH <= self.dim {
                self.registers::<V, MEMBERS, REGISTERS>(keys.clone(), head, at, member);
                at += REGISTERS * V::WIDTH;
            }
            while at < self.dim {
                self.registers::<V, MEMBERS, 1>(keys.clone(), head, at, member);
                at += V::WIDTH;
            }
        }
        MEMBERS
    }

    /// Some registers of [`Self::of_members`].
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn registers<V: Lanes<Number = T>, const MEMBERS: usize, const COUNT: usize>(
        &mut self,
        keys: Range<usize>,
        head: usize,
        at: usize,
        member: usize,
    ) {
        let (pitch, stride) = (self.value.rows(), self.value.stride());
        // SAFETY: the caller's contract.
        unsafe {
            let into = self.sums.as_mut_ptr().add(member * self.dim + at);
            let scores = self.scores.as_ptr().add(member * pitch);
            let values = self.value.data().as_ptr().add(head * self.dim + at);
            let place = |m: usize, r: usize| into.add(m * self.dim + r * V::WIDTH);
            let mut sums: [[V; COUNT]; MEMBERS] =
                std::array::from_fn(|m| std::array::from_fn(|r| V::load(place(m, r))));
            for key in keys {
                let value = values.add(key * stride);
                let value: [V; COUNT] = std::array::from_fn(|r| V::load(value.add(r * V::WIDTH)));
                for (m, sums) in sums.iter_mut().enumerate() {
                    let score = V::splat(*scores.add(m * pitch + key));
                    for (sum, value) in sums.iter_mut().zip(value) {
                        *sum = score.times_plus(value, *sum);
                    }
                }
            }
            for (m, sums) in sums.into_iter().enumerate() {
                for (r, sum) in sums.into_iter().enumerate() {
                    sum.store(place(m, r));
                }
            }
        }
    }
}
