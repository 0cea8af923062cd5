//! Destinations of a report.

use super::{misuse, pictures, FAILURE};
use clap::Args;
use proactor_bench::render;
use proactor_bench::report::Report;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

type Render = fn(&Report) -> String;

#[derive(Args)]
pub(super) struct Outputs {
    /// Write the report as JSON, for `compare` and `show`
    ///
    /// Without a FILE it goes to standard output, in place of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write a row for each round as CSV
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write tables in Markdown
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          help_heading = "Output")]
    markdown: Option<PathBuf>,
    /// Write a page with charts, in one file that needs no other
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Write each chart as an SVG file into this directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Write each chart as a PNG file into this directory
    ///
    /// By rsvg-convert, resvg, inkscape or chromium, if one is installed.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    png: Option<PathBuf>,
}

/// The output format that only reports of `bench io` have.
#[derive(Args)]
pub(super) struct FioOutput {
    /// Write JSON as fio's --output-format=json does
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          help_heading = "Output")]
    fio_json: Option<PathBuf>,
}

impl FioOutput {
    /// Fails if fio's format is requested for a report that it cannot express.
    pub fn refuse(&self) -> Result<(), String> {
        match self.fio_json {
            Some(_) => Err("--fio-json: fio's reports are of `bench io` only".into()),
            None => Ok(()),
        }
    }
}

/// Opens a file for writing at the end, and returns true with it if it was created. An existing file and a
/// dangling link are not created.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.append(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok((options.create(true).open(path)?, false)),
        Err(e) => Err(e),
    }
}

impl Outputs {
    fn wanted<'a>(&'a self, fio: Option<&'a FioOutput>) -> Vec<(&'a Path, Render)> {
        let fio = fio.and_then(|fio| fio.fio_json.as_ref());
        let all: [(Option<&PathBuf>, Render); 5] = [
            (self.json.as_ref(), Report::to_json),
            (self.csv.as_ref(), render::csv),
            (self.markdown.as_ref(), render::markdown),
            (fio, render::fio),
            (self.html.as_ref(), render::html),
        ];
        let named = all
            .into_iter()
            .filter_map(|(path, render)| Some((path?.as_path(), render)));
        named.collect()
    }

    /// Fails for a word that follows an option whose FILE needs a `=`.
    pub fn refuse_word(&self, fio: Option<&FioOutput>, word: &Path) -> Result<(), String> {
        let fio = fio.and_then(|fio| fio.fio_json.as_deref());
        let forms = [
            ("--json", self.json.as_deref()),
            ("--csv", self.csv.as_deref()),
            ("--markdown", self.markdown.as_deref()),
            ("--fio-json", fio),
        ];
        let word = word.display();
        match forms.iter().find(|(_, path)| *path == Some(Path::new("-"))) {
            Some((option, _)) => Err(format!("{word}: a file for {option} is named by {option}={word}")),
            None => Err(format!("{word}: not expected here")),
        }
    }

    /// Returns true if a report goes to stdout.
    pub fn is_to_stdout(&self, fio: Option<&FioOutput>) -> bool {
        self.wanted(fio).iter().any(|(path, _)| *path == Path::new("-"))
    }

    /// Fails if an output is requested of a command that measures nothing.
    pub fn refuse(&self, fio: Option<&FioOutput>, option: &str) -> Result<(), String> {
        match self.wanted(fio).is_empty() && self.svg.is_none() && self.png.is_none() {
            true => Ok(()),
            false => Err(format!(
                "{option} measures nothing, so there is no report to write"
            )),
        }
    }

    /// Checks that all outputs can be written, before an hour is spent on measuring.
    pub fn check(&self, fio: Option<&FioOutput>) -> Result<(), (u8, String)> {
        let wanted = self.wanted(fio);
        if wanted.iter().filter(|(path, _)| *path == Path::new("-")).count() > 1 {
            return Err(misuse("only one report can go to stdout".into()));
        }
        let repeated = wanted
            .iter()
            .enumerate()
            .find(|(i, (path, _))| wanted[..*i].iter().any(|(other, _)| other == path));
        if let Some((_, (path, _))) = repeated {
            return Err(misuse(format!("{}: for one report only", path.display())));
        }
        pictures::check(self.svg.as_deref(), self.png.as_deref()).map_err(misuse)?;
        let (mut known, mut made) = (Vec::new(), Vec::new());
        let tried = wanted
            .iter()
            .filter(|(path, _)| *path != Path::new("-"))
            .try_for_each(|(path, _)| {
                let failed = |e| (FAILURE, format!("{}: {e}", path.display()));
                let (file, is_new) = open(path).map_err(failed)?;
                made.extend(is_new.then_some(*path));
                let facts = file.metadata().map_err(failed)?;
                let number = (facts.dev(), facts.ino());
                if facts.is_file() && known.contains(&number) {
                    return Err(misuse(format!(
                        "{}: for one report only, and it has another name here",
                        path.display()
                    )));
                }
                known.push(number);
                Ok(())
            });
        // These files were created here, and are empty.
        made.iter().for_each(|path| drop(fs::remove_file(path)));
        tried
    }

    /// Writes all outputs; the table goes to stdout unless another output does. A failure does not keep the
    /// others from being written, and the first failure is returned.
    pub fn write(&self, fio: Option<&FioOutput>, report: &Report) -> Result<(), String> {
        let wanted = self.wanted(fio);
        let taken = wanted.iter().any(|(path, _)| *path == Path::new("-"));
        if !taken {
            crate::print(&render::text(report));
        }
        let mut outcome = Ok(());
        for (path, render) in wanted {
            let text = render(report);
            if path == Path::new("-") {
                crate::print(&text);
            } else {
                let written = fs::write(path, text);
                outcome = outcome.and(written.map_err(|e| format!("{}: {e}", path.display())));
            }
        }
        outcome.and(pictures::write(report, self.svg.as_deref(), self.png.as_deref()))
    }
}
