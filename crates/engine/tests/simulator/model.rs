//! The program and the model that it is held against.
//!
//! There are a few named places for files. Whatever is submitted is a chain (mostly of one op); the places that a chain
//! touches take no other op until the whole chain is complete, so that the model knows what every op must have found.
//! Chains on different places are in flight together and may complete in any order.

use proactor_engine::buffer::{Buf, RegisteredBuf};
use proactor_engine::op::{
    File, FixedFile, Fsync, Handle, Op, Open, OpenFlags, Read, ReadFile, ReadV, Rename, Statx, Truncate,
    Unlink, Write, WriteFile, WriteV,
};
use proactor_engine::{Completion, Config, Driver, Output, Token};
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[path = "upset.rs"]
mod upset;

use upset::{descriptors_below, Bell, Lost};

const PLACES: usize = 6;
/// Large enough for several pages, small enough to be quick.
const LARGEST_BYTES: u64 = 20_000;
const LONG: Duration = Duration::from_secs(30);

/// What an engine may do to an op.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Errors without effect, transfers cut short.
    Faults,
    /// A disk that gets full and stays so, and offsets that can be neither read nor written; no other faults.
    Lasting { bad: (u64, u64) },
    /// Neither.
    Exact,
}

struct Random(u64);

impl Random {
    /// xorshift64*: enough to choose with.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    fn bytes(&mut self) -> Vec<u8> {
        let (len, first) = (self.below(LARGEST_BYTES / 2), self.next());
        (0..len).map(|i| (first.wrapping_add(i) % 251) as u8).collect()
    }
}

/// What is known about one place.
#[derive(Default)]
struct Place {
    content: Option<Vec<u8>>,
    file: Option<File>,
    /// The same file in the table of a driver, and how many drivers there were before that one.
    fixed: Option<(FixedFile, usize)>,
}

/// What an op was asked to do.
#[derive(Debug)]
enum Intent {
    Write { at: u64, data: Vec<u8> },
    Read { at: u64, len: usize },
    Truncate(u64),
    Sync,
    Stat,
    Open,
    ReadFile,
    WriteFile(Vec<u8>),
    Rename { to: usize },
    Unlink,
}

struct Chain {
    place: usize,
    other: Option<usize>,
    ops: Vec<(Token, Intent)>,
    cancelled: bool,
    /// The disk was known to be full when it was submitted.
    after_full: bool,
}

pub struct Program {
    config: Config,
    depth: u32,
    driver: Driver,
    /// How many drivers there were before this one.
    epoch: usize,
    /// What another event loop would watch.
    watched: Option<RawFd>,
    /// Registered buffers that no op has.
    buffers: Vec<RegisteredBuf>,
    bell: Bell,
    /// Given up: nobody hears of them, and what they have done is seen when nothing is in flight.
    lost: Vec<Lost>,
    full: bool,
    rules: Rules,
    random: Random,
    dir: PathBuf,
    places: Vec<Place>,
    chains: Vec<Chain>,
    done: HashMap<Token, Completion>,
    trace: Vec<String>,
}

impl Program {
    pub fn new(config: Config, depth: u32, rules: Rules, seed: u64, dir: &Path) -> Self {
        let driver = config.clone().build().expect("an engine that works here");
        let mut program = Program {
            config,
            depth,
            driver,
            epoch: 0,
            watched: None,
            buffers: Vec::new(),
            bell: Bell::new(),
            lost: Vec::new(),
            full: false,
            rules,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            dir: dir.to_owned(),
            places: (0..PLACES).map(|_| Place::default()).collect(),
            chains: Vec::new(),
            done: HashMap::new(),
            trace: Vec::new(),
        };
        program.equip();
        program
    }

    fn path(&self, place: usize) -> CString {
        CString::new(self.dir.join(place.to_string()).as_os_str().as_bytes()).expect("no NUL in it")
    }

