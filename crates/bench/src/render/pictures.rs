//! Each chart as a separate SVG file, for a README: its colours are in it, and follow light and dark where
//! the viewer supports that.

use super::chart::{escaped, PALETTE};
use super::figures::{contenders, figures, Figure};
use super::rows::sections;
use crate::report::Report;

const PAPER: (&str, &str) = ("#ffffff", "#16181b");
const INK: (&str, &str) = ("#1a1a1a", "#e6e6e6");
const FAINT: (&str, &str) = ("#d8d8d8", "#3a3d42");
/// Space above the chart, for its title.
const HEAD: f64 = 48.0;
const WIDTH: f64 = 720.0;

/// Returns the names of the files, without an ending, and their contents.
pub fn pictures(report: &Report) -> Vec<(String, String)> {
    let contenders = contenders(report);
    let mut found = Vec::new();
    for (number, section) in (1..).zip(sections(report)) {
        for figure in figures(&section, &contenders) {
            let name = format!("{number:02}-{}-{}", slug(&section.title), figure.name);
            found.push((name, alone(&section.title, &figure)));
        }
    }
    found
}

/// Returns a title as a safe file name of bounded length.
fn slug(title: &str) -> String {
    const LONGEST: usize = 60;
    let word = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let mut text: String = title.chars().map(word).collect();
    while text.contains("--") {
        text = text.replace("--", "-");
    }
    text.truncate(LONGEST);
    text.trim_matches('-').to_owned()
}

fn alone(title: &str, figure: &Figure) -> String {
    let inner = &figure.svg;
    // `chart::svg` writes it this way.
    let height: f64 = inner
        .split("viewBox=\"0 0 720 ")
        .nth(1)
        .and_then(|rest| rest.split('"').next()?.parse().ok())
        .unwrap_or(WIDTH);
    let chart = inner.replacen(
        "<svg ",
        &format!("<svg x=\"0\" y=\"{HEAD}\" width=\"{WIDTH}\" height=\"{height}\" "),
        1,
    );
    let total = HEAD + height + 8.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{total}\" viewBox=\"0 0 {WIDTH} {total}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<style>{}@media (prefers-color-scheme:dark){{{}}}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{total}\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{}</text>\n<text x=\"12\" y=\"38\" font-size=\"12\">{}</text>\n\
         {chart}</svg>\n",
        style(|pair| pair.0),
        style(|pair| pair.1),
        escaped(title),
        escaped(&figure.caption)
    )
}

fn style(pick: fn((&'static str, &'static str)) -> &'static str) -> String {
    let colours = PALETTE.iter().enumerate().map(|(i, pair)| {
        let colour = pick(*pair);
        format!(".c{i}{{fill:{colour}}}.s{i}{{stroke:{colour}}}")
    });
    format!(
        "text{{fill:{ink}}}.paper{{fill:{}}}.end{{text-anchor:end}}.middle{{text-anchor:middle}}\
         .spread{{stroke:{ink};stroke-width:1.5;fill:none}}.grid{{stroke:{};fill:none}}.line{{fill:none;stroke-width:2}}{}",
        pick(PAPER),
        pick(FAINT),
        colours.collect::<String>(),
        ink = pick(INK),
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_files() {
        let name = super::slug("copy of ../My data: 5 files, 1.0 MiB");
        assert_eq!(name, "copy-of-my-data-5-files-1-0-mib");
        assert!(super::slug(&"long ".repeat(50)).len() <= 60);
    }
}
