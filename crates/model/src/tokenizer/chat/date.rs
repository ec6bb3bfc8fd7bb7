//! Dates and their formats in templates.

use minijinja::{Error, ErrorKind};
use time::Month;

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

    /// `strftime` of Python in the C locale.
    pub(super) fn format(self, format: &str) -> Result<String, Error> {
        let (year, month, day) = self.0.to_calendar_date();
        let (name, weekday) = (month.to_string(), self.0.weekday().to_string());
        let month = u32::from(u8::from(month));
        let mut out = String::new();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                out.push(letter);
                continue;
            }
            let mut code = letters.next();
            let bare = code == Some('-');
            if bare {
                code = letters.next();
            }
            let number = |value: u32, width: usize| {
                if bare { value.to_string() } else { format!("{value:0width$}") }
            };
            let text = match code {
                Some('d') => number(day.into(), 2),
                Some('e') => format!("{day:2}"),
                Some('m') => number(month, 2),
                Some('Y') => year.to_string(),
                Some('y') => number(year.unsigned_abs() % 100, 2),
                Some('j') => number(self.0.ordinal().into(), 3),
                Some('B') => name.clone(),
                Some('b' | 'h') => name[..3].to_owned(),
                Some('A') => weekday.clone(),
                Some('a') => weekday[..3].to_owned(),
                Some('F') => format!("{year}-{month:02}-{day:02}"),
                Some('H' | 'M' | 'S') => number(0, 2),
                Some('I') => "12".to_owned(),
                Some('p') => "AM".to_owned(),
                Some('T') => "00:00:00".to_owned(),
                Some('R') => "00:00".to_owned(),
                Some('n') => "\n".to_owned(),
                Some('t') => "\t".to_owned(),
                Some('%') => "%".to_owned(),
                _ => {
                    let reason = format!("strftime_now: the format {format:?} is not known here");
                    return Err(Error::new(ErrorKind::InvalidOperation, reason));
                }
            };
            out.push_str(&text);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_printed_as_python_prints_them() {
        let date = Date::new(2024, 2, 29).unwrap();
        let printed = date.format("%d %b %Y, %A, %-d.%-m.%y, %j %F %H:%M %%").unwrap();
        assert_eq!(printed, "29 Feb 2024, Thursday, 29.2.24, 060 2024-02-29 00:00 %");
        assert_eq!(Date::new(2000, 1, 1).unwrap().format("%a").unwrap(), "Sat");
        assert_eq!(Date::new(1999, 12, 31).unwrap().format("%a %j").unwrap(), "Fri 365");
        assert!(date.format("%Q").is_err() && date.format("%").is_err());
        for (year, month, day) in [(2023, 2, 29), (0, 1, 1), (2024, 13, 1), (2024, 4, 31)] {
            assert_eq!(Date::new(year, month, day), None);
        }
    }
}
