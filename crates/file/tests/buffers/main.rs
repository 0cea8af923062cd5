//! Random programs on a buffered file against a model in memory: on the simulator, which shortens transfers and fails
//! ops, with results taken as late as can be.

mod ahead;
mod bytes;
mod fuzz;
mod rig;
mod single;

use bytes::Bytes;
use proactor_engine::buffer::Buf;
use proactor_engine::op::{DirectAlignment, OpenFlags};
use proactor_engine::{Config, Driver, Engine, SimConfig};
use proactor_file::{Buffered, Direct, Options, Step, Transfer};
use proptest::prelude::*;
use rig::{Rig, INJECTED, MEMORY_ALIGNMENT};
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Act {
    Read(usize),
    /// Past the buffer, to the end of it or given up after so many ops.
    ReadLong(usize, Option<usize>),
    ReadSome(usize),
    Chunk(usize),
    Line(usize),
    Peek,
    Write(Vec<u8>),
    Seek(u64),
    Flush,
    Restart,
    /// Past the buffers, at an offset.
    Pread(u64, usize),
    Pwrite(u64, Vec<u8>),
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(b'a'), 1 => Just(b'\n'), 1 => any::<u8>()];
    prop::collection::vec(byte, 0..most)
}

/// Without going elsewhere.
fn reading() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..30_usize).prop_map(Act::Read),
        2 => ((1..90_usize), prop::option::weighted(0.1, 0..3_usize)).prop_map(|(count, ops)| Act::ReadLong(count, ops)),
        2 => (0..40_usize).prop_map(Act::ReadSome),
        2 => (1..40_usize).prop_map(Act::Chunk),
        2 => Just(usize::MAX).prop_map(Act::Line),
        1 => Just(Act::Peek),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop_oneof![0..40_usize, Just(usize::MAX)].prop_map(Act::Read),
        3 => ((1..90_usize), prop::option::of(0..3_usize)).prop_map(|(count, ops)| Act::ReadLong(count, ops)),
        2 => (0..40_usize).prop_map(Act::ReadSome),
        2 => (1..40_usize).prop_map(Act::Chunk),
        4 => prop_oneof![Just(usize::MAX), 0..20_usize].prop_map(Act::Line),
        1 => Just(Act::Peek),
        6 => bytes(30).prop_map(Act::Write),
        3 => (0..120_u64).prop_map(Act::Seek),
        1 => Just(Act::Flush),
        1 => Just(Act::Restart),
        2 => ((0..120_u64), (0..60_usize)).prop_map(|(at, count)| Act::Pread(at, count)),
        2 => ((0..120_u64), bytes(60)).prop_map(|(at, data)| Act::Pwrite(at, data)),
    ]
}

#[derive(Default)]
struct Model {
    content: Vec<u8>,
    at: usize,
}

impl Model {
    fn rest(&self) -> &[u8] {
        self.content.get(self.at..).unwrap_or_default()
    }

    fn write(&mut self, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let end = self.at + data.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[self.at..end].copy_from_slice(data);
        self.at = end;
    }
}

