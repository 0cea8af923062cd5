//! Unmodified servers with the library.

use super::client::{connect, Habit};
use super::dialogue::Dialogue;
use super::usage::{settle, Usage};
use super::{http, resp};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{kill_process, kill_process_group, set_parent_process_death_signal, Pid, Signal};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Redis,
    /// In one process, so that what it uses can be seen.
    Nginx,
    /// A master and its workers, which it replaces when it reads its configuration again.
    NginxWorkers,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis-server",
            Kind::Nginx | Kind::NginxWorkers => "nginx",
        }
    }

    /// Debian has some servers where only root looks.
    pub fn program(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        directories
            .map(|dir| dir.join(self.name()))
            .find(|file| file.exists())
    }
}

/// Whether this process may have a ring.
pub fn has_ring() -> bool {
    io_uring::IoUring::new(2).is_ok()
}

/// The library, built as this test is: a library that exports the C library's names is linked to nothing, so cargo builds
/// it for no test.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        // target/PROFILE/deps/load-HASH
        let test = std::env::current_exe().unwrap();
        let profile = test
            .ancestors()
            .nth(2)
            .unwrap()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap();
        let status = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--quiet", "--package", "proactor-preload"])
            .args(["--profile", if profile == "debug" { "dev" } else { profile }])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "the library was not built");
        target.join(profile).join("libproactor_preload.so")
    })
}

/// A port that nobody else is given while the socket is there. A server that sets SO_REUSEADDR can listen to it.
fn reserved_port() -> (OwnedFd, u16) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    (socket, address.port())
}

pub struct Server {
    kind: Kind,
    options: String,
    place: tempfile::TempDir,
    child: Child,
    port: Option<(OwnedFd, u16)>,
    pub address: SocketAddr,
}

