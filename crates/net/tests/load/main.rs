//! A checksumming load against a server in a process of its own, on the ring and on epoll.
//!
//! Every byte has a position and a connection in it. Descriptors, threads and memory of the server end as they began.
//! `make soak` runs the same with more of everything.

mod client;
#[path = "../common/mod.rs"]
#[allow(dead_code)]
mod common;
mod dialogue;
mod echo;
mod server;
mod usage;

use client::{connect, connect_narrow, flood, reset, run, stall, Client, Habit};
use echo::{echo, lines};
use rustix::process::Signal;
use server::{Options, Server};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use usage::{raise_descriptors, soaked};

/// What a server may use more after a load than after a first one like it.
const GROWTH_KB: usize = 8 << 10;

/// How long a server with nothing to do is looked at.
const OBSERVED: Duration = Duration::from_millis(300);

const HABITS: [Habit; 7] = [
    Habit::Plain,
    Habit::SlowReader,
    Habit::ByteWriter,
    Habit::ServerFirst,
    Habit::Resets,
    Habit::ServerResets,
    Habit::Plain,
];

fn engines() -> Vec<String> {
    let names = common::kinds().into_iter().map(|kind| format!("{kind:?}"));
    names.filter(|name| name == "ring" || name == "epoll").collect()
}

/// The server's process; no test.
#[test]
#[ignore = "the server of the other tests"]
fn server_process() {
    if let Ok(text) = std::env::var("PROACTOR_LOAD_SERVER") {
        server::run(&text);
    }
}

/// Clients of all habits, a few of them with long messages.
fn mixed(count: usize, first: usize, server: &Server) -> Vec<Client> {
    let is_line = server.options.line;
    (first..first + count)
        .map(|number| {
            let habit = match HABITS[number % HABITS.len()] {
                // A server of lines does nothing of itself.
                Habit::ServerFirst | Habit::ServerResets if is_line => Habit::Plain,
                habit => habit,
            };
            let len = match habit {
                Habit::ByteWriter => 1 + number % 150,
                Habit::SlowReader if number % 4 == 0 => 100_000,
                Habit::SlowReader => 1 + number * 37 % 8000,
                _ if number % 50 == 0 => 400_000,
                _ => 2 + number * 131 % 20_000,
            };
            let dialogue = match is_line {
                true => lines(number, len),
                false => echo(number, habit, len),
            };
            Client::new(number, habit, dialogue, server.address)
        })
        .collect()
}

/// An exchange on a connection that was idle.
fn check_idle(stream: &mut TcpStream) {
    stream.write_all(b"E\0\0\0\0still here").unwrap();
    let mut back = [0; 10];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"still here");
}

/// Loads a server several times, beside idle connections.
fn load(options: Options, rounds: usize, count: usize, idle: usize) {
    raise_descriptors();
    let server = Server::start(options);
    let at_start = server.usage();
    let mut streams: Vec<TcpStream> = (0..idle).map(|number| connect(number, server.address)).collect();
    let mut after_first = None;
    for round in 0..rounds {
        let mut clients = mixed(count, round * count, &server);
        run(&mut clients, |_| false);
        server.settle(at_start.descriptors + idle);
        after_first.get_or_insert(server.usage());
    }
    streams.iter_mut().for_each(check_idle);
    drop(streams);
    server.settle(at_start.descriptors);
    let (first, last) = (after_first.unwrap(), server.usage());
    assert_eq!(last.threads, at_start.threads);
    assert!(
        last.resident_kb <= first.resident_kb + GROWTH_KB,
        "{first:?}, then {last:?}"
    );
    server.stop();
}

#[test]
fn clients_of_all_habits_get_their_bytes() {
    for engine in engines() {
        load(Options::new(&engine), 3, 150, 50);
    }
}

#[test]
fn clients_of_all_habits_get_their_lines() {
    for engine in engines() {
        let options = Options {
            line: true,
            ..Options::new(&engine)
        };
        load(options, 2, 150, 0);
    }
}

#[test]
fn clients_of_all_habits_share_two_buffers() {
    for engine in engines() {
        let options = Options {
            buffers: 2,
            ..Options::new(&engine)
        };
        load(options, 2, 100, 10);
    }
}

fn cancelled(engine: &str, count: usize) {
    const AT_ONCE: usize = 250;
    let server = Server::start(Options::new(engine));
    let before = server.usage();
    for number in 0..count / 2 {
        let mut stream = connect(number, server.address);
        match number % 3 {
            0 => drop(stream),
            1 => reset(stream),
            _ => {
                // Ended with an answer under way.
                let _ = stream.write_all(b"E\0\0\0\0something");
            }
        }
    }
    for _ in 0..count / 2 / AT_ONCE {
        flood(AT_ONCE, server.address);
        check_idle(&mut connect(0, server.address));
    }
    server.settle(before.descriptors);
    assert_eq!(server.usage().threads, before.threads);
    server.stop();
}

