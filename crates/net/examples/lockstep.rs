//! Measures what one wake-up of an echo server costs that finds exactly K ready connections.
//!
//! One thread is client and server in turn: it sends to each connection, then serves until all is echoed, then reads. Only the
//! serving is timed. No other thread takes part, so the figures repeat on a busy machine.
//!
//! `lockstep [k=25] [size=512] [depth=1] [rounds=3000] [engine=auto|epoll] [send=auto|direct|queued] [pool=32] [bytes=16384]`

use proactor_net::serve::Echo;
use proactor_net::{Address, Config, Hidden, SendPolicy, Sockets};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

struct Options {
    k: usize,
    size: usize,
    depth: usize,
    rounds: usize,
    config: Config,
}

fn options() -> Options {
    let (mut k, mut size, mut depth, mut rounds) = (25, 512, 1, 3000);
    let (mut config, mut buffers, mut bytes) = (Config::default(), 32, 16 << 10);
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').expect("name=value");
        let number = || value.parse().expect("a number");
        match (name, value) {
            ("k", _) => k = number(),
            ("size", _) => size = number(),
            ("depth", _) => depth = number(),
            ("rounds", _) => rounds = number(),
            ("pool", _) => buffers = number(),
            ("bytes", _) => bytes = number(),
            ("engine", "auto") | ("send", "auto") => {}
            ("engine", "epoll") => {
                config = config.hide(Hidden {
                    ring: true,
                    ..Hidden::default()
                })
            }
            ("send", "direct") => config = config.send(SendPolicy::Direct),
            ("send", "queued") => config = config.send(SendPolicy::Queued),
            _ => panic!("{argument} is not known"),
        }
    }
    let config = config.pool(buffers as u16, bytes as u32, 1024);
    Options {
        k,
        size,
        depth,
        rounds,
        config,
    }
}

fn microseconds(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn connect(sockets: &mut Sockets, k: usize) -> Vec<TcpStream> {
    let id = sockets.listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let Address::Inet(address) = sockets.with(|cx| cx.local(id)).unwrap() else {
        unreachable!()
    };
    let streams: Vec<TcpStream> = (0..k)
        .map(|_| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
        })
        .collect();
    while sockets.stats().accepted < k as u64 {
        sockets.turn(&mut Echo, None).unwrap();
    }
    // The receives of the last connections are armed.
    sockets.turn(&mut Echo, Some(Duration::ZERO)).unwrap();
    streams
}

fn main() {
    let Options {
        k,
        size,
        depth,
        rounds,
        config,
    } = options();
    let mut sockets = config.build().unwrap();
    let mut streams = connect(&mut sockets, k);
    let message = vec![b'x'; size];
    let mut back = vec![0; size * depth];
    let all = (k * size * depth) as u64;
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    let warm = rounds / 10;
    let (before, calls_before) = (sockets.stats(), sockets.calls());
    for round in 0..rounds + warm {
        for stream in &mut streams {
            (0..depth).for_each(|_| stream.write_all(&message).unwrap());
        }
        let goal = sockets.stats().sent_bytes + all;
        let (wall, cpu) = (
            microseconds(libc::CLOCK_MONOTONIC),
            microseconds(libc::CLOCK_THREAD_CPUTIME_ID),
        );
        while sockets.stats().sent_bytes < goal {
            // No event tells of sends that have sent all.
            sockets.turn(&mut Echo, Some(Duration::ZERO)).unwrap();
        }
        let after = (
            microseconds(libc::CLOCK_MONOTONIC),
            microseconds(libc::CLOCK_THREAD_CPUTIME_ID),
        );
        if round >= warm {
            walls.push((after.0 - wall) / (k * depth) as f64);
            cpus.push((after.1 - cpu) / (k * depth) as f64);
        }
        for stream in &mut streams {
            stream.read_exact(&mut back).unwrap();
        }
    }
    let stats = sockets.stats();
    let calls = (sockets.calls() - calls_before) as f64;
    walls.sort_by(f64::total_cmp);
    cpus.sort_by(f64::total_cmp);
    println!(
        "{{\"cfg\":\"ours {}\",\"k\":{k},\"size\":{size},\"depth\":{depth},\"wall_med\":{:.3},\"wall_p10\":{:.3},\"cpu_med\":{:.3},\
         \"cpu_p10\":{:.3},\"steps_per_iter\":{:.2},\"calls_per_request\":{:.3}}}",
        sockets.chosen(),
        walls[rounds / 2],
        walls[rounds / 10],
        cpus[rounds / 2],
        cpus[rounds / 10],
        (stats.turns - before.turns) as f64 / (rounds + warm) as f64,
        calls / ((rounds + warm) * k * depth) as f64,
    );
}
