//! Sockets as futures, on each backend.

#[allow(dead_code)]
mod common;

use common::kinds;
use proactor_net::{task, Address, Config, Group, Limits};
use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::io::ErrorKind;
use std::pin::{pin, Pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

fn any() -> Address {
    "127.0.0.1:0".parse().unwrap()
}

fn listener() -> (task::Listener, Address) {
    let listener = task::Listener::bind(&any()).unwrap();
    let address = listener.address().unwrap();
    (listener, address)
}

async fn read_all(stream: &mut task::Stream) -> std::io::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), [0; 1000]);
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(all),
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

async fn echo(mut stream: task::Stream) {
    let mut buffer = [0; 700];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        stream.write_all(&buffer[..count]).await.unwrap();
    }
}

fn serve(mut listener: task::Listener) {
    task::spawn(async move {
        loop {
            task::spawn(echo(listener.accept().await.unwrap()));
        }
    });
}

fn pattern(client: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| ((at * 31) ^ (at >> 8) ^ (client * 97)) as u8)
        .collect()
}

/// Polls a future once.
async fn once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    poll_fn(|cx| match Pin::new(&mut *future).poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[test]
fn many_clients_get_their_bytes() {
    const CLIENTS: usize = 20;
    for kind in kinds() {
        Group::block_on(kind.config(), async {
            let (listener, address) = listener();
            serve(listener);
            let left = Rc::new(Cell::new(CLIENTS));
            for client in 0..CLIENTS {
                let (left, address) = (Rc::clone(&left), address.clone());
                task::spawn(async move {
                    let mut stream = task::Stream::connect(&address).await.unwrap();
                    let sent = pattern(client, 50_000 + client * 1000);
                    for piece in sent.chunks(3000) {
                        stream.write_all(piece).await.unwrap();
                    }
                    stream.shutdown();
                    assert!(read_all(&mut stream).await.unwrap() == sent);
                    left.set(left.get() - 1);
                });
            }
            while left.get() > 0 {
                task::sleep(Duration::from_millis(1)).await;
            }
        })
        .unwrap();
    }
}

#[test]
fn a_slow_reader_holds_the_writer_up() {
    for kind in kinds() {
        let limits = Limits {
            socket_bytes: 10_000,
            ..Limits::default()
        };
        Group::block_on(kind.config().limits(limits), async {
            let (mut listener, address) = listener();
            let mut writer = task::Stream::connect(&address).await.unwrap();
            let mut reader = listener.accept().await.unwrap();
            let sent = Rc::new(Cell::new(0));
            let count = Rc::clone(&sent);
            const ALL: usize = 30_000_000;
            task::spawn(async move {
                while count.get() < ALL {
                    writer.write_all(&[7; 5000]).await.unwrap();
                    count.set(count.get() + 5000);
                }
            });
            // The kernel's buffers and those of the stream are full.
            let mut before = 1;
            while before != sent.get() {
                before = sent.get();
                task::sleep(Duration::from_millis(20)).await;
            }
            assert!(before < ALL, "{kind:?}: all was taken");
            let all = read_all(&mut reader).await.unwrap();
            assert_eq!((all.len(), sent.get()), (ALL, ALL), "{kind:?}");
        })
        .unwrap();
    }
}

#[test]
fn a_read_that_was_given_up_loses_nothing() {
    for kind in kinds() {
        Group::block_on(kind.config(), async {
            let (mut listener, address) = listener();
            let mut client = task::Stream::connect(&address).await.unwrap();
            let mut server = listener.accept().await.unwrap();
            let mut got = Vec::new();
            for round in 0..50u8 {
                let mut byte = [0];
                assert!(once(&mut pin!(server.read(&mut byte))).await.is_none());
                client.write_all(&[round]).await.unwrap();
                server.read(&mut byte).await.unwrap();
                got.push(byte[0]);
            }
            assert_eq!(got, (0..50).collect::<Vec<u8>>(), "{kind:?}");
        })
        .unwrap();
    }
}

#[test]
fn ends_and_errors_are_told() {
    for kind in kinds() {
        Group::block_on(kind.config(), async {
            let (mut listener, address) = listener();
            let mut client = task::Stream::connect(&address).await.unwrap();
            let mut server = listener.accept().await.unwrap();
            client.write_all(b"last").await.unwrap();
            client.shutdown();
            let refused = client.write_all(b"more").await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
            assert_eq!(read_all(&mut server).await.unwrap(), b"last");
            server.write_all(b"answer").await.unwrap();
            task::spawn(async move { server.close().await.unwrap() });
            assert_eq!(read_all(&mut client).await.unwrap(), b"answer");
            client.close().await.unwrap();
            // Nobody listens any more.
            drop(listener);
            let error = loop {
                match task::Stream::connect(&address).await {
                    Ok(_) => task::sleep(Duration::from_millis(1)).await,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED), "{kind:?}");
        })
        .unwrap();
    }
}

#[test]
fn datagrams_are_futures_too() {
    for kind in kinds() {
        Group::block_on(kind.config(), async {
            let mut server = task::Datagram::bind(&any(), None).unwrap();
            let address = server.address().unwrap();
            task::spawn(async move {
                loop {
                    let (bytes, from) = server.receive().await.unwrap();
                    server.send(&bytes, from.as_ref()).await.unwrap();
                }
            });
            let mut client = task::Datagram::bind(&any(), Some(&address)).unwrap();
            for number in 0..100u8 {
                client.send(&[number; 100], None).await.unwrap();
                assert_eq!(client.receive().await.unwrap().0, [number; 100]);
            }
        })
        .unwrap();
    }
}

#[test]
fn another_thread_wakes_a_future() {
    for kind in kinds() {
        let place: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let shared = Arc::clone(&place);
        let thread = std::thread::spawn(move || loop {
            let mut place = shared.lock().unwrap();
            if let Some(waker) = place.1.take() {
                place.0 = true;
                drop(place);
                // In the middle of a wait that nothing else would end.
                std::thread::sleep(Duration::from_millis(5));
                return waker.wake();
            }
            drop(place);
            std::thread::yield_now();
        });
        let woken = poll_fn(|cx: &mut Context<'_>| {
            let mut place = place.lock().unwrap();
            if place.0 {
                return Poll::Ready(());
            }
            place.1 = Some(cx.waker().clone());
            Poll::Pending
        });
        Group::block_on(kind.config(), woken).unwrap();
        thread.join().unwrap();
    }
}

