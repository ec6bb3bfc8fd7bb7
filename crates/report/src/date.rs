//! Dates without a clock: the caller gives the seconds.

use time::{OffsetDateTime, PrimitiveDateTime};

/// `2026-11-21T07:09:00Z` for seconds since 1970 in UTC; the proleptic Gregorian calendar, from
/// 1970 to the end of the year 9999.
#[must_use]
pub fn iso_date(unix_seconds: f64) -> String {
    let end = PrimitiveDateTime::MAX.assume_utc();
    let at = OffsetDateTime::from_unix_timestamp(unix_seconds.max(0.0) as i64).unwrap_or(end);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", u8::from(month))
}

#[cfg(test)]
mod tests {
    use super::iso_date;

    #[test]
    fn known_dates() {
        assert_eq!(iso_date(0.0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_date(951_782_400.0), "2000-02-29T00:00:00Z");
        assert_eq!(iso_date(1_735_689_599.9), "2024-12-31T23:59:59Z");
        assert_eq!(iso_date(1_795_245_883.0), "2026-11-21T07:24:43Z");
        for (wrong, want) in [
            (-1.0, "1970-01-01T00:00:00Z"),
            (f64::NAN, "1970-01-01T00:00:00Z"),
            (f64::INFINITY, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso_date(wrong), want);
        }
    }
}
