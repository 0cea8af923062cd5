//! Charts as SVG that is embedded in a page: colours come from the page's style, so that they follow light
//! and dark.

use crate::units;

/// Width, which fits a phone when it is scaled down, and a page as it is.
const WIDTH: f64 = 720.0;
const BAR: f64 = 22.0;
const GAP: f64 = 8.0;
/// Bounds on the column of the bars' names, which is as wide as the longest.
const LABEL: (f64, f64) = (190.0, 320.0);
/// Space between a name and its bar.
const SPACE: f64 = 8.0;
const VALUE: f64 = 110.0;
const PLOT_HEIGHT: f64 = 280.0;
const MARGIN: f64 = 56.0;
/// Number of colours that can be told apart.
pub(super) const COLOURS: usize = 12;

/// Colours for light and for dark, which can also be told apart without seeing red or green.
pub(super) const PALETTE: [(&str, &str); COLOURS] = [
    ("#4477aa", "#77aadd"),
    ("#ee7733", "#ee8866"),
    ("#228833", "#44bb99"),
    ("#aa3377", "#ee99bb"),
    ("#997700", "#eedd88"),
    ("#0099aa", "#99ddff"),
    ("#994455", "#ffaabb"),
    ("#555555", "#bbbbbb"),
    ("#332288", "#aa99ff"),
    ("#882255", "#dd77aa"),
    ("#117733", "#88cc66"),
    ("#663311", "#cc9977"),
];

/// A bar with the range of its rounds.
pub(super) struct Bar {
    pub label: String,
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub shown: String,
    pub colour: usize,
}

/// A line through points.
pub(super) struct Line {
    pub label: String,
    pub points: Vec<(f64, f64)>,
    pub colour: usize,
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Estimates the width of a text in the pages' 13 px letters, for a wide font: the reader's font is not
/// known.
fn width(text: &str) -> f64 {
    let one = |c: char| match c {
        'W' | 'M' | 'm' | 'w' | '@' | '%' => 12.5,
        ' ' | '-' | '.' | ',' | ':' | ';' | '/' | '(' | ')' | '|' | 'f' | 'i' | 'j' | 'l' | 'r' | 't'
        | 'I' => 5.4,
        c if !c.is_ascii() => 13.0,
        c if c.is_ascii_uppercase() => 10.0,
        _ => 8.0,
    };
    text.chars().map(one).sum()
}

/// Returns the text of an element: cut where it would not fit, and then complete in a title, which a browser
/// shows on hovering.
fn fitted(text: &str, room: f64) -> String {
    if width(text) <= room {
        return escaped(text);
    }
    let mut cut = text.to_owned();
    while width(&cut) + width("…") > room && cut.pop().is_some() {}
    format!("{}…<title>{}</title>", escaped(cut.trim_end()), escaped(text))
}

fn svg(height: f64, title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\
         <title>{title}</title>\n{body}</svg>\n"
    )
}

pub(super) fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars
        .iter()
        .map(|bar| bar.high)
        .fold(0.0, f64::max)
        .max(f64::MIN_POSITIVE);
    let longest = bars.iter().map(|bar| width(&bar.label)).fold(0.0, f64::max);
    let column = (longest + 2.0 * SPACE).clamp(LABEL.0, LABEL.1);
    let room = WIDTH - column - VALUE;
    let x = |value: f64| column + value / most * room;
    let mut body = String::new();
    for (i, bar) in bars.iter().enumerate() {
        let y = GAP + i as f64 * (BAR + GAP);
        let middle = y + BAR / 2.0;
        body += &format!(
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            column - SPACE,
            middle + 4.5,
            fitted(&bar.label, column - 2.0 * SPACE)
        );
        body += &format!(
            "<rect class=\"c{}\" x=\"{column:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
            bar.colour % COLOURS,
            (x(bar.value) - column).max(0.5)
        );
        body += &format!(
            "<path class=\"spread\" d=\"M{:.1} {middle:.1}H{:.1}M{:.1} {:.1}v8M{:.1} {:.1}v8\"/>",
            x(bar.low),
            x(bar.high),
            x(bar.low),
            middle - 4.0,
            x(bar.high),
            middle - 4.0
        );
        body += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            x(bar.high) + 8.0,
            middle + 4.5,
            escaped(&bar.shown)
        );
    }
    svg(GAP + bars.len() as f64 * (BAR + GAP), title, &body)
}

/// Division of an axis.
pub(super) struct Axis {
    pub name: String,
    /// Maps a value to its position, before it is scaled.
    pub place: fn(f64) -> f64,
    /// Values with a mark.
    pub marks: Vec<(f64, String)>,
}

