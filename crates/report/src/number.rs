//! Formatting of numbers.

use crate::Spread;

/// Format of mean and deviation.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// Number of significant digits of the mean.
    Significant(i32),
    /// Number of decimal places.
    Fixed(usize),
    /// Percentage with one decimal place.
    Percent,
}

/// `3.548 ± 0.012`, or the mean alone for a single run, with the same number of decimal places.
#[must_use]
pub fn spread(value: Spread, style: Style) -> String {
    let (factor, decimals, unit) = match style {
        Style::Significant(digits) => (1.0, decimals(value.mean, digits), ""),
        Style::Fixed(decimals) => (1.0, decimals, ""),
        Style::Percent => (100.0, 1, " %"),
    };
    let mean = fixed(value.mean * factor, decimals);
    match value.deviation {
        Some(deviation) => format!("{mean} ± {}{unit}", fixed(deviation * factor, decimals)),
        None => format!("{mean}{unit}"),
    }
}

/// A number of significant digits, without decimal places if the value is large.
#[must_use]
pub fn significant(value: f64, digits: i32) -> String {
    fixed(value, decimals(value, digits))
}

/// Decimal places of a metric.
const PLACES: usize = 4;
/// Significant digits of a metric, at most.
const DIGITS: i32 = 7;

/// `0.1234`, `25.6834`, `12345.68`, `3.568e9`: four decimal places, but no more digits than are
/// significant.
#[must_use]
pub fn metric(value: f64) -> String {
    match metric_places(value) {
        Some(places) => format!("{value:.places$}"),
        None => format!("{value:.3e}"),
    }
}

/// The same with its sign: `+0.0123`.
#[must_use]
pub fn signed(value: f64) -> String {
    match metric_places(value) {
        Some(places) => format!("{value:+.places$}"),
        None => format!("{value:+.3e}"),
    }
}

/// Decimal places of [`metric`]; none for numbers that are written with a power of ten.
#[must_use]
pub fn metric_places(value: f64) -> Option<usize> {
    if !value.is_finite() {
        return Some(PLACES);
    }
    let before = value.abs().max(1.0).log10().floor() as i32 + 1;
    let places = usize::try_from(DIGITS - before).ok()?;
    Some(places.min(PLACES))
}

/// `16,384`.
#[must_use]
pub fn count(value: f64) -> String {
    fixed(value, 0)
}

/// A count with thousands separators: `2,097,152`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `4.4 %`, with more digits below one per cent.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value != 0.0 && value.abs() < 1.0 {
        format!("{} %", significant(value, 2))
    } else {
        format!("{} %", fixed(value, 1))
    }
}

/// `0.0123`, or `1.2e-5` if that is shorter.
#[must_use]
pub fn scientific(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e4).contains(&value.abs()) {
        format!("{value:.1e}")
    } else {
        significant(value, 3)
    }
}

/// `0.8 s`, `12 s`, `3 min 05 s`, `2 h 10 min`.
#[must_use]
pub fn seconds(value: f64) -> String {
    if value < 9.95 {
        return format!("{value:.1} s");
    }
    let whole = value.round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// `850`, `16k`, `1.5M` for axes.
#[must_use]
pub(crate) fn compact(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        v if v >= 1e-3 || v == 0.0 => (value, ""),
        _ => return format!("{value:.0e}"),
    };
    let text = format!("{scaled:.4}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `512 B`, `4.9 MB`, `140.2 GB`, in powers of ten.
#[must_use]
pub fn bytes(count: u64) -> String {
    let (unit, name) = match count {
        0..1_000 => return format!("{count} B"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{} {name}", fixed(count as f64 / unit, 1))
}

/// Decimal places for a number of significant digits.
fn decimals(value: f64, digits: i32) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let before = value.abs().log10().floor() as i32 + 1;
    usize::try_from(digits - before).unwrap_or(0)
}

/// A number of decimal places, with commas between thousands.
fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::with_capacity(text.len() + text.len() / 3);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{grouped}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(count(900.0), "900");
        assert_eq!(significant(3.54839, 4), "3.548");
        assert_eq!(significant(12345.6, 4), "12,346");
        assert_eq!(significant(f64::INFINITY, 4), "inf");
        assert_eq!(significant(-0.01234, 2), "−0.012");
        for (value, shown) in [
            (0.000_01, "0.0000"),
            (-0.5, "-0.5000"),
            (25.683_4, "25.6834"),
            (999.123_41, "999.1234"),
            (12_345.678, "12345.68"),
            (9_999_999.0, "9999999"),
            (3_568_436_928.025_4, "3.568e9"),
            (-1e300, "-1.000e300"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(metric(value), shown);
        }
        assert_eq!((signed(0.01234).as_str(), signed(-2e9).as_str()), ("+0.0123", "-2.000e9"));
        assert_eq!(percent(0.0044), "0.44 %");
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.25), "25.0 %");
        assert_eq!(scientific(0.000_012), "1.2e-5");
        assert_eq!(scientific(0.0123), "0.0123");
        assert_eq!(seconds(0.84), "0.8 s");
        assert_eq!(seconds(185.0), "3 min 05 s");
        assert_eq!(seconds(7_800.0), "2 h 10 min");
        assert_eq!(compact(16_384.0), "16.384k");
        assert_eq!(compact(2e6), "2M");
        assert_eq!(compact(0.05), "0.05");
        let run = Spread { mean: 3.5484, deviation: Some(0.0123) };
        assert_eq!(spread(run, Style::Significant(4)), "3.548 ± 0.012");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(4_935_000), "4.9 MB");
        assert_eq!(bytes(1_402_000_000_000), "1,402.0 GB");
        let share = Spread { mean: 0.5, deviation: None };
        assert_eq!(spread(share, Style::Percent), "50.0 %");
    }
}
