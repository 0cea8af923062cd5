//! Choice of the charts of a report.

use super::chart::{bars, decades, lines, steps, Axis, Bar, Line};
use super::rows::Section;
use crate::report::{CellReport, Distribution, Report};
use crate::stats::Spread;
use crate::units;
use crate::verdict::{formatted, less_is_better};

/// A chart that is embedded in a page.
pub(super) struct Figure {
    /// Kind of the chart, for a file's name.
    pub name: &'static str,
    pub caption: String,
    pub svg: String,
}

impl Figure {
    fn new(name: &'static str, caption: String, svg: String) -> Figure {
        Figure { name, caption, svg }
    }
}

/// Returns the contenders; each has one colour in the whole report.
pub(super) fn contenders(report: &Report) -> Vec<String> {
    let mut engines: Vec<String> = Vec::new();
    for cell in &report.cells {
        if !engines.contains(&cell.cell.contender()) {
            engines.push(cell.cell.contender());
        }
    }
    engines
}

/// Returns the charts of a section.
pub(super) fn figures(section: &Section<'_>, engines: &[String]) -> Vec<Figure> {
    let colour = |cell: &CellReport| {
        engines
            .iter()
            .position(|e| *e == cell.cell.contender())
            .unwrap_or(0)
    };
    let label = |cell: &CellReport| match cell.cell.depth() {
        Some(depth) => format!("{}, {depth}", cell.cell.contender()),
        None => cell.cell.contender(),
    };
    let mut found = Vec::new();
    let measure = section.measure;
    let shown: Vec<Bar> = section
        .cells
        .iter()
        .filter_map(|cell| {
            let spread = Spread::of(&cell.values(measure))?;
            Some(Bar {
                label: label(cell),
                value: spread.median,
                low: spread.min,
                high: spread.max,
                shown: formatted(spread.median, measure),
                colour: colour(cell),
            })
        })
        .collect();
    if !shown.is_empty() {
        let by = if section.has_depths() {
            "engine and depth"
        } else {
            "contender"
        };
        let better = if less_is_better(measure) { "less" } else { "more" };
        let title = format!("{measure}, by {by}; {better} is better, the thin line spans all rounds");
        let svg = bars(&format!("{}: {title}", section.title), &shown);
        found.push(Figure::new("bars", title, svg));
    }
    found.extend(latencies(section, &colour, &label));
    found.extend(depths(section, engines));
    found
}

/// Returns the position of a percentile by its distance from 100: 90, 99 and 99.9 are equally far apart.
fn nines(percentile: f64) -> f64 {
    const END: f64 = 99.995;
    -(1.0 - percentile.min(END) / 100.0).log10()
}

fn latencies(
    section: &Section<'_>,
    colour: &dyn Fn(&CellReport) -> usize,
    label: &dyn Fn(&CellReport) -> String,
) -> Option<Figure> {
    // Lines of many depths would hide each other: those of the deepest tell the engines apart.
    let deepest = section.cells.iter().filter_map(|c| c.cell.depth()).max();
    let chosen = section
        .cells
        .iter()
        .filter(|c| c.cell.has_no_depth() || c.cell.depth() == deepest);
    let curves: Vec<Line> = chosen
        .filter_map(|cell| {
            let latency: &Distribution = cell.read_latency.as_ref().or(cell.write_latency.as_ref())?;
            Some(Line {
                label: label(cell),
                points: latency.percentiles.clone(),
                colour: colour(cell),
            })
        })
        .collect();
    if curves.is_empty() {
        return None;
    }
    let across = Axis {
        name: "percentile of the ops".into(),
        place: nines,
        marks: [50.0, 90.0, 99.0, 99.9, 99.99]
            .map(|p| (p, p.to_string()))
            .to_vec(),
    };
    let up = Axis {
        name: "time of one op".into(),
        place: f64::log10,
        marks: decades(curves.iter().flat_map(|c| &c.points).map(|p| p.1), units::seconds),
    };
    let title = "how long ops took (reads, where there are some), all rounds together";
    let svg = lines(&format!("{}: {title}", section.title), &across, &up, &curves);
    Some(Figure::new("latencies", title.into(), svg))
}

fn depths(section: &Section<'_>, engines: &[String]) -> Vec<Figure> {
    let of = |engine: &str| {
        let engine = engine.to_owned();
        section.cells.iter().filter(move |c| c.cell.contender() == engine)
    };
    if !engines.iter().any(|engine| of(engine).count() > 1) {
        return Vec::new();
    }
    let curve = |value: &dyn Fn(&CellReport) -> Option<f64>| -> Vec<Line> {
        let line = |(colour, engine): (usize, &String)| {
            let mut points: Vec<(f64, f64)> = of(engine)
                .filter_map(|c| Some((f64::from(c.cell.depth()?), value(c)?)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (!points.is_empty()).then(|| Line {
                label: engine.clone(),
                points,
                colour,
            })
        };
        engines.iter().enumerate().filter_map(line).collect()
    };
    let marks = |lines: &[Line]| {
        let mut depths: Vec<f64> = lines.iter().flat_map(|l| &l.points).map(|p| p.0).collect();
        depths.sort_by(f64::total_cmp);
        depths.dedup();
        depths
            .into_iter()
            .map(|depth| (depth, depth.to_string()))
            .collect()
    };
    let iops = curve(&|c| c.spread(|r| r.all.iops).map(|s| s.median));
    let p99 = curve(&|c| c.spread(|r| r.all.p99_s).map(|s| s.median));
    let across = |lines: &[Line]| Axis {
        name: "depth".into(),
        place: f64::log2,
        marks: marks(lines),
    };
    let mut found = Vec::new();
    let up = Axis {
        name: "IOPS".into(),
        place: |value| value,
        marks: steps(iops.iter().flat_map(|l| &l.points).map(|p| p.1)),
    };
    let title = "depth against IOPS, medians of the rounds";
    let svg = lines(&format!("{}: {title}", section.title), &across(&iops), &up, &iops);
    found.push(Figure::new("iops", title.into(), svg));
    let up = Axis {
        name: "99th percentile".into(),
        place: f64::log10,
        marks: decades(p99.iter().flat_map(|l| &l.points).map(|p| p.1), units::seconds),
    };
    let title = "depth against the 99th percentile of the time of one op, medians of the rounds";
    let svg = lines(&format!("{}: {title}", section.title), &across(&p99), &up, &p99);
    found.push(Figure::new("p99", title.into(), svg));
    found
}