fn run(rig: &mut Rig, model: &mut Model, act: &Act, append: bool) {
    rig.file.begin();
    match act {
        Act::Read(count) => {
            // To the end in pieces, as a caller would.
            let wanted = (*count).min(model.content.len() + 1);
            let found = rig.until(|file| file.fill(wanted));
            let expected = &model.rest()[..model.rest().len().min(wanted)];
            assert_eq!(&rig.file.unread()[..found], expected);
            rig.file.consume(found);
            model.at += found;
        }
        Act::ReadLong(count, ops) => read_long(rig, model, *count, *ops),
        Act::ReadSome(count) => {
            let found = rig.until(|file| file.fill_some(*count)).min(*count);
            assert_eq!(found == 0, *count == 0 || model.rest().is_empty());
            assert_eq!(&rig.file.unread()[..found], &model.rest()[..found]);
            rig.file.consume(found);
            model.at += found;
        }
        Act::Chunk(count) => {
            // Shorter where a read was, which the simulator sees to.
            let found = rig.until(|file| file.fill_chunk(*count));
            assert_eq!(found == 0, model.rest().is_empty());
            assert_eq!(&rig.file.unread()[..found], &model.rest()[..found]);
            rig.file.consume(found);
            model.at += found;
        }
        Act::Line(limit) => {
            let found = rig.until(|file| file.line(*limit));
            let rest = model.rest();
            let end = rest
                .iter()
                .position(|b| *b == b'\n')
                .map_or(rest.len(), |at| at + 1);
            assert_eq!(&rig.file.unread()[..found], &rest[..end.min(*limit)]);
            rig.file.consume(found);
            model.at += found;
        }
        Act::Peek => {
            let found = rig.until(|file| file.fill_some(1));
            assert_eq!(&rig.file.unread()[..found], &model.rest()[..found]);
        }
        Act::Write(data) => {
            if append {
                model.at = model.content.len();
            }
            if data.len() <= rig.file.block() {
                // One in two asks for the quick way first.
                if data.len() % 2 == 1 || !rig.file.put_at_once(data) {
                    rig.until(|file| file.put(data));
                }
                model.write(data);
            } else {
                write_large(rig, model, data);
            }
        }
        Act::Seek(to) => {
            rig.until(Buffered::settle);
            rig.file.seek(*to);
            model.at = *to as usize;
        }
        Act::Flush => {
            rig.until(Buffered::flush);
        }
        Act::Restart => {}
        Act::Pread(at, count) => pread(rig, model, *at, *count),
        Act::Pwrite(at, data) => pwrite(rig, model, *at, data),
    }
    assert!(append || rig.file.position() == model.at as u64);
}

fn read_long(rig: &mut Rig, model: &mut Model, count: usize, ops: Option<usize>) {
    if rig.file.coming() >= count {
        return;
    }
    let memory = Bytes::zeroed(count);
    rig.until(|file| match file.read_long(Arc::clone(&memory) as _, 0, false)? {
        true => Ok(Step::Ready(())),
        false => Ok(Step::Blocked),
    });
    if let Some(ops) = ops {
        for _ in 0..ops {
            if rig.file.long_read() == Ok(Step::Blocked) {
                rig.take();
            }
        }
        // One more may be under way.
        rig.start();
        rig.file.give_up();
        return;
    }
    match rig.once(Buffered::long_read) {
        Ok(found) => {
            let rest = model.rest();
            assert_eq!(memory.to_vec()[..found], rest[..rest.len().min(count)]);
            rig.file.take_long(found);
            model.at += found;
        }
        // Nothing is taken.
        Err(e) => assert!(INJECTED.contains(&e.errno()), "{e}"),
    }
}

fn write_large(rig: &mut Rig, model: &mut Model, data: &[u8]) {
    rig.until(Buffered::settle);
    let before = rig.file.position();
    let mut buffer = Some(Buf::from(data));
    match rig.once(|file| file.put_large(&mut buffer)) {
        Ok(()) => model.write(data),
        Err(e) => {
            // Part of it may be there, and the position says how much.
            assert!(INJECTED.contains(&e.errno()), "{e}");
            model.write(&data[..(rig.file.position() - before) as usize]);
        }
    }
}

fn pread(rig: &mut Rig, model: &Model, at: u64, count: usize) {
    rig.until(Buffered::flush);
    let rest = model.content.get(at as usize..).unwrap_or_default();
    let expected = &rest[..rest.len().min(count)];
    let memory: [Arc<Bytes>; 2] = [Bytes::zeroed(count / 3), Bytes::zeroed(count - count / 3)];
    let pieces = memory.iter().map(|piece| Arc::clone(piece) as _).collect();
    let file = rig.file.file().unwrap().clone();
    let done = rig.transfer(Transfer::read(&file, at, pieces).direct(rig.file.direct()));
    let found: Vec<u8> = memory.iter().flat_map(|piece| piece.to_vec()).collect();
    assert_eq!(found[..done], expected[..done]);
    assert!(done == expected.len() || rig.fails);
}

fn pwrite(rig: &mut Rig, model: &mut Model, at: u64, data: &[u8]) {
    rig.until(Buffered::flush);
    let file = rig.file.file().unwrap().clone();
    let pieces = data.chunks(7).map(|piece| Bytes::of(piece) as _).collect();
    let done = rig.transfer(Transfer::write(&file, at, pieces).direct(rig.file.direct()));
    assert!(done == data.len() || rig.fails);
    rig.file.changed(at, data.len() as u64);
    let position = std::mem::replace(&mut model.at, at as usize);
    model.write(&data[..done]);
    model.at = position;
}

