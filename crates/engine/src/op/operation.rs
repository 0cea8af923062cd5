//! What each op gives: the one place that knows an op's result by its type.

use super::{
    Advise, Allocate, Blocking, Close, Events, File, Fsync, GetXattr, Link, ListXattr, Mkdir, Nop, Op, Open,
    Poll, Read, ReadCached, ReadFile, ReadV, RemoveXattr, Rename, SetXattr, Splice, Statx, Symlink,
    SyncRange, Timeout, Truncate, Unlink, Write, WriteFile, WriteV,
};
use crate::buffer::{Buf, Buffer};
use crate::driver::Output;

mod sealed {
    pub trait Sealed {}
}

/// An op whose result has a type.
///
/// | op | output |
/// | --- | --- |
/// | [`Read<B>`](Read), [`Write<B>`](Write) | `(usize, B)`: the bytes transferred, and the buffer |
/// | [`ReadV`], [`WriteV`] | `(usize, Vec<Buf>)` |
/// | [`GetXattr<B>`](GetXattr), [`ListXattr<B>`](ListXattr) | `(usize, B)`: the size, and the buffer |
/// | [`ReadFile`] | `Buf`: its `data`, or what its `allocate` has given |
/// | [`WriteFile<B>`](WriteFile) | `(usize, B)` |
/// | [`ReadCached`] | itself, with its answers |
/// | [`Open`] | [`File`] |
/// | [`Statx`] | `libc::statx` |
/// | [`Poll`] | [`Events`] |
/// | [`Splice`], [`Blocking`] | `usize` |
/// | [`Op`] | `(Output, Op)`: any op, with the op itself |
/// | all others | `()` |
pub trait Operation: Into<Op> + sealed::Sealed {
    /// What it gives.
    type Output;

    /// Takes apart what has come back of an op that was made of `Self`.
    #[doc(hidden)]
    fn output(op: Op, output: Output) -> Self::Output;

    /// Takes the op back that was made of `Self`.
    #[doc(hidden)]
    fn restore(op: Op) -> Self;
}

/// `$output` of the op in `$op` and the count in `$count`.
macro_rules! operations {
    ($($name:ident $(<$b:ident>)? -> $type:ty, |$op:ident, $result:ident| $output:expr;)*) => {$(
        impl$(<$b: Buffer>)? sealed::Sealed for $name$(<$b>)? {}

        impl$(<$b: Buffer>)? Operation for $name$(<$b>)? {
            type Output = $type;

            #[inline(always)]
            fn output(op: Op, output: Output) -> $type {
                let $op = <Self as Operation>::restore(op);
                let $result = output;
                $output
            }

            operations!(@restore $name $($b)?);
        }
    )*};
    (@restore $name:ident) => {
        fn restore(op: Op) -> Self {
            match op {
                Op::$name(op) => op,
                other => unreachable!("{} instead of a {}", other.name(), stringify!($name)),
            }
        }
    };
    (@restore $name:ident $b:ident) => {
        #[inline(always)]
        fn restore(op: Op) -> Self {
            match op {
                Op::$name(op) => op.typed(),
                other => unreachable!("{} instead of a {}", other.name(), stringify!($name)),
            }
        }
    };
}

operations! {
    Read<B> -> (usize, B), |op, result| (result.number(), op.buffer);
    Write<B> -> (usize, B), |op, result| (result.number(), op.buffer);
    ReadV -> (usize, Vec<Buf>), |op, result| (result.number(), op.buffers);
    WriteV -> (usize, Vec<Buf>), |op, result| (result.number(), op.buffers);
    GetXattr<B> -> (usize, B), |op, result| (result.number(), op.buffer);
    ListXattr<B> -> (usize, B), |op, result| (result.number(), op.buffer);
    WriteFile<B> -> (usize, B), |op, result| (result.number(), op.data);
    ReadCached -> ReadCached, |op, _result| op;
    Open -> File, |_op, result| result.file();
    Statx -> libc::statx, |op, _result| *op.stat;
    Poll -> Events, |_op, result| result.events();
    Splice -> usize, |_op, result| result.number();
    Blocking -> usize, |_op, result| result.number();
    Fsync -> (), |_op, _result| ();
    SyncRange -> (), |_op, _result| ();
    Allocate -> (), |_op, _result| ();
    Advise -> (), |_op, _result| ();
    Truncate -> (), |_op, _result| ();
    Close -> (), |_op, _result| ();
    Rename -> (), |_op, _result| ();
    Unlink -> (), |_op, _result| ();
    Mkdir -> (), |_op, _result| ();
    Link -> (), |_op, _result| ();
    Symlink -> (), |_op, _result| ();
    SetXattr<B> -> (), |_op, _result| ();
    RemoveXattr -> (), |_op, _result| ();
    Timeout -> (), |_op, _result| ();
    Nop -> (), |_op, _result| ();
}

impl sealed::Sealed for ReadFile {}

impl Operation for ReadFile {
    type Output = Buf;

    fn output(op: Op, _output: Output) -> Buf {
        Self::restore(op).into_contents()
    }

    fn restore(op: Op) -> Self {
        match op {
            Op::ReadFile(op) => *op,
            other => unreachable!("{} instead of a ReadFile", other.name()),
        }
    }
}

impl sealed::Sealed for Op {}

impl Operation for Op {
    type Output = (Output, Op);

    fn output(op: Op, output: Output) -> (Output, Op) {
        (output, op)
    }

    fn restore(op: Op) -> Op {
        op
    }
}

impl Output {
    #[inline(always)]
    fn number(self) -> usize {
        match self {
            Output::Count(count) => count,
            other => unreachable!("{other:?} instead of a count"),
        }
    }

    fn file(self) -> File {
        match self {
            Output::File(file) => file,
            other => unreachable!("{other:?} instead of a file"),
        }
    }

    fn events(self) -> Events {
        match self {
            Output::Events(events) => events,
            other => unreachable!("{other:?} instead of events"),
        }
    }
}

impl Read {
    #[inline(always)]
    fn typed<B: Buffer>(self) -> Read<B> {
        Read {
            file: self.file,
            offset: self.offset,
            buffer: B::from_buf(self.buffer),
            flags: self.flags,
        }
    }
}

impl Write {
    #[inline(always)]
    fn typed<B: Buffer>(self) -> Write<B> {
        Write {
            file: self.file,
            offset: self.offset,
            buffer: B::from_buf(self.buffer),
            flags: self.flags,
        }
    }
}

impl GetXattr {
    fn typed<B: Buffer>(self) -> GetXattr<B> {
        GetXattr {
            target: self.target,
            name: self.name,
            buffer: B::from_buf(self.buffer),
        }
    }
}

impl SetXattr {
    fn typed<B: Buffer>(self) -> SetXattr<B> {
        SetXattr {
            target: self.target,
            name: self.name,
            value: B::from_buf(self.value),
            flags: self.flags,
        }
    }
}

impl ListXattr {
    fn typed<B: Buffer>(self) -> ListXattr<B> {
        ListXattr {
            target: self.target,
            buffer: B::from_buf(self.buffer),
        }
    }
}

impl WriteFile {
    fn typed<B: Buffer>(self) -> WriteFile<B> {
        WriteFile {
            dir: self.dir,
            path: self.path,
            data: B::from_buf(self.data),
            flags: self.flags,
            mode: self.mode,
            sync: self.sync,
        }
    }
}
