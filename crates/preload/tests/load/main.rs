//! A checksumming load against unmodified servers with this library: redis-server and nginx.
//!
//! Every byte has a position and a connection in it. Descriptors, threads and memory of the server end as they began.
//! `make soak` runs the same with more of everything.

#[path = "../../../net/tests/load/client.rs"]
mod client;
#[path = "../../../net/tests/load/dialogue.rs"]
mod dialogue;
mod http;
mod resp;
mod server;
#[path = "../../../net/tests/load/usage.rs"]
mod usage;

use client::{connect, flood, reset, run, stall, Client, Habit};
use rustix::process::Signal;
use server::{await_end, Kind, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use usage::{raise_descriptors, soaked, Usage};

/// What a server may use more after the second half of its loads than in the first.
const GROWTH_KB: usize = 16 << 10;
/// Options of `proactor run`, as the library gets them: none, very little memory, and a kernel worker that sleeps often.
const OPTIONS: [&str; 3] = [
    "",
    "pool=2;per-socket=4096",
    "kernel-workers=1;sqpoll-idle-ms=1;user-spin-ns=1000",
];

const HABITS: [Habit; 6] = [
    Habit::Plain,
    Habit::SlowReader,
    Habit::ByteWriter,
    Habit::ServerFirst,
    Habit::Resets,
    Habit::Plain,
];

/// The servers that are here. In CI a missing one is a failure.
fn kinds(test: &str) -> Vec<Kind> {
    let required = std::env::var("PROACTOR_REQUIRE").unwrap_or_default();
    let is_here = |kind: &Kind| {
        let missing = ["io_uring for sockets", kind.name()]
            .into_iter()
            .find(|name| match *name {
                "io_uring for sockets" => !server::has_ring(),
                _ => kind.program().is_none(),
            });
        if let Some(name) = missing {
            assert!(!required.split(',').any(|one| one == name), "{name} is missing");
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {name} is missing");
        }
        missing.is_none()
    };
    [Kind::Redis, Kind::Nginx].into_iter().filter(is_here).collect()
}

/// Clients of all habits, a few of them with long messages.
fn mixed(count: usize, first: usize, server: &Server) -> Vec<Client> {
    (first..first + count)
        .map(|number| {
            let habit = HABITS[number % HABITS.len()];
            let len = match habit {
                Habit::ByteWriter => 1 + number % 150,
                Habit::SlowReader if number % 4 == 0 => 100_000,
                Habit::SlowReader => 1 + number * 37 % 8000,
                _ if number % 50 == 0 => 400_000,
                _ => 2 + number * 131 % 20_000,
            };
            Client::new(number, habit, server.dialogue(number, habit, len), server.address)
        })
        .collect()
}

/// An exchange on a connection that was idle.
fn check_idle(stream: &mut TcpStream, server: &Server) {
    let (question, answer, end) = server.short_exchange();
    stream.write_all(question).unwrap();
    let mut back = Vec::new();
    while !back.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        back.push(byte[0]);
    }
    assert!(back.starts_with(answer), "{}", String::from_utf8_lossy(&back));
}

/// What a server uses that has its ring, and no connection.
fn without_connections(server: &Server) -> Usage {
    let mut streams = idle(1, server);
    // By the second answer it has closed those that ended before this one began.
    check_idle(&mut streams[0], server);
    let mut usage = server.usage();
    usage.descriptors -= 1;
    drop(streams);
    server.settle(usage.descriptors);
    usage
}

/// Connections that have had an answer.
fn idle(count: usize, server: &Server) -> Vec<TcpStream> {
    let mut streams: Vec<TcpStream> = (0..count).map(|number| connect(number, server.address)).collect();
    streams.iter_mut().for_each(|stream| check_idle(stream, server));
    streams
}

/// Loads a server several times, beside idle connections.
fn load(kind: Kind, options: &str, rounds: usize, count: usize, idle_count: usize) {
    raise_descriptors();
    let server = Server::start(kind, options);
    let at_start = without_connections(&server);
    let mut streams = idle(idle_count, &server);
    let mut resident_kb = Vec::new();
    for round in 0..rounds {
        let mut clients = mixed(count, round * count, &server);
        run(&mut clients, |_| false);
        server.settle(at_start.descriptors + idle_count);
        resident_kb.push(server.usage().resident_kb);
    }
    streams.iter_mut().for_each(|stream| check_idle(stream, &server));
    drop(streams);
    server.settle(at_start.descriptors);
    assert_eq!(server.usage().threads, at_start.threads);
    // What a server has freed its allocator keeps for some rounds, with a ring or without.
    let (first, last) = resident_kb.split_at(rounds.div_ceil(2));
    let (before, after) = (first.iter().max(), last.last());
    assert!(
        after <= before.map(|kb| kb + GROWTH_KB).as_ref(),
        "{resident_kb:?}"
    );
    // One that was reset before it was accepted goes on none.
    assert!(
        server.stop() >= rounds * count / 2,
        "few connections were on a ring"
    );
}

#[test]
fn clients_of_all_habits_get_their_bytes() {
    for kind in kinds("clients_of_all_habits_get_their_bytes") {
        for options in OPTIONS {
            load(kind, options, 3, 120, 50);
        }
    }
}

#[test]
fn many_idle_connections_stay() {
    for kind in kinds("many_idle_connections_stay") {
        load(kind, "", 2, 25, 2000);
    }
}