#[test]
fn times_pass_in_their_order() {
    let began = Instant::now();
    let order = Rc::new(RefCell::new(Vec::new()));
    Group::block_on(Config::default(), async {
        for ms in [30, 10, 20] {
            let order = Rc::clone(&order);
            task::spawn(async move {
                task::sleep(Duration::from_millis(ms)).await;
                order.borrow_mut().push(ms);
            });
        }
        // One that is given up wakes nobody.
        assert!(once(&mut pin!(task::sleep(Duration::from_millis(5))))
            .await
            .is_none());
        task::sleep(Duration::from_millis(40)).await;
    })
    .unwrap();
    assert!(began.elapsed() >= Duration::from_millis(40));
    assert_eq!(*order.borrow(), [10, 20, 30]);
}

#[test]
fn what_is_left_is_dropped_at_the_end() {
    struct Told(Rc<Cell<usize>>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            // A future that is dropped may leave another one behind.
            if self.0.get() == 1 {
                task::spawn(async {});
            }
        }
    }
    let dropped = Rc::new(Cell::new(0));
    Group::block_on(Config::default(), async {
        for _ in 0..3 {
            let told = Told(Rc::clone(&dropped));
            task::spawn(async move {
                let _told = told;
                std::future::pending::<()>().await;
            });
        }
        // Those that have ended make room for others.
        for _ in 0..1000 {
            let ran = Rc::new(Cell::new(false));
            let runs = Rc::clone(&ran);
            task::spawn(async move { runs.set(true) });
            while !ran.get() {
                task::sleep(Duration::from_micros(1)).await;
            }
        }
    })
    .unwrap();
    assert_eq!(dropped.get(), 3);
}

#[test]
fn outside_it_is_an_error() {
    assert!(task::Listener::bind(&any())
        .unwrap_err()
        .to_string()
        .contains("block_on"));
    let inner = Group::block_on(Config::default(), async {
        Group::block_on(Config::default(), async {})
            .unwrap_err()
            .to_string()
    });
    assert!(inner.unwrap().contains("already"));
    // A socket that leaves is closed without it.
    let (listener, _) = Group::block_on(Config::default(), async { listener() }).unwrap();
    drop(listener);
}

/// Each half in a task of its own; the peer reads the end while the other direction goes on.
#[test]
fn both_directions_at_once() {
    for kind in kinds() {
        Group::block_on(kind.config(), async {
            let (mut listener, address) = listener();
            let connecting = task::Stream::connect(&address).await.unwrap();
            let mut peer = listener.accept().await.unwrap();
            let (mut reader, mut writer) = connecting.into_split();
            task::spawn(async move {
                writer.write_all(b"there").await.unwrap();
            });
            assert_eq!(read_all(&mut peer).await.unwrap(), b"there", "and then the end");
            peer.write_all(b"back").await.unwrap();
            let mut buffer = [0; 10];
            let count = reader.read(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..count], b"back");
            drop(reader);
            // Both halves are gone: it closes, and the peer can.
            peer.close().await.unwrap();
        })
        .unwrap();
    }
}