fn faulty(seed: u64, error_rate: u8) -> Driver {
    let sim = SimConfig::new(seed)
        .short_rate(80)
        .error_rate(error_rate)
        .reorder(true);
    Config::default()
        .engine(Engine::Sim)
        .inline(false)
        .sim(sim)
        .build()
        .unwrap()
}

/// As of a file that is open with O_DIRECT: the simulator's own need no alignment, but the ops must have it.
fn direct() -> Option<Arc<Direct>> {
    let alignment = DirectAlignment::new(MEMORY_ALIGNMENT, 8);
    Some(Arc::new(Direct::new(alignment, 8)))
}

fn check(seed: u64, error_rate: u8, block: usize, append: bool, direct: Option<Arc<Direct>>, acts: &[Act]) {
    let start: Vec<u8> = b"one\ntwo\n\nfour and a bit more\nand no end".to_vec();
    let options = Options {
        position: Some(if append { start.len() as u64 } else { 0 }),
        append,
        block,
        direct,
        reads_ahead: seed % 2 == 1,
    };
    check_on(seed, error_rate, start, &options, acts);
}

fn check_on(seed: u64, error_rate: u8, start: Vec<u8>, options: &Options, acts: &[Act]) {
    let append = options.append;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, &start).unwrap();
    let mut model = Model {
        at: if append { start.len() } else { 0 },
        content: start,
    };
    let flags = if append {
        OpenFlags::APPEND
    } else {
        OpenFlags::NONE
    };
    let mut rig = Rig::open(faulty(seed, error_rate), &path, options.clone(), flags);
    rig.fails = error_rate > 0;
    for act in acts {
        run(&mut rig, &mut model, act, append);
        if let Act::Restart = act {
            // Another descriptor, after all is written.
            rig.until(Buffered::settle);
            let driver = std::mem::replace(&mut rig.driver, Driver::new().unwrap());
            let position = Some(model.at as u64);
            let options = Options {
                position,
                ..options.clone()
            };
            rig = Rig::open(driver, &path, options, flags);
            rig.fails = error_rate > 0;
        }
    }
    rig.until(Buffered::settle);
    assert_eq!(std::fs::read(&path).unwrap(), model.content);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn as_a_plain_file(seed: u64, block in prop::sample::select(vec![1_usize, 2, 7, 16, 4096]), acts in prop::collection::vec(act(), 1..40)) {
        check(seed, 0, block, false, None, &acts);
    }

    #[test]
    fn with_failures(seed: u64, block in prop::sample::select(vec![1_usize, 3, 16, 4096]), acts in prop::collection::vec(act(), 1..40)) {
        check(seed, 60, block, false, None, &acts);
    }

    #[test]
    fn without_a_buffer(seed: u64, acts in prop::collection::vec(act(), 1..30)) {
        check(seed, 0, 0, false, None, &acts);
    }

    #[test]
    fn aligned(
        seed: u64,
        error_rate in prop::sample::select(vec![0_u8, 60]),
        block in prop::sample::select(vec![0_usize, 3, 8, 24]),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        check(seed, error_rate, block, false, direct(), &acts);
    }

    #[test]
    fn read_ahead(
        seed: u64,
        error_rate in prop::sample::select(vec![0_u8, 60]),
        block in prop::sample::select(vec![3_usize, 8, 24]),
        acts in prop::collection::vec(prop_oneof![1 => act(), 4 => reading()], 1..60),
    ) {
        let start = (0..900_u32).map(|at| if at % 11 == 0 { b'\n' } else { (at * 7 % 251) as u8 }).collect();
        let options = Options { block, direct: direct(), reads_ahead: true, ..Options::default() };
        check_on(seed, error_rate, start, &options, &acts);
    }

    #[test]
    fn at_the_end(seed: u64, block in prop::sample::select(vec![1_usize, 7, 4096]), acts in prop::collection::vec(act(), 1..30)) {
        let writes: Vec<Act> = acts.into_iter().filter(|act| matches!(act, Act::Write(_) | Act::Flush | Act::Restart)).collect();
        check(seed, 0, block, true, None, &writes);
    }
}
