//! Numbers for people.

/// `1.2 MB`: decimal, as disks are sold and rates are told.
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

/// `1 file`, `2 files`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `1:05`, `2:00:00`.
pub(super) fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
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
    fn clock() {
        assert_eq!(
            (super::clock(65), super::clock(7200)),
            ("1:05".into(), "2:00:00".into())
        );
    }
}
