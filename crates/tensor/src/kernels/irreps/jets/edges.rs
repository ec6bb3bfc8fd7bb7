//! Sums over neighbours, of messages and of the embedding, with filters given for each pair.

use super::super::{COMPONENTS, PART_OF, PARTS, STARTS, scaled};
use super::{Field, Jet, Jets, JetsMut, Place};
use crate::Scalar;
use crate::kernels::gemm::Write;
use crate::kernels::registers::{Job, Lanes, Pass, dispatch_columns, sum_of_lanes};
use std::marker::PhantomData;
use std::ops::Range;

/// Neighbours of atoms, row by row, with the pair that each belongs to. Filters are rows of pairs
/// (3, channels), values with slopes by the distance, and a last row for an atom and itself.
#[derive(Clone, Copy, Debug)]
pub struct JetEdges<'a, T> {
    /// Where the row of each atom starts; one more than atoms.
    pub starts: &'a [u32],
    /// The senders.
    pub senders: &'a [u32],
    /// Their pairs.
    pub pairs: &'a [u32],
    /// Derivatives of the pairs' distances along the direction of the tangents.
    pub along: &'a [T],
}

impl<T: Scalar> JetEdges<'_, T> {
    #[inline(always)]
    pub(super) fn row(&self, atom: usize) -> Range<usize> {
        self.starts[atom] as usize..self.starts[atom + 1] as usize
    }

    pub(super) fn atoms(&self) -> usize {
        self.starts.len() - 1
    }

    #[track_caller]
    pub(super) fn check(&self, filters: Jets<'_, T>, channels: usize) {
        let (atoms, pairs) = (self.atoms(), self.along.len());
        let inside = |all: &[u32], end: usize| all.iter().all(|index| (*index as usize) < end);
        assert!(inside(self.senders, atoms) && inside(self.pairs, pairs), "an edge out of range");
        let entries = self.starts[atoms] as usize;
        assert_eq!([self.senders.len(), self.pairs.len()], [entries; 2], "entries of edges");
        assert_eq!(filters.lens(), [(pairs + 1) * PARTS * channels; 2], "filters of {pairs} pairs");
    }
}

/// Filters of a pair in one register of channels.
///
/// # Safety
/// The row of the pair reaches that far.
#[inline(always)]
pub(super) unsafe fn filters_of<F: Field>(
    filters: &Jets<'_, F::Number>,
    pair: usize,
    channels: usize,
    c: usize,
    along: F::Register,
) -> [F; PARTS] {
    let mut all = [F::constant(0.0); PARTS];
    for (p, filter) in all.iter_mut().enumerate() {
        let at = (pair * PARTS + p) * channels + c;
        // SAFETY: the caller's contract.
        unsafe {
            let value = F::Register::load(filters.value.as_ptr().add(at));
            *filter = match F::TANGENTS {
                true => {
                    let slope = F::Register::load(filters.tangent.as_ptr().add(at));
                    F::with(value, Lanes::times(slope, along))
                }
                false => F::of(value),
            };
        }
    }
    all
}

#[track_caller]
fn channels_of<T: Scalar>(edges: JetEdges<'_, T>, lens: &[[usize; 2]]) -> usize {
    let channels = lens[0][0] / (COMPONENTS * edges.atoms()).max(1);
    let len = edges.atoms() * COMPONENTS * channels;
    let fits = |[values, tangents]: &[usize; 2]| {
        *values == len && [0, len].contains(tangents) && *tangents == lens[0][1]
    };
    assert!(lens.iter().all(fits), "{lens:?} numbers of {} atoms", edges.atoms());
    channels
}

/// Messages `m_i = f_0 y_i + Σ_j f_ij y_j`, set or added. Filters are the same in both directions,
/// so this is its own adjoint.
///
/// # Panics
/// If lengths do not match, or an edge is out of range.
#[track_caller]
pub fn gather<T: Scalar>(
    edges: JetEdges<'_, T>,
    filters: Jets<'_, T>,
    y: Jets<'_, T>,
    m: JetsMut<'_, T>,
    write: Write,
) {
    let channels = channels_of(edges, &[y.lens(), m.lens()]);
    edges.check(filters, channels);
    dispatch_columns(channels, Gather { edges, filters, y, m, write, channels });
}

struct Gather<'a, T> {
    edges: JetEdges<'a, T>,
    filters: Jets<'a, T>,
    y: Jets<'a, T>,
    m: JetsMut<'a, T>,
    write: Write,
    channels: usize,
}

struct GatherPass<'a, T, F>(Gather<'a, T>, PhantomData<F>);

