//! The sockets of one thread, on the backend that works here.

use crate::address::Address;
use crate::backend::calls::System;
use crate::backend::epoll::Epoll;
use crate::backend::uring::Uring;
use crate::config::{Config, SendPolicy};
use crate::context::Context;
use crate::core::{Core, State};
use crate::error::Error;
use crate::handler::Handler;
use crate::listen::Bound;
use crate::probe;
use crate::send::Decision;
use crate::stats::Stats;
use crate::table::SocketId;
use proactor_engine::{Driver, Engine};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// What sockets are on, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// A ring.
    Uring,
    /// epoll, because of this.
    Epoll(String),
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chosen::Uring => f.write_str("io_uring"),
            Chosen::Epoll(why) => write!(f, "epoll ({why})"),
        }
    }
}

enum On {
    Uring(Box<Core<Uring>>),
    Epoll(Box<Core<Epoll>>),
}

/// Listeners and streams of one thread, which sleeps in [`turn`](Self::turn) and works for all of them.
pub struct Sockets {
    on: On,
    chosen: Chosen,
    backlog: u32,
    reuse_port: bool,
    fork_generation: u32,
}

/// Ends a turn's wait, from any thread.
#[derive(Debug, Clone)]
pub struct Waker(Wakes);

#[derive(Debug, Clone)]
enum Wakes {
    Ring(proactor_engine::ring::Waker),
    Epoll(Arc<OwnedFd>),
}

impl Waker {
    /// Ends the wait that is going on, or the next one.
    pub fn wake(&self) {
        match &self.0 {
            Wakes::Ring(waker) => waker.wake(),
            Wakes::Epoll(event) => {
                // EAGAIN: it is readable already.
                let _ = rustix::io::write(event.as_fd(), &1u64.to_ne_bytes());
            }
        }
    }
}

/// Why sockets cannot be on a ring, before one is made.
fn refused(config: &Config) -> Option<&'static str> {
    let hidden = config.hidden;
    if hidden.ring {
        Some("io_uring is not to be used")
    } else if hidden.buffer_rings {
        Some("the kernel has no buffer rings (Linux 5.19)")
    } else if hidden.multishot_receive {
        Some("the kernel has no receives that stay in the ring (Linux 6.0)")
    } else {
        None
    }
}

