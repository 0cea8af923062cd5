//! Clients that check every byte: one thread, many connections, each with a habit.

use super::dialogue::Dialogue;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Nothing takes as long on a machine that works.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
/// Clients come from so many addresses of 127.0.0.0/8.
const ADDRESSES: usize = 7;

/// How a client behaves. No server's tests have them all.
#[allow(dead_code)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// Sends and reads as it can, ends its side when all is sent.
    Plain,
    /// Reads few bytes at a time.
    SlowReader,
    /// Sends byte by byte.
    ByteWriter,
    /// Reads nothing before all is sent that the kernel and the server take.
    Staller,
    /// The server ends its side first.
    ServerFirst,
    /// Resets the connection in the middle of a write.
    Resets,
    /// The server resets the connection.
    ServerResets,
    /// As `Plain`; the server forks before it echoes.
    Forks,
    /// Asks for one thing at a time.
    Asks,
}

/// A socket of one of several addresses.
fn socket(number: usize) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let from = SocketAddr::from(([127, 0, 0, (2 + number % ADDRESSES) as u8], 0));
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &from).unwrap();
    socket
}

/// Connects from one of several addresses.
pub fn connect(number: usize, to: SocketAddr) -> TcpStream {
    connected(socket(number), to)
}

fn connected(socket: OwnedFd, to: SocketAddr) -> TcpStream {
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &to)).unwrap();
    TcpStream::from(socket)
}

/// As `connect`. The kernel holds little of what comes and goes on both sides, so that much stays with the server.
pub fn connect_narrow(number: usize, to: SocketAddr) -> TcpStream {
    // The kernel makes the server's send buffer as large as a number of segments.
    let segment_bytes: libc::c_int = 536;
    let socket = socket(number);
    // SAFETY: a live number of that length.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const segment_bytes).cast(),
            size_of_val(&segment_bytes) as libc::socklen_t,
        )
    };
    assert_eq!(done, 0);
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4096).unwrap();
    connected(socket, to)
}

/// Connects many at once and closes or resets them, whether the server has accepted them or not.
pub fn flood(count: usize, to: SocketAddr) {
    let begin = |number| {
        let stream = TcpStream::from(socket(number));
        stream.set_nonblocking(true).unwrap();
        match rustix::net::connect(&stream, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => stream,
            Err(e) => panic!("{e}"),
        }
    };
    let streams: Vec<TcpStream> = (0..count).map(begin).collect();
    for (number, stream) in streams.into_iter().enumerate() {
        if number % 2 == 0 {
            reset(stream);
        }
    }
}

/// Makes the close of a connection a reset.
pub fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
}

pub struct Client {
    stream: TcpStream,
    number: usize,
    habit: Habit,
    dialogue: Box<dyn Dialogue>,
    sent: usize,
    pub received: usize,
    is_shut: bool,
    has_end: bool,
    /// A staller that cannot send any more, or was told to read.
    pub reads: bool,
}

impl Client {
    pub fn new(number: usize, habit: Habit, dialogue: Box<dyn Dialogue>, to: SocketAddr) -> Self {
        let stream = match habit {
            Habit::Staller | Habit::SlowReader => connect_narrow(number, to),
            _ => connect(number, to),
        };
        stream.set_nonblocking(true).unwrap();
        Client {
            stream,
            number,
            habit,
            dialogue,
            sent: 0,
            received: 0,
            is_shut: false,
            has_end: false,
            reads: habit != Habit::Staller,
        }
    }

    fn has_sent_all(&self) -> bool {
        self.sent == self.dialogue.total()
    }