    pub fn step(&mut self) {
        match self.random.below(12) {
            0..7 => self.submit(),
            7 => self.cancel(),
            8 => self.upset(),
            _ => {
                let (min, max) = (self.random.below(4) as usize, self.random.below(6) as usize);
                self.wait(min, max);
            }
        }
        self.look_at_descriptor();
    }

    fn submit(&mut self) {
        let busy = |place| {
            let lost = self.lost.iter().map(|lost| &lost.chain);
            self.chains
                .iter()
                .chain(lost)
                .any(|chain| chain.place == place || chain.other == Some(place))
        };
        let free: Vec<usize> = (0..PLACES).filter(|&place| !busy(place)).collect();
        if free.len() < 2 {
            return match self.chains[..] {
                [] => self.settle(),
                _ => self.wait(1, 3),
            };
        }
        let at = self.random.below(free.len() as u64) as usize;
        let (place, spare) = (free[at], free[(at + 1) % free.len()]);
        // What moves files ends a chain: what it would leave for the next op depends on its success.
        let length = [1, 1, 1, 2, 3, 6][self.random.below(6) as usize];
        let mut built: Vec<(Op, Intent)> = (1..length).map(|_| self.on_file(place)).collect();
        built.push(if self.random.below(3) == 0 {
            self.on_path(place, spare)
        } else {
            self.on_file(place)
        });
        let other = built
            .iter()
            .any(|(_, intent)| matches!(intent, Intent::Rename { .. }))
            .then_some(spare);
        let (ops, intents): (Vec<Op>, Vec<Intent>) = built.into_iter().unzip();
        let tokens = match <[Op; 1]>::try_from(ops) {
            Ok([op]) => vec![self.driver.submit(op).expect("there is room")],
            Err(ops) => self
                .driver
                .submit_linked(ops)
                .map_err(|(_, refusal)| refusal)
                .expect("there is room"),
        };
        let ops = tokens.into_iter().zip(intents).collect();
        self.chains.push(Chain {
            place,
            other,
            ops,
            cancelled: false,
            after_full: self.full,
        });
        if self.random.below(4) == 0 {
            self.driver.flush().expect("flush");
        }
    }

    /// An op on an open file, or one that opens it.
    fn on_file(&mut self, place: usize) -> (Op, Intent) {
        let path = self.path(place);
        let Some(file) = self.places[place].file.clone() else {
            return (
                Open::new(path, OpenFlags::READ_WRITE | OpenFlags::CREATE).into(),
                Intent::Open,
            );
        };
        let file: Handle = match &self.places[place].fixed {
            Some((fixed, _)) if self.random.below(2) == 0 => fixed.into(),
            _ => file.into(),
        };
        let at = self.random.below(LARGEST_BYTES);
        match self.random.below(9) {
            0 | 1 => {
                let data = self.random.bytes();
                (
                    Write::at(file, at, data.clone()).into(),
                    Intent::Write { at, data },
                )
            }
            2 => {
                let data = self.random.bytes();
                let (head, tail) = data.split_at(data.len() / 3);
                (
                    WriteV::at(file, at, vec![head.into(), tail.into()]).into(),
                    Intent::Write { at, data },
                )
            }
            3 if !self.buffers.is_empty() => {
                let buffer = self.buffers.pop().expect("there is one");
                let len = buffer.capacity();
                (Read::at(file, at, buffer).into(), Intent::Read { at, len })
            }
            3 | 4 => {
                let buffer = Vec::with_capacity(1 + self.random.below(LARGEST_BYTES) as usize);
                let len = buffer.capacity();
                (Read::at(file, at, buffer).into(), Intent::Read { at, len })
            }
            5 => {
                let buffers = [0; 2].map(|_| Vec::with_capacity(1 + self.random.below(5000) as usize));
                let len = buffers.iter().map(Vec::capacity).sum();
                (
                    ReadV::at(file, at, buffers.map(Into::into).into()).into(),
                    Intent::Read { at, len },
                )
            }
            6 => (Truncate::new(file, at).into(), Intent::Truncate(at)),
            7 => (Fsync::data(file).into(), Intent::Sync),
            _ => (Statx::of(file).into(), Intent::Stat),
        }
    }

