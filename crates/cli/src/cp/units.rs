//! Numbers as text.

/// Formats bytes as `1.2 MB`: decimal, as disks are sold and rates are given.
pub(super) fn bytes(count: u64) -> String {
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
pub(super) fn bytes_in(word: &str) -> Option<u64> {
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
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes() {
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
            assert_eq!(super::bytes(count), text);
        }
    }

    #[test]
    fn bytes_in() {
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
            assert_eq!(super::bytes_in(word), count, "{word}");
        }
    }
}