pub(super) fn lines(title: &str, across: &Axis, up: &Axis, lines: &[Line]) -> String {
    let places = |axis: &Axis, of: fn(&(f64, f64)) -> f64| {
        let marks = axis.marks.iter().map(|mark| (axis.place)(mark.0));
        let points = lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|point| (axis.place)(of(point)));
        marks
            .chain(points)
            .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (left, right) = places(across, |p| p.0);
    let (bottom, top) = places(up, |p| p.1);
    let scale = |value: f64, low: f64, high: f64, room: f64| {
        (value - low) / (high - low).max(f64::MIN_POSITIVE) * room
    };
    let x = |value: f64| MARGIN + 24.0 + scale((across.place)(value), left, right, WIDTH - 2.0 * MARGIN);
    let y = |value: f64| 16.0 + PLOT_HEIGHT - scale((up.place)(value), bottom, top, PLOT_HEIGHT);
    let floor = 16.0 + PLOT_HEIGHT;
    let mut body = String::new();
    for (value, name) in &up.marks {
        body += &format!(
            "<path class=\"grid\" d=\"M{:.1} {:.1}H{:.1}\"/>",
            MARGIN + 24.0,
            y(*value),
            WIDTH - MARGIN + 24.0
        );
        body += &format!(
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            MARGIN + 18.0,
            y(*value) + 4.5,
            escaped(name)
        );
    }
    for (value, name) in &across.marks {
        body += &format!("<path class=\"grid\" d=\"M{:.1} {floor}v5\"/>", x(*value));
        body += &format!(
            "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(*value),
            floor + 20.0,
            escaped(name)
        );
    }
    body += &format!(
        "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
        WIDTH / 2.0,
        floor + 40.0,
        escaped(&format!("{}; up: {}", across.name, up.name))
    );
    for line in lines {
        let colour = line.colour % COLOURS;
        let path: Vec<String> = line
            .points
            .iter()
            .map(|p| format!("{:.1} {:.1}", x(p.0), y(p.1)))
            .collect();
        body += &format!("<path class=\"line s{colour}\" d=\"M{}\"/>", path.join("L"));
        for point in &line.points {
            body += &format!(
                "<circle class=\"c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                x(point.0),
                y(point.1)
            );
        }
        body.push('\n');
    }
    let below = floor + 52.0;
    let (legend, rows) = legend(lines, below);
    svg(below + rows as f64 * 22.0, title, &(body + &legend))
}

fn legend(lines: &[Line], top: f64) -> (String, usize) {
    const COLUMNS: usize = 3;
    const MARK: f64 = 20.0;
    let column = (WIDTH - 24.0) / COLUMNS as f64;
    let mut body = String::new();
    for (i, line) in lines.iter().enumerate() {
        let x = 24.0 + (i % COLUMNS) as f64 * column;
        let y = top + (i / COLUMNS) as f64 * 22.0;
        body += &format!(
            "<rect class=\"c{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\"/>",
            line.colour % COLOURS
        );
        body += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            x + MARK,
            y + 12.0,
            fitted(&line.label, column - MARK - SPACE)
        );
    }
    (body, lines.len().div_ceil(COLUMNS))
}

/// Returns marks at 1, 10, 100 ... that enclose the values.
pub(super) fn decades(values: impl Iterator<Item = f64>, show: fn(f64) -> String) -> Vec<(f64, String)> {
    let (low, high) = values
        .filter(|v| *v > 0.0)
        .fold((f64::MAX, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
    if high == 0.0 {
        return Vec::new();
    }
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (first..=last.max(first + 1))
        .map(|power| 10f64.powi(power))
        .map(|value| (value, show(value)))
        .collect()
}

/// Returns four or five round numbers from 0 up that enclose the values.
pub(super) fn steps(values: impl Iterator<Item = f64>) -> Vec<(f64, String)> {
    let high = values.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let rough = high / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|s| *s >= rough)
        .unwrap_or(rough);
    let count = (high / step).ceil() as usize;
    (0..=count)
        .map(|i| i as f64 * step)
        .map(|value| (value, short(value)))
        .collect()
}

/// Formats a number as `1.5M` or `200k`.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        _ if value >= 1e3 => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = units::number(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str) -> Bar {
        Bar {
            label: label.to_owned(),
            value: 1.0,
            low: 0.5,
            high: 2.0,
            shown: "1".into(),
            colour: 0,
        }
    }

    #[test]
    fn names_fit_their_column() {
        let short = bars("t", &[bar("sync")]);
        assert!(short.contains("<rect class=\"c0\" x=\"190.0\""), "{short}");
        assert!(short.contains(">sync</text>"), "{short}");
        // The column grows with the name, to its bound; beyond, the name is cut, and complete in a title.
        let longer = bars("t", &[bar("cp -a --reflink=never --sparse")]);
        assert!(
            longer.contains(">cp -a --reflink=never --sparse</text>"),
            "{longer}"
        );
        assert!(
            !longer.contains("x=\"190.0\"") && !longer.contains("x=\"320.0\""),
            "{longer}"
        );
        let name = "cp -a --reflink=never --sparse=always --preserve=all <&>";
        let long = bars("t", &[bar(name), bar("sync")]);
        assert!(long.contains("<rect class=\"c0\" x=\"320.0\""), "{long}");
        assert!(
            long.contains(&format!("…<title>{}</title></text>", escaped(name))),
            "{long}"
        );
        let cut = fitted(name, 304.0);
        let shown = cut.split("<title>").next().unwrap();
        assert!(shown.starts_with("cp -a --reflink=never"), "{cut}");
        assert!((280.0..=304.0).contains(&width(shown)), "{cut}");
    }
}
