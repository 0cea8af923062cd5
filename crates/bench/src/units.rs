//! Sizes and times as fio and GNU's tools write them, and numbers as text.

use std::time::Duration;

/// Parses bytes: `4k`, `32KiB`, `1M`, `512`. `k`, `kb` and `KiB` are all 1,024. In fio `KiB` is 1,000 unless
/// `kb_base=1000` is set, which is not what users mean.
///
/// # Errors
/// A sentence, for anything else.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    let unit = unit
        .strip_suffix("ib")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(format!("{text:?} is no size: a number and k, m, g or t")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no size: a number and k, m, g or t"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text:?} is too large"))
}

/// Parses a time: `10`, `10s`, `500ms`, `2m`, `1h`. As in fio, the default unit is seconds. Whole
/// milliseconds.
///
/// # Errors
/// A sentence, for anything else.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let time = parse_time(text, 1_000_000)?;
    match time.as_micros() % 1000 {
        0 => Ok(time),
        _ => Err(format!("{text:?}: whole milliseconds")),
    }
}

/// Parses a time: `10`, `10us`, `1ms`. As in fio's `thinktime`, the default unit is microseconds.
///
/// # Errors
/// A sentence, for anything else.
pub fn parse_micros(text: &str) -> Result<Duration, String> {
    parse_time(text, 1)
}

fn parse_time(text: &str, default_us: u64) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let unit_us = match unit.to_ascii_lowercase().as_str() {
        "" => default_us,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "s" | "sec" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(format!("{text:?} is no time: a number and us, ms, s, m or h")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no time: a number and us, ms, s, m or h"))?;
    number
        .checked_mul(unit_us)
        .map(Duration::from_micros)
        .ok_or_else(|| format!("{text:?} is too long"))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Formats bytes as `4k`, `512m` or `100`, which fio accepts.
pub fn bytes(count: u64) -> String {
    for (shift, unit) in [(40, "t"), (30, "g"), (20, "m"), (10, "k")] {
        if count >> shift > 0 && count.trailing_zeros() >= shift {
            return format!("{}{unit}", count >> shift);
        }
    }
    count.to_string()
}

/// Formats a number with three significant digits and separated thousands: `12.3`, `1,234`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 {
        return thousands(value.round() as i64);
    }
    let places = match size {
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 || size == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}

/// Formats a number as `1,234,567`.
pub fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time as `850 ns`, `12.3 us`, `4.56 ms` or `7.89 s`.
pub fn seconds(value: f64) -> String {
    let (scale, unit) = match value {
        _ if value < 1e-6 => (1e9, "ns"),
        _ if value < 1e-3 => (1e6, "us"),
        _ if value < 1.0 => (1e3, "ms"),
        _ => (1.0, "s"),
    };
    format!("{} {unit}", number(value * scale))
}

/// Formats a duration as `1:05` or `2:00:00`.
pub fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Formats bytes as `1.2 MB`: decimal, as disks are sold and rates are given.
pub fn decimal_bytes(count: u64) -> String {
    const NAMES: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = count as f64;
    let mut name = NAMES.iter();
    let mut unit = name.next().expect("there are some");
    while value >= 999.5 {
        value /= 1000.0;
        unit = name.next().expect("a u64 has less than 19 exabytes");
    }
    match unit {
        &"B" => format!("{count} B"),
        unit if value < 9.95 => format!("{value:.1} {unit}"),
        unit => format!("{value:.0} {unit}"),
    }
}

/// Parses `1500`, `1.5K` or `1.5KiB` (of 1024), `1.5kB` (of 1000): the suffixes of GNU's tools and rsync's,
/// in any case.
pub fn parse_decimal_or_binary(word: &str) -> Option<u64> {
    let end = word
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(word.len());
    let (number, suffix) = word.split_at(end);
    let suffix = suffix.to_ascii_lowercase();
    let (power, base) = match suffix.strip_prefix(['k', 'm', 'g', 't']) {
        Some(rest) => {
            let power = 1 + "kmgt".find(&suffix[..1])?;
            match rest {
                "" | "ib" => (power, 1024.0_f64),
                "b" => (power, 1000.0),
                _ => return None,
            }
        }
        None if matches!(&*suffix, "" | "b") => (0, 1.0),
        None => return None,
    };
    let bytes = number.parse::<f64>().ok()? * base.powi(power as i32);
    // Rounded up: 0 means no limit, and a small fraction is one.
    (bytes < u64::MAX as f64).then_some(bytes.ceil() as u64)
}

/// Formats `1 file`, `2 files`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, count) in [
            ("512", 512),
            ("4k", 4096),
            ("32KiB", 32 << 10),
            ("32K", 32 << 10),
            ("1mb", 1 << 20),
            ("2g", 2 << 30),
        ] {
            assert_eq!(parse_bytes(text), Ok(count), "{text}");
        }
        for text in ["", "k", "4x", "-1", "1.5m", "99999999999999999999", "99999999t"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        for count in [0, 1, 1000, 1024, 4096, 4097, 1 << 20, 3 << 30, (1 << 30) + 1024] {
            assert_eq!(parse_bytes(&bytes(count)), Ok(count));
        }
    }

    #[test]
    fn times() {
        assert_eq!(parse_seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_seconds("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_micros("10"), Ok(Duration::from_micros(10)));
        assert_eq!(parse_micros("2m"), Ok(Duration::from_secs(120)));
        assert!(parse_seconds("soon").is_err());
        assert!(parse_seconds("500us").is_err());
        assert!(parse_seconds("").is_err());
    }

    #[test]
    fn for_people() {
        assert_eq!(number(0.0), "0.00");
        assert_eq!(number(0.1234), "0.123");
        assert_eq!(number(1.2345), "1.23");
        assert_eq!(number(12.345), "12.3");
        assert_eq!(number(99.96), "100");
        assert_eq!(number(1234567.8), "1,234,568");
        assert_eq!(thousands(-1234), "-1,234");
        assert_eq!(seconds(0.000_012_3), "12.3 us");
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(7200)), "2:00:00");
    }

    #[test]
    fn decimal() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_940, "9.9 kB"),
            (9_960, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(decimal_bytes(count), text);
        }
    }

    #[test]
    fn decimal_or_binary() {
        for (word, count) in [
            ("0", Some(0)),
            ("1500", Some(1500)),
            ("7b", Some(7)),
            ("0.4", Some(1)),
            ("1k", Some(1024)),
            ("1.5K", Some(1536)),
            ("2KiB", Some(2048)),
            ("2kB", Some(2000)),
            ("1.5MB", Some(1_500_000)),
            ("1m", Some(1 << 20)),
            ("3G", Some(3 << 30)),
            ("1TiB", Some(1 << 40)),
            ("", None),
            ("K", None),
            (".", None),
            ("1KK", None),
            ("1x", None),
            ("-1", None),
            ("1e9", None),
            ("1.2.3", None),
            ("99999999999T", None),
        ] {
            assert_eq!(parse_decimal_or_binary(word), count, "{word}");
        }
    }
}
