//! Futures of one thread, polled between the turns of its sockets.

use super::mail::Office;
use crate::config::Config;
use crate::context::Context;
use crate::sockets::{self, Sockets};
use crate::table::SocketId;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::{poll_fn, Future};
use std::io;
use std::pin::{pin, Pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// The number of the future that `block_on` was given.
const MAIN: usize = usize::MAX;

/// A future, and what wakes it.
type Task = (Pin<Box<dyn Future<Output = ()>>>, Arc<TaskWaker>);

/// The sockets and futures of one `block_on`.
pub(super) struct Local {
    sockets: RefCell<Sockets>,
    pub(super) office: RefCell<Office>,
    ready: Arc<Ready>,
    tasks: RefCell<Vec<Option<Task>>>,
    /// Places of `tasks` that are empty.
    free: RefCell<Vec<usize>>,
    timers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    next_timer: Cell<u64>,
    /// Sockets that were dropped in the middle of a turn.
    dropped: RefCell<Vec<SocketId>>,
    /// Those whose sending side was.
    ended: RefCell<Vec<SocketId>>,
}

/// Futures that are to be polled.
struct Ready {
    queue: Mutex<Vec<usize>>,
    thread: ThreadId,
    /// Ends the wait of the thread's turn.
    turn: sockets::Waker,
}

impl Ready {
    fn is_empty(&self) -> bool {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }
}

struct TaskWaker {
    number: usize,
    is_queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut queue = self.ready.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push(self.number);
        drop(queue);
        // The thread itself looks at the queue before each turn.
        if std::thread::current().id() != self.ready.thread {
            self.ready.turn.wake();
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

/// The `block_on` that this thread is in.
pub(super) fn current() -> io::Result<Rc<Local>> {
    CURRENT
        .with_borrow(Clone::clone)
        .ok_or_else(|| io::Error::other("this thread is not in Group::block_on"))
}

/// Takes this thread's `block_on` away again, with all futures: they hold it, too.
struct Entered(Rc<Local>);

impl Drop for Entered {
    fn drop(&mut self) {
        // A future that is dropped may look at what is there, and at the others.
        loop {
            self.0.free.borrow_mut().clear();
            let task = self.0.tasks.borrow_mut().pop();
            match task {
                Some(task) => drop(task),
                None => break,
            }
        }
        self.0.timers.borrow_mut().clear();
        CURRENT.set(None);
    }
}

pub(crate) fn block_on<F: Future>(config: Config, main: F) -> io::Result<F::Output> {
    if CURRENT.with_borrow(Option::is_some) {
        return Err(io::Error::other("this thread is in Group::block_on already"));
    }
    let mut sockets = config.answers_later(true).build()?;
    let ready = Arc::new(Ready {
        queue: Mutex::new(vec![MAIN]),
        thread: std::thread::current().id(),
        turn: sockets.waker()?,
    });
    let local = Rc::new(Local {
        sockets: RefCell::new(sockets),
        office: RefCell::new(Office {
            mails: HashMap::new(),
            is_ready: Box::new({
                let ready = Arc::clone(&ready);
                move || !ready.is_empty()
            }),
        }),
        ready: Arc::clone(&ready),
        tasks: RefCell::default(),
        free: RefCell::default(),
        timers: RefCell::default(),
        next_timer: Cell::new(0),
        dropped: RefCell::default(),
        ended: RefCell::default(),
    });
    let main_waker = Arc::new(TaskWaker {
        number: MAIN,
        is_queued: AtomicBool::new(true),
        ready,
    });
    let waker = Waker::from(Arc::clone(&main_waker));
    CURRENT.set(Some(Rc::clone(&local)));
    let entered = Entered(local);
    let mut main = pin!(main);
    loop {
        for number in entered.0.take_ready() {
            if number != MAIN {
                entered.0.poll(number);
                continue;
            }
            main_waker.is_queued.store(false, Ordering::Release);
            if let Poll::Ready(output) = main.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
                entered.0.hand_over()?;
                return Ok(output);
            }
        }
        entered.0.turn()?;
    }
}

impl Local {
    fn take_ready(&self) -> Vec<usize> {
        let mut queue = self.ready.queue.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *queue)
    }

    fn poll(&self, number: usize) {
        // Taken out meanwhile: it may spawn others.
        let taken = self.tasks.borrow_mut().get_mut(number).and_then(Option::take);
        let Some((mut task, waker)) = taken else { return };
        waker.is_queued.store(false, Ordering::Release);
        let std_waker = Waker::from(Arc::clone(&waker));
        match task
            .as_mut()
            .poll(&mut std::task::Context::from_waker(&std_waker))
        {
            Poll::Pending => self.tasks.borrow_mut()[number] = Some((task, waker)),
            Poll::Ready(()) => {
                drop(task);
                // A waker that somebody has kept may wake the place's next future, which is polled once more then.
                self.free.borrow_mut().push(number);
            }
        }
    }

    /// Waits for sockets, timers and wakers.
    fn turn(&self) -> io::Result<()> {
        let next = self.timers.borrow().keys().next().map(|(when, _)| *when);
        let timeout = next.map(|when| when.saturating_duration_since(Instant::now()));
        self.sockets
            .borrow_mut()
            .turn(&mut *self.office.borrow_mut(), timeout)?;
        self.ended.take().into_iter().for_each(|id| self.shutdown(id));
        self.dropped.take().into_iter().for_each(|id| self.close(id));
        if next.is_some() {
            self.fire();
        }
        Ok(())
    }

    fn fire(&self) {
        let now = Instant::now();
        loop {
            let mut timers = self.timers.borrow_mut();
            match timers.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    drop(timers);
                    waker.wake();
                }
                _ => return,
            }
        }
    }

    /// Gives what was sent to the kernel before the sockets are dropped.
    fn hand_over(&self) -> io::Result<()> {
        self.sockets
            .borrow_mut()
            .turn(&mut *self.office.borrow_mut(), Some(Duration::ZERO))
    }

    /// Calls `with` with what a handler would get.
    pub(super) fn with<R>(&self, with: impl FnOnce(&mut Context<'_>) -> R) -> R {
        self.sockets.borrow_mut().with(with)
    }

    /// Closes a socket whose holder is dropped: from anywhere, for a waker may drop one in the middle of a turn.
    pub(super) fn close(&self, id: SocketId) {
        match (self.sockets.try_borrow_mut(), self.office.try_borrow_mut()) {
            (Ok(mut sockets), Ok(mut office)) => {
                office.mails.remove(&id);
                sockets.with(|cx| cx.close(id));
            }
            _ => self.dropped.borrow_mut().push(id),
        }
    }

    /// Ends the sending side of a socket, from anywhere as [`close`](Self::close) does.
    pub(super) fn shutdown(&self, id: SocketId) {
        match self.sockets.try_borrow_mut() {
            Ok(mut sockets) => sockets.with(|cx| cx.shutdown(id)),
            Err(_) => self.ended.borrow_mut().push(id),
        }
    }

    pub(super) fn listen(&self, address: &crate::Address) -> Result<SocketId, crate::Error> {
        self.sockets.borrow_mut().listen(address)
    }
}

