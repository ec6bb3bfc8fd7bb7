//! Dates and their formats in templates.

use minijinja::{Error, ErrorKind};

/// A date of the Gregorian calendar, at midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Date {
    /// A date, or `None` if it does not exist between the years 1 and 9999.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let date = Self { year, month, day };
        let valid = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=date.days_of_month()).contains(&day);
        valid.then_some(date)
    }

    fn leaps(self) -> bool {
        self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400))
    }

    fn days_of_month(self) -> u8 {
        match self.month {
            2 => 28 + u8::from(self.leaps()),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Day of the year, from 1.
    fn ordinal(self) -> u32 {
        let before = (1..self.month).map(|month| u32::from(Self { month, ..self }.days_of_month()));
        before.sum::<u32>() + u32::from(self.day)
    }

    /// 0 is Sunday.
    fn weekday(self) -> usize {
        let years = u32::from(self.year) - 1;
        let days = 365 * years + years / 4 - years / 100 + years / 400 + self.ordinal();
        (days % 7) as usize
    }

    /// `strftime` of Python in the C locale.
    pub(super) fn format(self, format: &str) -> Result<String, Error> {
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
            let month = MONTHS[usize::from(self.month) - 1];
            let weekday = WEEKDAYS[self.weekday()];
            let text = match code {
                Some('d') => number(self.day.into(), 2),
                Some('e') => format!("{:2}", self.day),
                Some('m') => number(self.month.into(), 2),
                Some('Y') => self.year.to_string(),
                Some('y') => number(u32::from(self.year % 100), 2),
                Some('j') => number(self.ordinal(), 3),
                Some('B') => month.to_owned(),
                Some('b' | 'h') => month[..3].to_owned(),
                Some('A') => weekday.to_owned(),
                Some('a') => weekday[..3].to_owned(),
                Some('F') => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
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