impl<T: Scalar> Job<T> for Gather<'_, T> {
    type Output = ();
    fn run<V: Lanes<Number = T>>(self) {
        match self.y.tangent.is_empty() {
            true => V::run(GatherPass(self, PhantomData::<V>)),
            false => V::run(GatherPass(self, PhantomData::<Jet<V>>)),
        }
    }
}

impl<V: Lanes, F: Field<Number = V::Number, Register = V>> Pass<V>
    for GatherPass<'_, V::Number, F>
{
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Gather { edges, filters, y, mut m, write, channels } = self.0;
        let sizes = [edges.atoms(), channels];
        let zero = V::splat(V::Number::ZERO);
        for atom in 0..edges.atoms() {
            for c in (0..channels).step_by(V::WIDTH) {
                let to = Place::new(atom, c, sizes);
                // SAFETY: `check` found every sender and pair inside.
                unsafe {
                    let mut sums = match write {
                        Write::Add => to.nine::<F>(&m.as_ref()),
                        Write::Set => [F::constant(0.0); COMPONENTS],
                    };
                    let own = filters_of::<F>(&filters, edges.along.len(), channels, c, zero);
                    add(&mut sums, own, to.nine(&y));
                    for entry in edges.row(atom) {
                        let pair = edges.pairs[entry] as usize;
                        let along = V::splat(edges.along[pair]);
                        let filter = filters_of::<F>(&filters, pair, channels, c, along);
                        let from = Place::new(edges.senders[entry] as usize, c, sizes);
                        add(&mut sums, filter, from.nine(&y));
                    }
                    to.set_nine(sums, &mut m);
                }
            }
        }
    }
}

#[inline(always)]
fn add<F: Field>(sums: &mut [F; COMPONENTS], filter: [F; PARTS], y: [F; COMPONENTS]) {
    for ((sum, y), part) in sums.iter_mut().zip(y).zip(PART_OF) {
        *sum = y.times_plus(filter[part], *sum);
    }
}

/// Data of the embedding for each entry of the rows.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingJets<'a, T> {
    /// For each entry, the row of its ordered pair of species; then those of atoms and themselves.
    pub kinds: &'a [u32],
    /// For each entry, [`shape_of_direction`](super::super::shape_of_direction), nine numbers.
    pub shapes: Jets<'a, T>,
    /// Numbers of the ordered pairs of species (kinds, channels).
    pub species: &'a [T],
}

impl<T: Scalar> EmbeddingJets<'_, T> {
    #[track_caller]
    fn check(&self, edges: JetEdges<'_, T>, channels: usize) {
        let (entries, atoms) = (edges.senders.len(), edges.atoms());
        assert_eq!(self.kinds.len(), entries + atoms, "kinds of entries and atoms");
        assert_eq!(self.shapes.value.len(), entries * COMPONENTS, "shapes of entries");
        let kinds = self.species.len() / channels.max(1);
        assert!(self.kinds.iter().all(|kind| (*kind as usize) < kinds), "one of {kinds} kinds");
    }

    #[inline(always)]
    fn shape<F: Field<Number = T>>(&self, entry: usize) -> [F; COMPONENTS] {
        let mut shape = [F::constant(0.0); COMPONENTS];
        for (c, shape) in shape.iter_mut().enumerate() {
            let at = entry * COMPONENTS + c;
            let value = F::Register::splat(self.shapes.value[at]);
            *shape = match F::TANGENTS {
                true => F::with(value, F::Register::splat(self.shapes.tangent[at])),
                false => F::of(value),
            };
        }
        shape
    }
}

const ROOT_THREE: f64 = 1.732_050_807_568_877_2;

/// The embedding's sums `x_i = √3 z_ii f_0 + Σ_j z_ij f_ij shape_ij`, by part; the term of an atom
/// itself has only the first part.
///
/// # Panics
/// If lengths do not match, or an edge is out of range.
#[track_caller]
pub fn embed<T: Scalar>(
    edges: JetEdges<'_, T>,
    of: EmbeddingJets<'_, T>,
    filters: Jets<'_, T>,
    x: JetsMut<'_, T>,
) {
    let channels = channels_of(edges, &[x.lens()]);
    edges.check(filters, channels);
    of.check(edges, channels);
    dispatch_columns(channels, Embed { edges, of, filters, x, channels });
}

struct Embed<'a, T> {
    edges: JetEdges<'a, T>,
    of: EmbeddingJets<'a, T>,
    filters: Jets<'a, T>,
    x: JetsMut<'a, T>,
    channels: usize,
}

struct EmbedPass<'a, T, F>(Embed<'a, T>, PhantomData<F>);

impl<T: Scalar> Job<T> for Embed<'_, T> {
    type Output = ();
    fn run<V: Lanes<Number = T>>(self) {
        match self.x.tangent.is_empty() {
            true => V::run(EmbedPass(self, PhantomData::<V>)),
            false => V::run(EmbedPass(self, PhantomData::<Jet<V>>)),
        }
    }
}

