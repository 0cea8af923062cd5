//! The seeded simulator: real ops on real descriptors, done one by one inside `wait` on the caller's thread, with
//! faults and an order that depend on the seed alone.
//!
//! Invariant: the same seed and the same program give the same run, as far as the outside world (peers on pipes, the
//! clock) lets them. With all rates 0 it behaves as any other backend. What happens to an op is decided when it is
//! submitted, so that a late peer does not change the fate of the ops after it.
//!
//! `eventfd()` is an epoll instance: readable while an op that needs nobody waits to be done, while a watched
//! descriptor is ready, or when a time has come. Opening a FIFO shows on no descriptor; while one waits for its peer,
//! the simulator looks again every millisecond. Priorities are ignored. A `WriteFile` to a FIFO blocks once there is a
//! reader.

mod faults;
mod fifo;
mod transfer;
mod watch;

use super::helper::{raw_of, readiness, Readiness};
use super::{Backend, CancelOutcome, Raw, Taken};
use crate::config::Config;
use crate::inflight::{Slot, Token};
use crate::op::{Nop, Op, OpKind};
use crate::probe::Support;
use crate::sys::{self, perform};
use faults::{Fate, Faults};
use fifo::Fifo;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use watch::Watch;

/// How often an op that waits for a FIFO's peer is tried again.
const PEER_TICK: Duration = Duration::from_millis(1);

/// What must come about before the op can be done.
enum Needs {
    Nothing,
    /// One of these events on the duplicate, which keeps the file open as an in-flight op of the ring does.
    Ready(OwnedFd, u32),
    /// Both ends of a splice.
    Pipes(OwnedFd, OwnedFd),
    Time(Option<Instant>),
    /// Whoever opens the other end of a FIFO.
    Peer(Fifo),
}

struct Job {
    token: Token,
    op: Box<Op>,
    skip: usize,
    notify: Option<Arc<OwnedFd>>,
    needs: Needs,
    fate: Fate,
}

pub(crate) struct Sim {
    faults: Faults,
    watch: Watch,
    /// In the order of submission.
    jobs: BTreeMap<u64, Job>,
    places: HashMap<Token, u64>,
    next_place: u64,
}

impl Sim {
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        Ok(Sim {
            faults: Faults::new(config.sim),
            watch: Watch::new()?,
            jobs: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
        })
    }

    /// What the op waits for. A descriptor that cannot be watched needs nothing: doing the op says what is wrong.
    fn needs(&self, token: Token, op: &Op) -> Needs {
        if let Some(fifo) = Fifo::of(op) {
            return Needs::Peer(fifo);
        }
        if let Op::Splice(o) = op {
            let blocking = !o.flags.contains(crate::op::SpliceFlags::NONBLOCK);
            return match (sys::dup(o.from.fd()), sys::dup(o.to.fd())) {
                (Ok(from), Ok(to)) if blocking => Needs::Pipes(from, to),
                _ => Needs::Nothing,
            };
        }
        match readiness(op) {
            Readiness::None => Needs::Nothing,
            // A time that the clock cannot hold never comes.
            Readiness::Time(after) => Needs::Time(Instant::now().checked_add(after)),
            Readiness::Events(events) => {
                let fd = match op {
                    Op::Poll(o) => o.file.fd(),
                    other => perform::transfer_file(other).map_or(-1, |file| file.fd()),
                };
                let edge = matches!(op, Op::Poll(o) if o.multishot);
                match sys::dup(fd)
                    .and_then(|fd| self.watch.add(token, fd.as_raw_fd(), events, edge).map(|()| fd))
                {
                    Ok(fd) => Needs::Ready(fd, events),
                    Err(_) => Needs::Nothing,
                }
            }
        }
    }

    /// Does what can be done: all of it, or, where the order is random, at least `min` and some more.
    fn run(&mut self, min: usize, done: &mut Vec<Raw>) {
        let mut places: Vec<u64> = self.jobs.keys().copied().collect();
        self.faults.shuffle(&mut places);
        let before = done.len();
        for place in places {
            let job = self.jobs.get_mut(&place).expect("only this loop removes jobs");
            let Some(res) = attempt(job) else { continue };
            self.finish(place, res, done);
            if done.len() - before >= min.max(1) && self.faults.pause() {
                break;
            }
        }
    }

    fn finish(&mut self, place: u64, res: i32, done: &mut Vec<Raw>) {
        let Some(job) = self.jobs.remove(&place) else {
            return;
        };
        self.places.remove(&job.token);
        if let Needs::Ready(fd, _) = &job.needs {
            self.watch.remove(fd.as_raw_fd());
        }
        if let Some(fd) = &job.notify {
            sys::eventfd_signal(fd.as_raw_fd());
        }
        done.push(raw_of(job.token, res, job.op));
    }

    /// Waits on the descriptors at most this long, and takes the events of multishot polls.
    fn listen(&mut self, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        for (token, events) in self.watch.wait(timeout)? {
            let job = self.places.get(&token).and_then(|place| self.jobs.get(place));
            if job.is_some_and(|job| matches!(&*job.op, Op::Poll(o) if o.multishot)) {
                done.push(Raw {
                    token,
                    res: events as i32,
                    more: true,
                    op: None,
                });
            }
        }
        Ok(())
    }

    /// Makes the descriptor tell of what can happen without another event.
    fn arm(&mut self) {
        let mut next: Option<Instant> = None;
        let mut now = false;
        for job in self.jobs.values() {
            let at = match &job.needs {
                Needs::Nothing => {
                    now = true;
                    continue;
                }
                Needs::Time(at) => *at,
                Needs::Peer(_) | Needs::Pipes(..) => Some(Instant::now() + PEER_TICK),
                Needs::Ready(..) => None,
            };
            next = [next, at].into_iter().flatten().min();
        }
        if now {
            self.watch.wake();
        }
        self.watch.arm(next);
    }
}

