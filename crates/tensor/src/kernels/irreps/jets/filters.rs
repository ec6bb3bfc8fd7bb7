//! Gradients of the filters of messages, for both directions of each pair at once.

use super::super::{COMPONENTS, PARTS, STARTS};
use super::{Field, Jet, Jets, JetsMut, Place};
use crate::Scalar;
use crate::kernels::registers::{Job, Lanes, Pass, dispatch_columns, sum_of_lanes};
use std::marker::PhantomData;

#[track_caller]
fn check<T: Scalar>(ends: &[[u32; 2]], atoms: usize, y: Jets<'_, T>, dm: Jets<'_, T>) -> usize {
    assert_eq!(y.lens(), dm.lens(), "features and gradients of messages");
    let channels = y.value.len() / (COMPONENTS * atoms).max(1);
    assert_eq!(y.value.len(), atoms * COMPONENTS * channels, "features of {atoms} atoms");
    let inside = ends.iter().flatten().all(|end| (*end as usize) < atoms);
    assert!(inside, "a pair out of range of {atoms} atoms");
    channels
}

/// `Σ dm y` by part.
#[inline(always)]
fn add_parts<F: Field>(sums: &mut [F; PARTS], dm: &[F; COMPONENTS], y: &[F; COMPONENTS]) {
    for (part, sum) in sums.iter_mut().enumerate() {
        for n in STARTS[part]..STARTS[part + 1] {
            *sum = dm[n].times_plus(y[n], *sum);
        }
    }
}

/// Those of one pair in one register of channels.
///
/// # Safety
/// Both atoms of the pair are in range.
#[inline(always)]
unsafe fn of_pair<F: Field>(
    [first, second]: [u32; 2],
    (c, sizes): (usize, [usize; 2]),
    y: &Jets<'_, F::Number>,
    dm: &Jets<'_, F::Number>,
) -> [F; PARTS] {
    let place = |atom: u32| Place::new(atom as usize, c, sizes);
    let (first, second) = (place(first), place(second));
    let mut sums = [F::constant(0.0); PARTS];
    // SAFETY: the caller's contract.
    unsafe {
        add_parts(&mut sums, &first.nine::<F>(dm), &second.nine::<F>(y));
        add_parts(&mut sums, &second.nine::<F>(dm), &first.nine::<F>(y));
    }
    sums
}

/// Adds the gradients of the pairs' distances through the slopes of filters, from features `y` and
/// the gradients `dm` of messages, without tangents.
///
/// # Panics
/// If lengths do not match, or a pair is out of range.
#[track_caller]
pub fn distance_gradients<T: Scalar>(
    (ends, atoms): (&[[u32; 2]], usize),
    filters: Jets<'_, T>,
    [y, dm]: [&[T]; 2],
    distances: &mut [f64],
) {
    let [y, dm] = [y, dm].map(|value| Jets { value, tangent: &[] });
    let channels = check(ends, atoms, y, dm);
    assert_eq!(filters.tangent.len(), (ends.len() + 1) * PARTS * channels, "slopes of filters");
    assert_eq!(distances.len(), ends.len(), "distances of pairs");
    let sizes = [atoms, channels];
    dispatch_columns(channels, Distances { ends, filters, y, dm, distances, sizes });
}

struct Distances<'a, T> {
    ends: &'a [[u32; 2]],
    filters: Jets<'a, T>,
    y: Jets<'a, T>,
    dm: Jets<'a, T>,
    distances: &'a mut [f64],
    sizes: [usize; 2],
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
        let Distances { ends, filters, y, dm, distances, sizes } = self.0;
        for (pair, (ends, distance)) in ends.iter().zip(distances).enumerate() {
            let mut total = V::splat(V::Number::ZERO);
            for c in (0..sizes[1]).step_by(V::WIDTH) {
                // SAFETY: `check` found every pair inside; slopes are as many as filters.
                unsafe {
                    let sums = of_pair::<V>(*ends, (c, sizes), &y, &dm);
                    for (part, sum) in sums.into_iter().enumerate() {
                        let at = (pair * PARTS + part) * sizes[1] + c;
                        let slope = V::load(filters.tangent.as_ptr().add(at));
                        total = Lanes::times_plus(sum, slope, total);
                    }
                }
            }
            *distance += sum_of_lanes(total).to_f64();
        }
    }
}

/// Writes the gradients of filters of the derivative along the direction, of slopes (values) and of
/// values (tangents), from features `y` and the gradients `dm` of messages; the last row is that of
/// atoms and themselves.
///
/// # Panics
/// If lengths do not match, or a pair is out of range.
#[track_caller]
pub fn filter_gradients<T: Scalar>(
    (ends, atoms): (&[[u32; 2]], usize),
    along: &[T],
    [y, dm]: [Jets<'_, T>; 2],
    to: JetsMut<'_, T>,
) {
    let channels = check(ends, atoms, y, dm);
    assert_eq!(y.tangent.len(), y.value.len(), "gradients from numbers with tangents");
    assert_eq!(to.lens(), [(ends.len() + 1) * PARTS * channels; 2], "gradients of filters");
    assert_eq!(along.len(), ends.len(), "derivatives of distances");
    dispatch_columns(channels, Filters { ends, along, y, dm, to, sizes: [atoms, channels] });
}

struct Filters<'a, T> {
    ends: &'a [[u32; 2]],
    along: &'a [T],
    y: Jets<'a, T>,
    dm: Jets<'a, T>,
    to: JetsMut<'a, T>,
    sizes: [usize; 2],
}

struct FiltersPass<'a, T, V>(Filters<'a, T>, PhantomData<V>);

impl<T: Scalar> Job<T> for Filters<'_, T> {
    type Output = ();
    fn run<V: Lanes<Number = T>>(self) {
        V::run(FiltersPass(self, PhantomData::<V>));
    }
}

impl<V: Lanes> Pass<V> for FiltersPass<'_, V::Number, V> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Filters { ends, along, y, dm, mut to, sizes } = self.0;
        let channels = sizes[1];
        for c in (0..channels).step_by(V::WIDTH) {
            // SAFETY: `check` found every pair inside, and rows for all of them.
            unsafe {
                for (pair, ends) in ends.iter().enumerate() {
                    let along = V::splat(along[pair]);
                    let sums = of_pair::<Jet<V>>(*ends, (c, sizes), &y, &dm);
                    for (part, sum) in sums.into_iter().enumerate() {
                        let slope = Lanes::times(sum.value, along);
                        let at = (pair * PARTS + part) * channels + c;
                        Jet { value: slope, tangent: sum.tangent }.write(&mut to, at);
                    }
                }
                let mut own = [Jet::<V>::constant(0.0); PARTS];
                for atom in 0..sizes[0] {
                    let at = Place::new(atom, c, sizes);
                    add_parts(&mut own, &at.nine(&dm), &at.nine(&y));
                }
                for (part, sum) in own.into_iter().enumerate() {
                    let value = V::splat(V::Number::ZERO);
                    let at = (ends.len() * PARTS + part) * channels + c;
                    Jet { value, tangent: sum.tangent }.write(&mut to, at);
                }
            }
        }
    }
}