/// Runs a future beside the others of this thread's [`Group::block_on`](crate::Group::block_on), at whose end it is dropped.
///
/// # Panics
/// Outside of `block_on`.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    let local = current().expect("spawn is called in Group::block_on");
    let mut tasks = local.tasks.borrow_mut();
    let number = local.free.borrow_mut().pop().unwrap_or_else(|| {
        tasks.push(None);
        tasks.len() - 1
    });
    let waker = Arc::new(TaskWaker {
        number,
        is_queued: AtomicBool::new(false),
        ready: Arc::clone(&local.ready),
    });
    tasks[number] = Some((Box::pin(future), Arc::clone(&waker)));
    drop(tasks);
    waker.wake();
}

/// Is ready after a time.
///
/// # Panics
/// When it is polled outside of [`Group::block_on`](crate::Group::block_on).
pub fn sleep(time: Duration) -> impl Future<Output = ()> {
    let until = Instant::now().checked_add(time);
    let mut timer = Timer(None);
    poll_fn(move |cx| {
        let Some(until) = until else {
            return Poll::Pending;
        };
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        timer.set(until, cx.waker());
        Poll::Pending
    })
}

/// A place in the list of timers, which it gives up when it is dropped.
struct Timer(Option<(Rc<Local>, (Instant, u64))>);

impl Timer {
    fn set(&mut self, until: Instant, waker: &Waker) {
        let (local, key) = self.0.get_or_insert_with(|| {
            let local = current().expect("sleep is polled in Group::block_on");
            let number = local.next_timer.get();
            local.next_timer.set(number + 1);
            (local, (until, number))
        });
        local.timers.borrow_mut().insert(*key, waker.clone());
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some((local, key)) = &self.0 {
            if let Ok(mut timers) = local.timers.try_borrow_mut() {
                timers.remove(key);
            }
        }
    }
}