    fn interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        if self.sent < self.dialogue.limit() {
            flags |= PollFlags::OUT;
        }
        if self.reads && !self.has_end {
            flags |= PollFlags::IN;
        }
        flags
    }

    /// Whether the server may have ended the connection before everything was sent.
    fn may_break(&self) -> bool {
        self.habit == Habit::ServerResets || self.dialogue.may_end()
    }

    /// Sends what goes. True: the connection is over.
    fn write(&mut self) -> bool {
        let most = if self.habit == Habit::ByteWriter {
            1
        } else {
            10_000
        };
        let most = most.min(self.dialogue.limit() - self.sent);
        let bytes = self.dialogue.outgoing(self.sent, most);
        match self.stream.write(&bytes) {
            Ok(count) => self.sent += count,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) if self.may_break() => return true,
            Err(e) => panic!("{} {:?}: {e} after {} bytes", self.number, self.habit, self.sent),
        }
        if self.habit == Habit::Resets && self.sent > self.dialogue.total() / 2 {
            return true;
        }
        self.end_if_done();
        false
    }

    /// Ends this side of the connection when nothing more is to be said.
    fn end_if_done(&mut self) {
        let is_done = self.has_sent_all() && (self.dialogue.is_complete() || !self.dialogue.ends_last());
        if is_done && !self.is_shut && self.habit != Habit::ServerFirst {
            self.is_shut = true;
            let shut = self.stream.shutdown(Shutdown::Write);
            assert!(shut.is_ok() || self.may_break(), "{shut:?}");
        }
    }

    /// Reads what is there. True: the connection is over.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        let most = if self.habit == Habit::SlowReader {
            97
        } else {
            buffer.len()
        };
        match self.stream.read(&mut buffer[..most]) {
            Ok(0) => {
                self.has_end = true;
                assert!(
                    self.dialogue.is_complete() || self.may_break(),
                    "{} {:?} ends after {} bytes",
                    self.number,
                    self.habit,
                    self.received
                );
            }
            Ok(count) => {
                self.received += count;
                if let Err(what) = self.dialogue.take(&buffer[..count]) {
                    panic!(
                        "{} {:?}: {what} in the {} bytes until byte {}",
                        self.number, self.habit, count, self.received
                    );
                }
                self.end_if_done();
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) if self.may_break() => return true,
            Err(e) => panic!(
                "{} {:?}: {e} after {} bytes",
                self.number, self.habit, self.received
            ),
        }
        self.has_end && (self.has_sent_all() || self.may_break())
    }

    fn finish(self) {
        if self.habit == Habit::Resets {
            reset(self.stream);
        }
    }
}

/// Lets all clients do what they can until `until` holds or none is left.
pub fn run(clients: &mut Vec<Client>, until: impl Fn(&[Client]) -> bool) {
    while !clients.is_empty() && !until(clients) {
        let mut polled: Vec<PollFd<'_>> = clients
            .iter()
            .map(|client| PollFd::from_borrowed_fd(client.stream.as_fd(), client.interest()))
            .collect();
        let count = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&PATIENCE))).unwrap();
        assert!(count > 0, "{} clients wait for ever", clients.len());
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        for (at, flags) in ready.into_iter().enumerate().rev() {
            let client = &mut clients[at];
            let ended = flags.intersects(PollFlags::HUP | PollFlags::ERR);
            let interest = client.interest();
            let is_over = (interest.contains(PollFlags::OUT)
                && (ended || flags.contains(PollFlags::OUT))
                && client.write())
                || (interest.contains(PollFlags::IN)
                    && (ended || flags.contains(PollFlags::IN))
                    && client.read());
            let is_over = is_over || (client.has_end && client.has_sent_all());
            if is_over {
                clients.swap_remove(at).finish();
            }
        }
    }
}

/// Sends until nothing is taken any more, then lets the clients read. Returns the bytes that were taken before.
pub fn stall(clients: &mut [Client]) -> usize {
    loop {
        let mut polled: Vec<PollFd<'_>> = clients
            .iter()
            .map(|client| PollFd::from_borrowed_fd(client.stream.as_fd(), client.interest()))
            .collect();
        // What has not been taken after so long waits for the reader.
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: 300_000_000,
        };
        if rustix::io::retry_on_intr(|| poll(&mut polled, Some(&pause))).unwrap() == 0 {
            break;
        }
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        for (client, flags) in clients.iter_mut().zip(ready) {
            if flags.contains(PollFlags::OUT) {
                client.write();
            }
        }
        if clients.iter().all(Client::has_sent_all) {
            break;
        }
    }
    let taken = clients.iter().map(|client| client.sent).sum();
    clients.iter_mut().for_each(|client| client.reads = true);
    taken
}
