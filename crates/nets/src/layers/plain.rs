//! Steps without tensors: nonlinearities, flattening, residual branches, dropout.

use crate::step::{Back, Kept, Pass, Step};
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::{Mat, Scalar};

/// A nonlinearity of each number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nonlinearity<T> {
    /// One of the kernels.
    Kernel(Activation<T>),
    /// Hyperbolic tangent.
    Tanh,
}

/// Applies a nonlinearity.
#[derive(Clone, Debug)]
pub(crate) struct Activate<T>(pub(crate) Nonlinearity<T>);

impl<T: Scalar> Step<T> for Activate<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let mats = if pass.keep { vec![x.clone()] } else { Vec::new() };
        for x in x.data_mut() {
            *x = match self.0 {
                Nonlinearity::Kernel(kernel) => kernel.value(*x),
                Nonlinearity::Tanh => T::from_f64(x.to_f64().tanh()),
            };
        }
        (x, Kept { mats, ..Kept::default() })
    }

    fn backward(&self, mut dy: Mat<T>, kept: &Kept<T>, _back: &mut Back<'_, T>) -> Mat<T> {
        for (dy, x) in dy.data_mut().iter_mut().zip(kept.mats[0].data()) {
            *dy *= match self.0 {
                Nonlinearity::Kernel(kernel) => kernel.slope(*x),
                Nonlinearity::Tanh => T::from_f64(1.0 - x.to_f64().tanh().powi(2)),
            };
        }
        dy
    }
}

/// The places of an example become channels: channel, row, column.
#[derive(Clone, Debug)]
pub(crate) struct Flatten {
    pub(crate) places: usize,
}

impl<T: Scalar> Step<T> for Flatten {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn forward(&self, x: Mat<T>, _pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let (places, channels) = (self.places, x.cols());
        let at = |i: usize, j: usize| x.at(i * places + j % places, j / places);
        (Mat::from_fn(x.rows() / places, places * channels, at), Kept::default())
    }

    fn backward(&self, dy: Mat<T>, _kept: &Kept<T>, _back: &mut Back<'_, T>) -> Mat<T> {
        let places = self.places;
        let at = |i: usize, j: usize| dy.at(i / places, j * places + i % places);
        Mat::from_fn(dy.rows() * places, dy.cols() / places, at)
    }
}

fn add<T: Scalar>(to: &mut Mat<T>, from: &Mat<T>) {
    to.data_mut().iter_mut().zip(from.data()).for_each(|(to, from)| *to += *from);
}

/// The start of a residual branch.
#[derive(Clone, Debug)]
pub(crate) struct Branch;

impl<T: Scalar> Step<T> for Branch {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(Self)
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        pass.stack.push(x.clone());
        (x, Kept::default())
    }

    fn backward(&self, mut dy: Mat<T>, _kept: &Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        if let Some(beside) = back.stack.pop() {
            add(&mut dy, &beside);
        }
        dy
    }
}

/// The end of a residual branch, where its input is added.
#[derive(Clone, Debug)]
pub(crate) struct Join;

impl<T: Scalar> Step<T> for Join {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(Self)
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let beside = pass.stack.pop();
        let beside = beside.unwrap_or_else(|| panic!("the state is not of this stage"));
        add(&mut x, &beside);
        (x, Kept::default())
    }

    fn backward(&self, dy: Mat<T>, _kept: &Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        back.stack.push(dy.clone());
        dy
    }
}

/// Zeros for a random share of the numbers, in training.
#[derive(Clone, Debug)]
pub(crate) struct Dropout {
    pub(crate) share: f64,
}

impl<T: Scalar> Step<T> for Dropout {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let Some(key) = pass.training else {
            return (x, Kept::default());
        };
        let (mut stream, scale) = (key.stream(), T::from_f64(1.0 / (1.0 - self.share)));
        let draw = |_, _| if stream.uniform() < self.share { T::ZERO } else { scale };
        let mask = Mat::from_fn(x.rows(), x.cols(), draw);
        x.data_mut().iter_mut().zip(mask.data()).for_each(|(x, mask)| *x *= *mask);
        (x, Kept { mats: vec![mask], ..Kept::default() })
    }

    fn backward(&self, mut dy: Mat<T>, kept: &Kept<T>, _back: &mut Back<'_, T>) -> Mat<T> {
        if let Some(mask) = kept.mats.first() {
            dy.data_mut().iter_mut().zip(mask.data()).for_each(|(dy, mask)| *dy *= *mask);
        }
        dy
    }
}
