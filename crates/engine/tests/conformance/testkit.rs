//! What the conformance tests share: one case per combination, and short names for what they do all the time.

mod os;

pub use os::*;

use proactor_engine::op::{File, Op};
use proactor_engine::{Completion, Config, Driver, Engine, Output, Token};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Far beyond what anything here takes: a test that waits this long has failed.
pub const LONG: Duration = Duration::from_secs(20);

/// Declares each test once per engine: `matrix { test, .. }`, where the matrix is one of `files` (inline on and off, disk
/// and tmpfs), `inline` (inline on and off), `once`, and `isolated` (once, in a process of its own).
macro_rules! conformance {
    (@engine $module:ident $engine:ident $($matrix:ident { $($test:ident),* })*) => {
        mod $module {
            $($(
                #[test]
                fn $test() {
                    let name = concat!(module_path!(), "::", stringify!($test));
                    crate::testkit::$matrix(proactor_engine::Engine::$engine, name, super::$test);
                }
            )*)*
        }
    };
    ($($matrix:ident { $($test:ident),* $(,)? })*) => {
        conformance!(@engine io_uring IoUring $($matrix { $($test),* })*);
        conformance!(@engine linux_aio LinuxAio $($matrix { $($test),* })*);
        conformance!(@engine posix_aio PosixAio $($matrix { $($test),* })*);
        conformance!(@engine threads Threads $($matrix { $($test),* })*);
        conformance!(@engine sim Sim $($matrix { $($test),* })*);
    };
}

/// Where the files of a case lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Disk,
    Tmpfs,
}

/// One combination of engine, inline attempts and file system.
pub struct Case {
    pub engine: Engine,
    pub inline: bool,
    pub place: Place,
    name: &'static str,
    dir: tempfile::TempDir,
}

impl Case {
    fn new(engine: Engine, inline: bool, place: Place, name: &'static str) -> Self {
        let parent = match place {
            Place::Disk => Path::new(env!("CARGO_TARGET_TMPDIR")),
            Place::Tmpfs => Path::new("/dev/shm"),
        };
        let dir = tempfile::tempdir_in(parent).expect("a directory for the test's files");
        Case {
            engine,
            inline,
            place,
            name,
            dir,
        }
    }

    pub fn config(&self) -> Config {
        Driver::builder().engine(self.engine).inline(self.inline)
    }

    pub fn driver(&self) -> Driver {
        self.config()
            .build()
            .expect("this engine works here: it was asked before")
    }

    /// Whether this machine has it. If not, says so and the test returns; or fails, if PROACTOR_REQUIRE names it.
    pub fn require(&self, capability: &str) -> bool {
        require(self.name, capability, self.dir.path(), self.engine)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn c_path(&self, name: &str) -> CString {
        c_path(&self.path(name))
    }

    /// A new FIFO.
    pub fn fifo(&self, name: &str) -> CString {
        let path = self.c_path(name);
        // SAFETY: the path is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        path
    }

    /// A new file with these bytes, and its descriptor for reading and writing.
    pub fn file(&self, name: &str, content: &[u8]) -> File {
        std::fs::write(self.path(name), content).expect("a file to work on");
        self.open(name, libc::O_RDWR)
    }

    pub fn open(&self, name: &str, flags: i32) -> File {
        File::new(open(&self.path(name), flags))
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} with inline {} on {:?}",
            self.engine, self.inline, self.place
        )
    }
}

fn each(engine: Engine, name: &'static str, cases: &[(bool, Place)], body: fn(&Case)) {
    for &(inline, place) in cases {
        if place == Place::Tmpfs && !require(name, "tmpfs", Path::new("/dev/shm"), engine) {
            continue;
        }
        let case = Case::new(engine, inline, place, name);
        if engine == Engine::IoUring && !case.require("io_uring") {
            return;
        }
        eprintln!("{case}");
        body(&case);
    }
}

pub fn files(engine: Engine, name: &'static str, body: fn(&Case)) {
    use Place::{Disk, Tmpfs};
    each(
        engine,
        name,
        &[(false, Disk), (true, Disk), (false, Tmpfs), (true, Tmpfs)],
        body,
    );
}

pub fn inline(engine: Engine, name: &'static str, body: fn(&Case)) {
    each(engine, name, &[(false, Place::Disk), (true, Place::Disk)], body);
}

pub fn once(engine: Engine, name: &'static str, body: fn(&Case)) {
    each(engine, name, &[(false, Place::Disk)], body);
}