impl<V: Lanes, F: Field<Number = V::Number, Register = V>> Pass<V> for EmbedPass<'_, V::Number, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Embed { edges, of, filters, mut x, channels } = self.0;
        let itself = edges.along.len() * PARTS * channels;
        for atom in 0..edges.atoms() {
            let own = of.kinds[edges.senders.len() + atom] as usize * channels;
            for c in (0..channels).step_by(V::WIDTH) {
                // SAFETY: `check` found every pair and kind inside.
                unsafe {
                    let mut sums = [F::constant(0.0); COMPONENTS];
                    let z = V::load(of.species.as_ptr().add(own + c));
                    let filter = V::load(filters.value.as_ptr().add(itself + c));
                    sums[0] = F::of(z.times(filter)).times(F::constant(ROOT_THREE));
                    for entry in edges.row(atom) {
                        let pair = edges.pairs[entry] as usize;
                        let along = V::splat(edges.along[pair]);
                        let kind = of.kinds[entry] as usize * channels;
                        let z = F::of(V::load(of.species.as_ptr().add(kind + c)));
                        let filter = filters_of::<F>(&filters, pair, channels, c, along);
                        add(&mut sums, scaled(filter, z), of.shape(entry));
                    }
                    Place::new(atom, c, [edges.atoms(), channels]).set_nine(sums, &mut x);
                }
            }
        }
    }
}

/// Backward pass of [`embed`] without tangents from the gradient `dx` of the sums: adds those of
/// the pairs' distances, and writes those of the entries' shapes, nine each.
///
/// # Panics
/// As [`embed`].
#[track_caller]
pub fn embed_distances<T: Scalar>(
    edges: JetEdges<'_, T>,
    of: EmbeddingJets<'_, T>,
    filters: Jets<'_, T>,
    dx: &[T],
    (distances, shapes): (&mut [f64], &mut [[f64; COMPONENTS]]),
) {
    let dx = Jets { value: dx, tangent: &[] };
    let channels = channels_of(edges, &[dx.lens()]);
    edges.check(filters, channels);
    of.check(edges, channels);
    assert_eq!(distances.len(), edges.along.len(), "distances of pairs");
    assert_eq!(shapes.len(), edges.senders.len(), "shapes of entries");
    dispatch_columns(channels, Distances { edges, of, filters, dx, distances, shapes, channels });
}

struct Distances<'a, T> {
    edges: JetEdges<'a, T>,
    of: EmbeddingJets<'a, T>,
    filters: Jets<'a, T>,
    dx: Jets<'a, T>,
    distances: &'a mut [f64],
    shapes: &'a mut [[f64; COMPONENTS]],
    channels: usize,
}

struct DistancesPass<'a, T, V>(Distances<'a, T>, PhantomData<V>);

impl<T: Scalar> Job<T> for Distances<'_, T> {
    type Output = ();
    fn run<V: Lanes<Number = T>>(self) {
        V::run(DistancesPass(self, PhantomData::<V>));
    }
}

impl<V: Lanes> Pass<V> for DistancesPass<'_, V::Number, V> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Distances { edges, of, filters, dx, distances, shapes, channels } = self.0;
        let sizes = [edges.atoms(), channels];
        let zero = V::splat(V::Number::ZERO);
        for atom in 0..edges.atoms() {
            for entry in edges.row(atom) {
                let (pair, kind) = (edges.pairs[entry] as usize, of.kinds[entry] as usize);
                let shape = of.shape::<V>(entry);
                let (mut by_distance, mut by_shape) = (zero, [zero; COMPONENTS]);
                for c in (0..channels).step_by(V::WIDTH) {
                    // SAFETY: `check` found every pair and kind inside.
                    unsafe {
                        let g = Place::new(atom, c, sizes).nine::<V>(&dx);
                        let z = V::load(of.species.as_ptr().add(kind * channels + c));
                        for part in 0..PARTS {
                            let at = (pair * PARTS + part) * channels + c;
                            let filter = V::load(filters.value.as_ptr().add(at));
                            let slope = V::load(filters.tangent.as_ptr().add(at));
                            let (filter, slope) = (Lanes::times(filter, z), Lanes::times(slope, z));
                            let mut along = zero;
                            for n in STARTS[part]..STARTS[part + 1] {
                                along = Lanes::times_plus(g[n], shape[n], along);
                                by_shape[n] = Lanes::times_plus(g[n], filter, by_shape[n]);
                            }
                            by_distance = Lanes::times_plus(along, slope, by_distance);
                        }
                    }
                }
                distances[pair] += sum_of_lanes(by_distance).to_f64();
                for (to, sum) in shapes[entry].iter_mut().zip(by_shape) {
                    *to = sum_of_lanes(sum).to_f64();
                }
            }
        }
    }
}

