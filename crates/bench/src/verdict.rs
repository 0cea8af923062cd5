//! Conclusions from the numbers, in words, and no more than they support.

use crate::job::Measure;
use crate::report::{ops_needed, CellReport, Report, MEMORY_SHARE};
use crate::stats::{mann_whitney, Spread, ROUNDS_NEEDED, SIGNIFICANT};
use crate::units;
use serde::{Deserialize, Serialize};

/// Verdict on the engines for one kind of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The work.
    pub work: String,
    /// Number by which they are compared.
    pub measure: Measure,
    /// Engines that no other one is shown to beat, the best median first.
    pub best: Vec<String>,
    /// Sentences of the verdict.
    pub text: String,
}

/// Returns a verdict for each kind of work that at least two engines did.
pub fn verdicts(report: &Report) -> Vec<Verdict> {
    let measured: Vec<&CellReport> = report.cells.iter().filter(|c| !c.rounds.is_empty()).collect();
    let mut verdicts: Vec<Verdict> = Vec::new();
    for leader in &measured {
        let group: Vec<&CellReport> = measured
            .iter()
            .filter(|c| c.cell.same_work(&leader.cell))
            .copied()
            .collect();
        // `sync` is in the group of every depth, but a group is named after those that have one.
        let stands_in = leader.cell.has_no_depth() && group.iter().any(|c| !c.cell.has_no_depth());
        let known = verdicts.iter().any(|v| v.work == leader.cell.work());
        if group.len() > 1 && !known && !stands_in {
            verdicts.push(verdict(&group, leader));
        }
    }
    verdicts
}

fn verdict(group: &[&CellReport], leader: &CellReport) -> Verdict {
    let measure = leader.cell.measure();
    let mut ranked: Vec<(&CellReport, Spread)> = group
        .iter()
        .filter_map(|cell| Some((*cell, Spread::of(&cell.values(measure))?)))
        .collect();
    let from_memory: Vec<&CellReport> = ranked
        .iter()
        .map(|one| one.0)
        .filter(|cell| cell.from_memory().is_some_and(|share| share > MEMORY_SHARE))
        .collect();
    if !from_memory.is_empty() {
        return unranked(leader, measure, &from_memory);
    }
    ranked.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    if !less_is_better(measure) {
        ranked.reverse();
    }
    let (best, _) = ranked[0];
    let beaten = |other: &CellReport| is_different(best, other, measure);
    let ties: Vec<&CellReport> = ranked[1..].iter().map(|r| r.0).filter(|c| !beaten(c)).collect();
    let mut text = opening(&ranked, &ties, measure);
    text += &rest(&ranked, &ties, measure);
    text += &why(best, &ranked, &ties);
    text += &doubts(&ranked, measure);
    Verdict {
        work: leader.cell.work(),
        measure,
        best: std::iter::once(best)
            .chain(ties)
            .map(|c| c.cell.contender())
            .collect(),
        text,
    }
}

/// Returns a verdict without a ranking: what came from memory says nothing of the device that was to be
/// measured.
fn unranked(leader: &CellReport, measure: Measure, from_memory: &[&CellReport]) -> Verdict {
    let share = from_memory.iter().filter_map(|cell| cell.from_memory());
    let percent = share.fold(0.0, f64::max) * 100.0;
    let advice = match leader.cell.cache().0 {
        true => "the file has holes, is in memory itself, or lies on a file system whose reads the kernel does not count",
        false => "a larger --size or --time_based 0 reads each block once, --pre_read compares reads from memory",
    };
    Verdict {
        work: leader.cell.work(),
        measure,
        best: Vec::new(),
        text: format!(
            "Not ranked: up to {percent:.0} % of what was read came from memory and not from a device ({}): {advice}.",
            names(from_memory)
        ),
    }
}

/// Returns true if a smaller number is better.
pub fn less_is_better(measure: Measure) -> bool {
    matches!(measure, Measure::Time | Measure::Latency | Measure::Cpu)
}

/// Returns true if the rounds of two cells differ beyond chance.
fn is_different(a: &CellReport, b: &CellReport, measure: Measure) -> bool {
    mann_whitney(&a.values(measure), &b.values(measure)).is_some_and(|p| p < SIGNIFICANT)
}

/// Formats a number with its unit.
pub fn formatted(value: f64, measure: Measure) -> String {
    match measure {
        Measure::Time | Measure::Latency | Measure::Cpu => units::seconds(value),
        Measure::Iops => format!("{} IOPS", units::number(value)),
        Measure::Bandwidth => format!("{} GB/s", units::number(value / 1e9)),
    }
}

