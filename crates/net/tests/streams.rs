//! Streams on each backend, with each part of the ring hidden: the same tests.

mod common;

use common::{kinds, Server};
use proactor_net::serve::Echo;
use proactor_net::{Address, Chosen, Context, Handler, Limits, SocketId};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes whose value tells their position and their connection.
fn pattern(connection: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ connection.wrapping_mul(97)) as u8)
        .collect()
}

fn read_all(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_sent_comes_back() {
    for kind in kinds() {
        let server = Server::echo(kind.config());
        let mut stream = server.connect();
        for round in 0..20 {
            let message = pattern(round, 1 + round * 700);
            stream.write_all(&message).unwrap();
            let mut back = vec![0; message.len()];
            stream.read_exact(&mut back).unwrap();
            assert!(back == message, "{kind:?}, round {round}");
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut stream), b"", "{kind:?}");
        let stats = server.stop();
        assert_eq!((stats.accepted, stats.closed), (1, 1), "{kind:?}");
        assert_eq!(stats.received_bytes, stats.sent_bytes, "{kind:?}");
    }
}

#[test]
fn many_connections_keep_their_bytes_apart() {
    const CONNECTIONS: usize = 60;
    for kind in kinds() {
        let server = Server::echo(kind.config());
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| server.connect()).collect();
        for round in 1..6 {
            for (at, stream) in streams.iter_mut().enumerate() {
                stream.write_all(&pattern(at + round, 100 * round)).unwrap();
            }
            for (at, stream) in streams.iter_mut().enumerate() {
                let mut back = vec![0; 100 * round];
                stream.read_exact(&mut back).unwrap();
                assert!(
                    back == pattern(at + round, 100 * round),
                    "{kind:?}, connection {at}"
                );
            }
        }
        drop(streams);
        assert_eq!(server.stop().closed, CONNECTIONS as u64, "{kind:?}");
    }
}

#[test]
fn a_long_message_to_a_slow_reader_is_held_within_bounds() {
    const LEN: usize = 8 << 20;
    for kind in kinds() {
        let limits = Limits {
            socket_bytes: 64 << 10,
            ..Limits::default()
        };
        let server = Server::echo(kind.config().limits(limits));
        let stream = server.connect();
        let mut writer = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            writer.write_all(&pattern(3, LEN)).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut stream = stream;
        let back = read_all(&mut stream);
        writing.join().unwrap();
        assert!(back == pattern(3, LEN), "{kind:?}: {} bytes", back.len());
        let most = server.most_unsent();
        // The bound, and what one turn brings beyond it.
        assert!(most < 4 << 20, "{kind:?}: {most}");
        server.stop();
    }
}

#[test]
fn a_pool_that_is_too_small_starves_and_goes_on() {
    for kind in kinds() {
        let server = Server::echo(kind.config().pool(1, 64, 2));
        let mut streams: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
        for (at, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&pattern(at, 5000)).unwrap();
        }
        for (at, stream) in streams.iter_mut().enumerate() {
            let mut back = vec![0; 5000];
            stream.read_exact(&mut back).unwrap();
            assert!(back == pattern(at, 5000), "{kind:?}, connection {at}");
        }
        drop(streams);
        server.stop();
    }
}

/// The error of a read that ends because of its timeout. A ring that was made in this thread interrupts it now and then.
fn nothing_comes(stream: &mut TcpStream) -> ErrorKind {
    loop {
        match stream.read(&mut [0]).unwrap_err().kind() {
            ErrorKind::Interrupted => {}
            kind => return kind,
        }
    }
}

#[test]
fn a_pool_that_has_grown_is_made_smaller_when_few_are_in_use() {
    for kind in kinds() {
        let mut sockets = kind.config().pool(2, 1000, 64).build().unwrap();
        let id = sockets.listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let Some(Address::Inet(address)) = sockets.with(|cx| cx.local(id)) else {
            panic!("no internet address")
        };
        let mut streams: Vec<TcpStream> = (0..30).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut exchange = |sockets: &mut proactor_net::Sockets, some: usize| {
            let goal = sockets.stats().sent_bytes + some as u64 * 500;
            for stream in &mut streams[..some] {
                stream.write_all(&[1; 500]).unwrap();
            }
            while sockets.stats().sent_bytes < goal {
                // No event tells of sends that have sent all.
                sockets.turn(&mut Echo, Some(Duration::ZERO)).unwrap();
            }
            for stream in &mut streams[..some] {
                stream.read_exact(&mut [0; 500]).unwrap();
            }
        };
        (0..10).for_each(|_| exchange(&mut sockets, 30));
        let most = sockets.buffers();
        (0..6000).for_each(|_| exchange(&mut sockets, 1));
        let least = sockets.buffers();
        if *sockets.chosen() == Chosen::Uring {
            assert!(most >= 16 && least <= 4, "{kind:?}: {most}, then {least}");
        }
        // It grows again.
        (0..10).for_each(|_| exchange(&mut sockets, 30));
        assert!(sockets.buffers() >= least.max(most / 2), "{kind:?}");
    }
}

#[test]
fn connections_beyond_the_bound_wait() {
    for kind in kinds() {
        let limits = Limits {
            max_connections: 2,
            ..Limits::default()
        };
        let server = Server::echo(kind.config().limits(limits));
        let mut streams: Vec<TcpStream> = (0..4).map(|_| server.connect()).collect();
        for stream in &mut streams {
            stream.write_all(b"x").unwrap();
        }
        let mut byte = [0];
        streams[0].read_exact(&mut byte).unwrap();
        streams[1].read_exact(&mut byte).unwrap();
        streams[2]
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        assert_eq!(nothing_comes(&mut streams[2]), ErrorKind::WouldBlock, "{kind:?}");
        streams[2].set_read_timeout(None).unwrap();
        drop(streams.remove(0));
        streams[1].read_exact(&mut byte).unwrap();
        drop(streams.remove(0));
        streams[1].read_exact(&mut byte).unwrap();
        drop(streams);
        assert_eq!(server.stop().accepted, 4, "{kind:?}");
    }
}