/// In a process of its own: for tests that count descriptors and threads, or change limits, signals or the process.
pub fn isolated(engine: Engine, name: &'static str, body: fn(&Case)) {
    const VARIABLE: &str = "PROACTOR_ISOLATED_TEST";
    if std::env::var(VARIABLE).is_ok_and(|test| test == name) {
        return once(engine, name, body);
    }
    let test = name.split_once("::").expect("a path within this crate").1;
    let mut child = Command::new(std::env::current_exe().expect("this very program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, name)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a process for the test");
    let deadline = Instant::now() + 2 * LONG;
    loop {
        if let Some(status) = child.try_wait().expect("the test's process") {
            assert!(status.success(), "{test} in its own process: {status}");
            return;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{test} hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn require(test: &str, capability: &str, dir: &Path, engine: Engine) -> bool {
    let Err(reason) = missing(capability, dir, engine) else {
        return true;
    };
    let required = std::env::var("PROACTOR_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == capability),
        "{test} needs {capability}, which is required here: {reason}"
    );
    eprintln!("SKIPPED {test}: needs {capability}: {reason}");
    false
}

fn missing(capability: &str, dir: &Path, engine: Engine) -> Result<(), String> {
    let because = |ok: bool, reason: &str| if ok { Ok(()) } else { Err(reason.to_string()) };
    match capability {
        // SAFETY: no pointers.
        "root" => because(unsafe { libc::geteuid() } == 0, "not the superuser"),
        "tmpfs" => because(
            file_system(Path::new("/dev/shm")) == libc::TMPFS_MAGIC,
            "/dev/shm is no tmpfs",
        ),
        "io_uring" => match Driver::builder().engine(engine).build() {
            Ok(_) => Ok(()),
            Err(e) => Err(e.to_string()),
        },
        "o_direct" => {
            let path = dir.join("direct");
            let file = std::fs::OpenOptions::new();
            let open = |mut file: std::fs::OpenOptions| {
                use std::os::unix::fs::OpenOptionsExt;
                file.create(true)
                    .truncate(true)
                    .write(true)
                    .custom_flags(libc::O_DIRECT)
                    .open(&path)
                    .map(drop)
            };
            open(file).map_err(|e| format!("O_DIRECT: {e}"))
        }
        "user_xattr" => {
            let path = c_path(dir);
            // SAFETY: strings are NUL-terminated, the value is one byte.
            let ret =
                unsafe { libc::setxattr(path.as_ptr(), c"user.probe".as_ptr(), c"1".as_ptr().cast(), 1, 0) };
            because(ret == 0, "no user attributes on this file system")
        }
        other => panic!("nobody knows how to look for {other}"),
    }
}

/// The op with a change.
pub fn with<T>(mut op: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut op);
    op
}

/// The number that an op brought, or its errno; of a refused op too.
pub fn run(driver: &mut Driver, op: impl Into<Op>) -> Result<usize, i32> {
    finish(driver, op).0
}

/// As `run`, and the op that came back.
pub fn finish(driver: &mut Driver, op: impl Into<Op>) -> (Result<usize, i32>, Option<Op>) {
    match driver.submit(op) {
        Ok(token) => {
            let completion = driver.completion_of(token).expect("the driver works");
            (outcome(&completion), completion.op)
        }
        Err(e) => {
            let e = std::io::Error::from(e);
            (
                Err(proactor_engine::errno_of(&e).unwrap_or_else(|| panic!("refused without errno: {e}"))),
                None,
            )
        }
    }
}

pub fn outcome(completion: &Completion) -> Result<usize, i32> {
    match &completion.result {
        Ok(Output::Count(count)) => Ok(*count),
        Ok(Output::Events(events)) => Ok(usize::from(events.bits())),
        Ok(_) => Ok(0),
        Err(error) => Err(error.errno()),
    }
}

/// Exactly this many completions.
pub fn collect(driver: &mut Driver, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    let deadline = Instant::now() + LONG;
    while done.len() < count {
        let missing = count - done.len();
        match driver.wait(missing, missing, Some(LONG), &mut done) {
            // The end of the ring of the case before, say.
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            other => drop(other.expect("wait")),
        }
        assert!(
            Instant::now() < deadline,
            "{} of {count} completions came",
            done.len()
        );
    }
    done
}

/// The outcomes of exactly this many completions, by token.
pub fn outcomes(driver: &mut Driver, count: usize) -> HashMap<Token, Result<usize, i32>> {
    let done = collect(driver, count);
    let by_token: HashMap<_, _> = done.iter().map(|c| (c.token, outcome(c))).collect();
    assert_eq!(by_token.len(), count, "a token came twice");
    by_token
}

pub fn bytes_of(op: Option<Op>) -> Vec<u8> {
    match op {
        Some(Op::Read(op)) => op.buffer.into_vec(),
        Some(Op::ReadV(op)) => op
            .buffers
            .into_iter()
            .flat_map(proactor_engine::buffer::Buf::into_vec)
            .collect(),
        Some(Op::ReadFile(op)) => op.data,
        other => panic!("no bytes in {other:?}"),
    }
}
