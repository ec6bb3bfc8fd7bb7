//! Convolutions with dense weights whose patches no probe needs: columns of patches may then be in
//! any order, and with fewer output than input channels, patches are not formed at all.

use crate::step::{Back, Pass, dense_weight};
use linwright_ops::{LinearSlot, Workspace};
use linwright_tensor::kernels::batch_norm::column_sums;
use linwright_tensor::kernels::gemm::{Arg, Write, linear, product};
use linwright_tensor::kernels::patches::Patches;
use linwright_tensor::{Mat, MatRef, Scalar};

/// A convolution with a dense weight (out, channels * area).
pub(super) struct DenseConv<'a, T> {
    patches: Patches,
    weight: MatRef<'a, T>,
    bias: Option<&'a [T]>,
    /// Windows of the transposed map, if positions are scattered: every position is multiplied by
    /// the weights of all windows that contain it, and the results are added up. Otherwise patches
    /// are gathered, position by position.
    spread: Option<Patches>,
}

impl<'a, T: Scalar> DenseConv<'a, T> {
    /// None for other operators, and if the input is the matrix of patches.
    pub(super) fn of(slot: &'a LinearSlot<T>, patches: Patches) -> Option<Self> {
        let weight = dense_weight(slot).filter(|_| patches.size > 1)?;
        let channels = weight.cols() / (patches.size * patches.size);
        let spread = patches.transposed().filter(|_| weight.rows() < channels);
        Some(Self { patches, weight, bias: slot.bias(), spread })
    }

    /// Calls `visit(at, row, column)` for every number of the weight: its position in the reordered
    /// weight, and its row and column in the weight.
    fn each_number(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (out, area) = (self.weight.rows(), self.patches.size * self.patches.size);
        let channels = self.weight.cols() / area;
        for row in 0..out {
            for (channel, offset) in (0..channels).flat_map(|c| (0..area).map(move |o| (c, o))) {
                let at = match self.spread {
                    Some(_) => ((area - 1 - offset) * out + row) * channels + channel,
                    None => (row * area + offset) * channels + channel,
                };
                visit(at, row, channel * area + offset);
            }
        }
    }

    /// The weight in the order of the products: (out, area * channels), or (area * out, channels)
    /// if positions are scattered.
    fn ordered(&self, ws: &mut Workspace<T>) -> Mat<T> {
        let (out, area) = (self.weight.rows(), self.patches.size * self.patches.size);
        let mut ordered = match self.spread {
            Some(_) => ws.take(area * out, self.weight.cols() / area),
            None => ws.take(out, self.weight.cols()),
        };
        let to = ordered.data_mut();
        self.each_number(|at, row, column| to[at] = self.weight.at(row, column));
        ordered
    }

    /// The output, and the data for the backward pass: the input, or its patches.
    pub(super) fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Mat<T>) {
        let (down, across) = self.patches.windows();
        let windows = x.rows() / (self.patches.height * self.patches.width) * down * across;
        let mut y = pass.ws.take(windows, self.weight.rows());
        let ordered = self.ordered(pass.ws);
        let input = if let Some(transposed) = self.spread {
            let mut spread = pass.ws.take(x.rows(), ordered.rows());
            linear(x.view(), ordered.view(), spread.view_mut(), Write::Set);
            transposed.scatter_places(spread.view(), y.view_mut());
            pass.ws.give(spread);
            x
        } else {
            let mut patches = pass.ws.take(windows, self.weight.cols());
            self.patches.gather_places(x.view(), patches.view_mut());
            pass.ws.give(x);
            linear(patches.view(), ordered.view(), y.view_mut(), Write::Set);
            patches
        };
        pass.ws.give(ordered);
        if let Some(bias) = self.bias {
            for i in 0..y.rows() {
                y.row_mut(i).iter_mut().zip(bias).for_each(|(y, b)| *y += *b);
            }
        }
        (y, input)
    }

    /// The gradient of the input, empty unless needed; writes those of weight and bias.
    pub(super) fn backward(&self, dy: Mat<T>, input: Mat<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let needs_dx = back.needs_dx;
        let sums = self.bias.map(|_| column_sums(dy.view()));
        let left = if let Some(transposed) = self.spread {
            let area = self.patches.size * self.patches.size;
            let mut spread = back.ws.take(input.rows(), area * dy.cols());
            transposed.gather_places(dy.view(), spread.view_mut());
            back.ws.give(dy);
            spread
        } else {
            dy
        };
        if back.numbers(0).is_some() {
            let mut of_ordered = back.ws.take(left.cols(), input.cols());
            let (left, input) = (Arg::Transposed(left.view()), Arg::Plain(input.view()));
            product(T::ONE, left, input, of_ordered.view_mut(), Write::Set);
            let numbers = back.numbers(0).into_iter().flatten().collect::<Vec<_>>();
            self.write(&of_ordered, sums, numbers);
            back.ws.give(of_ordered);
        }
        let mut dx = Mat::default();
        if needs_dx {
            let ordered = self.ordered(back.ws);
            let mut of_input = back.ws.take(input.rows(), input.cols());
            let (by, weight) = (Arg::Plain(left.view()), Arg::Plain(ordered.view()));
            product(T::ONE, by, weight, of_input.view_mut(), Write::Set);
            back.ws.give(ordered);
            dx = match self.spread {
                Some(_) => of_input,
                None => {
                    let (down, across) = self.patches.windows();
                    let places = self.patches.height * self.patches.width;
                    let rows = input.rows() / (down * across) * places;
                    let area = self.patches.size * self.patches.size;
                    let mut dx = back.ws.take(rows, self.weight.cols() / area);
                    self.patches.scatter_places(of_input.view(), dx.view_mut());
                    back.ws.give(of_input);
                    dx
                }
            };
        }
        back.ws.give(left);
        back.ws.give(input);
        dx
    }

    /// Writes the gradients of weight and bias.
    fn write(&self, of_ordered: &Mat<T>, sums: Option<Vec<f64>>, numbers: Vec<&mut Vec<T>>) {
        let mut numbers = numbers.into_iter();
        if let Some(weight) = numbers.next() {
            let (from, columns) = (of_ordered.data(), self.weight.cols());
            self.each_number(|at, row, column| weight[row * columns + column] = from[at]);
        }
        if let Some((bias, sums)) = numbers.next().zip(sums) {
            bias.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::from_f64(sum));
        }
    }
}
