//! Ops of which each starts when the one before has succeeded.

use super::complete::is_whole;
use super::run::{driver_error, finished};
use super::{Completion, Driver, Failed, Output};
use crate::error::{Error, Refusal};
use crate::op::{Op, Operation, Options};
use std::fmt;
use std::io;

mod sealed {
    pub trait Sealed {}
}

/// Ops that [`Driver::chain`] can run: a tuple of up to eight, or a vector of one kind.
pub trait Chain: Sized + sealed::Sealed {
    /// The output of each, if all have succeeded.
    type Output;
    /// The result of each, if one has failed.
    type Results;

    #[doc(hidden)]
    fn into_ops(self) -> Vec<Op>;

    #[doc(hidden)]
    fn results(ends: impl Iterator<Item = End>) -> Self::Results;

    /// Of results that are all `Ok`.
    #[doc(hidden)]
    fn output(results: Self::Results) -> Self::Output;
}

/// How one op of a chain has ended: with its result, or without one, which is why the op may be missing.
#[doc(hidden)]
pub enum End {
    Finished(Op, Result<Output, Error>),
    Not(Error, Option<Op>),
}

impl End {
    fn typed<O: Operation>(self) -> Result<O::Output, Failed<O>> {
        match self {
            End::Finished(op, result) => finished(op, result),
            End::Not(error, op) => Err(Failed::new(error, op.map(O::restore))),
        }
    }

    /// Why a chain ends here. Nothing hangs on the last one's length.
    fn failure(&self, last: bool) -> Option<Error> {
        match self {
            End::Not(error, _) | End::Finished(_, Err(error)) => Some(error.clone()),
            End::Finished(op, result) if !last && !is_whole(op, result) => Some(
                op.error(libc::EIO)
                    .with_hint("it was short, so that what follows in the chain was not started"),
            ),
            End::Finished(..) => None,
        }
    }
}

/// Which op of a chain has failed, and the result of each.
pub struct FailedChain<C: Chain>(Box<Parts<C>>);

struct Parts<C: Chain> {
    index: usize,
    count: usize,
    error: Error,
    results: C::Results,
}

impl<C: Chain> FailedChain<C> {
    /// The position of the op that failed, from 0. Those after it have not been started.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Its error. A transfer that was short, which also ends a chain, is EIO with a hint that says so.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// The result of each op, with what it gave or with the op itself. Those that were not started have ECANCELED.
    pub fn into_results(self) -> C::Results {
        self.0.results
    }
}

impl<C: Chain> fmt::Debug for FailedChain<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailedChain")
            .field("index", &self.index())
            .field("error", self.error())
            .finish_non_exhaustive()
    }
}

impl<C: Chain> fmt::Display for FailedChain<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts {
            index, count, error, ..
        } = &*self.0;
        write!(f, "{error} (op {} of a chain of {count})", index + 1)
    }
}

impl<C: Chain> std::error::Error for FailedChain<C> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error().source()
    }
}

impl<C: Chain> From<FailedChain<C>> for Error {
    fn from(failed: FailedChain<C>) -> Self {
        failed.0.error
    }
}

impl<C: Chain> From<FailedChain<C>> for io::Error {
    fn from(failed: FailedChain<C>) -> Self {
        failed.0.error.into()
    }
}

