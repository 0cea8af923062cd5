//! Giving up on an op: no completion, no leak, and every buffer freed exactly once.

use crate::testkit::{descriptors, outcomes, pipe, run, threads, wait_for_threads, Case, LONG};
use proactor_engine::buffer::{Buf, Memory};
use proactor_engine::op::{Events, Nop, Open, OpenFlags, Poll, Read, ReadFile, Timeout, Write};
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

conformance! {
    inline { no_completion, buffers_are_freed_once, in_the_backlog, twice_and_late }
    isolated { opened_files_are_closed, dropped_with_the_driver }
}

/// Memory that counts how often it is freed.
pub struct Counted {
    memory: Vec<u8>,
    drops: Arc<AtomicUsize>,
}

impl Counted {
    pub fn buf(len: usize, drops: &Arc<AtomicUsize>) -> Buf {
        Buf::Shared(Box::new(Counted {
            memory: vec![0xaa; len],
            drops: Arc::clone(drops),
        }))
    }
}

// SAFETY: the vector is never touched, so its memory stays in place until the drop.
unsafe impl Memory for Counted {
    fn ptr(&self) -> *mut u8 {
        self.memory.as_ptr().cast_mut()
    }
    fn len(&self) -> usize {
        self.memory.len()
    }
    fn writable(&self) -> bool {
        true
    }
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
    }
}

fn no_completion(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let tokens = [
        d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap(),
        d.submit(Poll::new(&reader, Events::READABLE)).unwrap(),
        d.submit(Poll::multishot(&reader, Events::READABLE)).unwrap(),
        d.submit(Timeout::new(LONG)).unwrap(),
    ];
    d.flush().unwrap();
    for token in tokens {
        d.abandon(token);
    }
    assert_eq!(d.pending(), 0);
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    d.drain().unwrap();
    assert_eq!(d.ready(), 0);
    assert_eq!(
        run(&mut d, Read::new(&reader, Vec::with_capacity(9))),
        Ok(1),
        "the abandoned read took nothing"
    );
}

fn buffers_are_freed_once(t: &Case) {
    let mut d = t.driver();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let reader = proactor_engine::op::File::new(reader);
    let drops = Arc::new(AtomicUsize::new(0));
    let tokens: Vec<_> = (0..100)
        .map(|_| d.submit(Read::new(&reader, Counted::buf(16, &drops))).unwrap())
        .collect();
    d.flush().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    for token in &tokens[..50] {
        d.abandon(*token);
    }
    d.wait(0, 0, None, &mut Vec::new()).unwrap();
    writer.write_all(&[1; 16]).unwrap();
    let done = crate::testkit::collect(&mut d, 1);
    assert!(tokens[50..].contains(&done[0].token));
    drop(done);
    for token in tokens {
        d.abandon(token);
    }
    d.drain().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 100);
    drop(d);
    assert_eq!(drops.load(Ordering::SeqCst), 100);
}

fn in_the_backlog(t: &Case) {
    let mut d = t.config().depth(1).build().unwrap();
    let (reader, _writer) = pipe();
    let drops = Arc::new(AtomicUsize::new(0));
    let first = d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    for _ in 0..10 {
        let token = d.submit(Read::new(&reader, Counted::buf(1, &drops))).unwrap();
        d.abandon(token);
    }
    assert_eq!((drops.load(Ordering::SeqCst), d.pending()), (10, 1));
    d.abandon(first);
    assert_eq!(run(&mut d, Nop::new()), Ok(0));
}

fn twice_and_late(t: &Case) {
    let mut d = t.driver();
    let (reader, _writer) = pipe();
    let token = d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    d.abandon(token);
    d.abandon(token);
    assert_eq!(d.pending(), 0);
    // Complete and not collected.
    let token = d.submit(Nop::new()).unwrap();
    d.drain().unwrap();
    assert_eq!((d.ready(), d.pending()), (1, 1));
    d.abandon(token);
    assert_eq!((d.ready(), d.pending()), (0, 0));
    // Collected.
    let token = d.submit(Nop::new()).unwrap();
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(0));
    d.abandon(token);
    assert_eq!(d.pending(), 0);
}

fn opened_files_are_closed(t: &Case) {
    t.file("f", b"content");
    let before = descriptors();
    for inline in [false, true] {
        let mut d = t.config().inline(inline).build().unwrap();
        run(&mut d, Nop::new()).unwrap();
        for round in 0..50 {
            let flags = if round % 2 == 0 {
                OpenFlags::READ_ONLY
            } else {
                OpenFlags::READ_WRITE | OpenFlags::CREATE
            };
            let token = d.submit(Open::new(t.c_path("f"), flags)).unwrap();
            if round % 3 == 0 {
                d.flush().unwrap();
            }
            d.abandon(token);
            let token = d.submit(ReadFile::new(t.c_path("f"))).unwrap();
            d.abandon(token);
        }
        d.drain().unwrap();
        // A completion that is dropped unread closes its file too.
        drop(d.run(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)).unwrap());
        drop(d);
        assert_eq!(descriptors(), before, "inline {inline}");
    }
}

fn dropped_with_the_driver(t: &Case) {
    let (descriptors_before, threads_before) = (descriptors(), threads());
    let drops = Arc::new(AtomicUsize::new(0));
    {
        let mut d = t.driver();
        let (reader, _writer) = pipe();
        for _ in 0..20 {
            d.submit(Read::new(&reader, Counted::buf(8, &drops))).unwrap();
        }
        let mut done = Vec::new();
        d.wait(1, 1, Some(Duration::from_millis(1)), &mut done).unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 0);
    }
    assert_eq!(drops.load(Ordering::SeqCst), 20);
    assert_eq!(descriptors(), descriptors_before);
    wait_for_threads(threads_before);
}
