//! Layer norms of numbers with tangents.

use super::linear::{Gradients, gradient_of, last};
use super::number::{Number, Rows};
use super::weights::Norm;

/// Data kept by a layer norm: normalised rows and their inverse deviations.
pub(crate) struct Normed<N: Number> {
    rows: Rows<N>,
    inverse: Vec<N>,
}

const EPSILON: f64 = 1e-5;

/// Layer norm of rows.
pub(crate) fn norm<N: Number>(norm: &Norm<N::Real>, x: &Rows<N>) -> (Rows<N>, Normed<N>) {
    let width = x.cols();
    let over = N::real(1.0 / width as f64);
    let mut normed = Normed { rows: Rows::unset(x.rows(), width), inverse: Vec::new() };
    let mut y = Rows::unset(x.rows(), width);
    for i in 0..x.rows() {
        let mut mean = N::ZERO;
        x.row(i).numbers::<N>().for_each(|x| mean += x);
        mean = mean * over;
        let mut variance = N::ZERO;
        for x in x.row(i).numbers::<N>() {
            let off = x - mean;
            variance += off * off;
        }
        let inverse = (variance * over + N::real(EPSILON)).root().inverse();
        normed.rows.row_mut(i).write(x.row(i).numbers::<N>().map(|x| (x - mean) * inverse));
        let hats = normed.rows.row(i);
        let affine = norm.scale.iter().zip(&norm.shift);
        let all = hats.numbers::<N>().zip(affine);
        y.row_mut(i).write(all.map(|(hat, (scale, shift))| hat * N::of(*scale) + N::of(*shift)));
        normed.inverse.push(inverse);
    }
    (y, normed)
}

/// Gradient of the input of a layer norm, and those of its parameters if wanted.
pub(crate) fn norm_backward<N: Number>(
    norm: &Norm<N::Real>,
    kept: &Normed<N>,
    dy: &Rows<N>,
    into: Option<&mut Gradients<N::Real>>,
) -> Rows<N> {
    let width = dy.cols();
    let over = N::real(1.0 / width as f64);
    let mut dx = Rows::unset(dy.rows(), width);
    for i in 0..dy.rows() {
        let (hats, dy) = (kept.rows.row(i), dy.row(i));
        let scaled = || dy.numbers::<N>().zip(&norm.scale).map(|(dy, scale)| dy * N::of(*scale));
        let (mut mean, mut along) = (N::ZERO, N::ZERO);
        for (g, hat) in scaled().zip(hats.numbers::<N>()) {
            mean += g;
            along += g * hat;
        }
        (mean, along) = (mean * over, along * over);
        let inverse = kept.inverse[i];
        let all = scaled().zip(hats.numbers::<N>());
        dx.row_mut(i).write(all.map(|(g, hat)| (g - mean - hat * along) * inverse));
    }
    if let Some(into) = into {
        let scale = gradient_of(into, &format!("{}.weight", norm.name), width);
        for i in 0..dy.rows() {
            let (hats, dy) = (kept.rows.row(i), dy.row(i));
            let all = dy.numbers::<N>().zip(hats.numbers::<N>());
            scale.iter_mut().zip(all).for_each(|(scale, (dy, hat))| *scale += last(dy * hat));
        }
        let shift = gradient_of(into, &format!("{}.bias", norm.name), width);
        for i in 0..dy.rows() {
            let dy = dy.row(i);
            shift.iter_mut().zip(dy.numbers::<N>()).for_each(|(shift, dy)| *shift += last(dy));
        }
    }
    dx
}
