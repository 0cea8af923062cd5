//! Many ops of one kind, some in flight at a time.

use super::run::{driver_error, typed};
use super::{Driver, Failed};
use crate::error::Refusal;
use crate::inflight::TokenMap;
use crate::op::{Op, Operation};
use std::iter::{Enumerate, Fuse};

/// Results of ops as they end. Made by [`Driver::each`].
///
/// If it is dropped before the end, what is in flight is cancelled where that is possible, and the rest is not taken.
#[must_use = "nothing is submitted before the first result is asked for"]
pub struct Each<'a, I: Iterator> {
    driver: &'a mut Driver,
    ops: Enumerate<Fuse<I>>,
    /// Taken, and there was no room for it.
    held: Option<(usize, Op)>,
    depth: usize,
    /// The position of each op in flight.
    flying: TokenMap<usize>,
}

impl Driver {
    /// Runs ops with up to `depth` in flight (at least 1), and gives the results as they end, each with the position of
    /// its op, from 0. The next ops are taken when there is room for them. Others that complete meanwhile stay ready.
    ///
    /// ```
    /// use proactor_engine::{Driver, op::ReadFile};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let paths = [c"Cargo.toml", c"src/lib.rs"];
    /// let mut driver = Driver::new()?;
    /// for (at, contents) in driver.each(16, paths.map(ReadFile::new)) {
    ///     println!("{:?}: {} bytes", paths[at], contents?.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// An op that is refused or fails ends with its error; the others go on.
    pub fn each<I>(&mut self, depth: usize, ops: I) -> Each<'_, I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Operation,
    {
        Each {
            driver: self,
            ops: ops.into_iter().fuse().enumerate(),
            held: None,
            depth: depth.max(1),
            flying: TokenMap::default(),
        }
    }
}

impl<I: Iterator> Each<'_, I>
where
    I::Item: Operation,
{
    /// Submits as many as may be in flight. The position and the error of one that is refused.
    fn fill(&mut self) -> Result<(), (usize, Failed<I::Item>)> {
        while self.flying.len() < self.depth {
            let next = self.held.take();
            let Some((at, op)) = next.or_else(|| self.ops.next().map(|(at, op)| (at, op.into()))) else {
                break;
            };
            match self.driver.submit(op) {
                Ok(token) => drop(self.flying.insert(token, at)),
                Err(refused) if refused.refusal.is_full() && !self.flying.is_empty() => {
                    self.held = Some((at, *refused.op));
                    break;
                }
                Err(refused) => return Err((at, Failed::refused(refused))),
            }
        }
        Ok(())
    }
}

impl Refusal {
    fn is_full(&self) -> bool {
        matches!(self, Refusal::Full { .. })
    }
}

impl<I: Iterator> Iterator for Each<'_, I>
where
    I::Item: Operation,
{
    type Item = (usize, Result<<I::Item as Operation>::Output, Failed<I::Item>>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Err((at, failed)) = self.fill() {
                return Some((at, Err(failed)));
            }
            let flying = &self.flying;
            let done = self
                .driver
                .take_ready(|ready| !ready.more() && flying.contains_key(&ready.token));
            if let Some(completion) = done {
                let at = self.flying.remove(&completion.token)?;
                return Some((at, typed(completion)));
            }
            let (&token, &at) = self.flying.iter().next()?;
            if let Err(error) = self.driver.advance() {
                self.flying.remove(&token);
                self.driver.abandon(token);
                return Some((at, Err(Failed::new(driver_error(&error, "each"), None))));
            }
        }
    }
}

impl<I: Iterator> Drop for Each<'_, I> {
    fn drop(&mut self) {
        for (token, _) in self.flying.drain() {
            self.driver.abandon(token);
        }
    }
}
