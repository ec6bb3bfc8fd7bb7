//! Dates and their formats in templates.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};
use time::{Month, OffsetDateTime};

/// A date of the Gregorian calendar, at midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(time::Date);

impl Date {
    /// A date, or `None` if it does not exist between the years 1 and 9999.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let month = Month::try_from(month).ok()?;
        let date = time::Date::from_calendar_date(year.into(), month, day).ok()?;
        (1..=9999).contains(&year).then_some(Self(date))
    }

    /// Today in UTC; the first day of 1970 on a machine whose clock stands elsewhere than between
    /// then and the year 9999.
    #[must_use]
    pub fn today() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
        let now = OffsetDateTime::from_unix_timestamp(seconds);
        Self(now.unwrap_or(OffsetDateTime::UNIX_EPOCH).date())
    }

    /// `strftime` of Python in the C locale. A code that it does not know is kept as it is.
    pub(super) fn format(self, format: &str) -> String {
        let mut out = String::new();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let code = &rest[at + 1..];
            let letter_at = code.find(|c| !"-_0^#".contains(c)).unwrap_or(code.len());
            let (flags, code) = code.split_at(letter_at);
            let Some(letter) = code.chars().next() else {
                out.push_str(&rest[at..]);
                return out;
            };
            rest = &code[letter.len_utf8()..];
            match self.code(letter) {
                Some(Part::Number(number, width, pad)) => {
                    let pad = match flags.chars().next_back() {
                        Some('0') => '0',
                        Some('_') => ' ',
                        _ => pad,
                    };
                    match pad {
                        _ if flags.contains('-') => out.push_str(&number.to_string()),
                        '0' => out.push_str(&format!("{number:0width$}")),
                        _ => out.push_str(&format!("{number:width$}")),
                    }
                }
                Some(Part::Text(text)) if flags.contains('^') => out.push_str(&text.to_uppercase()),
                Some(Part::Text(text)) => out.push_str(&text),
                None => out.extend(["%", flags, letter.encode_utf8(&mut [0; 4])]),
            }
        }
        out.push_str(rest);
        out
    }

    /// What a code of `strftime` stands for.
    fn code(self, letter: char) -> Option<Part> {
        let (year, month, day) = self.0.to_calendar_date();
        let weekday = self.0.weekday();
        let (iso_year, iso_week, _) = self.0.to_iso_week_date();
        let text = |text: &str| Some(Part::Text(text.to_owned()));
        let several = |format: &str| Some(Part::Text(self.format(format)));
        let number = |value: u32, width| Some(Part::Number(value, width, '0'));
        let spaced = |value: u32| Some(Part::Number(value, 2, ' '));
        let (full_month, full_day) = (month.to_string(), weekday.to_string());
        let (month, day) = (u32::from(u8::from(month)), u32::from(day));
        match letter {
            'd' => number(day, 2),
            'e' => spaced(day),
            'm' => number(month, 2),
            'Y' => number(year.unsigned_abs(), 1),
            'C' => number(year.unsigned_abs() / 100, 2),
            'y' => number(year.unsigned_abs() % 100, 2),
            'G' => number(iso_year.unsigned_abs(), 1),
            'g' => number(iso_year.unsigned_abs() % 100, 2),
            'j' => number(self.0.ordinal().into(), 3),
            'U' => number(self.0.sunday_based_week().into(), 2),
            'W' => number(self.0.monday_based_week().into(), 2),
            'V' => number(iso_week.into(), 2),
            'u' => number(weekday.number_from_monday().into(), 1),
            'w' => number(weekday.number_days_from_sunday().into(), 1),
            'B' => text(&full_month),
            'b' | 'h' => text(&full_month[..3]),
            'A' => text(&full_day),
            'a' => text(&full_day[..3]),
            'F' => several("%Y-%m-%d"),
            'D' | 'x' => several("%m/%d/%y"),
            'c' => several("%a %b %e %H:%M:%S %Y"),
            'H' | 'M' | 'S' => number(0, 2),
            'f' => text("000000"),
            'k' => spaced(0),
            'I' => number(12, 2),
            'l' => spaced(12),
            'p' => text("AM"),
            'P' => text("am"),
            'T' | 'X' => text("00:00:00"),
            'r' => text("12:00:00 AM"),
            'R' => text("00:00"),
            // The date is in no zone.
            'z' | 'Z' => text(""),
            'n' => text("\n"),
            't' => text("\t"),
            '%' => text("%"),
            _ => None,
        }
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// What a code of `strftime` prints.
enum Part {
    /// A number with its width, filled up with a character.
    Number(u32, usize, char),
    /// A text.
    Text(String),
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.0.to_calendar_date();
        write!(f, "{year:04}-{:02}-{day:02}", u8::from(month))
    }
}

impl FromStr for Date {
    type Err = String;

    /// A date in the form `2026-11-27`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('-').collect();
        let has_form = parts.iter().map(|part| part.len()).eq([4, 2, 2])
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let date = match parts.as_slice() {
            [year, month, day] if has_form => {
                let number = |part: &str| part.parse::<u16>().unwrap_or_default();
                Self::new(number(year), number(month) as u8, number(day) as u8)
            }
            _ => None,
        };
        date.ok_or_else(|| "expected a date as YYYY-MM-DD".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_IN_C: &str =
        "Sun Jan  3 00:00:00 2021|01/03/21|00:00:00|01/03/21|12:00:00 AM|00:00|00:00:00";

    #[test]
    fn days_are_printed_as_python_prints_them() {
        let date = Date::new(2024, 2, 29).unwrap();
        let printed = date.format("%d %b %Y, %A, %-d.%-m.%y, %j %F %H:%M %%");
        assert_eq!(printed, "29 Feb 2024, Thursday, 29.2.24, 060 2024-02-29 00:00 %");
        assert_eq!(Date::new(2000, 1, 1).unwrap().format("%a"), "Sat");
        assert_eq!(Date::new(1999, 12, 31).unwrap().format("%a %j"), "Fri 365");
        // As glibc's strftime, which Python calls, prints these.
        let first = Date::new(2021, 1, 3).unwrap();
        assert_eq!(first.format("%U %W %V %G %g %u %w %C"), "01 00 53 2020 20 7 0 20");
        assert_eq!(first.format("%c|%x|%X|%D|%r|%R|%T"), FIRST_IN_C);
        assert_eq!(
            first.format("%e|%_d|%-e|%_m|%0e|%k|%l|%^b|%^A"),
            " 3| 3|3| 1|03| 0|12|JAN|SUNDAY"
        );
        assert_eq!(first.format("%f %z%Z|%p%P%n%t|%Q %"), "000000 |AMam\n\t|%Q %");
        for (year, month, day) in [(2023, 2, 29), (0, 1, 1), (2024, 13, 1), (2024, 4, 31)] {
            assert_eq!(Date::new(year, month, day), None);
        }
    }
    #[test]
    fn dates_are_read_as_they_are_written() {
        for text in ["2026-11-27", "0001-01-01", "9999-12-31"] {
            assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "2026",
            "2026-1-2",
            "26-11-27",
            "2026-13-01",
            "2026-02-29",
            "2026/11/27",
            "+026-11-27",
            "2026-11-27T00",
            "0000-01-01",
            "2026-11-2é",
        ] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
        let today = Date::today();
        assert_eq!(today.to_string().parse::<Date>(), Ok(today));
        assert!(today.to_string().as_str() > "2024");
    }
}
