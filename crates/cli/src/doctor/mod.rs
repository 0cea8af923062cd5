//! `proactor doctor`: the facilities of this machine, the engine that proactor chooses on it, and the reason.

mod facts;
mod text;
mod workers;
mod workers_measure;

use clap::Args;
use facts::Machine;
use proactor_engine::probe;
use proactor_engine::Engine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};

#[derive(Args)]
pub(crate) struct Doctor {
    /// Print one JSON object instead of text
    ///
    /// docs/doctor.md names its keys.
    #[arg(long)]
    json: bool,
    /// Report instead whether kernel workers make sense here
    ///
    /// And how many, for `proactor serve --kernel-workers`: looks at cores, siblings, cpuset and quota, and
    /// measures for a second.
    #[arg(long)]
    workers: bool,
}

/// Version of the JSON form. It changes when a key is renamed, removed or gets another meaning; a new key
/// does not change it.
const SCHEMA: u32 = 1;

/// All findings, and their JSON form (docs/doctor.md).
#[derive(Serialize)]
struct Findings {
    schema: u32,
    version: &'static str,
    machine: Machine,
    choice: Choice,
    engines: Vec<EngineFindings>,
    /// Support for io_uring and Linux AIO transfers by file system type, as /proc/self/mountinfo names it.
    file_systems: BTreeMap<String, OpFindings>,
    /// Support for accepting, connecting, receiving and sending on sockets.
    sockets: BTreeMap<&'static str, SocketFindings>,
}

#[derive(Serialize)]
struct SocketFindings {
    how: &'static str,
    reason: Option<String>,
}

#[derive(Serialize)]
struct Choice {
    engine: Option<&'static str>,
    reason: String,
    requested: Option<String>,
}

#[derive(Serialize)]
struct EngineFindings {
    name: &'static str,
    usable: bool,
    why_not: Option<String>,
    features: Vec<&'static str>,
    ops: BTreeMap<&'static str, OpFindings>,
    /// Order of the rows of the table, which is the engine's and which a JSON object does not keep.
    #[serde(skip)]
    order: Vec<&'static str>,
}

#[derive(Serialize)]
struct OpFindings {
    how: &'static str,
    reason: Option<&'static str>,
}

impl Findings {
    fn gather() -> Self {
        let engines = Engine::ALL.iter().filter(|engine| **engine != Engine::Sim);
        let (engine, reason) = match probe::choose() {
            Ok(chosen) => (Some(chosen.engine.name()), chosen.reason),
            Err(error) => (None, error.to_string()),
        };
        let requested = std::env::var_os(probe::ENGINE_VARIABLE).filter(|name| !name.is_empty());
        Findings {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::look(),
            choice: Choice {
                engine,
                reason,
                requested: requested.map(|name| name.to_string_lossy().into_owned()),
            },
            engines: engines.map(|&engine| EngineFindings::of(engine)).collect(),
            // Without /proc there is nothing to report.
            file_systems: probe::file_systems()
                .unwrap_or_default()
                .into_iter()
                .map(|(name, support)| (name, OpFindings::of(support)))
                .collect(),
            sockets: proactor_net::probe::rows()
                .into_iter()
                .map(|row| {
                    let found = SocketFindings {
                        how: row.how,
                        reason: row.why,
                    };
                    (row.name, found)
                })
                .collect(),
        }
    }

    /// Returns true if a program that uses proactor here gets an engine that does its ops.
    fn healthy(&self) -> bool {
        let chosen = |engine: &&EngineFindings| Some(engine.name) == self.choice.engine;
        // The simulator, chosen by name, is not in the list.
        match self.engines.iter().find(chosen) {
            Some(engine) => engine.usable,
            None => self.choice.engine.is_some(),
        }
    }
}

impl OpFindings {
    fn of(support: proactor_engine::Support) -> Self {
        OpFindings {
            how: support.name(),
            reason: support.reason(),
        }
    }
}

impl EngineFindings {
    fn of(engine: Engine) -> Self {
        let report = probe::report(engine);
        EngineFindings {
            name: engine.name(),
            usable: report.usable.is_ok(),
            why_not: report.usable.err(),
            features: report.features,
            order: report.support.iter().map(|(kind, _)| kind.name()).collect(),
            ops: report
                .support
                .into_iter()
                .map(|(kind, support)| (kind.name(), OpFindings::of(support)))
                .collect(),
        }
    }
}

/// Returns 0 if the engine that would be chosen works, and 1 if not.
pub(crate) fn run(args: &Doctor) -> u8 {
    if args.workers {
        return advise(args);
    }
    let findings = Findings::gather();
    let out = if args.json {
        let json = serde_json::to_string_pretty(&findings).expect("only strings, numbers, lists and maps");
        json + "\n"
    } else {
        // https://no-color.org: set and not empty.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        text::render(&findings, io::stdout().is_terminal() && !no_color)
    };
    crate::print(&out);
    u8::from(!findings.healthy())
}

fn advise(args: &Doctor) -> u8 {
    match workers::gather() {
        Ok(found) if args.json => crate::print(&found.json()),
        Ok(found) => crate::print(&found.text()),
        Err(why) => {
            crate::complain(&format!("proactor doctor: {why}"));
            return 1;
        }
    }
    0
}
