//! Points in the plane, drawn from densities with known shapes.
//!
//! Sources: moons and circles as in scikit-learn's `make_moons` and `make_circles`, with noise of
//! 0.1 and 0.05; the checkerboard as in FFJORD (Grathwohl et al. 2019). The order of random numbers
//! differs.

use linwright_tensor::{Mat, RngKey, RngStream};
use serde::{Deserialize, Serialize};
use std::f64::consts::{LN_2, PI, TAU};

/// A density in the plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Toy {
    /// Two half circles that face each other.
    Moons,
    /// Eight squares of side 2, alternating with empty ones, in a square of side 8.
    Checkerboard,
    /// Two circles with one centre.
    Circles,
}

/// Deviation of points from the moons.
const MOONS: f64 = 0.1;
/// Deviation of points from the circles.
const CIRCLES: f64 = 0.05;
/// Radius of the inner circle; the outer one has radius 1.
const INNER: f64 = 0.5;

impl Toy {
    /// All densities.
    pub const ALL: [Self; 3] = [Self::Moons, Self::Checkerboard, Self::Circles];

    /// Its name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Moons => "moons",
            Self::Checkerboard => "checkerboard",
            Self::Circles => "circles",
        }
    }

    /// The density of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|toy| toy.name() == name)
    }

    /// Points (count, 2) for a key.
    #[must_use]
    pub fn points(self, count: usize, key: RngKey) -> Mat<f32> {
        let mut stream = key.fold(self.name()).stream();
        let points = (0..count).flat_map(|_| self.point(&mut stream));
        Mat::from_vec(count, 2, points.map(|number| number as f32).collect())
    }

    fn point(self, stream: &mut RngStream) -> [f64; 2] {
        match self {
            Self::Moons => {
                let (sin, cos) = (PI * stream.uniform()).sin_cos();
                let [x, y] = match stream.below(2) {
                    0 => [cos, sin],
                    _ => [1.0 - cos, 0.5 - sin],
                };
                [x + MOONS * stream.normal(), y + MOONS * stream.normal()]
            }
            Self::Checkerboard => {
                let x = 4.0 * stream.uniform() - 2.0;
                let row = 2.0 * stream.below(2) as f64 - 2.0;
                let y = stream.uniform() + row + x.floor().rem_euclid(2.0);
                [2.0 * x, 2.0 * y]
            }
            Self::Circles => {
                let (sin, cos) = (TAU * stream.uniform()).sin_cos();
                let radius = if stream.below(2) == 0 { 1.0 } else { INNER };
                let mut near = |at: f64| radius * at + CIRCLES * stream.normal();
                [near(cos), near(sin)]
            }
        }
    }

    /// Entropy in bits per dimension, if it has a closed form: a lower bound for any model.
    #[must_use]
    pub fn entropy(self) -> Option<f64> {
        match self {
            // Uniform on half of a square of side 8.
            Self::Checkerboard => Some(32.0_f64.ln() / (2.0 * LN_2)),
            Self::Moons | Self::Circles => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(toy: Toy) -> Vec<[f64; 2]> {
        let points = toy.points(4000, RngKey::new(3));
        (0..4000).map(|i| [points.at(i, 0), points.at(i, 1)].map(f64::from)).collect()
    }

    #[test]
    fn points_lie_where_the_shapes_are() {
        for [x, y] in points(Toy::Checkerboard) {
            assert!(x.abs() <= 4.0 && y.abs() <= 4.0, "{x}, {y}");
            let squares = (x / 2.0).floor() + (y / 2.0).floor();
            assert_eq!(squares.rem_euclid(2.0), 0.0, "{x}, {y} is on an empty square");
        }
        for [x, y] in points(Toy::Circles) {
            let radius = x.hypot(y);
            assert!((radius - 1.0).abs().min((radius - INNER).abs()) < 0.3, "{x}, {y}");
        }
        for [x, y] in points(Toy::Moons) {
            let (upper, lower) = (x.hypot(y) - 1.0, (1.0 - x).hypot(0.5 - y) - 1.0);
            assert!(upper.abs().min(lower.abs()) < 0.5, "{x}, {y}");
        }
    }

    #[test]
    fn both_parts_are_equally_likely_and_keys_decide() {
        let inner = points(Toy::Circles).iter().filter(|[x, y]| x.hypot(*y) < 0.75).count();
        assert!((1800..2200).contains(&inner), "{inner} of 4000 on the inner circle");
        for toy in Toy::ALL {
            assert_eq!(toy.points(5, RngKey::new(1)), toy.points(5, RngKey::new(1)));
            assert_ne!(toy.points(5, RngKey::new(1)), toy.points(5, RngKey::new(2)));
            assert_eq!(Toy::named(toy.name()), Some(toy));
        }
    }

    #[test]
    fn the_entropy_of_the_checkerboard_is_that_of_its_area() {
        assert_eq!(Toy::Checkerboard.entropy(), Some(2.5));
    }
}
