//! A driver in a thread of its own, whose ops any task of any thread may await.

use crate::driver::{driver_error, finished, Failed, Output};
use crate::error::{Error, Refusal, SubmitError};
use crate::inflight::Token;
use crate::op::{Op, Operation};
use crate::{ring, Config, Driver};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

/// A thread with a driver: for runtimes that move tasks from thread to thread.
///
/// Each op costs two hand-overs between threads. Where tasks stay in their thread, an [`Io`](crate::Io) costs none.
///
/// ```
/// use proactor_engine::{io::Remote, op::ReadFile, Config, Io};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let remote = Remote::new(Config::default())?;
/// let read = remote.run(ReadFile::new("Cargo.toml"));
/// // Any executor will do; it may be in another thread.
/// let contents = std::thread::spawn(|| Io::new()?.block_on(read)).join().unwrap()??;
/// assert!(contents.len() > 0);
/// # Ok(()) }
/// ```
///
/// Clones share the thread. Dropping the last one waits for what changes something and cancels the rest; a future that is left
/// then ends with ECANCELED. If the waker of such a future is what drops it, in that very thread, nobody waits: the thread
/// ends by itself.
#[derive(Clone)]
pub struct Remote(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    waker: ring::Waker,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    last_id: u64,
    /// The thread takes no more.
    closed: bool,
}

enum Job {
    Run(u64, Op, Arc<Reply>),
    /// Its future was dropped.
    Abandon(u64),
}

/// Where the thread puts a result, and the future finds it.
#[derive(Default)]
struct Reply(Mutex<Answer>);

#[derive(Default)]
struct Answer {
    ended: Option<Ended>,
    waker: Option<Waker>,
}

