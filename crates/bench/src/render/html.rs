//! One page with everything in it: no other file, no network, no script.

use super::chart::{self, bars, decades, escaped, lines, steps, Axis, Bar, Line};
use super::rows::{costs, notes, remarks, sections, Section};
use crate::report::{CellReport, Distribution, Report};
use crate::stats::Spread;
use crate::units;
use crate::verdict::{less_is_better, told};

/// The page.
pub fn html(report: &Report) -> String {
    let engines = engines(report);
    let mut body = String::from("<h1>proactor bench</h1>\n");
    body += &format!(
        "<p>{}, {} rounds, begun {}, took {}.</p>\n",
        plural(report.cells.len(), "cell"),
        report.rounds,
        escaped(&report.started),
        units::clock(std::time::Duration::from_secs_f64(report.took_s.max(0.0)))
    );
    if !report.verdicts.is_empty() {
        body += "<h2>Verdict</h2>\n";
    }
    for verdict in &report.verdicts {
        body += &format!(
            "<div class=\"verdict\"><h3>{}</h3><p>{}</p></div>\n",
            escaped(&verdict.work),
            escaped(&verdict.text)
        );
    }
    for section in sections(report) {
        body += &part(&section, &engines);
    }
    body += "<h2>Where and how</h2>\n<table class=\"facts\">\n";
    for (name, value) in report.environment.lines() {
        body += &format!("<tr><th>{name}</th><td>{}</td></tr>\n", escaped(&value));
    }
    body += "</table>\n<ul>\n";
    for remark in remarks(report) {
        body += &format!("<li>{}</li>\n", escaped(&remark));
    }
    body += &format!(
        "</ul>\n<p>To repeat it:</p>\n<pre>{}</pre>\n",
        escaped(&report.command.join(" "))
    );
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>proactor bench</title>\n\
         <style>{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        style()
    )
}

fn plural(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Each has its colour on the whole page.
fn engines(report: &Report) -> Vec<String> {
    let mut engines: Vec<String> = Vec::new();
    for cell in &report.cells {
        if !engines.contains(&cell.cell.contender()) {
            engines.push(cell.cell.contender());
        }
    }
    engines
}

fn part(section: &Section<'_>, engines: &[String]) -> String {
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
    let mut out = format!("<h2>{}</h2>\n", escaped(&section.title));
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
                shown: told(spread.median, measure),
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
        let title = format!(
            "{measure}, by {}; {better} is better, the thin line spans all rounds",
            by
        );
        out += &figure(&title, &bars(&format!("{}: {title}", section.title), &shown));
    }
    out += &latencies(section, &colour, &label);
    out += &depths(section, engines);
    out += &table(section);
    out
}

fn figure(caption: &str, svg: &str) -> String {
    format!(
        "<figure>{svg}<figcaption>{}</figcaption></figure>\n",
        escaped(caption)
    )
}

/// How far a percentile is from 100, as a place: 90, 99 and 99.9 are as far from each other.
fn nines(percentile: f64) -> f64 {
    const END: f64 = 99.995;
    -(1.0 - percentile.min(END) / 100.0).log10()
}

fn latencies(
    section: &Section<'_>,
    colour: &dyn Fn(&CellReport) -> usize,
    label: &dyn Fn(&CellReport) -> String,
) -> String {
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
        return String::new();
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
    figure(
        title,
        &lines(&format!("{}: {title}", section.title), &across, &up, &curves),
    )
}

