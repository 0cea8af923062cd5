//! What sockets are on here, asked by doing it: the kernel's table of opcodes does not tell whether a receive can stay in the ring.

use crate::config::Config;
use crate::context::Context;
use crate::handler::Handler;
use crate::sockets::{Chosen, Sockets};
use crate::table::SocketId;
use crate::Address;
use proactor_engine::ring::{opcode, squeue, types};
use proactor_engine::{Driver, Engine};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the kernel may take for something that it has all it needs for.
const PATIENCE: Duration = Duration::from_secs(1);

/// How one thing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `accept`, `connect`, `recv`, `send` or `datagrams`.
    pub name: &'static str,
    /// `ring` or `epoll`.
    pub how: &'static str,
    /// Why it is not on a ring, or costs more there than it might.
    pub why: Option<String>,
}

/// Whether a receive stays in a ring and takes provided buffers; tried once a process, on a socket pair.
pub(crate) fn ring() -> Result<(), String> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    TRIED.get_or_init(try_receive).clone()
}

fn try_receive() -> Result<(), String> {
    let words = |e: io::Error| e.to_string();
    // Dropped after the driver, whose entry names it.
    let (ours, mut theirs) = UnixStream::pair().map_err(words)?;
    let mut driver = Driver::builder()
        .engine(Engine::IoUring)
        .depth(8)
        .build()
        .map_err(words)?;
    let group = driver.buffer_ring(2, 2, 64).map_err(words)?;
    let entry: squeue::Entry = opcode::RecvMulti::new(types::Fd(ours.as_raw_fd()), group.id()).build();
    // SAFETY: the entry names no memory but the group's, and the descriptor outlives the driver.
    unsafe { driver.push(entry, 1) }.map_err(words)?;
    theirs.write_all(b"x").map_err(words)?;
    let mut events = Vec::new();
    let waited = driver.wait_events(1, Some(PATIENCE), &mut Vec::new(), &mut events);
    driver.drain_events(&mut Vec::new()).map_err(words)?;
    waited.map_err(words)?;
    match events.first() {
        Some(event) if event.res == 1 && event.more() && event.buffer_id().is_some() => Ok(()),
        Some(event) if event.res < 0 => Err(format!(
            "a receive cannot stay in the ring (Linux 6.0): {}",
            io::Error::from_raw_os_error(-event.res)
        )),
        Some(_) => Err("a receive does not stay in the ring (Linux 6.0)".into()),
        None => Err("the ring does not tell of a receive".into()),
    }
}

/// Sends back what comes, until both sides have seen each other's bytes.
#[derive(Default)]
struct Peers {
    opened: usize,
    received: usize,
    failed: Option<io::Error>,
}

impl Handler for Peers {
    fn opened(&mut self, cx: &mut Context<'_>, id: SocketId) {
        self.opened += 1;
        cx.send(id, b"x");
    }

    fn received(&mut self, _: &mut Context<'_>, _: SocketId, bytes: &[u8]) {
        self.received += bytes.len();
    }

    fn datagram(&mut self, _: &mut Context<'_>, _: SocketId, _: Option<&Address>, bytes: &[u8]) {
        self.received += bytes.len();
    }

    fn datagram_failed(&mut self, _: &mut Context<'_>, _: SocketId, _: Option<&Address>, error: &io::Error) {
        self.failed = Some(io::Error::new(error.kind(), error.to_string()));
    }

    fn closed(&mut self, _: &mut Context<'_>, _: SocketId, error: Option<&io::Error>) {
        self.failed = error.map(|error| io::Error::new(error.kind(), error.to_string()));
    }

    fn accept_failed(&mut self, _: &mut Context<'_>, _: SocketId, error: &io::Error) {
        self.failed = Some(io::Error::new(error.kind(), error.to_string()));
    }
}

/// Connections of the trial, each with two ends that send a byte.
const CONNECTIONS: usize = 2;

