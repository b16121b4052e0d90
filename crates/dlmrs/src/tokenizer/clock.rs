//! The date for templates that ask for it.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/// Now, in the manner of `strftime`, as UTC: the library knows no time zones.
pub(super) fn now(format: &str) -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    at(seconds, format)
}

/// A date of the Gregorian calendar from days since 1970; `yday` counts from 1.
struct Date {
    year: u64,
    month: u64,
    day: u64,
    yday: u64,
}

impl Date {
    fn new(days: u64) -> Self {
        let mut rest = days;
        let mut year = 1970;
        let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        while rest >= 365 + u64::from(leap(year)) {
            rest -= 365 + u64::from(leap(year));
            year += 1;
        }
        let yday = rest + 1;
        let mut month = 1;
        for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if rest < length {
                break;
            }
            rest -= length;
            month += 1;
        }
        Self { year, month, day: rest + 1, yday }
    }
}

fn at(seconds: u64, format: &str) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let date = Date::new(days);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let (bare, code) = match chars.next() {
            Some('-') => (true, chars.next()),
            code => (false, code),
        };
        out.push_str(&field(code, bare, &date, days, second));
    }
    out
}

fn field(code: Option<char>, bare: bool, date: &Date, days: u64, second: u64) -> String {
    let number = |value: u64, width: usize| if bare { value.to_string() } else { format!("{value:0width$}") };
    let day_name = DAYS[(days % 7 + 4) as usize % 7];
    let month_name = MONTHS[(date.month as usize - 1) % 12];
    let hour = second / 3600;
    match code {
        Some('Y') => date.year.to_string(),
        Some('y') => number(date.year % 100, 2),
        Some('m') => number(date.month, 2),
        Some('B') => month_name.to_owned(),
        Some('b' | 'h') => month_name[..3].to_owned(),
        Some('d') => number(date.day, 2),
        Some('e') => format!("{:2}", date.day),
        Some('j') => number(date.yday, 3),
        Some('A') => day_name.to_owned(),
        Some('a') => day_name[..3].to_owned(),
        Some('H') => number(hour, 2),
        Some('I') => number((hour + 11) % 12 + 1, 2),
        Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        Some('M') => number(second / 60 % 60, 2),
        Some('S') => number(second % 60, 2),
        Some('F') => format!("{}-{:02}-{:02}", date.year, date.month, date.day),
        Some('T') => format!("{hour:02}:{:02}:{:02}", second / 60 % 60, second % 60),
        Some('z') => "+0000".to_owned(),
        Some('Z') => "UTC".to_owned(),
        Some('%') => "%".to_owned(),
        Some(other) => format!("%{other}"),
        None => "%".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::at;

    #[test]
    fn dates_as_python_writes_them() {
        // time.strftime(..., time.gmtime(seconds))
        assert_eq!(at(0, "%Y-%m-%d %H:%M:%S %A %j"), "1970-01-01 00:00:00 Thursday 001");
        assert_eq!(at(951_782_400, "%d %b %Y %a"), "29 Feb 2000 Tue");
        assert_eq!(at(1_798_761_599, "%B %-d, %Y %I:%M %p %j %%"), "December 31, 2026 11:59 PM 365 %");
        assert_eq!(at(4_102_444_800, "%F %T%"), "2100-01-01 00:00:00%");
    }
}