fn cancelled(kind: Kind, count: usize) {
    const AT_ONCE: usize = 250;
    let server = Server::start(kind, "");
    let before = without_connections(&server);
    for number in 0..count / 2 {
        let mut stream = connect(number, server.address);
        match number % 3 {
            0 => drop(stream),
            1 => reset(stream),
            _ => {
                // Ended with an answer under way.
                let _ = stream.write_all(server.short_exchange().0);
            }
        }
    }
    for _ in 0..count / 2 / AT_ONCE {
        flood(AT_ONCE, server.address);
        idle(1, &server);
    }
    server.settle(before.descriptors);
    assert_eq!(server.usage().threads, before.threads);
    server.stop();
}

#[test]
fn connections_that_are_opened_and_cancelled_leave_nothing() {
    for kind in kinds("connections_that_are_opened_and_cancelled_leave_nothing") {
        cancelled(kind, 1000);
    }
}

fn stalled(kind: Kind, count: usize, len: usize) {
    raise_descriptors();
    let server = Server::start(kind, "");
    let before = without_connections(&server);
    let mut clients: Vec<Client> = (0..count)
        .map(|number| {
            let dialogue = server.dialogue(number, Habit::Staller, len);
            Client::new(number, Habit::Staller, dialogue, server.address)
        })
        .collect();
    stall(&mut clients);
    let most = server.usage();
    let bound_kb = count * server.stalled_kb(len) + GROWTH_KB;
    assert!(
        most.resident_kb <= before.resident_kb + bound_kb,
        "{before:?}, then {most:?}"
    );
    run(&mut clients, |_| false);
    server.settle(before.descriptors);
    server.stop();
}

#[test]
fn stalled_readers_get_all_and_are_held_within_the_bound() {
    for kind in kinds("stalled_readers_get_all_and_are_held_within_the_bound") {
        stalled(kind, 300, 200_000);
    }
}

#[test]
fn a_server_that_was_killed_can_be_started_again_at_once() {
    for kind in kinds("a_server_that_was_killed_can_be_started_again_at_once") {
        let mut server = Server::start(kind, "");
        for _ in 0..3 {
            let streams = idle(20, &server);
            let address = server.address;
            server = server.kill_and_start();
            assert_eq!(server.address, address);
            // The kernel has ended the connections of the one that was killed.
            for mut stream in streams {
                assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
            }
            idle(1, &server);
        }
        server.stop();
    }
}

#[test]
fn a_server_that_was_stopped_goes_on() {
    for kind in kinds("a_server_that_was_stopped_goes_on") {
        let server = Server::start(kind, "");
        let mut clients = mixed(60, 0, &server);
        for round in 3..6 {
            server.signal(Signal::STOP);
            // The kernel accepts connections, and takes bytes, for who sleeps.
            clients.extend(mixed(20, 20 * round, &server));
            server.signal(Signal::CONT);
            let left = clients.len() / 2;
            run(&mut clients, |clients| clients.len() <= left);
        }
        run(&mut clients, |_| false);
        server.stop();
    }
}

#[test]
fn a_server_that_forks_goes_on() {
    let kinds = kinds("a_server_that_forks_goes_on");
    for kind in kinds.into_iter().filter(|kind| *kind == Kind::Redis) {
        let server = Server::start(kind, "");
        let mut clients = mixed(60, 0, &server);
        for round in 2..5 {
            let left = clients.len() / 2;
            run(&mut clients, |clients| clients.len() <= left);
            server.save();
            clients.extend(mixed(30, 30 * round, &server));
        }
        run(&mut clients, |_| false);
        server.stop();
    }
}

#[test]
fn workers_that_are_replaced_answer_what_they_have_read() {
    if !kinds("workers_that_are_replaced_answer_what_they_have_read").contains(&Kind::Nginx) {
        return;
    }
    let server = Server::start(Kind::NginxWorkers, "");
    let clients = |first: usize| -> Vec<Client> {
        let asking = |number| {
            let asks = server.dialogue(number, Habit::Asks, 200_000);
            Client::new(number, Habit::Asks, asks, server.address)
        };
        (first..first + 40).map(asking).collect()
    };
    for round in 0..3 {
        let mut clients = clients(round * 40);
        // Each has had some answers, and most are in the middle of one.
        run(&mut clients, |clients| {
            clients.iter().all(|client| client.received > 50_000)
        });
        let old = server.children();
        server.signal(Signal::HUP);
        run(&mut clients, |_| false);
        server.await_other_children(&old);
        let mut clients = mixed(60, 0, &server);
        run(&mut clients, |_| false);
    }
    server.stop();
}

#[test]
fn a_server_that_a_failed_test_leaves_ends_with_its_workers() {
    if !kinds("a_server_that_a_failed_test_leaves_ends_with_its_workers").contains(&Kind::Nginx) {
        return;
    }
    for leader_is_gone in [false, true] {
        let server = Server::start(Kind::NginxWorkers, "");
        let workers = server.await_children(2);
        if leader_is_gone {
            server.signal(Signal::KILL);
        }
        drop(server);
        await_end(&workers);
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_all_habits() {
    for kind in kinds("soak_all_habits") {
        for options in OPTIONS {
            load(kind, options, soaked(10), 1000, 100);
        }
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_ten_thousand_idle() {
    for kind in kinds("soak_ten_thousand_idle") {
        load(kind, "", soaked(20), 25, 10_000);
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_cancelled() {
    for kind in kinds("soak_cancelled") {
        cancelled(kind, soaked(100_000));
    }
}

#[test]
#[ignore = "long: make soak"]
fn soak_stalled() {
    for kind in kinds("soak_stalled") {
        stalled(kind, 1000, 200_000);
    }
}