fn try_sockets(sockets: &mut Sockets) -> io::Result<u64> {
    // The kernel makes the name unique, and no file is left behind.
    let name = format!("proactor-doctor-{}", std::process::id());
    let address = Address::Abstract(name.into_bytes());
    sockets.listen(&address)?;
    for _ in 0..CONNECTIONS {
        sockets.connect(&address)?;
    }
    let mut peers = Peers::default();
    let deadline = Instant::now() + PATIENCE;
    while (peers.opened, peers.received) != (2 * CONNECTIONS, 2 * CONNECTIONS) {
        if let Some(error) = peers.failed {
            return Err(error);
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sockets.turn(&mut peers, Some(Duration::from_millis(50)))?;
    }
    Ok(sockets.stats().armed)
}

/// Two sockets for datagrams that send one to each other. Returns how many receives there were.
fn try_datagrams(sockets: &mut Sockets) -> io::Result<u64> {
    let before = sockets.stats();
    let local = Address::Inet((std::net::Ipv4Addr::LOCALHOST, 0).into());
    let ids = [(); 2].map(|()| sockets.open_datagram(&local, None));
    let [one, other] = ids;
    let (one, other) = (one?, other?);
    let mut peers = Peers::default();
    // The receives are in place before anything comes.
    sockets.turn(&mut peers, Some(Duration::ZERO))?;
    sockets.with(|cx| {
        let to = [one, other].map(|id| cx.local(id));
        cx.send_to(one, to[1].as_ref(), b"x");
        cx.send_to(other, to[0].as_ref(), b"x");
    });
    let deadline = Instant::now() + PATIENCE;
    while peers.received != 2 {
        if let Some(error) = peers.failed {
            return Err(error);
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sockets.turn(&mut peers, Some(Duration::from_millis(50)))?;
    }
    // A poll ends with what it tells of, and is made again in the next turn.
    sockets.turn(&mut peers, Some(Duration::ZERO))?;
    Ok(sockets.stats().armed - before.armed)
}

fn datagrams(sockets: &mut Sockets, how: &'static str, why: Option<String>) -> Row {
    let (how, why) = match try_datagrams(sockets) {
        Err(e) => ("no", Some(e.to_string())),
        Ok(armed) if how == "ring" && armed > 2 => (
            "epoll",
            Some("receives of datagrams do not stay in the ring (Linux 6.0), so they are polled for".into()),
        ),
        Ok(_) => (how, why),
    };
    Row {
        name: "datagrams",
        how,
        why,
    }
}

/// How sockets accept, connect, receive and send here, and how datagrams go: all are done.
pub fn rows() -> Vec<Row> {
    const NAMES: [&str; 4] = ["accept", "connect", "recv", "send"];
    let all = |how, why: Option<String>| {
        let row = |name| Row {
            name,
            how,
            why: why.clone(),
        };
        NAMES.map(row).to_vec()
    };
    let mut sockets = match Config::default().build() {
        Ok(sockets) => sockets,
        Err(e) => return all("no", Some(e.to_string())),
    };
    let (how, why): (_, Option<String>) = match sockets.chosen() {
        Chosen::Uring => ("ring", None),
        Chosen::Epoll(why) => ("epoll", Some(why.clone())),
    };
    let mut rows = match try_sockets(&mut sockets) {
        Err(e) => all("no", Some(e.to_string())),
        Ok(armed) => {
            let mut rows = all(how, why.clone());
            // One accept and a receive for each end, if they stay in the ring.
            if how == "ring" && armed > 1 + 2 * CONNECTIONS as u64 {
                rows[0].why =
                    Some("an accept does not stay in the ring (Linux 5.19), so each is asked for".into());
            }
            rows
        }
    };
    rows.push(datagrams(&mut sockets, how, why));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_done() {
        let rows = rows();
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names, ["accept", "connect", "recv", "send", "datagrams"]);
        assert!(rows.iter().all(|row| row.how != "no"), "{rows:?}");
        let on_ring = rows.iter().all(|row| row.how == "ring");
        assert_eq!(on_ring, ring().is_ok(), "{rows:?}");
    }
}
