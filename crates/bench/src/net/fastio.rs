//! The preset `fastio`: the table of FastIO's authors, with our servers, on this machine.

use super::{Address, Load, Protocol, Published, Server, Start};
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// The preset's name on the command line.
pub const NAME: &str = "fastio";

/// Note below the published columns.
pub(crate) const SOURCE: &str =
    "published: FastIO on 32 cores (Arm), as its authors report it. Its user thread and one that retries poll as long as the \
     server runs, so N kernel workers are N + 2 busy threads";

/// Number of connections, as in the published table.
const CONNECTIONS: u32 = 25;

/// Requests a second with 0 (epoll), 1, 2 ... kernel workers.
const RATES: [u32; 6] = [82_896, 82_802, 161_260, 257_491, 301_168, 393_052];

/// Measurements of the preset on this machine.
#[derive(Debug)]
pub struct Table {
    /// Servers: epoll, and one for each number of kernel workers.
    pub servers: Vec<Server>,
    /// Published figures of each server.
    published: Vec<Published>,
    /// Rows that this machine has too few processors for.
    pub left_out: Vec<String>,
    /// Number of client threads: the processors that the largest server leaves.
    threads: u32,
}

/// Returns the rows that fit on `processors` processors. `own` is the command that starts this program.
///
/// # Errors
/// If the kernel gives no port.
pub fn table(own: &[OsString], processors: usize) -> io::Result<Table> {
    let most = RATES.len() - 1;
    // A worker that polls and a server's thread on one processor take each other's time.
    let workers = processors.saturating_sub(1).min(most);
    let servers = (0..=workers)
        .map(|count| server(own, count))
        .collect::<Result<_, _>>()?;
    let spare = processors.saturating_sub(workers + 1).max(1) as u32;
    let rows = match most - workers {
        1 => format!("{most} kernel workers"),
        _ => format!("{} to {most} kernel workers", workers + 1),
    };
    let plural = if processors == 1 { "" } else { "s" };
    let missing = format!(
        "{rows}: with the server's thread they take more processors than the {processors} here; run it where there are {} or more",
        most + 1
    );
    let shared = format!(
        "a processor for the client: with {processors} processor{plural} it shares those of the servers, and all rates are lower \
         for it"
    );
    let mut left_out = Vec::new();
    left_out.extend((workers < most).then_some(missing));
    left_out.extend((processors < workers + 2).then_some(shared));
    Ok(Table {
        servers,
        published: (0..=workers).map(published).collect(),
        left_out,
        threads: spare.min(CONNECTIONS),
    })
}

fn published(workers: usize) -> Published {
    Published {
        requests_per_s: RATES[workers],
        busy_threads: if workers == 0 { 1 } else { workers as u32 + 2 },
    }
}

fn server(own: &[OsString], workers: usize) -> io::Result<Server> {
    // It is free until the kernel has given out all others.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let (name, options): (String, Vec<String>) = match workers {
        0 => ("epoll".into(), vec!["--engine=epoll".into()]),
        1 => ("1 kernel worker".into(), vec!["--kernel-workers=1".into()]),
        _ => (
            format!("{workers} kernel workers"),
            vec![format!("--kernel-workers={workers}")],
        ),
    };
    let words = ["serve".into(), "echo".into(), format!("--port={port}")];
    let words = words.into_iter().chain(options).map(OsString::from);
    Ok(Server {
        name,
        address: Address::Inet((Ipv4Addr::LOCALHOST, port).into()),
        start: Start::Command(own.iter().cloned().chain(words).collect()),
    })
}

impl Table {
    /// Returns a cell of each server. `like` holds the options of the command line.
    pub fn cells(&self, like: &Load) -> Vec<(usize, Load)> {
        let load = |at: usize| Load {
            server: self.servers[at].name.clone(),
            protocol: Protocol::Echo,
            connections: CONNECTIONS,
            depth: 1,
            published: Some(self.published[at]),
            ..like.clone()
        };
        (0..self.servers.len()).map(|at| (at, load(at))).collect()
    }

    /// Returns the number of client threads, where none is given.
    pub fn client_threads(&self) -> u32 {
        self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(processors: usize) -> (Vec<String>, usize) {
        let table = table(&["proactor".into()], processors).unwrap();
        let names = table.servers.iter().map(|server| server.name.clone());
        (names.collect(), table.left_out.len())
    }

    #[test]
    fn rows_are_bounded_by_processors() {
        assert_eq!(names(1), (vec!["epoll".into()], 2));
        assert_eq!(names(2), (vec!["epoll".into(), "1 kernel worker".into()], 2));
        assert_eq!(names(5).0.len(), 5);
        assert_eq!(names(6), (names(64).0, 1));
        assert_eq!(names(64).0.last().unwrap(), "5 kernel workers");
        assert_eq!(names(64).1, 0);
    }

    #[test]
    fn what_is_left_out_is_named() {
        let left_out = |processors| table(&["proactor".into()], processors).unwrap().left_out[0].clone();
        assert!(left_out(2).starts_with("2 to 5 kernel workers: "));
        assert!(left_out(5).starts_with("5 kernel workers: "));
        assert!(left_out(6).starts_with("a processor for the client: "));
    }

    /// Checks the published numbers: five workers are seven busy threads, and epoll is one.
    #[test]
    fn published_threads_are_those_that_poll() {
        let threads: Vec<u32> = (0..RATES.len())
            .map(|count| published(count).busy_threads)
            .collect();
        assert_eq!(threads, [1, 3, 4, 5, 6, 7]);
    }
}
