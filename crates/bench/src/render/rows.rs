//! The table that the text, the Markdown and the HTML share: a section for each kind of work, a row for each
//! cell.

use crate::counters::{Seen, Times};
use crate::job::Measure;
use crate::net::{fastio, Published};
use crate::report::{ops_needed, CellReport, Report, Round};
use crate::stats::Spread;
use crate::units;
use crate::usage::Used;
use std::collections::BTreeMap;

const HEAD: [&str; 14] = [
    "engine",
    "depth",
    "time",
    "IOPS",
    "GB/s",
    "spread",
    "p50",
    "p99",
    "p99.9",
    "CPU/op",
    "calls/op",
    "switches/op",
    "calls",
    "switches",
];

/// Cells that differ in engine and depth only.
pub(super) struct Section<'a> {
    pub title: String,
    pub cells: Vec<&'a CellReport>,
    pub measure: Measure,
}

/// Header of `bench files` and `bench cp`, where nothing has a depth.
const HEAD_OF_ENTRIES: [&str; 13] = [
    "contender",
    "time",
    "ops/s",
    "GB/s",
    "spread",
    "p50",
    "p99",
    "p99.9",
    "CPU/op",
    "calls/op",
    "switches/op",
    "calls",
    "switches",
];

/// Header of `bench net`, where an op is a request, and costs are the server's.
const HEAD_OF_SERVERS: [&str; 13] = [
    "server",
    "time",
    "requests/s",
    "GB/s",
    "spread",
    "p50",
    "p99",
    "p99.9",
    "CPU/request",
    "calls/request",
    "switches/request",
    "calls",
    "switches",
];

/// Header for servers with published figures.
const HEAD_OF_PUBLISHED: [&str; 13] = [
    "server",
    "requests/s",
    "spread",
    "busy cores",
    "requests/s per busy core",
    "published",
    "published busy threads",
    "published per busy thread",
    "p50",
    "p99",
    "CPU/request",
    "calls/request",
    "switches/request",
];

impl Section<'_> {
    /// Returns the header.
    pub fn head(&self) -> &'static [&'static str] {
        match (self.has_depths(), self.is_of_servers()) {
            _ if self.is_published() => &HEAD_OF_PUBLISHED,
            (true, _) => &HEAD,
            (false, true) => &HEAD_OF_SERVERS,
            (false, false) => &HEAD_OF_ENTRIES,
        }
    }

    fn is_of_servers(&self) -> bool {
        self.cells.iter().any(|cell| cell.cell.net().is_some())
    }

    fn is_published(&self) -> bool {
        self.cells.iter().any(|cell| published(cell).is_some())
    }

    pub fn has_depths(&self) -> bool {
        self.cells.iter().any(|cell| cell.cell.depth().is_some())
    }

    /// Returns the rows in the order of the job; a cell that failed has no numbers.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = if self.is_published() { published_row } else { row };
        self.cells.iter().map(|cell| row(cell)).collect()
    }
}

pub(super) fn sections(report: &Report) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for cell in &report.cells {
        let title = title(cell);
        match sections.iter_mut().find(|section| section.title == title) {
            Some(section) => section.cells.push(cell),
            None => sections.push(Section {
                title,
                cells: vec![cell],
                measure: cell.cell.measure(),
            }),
        }
    }
    sections
}

fn title(cell: &CellReport) -> String {
    cell.cell.title()
}

