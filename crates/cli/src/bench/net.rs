//! `proactor bench net`: from flags to a plan.

use super::flags::CounterChoice;
use super::outputs::Outputs;
use super::plan::{quoted, refuse_repeated, ROUNDS};
use super::race::own;
use crate::progress::When;
use crate::Host;
use clap::{ArgAction, Args, ValueEnum};
use proactor_bench::net::{fastio, Address, Load, Plan, Protocol, Server, Start};
use proactor_bench::run::Counters;
use proactor_bench::units::{parse_bytes, parse_seconds};
use std::ffi::OsString;
use std::thread;
use std::time::Duration;

/// Upper bound on `--keys`: keys have five digits.
const MAX_KEYS: u32 = 100_000;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolChoice {
    /// The server sends back what it receives
    Echo,
    /// GET and SET of Redis's protocol, on keys of its own (proactor:00000 and so on)
    Resp,
    /// GET of HTTP/1.1, with Content-Length
    Http,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PresetChoice {
    #[value(name = fastio::NAME)]
    Fastio,
}

/// Size of a message in bytes; the server decides the size of a page.
const DEFAULT_SIZE: u64 = 512;

fn count(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| "an integer of at least 1".into())
}

fn rate(text: &str) -> Result<u64, String> {
    let parsed = text
        .parse()
        .ok()
        .filter(|rate| (1..=1_000_000_000).contains(rate));
    parsed.ok_or_else(|| "requests a second, from 1 to 1000000000".into())
}

fn keys(text: &str) -> Result<u32, String> {
    let parsed = text.parse().ok().filter(|count| (1..=MAX_KEYS).contains(count));
    parsed.ok_or_else(|| format!("a number from 1 to {MAX_KEYS}"))
}

