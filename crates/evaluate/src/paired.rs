//! Paired differences between two models, as text.

use crate::Comparison;
use linwright_report::number::metric_places;

/// Decimal places, unless smaller numbers need more.
const PLACES: usize = 4;
/// Largest number of decimal places: anything below is rounding error.
const MAX_PLACES: usize = 12;

impl Comparison {
    /// The difference and its 95 % interval as text, with enough digits that a non-zero difference
    /// is not shown as zero.
    #[must_use]
    pub fn difference_and_interval(&self) -> [String; 2] {
        if self.is_same() {
            return ["0".to_owned(), "no item differs".to_owned()];
        }
        let Self { difference, interval: [low, high], .. } = *self;
        match places([difference, low, high]) {
            Some(places) => {
                [format!("{difference:+.places$}"), format!("{low:+.places$} to {high:+.places$}")]
            }
            None => [format!("{difference:+.2e}"), format!("{low:+.2e} to {high:+.2e}")],
        }
    }

    /// Both in one table cell.
    #[must_use]
    pub fn in_one_cell(&self) -> String {
        let [difference, interval] = self.difference_and_interval();
        format!("{difference} ({interval})")
    }
}

/// Decimal places that show two significant digits of the largest number, or more of them; none if
/// it is so large that they are insignificant.
fn places(numbers: [f64; 3]) -> Option<usize> {
    let largest = numbers.into_iter().map(f64::abs).fold(0.0, f64::max);
    if largest == 0.0 || !largest.is_finite() {
        return Some(PLACES);
    }
    let behind = 1.0 - largest.log10().floor();
    // Between two non-negative bounds.
    let small = (behind.max(0.0) as usize).clamp(PLACES, MAX_PLACES);
    if small > PLACES { Some(small) } else { metric_places(largest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(difference: f64, low: f64, high: f64) -> Comparison {
        Comparison {
            task: "t".into(),
            metric: "acc".into(),
            filter: "none".into(),
            items: 10,
            difference,
            interval: [low, high],
            only_one: None,
            mcnemar_p: None,
        }
    }

    #[test]
    fn small_differences_are_not_shown_as_zeros() {
        let shown = |difference, low, high| comparison(difference, low, high).in_one_cell();
        assert_eq!(shown(0.0123, -0.01, 0.0346), "+0.0123 (-0.0100 to +0.0346)");
        assert_eq!(shown(1.2e-6, -3.1e-6, 5.5e-6), "+0.0000012 (-0.0000031 to +0.0000055)");
        assert_eq!(shown(0.0, 0.0, 0.0), "0 (no item differs)");
        assert_eq!(shown(12_345.678_9, -1.0, 54_321.0), "+12345.68 (-1.00 to +54321.00)");
        assert_eq!(shown(3_568_436_928.025_4, -1e9, 8e9), "+3.57e9 (-1.00e9 to +8.00e9)");
        assert_eq!(shown(0.0, -2e-5, 2e-5), "+0.000000 (-0.000020 to +0.000020)");
    }
}
