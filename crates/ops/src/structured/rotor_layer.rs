//! One layer of a rotor network: weighted parallel branches of rotor, permutation, normalisation
//! and nonlinearity, on blocks of rows in column layout.

use super::Rotor;
use super::rotor_columns::{InputGradient, RotorSums};
use crate::Shape;
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::branch;
use linwright_tensor::kernels::gemm::Write;
use linwright_tensor::{Scalar, Scratch};

/// Epsilon of LayerNorm, as in PyTorch.
const EPSILON: f64 = 1e-5;

/// A rotor and the permutation after it.
#[derive(Clone, Debug)]
pub(super) struct Branch<T> {
    pub(super) rotor: Rotor<T>,
    pub(super) order: Option<Vec<u32>>,
}

/// Weighted parallel branches.
#[derive(Clone, Debug)]
pub(super) struct RotorLayer<T> {
    shape: Shape,
    pub(super) branches: Vec<Branch<T>>,
    /// Weight of each branch; a plain layer has one branch and no weight.
    pub(super) alphas: Option<Vec<T>>,
    normalize: bool,
    activated: bool,
    /// Whether the input is added to the output.
    pub(super) residual: bool,
}

/// Sums over rows for the gradients of a layer's parameters.
pub(super) struct LayerSums<T> {
    pub(super) rotors: Vec<RotorSums<T>>,
    /// Gradients of the weights of branches.
    pub(super) alphas: Vec<f64>,
    /// Gradient of the slope of PReLU.
    pub(super) slope: f64,
}

impl<T: Scalar> LayerSums<T> {
    /// Adds the sums of other rows.
    pub(super) fn add(&mut self, other: &Self) {
        self.rotors.iter_mut().zip(&other.rotors).for_each(|(here, other)| here.add(other));
        self.alphas.iter_mut().zip(&other.alphas).for_each(|(here, other)| *here += other);
        self.slope += other.slope;
    }
}

impl<T: Scalar> RotorLayer<T> {
    pub(super) fn empty(shape: Shape, normalize: bool, activated: bool) -> Self {
        let (branches, alphas, residual) = (Vec::new(), None, false);
        Self { shape, branches, alphas, normalize, activated, residual }
    }

    pub(super) fn push(&mut self, rotor: Rotor<T>, order: Option<Vec<u32>>) {
        self.branches.push(Branch { rotor, order });
    }

    /// Those of the rotors, whose input is converted to sheets once, and for each feature of a
    /// branch one for the weighted sum and five for the normalisation: one for the mean, two for
    /// the variance, two to apply them.
    pub(super) fn macs_per_row(&self) -> u64 {
        let around = 1 + 5 * u64::from(self.normalize);
        let branch = |b: &Branch<T>| b.rotor.macs_of_sheets() + around * self.shape.out as u64;
        let inputs = self.branches.first().map_or(0, |branch| branch.rotor.macs_of_inputs());
        inputs + self.branches.iter().map(branch).sum::<u64>()
    }

    /// Numbers per row saved by [`Self::forward`].
    pub(super) fn saved(&self) -> usize {
        self.branches[0].rotor.numbers_of_inputs() + self.branches.len() * (self.shape.out + 2)
    }

    fn around(&self, branch: usize, activation: Activation<T>) -> branch::Branch<'_, T> {
        branch::Branch {
            order: self.branches[branch].order.as_deref(),
            epsilon: self.normalize.then_some(EPSILON),
            activation: if self.activated { activation } else { Activation::Identity },
            weight: self.alphas.as_ref().map_or(T::ONE, |alphas| alphas[branch]),
        }
    }

    /// The output columns (out, width) for `x` (inp, width). Saves the sheets of the input and, for
    /// each branch, the input of the permutation, with mean and scale of its normalisation.
    pub(super) fn forward(
        &self,
        activation: Activation<T>,
        x: &[T],
        width: usize,
        mut saved: Option<&mut [T]>,
    ) -> Scratch<T> {
        let len = self.shape.out * width;
        let (mut y, mut here) = (Scratch::new(len), Scratch::new(len));
        let mut moments = Scratch::new(2 * width);
        let inputs = self.branches[0].rotor.inputs(x, width);
        let mut save = |numbers: &[T]| {
            if let Some(here) = saved.take() {
                let (here, rest) = here.split_at_mut(numbers.len());
                here.copy_from_slice(numbers);
                saved = Some(rest);
            }
        };
        save(&inputs);
        let mut write = Write::Set;
        if self.residual {
            y.copy_from_slice(x);
            write = Write::Add;
        }
        for (k, branch) in self.branches.iter().enumerate() {
            branch.rotor.apply(&inputs, width, &mut here);
            self.around(k, activation).forward(&here, &mut moments, &mut y, write);
            save(&here);
            save(&moments);
            write = Write::Add;
        }
        y
    }

    /// Zero sums.
    pub(super) fn sums(&self) -> LayerSums<T> {
        let rotors = self.branches.iter().map(|branch| branch.rotor.sums()).collect();
        LayerSums { rotors, alphas: vec![0.0; self.branches.len()], slope: 0.0 }
    }

    /// From the gradient `dy` (out, width) and the saved results of [`Self::forward`], adds to the
    /// sums and returns the gradient of the input (inp, width).
    pub(super) fn backward(
        &self,
        activation: Activation<T>,
        saved: &[T],
        dy: &[T],
        width: usize,
        sums: &mut LayerSums<T>,
    ) -> Scratch<T> {
        let (inputs, saved) = saved.split_at(self.branches[0].rotor.numbers_of_inputs() * width);
        let mut d_inputs = Scratch::new(inputs.len());
        let mut d_here = Scratch::new(self.shape.out * width);
        let mut write = Write::Set;
        let of_branches = saved.chunks_exact((self.shape.out + 2) * width);
        for (k, (branch, saved)) in self.branches.iter().zip(of_branches).enumerate() {
            let (here, moments) = saved.split_at(self.shape.out * width);
            let parts = self.around(k, activation).backward(here, moments, dy, &mut d_here);
            sums.alphas[k] += parts.weight;
            sums.slope += if self.activated { parts.slope } else { 0.0 };
            let target = Some(InputGradient { sheets: &mut d_inputs[..], write });
            branch.rotor.pull_back(inputs, &mut d_here, width, target, &mut sums.rotors[k]);
            write = Write::Add;
        }
        let mut dx = Scratch::new(self.shape.inp * width);
        self.branches[0].rotor.recover_inputs(&mut d_inputs, width, &mut dx);
        if self.residual {
            dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
        }
        dx
    }
}