    fn on_path(&mut self, place: usize, spare: usize) -> (Op, Intent) {
        let path = self.path(place);
        match self.random.below(4) {
            0 => (ReadFile::new(path).into(), Intent::ReadFile),
            1 => {
                let data = self.random.bytes();
                (WriteFile::new(path, data.clone()).into(), Intent::WriteFile(data))
            }
            2 => (
                Rename::new(path, self.path(spare)).into(),
                Intent::Rename { to: spare },
            ),
            _ => (Unlink::new(path).into(), Intent::Unlink),
        }
    }

    fn cancel(&mut self) {
        if self.chains.is_empty() {
            return;
        }
        let at = self.random.below(self.chains.len() as u64) as usize;
        let nth = self.random.below(self.chains[at].ops.len() as u64) as usize;
        self.chains[at].cancelled = true;
        let token = self.chains[at].ops[nth].0;
        self.driver.cancel(token);
    }

    fn wait(&mut self, min: usize, max: usize) {
        let mut done = Vec::new();
        // A poll that goes on need not complete.
        let pending = self.driver.pending() - usize::from(self.bell.poll.is_some());
        let min = min.min(pending);
        let count = self.driver.wait(min, max, Some(LONG), &mut done).expect("wait");
        assert!(
            count <= max && count >= min.min(max),
            "{count} completions for {min}..={max}"
        );
        self.take(done);
    }

    fn take(&mut self, done: Vec<Completion>) {
        for completion in done {
            if self.bell.heard(&completion) {
                continue;
            }
            self.trace.push(format!(
                "{} {:?}",
                completion.token.as_u64(),
                errno_or_count(&completion)
            ));
            let twice = self.done.insert(completion.token, completion);
            assert!(twice.is_none(), "a token came twice");
        }
        let complete =
            |chain: &Chain, done: &HashMap<_, _>| chain.ops.iter().all(|(token, _)| done.contains_key(token));
        while let Some(at) = self.chains.iter().position(|chain| complete(chain, &self.done)) {
            let chain = self.chains.swap_remove(at);
            self.apply(chain);
        }
    }

    fn apply(&mut self, chain: Chain) {
        let mut broken = false;
        for (token, intent) in chain.ops {
            let completion = self.done.remove(&token).expect("the chain is complete");
            let result = errno_or_count(&completion);
            if broken {
                assert_eq!(
                    result,
                    Err(libc::ECANCELED),
                    "{intent:?} after the chain was broken"
                );
                continue;
            }
            broken = match result {
                Err(libc::ECANCELED) => {
                    assert!(chain.cancelled, "nobody has cancelled {intent:?}");
                    true
                }
                _ => !self.check(
                    chain.place,
                    &intent,
                    completion,
                    [chain.cancelled, chain.after_full],
                ),
            };
        }
    }