enum Ended {
    Finished(Op, Result<Output, Error>),
    Refused(SubmitError),
    /// The driver failed, or ended, with the op.
    Lost(Error),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reply {
    fn set(&self, ended: Ended) {
        let waker = {
            let mut answer = locked(&self.0);
            answer.ended = Some(ended);
            answer.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Remote {
    /// Starts a thread with a driver of this configuration.
    ///
    /// # Errors
    /// As [`Config::build`], and if there can be no thread.
    pub fn new(config: Config) -> io::Result<Self> {
        let (made, told) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("proactor-remote".into())
            .spawn(move || {
                // A driver belongs to the thread that makes it.
                let start = config.build().and_then(|mut driver| {
                    let waker = driver.waker()?;
                    Ok((driver, waker))
                });
                match start {
                    Err(error) => drop(made.send(Err(error))),
                    Ok((driver, waker)) => {
                        let shared = Arc::new(Shared {
                            queue: Mutex::default(),
                            waker,
                        });
                        if made.send(Ok(Arc::clone(&shared))).is_ok() {
                            Worker::new(driver, shared).work();
                        }
                    }
                }
            })?;
        let shared = told
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))?;
        Ok(Remote(Arc::new(Owner {
            shared,
            thread: Some(thread),
        })))
    }

    /// Runs one op. Nothing is handed to the thread before the future is polled for the first time. Where the driver's
    /// queue is full the op waits for room.
    ///
    /// # Errors
    /// What the op meets, or why it was refused; the op comes back in the error.
    pub fn run<O: Operation>(&self, op: O) -> RemoteRun<O> {
        RemoteRun {
            shared: Arc::clone(&self.0.shared),
            state: State::New(op.into()),
            op: PhantomData,
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        locked(&self.shared.queue).closed = true;
        self.shared.waker.wake();
        let is_its_own = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !is_its_own(thread)) {
            // After a panic there every op has been answered, too (`Worker`).
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

/// An op that runs in a [`Remote`]'s thread. Dropping it cancels the op where that is still possible.
#[must_use = "an op does nothing unless its future is awaited"]
pub struct RemoteRun<O: Operation> {
    shared: Arc<Shared>,
    state: State,
    op: PhantomData<fn() -> O>,
}

enum State {
    New(Op),
    Sent { id: u64, reply: Arc<Reply> },
    Ended,
}

impl<O: Operation> RemoteRun<O> {
    fn send(&mut self, op: Op) -> Result<(), Failed<O>> {
        if let Some(error) = op.without_one_result() {
            return Err(Failed::new(error, Some(O::restore(op))));
        }
        let (name, reply) = (op.name(), Arc::new(Reply::default()));
        let id = {
            let mut queue = locked(&self.shared.queue);
            if queue.closed {
                return Err(Failed::new(ended(name), Some(O::restore(op))));
            }
            queue.last_id += 1;
            let id = queue.last_id;
            queue.jobs.push(Job::Run(id, op, Arc::clone(&reply)));
            id
        };
        self.shared.waker.wake();
        self.state = State::Sent { id, reply };
        Ok(())
    }
}

/// The error of an op whose thread has ended.
fn ended(op: &'static str) -> Error {
    Error::new(libc::ECANCELED, op).with_hint("the Remote that ran it was dropped")
}

impl<O: Operation> Unpin for RemoteRun<O> {}

impl<O: Operation> Future for RemoteRun<O> {
    type Output = Result<O::Output, Failed<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.state, State::New(_)) {
            if let State::New(op) = mem::replace(&mut self.state, State::Ended) {
                if let Err(failed) = self.send(op) {
                    return Poll::Ready(Err(failed));
                }
            }
        }
        let State::Sent { reply, .. } = &self.state else {
            panic!("a future was polled after its end");
        };
        // Cloned and dropped without the lock: both may run code of the executor's.
        let waker = cx.waker().clone();
        let (ended, before) = {
            let mut answer = locked(&reply.0);
            match answer.ended.take() {
                None => (None, answer.waker.replace(waker)),
                ended => (ended, Some(waker)),
            }
        };
        drop(before);
        let Some(ended) = ended else {
            return Poll::Pending;
        };
        self.state = State::Ended;
        Poll::Ready(match ended {
            Ended::Finished(op, result) => finished(op, result),
            Ended::Refused(refused) => Err(Failed::refused(refused)),
            Ended::Lost(error) => Err(Failed::new(error, None)),
        })
    }
}

impl<O: Operation> Drop for RemoteRun<O> {
    fn drop(&mut self) {
        if let State::Sent { id, .. } = &self.state {
            let mut queue = locked(&self.shared.queue);
            if !queue.closed {
                queue.jobs.push(Job::Abandon(*id));
                drop(queue);
                self.shared.waker.wake();
            }
        }
    }
}

/// The thread's side.
struct Worker {
    driver: Driver,
    shared: Arc<Shared>,
    /// Those for which the driver's queue had no room, in order.
    waiting: VecDeque<(u64, Op, Arc<Reply>)>,
    running: HashMap<Token, (u64, &'static str, Arc<Reply>)>,
    tokens: HashMap<u64, Token>,
}

impl Worker {
    fn new(driver: Driver, shared: Arc<Shared>) -> Self {
        Worker {
            driver,
            shared,
            waiting: VecDeque::new(),
            running: HashMap::new(),
            tokens: HashMap::new(),
        }
    }

    fn work(mut self) {
        match self.run() {
            // What changes something runs to its end, and the rest is cancelled.
            Ok(()) => {
                self.driver.finish_all();
                self.tell();
            }
            Err(error) => self.lose(|name| driver_error(&error, name)),
        }
    }

    /// Until the queue is closed.
    fn run(&mut self) -> io::Result<()> {
        loop {
            let (jobs, closed) = {
                let mut queue = locked(&self.shared.queue);
                (mem::take(&mut queue.jobs), queue.closed)
            };
            jobs.into_iter().for_each(|job| self.take(job));
            self.submit();
            if closed {
                return Ok(());
            }
            let idle = self.driver.ready() == 0;
            self.driver.turn(idle, None)?;
            self.tell();
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Run(id, op, reply) => self.waiting.push_back((id, op, reply)),
            Job::Abandon(id) => match self.tokens.remove(&id) {
                Some(token) => {
                    self.running.remove(&token);
                    self.driver.abandon(token);
                }
                None => self.waiting.retain(|(waiting, ..)| *waiting != id),
            },
        }
    }

    fn submit(&mut self) {
        while let Some((id, op, reply)) = self.waiting.pop_front() {
            let name = op.name();
            match self.driver.submit(op) {
                Ok(token) => {
                    self.running.insert(token, (id, name, reply));
                    self.tokens.insert(id, token);
                }
                Err(refused) if matches!(refused.refusal, Refusal::Full { .. }) => {
                    self.waiting.push_front((id, *refused.op, reply));
                    return;
                }
                Err(refused) => reply.set(Ended::Refused(refused)),
            }
        }
    }

    fn tell(&mut self) {
        while let Some(completion) = self.driver.take_ready(|_| true) {
            let Some((id, _, reply)) = self.running.remove(&completion.token) else {
                continue;
            };
            self.tokens.remove(&id);
            if let Some(op) = completion.op {
                reply.set(Ended::Finished(op, completion.result));
            }
        }
    }

    fn lose(&mut self, error: impl Fn(&'static str) -> Error) {
        for (_, (_, name, reply)) in self.running.drain() {
            reply.set(Ended::Lost(error(name)));
        }
        for (_, op, reply) in self.waiting.drain(..) {
            let error = error(op.name());
            reply.set(Ended::Finished(op, Err(error)));
        }
    }
}

/// Whatever ends the thread, a panic among it, no future is left without an answer.
impl Drop for Worker {
    fn drop(&mut self) {
        let left = {
            let mut queue = locked(&self.shared.queue);
            queue.closed = true;
            mem::take(&mut queue.jobs)
        };
        left.into_iter().for_each(|job| self.take(job));
        self.lose(ended);
    }
}
