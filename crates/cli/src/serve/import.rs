//! Configurations of FastIO and of SAIO: the option that each setting becomes, or why it has no effect.

use super::flags::MAX_QUEUE;
use super::Misuse;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const FASTIO: [&str; 9] = [
    "esca_localize",
    "max_table_entry",
    "max_table_len",
    "max_usr_worker",
    "max_ker_worker",
    "default_main_worker_idle_time",
    "default_wq_worker_idle_time",
    "affinity_offset",
    "wq_affinity_offset",
];
const SAIO_IDLE: &str = "default_idle_time";

/// Result of importing a file.
pub(super) struct Imported {
    pub(super) arguments: Vec<OsString>,
    /// Text that reports each setting.
    pub(super) text: String,
}

/// Reads a file.
pub(super) fn read(file: &Path) -> Result<Imported, Misuse> {
    let text = fs::read_to_string(file)
        .map_err(|e| Misuse::new(format!("--import {}: it cannot be read ({e})", file.display())))?;
    let settings =
        settings(&text).map_err(|(line, why)| Misuse::new(format!("{}:{line}: {why}", file.display())))?;
    Ok(translate(&settings))
}

/// Parses the settings of a text, the last value of each, in their order; or returns the line of a wrong one
/// and the reason.
fn settings(text: &str) -> Result<Vec<(String, u32)>, (usize, String)> {
    let mut settings: Vec<(String, u32)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |why: String| (at + 1, why);
        let (key, value) = line
            .split_once('=')
            .ok_or_else(|| wrong(format!("{line:?} has no =: write KEY = NUMBER")))?;
        let (key, value) = (key.trim(), value.trim());
        if key != SAIO_IDLE && !FASTIO.contains(&key) {
            let keys = FASTIO.join(", ");
            return Err(wrong(format!(
                "no setting is called {key:?}; there are {keys} and SAIO's {SAIO_IDLE}"
            )));
        }
        let value = value
            .parse::<u32>()
            .map_err(|_| wrong(format!("{key}: {value:?} is no number from 0 to {}", u32::MAX)))?;
        settings.retain(|(old, _)| old != key);
        settings.push((key.to_owned(), value));
    }
    Ok(settings)
}

/// Values of the settings, combined.
struct Numbers<'a>(BTreeMap<&'a str, u32>);

impl Numbers<'_> {
    fn get(&self, key: &str) -> Option<u32> {
        self.0.get(key).copied()
    }

    /// Returns the number of kernel workers.
    fn kernel(&self) -> u32 {
        self.get("max_ker_worker").unwrap_or(0)
    }

    /// Returns processors from an offset on, one for each kernel worker.
    fn cpus(&self, offset: u32) -> String {
        let last = offset.saturating_add(self.kernel().saturating_sub(1));
        if offset == last {
            offset.to_string()
        } else {
            format!("{offset}-{last}")
        }
    }

    /// Returns a queue with as many entries as the tables hold calls.
    fn queue(&self) -> (u64, u32) {
        let both = ["max_table_entry", "max_table_len"].map(|key| u64::from(self.get(key).unwrap_or(1)));
        let all = both[0].saturating_mul(both[1]).max(1);
        (
            all,
            u32::try_from(all).map_or(MAX_QUEUE, |all| all.min(MAX_QUEUE).next_power_of_two()),
        )
    }
}

fn translate(settings: &[(String, u32)]) -> Imported {
    let numbers = Numbers(
        settings
            .iter()
            .map(|(key, value)| (key.as_str(), *value))
            .collect(),
    );
    let mut arguments: Vec<String> = Vec::new();
    let mut text = String::new();
    for (key, value) in settings {
        let (option, why) = one(&numbers, key, *value);
        let became = option.as_deref().unwrap_or("nothing");
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{key} = {value}: {became} ({why})");
        if let Some(option) = option.filter(|option| !arguments.contains(option)) {
            arguments.push(option);
        }
    }
    let _ = writeln!(text, "proactor serve SERVER {}", arguments.join(" "));
    Imported {
        arguments: arguments.into_iter().map(OsString::from).collect(),
        text,
    }
}