fn depths(section: &Section<'_>, engines: &[String]) -> String {
    let of = |engine: &str| {
        let engine = engine.to_owned();
        section.cells.iter().filter(move |c| c.cell.contender() == engine)
    };
    if !engines.iter().any(|engine| of(engine).count() > 1) {
        return String::new();
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
    let mut out = String::new();
    let up = Axis {
        name: "IOPS".into(),
        place: |value| value,
        marks: steps(iops.iter().flat_map(|l| &l.points).map(|p| p.1)),
    };
    let title = "depth against IOPS, medians of the rounds";
    out += &figure(
        title,
        &lines(&format!("{}: {title}", section.title), &across(&iops), &up, &iops),
    );
    let up = Axis {
        name: "99th percentile".into(),
        place: f64::log10,
        marks: decades(p99.iter().flat_map(|l| &l.points).map(|p| p.1), units::seconds),
    };
    let title = "depth against the 99th percentile of the time of one op, medians of the rounds";
    out += &figure(
        title,
        &lines(&format!("{}: {title}", section.title), &across(&p99), &up, &p99),
    );
    out
}

fn table(section: &Section<'_>) -> String {
    let mut out = String::from("<div class=\"wide\"><table>\n<tr>");
    for name in section.head() {
        out += &format!("<th>{name}</th>");
    }
    out += "</tr>\n";
    for row in section.rows() {
        out += "<tr>";
        for cell in row {
            out += &format!("<td>{}</td>", escaped(&cell));
        }
        out += "</tr>\n";
    }
    out += "</table></div>\n<ul>\n";
    for note in notes(section) {
        out += &format!("<li>{}</li>\n", escaped(&note));
    }
    for cell in &section.cells {
        if let Some(costs) = costs(cell) {
            out += &format!("<li>{}: {}</li>\n", escaped(&cell.cell.label()), escaped(&costs));
        }
    }
    out + "</ul>\n"
}

/// A colour each for light and for dark, that are told apart also by who sees no red or green.
const PALETTE: [(&str, &str); chart::COLOURS] = [
    ("#4477aa", "#77aadd"),
    ("#ee7733", "#ee8866"),
    ("#228833", "#44bb99"),
    ("#aa3377", "#ee99bb"),
    ("#997700", "#eedd88"),
    ("#0099aa", "#99ddff"),
    ("#994455", "#ffaabb"),
    ("#555555", "#bbbbbb"),
];

fn style() -> String {
    let colours = |pick: fn(&(&str, &str)) -> String| -> String {
        let one = |(i, pair): (usize, &(&str, &str))| format!("--c{i}:{};", pick(pair));
        PALETTE.iter().enumerate().map(one).collect()
    };
    let classes: String = (0..chart::COLOURS)
        .map(|i| format!(".c{i}{{fill:var(--c{i})}}.s{i}{{stroke:var(--c{i})}}"))
        .collect();
    format!(
        ":root{{--ink:#1a1a1a;--paper:#fff;--faint:#d8d8d8;--box:#f4f4f4;{}}}\n\
         @media (prefers-color-scheme:dark){{:root{{--ink:#e6e6e6;--paper:#16181b;--faint:#3a3d42;--box:#212429;{}}}}}\n\
         @media print{{:root{{--ink:#000;--paper:#fff;--faint:#ccc;--box:#fff;{}}}figure,tr{{break-inside:avoid}}\
         .wide{{overflow:visible}}table{{font-size:8pt}}}}\n\
         body{{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}}\n\
         main{{max-width:60rem;margin:0 auto;padding:1rem}}\nfigure{{margin:1.5rem 0}}\n\
         figcaption{{font-size:.85rem;opacity:.8}}\nsvg{{width:100%;height:auto;font:13px system-ui,sans-serif}}\n\
         svg text{{fill:var(--ink)}}.end{{text-anchor:end}}.middle{{text-anchor:middle}}\n\
         .spread{{stroke:var(--ink);stroke-width:1.5;fill:none}}.grid{{stroke:var(--faint);fill:none}}\n\
         .line{{fill:none;stroke-width:2}}{classes}\n\
         .wide{{overflow-x:auto}}table{{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}}\n\
         th,td{{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--faint);white-space:nowrap}}\n\
         th:first-child,td:first-child,.facts td{{text-align:left}}.facts td{{white-space:normal}}\n\
         .verdict,pre{{background:var(--box);padding:.5rem 1rem;border-radius:.5rem;margin:1rem 0}}\n\
         .verdict h3{{margin:.2rem 0;font-size:1rem}}.verdict p{{margin:.2rem 0}}\n\
         pre{{overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}}ul{{font-size:.85rem}}li{{overflow-wrap:anywhere}}\n",
        colours(|pair| pair.0.into()),
        colours(|pair| pair.1.into()),
        colours(|pair| pair.0.into()),
    )
}
