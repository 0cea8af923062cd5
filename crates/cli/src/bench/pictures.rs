//! Charts as files: SVG as it is, PNG with an installed program.

use proactor_bench::render;
use proactor_bench::report::Report;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that convert an SVG to a PNG, the best first.
const CONVERTERS: [&str; 6] = [
    "rsvg-convert",
    "resvg",
    "inkscape",
    "chromium",
    "chromium-browser",
    "google-chrome",
];

/// Pixels of the picture for each pixel of the drawing.
const ZOOM: &str = "2";

/// Checks that the files can be written, and makes the directory.
pub(super) fn check(svg: Option<&Path>, png: Option<&Path>) -> Result<(), String> {
    for place in [svg, png].into_iter().flatten() {
        fs::create_dir_all(place).map_err(|e| format!("{}: {e}", place.display()))?;
    }
    if png.is_some() {
        converter()?;
    }
    Ok(())
}

fn converter() -> Result<&'static str, String> {
    let found = CONVERTERS
        .into_iter()
        .find(|name| proactor_bench::race::found(name).is_some());
    found.ok_or_else(|| {
        format!(
            "--png takes one of {} (in Debian: librsvg2-bin); --svg takes nothing",
            CONVERTERS.join(", ")
        )
    })
}

/// Writes the charts into the directories.
pub(super) fn write(report: &Report, svg: Option<&Path>, png: Option<&Path>) -> Result<(), String> {
    for (name, text) in render::pictures(report) {
        if let Some(place) = svg {
            let path = place.join(format!("{name}.svg"));
            fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        if let Some(place) = png {
            convert(&text, &place.join(format!("{name}.png")))?;
        }
    }
    Ok(())
}

fn convert(text: &str, png: &Path) -> Result<(), String> {
    let program = converter()?;
    let failed = |e: std::io::Error| format!("{program}: {e}");
    let place = tempfile::tempdir().map_err(failed)?;
    let svg = place.path().join("chart.svg");
    fs::write(&svg, text).map_err(failed)?;
    let mut command = Command::new(program);
    match program {
        "rsvg-convert" => command.args(["--zoom", ZOOM, "--output"]).arg(png).arg(&svg),
        "resvg" => command.args(["--zoom", ZOOM]).arg(&svg).arg(png),
        "inkscape" => command
            .args(["--export-type=png", "--export-dpi=192", "--export-filename"])
            .arg(png)
            .arg(&svg),
        _ => chrome(&mut command, text, &svg, png, place.path())?,
    };
    let done = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(failed)?;
    if !done.status.success() || !png.exists() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!(
            "{program}: {}: {}",
            done.status,
            said.lines().last().unwrap_or_default()
        ));
    }
    Ok(())
}

/// Takes a screenshot with a browser.
fn chrome<'a>(
    command: &'a mut Command,
    text: &str,
    svg: &Path,
    png: &Path,
    profile: &Path,
) -> Result<&'a mut Command, String> {
    let size = |name: &str| -> Option<f64> {
        let rest = text.split_once(&format!("{name}=\""))?.1;
        rest.split_once('"')?.0.parse().ok()
    };
    let (Some(width), Some(height)) = (size("width"), size("height")) else {
        return Err("a chart without a size".into());
    };
    let png: PathBuf = std::path::absolute(png).map_err(|e| e.to_string())?;
    if rustix::process::geteuid().is_root() {
        // It refuses to run as root with one. The page is ours.
        command.arg("--no-sandbox");
    }
    Ok(command
        .args(["--headless=new", "--disable-gpu", "--hide-scrollbars"])
        .arg(format!("--force-device-scale-factor={ZOOM}"))
        .arg(format!("--user-data-dir={}", profile.join("profile").display()))
        .arg(format!("--window-size={width:.0},{height:.0}"))
        .arg(format!("--screenshot={}", png.display()))
        .arg(format!("file://{}", svg.display())))
}
