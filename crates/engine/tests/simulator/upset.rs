//! What a program does to its driver besides submitting ops and waiting for them: it abandons ops, drops the driver with
//! ops in flight, forks, registers files and buffers, watches the driver's descriptor, and has a poll that goes on.

use super::{Chain, Completion, Intent, Place, Program, Rules, Token, LONG};
use proactor_engine::op::{Events, File, Nop, Poll};
use proactor_engine::{CancelOutcome, Refusal};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

const BUFFERS: u16 = 3;
const BUFFER_BYTES: usize = 8192;

/// A chain that nobody waits for any more.
pub(super) struct Lost {
    pub(super) chain: Chain,
    /// Its driver was dropped, which lets what changes something run to its end.
    dropped: bool,
}

/// An eventfd, and the multishot poll that listens to it.
pub(super) struct Bell {
    fd: File,
    pub(super) poll: Option<Token>,
    events: usize,
}

impl Bell {
    pub(super) fn new() -> Self {
        // SAFETY: no pointers; the descriptor is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) };
        Bell {
            fd: File::new(fd),
            poll: None,
            events: 0,
        }
    }

    fn ring(&self) {
        let one = 1_u64;
        // SAFETY: eight live bytes.
        let written = unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
        assert_eq!(written, 8);
    }

    /// Whether the completion is the poll's.
    pub(super) fn heard(&mut self, completion: &Completion) -> bool {
        if self.poll != Some(completion.token) {
            return false;
        }
        match (completion.more, completion.events()) {
            (true, Ok(events)) => {
                assert_eq!(events, Events::READABLE);
                self.events += 1;
            }
            (false, Err(error)) => {
                assert_eq!(error.errno(), libc::ECANCELED);
                self.poll = None;
            }
            (more, result) => panic!("a poll that goes on has ended with {result:?}, more: {more}"),
        }
        true
    }
}

impl Program {
    /// What a driver has from its beginning: registered buffers, and somebody who watches it.
    pub(super) fn equip(&mut self) {
        self.buffers.clear();
        if self.random.below(2) == 0 {
            // RLIMIT_MEMLOCK may forbid it.
            self.buffers = self
                .driver
                .register_buffers(BUFFERS, BUFFER_BYTES)
                .unwrap_or_default();
        }
        self.watched = match self.random.below(2) {
            0 => Some(self.driver.eventfd().expect("a descriptor to be watched")),
            _ => None,
        };
    }

    pub(super) fn upset(&mut self) {
        match self.random.below(16) {
            0..5 => self.abandon(),
            5 => self.drop_driver(),
            6 => self.fork(),
            7..10 => self.ring(),
            10 => self.watch(),
            _ => self.register(),
        }
    }

    fn abandon(&mut self) {
        if self.chains.is_empty() {
            return;
        }
        let at = self.random.below(self.chains.len() as u64) as usize;
        let chain = self.chains.swap_remove(at);
        for (token, _) in &chain.ops {
            if self.done.remove(token).is_none() {
                self.driver.abandon(*token);
            }
        }
        self.lost.push(Lost {
            chain,
            dropped: false,
        });
    }

    fn drop_driver(&mut self) {
        let chains = std::mem::take(&mut self.chains);
        self.lost
            .extend(chains.into_iter().map(|chain| Lost { chain, dropped: true }));
        self.done.clear();
        self.bell.poll = None;
        self.watched = None;
        self.driver = self.config.clone().build().expect("it was made before");
        self.epoch += 1;
        self.equip();
        self.inspect();
    }