#[test]
fn connections_that_are_opened_and_cancelled_leave_nothing() {
    for engine in engines() {
        cancelled(&engine, 1000);
    }
}

fn stalled(engine: &str, count: usize, len: usize) {
    const SOCKET_BYTES: usize = 16 << 10;
    const TOTAL_BYTES: usize = 4 << 20;
    raise_descriptors();
    let server = Server::start(Options {
        socket_bytes: SOCKET_BYTES,
        total_bytes: TOTAL_BYTES,
        ..Options::new(engine)
    });
    let before = server.usage();
    let mut clients: Vec<Client> = (0..count)
        .map(|number| {
            let stalls = echo(number, Habit::Staller, len);
            Client::new(number, Habit::Staller, stalls, server.address)
        })
        .collect();
    let taken = stall(&mut clients);
    let most = server.usage();
    // The bound of all, and what the last turn has brought each connection beyond its own.
    let bound_kb = (TOTAL_BYTES >> 10) * 4 + GROWTH_KB;
    assert!(
        most.resident_kb <= before.resident_kb + bound_kb,
        "{taken} bytes were taken; {before:?}, then {most:?}"
    );
    run(&mut clients, |_| false);
    server.settle(before.descriptors);
    server.stop();
}

#[test]
fn a_thousand_stalled_readers_are_held_within_the_bound() {
    for engine in engines() {
        stalled(&engine, 1000, 60_000);
    }
}

/// A poll for room ends at once when the peer has ended its side.
#[test]
fn a_peer_that_ends_its_side_and_does_not_read_costs_nothing() {
    const BYTES: usize = 200_000;
    for engine in engines() {
        let server = Server::start(Options::new(&engine));
        let before = server.usage();
        let mut streams: Vec<TcpStream> = (0..3)
            .map(|number| connect_narrow(number, server.address))
            .collect();
        for stream in &mut streams {
            stream.write_all(b"E\0\0\0\0").unwrap();
            stream.write_all(&[b'x'; BYTES]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
        check_idle(&mut connect(0, server.address));
        let start = server.usage();
        std::thread::sleep(OBSERVED);
        let end = server.usage();
        assert_eq!(end.threads, before.threads);
        let used_ms = end.cpu_ms - start.cpu_ms;
        assert!(u128::from(used_ms) < OBSERVED.as_millis() / 4, "{used_ms} ms");
        for mut stream in streams {
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, [b'x'; BYTES]);
        }
        server.settle(before.descriptors);
        server.stop();
    }
}

#[test]
fn a_server_that_was_killed_can_be_started_again_at_once() {
    for engine in engines() {
        let mut server = Server::start(Options::new(&engine));
        for _ in 0..3 {
            let mut streams: Vec<TcpStream> = (0..20).map(|number| connect(number, server.address)).collect();
            streams.iter_mut().for_each(check_idle);
            let address = server.address;
            server = Server::start(server.kill());
            assert_eq!(server.address, address);
            // The kernel has ended the connections of the one that was killed.
            for mut stream in streams {
                assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
            }
            check_idle(&mut connect(0, address));
        }
        server.stop();
    }
}

#[test]
fn a_server_that_was_stopped_goes_on() {
    for engine in engines() {
        let server = Server::start(Options::new(&engine));
        let before = server.usage();
        let mut clients = mixed(60, 0, &server);
        for _ in 0..3 {
            server.signal(Signal::STOP);
            // The kernel accepts connections, and takes bytes, for who sleeps.
            clients.extend(mixed(20, 60, &server));
            server.signal(Signal::CONT);
            let left = clients.len() / 2;
            run(&mut clients, |clients| clients.len() <= left);
        }
        run(&mut clients, |_| false);
        server.settle(before.descriptors);
        server.stop();
    }
}

#[test]
fn a_forked_child_keeps_no_connection_open() {
    for engine in engines() {
        let server = Server::start(Options::new(&engine));
        let mut clients = mixed(40, 0, &server);
        // The child has copies of the descriptors of all of them.
        let forks = echo(40, Habit::Forks, 1000);
        clients.push(Client::new(40, Habit::Forks, forks, server.address));
        clients.extend(mixed(40, 41, &server));
        run(&mut clients, |_| false);
        server.stop();
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_all_habits() {
    for engine in engines() {
        load(Options::new(&engine), soaked(10), 1000, 100);
        let options = Options {
            line: true,
            ..Options::new(&engine)
        };
        load(options, soaked(10), 1000, 0);
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_ten_thousand_idle() {
    for engine in engines() {
        load(Options::new(&engine), soaked(20), 25, 10_000);
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_cancelled() {
    for engine in engines() {
        cancelled(&engine, soaked(100_000));
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_stalled() {
    for engine in engines() {
        stalled(&engine, 1000, 300_000);
    }
}