    /// Whether this is what the op had to do, applied to the model; says whether it was done in full.
    fn check(
        &mut self,
        place: usize,
        intent: &Intent,
        completion: Completion,
        [cancelled, after_full]: [bool; 2],
    ) -> bool {
        let result = errno_or_count(&completion);
        let exact = self.rules == Rules::Exact;
        let missing = self.places[place].content.is_none();
        let by_path = matches!(intent, Intent::ReadFile | Intent::Rename { .. } | Intent::Unlink);
        let count = match result {
            Err(libc::ENOENT) if by_path && missing => return false,
            Err(errno) => {
                assert!(!exact, "{intent:?}: errno {errno}");
                if let Rules::Lasting { .. } = self.rules {
                    assert!(
                        matches!(errno, libc::EIO | libc::ENOSPC),
                        "{intent:?}: errno {errno}"
                    );
                    self.full |= errno == libc::ENOSPC;
                }
                return false;
            }
            Ok(count) => count,
        };
        assert!(!(by_path && missing), "{intent:?} of nothing");
        self.check_lasting(place, intent, count, after_full);
        let content = self.places[place].content.get_or_insert_default();
        match intent {
            Intent::Write { at, data } => {
                assert!(
                    count == data.len() || (!exact && count > 0 && count < data.len()),
                    "{count} of {}",
                    data.len()
                );
                let (at, end) = (*at as usize, *at as usize + count);
                if count > 0 && content.len() < end {
                    content.resize(end, 0);
                }
                if count > 0 {
                    content[at..end].copy_from_slice(&data[..count]);
                }
                return count == data.len();
            }
            Intent::Read { at, len } => {
                let there = content.get(*at as usize..).unwrap_or_default();
                let there = &there[..there.len().min(*len)];
                // A read that was cancelled after its cached part had been taken reports that part.
                let short = (!exact || cancelled) && count > 0 && count < there.len();
                assert!(count == there.len() || short, "{count} of {}", there.len());
                let (bytes, buffer) = bytes_and_buffer(completion);
                assert!(
                    bytes == there[..count],
                    "{intent:?}: other bytes than were written"
                );
                self.buffers.extend(buffer);
                return count == *len;
            }
            Intent::Truncate(len) => content.resize(*len as usize, 0),
            Intent::Sync => {}
            Intent::Stat => {
                let Some(Op::Statx(op)) = &completion.op else {
                    panic!("the op comes back")
                };
                assert_eq!(op.stat().stx_size, content.len() as u64);
            }
            Intent::Open => self.places[place].file = Some(completion.into_file().expect("it is open")),
            Intent::ReadFile => assert!(
                read_bytes(completion.op) == *content,
                "other bytes than were written"
            ),
            Intent::WriteFile(data) => {
                assert_eq!(count, data.len());
                content.clone_from(data);
            }
            Intent::Rename { to } => self.places[*to] = std::mem::take(&mut self.places[place]),
            Intent::Unlink => self.places[place] = Place::default(),
        }
        true
    }

    /// Lets everything end, compares what is on the disk, and gives all completions in their order.
    pub fn finish(mut self) -> Vec<String> {
        while !self.chains.is_empty() {
            self.wait(1, usize::MAX);
        }
        self.settle();
        assert_eq!(
            (self.driver.pending(), self.driver.ready(), self.done.len()),
            (0, 0, 0)
        );
        for (place, known) in self.places.iter().enumerate() {
            let on_disk = std::fs::read(self.dir.join(place.to_string())).ok();
            assert!(on_disk == known.content, "place {place} holds something else");
        }
        let (trace, dir) = (std::mem::take(&mut self.trace), self.dir.clone());
        drop(self);
        let open = descriptors_below(&dir);
        assert!(open.is_empty(), "left open: {open:?}");
        trace
    }
}

fn errno_or_count(completion: &Completion) -> Result<usize, i32> {
    match &completion.result {
        Ok(Output::Count(count)) => Ok(*count),
        Ok(_) => Ok(0),
        Err(error) => Err(error.errno()),
    }
}

/// What was read, and the registered buffer that it was read into.
fn bytes_and_buffer(completion: Completion) -> (Vec<u8>, Option<RegisteredBuf>) {
    match completion.op {
        Some(Op::Read(Read {
            buffer: Buf::Registered(buffer),
            ..
        })) => (buffer.to_vec(), Some(buffer)),
        op => (read_bytes(op), None),
    }
}

fn read_bytes(op: Option<Op>) -> Vec<u8> {
    match op {
        Some(Op::Read(op)) => op.buffer.into_vec(),
        Some(Op::ReadV(op)) => op
            .buffers
            .into_iter()
            .flat_map(|buffer| buffer.into_vec())
            .collect(),
        Some(Op::ReadFile(op)) => op.data,
        other => panic!("nothing was read by {other:?}"),
    }
}
