//! The findings for a person: plain aligned text, coloured on a terminal.

use super::facts::{Limit, Machine};
use super::{EngineFindings, Findings};
use std::fmt::Write as _;

const BOLD: &str = "1";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";

/// Spaces between two columns.
const GAP: usize = 2;

struct Page {
    text: String,
    color: bool,
}

pub(super) fn render(findings: &Findings, color: bool) -> String {
    let mut page = Page {
        text: format!("proactor {}\n", findings.version),
        color,
    };
    page.machine(&findings.machine);
    page.choice(findings);
    page.engines(&findings.engines);
    page.ops(&findings.engines);
    page.file_systems(findings);
    page.sockets(findings);
    page.text
}

impl Page {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.into()
        }
    }

    fn heading(&mut self, title: &str) {
        let title = self.paint(BOLD, title);
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.text, "\n{title}");
    }

    /// Writes which of the mounted file systems the kernel's queues are not used for.
    fn file_systems(&mut self, findings: &Findings) {
        self.heading("File systems (reads and writes by io_uring and linux_aio)");
        let width = findings.file_systems.keys().map(String::len).max().unwrap_or(0) + GAP;
        for (name, found) in &findings.file_systems {
            let how = match found.reason {
                None => self.paint(GREEN, found.how),
                Some(reason) => format!("{}: {reason}", self.paint(YELLOW, found.how)),
            };
            let _ = writeln!(self.text, "  {name:width$}{how}");
        }
    }

    fn sockets(&mut self, findings: &Findings) {
        self.heading("Sockets (each has just been done)");
        for (name, found) in &findings.sockets {
            let color = if found.how == "ring" { GREEN } else { YELLOW };
            let how = self.paint(color, found.how);
            let why = found
                .reason
                .as_ref()
                .map_or(String::new(), |why| format!(": {why}"));
            let _ = writeln!(self.text, "  {name:10}{how}{why}");
        }
    }

    fn machine(&mut self, machine: &Machine) {
        self.heading("Machine");
        let uring = match machine.io_uring_disabled {
            None => "no such setting (a kernel before 6.6 has none)".into(),
            Some(0) => "0: any process may use io_uring".into(),
            Some(1) => format!(
                "1: only the privileged and the group {} may",
                machine.io_uring_group.unwrap_or(-1)
            ),
            Some(n) => format!("{n}: no process may use io_uring"),
        };
        let aio = match (machine.aio_max_events, machine.aio_used_events) {
            (Some(max), Some(used)) => format!("{used} of {max} events taken"),
            _ => "not known".into(),
        };
        let container = match machine.container.as_slice() {
            [] => "no sign of one".into(),
            signs => format!("perhaps: {}", signs.join(", ")),
        };
        let cpus = format!("{} usable by this process", machine.cpus);
        let rows = [
            ("kernel", machine.kernel.clone().unwrap_or("not known".into())),
            ("architecture", machine.arch.into()),
            ("CPUs", cpus),
            ("container", container),
            ("seccomp", machine.seccomp.unwrap_or("not known").into()),
            ("kernel.io_uring_disabled", uring),
            ("fs.aio-max-nr", aio),
            ("memlock", limit(&machine.limits.memlock_bytes, bytes)),
            ("nofile", limit(&machine.limits.open_files, |n| n.to_string())),
            ("nproc", limit(&machine.limits.processes, |n| n.to_string())),
        ];
        let width = rows.iter().map(|(key, _)| key.len()).max().unwrap_or(0) + GAP;
        for (key, value) in rows {
            let _ = writeln!(self.text, "  {key:width$}{value}");
        }
    }

    fn choice(&mut self, findings: &Findings) {
        self.heading("Choice");
        let line = match findings.choice.engine {
            Some(engine) => format!("{}: {}", self.paint(GREEN, engine), findings.choice.reason),
            None => format!("{}: {}", self.paint(RED, "no engine"), findings.choice.reason),
        };
        let _ = writeln!(self.text, "  {line}");
    }

    fn engines(&mut self, engines: &[EngineFindings]) {
        self.heading("Engines (each has just written to a pipe, read it back and synced a file)");
        let width = engines.iter().map(|engine| engine.name.len()).max().unwrap_or(0) + GAP;
        for engine in engines {
            let name = engine.name;
            let line = match &engine.why_not {
                None => format!("{}  {}", self.paint(GREEN, "works"), engine.features.join(" ")),
                Some(reason) => format!("{}  {reason}", self.paint(RED, "no   ")),
            };
            let _ = writeln!(self.text, "  {name:width$}{}", line.trim_end());
        }
    }

    /// Writes the table of ops (rows) and engines (columns); reasons for what is not native are below it.
    fn ops(&mut self, engines: &[EngineFindings]) {
        let Some(longest) = engines.iter().max_by_key(|engine| engine.order.len()) else {
            return;
        };
        self.heading("How an op is done");
        let mut notes: Vec<&str> = Vec::new();
        let first = longest.order.iter().map(|op| op.len()).max().unwrap_or(0) + GAP;
        // The widest cell is a word and a note's number.
        let widths: Vec<usize> = engines.iter().map(|e| e.name.len().max(11) + GAP).collect();
        let mut line = format!("  {:first$}", "");
        for (engine, &width) in engines.iter().zip(&widths) {
            let _ = write!(line, "{:width$}", engine.name);
        }
        let _ = writeln!(self.text, "{}", line.trim_end());
        for op in &longest.order {
            let mut line = format!("  {op:first$}");
            for (engine, &width) in engines.iter().zip(&widths) {
                let Some(found) = engine.ops.get(op) else {
                    let _ = write!(line, "{:width$}", "-");
                    continue;
                };
                let note = match found.reason {
                    Some(reason) => match notes.iter().position(|note| *note == reason) {
                        Some(at) => format!(" [{}]", at + 1),
                        None => {
                            notes.push(reason);
                            format!(" [{}]", notes.len())
                        }
                    },
                    None => String::new(),
                };
                let code = if found.how == "native" { GREEN } else { YELLOW };
                let padding = " ".repeat(width.saturating_sub(found.how.len() + note.len()));
                let _ = write!(line, "{}{note}{padding}", self.paint(code, found.how));
            }
            let _ = writeln!(self.text, "{}", line.trim_end());
        }
        self.text.push('\n');
        for (i, note) in notes.iter().enumerate() {
            let _ = writeln!(self.text, "  [{}] {note}", i + 1);
        }
        self.text.push_str(
            "  native: by the engine itself. partly: by the engine for some files. threads: by proactor's worker\n  \
             threads. reactor: by waiting until the kernel calls it ready, without a thread per op.\n",
        );
    }
}

fn limit(limit: &Limit, show: impl Fn(u64) -> String) -> String {
    let show = |value: Option<u64>| value.map_or("unlimited".into(), &show);
    let (soft, hard) = (show(limit.soft), show(limit.hard));
    if soft == hard {
        soft
    } else {
        format!("{soft}, at most {hard}")
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..1_048_576 => format!("{} KiB", count / 1024),
        _ => format!("{} MiB", count / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_well() {
        let both = |soft, hard| limit(&Limit { soft, hard }, bytes);
        assert_eq!(both(None, None), "unlimited");
        assert_eq!(both(Some(8 << 20), Some(8 << 20)), "8 MiB");
        assert_eq!(both(Some(64 << 10), None), "64 KiB, at most unlimited");
    }
}