/// Destinations of gradients of the embedding's parameters.
#[derive(Debug)]
pub struct EmbeddingGradients<'a, T> {
    /// Of the filters' rows: of slopes (values) and of values (tangents).
    pub filters: JetsMut<'a, T>,
    /// Of the pairs of species.
    pub species: &'a mut [T],
}

/// Backward pass of [`embed`] with tangents from the gradient `dx` of the sums: adds those of
/// filters and of pairs of species, of the derivative along the direction.
///
/// # Panics
/// As [`embed`].
#[track_caller]
pub fn embed_gradients<T: Scalar>(
    edges: JetEdges<'_, T>,
    of: EmbeddingJets<'_, T>,
    filters: Jets<'_, T>,
    dx: Jets<'_, T>,
    to: EmbeddingGradients<'_, T>,
) {
    let channels = channels_of(edges, &[dx.lens()]);
    assert!(!dx.tangent.is_empty(), "gradients of parameters from numbers with tangents");
    edges.check(filters, channels);
    of.check(edges, channels);
    assert_eq!(to.filters.lens(), filters.lens(), "gradients of filters");
    assert_eq!(to.species.len(), of.species.len(), "gradients of pairs of species");
    dispatch_columns(channels, Gradients { edges, of, filters, dx, to, channels });
}

struct Gradients<'a, T> {
    edges: JetEdges<'a, T>,
    of: EmbeddingJets<'a, T>,
    filters: Jets<'a, T>,
    dx: Jets<'a, T>,
    to: EmbeddingGradients<'a, T>,
    channels: usize,
}

struct GradientsPass<'a, T, V>(Gradients<'a, T>, PhantomData<V>);

impl<T: Scalar> Job<T> for Gradients<'_, T> {
    type Output = ();
    fn run<V: Lanes<Number = T>>(self) {
        V::run(GradientsPass(self, PhantomData::<V>));
    }
}

impl<V: Lanes> Pass<V> for GradientsPass<'_, V::Number, V> {
    type Output = ();
    #[inline(always)]
    fn run(mut self) {
        let edges = self.0.edges;
        for atom in 0..edges.atoms() {
            for c in (0..self.0.channels).step_by(V::WIDTH) {
                self.0.add::<V>(atom, c);
            }
        }
    }
}

impl<T: Scalar> Gradients<'_, T> {
    /// Adds those of one atom in one register of channels.
    #[inline(always)]
    fn add<V: Lanes<Number = T>>(&mut self, atom: usize, c: usize) {
        let Self { edges, of, filters, dx, to, channels } = self;
        let (edges, channels) = (*edges, *channels);
        // SAFETY: `check` found every pair and kind inside.
        unsafe {
            let g = Place::new(atom, c, [edges.atoms(), channels]).nine::<Jet<V>>(dx);
            let own = of.kinds[edges.senders.len() + atom] as usize * channels + c;
            let itself = edges.along.len() * PARTS * channels + c;
            let root = V::splat(T::from_f64(ROOT_THREE));
            let along = Lanes::times(g[0].tangent, root);
            let add = |to: &mut [T], at: usize, number: V| {
                let to = to.as_mut_ptr().add(at);
                Lanes::plus(V::load(to), number).store(to);
            };
            let z = V::load(of.species.as_ptr().add(own));
            add(to.filters.tangent, itself, Lanes::times(along, z));
            let filter = V::load(filters.value.as_ptr().add(itself));
            add(to.species, own, Lanes::times(along, filter));
            for entry in edges.row(atom) {
                let pair = edges.pairs[entry] as usize;
                let along = V::splat(edges.along[pair]);
                let kind = of.kinds[entry] as usize * channels + c;
                let z = V::load(of.species.as_ptr().add(kind));
                let filter = filters_of::<Jet<V>>(filters, pair, channels, c, along);
                let shape = of.shape::<Jet<V>>(entry);
                let mut by_species = V::splat(T::ZERO);
                for part in 0..PARTS {
                    let mut sum = Jet::<V>::constant(0.0);
                    for n in STARTS[part]..STARTS[part + 1] {
                        sum = g[n].times_plus(shape[n], sum);
                    }
                    by_species = Lanes::plus(by_species, sum.times(filter[part]).tangent);
                    let at = (pair * PARTS + part) * channels + c;
                    let slope = Lanes::times(Lanes::times(sum.value, z), along);
                    add(to.filters.value, at, slope);
                    add(to.filters.tangent, at, Lanes::times(sum.tangent, z));
                }
                add(to.species, kind, by_species);
            }
        }
    }
}
