//! Dates without a clock: the caller gives the seconds.

/// `2026-11-21T07:09:00Z` for seconds since 1970 in UTC; the proleptic Gregorian calendar.
#[must_use]
pub fn iso_date(unix_seconds: f64) -> String {
    let total = unix_seconds.max(0.0) as u64;
    let (days, second) = (total / 86_400, total % 86_400);
    let (mut year, mut day) = (1970, days);
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let february = if days_of(year) == 366 { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{:02}Z", day + 1, second % 60)
}

fn days_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
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
    }
}
