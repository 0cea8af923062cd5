//! Limits of the process.

/// A limit of getrlimit(2), for the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// RLIMIT_NOFILE: descriptors.
    Descriptors,
    /// RLIMIT_MEMLOCK: bytes of locked memory.
    LockedMemory,
    /// RLIMIT_NPROC: processes and threads of the user.
    Processes,
}

/// The two values of a limit. `None`: there is no limit, or a seccomp filter refuses the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// What counts now.
    pub soft: Option<u64>,
    /// What a process without CAP_SYS_RESOURCE can raise it to.
    pub hard: Option<u64>,
}

impl Resource {
    /// Asks the kernel. Does not fail: hosts that deny `prlimit64` (systemd's `~@resources`) seem to have no limit.
    pub fn limit(self) -> Limit {
        let resource = match self {
            Resource::Descriptors => libc::RLIMIT_NOFILE,
            Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
            Resource::Processes => libc::RLIMIT_NPROC,
        };
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a live local.
        if unsafe { libc::getrlimit(resource, &raw mut limit) } != 0 {
            return Limit::default();
        }
        let finite = |value| (value != libc::RLIM_INFINITY).then_some(value);
        Limit {
            soft: finite(limit.rlim_cur),
            hard: finite(limit.rlim_max),
        }
    }
}
