//! One page with everything in it: no other file, no network, no script.

use super::chart::{self, escaped, PALETTE};
use super::figures::{contenders, figures};
use super::grid::grids;
use super::rows::{costs, notes, remarks, sections, Section};
use super::ways;
use crate::report::Report;
use crate::units;

/// Formats the page.
pub fn html(report: &Report) -> String {
    let contenders = contenders(report);
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
    for grid in grids(report) {
        let head: Vec<&str> = grid.head.iter().map(String::as_str).collect();
        body += &format!("<h2>{}</h2>\n{}", escaped(&grid.title), tabled(&head, &grid.rows));
    }
    for section in sections(report) {
        body += &part(&section, &contenders);
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

fn part(section: &Section<'_>, contenders: &[String]) -> String {
    let mut out = format!("<h2>{}</h2>\n", escaped(&section.title));
    for figure in figures(section, contenders) {
        out += &format!(
            "<figure>{}<figcaption>{}</figcaption></figure>\n",
            figure.svg,
            escaped(&figure.caption)
        );
    }
    out += &table(section);
    out
}

fn table(section: &Section<'_>) -> String {
    let mut out = tabled(section.head(), &section.rows());
    let ways = ways::rows(section);
    if !ways.is_empty() {
        out += &format!("<p>{}</p>\n{}", escaped(ways::NOTE), tabled(&ways::HEAD, &ways));
    }
    out += "<ul>\n";
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

fn tabled(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=\"wide\"><table>\n<tr>");
    for name in head {
        out += &format!("<th>{}</th>", escaped(name));
    }
    out += "</tr>\n";
    for row in rows {
        out += "<tr>";
        for cell in row {
            out += &format!("<td>{}</td>", escaped(cell));
        }
        out += "</tr>\n";
    }
    out + "</table></div>\n"
}

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