fn opening(ranked: &[(&CellReport, Spread)], ties: &[&CellReport], measure: Measure) -> String {
    let (best, spread) = &ranked[0];
    let number = formatted(spread.median, measure);
    let engine = best.cell.contender();
    let what = match measure {
        Measure::Latency => "the shortest 99th percentile",
        Measure::Time => "the shortest time",
        Measure::Cpu => "the least CPU for a request",
        Measure::Iops | Measure::Bandwidth => "the most",
    };
    if ties.is_empty() {
        return format!("{engine} has {what}: {number}.");
    }
    let others = names(ties);
    format!("{engine} has {what}, {number}, but these rounds do not tell it apart from {others}.")
}

fn names(cells: &[&CellReport]) -> String {
    let names: Vec<String> = cells.iter().map(|c| c.cell.contender()).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Describes by how much the others are behind.
fn rest(ranked: &[(&CellReport, Spread)], ties: &[&CellReport], measure: Measure) -> String {
    let best = ranked[0].1.median;
    let behind: Vec<String> = ranked[1..]
        .iter()
        .filter(|(cell, _)| !ties.iter().any(|tie| std::ptr::eq(*tie, *cell)))
        .map(|(cell, spread)| {
            let part = if less_is_better(measure) {
                format!("{} times as long", units::number(spread.median / best))
            } else {
                format!("{} of it", percent(spread.median / best))
            };
            format!("{} {part}", cell.cell.contender())
        })
        .collect();
    if behind.is_empty() {
        return String::new();
    }
    format!(" Behind it: {}.", behind.join(", "))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Compares the counters of the best and the last engine.
fn why(best: &CellReport, ranked: &[(&CellReport, Spread)], ties: &[&CellReport]) -> String {
    let (last, _) = ranked[ranked.len() - 1];
    if ties.iter().any(|tie| std::ptr::eq(*tie, last)) {
        return String::new();
    }
    let mut facts = Vec::new();
    let mut fact = |name: &str, of: &dyn Fn(&CellReport) -> Option<f64>, show: fn(f64) -> String| {
        if let (Some(a), Some(b)) = (of(best), of(last)) {
            facts.push(format!("{} {name} against {}", show(a), show(b)));
        }
    };
    fact(
        "system calls",
        &|c| Some(c.counted.as_ref()?.per_op()),
        units::number,
    );
    let switches = |c: &CellReport| c.spread(crate::report::Round::switches_per_op).map(|s| s.median);
    fact("context switches", &switches, units::number);
    fact(
        "of CPU",
        &|c| c.spread(crate::report::Round::cpu_per_op).map(|s| s.median),
        units::seconds,
    );
    format!(
        " For each op, {} needs {} ({}).",
        best.cell.contender(),
        facts.join(", "),
        last.cell.contender()
    )
}

/// Describes the reasons to doubt the result.
fn doubts(ranked: &[(&CellReport, Spread)], measure: Measure) -> String {
    let mut text = String::new();
    let fewest = ranked
        .iter()
        .map(|(cell, _)| cell.rounds.len())
        .min()
        .unwrap_or(0);
    if fewest < ROUNDS_NEEDED {
        text += &format!(
            " With {fewest} rounds no difference can be shown: at least {ROUNDS_NEEDED} are needed."
        );
    }
    if let [(_, first), (second, next), ..] = ranked {
        let gap = (first.median - next.median).abs() / first.median.abs().max(f64::MIN_POSITIVE);
        let noise = first.relative().max(next.relative());
        if noise > gap {
            text += &format!(
                " The rounds of the first two spread by {}, more than they differ ({}; {} has {}).",
                percent(noise),
                percent(gap),
                second.cell.contender(),
                formatted(next.median, measure)
            );
        }
    }
    let few = ranked
        .iter()
        .map(|(cell, _)| cell.fewest_ops())
        .min()
        .unwrap_or(0);
    if measure == Measure::Latency && few < ops_needed(99.0) {
        text += &format!(" A round has {few} ops, of which the 99th percentile is the longest.");
    }
    let wrong: Vec<&CellReport> = ranked
        .iter()
        .map(|r| r.0)
        .filter(|c| c.cache_is_wrong())
        .collect();
    if !wrong.is_empty() {
        text += &format!(" The page cache was not as it should be for {}.", names(&wrong));
    }
    text
}