/// Returns the option that a setting becomes, and a remark on it.
fn one(numbers: &Numbers<'_>, key: &str, value: u32) -> (Option<String>, String) {
    let of_kernel = |option: String, why: &str| match numbers.kernel() {
        0 => (None, "there are no kernel workers".to_owned()),
        _ => (Some(option), why.to_owned()),
    };
    match key {
        "max_table_entry" | "max_table_len" => {
            let (all, queue) = numbers.queue();
            let why = match all > u64::from(MAX_QUEUE) {
                true => format!("entries x pages are {all}, and a queue has at most {MAX_QUEUE}"),
                false => format!("entries x pages are {all}, rounded up to a power of two"),
            };
            (Some(format!("--queue={queue}")), why)
        }
        "max_usr_worker" if value > 0 => (Some(format!("--user-workers={value}")), "user threads".into()),
        "max_ker_worker" if value > 0 => {
            let why = "threads of the kernel, which are divided among the user threads";
            (Some(format!("--kernel-workers={value}")), why.into())
        }
        "max_usr_worker" | "max_ker_worker" => (None, "0 is none".into()),
        "default_main_worker_idle_time" | SAIO_IDLE => of_kernel(
            format!("--sqpoll-idle={}", value.max(1)),
            "milliseconds without work after which a kernel worker sleeps",
        ),
        "affinity_offset" => of_kernel(
            format!("--kernel-cpus={}", numbers.cpus(value)),
            "a processor for each kernel worker",
        ),
        "wq_affinity_offset" => of_kernel(
            format!("--iowq-cpus={}", numbers.cpus(value)),
            "the kernel's threads for work that blocks",
        ),
        "default_wq_worker_idle_time" => (
            None,
            "the kernel ends its threads for work that blocks after 5 seconds, which cannot be changed"
                .into(),
        ),
        _ => (None, "each user thread has rings of its own here".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_becomes_something_or_says_why_not() {
        let text = "esca_localize = 1\nmax_table_entry=64\nmax_table_len = 3 # pages\nmax_usr_worker = 2\n\
                    max_ker_worker = 4\ndefault_main_worker_idle_time = 150\ndefault_wq_worker_idle_time = 5\n\
                    affinity_offset = 2\nwq_affinity_offset = 6\n";
        let imported = translate(&settings(text).unwrap());
        let expected = [
            "--queue=256",
            "--user-workers=2",
            "--kernel-workers=4",
            "--sqpoll-idle=150",
            "--kernel-cpus=2-5",
            "--iowq-cpus=6-9",
        ];
        assert_eq!(imported.arguments, expected);
        for line in [
            "esca_localize = 1: nothing (each user thread has rings of its own here)",
            "max_table_len = 3: --queue=256 (entries x pages are 192, rounded up to a power of two)",
        ] {
            assert!(
                imported.text.lines().any(|said| said == line),
                "{}",
                imported.text
            );
        }
        assert!(imported
            .text
            .contains("default_wq_worker_idle_time = 5: nothing (the kernel ends"));
        assert_eq!(imported.text.lines().count(), 10);
    }

    #[test]
    fn settings_of_kernel_workers_mean_nothing_without_them() {
        let imported = translate(&settings("default_idle_time = 100\naffinity_offset = 1\n").unwrap());
        assert!(imported.arguments.is_empty());
        assert_eq!(imported.text.matches("there are no kernel workers").count(), 2);
    }

    #[test]
    fn large_tables_become_the_largest_queue() {
        let imported =
            translate(&settings("max_table_entry = 4000000000\nmax_table_len = 4000000000\n").unwrap());
        assert_eq!(imported.arguments, ["--queue=32768"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, at, why) in [
            ("max_usr_worker = 1\nfoo = 2\n", 2, "no setting is called \"foo\""),
            ("# a\nmax_usr_worker 1\n", 2, "has no ="),
            ("max_usr_worker = -1\n", 1, "no number from 0"),
            ("max_usr_worker =\n", 1, "no number from 0"),
            ("max_usr_worker = 99999999999\n", 1, "no number from 0"),
        ] {
            let (line, said) = settings(text).unwrap_err();
            assert!(line == at && said.contains(why), "{text:?}: {line}: {said}");
        }
    }
}