impl Driver {
    /// Runs ops one after the other, each when the one before has succeeded in full, and gives all results. Where the
    /// kernel can, it goes from one to the next by itself.
    ///
    /// ```
    /// use proactor_engine::{Driver, op::{File, Fsync, Write}};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = File::new(tempfile::tempfile()?);
    /// let mut driver = Driver::new()?;
    /// let ((written, _), ()) = driver.chain((Write::at(&file, 0, "a record\n"), Fsync::data(&file)))?;
    /// assert_eq!(written, 9);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The first that failed, that was short, or that was refused; then none has been started.
    pub fn chain<C: Chain>(&mut self, chain: C) -> Result<C::Output, FailedChain<C>> {
        let ops = chain.into_ops();
        let names: Vec<&'static str> = ops.iter().map(Op::name).collect(); // allocates: 16 bytes for each op of the caller's
        let tokens = match self.submit_linked(ops) {
            Ok(tokens) => tokens,
            Err((ops, refusal)) => return Err(not_started(ops, refusal)),
        };
        let ends = tokens
            .iter()
            .zip(names)
            .map(|(&token, name)| match self.completion_of(token) {
                Ok(Completion {
                    op: Some(op), result, ..
                }) => End::Finished(op, result),
                Ok(_) => End::Not(Error::new(libc::EIO, name), None),
                Err(error) => {
                    self.abandon(token);
                    End::Not(driver_error(&error, name), None)
                }
            });
        gathered(ends.collect()) // allocates: an end for each op of the caller's
    }
}

/// The results of a chain whose ops have ended.
pub(crate) fn gathered<C: Chain>(ends: Vec<End>) -> Result<C::Output, FailedChain<C>> {
    let count = ends.len();
    let failed = ends.iter().enumerate().find_map(|(at, end)| {
        let error = end.failure(at + 1 == count)?;
        Some((at, error))
    });
    let results = C::results(ends.into_iter());
    match failed {
        None => Ok(C::output(results)),
        Some((index, error)) => Err(FailedChain(Box::new(Parts {
            index,
            count,
            error,
            results,
        }))),
    }
}

/// A chain of which one op was refused, and so all.
pub(crate) fn not_started<C: Chain>(ops: Vec<Op>, refusal: Refusal) -> FailedChain<C> {
    let (count, invalid) = (ops.len(), |op: &Op| op.check(&Options::default(), true).is_err());
    let index = ops.iter().position(invalid).unwrap_or(0);
    let error = refusal.into_error(ops.get(index).map_or("chain", Op::name));
    let ends = ops.into_iter().enumerate().map(|(at, op)| {
        let error = match at == index {
            true => error.clone(),
            false => op.error(libc::ECANCELED),
        };
        End::Not(error, Some(op))
    });
    let results = C::results(ends);
    FailedChain(Box::new(Parts {
        index,
        count,
        error,
        results,
    }))
}

const TYPED: &str = "an end for each op";
const ALL_OK: &str = "looked at before";

macro_rules! tuples {
    ($(($($op:ident $result:ident),*))*) => {$(
        impl<$($op: Operation),*> sealed::Sealed for ($($op,)*) {}

        #[allow(non_snake_case)]
        impl<$($op: Operation),*> Chain for ($($op,)*) {
            type Output = ($($op::Output,)*);
            type Results = ($(Result<$op::Output, Failed<$op>>,)*);

            fn into_ops(self) -> Vec<Op> {
                let ($($op,)*) = self;
                vec![$($op.into()),*] // allocates: eight at most
            }

            fn results(mut ends: impl Iterator<Item = End>) -> Self::Results {
                ($(ends.next().expect(TYPED).typed::<$op>(),)*)
            }

            fn output(results: Self::Results) -> Self::Output {
                let ($($result,)*) = results;
                ($($result.expect(ALL_OK),)*)
            }
        }
    )*};
}

tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
    (A a, B b, C c, D d, E e, F f, G g)
    (A a, B b, C c, D d, E e, F f, G g, H h)
}

impl<O: Operation> sealed::Sealed for Vec<O> {}

impl<O: Operation> Chain for Vec<O> {
    type Output = Vec<O::Output>;
    type Results = Vec<Result<O::Output, Failed<O>>>;

    fn into_ops(self) -> Vec<Op> {
        self.into_iter().map(Into::into).collect() // allocates: the caller has a vector of as many
    }

    fn results(ends: impl Iterator<Item = End>) -> Self::Results {
        ends.map(End::typed).collect() // allocates: the caller has a vector of as many
    }

    fn output(results: Self::Results) -> Self::Output {
        let all = results.into_iter().map(|result| result.expect(ALL_OK));
        all.collect() // allocates: the caller has a vector of as many
    }
}