/// Flags of `bench net`. An option that is repeated has the value that was given last.
#[derive(Args)]
#[command(args_override_self = true)]
pub(super) struct Net {
    /// Address of the server: HOST:PORT, PORT of this machine, or unix:PATH
    address: Option<Address>,
    /// A command that starts the server, anew for each round
    ///
    /// It is ended by SIGTERM. Its standard output is discarded.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// The table of FastIO's authors, measured with our servers
    ///
    /// Starts and ends them: echo, 25 connections, epoll and 1 to 5 kernel workers, as far as there are
    /// processors.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["command", "pid", "name", "protocol", "connections", "depth",
          "rate", "lockstep"], help_heading = "Workload")]
    preset: Option<PresetChoice>,
    /// Protocol
    #[arg(
        long,
        value_enum,
        default_value = "echo",
        value_name = "PROTOCOL",
        help_heading = "Workload"
    )]
    protocol: ProtocolChoice,
    /// Connections at once
    #[arg(long, value_parser = count, value_delimiter = ',', action = ArgAction::Set, default_value = "25",
          value_name = "LIST", help_heading = "Workload")]
    connections: Vec<u32>,
    /// Size of a message, or of a value, in bytes [default: 512]
    ///
    /// With http the server decides it.
    #[arg(long, value_parser = parse_bytes, value_delimiter = ',', action = ArgAction::Set, value_name = "LIST",
          help_heading = "Workload")]
    size: Option<Vec<u64>>,
    /// Requests in flight on each connection, at most
    #[arg(long, value_parser = count, value_delimiter = ',', action = ArgAction::Set, default_value = "1",
          value_name = "LIST", help_heading = "Workload")]
    depth: Vec<u32>,
    /// Requests a second of all connections together
    ///
    /// Each is due at a fixed time, and its latency counts from then. By default each request follows the
    /// answer to the one before.
    #[arg(long, value_parser = rate, value_delimiter = ',', action = ArgAction::Set, value_name = "LIST",
          conflicts_with = "lockstep", help_heading = "Workload")]
    rate: Option<Vec<u64>>,
    /// resp: percentage of requests that are SET [default: 10]
    #[arg(long, value_parser = clap::value_parser!(u8).range(..=100), value_name = "PERCENT", help_heading = "Workload")]
    sets: Option<u8>,
    /// resp: number of keys; each is set once before [default: 1000]
    #[arg(long, value_parser = keys, value_name = "N", help_heading = "Workload")]
    keys: Option<u32>,
    /// http: path of the requests [default: /]
    #[arg(long, value_name = "PATH", help_heading = "Workload")]
    path: Option<String>,

    /// Duration of a round
    #[arg(long, value_parser = parse_seconds, default_value = "3s", value_name = "TIME", help_heading = "How long")]
    duration: Duration,
    /// Run this long before measuring, in each round
    #[arg(long, value_parser = parse_seconds, default_value = "0s", value_name = "TIME", help_heading = "How long")]
    ramp: Duration,
    /// Rounds [default: 5]
    ///
    /// At least 4 are needed to tell servers apart.
    #[arg(long, value_name = "N", help_heading = "How long")]
    rounds: Option<u32>,

    /// Process of the server: reports its CPU and calls per request
    ///
    /// With those of its children and of the kernel's threads.
    #[arg(
        long,
        value_name = "PID",
        conflicts_with = "command",
        help_heading = "How it is measured"
    )]
    pid: Option<i32>,
    /// Send to all connections, wait until all is served, then read
    ///
    /// Measures the server's CPU for a request at an exact batch. Client and server share a processor
    /// meanwhile, and the server has SCHED_BATCH.
    #[arg(long, help_heading = "How it is measured")]
    lockstep: bool,
    /// Client threads, among which the connections are divided [default: 1]
    ///
    /// With --preset the default is the processors that the largest server leaves.
    #[arg(long, value_name = "N", help_heading = "How it is measured")]
    threads: Option<u32>,
    /// The server's name in the report [default: the command, or the address]
    #[arg(long, value_name = "NAME", help_heading = "How it is measured")]
    name: Option<String>,
    /// Seed of contents
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "How it is measured"
    )]
    seed: u64,
    /// Count the server's system calls, in a separate round
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "HOW",
        help_heading = "How it is measured"
    )]
    counters: CounterChoice,

    #[command(flatten)]
    pub outputs: Outputs,
    /// Show progress
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        help_heading = "Output"
    )]
    pub progress: When,
}

/// Servers, cells with the numbers of their servers, and reasons for what is left out.
type Measured = (Vec<Server>, Vec<(usize, Load)>, Vec<String>);

impl Net {
    /// Makes the plan from the flags.
    ///
    /// # Errors
    /// A sentence about options that do not go together.
    pub fn plan(&self, host: &Host<'_>, command: &[String]) -> Result<Plan, String> {
        self.refuse_what_has_no_meaning()?;
        let (servers, cells, left_out) = match (&self.preset, &self.address) {
            (Some(PresetChoice::Fastio), None) => self.fastio(host)?,
            (Some(_), Some(address)) => {
                return Err(format!(
                    "--preset starts servers of its own: leave out the address {address}"
                ));
            }
            (None, None) => {
                return Err(
                    "name the server by its address (HOST:PORT, PORT, or unix:PATH), or choose --preset fastio, which starts its own"
                        .into(),
                );
            }
            (None, Some(address)) => {
                let server = self.server(address);
                let cells = self.cells(&server.name);
                (vec![server], cells, Vec::new())
            }
        };
        Ok(Plan {
            servers,
            cells,
            rounds: self.rounds.unwrap_or(ROUNDS),
            seed: self.seed,
            counters: match self.counters {
                CounterChoice::Auto => Counters::Auto,
                CounterChoice::None => Counters::None,
                CounterChoice::Perf => Counters::Perf,
                CounterChoice::Bpf => Counters::Bpf,
            },
            left_out,
            command: command.iter().map(|word| quoted(word)).collect(),
        })
    }

