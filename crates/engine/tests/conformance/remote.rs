//! A driver in a thread of its own, whose ops other threads await.

use crate::futures::{join, poll_once, Counter};
use crate::testkit::{descriptors, pipe, Case};
use proactor_engine::io::Remote;
use proactor_engine::op::{Events, Nop, Open, OpenFlags, Poll, Read, Timeout, Write};
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::task::{self, Context, Wake};
use std::time::Duration;

conformance! {
    inline {
        a_remote_runs_ops_of_other_threads, a_dropped_remote_ends_its_ops, a_remote_queue_has_no_end, clones_share_the_thread,
        a_remote_that_its_own_thread_drops_ends,
    }
    isolated { a_remote_leaves_nothing }
}

/// Polls it until it ends, parking this thread in between: no executor of ours.
fn park_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        if let task::Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

fn a_remote_runs_ops_of_other_threads(t: &Case) {
    let remote = Remote::new(t.config()).unwrap();
    let file = t.file("f", b"0123456789");
    std::thread::scope(|scope| {
        for i in 0..4_u8 {
            let (remote, file) = (&remote, &file);
            scope.spawn(move || {
                for _ in 0..50 {
                    let (_, bytes) = park_on(remote.run(Read::at(file, i.into(), vec![0; 1]))).unwrap();
                    assert_eq!(bytes, [b'0' + i]);
                }
            });
        }
    });
    let failed = park_on(remote.run(Open::new("/nowhere/at all", OpenFlags::READ_ONLY))).unwrap_err();
    assert_eq!((failed.errno(), failed.into_op().is_some()), (libc::ENOENT, true));
    let refused = park_on(remote.run(Write::at(&file, u64::MAX, b"mine"))).unwrap_err();
    assert_eq!(
        (refused.errno(), refused.into_op().unwrap().buffer),
        (libc::EINVAL, b"mine".to_vec())
    );
    assert_eq!(
        park_on(remote.run(Poll::multishot(&file, Events::READABLE)))
            .unwrap_err()
            .errno(),
        libc::EINVAL
    );
}

fn a_dropped_remote_ends_its_ops(t: &Case) {
    let remote = Remote::new(t.config()).unwrap();
    let (reader, _writer) = pipe();
    let counter = Arc::new(Counter::default());
    let mut read = pin!(remote.run(Read::new(&reader, vec![7; 9])));
    assert!(poll_once(&mut read, &counter).is_pending());
    let late = remote.run(Nop);
    drop(remote);
    let failed = park_on(read).unwrap_err();
    assert_eq!(
        (failed.errno(), failed.into_op().is_some()),
        (libc::ECANCELED, true),
        "with its buffer"
    );
    assert_eq!(park_on(late).unwrap_err().errno(), libc::ECANCELED);
}

fn a_remote_queue_has_no_end(t: &Case) {
    let remote = Remote::new(t.config().depth(1).backlog(0)).unwrap();
    let file = t.file("f", b"content");
    let reads = (0..100).map(|_| remote.run(Read::at(&file, 0, vec![0; 9])));
    assert!(park_on(join(reads))
        .into_iter()
        .all(|result| result.unwrap().0 == 7));
}

fn a_remote_leaves_nothing(t: &Case) {
    let before = descriptors();
    {
        let remote = Remote::new(t.config()).unwrap();
        let (reader, writer) = pipe();
        let counter = Arc::new(Counter::default());
        for _ in 0..20 {
            let mut read = pin!(remote.run(Read::new(&reader, vec![0; 1 << 16])));
            assert!(poll_once(&mut read, &counter).is_pending());
            let mut open = pin!(remote.run(Open::new(t.c_path("."), OpenFlags::READ_ONLY)));
            let _ = poll_once(&mut open, &counter);
        }
        // What was dropped takes no bytes.
        park_on(remote.run(Write::new(&writer, b"!"))).unwrap();
        let (count, _) = park_on(remote.run(Read::new(&reader, vec![0; 9]))).unwrap();
        assert_eq!(count, 1);
    }
    assert_eq!(descriptors(), before);
}

fn clones_share_the_thread(t: &Case) {
    let remote = Remote::new(t.config()).unwrap();
    let clone = remote.clone();
    drop(remote);
    assert!(park_on(clone.run(Nop)).is_ok());
}

/// Keeps the last clone until it is woken.
struct Last {
    remote: Mutex<Option<Remote>>,
    woken: Mutex<Sender<()>>,
}

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        drop(self.remote.lock().unwrap().take());
        self.woken.lock().unwrap().send(()).unwrap();
    }
}

/// A thread cannot wait for its own end.
fn a_remote_that_its_own_thread_drops_ends(t: &Case) {
    let remote = Remote::new(t.config()).unwrap();
    let (woken, told) = channel();
    let mut timeout = pin!(remote.run(Timeout::new(Duration::from_millis(5))));
    let late = remote.run(Nop);
    let last = Arc::new(Last {
        remote: Mutex::new(Some(remote)),
        woken: Mutex::new(woken),
    });
    let waker = last.into();
    if timeout
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_pending()
    {
        told.recv().unwrap();
        assert!(park_on(timeout).is_ok());
        assert_eq!(park_on(late).unwrap_err().errno(), libc::ECANCELED);
    }
}
