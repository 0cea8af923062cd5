//! Tables for a terminal, and in Markdown.

use super::grid::grids;
use super::rows::{costs, notes, remarks, sections};
use super::ways;
use crate::report::Report;

/// Formats a report for a terminal.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    for grid in grids(report) {
        let head: Vec<&str> = grid.head.iter().map(String::as_str).collect();
        out += &format!("{}\n{}\n", grid.title, aligned(&head, &grid.rows));
    }
    for section in sections(report) {
        out += &format!("{}\n", section.title);
        out += &aligned(section.head(), &section.rows());
        let ways = ways::rows(&section);
        if !ways.is_empty() {
            out += &format!("  {}\n{}", ways::NOTE, aligned(&ways::HEAD, &ways));
        }
        for note in notes(&section) {
            out += &format!("  {note}\n");
        }
        for cell in &section.cells {
            if let Some(costs) = costs(cell) {
                out += &format!("  {}: {costs}\n", cell.cell.label());
            }
        }
        out.push('\n');
    }
    for verdict in &report.verdicts {
        out += &format!("{}: {}\n\n", verdict.work, verdict.text);
    }
    for remark in remarks(report) {
        out += &format!("{remark}\n");
    }
    out
}

fn aligned(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| {
        all.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for row in all {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(i, (cell, width))| match i {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        out += &format!("  {}\n", cells.join("  ").trim_end());
    }
    out
}

/// Formats a report in Markdown.
pub fn markdown(report: &Report) -> String {
    let mut out = String::from("# proactor bench\n\n");
    for verdict in &report.verdicts {
        out += &format!("- **{}**: {}\n", verdict.work, escaped(&verdict.text));
    }
    for grid in grids(report) {
        let head: Vec<&str> = grid.head.iter().map(String::as_str).collect();
        out += &format!("\n## {}\n\n{}", grid.title, piped(&head, &grid.rows));
    }
    for section in sections(report) {
        out += &format!(
            "\n## {}\n\n{}\n",
            section.title,
            piped(section.head(), &section.rows())
        );
        let ways = ways::rows(&section);
        if !ways.is_empty() {
            out += &format!("{}\n\n{}\n", ways::NOTE, piped(&ways::HEAD, &ways));
        }
        for note in notes(&section) {
            out += &format!("- {}\n", escaped(&note));
        }
        for cell in &section.cells {
            if let Some(costs) = costs(cell) {
                out += &format!("- {}: {}\n", cell.cell.label(), escaped(&costs));
            }
        }
    }
    out += "\n## Where and how\n\n";
    for (name, value) in report.environment.lines() {
        out += &format!("- {name}: {}\n", escaped(&value));
    }
    out += &format!(
        "- begun {}, took {:.0} s, seed {}\n",
        report.started, report.took_s, report.seed
    );
    for remark in remarks(report) {
        out += &format!("- {}\n", escaped(&remark));
    }
    out += &format!("\n```\n{}\n```\n", report.command.join(" "));
    out
}

fn piped(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len()));
    for row in rows {
        out += &format!("| {} |\n", row.join(" | "));
    }
    out
}

/// Escapes characters that have a meaning in Markdown.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if matches!(c, '*' | '_' | '|' | '<' | '`' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