fn row(cell: &CellReport) -> Vec<String> {
    let median = |value: &dyn Fn(&Round) -> f64| cell.spread(value).map(|s| s.median);
    let show = |value: Option<f64>, how: &dyn Fn(f64) -> String| value.map_or("-".into(), how);
    // Not every contender times its ops.
    let latency = |value: &dyn Fn(&Round) -> f64| median(value).filter(|time| *time > 0.0);
    let switches = |r: &Round| (r.used.voluntary + r.used.involuntary) as f64;
    // The costs of a server whose process is not named are not known.
    let cost = |value: &dyn Fn(&Round) -> f64| median(value).filter(|_| !costs_nothing(cell));
    // Lock-step has no rate: most of the time is the client's.
    let rate =
        |value: &dyn Fn(&Round) -> f64| median(value).filter(|rate| *rate > 0.0 || cell.cell.net().is_none());
    let few = cell.fewest_ops();
    let mut row = vec![cell.cell.contender()];
    row.extend(cell.cell.depth().map(|depth| depth_words(cell, depth)));
    row.extend([
        show(median(&|r| r.elapsed_s), &units::seconds),
        show(rate(&|r| r.all.iops), &units::number),
        show(rate(&|r| r.all.bytes_per_s / 1e9), &units::number),
        spread(cell),
        percentile(latency(&|r| r.all.p50_s), 50.0, few),
        percentile(latency(&|r| r.all.p99_s), 99.0, few),
        percentile(latency(&|r| r.all.p999_s), 99.9, few),
        show(cost(&Round::cpu_per_op), &units::seconds),
        show(cell.counted.as_ref().map(|c| c.per_op()), &units::number),
        show(cost(&Round::switches_per_op), &units::number),
        show(cell.counted.as_ref().map(|c| c.calls.total as f64), &whole),
        show(cost(&switches), &whole),
    ]);
    row
}

/// Returns the number of processors that were busy with the server: the CPU time of its threads, the kernel's
/// included, for each second.
pub(super) fn busy_cores(round: &Round) -> f64 {
    (round.used.user_s + round.used.system_s) / round.elapsed_s
}

fn published(cell: &CellReport) -> Option<Published> {
    cell.cell.net().and_then(|load| load.published)
}

fn published_row(cell: &CellReport) -> Vec<String> {
    let median = |value: &dyn Fn(&Round) -> f64| cell.spread(value).map(|s| s.median);
    let show = |value: Option<f64>, how: &dyn Fn(f64) -> String| value.map_or("-".into(), how);
    let few = cell.fewest_ops();
    let published = published(cell);
    let other = |value: &dyn Fn(Published) -> f64| show(published.map(value), &whole);
    vec![
        cell.cell.contender(),
        show(median(&|r| r.all.iops), &whole),
        spread(cell),
        show(median(&busy_cores), &|cores| format!("{cores:.2}")),
        show(median(&|r| r.all.iops / busy_cores(r)), &whole),
        other(&|it| f64::from(it.requests_per_s)),
        other(&|it| f64::from(it.busy_threads)),
        other(&|it| f64::from(it.requests_per_s) / f64::from(it.busy_threads)),
        percentile(median(&|r| r.all.p50_s), 50.0, few),
        percentile(median(&|r| r.all.p99_s), 99.0, few),
        show(median(&Round::cpu_per_op), &units::seconds),
        show(cell.counted.as_ref().map(|c| c.per_op()), &units::number),
        show(median(&Round::switches_per_op), &units::number),
    ]
}

/// Returns true if its costs are not known.
fn costs_nothing(cell: &CellReport) -> bool {
    let nothing = |round: &Round| round.used == Used::default();
    cell.cell.net().is_some() && cell.rounds.iter().all(nothing)
}

fn whole(count: f64) -> String {
    units::thousands(count.round() as i64)
}

/// Mark of a percentile that is the longest of too few ops.
const LONGEST: &str = "(max)";

/// Formats a percentile, and marks it if it is the longest op.
pub(super) fn percentile(time_s: Option<f64>, percentile: f64, fewest_ops: u64) -> String {
    match time_s {
        None => "-".into(),
        Some(time_s) if fewest_ops < ops_needed(percentile) => {
            format!("{} {LONGEST}", units::seconds(time_s))
        }
        Some(time_s) => units::seconds(time_s),
    }
}

/// Returns the peak number of ops at once, if that is less than the depth.
fn unreached(cell: &CellReport) -> Option<u64> {
    let asked = cell
        .cell
        .io()
        .map(|io| u64::from(io.iodepth) * u64::from(io.numjobs))?;
    let depths = cell.rounds.iter().filter_map(|round| round.depth);
    let most = depths.map(|depth| depth.most).max()?;
    (most < asked).then_some(most)
}

