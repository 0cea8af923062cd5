//! Clients that check every byte: one thread, many connections, each with a habit.

use super::server::{ABORT, ECHO, FORK, HALF, HEADER_BYTES};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;

/// Nothing takes as long on a machine that works.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
/// Clients come from so many addresses of 127.0.0.0/8.
const ADDRESSES: usize = 7;

/// How a client behaves.
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
}

/// The byte that a connection has at a position.
fn byte_at(number: usize, position: usize) -> u8 {
    let mixed = (position as u64 ^ (number as u64) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as u8
}

/// Connects from one of several addresses.
pub fn connect(number: usize, to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let from = SocketAddr::from(([127, 0, 0, (2 + number % ADDRESSES) as u8], 0));
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &from).unwrap();
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &to)).unwrap();
    TcpStream::from(socket)
}

/// Makes the close of a connection a reset.
pub fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
}

pub struct Client {
    stream: TcpStream,
    number: usize,
    habit: Habit,
    /// Payload bytes to send, and to have back.
    len: usize,
    back: usize,
    /// Bytes that were sent, the header's among them.
    sent: usize,
    received: usize,
    is_shut: bool,
    has_end: bool,
    /// A staller that cannot send any more, or was told to read.
    pub reads: bool,
}

impl Client {
    pub fn new(number: usize, habit: Habit, len: usize, to: SocketAddr) -> Self {
        let stream = connect(number, to);
        if habit == Habit::Staller {
            // The kernel holds little, so much has to stay with the server.
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
            rustix::net::sockopt::set_socket_send_buffer_size(&stream, 4096).unwrap();
        }
        stream.set_nonblocking(true).unwrap();
        let back = match habit {
            Habit::ServerFirst | Habit::ServerResets => len / 2,
            _ => len,
        };
        Client {
            stream,
            number,
            habit,
            len,
            back,
            sent: 0,
            received: 0,
            is_shut: false,
            has_end: false,
            reads: habit != Habit::Staller,
        }
    }

    fn total(&self) -> usize {
        HEADER_BYTES + self.len
    }

    fn outgoing(&self, most: usize) -> Vec<u8> {
        let mode = match self.habit {
            Habit::ServerFirst => HALF,
            Habit::ServerResets => ABORT,
            Habit::Forks => FORK,
            _ => ECHO,
        };
        let mut header = vec![mode];
        header.extend((self.back as u32).to_le_bytes());
        let end = self.total().min(self.sent + most);
        let byte = |at: usize| match at.checked_sub(HEADER_BYTES) {
            None => header[at],
            Some(position) => byte_at(self.number, position),
        };
        (self.sent..end).map(byte).collect()
    }

    fn interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        if self.sent < self.total() {
            flags |= PollFlags::OUT;
        }
        if self.reads && !self.has_end {
            flags |= PollFlags::IN;
        }
        flags
    }

    /// Whether the server may have ended the connection before everything was sent.
    fn may_break(&self) -> bool {
        self.habit == Habit::ServerResets
    }

    /// Sends what goes. True: the connection is over.
    fn write(&mut self) -> bool {
        let most = if self.habit == Habit::ByteWriter {
            1
        } else {
            10_000
        };
        let bytes = self.outgoing(most);
        match self.stream.write(&bytes) {
            Ok(count) => self.sent += count,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) if self.may_break() => return true,
            Err(e) => panic!("{} {:?}: {e} after {} bytes", self.number, self.habit, self.sent),
        }
        if self.habit == Habit::Resets && self.sent > self.total() / 2 {
            return true;
        }
        if self.sent == self.total() && !self.is_shut && self.habit != Habit::ServerFirst {
            self.is_shut = true;
            let shut = self.stream.shutdown(Shutdown::Write);
            assert!(shut.is_ok() || self.may_break(), "{shut:?}");
        }
        false
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
                let complete = self.received == self.back;
                assert!(
                    complete || self.may_break(),
                    "{} {:?} ends after {} of {} bytes",
                    self.number,
                    self.habit,
                    self.received,
                    self.back
                );
            }
            Ok(count) => {
                for (at, byte) in buffer[..count].iter().enumerate() {
                    let expected = byte_at(self.number, self.received + at);
                    assert_eq!(*byte, expected, "{} {:?}", self.number, self.habit);
                }
                self.received += count;
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) if self.may_break() => return true,
            Err(e) => panic!(
                "{} {:?}: {e} after {} bytes",
                self.number, self.habit, self.received
            ),
        }
        self.has_end && (self.sent == self.total() || self.may_break())
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
            let is_over = is_over || (client.has_end && client.sent == client.total());
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
        if clients.iter().all(|client| client.sent == client.total()) {
            break;
        }
    }
    let taken = clients.iter().map(|client| client.sent).sum();
    clients.iter_mut().for_each(|client| client.reads = true);
    taken
}
