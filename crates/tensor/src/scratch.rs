//! Thread-local working memory, reused since fresh pages cost more than the arithmetic on them. It
//! is aligned to cache lines, so that no register load crosses two.

use crate::Scalar;
use std::ops::{Deref, DerefMut};

/// Number of large buffers kept per thread; more are freed.
const KEPT: usize = 24;
/// Number of small ones: a training step of a potential has some hundreds of arrays at a time.
const KEPT_SMALL: usize = 512;
/// Bytes of a small buffer at most.
const SMALL: usize = 1 << 20;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Working memory of this thread, returned when it is dropped.
#[derive(Debug)]
pub struct Scratch<T: Scalar> {
    data: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Scalar> Scratch<T> {
    /// `len` numbers with unspecified contents.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let needed = len + LINE / size_of::<T>();
        let mut data =
            T::pool().with(|pool| best(&mut pool.borrow_mut(), needed)).unwrap_or_default();
        if data.len() < needed {
            data.resize(needed, T::ZERO);
        }
        let start = data.as_ptr().align_offset(LINE).min(LINE / size_of::<T>());
        Self { data, start, len }
    }

    /// `len` zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        let mut scratch = Self::new(len);
        scratch.fill(T::ZERO);
        scratch
    }
}

/// Takes the smallest sufficient buffer, or else the largest.
fn best<T>(pool: &mut Vec<Vec<T>>, len: usize) -> Option<Vec<T>> {
    let fits = |(_, data): &(usize, &Vec<T>)| data.len() >= len;
    let smallest = pool.iter().enumerate().filter(fits).min_by_key(|(_, data)| data.len());
    let chosen = smallest.or_else(|| pool.iter().enumerate().max_by_key(|(_, data)| data.len()));
    chosen.map(|(place, _)| place).map(|place| pool.swap_remove(place))
}

impl<T: Scalar> Drop for Scratch<T> {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.data));
    }
}

/// `len` numbers with unspecified contents, from the same memory, for arrays that outlive a call.
/// They may be dropped like any others, or [given back](give_back).
#[must_use]
pub fn take<T: Scalar>(len: usize) -> Vec<T> {
    let mut data = T::pool().with(|pool| {
        let mut pool = pool.borrow_mut();
        let fits = |(_, data): &(usize, &Vec<T>)| data.capacity() >= len;
        let all = pool.iter().enumerate().filter(fits);
        let chosen = all.min_by_key(|(_, data)| data.capacity()).map(|(place, _)| place);
        chosen.map(|place| pool.swap_remove(place)).unwrap_or_default()
    });
    data.resize(len, T::ZERO);
    data
}

/// Keeps memory for what this thread computes next.
pub fn give_back<T: Scalar>(data: Vec<T>) {
    T::pool().with(|pool| {
        let mut pool = pool.borrow_mut();
        let is_small = |data: &Vec<T>| size_of::<T>() * data.capacity() <= SMALL;
        let alike = pool.iter().filter(|other| is_small(other) == is_small(&data)).count();
        let most = if is_small(&data) { KEPT_SMALL } else { KEPT };
        if alike < most && data.capacity() > 0 {
            pool.push(data);
        }
    });
}

impl<T: Scalar> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.data[self.start..][..self.len]
    }
}

impl<T: Scalar> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_that_are_given_back_serve_the_next_of_their_size_or_less() {
        let first: Vec<f32> = take(1000);
        let place = first.as_ptr();
        give_back(first);
        let again: Vec<f32> = take(900);
        assert_eq!((again.len(), again.as_ptr()), (900, place));
        let other: Vec<f32> = take(900);
        assert_ne!(other.as_ptr(), place, "two at a time are two arrays");
    }

    #[test]
    fn few_large_buffers_are_kept() {
        let large = || vec![0.0_f32; SMALL / 4 + 1];
        (0..KEPT + 3).for_each(|_| give_back(large()));
        give_back(vec![0.0_f32; 3]);
        let kept = f32::pool().with(|pool| pool.borrow().len());
        assert_eq!(kept, KEPT + 1);
    }

    #[test]
    fn memory_comes_back_to_the_thread_in_any_length() {
        let first = Scratch::<f64>::zeros(100);
        let place = first.as_ptr();
        drop(first);
        let again = Scratch::<f64>::new(40);
        assert_eq!((again.len(), again.as_ptr()), (40, place));
        let other = Scratch::<f64>::zeros(7);
        assert_ne!(other.as_ptr(), place, "two at a time are two buffers");
        assert_eq!(*other, [0.0; 7]);
        for memory in [again, other] {
            assert!((memory.as_ptr() as usize).is_multiple_of(LINE));
        }
    }
}
