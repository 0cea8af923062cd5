//! The table that the text, the Markdown and the HTML share: a section for each kind of work, a row for each cell.

use crate::job::Measure;
use crate::report::{CellReport, Report, Round};
use crate::stats::Spread;
use crate::units;

pub(super) const HEAD: [&str; 12] = [
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
];

/// Cells that differ in engine and depth only.
pub(super) struct Section<'a> {
    pub title: String,
    pub cells: Vec<&'a CellReport>,
    pub measure: Measure,
}

impl Section<'_> {
    /// In the order of the job; what has failed has no numbers.
    pub fn rows(&self) -> Vec<Vec<String>> {
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
                measure: cell.cell.measure,
            }),
        }
    }
    sections
}

fn title(cell: &CellReport) -> String {
    cell.cell
        .work()
        .replacen(&format!(", depth {}", cell.cell.iodepth), "", 1)
}

fn row(cell: &CellReport) -> Vec<String> {
    let median = |value: &dyn Fn(&Round) -> f64| cell.spread(value).map(|s| s.median);
    let show = |value: Option<f64>, how: &dyn Fn(f64) -> String| value.map_or("-".into(), how);
    let switches = |r: &Round| (r.used.voluntary + r.used.involuntary) as f64 / r.all.ios.max(1) as f64;
    vec![
        cell.cell.engine.to_string(),
        cell.cell.iodepth.to_string(),
        show(median(&|r| r.elapsed_s), &units::seconds),
        show(median(&|r| r.all.iops), &units::number),
        show(median(&|r| r.bandwidth(cell.cell.rw) / 1e9), &units::number),
        spread(cell),
        show(median(&|r| r.all.p50_s), &units::seconds),
        show(median(&|r| r.all.p99_s), &units::seconds),
        show(median(&|r| r.all.p999_s), &units::seconds),
        show(median(&Round::cpu_per_op), &units::seconds),
        show(cell.counted.as_ref().map(|c| c.per_op()), &units::number),
        show(median(&switches), &units::number),
    ]
}

/// From the worst to the best round, of the number that counts.
fn spread(cell: &CellReport) -> String {
    match Spread::of(&cell.values(cell.cell.measure)) {
        Some(_) if cell.rounds.len() < 2 => "one round".into(),
        Some(spread) => format!("{:.1} %", spread.relative() * 100.0),
        None => "-".into(),
    }
}

/// What stands below a table: page cache, threads, what failed.
pub(super) fn notes(section: &Section<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let name = |cell: &CellReport| format!("{}, depth {}", cell.cell.engine, cell.cell.iodepth);
    for cell in &section.cells {
        if let Some(why) = &cell.failed {
            notes.push(format!("{}: {why}", name(cell)));
        }
    }
    let measured: Vec<&&CellReport> = section.cells.iter().filter(|c| !c.rounds.is_empty()).collect();
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
    notes
}

/// Of the whole report.
pub(super) fn remarks(report: &Report) -> Vec<String> {
    let mut remarks = Vec::new();
    if report.interrupted {
        remarks.push("Interrupted: cells have fewer rounds than were asked for, or none.".into());
    }
    remarks.extend(report.left_out.iter().map(|why| format!("Left out: {why}")));
    remarks.push(match report.counters.as_str() {
        "none" => "System calls were not counted.".into(),
        method => {
            format!("System calls were counted by {method}, in a round of its own whose times are not told.")
        }
    });
    remarks.extend(report.not_seen.iter().map(|what| format!("Not seen: {what}.")));
    remarks
}

/// System calls and CPU of each thread, for whoever wants to know why.
pub(super) fn costs(cell: &CellReport) -> Option<String> {
    let round = cell.rounds.last()?;
    let threads: Vec<String> = round
        .used
        .threads
        .iter()
        .take(4)
        .map(|t| format!("{} {}", t.name, units::seconds(t.cpu_s)))
        .collect();
    let mut text = format!("CPU: {}", threads.join(", "));
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