/// Formats the depth as `512`, or as `512 (32)` where no more than 32 ops were at once.
fn depth_words(cell: &CellReport, depth: u32) -> String {
    match unreached(cell) {
        Some(most) => format!("{depth} ({most})"),
        None => depth.to_string(),
    }
}

/// Formats the range from the worst to the best round, of the number that counts.
fn spread(cell: &CellReport) -> String {
    match Spread::of(&cell.values(cell.cell.measure())) {
        Some(_) if cell.rounds.len() < 2 => "one round".into(),
        Some(spread) => format!("{:.1} %", spread.relative() * 100.0),
        None => "-".into(),
    }
}

/// Returns the notes below a table: page cache, threads, failures.
pub(super) fn notes(section: &Section<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let name = |cell: &CellReport| cell.cell.label();
    for cell in &section.cells {
        if let Some(why) = &cell.failed {
            notes.push(format!("{}: {why}", name(cell)));
        }
    }
    let measured: Vec<&&CellReport> = section.cells.iter().filter(|c| !c.rounds.is_empty()).collect();
    if section.is_of_servers() {
        notes.extend(measured.iter().filter_map(|cell| unanswered(cell)));
        notes.extend(section.is_published().then(|| fastio::SOURCE.to_owned()));
        notes.extend(longest(section));
        return notes;
    }
    let states: Vec<String> = measured.iter().map(|cell| cell.cache_words()).collect();
    match states.first() {
        Some(first) if states.iter().all(|state| state == first) => {
            notes.push(format!("page cache: {first}"))
        }
        _ => notes.extend(
            measured
                .iter()
                .zip(&states)
                .map(|(cell, state)| format!("page cache, {}: {state}", name(cell))),
        ),
    }
    notes.extend(measured.iter().filter_map(|cell| {
        let most = unreached(cell)?;
        Some(format!(
            "{}: at most {most} at once, the depth was not reached: {}",
            name(cell),
            unreached_because(cell)
        ))
    }));
    notes.extend(longest(section));
    let together = |cell: &&CellReport| cell.rounds.iter().any(|round| round.together.is_some());
    if measured.iter().any(|cell| together(cell)) {
        notes.push(
            "sections of a job file that ran at once: CPU, calls, switches and memory are those of all of them".into(),
        );
    }
    if measured.iter().any(|cell| cell.cell.copies()) {
        notes.push(
            "a block that is copied is two ops: IOPS and GB/s count what is read and what is written".into(),
        );
    }
    notes
}

fn longest(section: &Section<'_>) -> Option<String> {
    let marks = |column: &String| column.ends_with(LONGEST);
    section.rows().iter().flatten().any(marks).then(|| {
        format!(
            "{LONGEST}: a round has too few ops for this percentile (99 takes {}, 99.9 takes {}), so it is the longest op",
            ops_needed(99.0),
            ops_needed(99.9)
        )
    })
}

/// Returns a note if a server did not keep up with an open loop.
fn unanswered(cell: &CellReport) -> Option<String> {
    let most = cell.rounds.iter().filter_map(|round| round.unanswered).max()?;
    // A few are always in flight.
    let rate = cell.cell.net()?.rate?;
    (most as f64 > 0.01 * rate as f64).then(|| {
        format!(
            "{}: up to {} requests of a round were due and not answered at its end; the rate is more than it serves. They \
             count in the latencies with the time until then",
            cell.cell.label(),
            units::thousands(most as i64)
        )
    })
}

/// Returns the reason why fewer ops were at once than the depth allows.
fn unreached_because(cell: &CellReport) -> String {
    match cell.cell.io() {
        Some(io) if io.reachable_depth() < io.iodepth => {
            format!("a round has {} ops in each job", io.reachable_depth())
        }
        _ => "completions came back sooner than ops were submitted".into(),
    }
}