    fn fastio(&self, host: &Host<'_>) -> Result<Measured, String> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let table = fastio::table(&own(host)?, processors)
            .map_err(|e| format!("--preset fastio: no port is free: {e}"))?;
        let threads = self.threads.unwrap_or(table.client_threads());
        let sizes = self.size.as_deref().unwrap_or(&[DEFAULT_SIZE]);
        let cells = sizes.iter().flat_map(|size| {
            let load = self.load("", 1, *size, 1, None);
            table.cells(&Load { threads, ..load })
        });
        let cells = cells.collect();
        Ok((table.servers, cells, table.left_out))
    }

    /// Returns every combination of the lists.
    fn cells(&self, server: &str) -> Vec<(usize, Load)> {
        let mut cells = Vec::new();
        for &connections in &self.connections {
            for &message_bytes in self.size.as_deref().unwrap_or(&[DEFAULT_SIZE]) {
                for &depth in &self.depth {
                    for rate in self.rates() {
                        cells.push((0, self.load(server, connections, message_bytes, depth, rate)));
                    }
                }
            }
        }
        cells
    }

    fn refuse_what_has_no_meaning(&self) -> Result<(), String> {
        let only = |given: bool, option: &str, protocol: ProtocolChoice, name: &str| match given
            && self.protocol != protocol
        {
            true => Err(format!("{option} is for --protocol {name}")),
            false => Ok(()),
        };
        refuse_repeated("--connections", Some(&self.connections))?;
        refuse_repeated("--size", self.size.as_deref())?;
        refuse_repeated("--depth", Some(&self.depth))?;
        refuse_repeated("--rate", self.rate.as_deref())?;
        only(self.sets.is_some(), "--sets", ProtocolChoice::Resp, "resp")?;
        only(self.keys.is_some(), "--keys", ProtocolChoice::Resp, "resp")?;
        only(self.path.is_some(), "--path", ProtocolChoice::Http, "http")?;
        if self.size.is_some() && self.protocol == ProtocolChoice::Http {
            return Err("--size: the server decides how long a page is; --path names another one".into());
        }
        Ok(())
    }

    fn server(&self, address: &Address) -> Server {
        let start = match (self.pid, self.command.is_empty()) {
            (Some(pid), _) => Start::Process(pid),
            (None, true) => Start::Runs,
            (None, false) => Start::Command(self.command.clone()),
        };
        let words = self.command.iter().map(|word| word.to_string_lossy());
        let name = match &start {
            Start::Command(_) => words.collect::<Vec<_>>().join(" "),
            Start::Process(_) | Start::Runs => address.to_string(),
        };
        Server {
            name: self.name.clone().unwrap_or(name),
            address: address.clone(),
            start,
        }
    }

    fn rates(&self) -> Vec<Option<u64>> {
        match &self.rate {
            Some(rates) => rates.iter().map(|rate| Some(*rate)).collect(),
            None => vec![None],
        }
    }

    fn load(
        &self,
        server: &str,
        connections: u32,
        message_bytes: u64,
        depth: u32,
        rate: Option<u64>,
    ) -> Load {
        let (protocol, message_bytes, path, sets) = match self.protocol {
            ProtocolChoice::Echo => (Protocol::Echo, message_bytes, None, None),
            ProtocolChoice::Resp => {
                let sets = (self.sets.unwrap_or(10), self.keys.unwrap_or(1000));
                (Protocol::Resp, message_bytes, None, Some(sets))
            }
            ProtocolChoice::Http => {
                let path = self.path.clone().unwrap_or_else(|| "/".into());
                (Protocol::Http, 0, Some(path), None)
            }
        };
        Load {
            server: server.to_owned(),
            protocol,
            path,
            connections,
            message_bytes,
            depth,
            rate,
            sets,
            lockstep: self.lockstep,
            threads: self.threads.unwrap_or(1),
            runtime_ms: self.duration.as_millis() as u64,
            ramp_ms: self.ramp.as_millis() as u64,
            published: None,
        }
    }
}
