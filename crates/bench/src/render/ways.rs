//! The table of a section whose cells read and write: a row for each way, as in fio's report.

use super::rows::{percentile, Section};
use crate::report::{CellReport, Distribution, Round, Way};
use crate::units;

pub(super) const HEAD: [&str; 10] = [
    "engine", "depth", "way", "time", "IOPS", "GB/s", "mean", "p50", "p99", "p99.9",
];

/// Note on the table's columns.
pub(super) const NOTE: &str =
    "reads and writes apart: their times are the parts of the whole time, divided as ops of each \
     way were in flight";

type Picked = for<'a> fn(&'a Round) -> &'a Way;

/// Returns the rows; none unless a cell of the section both reads and writes.
pub(super) fn rows(section: &Section<'_>) -> Vec<Vec<String>> {
    let both = |cell: &&&CellReport| {
        cell.cell.io().is_some() && cell.read_latency.is_some() && cell.write_latency.is_some()
    };
    let ways = |cell: &&CellReport| {
        let one = |name, picked: Picked, latency: &Option<Distribution>| row(cell, name, picked, latency);
        [
            one("read", |round| &round.read, &cell.read_latency),
            one("write", |round| &round.write, &cell.write_latency),
        ]
    };
    section.cells.iter().filter(both).flat_map(ways).collect()
}

fn row(cell: &CellReport, name: &str, picked: Picked, latency: &Option<Distribution>) -> Vec<String> {
    let median = |value: &dyn Fn(&Round) -> f64| cell.spread(value).map_or(0.0, |spread| spread.median);
    let of = |value: fn(&Way) -> f64| median(&|round| value(picked(round)));
    let few = cell
        .rounds
        .iter()
        .map(|round| picked(round).ios)
        .min()
        .unwrap_or(0);
    let some = |time_s: f64| Some(time_s).filter(|_| latency.is_some());
    vec![
        cell.cell.contender(),
        cell.cell.depth().map_or(String::new(), |depth| depth.to_string()),
        name.to_owned(),
        units::seconds(median(&|round| part_s(round, picked(round)))),
        units::number(of(|way| way.iops)),
        units::number(of(|way| way.bytes_per_s / 1e9)),
        units::seconds(of(|way| way.mean_s)),
        percentile(some(of(|way| way.p50_s)), 50.0, few),
        percentile(some(of(|way| way.p99_s)), 99.0, few),
        percentile(some(of(|way| way.p999_s)), 99.9, few),
    ]
}

/// Returns the part of a round's time that belongs to reads or to writes.
fn part_s(round: &Round, way: &Way) -> f64 {
    let in_flight_s = |way: &Way| way.mean_s * way.ios as f64;
    let all_s = in_flight_s(&round.read) + in_flight_s(&round.write);
    match all_s > 0.0 {
        true => round.elapsed_s * in_flight_s(way) / all_s,
        false => 0.0,
    }
}