impl Server {
    pub fn start(kind: Kind, options: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join(http::FILE), http::file()).unwrap();
        Self::start_at(kind, options, place, reserved_port())
    }

    fn start_at(kind: Kind, options: &str, place: tempfile::TempDir, port: (OwnedFd, u16)) -> Self {
        let (reserved, port) = port;
        let address = ([127, 0, 0, 1], port).into();
        let dir = place.path().display().to_string();
        let mut command = Command::new(kind.program().unwrap());
        match kind {
            Kind::Redis => {
                command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--dir", &dir, "--maxclients", "20000", "--tcp-backlog", "1000"]);
                // Clients come from 127.0.0.2 and more.
                command.args(["--protected-mode", "no"]);
            }
            Kind::Nginx | Kind::NginxWorkers => {
                let file = place.path().join("nginx.conf");
                let has_master = kind == Kind::NginxWorkers;
                std::fs::write(&file, configuration(&dir, port, has_master)).unwrap();
                command.arg("-c").arg(file);
            }
        }
        // A test that is interrupted ends the server's leader, which is in another group and ends the others.
        let follow = || set_parent_process_death_signal(Some(Signal::TERM)).map_err(Into::into);
        // SAFETY: one system call, which takes no lock and allocates nothing.
        unsafe { command.pre_exec(follow) };
        let child = command
            .process_group(0)
            .env("LD_PRELOAD", library())
            .env("PROACTOR_RUN", options)
            .env("PROACTOR_RUN_STATS", place.path().join("stats"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Server {
            kind,
            options: options.to_owned(),
            place,
            child,
            port: Some((reserved, port)),
            address,
        };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "{kind:?} has ended: {ended:?}");
            assert!(began.elapsed() < PATIENCE, "{kind:?} does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// What a client of a habit says and has back, about `len` bytes.
    pub fn dialogue(&self, number: usize, habit: Habit, len: usize) -> Box<dyn Dialogue> {
        match self.kind {
            Kind::Redis => resp::resp(number, habit, len),
            Kind::Nginx | Kind::NginxWorkers => http::http(number, habit, len),
        }
    }

    /// A question, how the answer to it begins, and how it ends.
    pub fn short_exchange(&self) -> (&'static [u8], &'static [u8], &'static [u8]) {
        match self.kind {
            Kind::Redis => (b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", b"$2\r\nhi", b"hi\r\n"),
            Kind::Nginx | Kind::NginxWorkers => (
                b"GET /here HTTP/1.1\r\nHost: here\r\n\r\n",
                b"HTTP/1.1 204 ",
                b"\r\n\r\n",
            ),
        }
    }

    /// What the server and the library may keep for a client that does not read its answers.
    pub fn stalled_kb(&self, len: usize) -> usize {
        let ours = 2 * 64;
        match self.kind {
            // It has all answers in memory.
            Kind::Redis => ours + 3 * (len >> 10),
            Kind::Nginx | Kind::NginxWorkers => ours + 64,
        }
    }

    pub fn usage(&self) -> Usage {
        Usage::of(self.child.id())
    }

    pub fn settle(&self, descriptors: usize) {
        settle(self.child.id(), descriptors);
    }

    /// Has a redis-server fork with its connections open, to save its data.
    pub fn save(&self) {
        let mut stream = connect(0, self.address);
        let mut ask = |question: &[u8]| {
            stream.write_all(question).unwrap();
            let mut answer = [0; 4096];
            let count = stream.read(&mut answer).unwrap();
            String::from_utf8_lossy(&answer[..count]).into_owned()
        };
        let began = Instant::now();
        while !ask(b"BGSAVE\r\n").starts_with("+Background saving started") {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The processes that it has started.
    pub fn children(&self) -> BTreeSet<u32> {
        let pid = self.child.id();
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    pub fn await_children(&self, count: usize) -> BTreeSet<u32> {
        let began = Instant::now();
        loop {
            let children = self.children();
            if children.len() == count {
                return children;
            }
            assert!(began.elapsed() < PATIENCE, "{children:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the children that there were are gone, and as many others are there.
    pub fn await_other_children(&self, old: &BTreeSet<u32>) {
        let began = Instant::now();
        loop {
            let now = self.children();
            if now.len() == old.len() && now.is_disjoint(old) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{old:?}, and now {now:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it as `kill -9` does, and starts one that takes its place.
    pub fn kill_and_start(mut self) -> Server {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let place = std::mem::replace(&mut self.place, tempfile::tempdir().unwrap());
        Self::start_at(self.kind, &self.options, place, self.port.take().unwrap())
    }

    /// Ends it in order. Returns how many connections have been on a ring.
    pub fn stop(mut self) -> usize {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
        let stats = std::fs::read_to_string(self.place.path().join("stats")).unwrap();
        let counts = stats.split("\"sockets\":").skip(1);
        counts
            .map(|text| text.split(',').next().unwrap().parse::<usize>().unwrap())
            .sum()
    }
}

impl Drop for Server {
    /// Ends what a failed test has left: the leader and its workers, which go on without it.
    fn drop(&mut self) {
        let has_ended_well = matches!(self.child.try_wait(), Ok(Some(status)) if status.success());
        if !has_ended_well {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Waits until processes have ended. Whoever inherits them may not have collected their statuses.
pub fn await_end(processes: &BTreeSet<u32>) {
    let is_alive = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    };
    let began = Instant::now();
    while processes.iter().any(is_alive) {
        assert!(began.elapsed() < PATIENCE, "{processes:?} go on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn configuration(dir: &str, port: u16, has_master: bool) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {dir}/{name};\n"))
        .collect();
    // Workers would be nobody's, who sees nothing of the directory.
    let (master, user) = match has_master {
        false => ("off", ""),
        true if rustix::process::geteuid().is_root() => ("on", "user root;"),
        true => ("on", ""),
    };
    format!(
        "daemon off; master_process {master}; worker_processes 2; {user}\n\
         pid {dir}/pid; error_log {dir}/errors;\n\
         events {{ worker_connections 20000; }}\n\
         http {{ access_log off; sendfile on; keepalive_requests 1000000; keepalive_timeout 600s;\n{temporary}\
         server {{ listen 127.0.0.1:{port} backlog=1000; root {dir};\n\
         location /here {{ return 204; }} }} }}\n"
    )
}