fn unsupported(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

impl Sockets {
    pub(crate) fn new(config: Config) -> io::Result<Self> {
        let mut state = State::new(config.limits, config.no_delay);
        state.zero_copy_above = config.zero_copy_above.unwrap_or(usize::MAX);
        let ring = match refused(&config) {
            Some(why) if config.require_ring => return Err(io::Error::new(io::ErrorKind::Unsupported, why)),
            Some(why) => Err(why.to_owned()),
            None => match probe::ring()
                .map_err(unsupported)
                .and_then(|()| Uring::new(&config))
            {
                Ok(ring) => Ok(ring),
                Err(e) if config.sqpoll.is_some() || config.require_ring => return Err(e),
                Err(e) => Err(e.to_string()),
            },
        };
        let (on, chosen) = match ring {
            Ok(ring) => {
                // A system call of this thread is what a kernel worker is there to save.
                let policy = if config.sqpoll.is_some() && config.send == SendPolicy::Auto {
                    SendPolicy::Queued
                } else {
                    config.send
                };
                let core = Core::new(ring, System::default(), state, Decision::new(policy))
                    .answering_later(config.answers_later);
                (On::Uring(Box::new(core)), Chosen::Uring)
            }
            Err(why) => {
                let decision = Decision::new(SendPolicy::Direct);
                let core = Core::new(Epoll::new()?, System::default(), state, decision);
                (On::Epoll(Box::new(core)), Chosen::Epoll(why))
            }
        };
        Ok(Sockets {
            on,
            chosen,
            backlog: config.backlog.unsigned_abs(),
            reuse_port: config.reuse_port,
            fork_generation: proactor_engine::fork_generation(),
        })
    }

    /// What the sockets are on, and why.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// Waits for events, at most for `timeout` (None: until there is one, or a [`Waker`] is used), and calls the handler for each.
    ///
    /// # Errors
    /// Those of the ring or of epoll, after which no turn can be made any more.
    pub fn turn<H: Handler>(&mut self, handler: &mut H, timeout: Option<Duration>) -> io::Result<()> {
        match &mut self.on {
            On::Uring(core) => core.turn(handler, timeout),
            On::Epoll(core) => core.turn(handler, timeout),
        }
    }

    /// Whether something waits for the next turn that [`descriptor`](Self::descriptor) does not tell of: what handlers have
    /// asked for, and what was asked for since the turn.
    pub fn has_work(&self) -> bool {
        match &self.on {
            On::Uring(core) => core.has_work(),
            On::Epoll(core) => core.has_work(),
        }
    }

    /// The time after which a turn is due even if there are no events: a stream has lingered or been idle for long enough, or
    /// accepting is tried again. None: there is no such time. For a loop that watches [`descriptor`](Self::descriptor).
    pub fn next_timer(&self) -> Option<Duration> {
        match &self.on {
            On::Uring(core) => core.state.next_timer(),
            On::Epoll(core) => core.state.next_timer(),
        }
    }

    /// Calls `with` with what a handler would get, between turns.
    pub fn with<R>(&mut self, with: impl FnOnce(&mut Context<'_>) -> R) -> R {
        match &mut self.on {
            On::Uring(core) => core.with_context(with),
            On::Epoll(core) => core.with_context(with),
        }
    }

    /// Listens on an address.
    ///
    /// # Errors
    /// Those of bind(2) and listen(2), with the address.
    pub fn listen(&mut self, address: &Address) -> Result<SocketId, Error> {
        let (backlog, reuse_port) = (self.backlog, self.reuse_port);
        self.with(|cx| cx.listen(address, backlog, reuse_port))
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// EMFILE and the like if no socket can be made, with the address.
    pub fn connect(&mut self, address: &Address) -> Result<SocketId, Error> {
        self.with(|cx| cx.connect(address))
    }

    /// Opens a socket for datagrams, as [`Context::open_datagram`].
    ///
    /// # Errors
    /// Those of bind(2) and connect(2), with the address.
    pub fn open_datagram(&mut self, local: &Address, peer: Option<&Address>) -> Result<SocketId, Error> {
        self.with(|cx| cx.open_datagram(local, peer))
    }

    /// A waker for this thread's turns.
    ///
    /// # Errors
    /// EMFILE if its descriptor cannot be made.
    pub fn waker(&mut self) -> io::Result<Waker> {
        Ok(Waker(match &mut self.on {
            On::Uring(core) => Wakes::Ring(core.backend.waker()?),
            On::Epoll(core) => Wakes::Epoll(core.backend.waker()),
        }))
    }

    /// Takes a connection over that was accepted elsewhere, between turns.
    pub(crate) fn adopt_stream<H: Handler>(&mut self, connection: OwnedFd, handler: &mut H) {
        match &mut self.on {
            On::Uring(core) => core.adopt(connection, handler),
            On::Epoll(core) => core.adopt(connection, handler),
        }
    }

    /// The ring's or epoll's own descriptor, which is readable while there are events.
    pub(crate) fn own_descriptor(&mut self) -> io::Result<RawFd> {
        match &mut self.on {
            On::Uring(core) => core.backend.driver().ring_fd(),
            On::Epoll(core) => Ok(core.backend.descriptor()),
        }
    }

    /// What a ring of another thread begins with that is to share this one's kernel worker.
    pub(crate) fn attachment(&mut self) -> io::Result<Option<proactor_engine::Config>> {
        match &mut self.on {
            On::Uring(core) => Driver::builder().attach_to(core.backend.driver()).map(Some),
            On::Epoll(_) => Ok(None),
        }
    }

    /// The descriptor that is readable when a turn finds events, for a loop that watches several. Such a loop makes a turn
    /// too whenever [`has_work`](Self::has_work) says so.
    ///
    /// # Errors
    /// EMFILE if it cannot be made.
    pub fn descriptor(&mut self) -> io::Result<RawFd> {
        match &mut self.on {
            On::Uring(core) => core.backend.driver().eventfd(),
            On::Epoll(core) => Ok(core.backend.descriptor()),
        }
    }

    /// The driver whose ring the sockets are on, for ops on files in the same thread. None on epoll.
    pub fn driver(&mut self) -> Option<&mut Driver> {
        match &mut self.on {
            On::Uring(core) => Some(core.backend.driver()),
            On::Epoll(_) => None,
        }
    }

    /// Whether this is a child of the process that made the sockets. It must not use them, and dropping them does not disturb
    /// the parent.
    pub fn is_forked(&self) -> bool {
        self.fork_generation != proactor_engine::fork_generation()
    }

    /// Buffers of the pool that all receives share: it grows when a receive finds none, and is made smaller when few are in use.
    /// None on epoll.
    pub fn buffers(&self) -> usize {
        match &self.on {
            On::Uring(core) => core.backend.buffers(),
            On::Epoll(_) => 0,
        }
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        match &self.on {
            On::Uring(core) => core.state.stats,
            On::Epoll(core) => core.state.stats,
        }
    }

    /// System calls that the sockets have made so far, those for waiting and submitting included.
    pub fn calls(&mut self) -> u64 {
        let enters = self.enters().unwrap_or(0);
        match &self.on {
            On::Uring(core) => core.calls.made + enters,
            On::Epoll(core) => core.calls.made + core.backend.calls(),
        }
    }

    /// How long the last turn has taken, from the end of its wait until what it has to send was queued.
    #[inline]
    pub fn last_turn(&self) -> Duration {
        match &self.on {
            On::Uring(core) => core.took,
            On::Epoll(core) => core.took,
        }
    }

    /// Takes over a listener that was bound before, perhaps in another thread.
    ///
    /// # Errors
    /// EMFILE if there are too many sockets, with the address.
    pub fn adopt(&mut self, bound: Bound) -> Result<SocketId, Error> {
        self.with(|cx| cx.adopt(bound))
    }

    /// System calls for waiting and submitting so far; None on epoll, where each turn is one.
    pub fn enters(&mut self) -> Option<u64> {
        self.driver()
            .filter(|driver| driver.chosen().engine == Engine::IoUring)?
            .enters()
            .ok()
    }
}
