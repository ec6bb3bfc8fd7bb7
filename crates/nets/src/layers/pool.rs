//! Pooling.

use crate::step::{Back, Kept, Pass, Step};
use linwright_tensor::kernels::patches::Patches;
use linwright_tensor::kernels::pooling::{
    max_pool, max_pool_backward, mean_pool, mean_pool_backward,
};
use linwright_tensor::{Mat, Scalar};

/// The maximum or the mean of each channel in windows.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) windows: Patches,
    pub(crate) max: bool,
}

impl Pool {
    fn counts(&self) -> (usize, usize) {
        let (down, across) = self.windows.windows();
        (self.windows.height * self.windows.width, down * across)
    }
}

impl<T: Scalar> Step<T> for Pool {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn forward(&self, x: Mat<T>, _pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let (places, windows) = self.counts();
        let mut y = Mat::zeros(x.rows() / places * windows, x.cols());
        let mut kept = Kept::default();
        match self.max {
            true => kept.picks = max_pool(&self.windows, x.view(), y.view_mut()),
            false => mean_pool(&self.windows, x.view(), y.view_mut()),
        }
        (y, kept)
    }

    fn backward(&self, dy: Mat<T>, kept: &Kept<T>, _back: &mut Back<'_, T>) -> Mat<T> {
        let (places, windows) = self.counts();
        let mut dx = Mat::zeros(dy.rows() / windows * places, dy.cols());
        match self.max {
            true => max_pool_backward(&kept.picks, dy.view(), dx.view_mut()),
            false => mean_pool_backward(&self.windows, dy.view(), dx.view_mut()),
        }
        dx
    }
}
