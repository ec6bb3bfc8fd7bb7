//! Limited-memory BFGS without a line search.

use super::inner;
use std::collections::VecDeque;

/// Number of remembered steps.
const MEMORY: usize = 100;
/// Curvature before any is known, in electron volts per square angstrom.
const CURVATURE: f64 = 70.0;

#[derive(Default)]
pub(super) struct Lbfgs {
    last: Option<[Vec<[f64; 3]>; 2]>,
    pairs: VecDeque<Pair>,
}

/// A step with the change of the gradient over it.
struct Pair {
    step: Vec<[f64; 3]>,
    change: Vec<[f64; 3]>,
    inverse: f64,
}

impl Lbfgs {
    pub(super) fn step(&mut self, positions: &[[f64; 3]], forces: &[[f64; 3]]) -> Vec<[f64; 3]> {
        if let Some([places, pulls]) = self.last.take() {
            let step = difference(positions, &places);
            let change = difference(&pulls, forces);
            let product = inner(&step, &change);
            // With negative curvature, a step gives no information about the minimum.
            if product > 0.0 {
                self.pairs.push_back(Pair { step, change, inverse: 1.0 / product });
            }
            if self.pairs.len() > MEMORY {
                self.pairs.pop_front();
            }
        }
        self.last = Some([positions.to_vec(), forces.to_vec()]);
        self.direction(forces)
    }

    /// The product of the inverse Hessian with the forces, by the two loops.
    fn direction(&self, forces: &[[f64; 3]]) -> Vec<[f64; 3]> {
        let mut q = forces.to_vec();
        let mut weights = Vec::with_capacity(self.pairs.len());
        for pair in self.pairs.iter().rev() {
            let weight = pair.inverse * inner(&pair.step, &q);
            add(&mut q, -weight, &pair.change);
            weights.push(weight);
        }
        q.iter_mut().flatten().for_each(|x| *x /= CURVATURE);
        for (pair, weight) in self.pairs.iter().zip(weights.iter().rev()) {
            let other = pair.inverse * inner(&pair.change, &q);
            add(&mut q, weight - other, &pair.step);
        }
        q
    }
}

fn difference(one: &[[f64; 3]], other: &[[f64; 3]]) -> Vec<[f64; 3]> {
    let of = |(a, b): (&[f64; 3], &[f64; 3])| std::array::from_fn(|axis| a[axis] - b[axis]);
    one.iter().zip(other).map(of).collect()
}

fn add(to: &mut [[f64; 3]], factor: f64, what: &[[f64; 3]]) {
    for (to, what) in to.iter_mut().flatten().zip(what.iter().flatten()) {
        *to += factor * what;
    }
}