#[test]
fn idle_connections_are_closed() {
    for kind in kinds() {
        let limits = Limits {
            idle: Some(Duration::from_millis(50)),
            ..Limits::default()
        };
        let server = Server::echo(kind.config().limits(limits));
        let mut stream = server.connect();
        let mut byte = [0];
        // A timeout of the server's ends this.
        assert!(matches!(stream.read(&mut byte), Ok(0) | Err(_)), "{kind:?}");
        assert_eq!(server.stop().idle_closed, 1, "{kind:?}");
    }
}

#[test]
fn a_reset_in_the_middle_ends_one_connection_only() {
    for kind in kinds() {
        let server = Server::echo(kind.config());
        let mut other = server.connect();
        for _ in 0..20 {
            let mut stream = server.connect();
            stream.write_all(&pattern(0, 100_000)).unwrap();
            // Closed with bytes unread: the kernel sends a reset.
            drop(stream);
        }
        other.write_all(b"still here").unwrap();
        let mut back = [0; 10];
        other.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"still here", "{kind:?}");
        drop(other);
        let stats = server.stop();
        assert_eq!(stats.accepted, stats.closed, "{kind:?}");
    }
}

#[test]
fn unix_sockets_echo_too() {
    for kind in kinds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let server = Server::echo_at(kind.config(), Address::Unix(path.clone()));
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(&pattern(1, 70_000)).unwrap();
        let mut back = vec![0; 70_000];
        stream.read_exact(&mut back).unwrap();
        assert!(back == pattern(1, 70_000), "{kind:?}");
        drop(stream);
        server.stop();
    }
}

/// Connects to an address, sends, and keeps what comes back.
#[derive(Default)]
struct Client {
    back: HashMap<SocketId, Vec<u8>>,
    opened: usize,
    closed: Vec<Option<i32>>,
}

impl Handler for Client {
    fn opened(&mut self, cx: &mut Context<'_>, id: SocketId) {
        self.opened += 1;
        cx.send(id, &pattern(id.index(), 3000));
        cx.shutdown(id);
    }

    fn received(&mut self, _: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        self.back.entry(id).or_default().extend_from_slice(bytes);
    }

    fn closed(&mut self, _: &mut Context<'_>, _: SocketId, error: Option<&std::io::Error>) {
        self.closed.push(error.and_then(std::io::Error::raw_os_error));
    }
}

#[test]
fn connections_are_made_and_half_closed() {
    for kind in kinds() {
        let server = Server::echo(kind.config());
        let mut sockets = kind.config().build().unwrap();
        let ids: Vec<SocketId> = (0..10)
            .map(|_| sockets.connect(&server.address).unwrap())
            .collect();
        let mut client = Client::default();
        while client.closed.len() < ids.len() {
            sockets.turn(&mut client, None).unwrap();
        }
        for id in ids {
            assert!(client.back[&id] == pattern(id.index(), 3000), "{kind:?}");
        }
        assert!(
            client.closed.iter().all(Option::is_none),
            "{kind:?}: {:?}",
            client.closed
        );
        server.stop();
    }
}

#[test]
fn a_connection_that_is_refused_is_closed_with_its_error() {
    for kind in kinds() {
        // Nothing listens on a port that was given up.
        let address = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut sockets = kind.config().build().unwrap();
        sockets.connect(&Address::Inet(address)).unwrap();
        let mut client = Client::default();
        while client.closed.is_empty() {
            sockets.turn(&mut client, None).unwrap();
        }
        assert_eq!(
            (client.opened, client.closed),
            (0, vec![Some(libc::ECONNREFUSED)]),
            "{kind:?}"
        );
    }
}

#[test]
fn descriptors_end_as_they_began() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    for kind in kinds() {
        let before = count();
        let mut sockets = kind.config().build().unwrap();
        let id = sockets.listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let address = sockets.with(|cx| cx.local(id)).unwrap();
        let mut client = Client::default();
        for _ in 0..5 {
            sockets.connect(&address).unwrap();
        }
        while client.opened < 10 {
            sockets.turn(&mut client, None).unwrap();
        }
        // Dropped with everything in flight.
        drop(sockets);
        // Other tests' descriptors come and go: these numbers are compared only where this test is alone.
        if std::env::var_os("RUST_TEST_THREADS").is_some_and(|threads| threads == "1") {
            assert_eq!(count(), before, "{kind:?}");
        }
    }
}

#[test]
fn connections_that_were_never_told_of_are_closed() {
    for kind in kinds() {
        let mut sockets = kind.config().build().unwrap();
        let id = sockets.listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let Address::Inet(address) = sockets.with(|cx| cx.local(id)).unwrap() else {
            unreachable!()
        };
        let mut client = Client::default();
        sockets.turn(&mut client, Some(Duration::ZERO)).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // Whoever waits for an op reads the completions of sockets, too.
        if let Some(driver) = sockets.driver() {
            driver.run(proactor_engine::op::Nop).unwrap();
        }
        drop(sockets);
        // A ring that was made in this thread interrupts reads now and then.
        let end = loop {
            match stream.read(&mut [0]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                end => break end.map_err(|e| e.kind()),
            }
        };
        assert!(
            matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)),
            "{kind:?}: {end:?}"
        );
    }
}