/// Does the op if nothing stands in its way.
fn attempt(job: &mut Job) -> Option<i32> {
    let Job {
        op,
        skip,
        needs,
        fate,
        ..
    } = job;
    match needs {
        Needs::Time(at) => return at.is_some_and(|at| at <= Instant::now()).then_some(0),
        Needs::Ready(fd, _) => match &**op {
            Op::Poll(o) if o.multishot => return None,
            Op::Poll(o) => {
                let events = sys::poll_now(fd.as_raw_fd(), o.events.bits() as i16);
                return (events != 0).then_some(events.into());
            }
            _ => {}
        },
        // Nothing tells of its changes.
        Needs::Nothing if perform::is_poll_in_vain(op) => return Some(-libc::EINVAL),
        _ => {}
    }
    if let Fate::Error(errno) = fate {
        if let Op::Close(_) = &**op {
            // Linux closes the descriptor even if it reports an error.
            perform::perform(op, *skip);
        }
        return Some(-*errno);
    }
    match needs {
        Needs::Ready(fd, events) => transfer::without_waiting(op, *skip, fd.as_raw_fd(), *events, fate),
        Needs::Pipes(from, to) => transfer::splice(op, from.as_raw_fd(), to.as_raw_fd(), fate),
        Needs::Peer(fifo) => fifo.attempt(op),
        _ => Some(transfer::perform(op, *skip, fate)),
    }
}

impl Backend for Sim {
    fn support(&self, _kind: OpKind) -> Support {
        Support::Native
    }

    fn submit(&mut self, token: Token, slot: &mut Slot) -> Taken {
        let op = Box::new(std::mem::replace(&mut slot.op, Op::Nop(Nop)));
        slot.stoppable |= super::helper::waits_for_peer(&op)
            || matches!(&*op, Op::WriteFile(o) if perform::writes_to_stream(o));
        let needs = self.needs(token, &op);
        let fate = self.faults.fate(&op, slot.skip);
        let notify = slot.options.notify.clone();
        let job = Job {
            token,
            op,
            skip: slot.skip,
            notify,
            needs,
            fate,
        };
        self.places.insert(token, self.next_place);
        self.jobs.insert(self.next_place, job);
        self.next_place += 1;
        Taken::Yes
    }

    fn flush(&mut self) -> io::Result<()> {
        self.arm();
        Ok(())
    }

    fn wait(&mut self, min: usize, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        self.listen(Some(Duration::ZERO), done)?;
        self.run(min, done);
        self.arm();
        if done.is_empty() && min > 0 && !self.jobs.is_empty() {
            self.listen(timeout, done)?;
            self.run(min, done);
            self.arm();
        }
        Ok(())
    }

    fn cancel(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        let Some(&place) = self.places.get(&token) else {
            return CancelOutcome::Finished;
        };
        // An op that waits for somebody else must stop, or it might never end.
        let unstoppable = matches!(self.jobs[&place].needs, Needs::Nothing);
        if unstoppable && self.faults.late() {
            return CancelOutcome::Running;
        }
        self.finish(place, -libc::ECANCELED, done);
        CancelOutcome::Cancelled
    }

    fn eventfd(&mut self) -> io::Result<RawFd> {
        self.arm();
        Ok(self.watch.as_raw_fd())
    }

    fn wake(&mut self) {
        self.watch.wake();
    }

    fn forget_threads(&mut self) {}
}
