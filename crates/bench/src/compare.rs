//! Comparison of two reports of the same work, cell by cell: what has changed, and whether that is more than
//! chance.

use crate::report::{CellReport, Report};
use crate::stats::{mann_whitney, Spread, ROUNDS_NEEDED, SIGNIFICANT};
use crate::verdict::{formatted, less_is_better};
use serde::Serialize;

/// Change of a number between two reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Better, beyond chance.
    Better,
    /// Worse, beyond chance.
    Worse,
    /// No difference was shown, although there were enough rounds.
    Same,
    /// Too few rounds to tell anything.
    Unknown,
}

/// A cell that both reports have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The engine.
    pub engine: String,
    /// The work.
    pub work: String,
    /// Values of the first report.
    pub before: Spread,
    /// Values of the second report.
    pub after: Spread,
    /// Median of the second report as a share of the first's.
    pub ratio: f64,
    /// Probability that rounds of one source fall this far apart (Mann-Whitney, two-sided).
    pub p: f64,
    /// Verdict on the change.
    pub change: Change,
    /// Both numbers with their unit.
    pub shown: (String, String),
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Cells that both reports have.
    pub pairs: Vec<Pair>,
    /// Cells that only one report has.
    pub unmatched: Vec<String>,
    /// Differences between the machines, and the seeds.
    pub differences: Vec<String>,
}

/// Compares the second report with the first.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let measured = |report: &Report| -> Vec<CellReport> {
        report
            .cells
            .iter()
            .filter(|c| !c.rounds.is_empty())
            .cloned()
            .collect()
    };
    let (first, mut second) = (measured(before), measured(after));
    let mut pairs = Vec::new();
    let mut unmatched = Vec::new();
    for a in &first {
        match second.iter().position(|b| b.cell == a.cell) {
            Some(index) => pairs.extend(pair(a, &second.remove(index))),
            None => unmatched.push(format!(
                "only in the first: {}, {}",
                a.cell.contender(),
                a.cell.work()
            )),
        }
    }
    unmatched.extend(
        second
            .iter()
            .map(|b| format!("only in the second: {}, {}", b.cell.contender(), b.cell.work())),
    );
    let lines = before.environment.lines();
    let others = after.environment.lines();
    let value = |name: &str| {
        others
            .iter()
            .find(|line| line.0 == name)
            .map_or("-", |line| &line.1)
    };
    let differs = |(name, was): &(&str, String)| {
        // The load always differs.
        (*name != "load before" && was != value(name)).then(|| format!("{name}: {was}; then {}", value(name)))
    };
    let mut differences: Vec<String> = lines.iter().filter_map(differs).collect();
    if before.seed != after.seed {
        differences.push(format!("seed: {}; then {}", before.seed, after.seed));
    }
    Comparison {
        pairs,
        unmatched,
        differences,
    }
}

fn pair(a: &CellReport, b: &CellReport) -> Option<Pair> {
    let measure = a.cell.measure();
    let (x, y) = (a.values(measure), b.values(measure));
    let (before, after) = (Spread::of(&x)?, Spread::of(&y)?);
    let p = mann_whitney(&x, &y)?;
    let better = (after.median < before.median) == less_is_better(measure);
    let change = match p {
        _ if x.len() < ROUNDS_NEEDED || y.len() < ROUNDS_NEEDED => Change::Unknown,
        p if p >= SIGNIFICANT => Change::Same,
        _ if better => Change::Better,
        _ => Change::Worse,
    };
    Some(Pair {
        engine: a.cell.contender(),
        work: a.cell.work(),
        ratio: after.median / before.median,
        p,
        change,
        shown: (
            formatted(before.median, measure),
            formatted(after.median, measure),
        ),
        before,
        after,
    })
}

impl Comparison {
    /// Formats the comparison for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for pair in &self.pairs {
            let verdict = match pair.change {
                Change::Better => "better",
                Change::Worse => "WORSE",
                Change::Same => "no difference shown",
                Change::Unknown => "too few rounds to tell (4 on each side at least)",
            };
            out += &format!(
                "{}, {}: {} -> {} ({:+.1} %), p = {:.3}: {verdict}\n",
                pair.engine,
                pair.work,
                pair.shown.0,
                pair.shown.1,
                (pair.ratio - 1.0) * 100.0,
                pair.p
            );
        }
        for line in self.unmatched.iter().chain(&self.differences) {
            out += &format!("{line}\n");
        }
        let how = "two-sided, exact up to 40 of them";
        out + &format!("A change counts if the Mann-Whitney test over the rounds has p < 0.05 ({how}).\n")
    }

    /// Returns true if anything became worse.
    pub fn is_worse(&self) -> bool {
        self.pairs.iter().any(|pair| pair.change == Change::Worse)
    }
}