/// Returns the remarks on the whole report.
pub(super) fn remarks(report: &Report) -> Vec<String> {
    let mut remarks = Vec::new();
    if report.interrupted {
        remarks.push("Interrupted: cells have fewer rounds than requested, or none.".into());
    }
    remarks.extend(report.left_out.iter().map(|why| format!("Left out: {why}")));
    remarks.push(match report.counters.as_str() {
        "none" => "System calls were not counted.".into(),
        method => {
            format!(
                "System calls were counted by {method}, in a separate round whose times are not reported."
            )
        }
    });
    remarks.extend(report.not_seen.iter().map(|what| format!("Not seen: {what}.")));
    remarks
}

/// Formats the system calls and CPU of each thread, for readers who look for a reason. They are those of the
/// middle round, as the row above shows medians.
pub(super) fn costs(cell: &CellReport) -> Option<String> {
    let round = cell.middle_round().filter(|_| !costs_nothing(cell))?;
    let threads: Vec<String> = round
        .used
        .threads
        .iter()
        .take(4)
        .map(|t| format!("{} {}", t.name, units::seconds(t.cpu_s)))
        .collect();
    let mut text = match threads.is_empty() {
        false => format!("CPU: {}", threads.join(", ")),
        true => format!(
            "CPU: {} user, {} system",
            units::seconds(round.used.user_s),
            units::seconds(round.used.system_s)
        ),
    };
    if let Some(submissions) = round.submissions {
        let each = submissions as f64 / round.all.ios.max(1) as f64;
        text += &format!("; submissions an op: {}", units::number(each));
    }
    let late = cell.rounds.iter().filter_map(|r| r.late_max_s);
    if let Some(late) = late.reduce(f64::max) {
        text += &format!("; the loop was late by {} at most", units::seconds(late));
    }
    if let Some(counted) = &cell.counted {
        let mut calls: Vec<(&String, &u64)> = counted.calls.by_name.iter().collect();
        calls.sort_by(|a, b| b.1.cmp(a.1));
        let mut calls: Vec<String> = calls
            .iter()
            .take(4)
            .map(|(name, n)| format!("{name} {}", units::thousands(**n as i64)))
            .collect();
        calls.push(format!("others {}", units::thousands(counted.calls.other as i64)));
        text += &format!(
            "; calls of {} ops: {}",
            units::thousands(counted.ios as i64),
            calls.join(", ")
        );
    }
    text += &cell
        .counted
        .as_ref()
        .and_then(|c| c.seen.as_ref())
        .map_or(String::new(), seen);
    if let Some(bytes) = round.used.process_read_bytes {
        text += &format!(
            "; read from the device: {} MiB",
            units::number(bytes as f64 / f64::from(1 << 20))
        );
    }
    if let Some(bytes) = round.used.peak_rss_bytes {
        text += &format!(
            "; peak memory: {} MiB",
            units::number(bytes as f64 / f64::from(1 << 20))
        );
    }
    Some(text)
}

/// Formats what BPF has seen.
fn seen(seen: &Seen) -> String {
    let mut text = format!(
        "; off the CPU: {} waiting ({} times), {} preempted ({} times)",
        units::seconds(seen.waiting_s),
        units::thousands(seen.voluntary as i64),
        units::seconds(seen.preempted_s),
        units::thousands(seen.involuntary as i64)
    );
    let formatted = |times: &BTreeMap<String, Times>| {
        let mut most: Vec<(&String, &Times)> = times.iter().collect();
        most.sort_by_key(|(_, times)| std::cmp::Reverse(times.count));
        let one = |(name, times): &(&String, &Times)| {
            let (half, all) = (units::seconds(times.p50_s), units::seconds(times.p99_s));
            format!("{name} {half} (99 %: {all})")
        };
        most.iter().take(3).map(one).collect::<Vec<_>>().join(", ")
    };
    if !seen.op_times.is_empty() {
        text += &format!("; ops in the kernel: {}", formatted(&seen.op_times));
    }
    if !seen.call_times.is_empty() {
        text += &format!("; calls took {}", formatted(&seen.call_times));
    }
    if !seen.punts.is_empty() {
        let one = |(name, n): (&String, &u64)| format!("{name} {}", units::thousands(*n as i64));
        let all: Vec<String> = seen.punts.iter().map(one).collect();
        text += &format!("; to io_uring's workers: {}", all.join(", "));
    }
    text
}
