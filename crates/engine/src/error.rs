//! Every way in which the engine says no.
//!
//! A failed op is an [`Error`]: errno, the op's name and, where the op has one, the path. A refused op is a
//! [`SubmitError`], which hands the op back so that its buffer is never lost.

use crate::op::Op;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A failed op: the kernel's errno, the op that met it, and the path it named.
///
/// Its source is the error that the function of a [`Blocking`](crate::op::Blocking) has returned, if that failed, or what
/// [`fs`](crate::fs) has found. Made
/// into an [`io::Error`] it keeps all of this: the text is the same, `get_ref` gives the `Error` itself, and
/// [`errno_of`](crate::errno_of) its number.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Parts>); // one word: every result has room for it

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    errno: i32,
    op: &'static str,
    path: Option<CString>,
    hint: Option<&'static str>,
    lacks_memory: bool,
    cause: Option<Arc<Cause>>,
}

/// Why the function of a `Blocking` has failed.
#[derive(Debug)]
pub(crate) enum Cause {
    Error(io::Error),
    /// It panicked, with this message.
    Panic(String),
}

/// Two causes are equal if they say the same: an `io::Error` cannot be compared otherwise.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Cause::Error(a), Cause::Error(b)) => a.kind() == b.kind() && a.to_string() == b.to_string(),
            (Cause::Panic(a), Cause::Panic(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Cause {}

impl Error {
    /// The error `errno` of the op with this name.
    pub fn new(errno: i32, op: &'static str) -> Self {
        Error(Box::new(Parts {
            errno,
            op,
            path: None,
            hint: None,
            lacks_memory: false,
            cause: None,
        }))
    }

    /// The error of the op with this name, ENOMEM, where this process has no memory for the op's bytes.
    pub fn out_of_memory(op: &'static str) -> Self {
        Error::new(libc::ENOMEM, op).lacking_memory(true)
    }

    pub(crate) fn lacking_memory(mut self, lacks_memory: bool) -> Self {
        self.0.lacks_memory = lacks_memory;
        self
    }

    /// Whether this process had no memory for the op's bytes. An ENOMEM of the kernel is something else.
    pub fn is_out_of_memory(&self) -> bool {
        self.0.lacks_memory
    }

    pub(crate) fn with_path(mut self, path: Option<CString>) -> Self {
        self.0.path = path;
        self
    }

    pub(crate) fn with_cause(mut self, cause: Option<Cause>) -> Self {
        self.0.cause = cause.map(Arc::new);
        self
    }

    /// With what has come of it as its source.
    pub(crate) fn caused_by(self, error: io::Error) -> Self {
        self.with_cause(Some(Cause::Error(error)))
    }

    /// What sort of error it is: that of its source, if it has one, or of its number.
    pub fn kind(&self) -> io::ErrorKind {
        match self.0.cause.as_deref() {
            Some(Cause::Error(error)) => error.kind(),
            _ => io::Error::from_raw_os_error(self.errno()).kind(),
        }
    }

    /// The message of the panic in the function of a [`Blocking`](crate::op::Blocking), if that is why the op failed.
    /// [`Blocking::take_panic`](crate::op::Blocking::take_panic) gives the payload.
    pub fn panic_message(&self) -> Option<&str> {
        match self.0.cause.as_deref() {
            Some(Cause::Panic(message)) => Some(message),
            _ => None,
        }
    }

    /// The same error, with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: &'static str) -> Self {
        self.0.hint = Some(hint);
        self
    }

    /// The error number, as in `errno(3)`.
    pub fn errno(&self) -> i32 {
        self.0.errno
    }

    /// The name of the op that failed, such as `"read"`.
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The path that the op named, if it named one.
    pub fn path(&self) -> Option<&CString> {
        self.0.path.as_ref()
    }

    /// What to do about it, where the engine knows.
    pub fn hint(&self) -> Option<&'static str> {
        self.0.hint
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Error").field(&self.0).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op())?;
        if let Some(path) = self.path() {
            write!(f, " {:?}", path.to_string_lossy())?;
        }
        match self.0.cause.as_deref() {
            Some(Cause::Error(error)) => write!(f, ": {error}")?,
            Some(Cause::Panic(message)) => write!(f, ": the function panicked: {message}")?,
            None => write!(f, ": {}", io::Error::from_raw_os_error(self.errno()))?,
        }
        match self.hint() {
            Some(hint) => write!(f, ": {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.0.cause.as_deref() {
            Some(Cause::Error(error)) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}

/// Why a driver would not take an op.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The queue and the backlog behind it hold as many ops as they may. Collect completions, then submit again.
    Full {
        /// `depth + backlog` of the driver's [`Config`](crate::Config).
        bound: usize,
    },
    /// The op can never succeed as it is.
    Invalid(Error),
    /// This process was forked after the driver was made. The rings and threads belong to the parent.
    Forked,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Full { bound } => write!(
                f,
                "the queue is full: {bound} ops are pending; collect completions before submitting more"
            ),
            Refusal::Invalid(error) => error.fmt(f),
            Refusal::Forked => {
                f.write_str("this driver belongs to the parent process: make a new one after fork()")
            }
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Refusal::Invalid(error) => std::error::Error::source(error),
            Refusal::Full { .. } | Refusal::Forked => None,
        }
    }
}

/// A refused op, handed back untouched.
#[derive(Debug)]
#[non_exhaustive]
pub struct SubmitError {
    /// The op, with its buffer.
    pub op: Box<Op>,
    /// Why it was refused.
    pub refusal: Refusal,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.op.name(), self.refusal)
    }
}

impl std::error::Error for SubmitError {}

impl From<SubmitError> for io::Error {
    fn from(error: SubmitError) -> Self {
        match error.refusal {
            Refusal::Full { .. } => io::Error::new(io::ErrorKind::WouldBlock, error.to_string()),
            Refusal::Invalid(inner) => inner.into(),
            Refusal::Forked => io::Error::other(error.to_string()),
        }
    }
}
