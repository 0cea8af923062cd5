//! The server of the load tests: a process of its own, which is this test's binary again.

use super::common::kinds;
use super::usage::{raise_descriptors, settle, Usage};
use proactor_net::serve::Line;
use proactor_net::{Context, Handler, Limits, SocketId, Sockets};
use rustix::process::{kill_process, Pid, Signal};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a connection's first byte asks for.
pub const ECHO: u8 = b'E';
/// The server ends its side first, after as many bytes as the next four say.
pub const HALF: u8 = b'H';
/// The server resets the connection after so many bytes.
pub const ABORT: u8 = b'A';
/// The server forks, then echoes.
pub const FORK: u8 = b'F';
pub const HEADER_BYTES: usize = 5;

/// The longest that a new server tries to have the port of one that was killed.
const BIND_PATIENCE: Duration = Duration::from_secs(10);

/// What a server is like; the name of a kind of backend among it.
#[derive(Debug, Clone)]
pub struct Options {
    pub kind: String,
    pub address: SocketAddr,
    pub socket_bytes: usize,
    pub total_bytes: usize,
    pub buffers: u16,
    /// It sends lines back as [`Line`] does, and nobody says what else it is to do.
    pub line: bool,
}

impl Options {
    pub fn new(kind: &str) -> Self {
        Options {
            kind: kind.to_owned(),
            address: ([127, 0, 0, 1], 0).into(),
            socket_bytes: 256 << 10,
            total_bytes: 256 << 20,
            buffers: 32,
            line: false,
        }
    }

    fn to_text(&self) -> String {
        format!(
            "{}\n{}\n{}\n{}\n{}\n{}",
            self.kind, self.address, self.socket_bytes, self.total_bytes, self.buffers, self.line
        )
    }

    fn from_text(text: &str) -> Self {
        let mut words = text.split('\n');
        let mut next = || words.next().expect("six words");
        Options {
            kind: next().to_owned(),
            address: next().parse().unwrap(),
            socket_bytes: next().parse().unwrap(),
            total_bytes: next().parse().unwrap(),
            buffers: next().parse().unwrap(),
            line: next().parse().unwrap(),
        }
    }
}

pub struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    pub address: SocketAddr,
    pub options: Options,
}

impl Server {
    pub fn start(options: Options) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "--test-threads=1",
                "server_process",
            ])
            .env("PROACTOR_LOAD_SERVER", options.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = value_of(&mut output, "listening").parse().unwrap();
        Server {
            child,
            output,
            address,
            options,
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn usage(&self) -> Usage {
        Usage::of(self.child.id())
    }

    /// Waits until the server has closed all connections: it then has as many descriptors as it had.
    pub fn settle(&self, descriptors: usize) {
        settle(self.child.id(), descriptors);
    }

    /// Kills it as `kill -9` does. Returns the options of one that takes its place.
    pub fn kill(mut self) -> Options {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        Options {
            address: self.address,
            ..self.options.clone()
        }
    }

    /// Ends it, and checks that it has closed what it had accepted.
    pub fn stop(mut self) {
        drop(self.child.stdin.take());
        let ended = value_of(&mut self.output, "ended");
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        let (accepted, closed) = ended.split_once(' ').unwrap();
        assert_eq!(accepted, closed, "accepted and closed");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes after the word on the line that starts with it. The harness writes lines, too.
fn value_of(output: &mut BufReader<ChildStdout>, word: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the server has ended");
        if let Some((_, value)) = line.split_once(&format!("{word}: ")) {
            return value.trim().to_owned();
        }
    }
}

/// What is known of a connection.
#[derive(Default, Clone)]
struct Asked {
    header: Vec<u8>,
    /// Bytes until the server does what it was asked for.
    left: usize,
    done: bool,
}

#[derive(Default)]
struct Service {
    /// By the index of the connection's id.
    asked: Vec<Asked>,
}

/// A child process that has copies of all descriptors, until its parent ends.
fn fork() {
    // SAFETY: the child makes system calls only.
    unsafe {
        if libc::fork() == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        }
    }
}

impl Handler for Service {
    fn opened(&mut self, _: &mut Context<'_>, id: SocketId) {
        if self.asked.len() <= id.index() {
            self.asked.resize(id.index() + 1, Asked::default());
        }
        self.asked[id.index()] = Asked::default();
    }

    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        let asked = &mut self.asked[id.index()];
        let missing = (HEADER_BYTES - asked.header.len()).min(bytes.len());
        asked.header.extend_from_slice(&bytes[..missing]);
        if missing > 0 && asked.header.len() == HEADER_BYTES {
            asked.left = u32::from_le_bytes(asked.header[1..].try_into().unwrap()) as usize;
            if asked.header[0] == FORK {
                fork();
            }
        }
        let bytes = &bytes[missing..];
        if bytes.is_empty() || asked.done {
            return;
        }
        if matches!(asked.header[0], ECHO | FORK) {
            cx.send(id, bytes);
            return;
        }
        let count = asked.left.min(bytes.len());
        asked.left -= count;
        cx.send(id, &bytes[..count]);
        if asked.left == 0 {
            asked.done = true;
            if asked.header[0] == HALF {
                cx.shutdown(id);
            } else {
                cx.abort(id);
            }
        }
    }
}

/// Serves until it is to stop and the last connection is closed.
fn turn(sockets: &mut Sockets, handler: &mut impl Handler, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) || sockets.with(|cx| cx.connections()) > 0 {
        sockets.turn(handler, Some(Duration::from_secs(60))).unwrap();
    }
}

/// The server's process.
pub fn run(text: &str) {
    let options = Options::from_text(text);
    raise_descriptors();
    let kind = kinds()
        .into_iter()
        .find(|kind| format!("{kind:?}") == options.kind);
    let limits = Limits {
        socket_bytes: options.socket_bytes,
        total_bytes: options.total_bytes,
        ..Limits::default()
    };
    let config = kind.unwrap().config().limits(limits);
    let mut sockets = config
        .pool(options.buffers, 16 << 10, options.buffers)
        .build()
        .unwrap();
    let began = Instant::now();
    let listener = loop {
        // The ring of a server that was killed holds the port for a moment longer.
        match sockets.listen(&options.address.into()) {
            Ok(id) => break id,
            Err(e) if began.elapsed() > BIND_PATIENCE => panic!("{e}"),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (waker, stopped) = (sockets.waker().unwrap(), Arc::clone(&stop));
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopped.store(true, Ordering::Relaxed);
        waker.wake();
    });
    println!("listening: {}", sockets.with(|cx| cx.local(listener)).unwrap());
    match options.line {
        true => turn(&mut sockets, &mut Line::default(), &stop),
        false => turn(&mut sockets, &mut Service::default(), &stop),
    }
    let stats = sockets.stats();
    println!("ended: {} {}", stats.accepted, stats.closed);
}
