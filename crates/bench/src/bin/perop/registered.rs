//! Reads with a registered buffer and file: collected from the driver, and awaited by tasks.

use crate::{Turns, BLOCK_BYTES, FILE_BLOCKS};
use proactor_bench::unless_interrupted;
use proactor_engine::buffer::{Buf, RegisteredBuf};
use proactor_engine::op::{File, FixedFile, Op, Read};
use proactor_engine::{Driver, Error, Io};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Reads of one block after the other, starting over at the end of the file.
struct Blocks {
    file: FixedFile,
    block: usize,
}

impl Blocks {
    fn next(&mut self, buffer: RegisteredBuf) -> Read<RegisteredBuf> {
        self.block = (self.block + 1) % FILE_BLOCKS;
        Read::at(&self.file, (self.block * BLOCK_BYTES) as u64, buffer)
    }
}

fn registered(driver: &mut Driver, file: &File, batch: usize) -> io::Result<(Blocks, Vec<RegisteredBuf>)> {
    let file = driver.register_file(file)?;
    let buffers = driver.register_buffers(batch as u16, BLOCK_BYTES)?;
    Ok((Blocks { file, block: 0 }, buffers))
}

/// Returns turns that submit a batch and collect all of it.
pub(crate) fn collected(mut driver: Driver, file: &File, batch: usize) -> io::Result<Turns> {
    let (mut blocks, mut buffers) = registered(&mut driver, file, batch)?;
    let mut done = Vec::with_capacity(batch);
    Ok(Box::new(move |turns| {
        for _ in 0..turns {
            for buffer in buffers.drain(..) {
                driver.submit(blocks.next(buffer))?;
            }
            while done.len() < batch {
                let missing = batch - done.len();
                unless_interrupted(driver.wait(missing, missing, None, &mut done))?;
            }
            for completion in done.drain(..) {
                assert_eq!(completion.count()?, BLOCK_BYTES, "the file is cached and whole");
                if let Some(Op::Read(Read {
                    buffer: Buf::Registered(buffer),
                    ..
                })) = completion.op
                {
                    buffers.push(buffer);
                }
            }
        }
        Ok(())
    }))
}

/// Returns turns of as many tasks as a batch has ops; each task awaits one read after the other.
pub(crate) fn awaited(mut driver: Driver, file: &File, batch: usize) -> io::Result<Turns> {
    let (blocks, mut buffers) = registered(&mut driver, file, batch)?;
    let blocks = RefCell::new(blocks);
    let io = Io::from(driver);
    Ok(Box::new(move |turns| {
        let (io, blocks) = (&io, &blocks);
        let tasks = buffers.drain(..).map(|mut buffer| async move {
            for _ in 0..turns {
                let read = blocks.borrow_mut().next(buffer);
                let count;
                (count, buffer) = io.run(read).await?;
                assert_eq!(count, BLOCK_BYTES, "the file is cached and whole");
            }
            Ok::<_, Error>(buffer)
        });
        let results = run_all(io, tasks)?;
        buffers = results.into_iter().collect::<Result<_, _>>()?;
        Ok(())
    }))
}

/// Numbers of the tasks to poll.
type Woken = Arc<Mutex<Vec<usize>>>;

struct Task {
    at: usize,
    woken: Woken,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().expect("no poll panics").push(self.at);
    }
}

/// Runs all tasks on a plain executor: polls those that were woken, and takes a turn when none is left.
fn run_all<F: Future>(io: &Io, tasks: impl Iterator<Item = F>) -> io::Result<Vec<F::Output>> {
    let woken = Woken::default();
    let mut tasks: Vec<(Option<Pin<Box<F>>>, Waker)> = tasks
        .enumerate()
        .map(|(at, task)| {
            let woken = Arc::clone(&woken);
            (Some(Box::pin(task)), Arc::new(Task { at, woken }).into())
        })
        .collect();
    let mut results = Vec::with_capacity(tasks.len());
    let mut next: Vec<usize> = (0..tasks.len()).collect();
    loop {
        for at in next.drain(..) {
            let (task, waker) = &mut tasks[at];
            let Some(future) = task else { continue };
            if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                results.push(result);
                *task = None;
            }
        }
        if results.len() == tasks.len() {
            return Ok(results);
        }
        if woken.lock().expect("no poll panics").is_empty() {
            io.turn(None)?;
        }
        std::mem::swap(&mut next, &mut *woken.lock().expect("no poll panics"));
    }
}
