//! The report as text: `--stats`, and the lines after a signal ends the copy.

use proactor_bench::units;
use proactor_copy::quote;
use proactor_copy::Report;

/// Returns a line for each kind of entry that was copied.
pub(super) fn lines(report: &Report, dry_run: bool) -> Vec<String> {
    let seconds = report.duration.as_secs_f64();
    let total = report.bytes + report.shared_bytes + report.hole_bytes;
    let rate = (total as f64 / seconds.max(1e-6)) as u64;
    let how = match dry_run {
        true => "would be copied".to_string(),
        false => format!("in {seconds:.2} s ({}/s)", units::decimal_bytes(rate)),
    };
    let files = units::count(report.files, "file", "files");
    let mut lines = vec![format!("{files}, {} {how}", units::decimal_bytes(total))];
    let counts = [
        (report.directories, "directory", "directories"),
        (report.symlinks, "symbolic link", "symbolic links"),
        (report.hard_links, "hard link", "hard links"),
        (report.specials, "special file", "special files"),
        (report.verified, "verified", "verified"),
        (report.skipped, "skipped", "skipped"),
        (report.excluded, "left out", "left out"),
        (report.resumed, "finished before", "finished before"),
        (report.failures, "failed", "failed"),
    ];
    let others = counts.into_iter().filter(|(number, ..)| *number > 0);
    lines.extend(others.map(|(number, one, many)| units::count(number, one, many)));
    let not_written = [
        (report.shared_bytes, "shared with the source"),
        (report.hole_bytes, "in holes"),
    ];
    let not_written = not_written.into_iter().filter(|(bytes, _)| *bytes > 0);
    lines.extend(
        not_written.map(|(bytes, where_from)| format!("{} {where_from}", units::decimal_bytes(bytes))),
    );
    lines
}

/// Returns a warning if patterns have excluded every source.
pub(super) fn nothing(report: &Report) -> Option<String> {
    let found = report.files
        + report.directories
        + report.symlinks
        + report.hard_links
        + report.specials
        + report.skipped
        + report.resumed
        + report.failures;
    (found == 0 && report.excluded > 0 && !report.stopped).then(|| {
        "warning: nothing was copied: the patterns leave out each source itself (SOURCE/. copies what is in it)".into()
    })
}

/// Names the new trees that could not be given their names.
pub(super) fn left(report: &Report) -> Vec<String> {
    let says = |path| format!("the copied part of a new tree is in {}", quote::name(path));
    report.partial.iter().map(says).collect()
}

/// Describes what was done until a signal came, what is left, and the command that continues.
pub(super) fn interrupted(report: &Report, dry_run: bool, again: &str) -> String {
    let done = if dry_run { "would be copied" } else { "copied" };
    let mut text = format!(
        "interrupted: {} and {} {done}, {}",
        units::count(report.files, "file", "files"),
        units::count(report.directories, "directory", "directories"),
        units::decimal_bytes(report.bytes + report.shared_bytes + report.hole_bytes)
    );
    for partial in &report.partial {
        let partial = quote::name(partial);
        text += &format!("; the copied part of a new tree is in {partial}; continue it with {again}");
    }
    text
}