    /// A child finds a dead driver, and makes one of its own.
    fn fork(&mut self) {
        // SAFETY: the child calls nothing of the test harness and ends with _exit.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork");
        if pid == 0 {
            let code = i32::from(catch_unwind(AssertUnwindSafe(|| self.as_child())).is_err());
            // SAFETY: it runs nothing that belongs to the parent.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: a live local.
        while unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {}
        assert_eq!(status, 0, "the child's status");
    }

    fn as_child(&mut self) {
        // SAFETY: no pointers. A child that hangs is killed.
        unsafe { libc::alarm(LONG.as_secs() as u32) };
        assert!(self.driver.is_forked());
        assert_eq!(
            self.driver.submit(Nop::new()).unwrap_err().refusal,
            Refusal::Forked
        );
        assert!(self.driver.wait(0, 1, None, &mut Vec::new()).is_err());
        if let Some((token, _)) = self.chains.first().and_then(|chain| chain.ops.first()) {
            assert_eq!(self.driver.cancel(*token), CancelOutcome::Finished);
        }
        self.driver = self.config.clone().build().expect("a driver of the child's own");
        self.driver.run(Nop::new()).expect("it works");
    }

    /// Starts the poll, or causes an event and waits for it.
    fn ring(&mut self) {
        if self.bell.poll.is_none() {
            // It takes the place of an op for as long as it goes on: the others need one too.
            if self.depth > 1 {
                let poll = Poll::multishot(&self.bell.fd, Events::READABLE);
                self.bell.poll = Some(self.driver.submit(poll).expect("there is room"));
            }
            return;
        }
        let before = self.bell.events;
        self.bell.ring();
        while self.bell.events == before {
            let pending = self.driver.pending();
            self.wait_for_any();
            assert!(pending > 0, "the poll is gone");
        }
    }

    /// Waits for a completion, if need be of the poll.
    fn wait_for_any(&mut self) {
        let mut done = Vec::new();
        self.driver
            .wait(1, usize::MAX, Some(LONG), &mut done)
            .expect("wait");
        assert!(!done.is_empty(), "an event is lost");
        self.take(done);
    }

    /// As an event loop does: nothing is asked for before the descriptor is readable.
    fn watch(&mut self) {
        let Some(fd) = self.watched else { return };
        if self.driver.pending() == usize::from(self.bell.poll.is_some()) {
            return;
        }
        self.driver.flush().expect("flush");
        assert!(
            is_readable(fd, LONG.as_millis() as i32),
            "completions that nobody hears of"
        );
        self.wait(0, usize::MAX);
    }

    /// A completion that is there to be taken shows on the descriptor.
    pub(super) fn look_at_descriptor(&self) {
        if let Some(fd) = self.watched {
            assert!(self.driver.ready() == 0 || is_readable(fd, 0));
        }
    }

    /// Registers the file of a place, or takes it out of the table again.
    fn register(&mut self) {
        let at = self.random.below(self.places.len() as u64) as usize;
        let Place { file, fixed, .. } = &mut self.places[at];
        match (fixed.take(), file) {
            (Some((file, epoch)), _) => {
                let result = self.driver.unregister_file(file);
                // Another driver's is no file of this one's table.
                assert!(result.is_ok() || epoch != self.epoch, "{result:?}");
            }
            (None, Some(file)) => {
                let registered = self.driver.register_file(file).expect("there is room");
                *fixed = Some((registered, self.epoch));
            }
            (None, None) => {}
        }
    }

    /// Waits until nothing is in flight, and looks at what has become of what was given up.
    pub(super) fn settle(&mut self) {
        if let Some(token) = self.bell.poll {
            self.driver.cancel(token);
            while self.bell.poll.is_some() {
                self.wait_for_any();
            }
        }
        self.driver.drain().expect("drain");
        self.inspect();
    }

    fn inspect(&mut self) {
        for Lost { chain, dropped } in std::mem::take(&mut self.lost) {
            let old = self.places[chain.place].content.take();
            let new = self.on_disk(chain.place);
            let beside = chain.other.map(|other| self.on_disk(other));
            if let [(_, intent)] = &chain.ops[..] {
                let whole = dropped && !chain.cancelled && self.rules == Rules::Exact;
                let likely = is_outcome(intent, old.as_deref(), new.as_deref(), whole)
                    || matches!(intent, Intent::Rename { .. } if new.is_none() && beside == Some(old.clone()));
                assert!(likely, "{intent:?} was given up, and has done something else");
            }
            self.places[chain.place] = Place {
                content: new,
                ..Place::default()
            };
            if let (Some(other), Some(content)) = (chain.other, beside) {
                self.places[other] = Place {
                    content,
                    ..Place::default()
                };
            }
        }
    }

    fn on_disk(&self, place: usize) -> Option<Vec<u8>> {
        std::fs::read(self.dir.join(place.to_string())).ok()
    }

    /// What is full stays full, and what cannot be read or written never can.
    pub(super) fn check_lasting(&self, place: usize, intent: &Intent, count: usize, after_full: bool) {
        let Rules::Lasting { bad: (start, end) } = self.rules else {
            return;
        };
        let (at, writes) = match intent {
            Intent::Write { at, .. } => (*at, true),
            Intent::WriteFile(_) => (0, true),
            Intent::Read { at, .. } => (*at, false),
            Intent::ReadFile => (0, false),
            _ => return,
        };
        let count = match intent {
            Intent::ReadFile => self.places[place].content.as_ref().map_or(0, Vec::len),
            _ => count,
        };
        assert!(
            !(writes && after_full && count > 0),
            "{intent:?} on a disk that was full"
        );
        let touches = count > 0 && at < end && at + count as u64 > start;
        assert!(!touches, "{count} bytes at {at}: some of them cannot be had");
    }
}

/// Whether an op that was given up may have left this. `whole`: it was not stopped.
fn is_outcome(intent: &Intent, old: Option<&[u8]>, new: Option<&[u8]>, whole: bool) -> bool {
    if new == old && !(whole && matches!(intent, Intent::WriteFile(_) | Intent::Write { .. })) {
        return true;
    }
    match (intent, new) {
        (Intent::Write { at, data }, Some(new)) => {
            let old = old.unwrap_or_default();
            let at = *at as usize;
            // What comes behind the last byte that differs is the same, written or not.
            let differs = |(index, byte): (usize, &u8)| old.get(index) != Some(byte);
            let last = new.iter().enumerate().rfind(|&(i, b)| differs((i, b)));
            let count = match whole {
                true => data.len(),
                false => last.map_or(0, |(index, _)| (index + 1).saturating_sub(at)),
            };
            let mut expected = old.to_vec();
            if count > 0 && count <= data.len() {
                expected.resize(expected.len().max(at + count), 0);
                expected[at..at + count].copy_from_slice(&data[..count]);
            }
            expected == new
        }
        (Intent::Truncate(len), Some(new)) => {
            let mut expected = old.unwrap_or_default().to_vec();
            expected.resize(*len as usize, 0);
            expected == new
        }
        (Intent::Open, Some(new)) => old.is_none() && new.is_empty(),
        (Intent::WriteFile(data), Some(new)) => data.starts_with(new) && !(whole && new.len() < data.len()),
        (Intent::Unlink, None) => true,
        _ => false,
    }
}

fn is_readable(fd: RawFd, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&raw mut poll, 1, timeout_ms) == 1 }
}

/// What this process has open there: nothing that was abandoned may stay open.
pub(super) fn descriptors_below(dir: &Path) -> Vec<PathBuf> {
    let links = std::fs::read_dir("/proc/self/fd").expect("/proc");
    links
        .filter_map(|link| std::fs::read_link(link.ok()?.path()).ok())
        .filter(|path| path.starts_with(dir))
        .collect()
}
