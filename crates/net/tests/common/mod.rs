//! Servers for tests, each in a thread, and the kinds of backend on which every test runs.

use proactor_net::serve::Echo;
use proactor_net::{Address, Chosen, Config, Context, Handler, Hidden, SocketId, Stats, Waker};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use std::time::Duration;

/// A backend, and what it has to do without.
#[derive(Clone, Copy)]
pub struct Kind {
    name: &'static str,
    hidden: Hidden,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Kind {
    pub fn config(self) -> Config {
        Config::default().hide(self.hidden)
    }
}

/// epoll, the ring, and the ring with each part hidden alone and with all hidden that leave it usable.
pub fn kinds() -> Vec<Kind> {
    let none = Hidden::default();
    let mut kinds = vec![
        ("epoll", Hidden { ring: true, ..none }),
        (
            "no multishot receive",
            Hidden {
                multishot_receive: true,
                ..none
            },
        ),
        (
            "no buffer rings",
            Hidden {
                buffer_rings: true,
                ..none
            },
        ),
    ];
    let works = Config::default().build().unwrap();
    if let Chosen::Epoll(why) = works.chosen() {
        let required = std::env::var("PROACTOR_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name.trim() == "io_uring"),
            "{why}"
        );
        eprintln!("SKIPPED the ring: {why}");
    } else {
        kinds.extend([
            ("ring", none),
            (
                "no multishot accept",
                Hidden {
                    multishot_accept: true,
                    ..none
                },
            ),
            (
                "no cancel by descriptor",
                Hidden {
                    cancel_by_descriptor: true,
                    ..none
                },
            ),
            (
                "no deferred completions",
                Hidden {
                    defer_taskrun: true,
                    ..none
                },
            ),
            (
                "no quiet sends",
                Hidden {
                    quiet_sends: true,
                    ..none
                },
            ),
            (
                "none of the ring's parts",
                Hidden {
                    multishot_accept: true,
                    cancel_by_descriptor: true,
                    defer_taskrun: true,
                    quiet_sends: true,
                    ..none
                },
            ),
        ]);
    }
    kinds
        .into_iter()
        .map(|(name, hidden)| Kind { name, hidden })
        .collect()
}

struct Watched {
    echo: Echo,
    most_unsent: Arc<AtomicUsize>,
}

impl Handler for Watched {
    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        self.echo.received(cx, id, bytes);
        self.most_unsent.fetch_max(cx.unsent(id), Ordering::Relaxed);
    }
}

/// An echo server in a thread of its own.
pub struct Server {
    pub address: Address,
    most_unsent: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<Stats>,
}

impl Server {
    pub fn echo(config: Config) -> Self {
        Self::echo_at(config, "127.0.0.1:0".parse().unwrap())
    }

    pub fn echo_at(config: Config, address: Address) -> Self {
        let (tell, told) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let most_unsent = Arc::new(AtomicUsize::new(0));
        let mut handler = Watched {
            echo: Echo,
            most_unsent: Arc::clone(&most_unsent),
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut sockets = config.build().unwrap();
            let id = sockets.listen(&address).unwrap();
            let address = sockets.with(|cx| cx.local(id)).unwrap();
            tell.send((address, sockets.waker().unwrap())).unwrap();
            // What is open when it is told to stop comes to its end first.
            while !stopped.load(Ordering::Relaxed) || sockets.with(|cx| cx.connections()) > 0 {
                sockets.turn(&mut handler, Some(Duration::from_secs(20))).unwrap();
            }
            sockets.stats()
        });
        let (address, waker) = told.recv().unwrap();
        Server {
            address,
            most_unsent,
            stop,
            waker,
            thread,
        }
    }

    pub fn connect(&self) -> TcpStream {
        let Address::Inet(address) = self.address else {
            panic!("not an internet address")
        };
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The most unsent bytes that one connection has had.
    pub fn most_unsent(&self) -> usize {
        self.most_unsent.load(Ordering::Relaxed)
    }

    /// Waits until all connections have ended.
    pub fn stop(self) -> Stats {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.join().unwrap()
    }
}
