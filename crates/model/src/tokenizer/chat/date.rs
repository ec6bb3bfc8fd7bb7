//! Dates and their formats in templates.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};
use time::{Month, OffsetDateTime, PrimitiveDateTime, Time};

/// A date of the Gregorian calendar, with a time of day in whole seconds; midnight where none is
/// given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(PrimitiveDateTime);

impl Date {
    /// A date, or `None` if it does not exist between the years 1 and 9999.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let month = Month::try_from(month).ok()?;
        let date = time::Date::from_calendar_date(year.into(), month, day).ok()?;
        (1..=9999).contains(&year).then_some(Self(date.midnight()))
    }

    /// The same day at another time, or `None` if no clock shows it.
    #[must_use]
    pub fn at(self, hour: u8, minute: u8, second: u8) -> Option<Self> {
        let time = Time::from_hms(hour, minute, second).ok()?;
        Some(Self(self.0.replace_time(time)))
    }

    /// Today in UTC, at midnight; see [`Self::now`].
    #[must_use]
    pub fn today() -> Self {
        Self(Self::now().0.date().midnight())
    }

    /// Day and time in UTC; the first day of 1970 on a machine whose clock stands elsewhere than
    /// between then and the year 9999.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
        let now = OffsetDateTime::from_unix_timestamp(seconds);
        let now = now.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Self(PrimitiveDateTime::new(now.date(), now.time()))
    }

    /// Whether its time is midnight.
    #[must_use]
    pub fn is_midnight(self) -> bool {
        self.0.time() == Time::MIDNIGHT
    }

    /// `strftime` of Python in the C locale. Unknown codes are kept unchanged.
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

    /// Meaning of a code of `strftime`.
    fn code(self, letter: char) -> Option<Part> {
        let (year, month, day) = self.0.to_calendar_date();
        let (hour, minute, second) = self.0.time().as_hms();
        // Clocks of twelve hours show 12 at midnight and at noon.
        let twelve = u32::from((hour + 11) % 12 + 1);
        let half = if hour < 12 { "AM" } else { "PM" };
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
            'H' => number(hour.into(), 2),
            'M' => number(minute.into(), 2),
            'S' => number(second.into(), 2),
            'f' => text("000000"),
            'k' => spaced(hour.into()),
            'I' => number(twelve, 2),
            'l' => spaced(twelve),
            'p' => text(half),
            'P' => text(&half.to_lowercase()),
            's' => text(&self.0.assume_utc().unix_timestamp().to_string()),
            'T' | 'X' => several("%H:%M:%S"),
            'r' => several("%I:%M:%S %p"),
            'R' => several("%H:%M"),
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

/// Output of a code of `strftime`.
enum Part {
    /// A number padded to its width with a character.
    Number(u32, usize, char),
    /// A text.
    Text(String),
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.0.to_calendar_date();
        write!(f, "{year:04}-{:02}-{day:02}", u8::from(month))?;
        let (hour, minute, second) = self.0.time().as_hms();
        match (hour, minute, second) {
            (0, 0, 0) => Ok(()),
            (_, _, 0) => write!(f, "T{hour:02}:{minute:02}"),
            _ => write!(f, "T{hour:02}:{minute:02}:{second:02}"),
        }
    }
}

impl FromStr for Date {
    type Err = String;

    /// A date in the form `2026-11-27`, or with a time: `2026-11-27T14:05`, `2026-11-27T14:05:09`.
    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (day, time) = match text.split_once('T') {
                Some((day, time)) => (day, Some(time)),
                None => (text, None),
            };
            let [year, month, day] = numbers(day, '-', &[4, 2, 2])?[..] else { return None };
            let date = Self::new(year, u8::try_from(month).ok()?, u8::try_from(day).ok()?)?;
            let Some(time) = time else { return Some(date) };
            let fields = numbers(time, ':', &[2, 2, 2]).or_else(|| numbers(time, ':', &[2, 2]))?;
            let field = |at: usize| fields.get(at).map_or(Some(0), |of| u8::try_from(*of).ok());
            date.at(field(0)?, field(1)?, field(2)?)
        };
        read().ok_or_else(|| "expected a date as YYYY-MM-DD, or YYYY-MM-DDTHH:MM".to_owned())
    }
}

/// Numbers of fixed widths with a separator between them.
fn numbers(text: &str, separator: char, widths: &[usize]) -> Option<Vec<u16>> {
    let parts: Vec<&str> = text.split(separator).collect();
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = parts.iter().map(|part| part.len()).eq(widths.iter().copied());
    if !fits || !parts.iter().all(|part| is_number(part)) {
        return None;
    }
    parts.iter().map(|part| part.parse().ok()).collect()
}

/// Whether a template holds a code of [`Date::format`] that prints a time of day. Blocks of Jinja
/// (`{% for %}`) are none.
pub(super) fn prints_time(template: &str) -> bool {
    template.match_indices('%').any(|(at, _)| {
        let code = template[at + 1..].trim_start_matches(['-', '_', '0', '^', '#']);
        !template[..at].ends_with('{') && code.starts_with(|letter| TIMES.contains(letter))
    })
}

/// The codes that print a time of day.
const TIMES: &str = "HMSfkIlpPTXrRcs";

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
    fn times_of_day_are_printed_as_python_prints_them() {
        let at =
            |time: (u8, u8, u8)| Date::new(2021, 1, 3).unwrap().at(time.0, time.1, time.2).unwrap();
        let codes = "%H:%M:%S|%I %l %k|%p%P|%c|%r|%R|%T|%X|%s|%f";
        assert_eq!(
            at((14, 5, 9)).format(codes),
            "14:05:09|02  2 14|PMpm|Sun Jan  3 14:05:09 2021|02:05:09 PM|14:05|14:05:09|14:05:09|1609682709|000000"
        );
        assert_eq!(at((12, 0, 0)).format("%I %p, %-I"), "12 PM, 12");
        assert_eq!(at((0, 30, 0)).format("%I:%M %p"), "12:30 AM");
        assert_eq!(at((11, 59, 59)).format("%I:%M %p"), "11:59 AM");
        assert_eq!(Date::new(2021, 1, 3).unwrap().at(24, 0, 0), None);
        assert_eq!("2021-01-03T14:05".parse(), Ok(at((14, 5, 0))));
        for (template, prints) in [
            ("{{ strftime_now('%H:%M') }}", true),
            ("{{ strftime_now(\"%d %b %-I%p\") }}", true),
            ("{% for m in messages %}{%- if x %}{{ strftime_now('%d %b %Y') }}", false),
            ("{%Thing%}{{ strftime_now('%F') }}", false),
            ("", false),
        ] {
            assert_eq!(prints_time(template), prints, "{template}");
        }
    }

    #[test]
    fn dates_are_read_as_they_are_written() {
        for text in
            ["2026-11-27", "0001-01-01", "9999-12-31", "2026-11-27T14:05:09", "2026-11-27T14:05"]
        {
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
            "2026-11-27T",
            "2026-11-27T24:00",
            "2026-11-27T1:05",
            "2026-11-27T12:60",
            "2026-11-27T12:00:00Z",
            "2026-11-27 12:00",
            "2026-11-27T+2:00",
        ] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
        let today = Date::today();
        assert_eq!(today.to_string().parse::<Date>(), Ok(today));
        assert!(today.to_string().as_str() > "2024");
    }
}
