//! Making a ring: ask for the best flags, take what this kernel gives, and find out which opcodes it knows.
//!
//! Nothing here looks at the kernel's version: distributions backport, containers forbid.

use super::files::FileTable;
use super::Ring;
use crate::config::Config;
use crate::sys;
use io_uring::{opcode, IoUring, Probe};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

/// Names for the report, and how to ask for them.
type Row = (&'static [&'static str], fn(&mut io_uring::Builder));

/// The flags to try, best first. A kernel that knows one of a row not at all refuses the row with EINVAL.
const FLAGS: &[Row] = &[
    // SUBMIT_ALL (Linux 5.18): an entry that fails at once does not keep those behind it in the queue.
    // Linux 6.1: completions are handled when this thread asks for them, and nobody else submits.
    (
        &["SUBMIT_ALL", "SINGLE_ISSUER", "DEFER_TASKRUN", "TASKRUN_FLAG"],
        |b| {
            b.setup_submit_all()
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag();
        },
    ),
    // Linux 5.19: no interrupts to run completions.
    (&["SUBMIT_ALL", "COOP_TASKRUN", "TASKRUN_FLAG"], |b| {
        b.setup_submit_all().setup_coop_taskrun().setup_taskrun_flag();
    }),
    (&[], |_| {}),
];

/// Makes a ring and finds out what it can do.
pub(super) fn ring(config: &Config) -> io::Result<Ring> {
    let (ring, mut features) = build(config).map_err(explain)?;
    let params = ring.params();
    // Data may be changed or freed once submitted (5.5), one mapping for both queues (5.4), offset -1 is the file's
    // position (5.6), completions are never dropped (5.5): Linux 5.10 has all of them.
    if !(params.is_feature_rw_cur_pos() && params.is_feature_nodrop() && params.is_feature_submit_stable()) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the kernel's io_uring is older than Linux 5.6's",
        ));
    }
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(explain)?;
    let mut opcodes = [false; 256];
    for code in 0..=255u8 {
        opcodes[code as usize] = probe.is_supported(code);
    }
    configure_workers(&ring, config)?;
    if let Some(busy_poll) = config.napi {
        sys::ring::register_napi(ring.as_raw_fd(), busy_poll)
            .map_err(|e| sys::explained(e, "the kernel has no NAPI busy polling for rings (Linux 6.9)"))?;
        features.push("NAPI");
    }
    if !config.start_disabled {
        try_enter(&ring)?;
    }
    let timed_wait = params.is_feature_ext_arg();
    if timed_wait {
        features.push("EXT_ARG");
    }
    let no_iowait = config.no_iowait && params.is_feature_no_iowait();
    if no_iowait {
        features.push("NO_IOWAIT");
    }
    let registered_index = (!config.start_disabled)
        .then(|| sys::ring::register_descriptor(ring.as_raw_fd()).ok())
        .flatten();
    if registered_index.is_some() {
        features.push("REGISTERED_RING");
    }
    Ok(Ring {
        ring: ManuallyDrop::new(ring),
        registered_index,
        transfers: !config.iopoll && TRANSFERS.iter().all(|code| opcodes[usize::from(*code)]),
        opcodes,
        iopoll: config.iopoll,
        sqpoll: config.sqpoll.is_some(),
        timed_wait,
        no_iowait,
        user_spin: config.user_spin,
        features,
        forked: false,
        lost: false,
        enters: 0,
        borrowed: 0,
        events: Vec::new(),
        files: FileTable::new(config.fixed_files),
        buffers: Vec::new(),
        waker: None,
        woken: false,
    })
}

/// What single reads and writes take, into registered buffers or others.
const TRANSFERS: [u8; 4] = [
    opcode::Read::CODE,
    opcode::Write::CODE,
    opcode::ReadFixed::CODE,
    opcode::WriteFixed::CODE,
];

/// A filter may let rings be made and not be used. Nothing is submitted and nothing waited for.
fn try_enter(ring: &IoUring) -> io::Result<()> {
    // SAFETY: no argument is passed.
    unsafe { ring.submitter().enter::<libc::sigset_t>(0, 0, 0, None) }.map_err(explain)?;
    Ok(())
}

impl Ring {
    /// Begins a ring that was made disabled, in the thread that is to use it.
    ///
    /// # Errors
    /// Why it cannot be used, in words.
    pub(crate) fn enable(&mut self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings().map_err(explain)?;
        try_enter(&self.ring)?;
        self.registered_index = sys::ring::register_descriptor(self.ring.as_raw_fd()).ok();
        if self.registered_index.is_some() {
            self.features.push("REGISTERED_RING");
        }
        Ok(())
    }
}

/// A mistake of the caller's: without an errno, so that no other backend is taken in its place.
fn no_such_cpu(cpu: u32) -> io::Error {
    let why =
        format!("SQPOLL cannot be bound to CPU {cpu}: it is not online, or not in this process's cpuset");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn build(config: &Config) -> io::Result<(IoUring, Vec<&'static str>)> {
    // Room for a cancellation and a watch beside the ops.
    let entries = (config.depth + 2).next_power_of_two().clamp(8, 32_768);
    let attach_to = config.attach_to.as_ref().map(|fd| fd.as_raw_fd());
    let mut last = None;
    let hidden = usize::from(config.hide_defer_taskrun);
    for (names, flags) in &FLAGS[hidden..] {
        let mut builder = IoUring::builder();
        // A child must not see the parent's queues.
        builder.dontfork().setup_clamp();
        // allocates: a handful of flags
        let mut names = names.to_vec();
        if let Some(sqpoll) = config.sqpoll {
            builder.setup_sqpoll(u32::try_from(sqpoll.idle.as_millis()).unwrap_or(u32::MAX).max(1));
            if let Some(cpu) = sqpoll.cpu {
                builder.setup_sqpoll_cpu(cpu);
            }
            // The kernel's thread does the work that the other flags are about.
            names = vec!["SQPOLL"];
        } else {
            flags(&mut builder);
        }
        if config.start_disabled {
            builder.setup_r_disabled();
        }
        if config.iopoll {
            builder.setup_iopoll();
            names.push("IOPOLL");
        }
        if let Some(fd) = attach_to {
            builder.setup_attach_wq(fd);
            names.push("ATTACH_WQ");
        }
        if let Some(cq_entries) = config.cq_entries {
            builder.setup_cqsize(cq_entries.max(entries));
        }
        match builder.build(entries) {
            Ok(ring) => return Ok((ring, names)),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && config.sqpoll.is_none() => last = Some(e),
            Err(e) => {
                return Err(match config.sqpoll.and_then(|sqpoll| sqpoll.cpu) {
                    Some(cpu) if e.raw_os_error() == Some(libc::EINVAL) => no_such_cpu(cpu),
                    _ => e,
                })
            }
        }
    }
    Err(last.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)))
}

fn configure_workers(ring: &IoUring, config: &Config) -> io::Result<()> {
    if let Some(mut max) = config.io_workers {
        ring.submitter().register_iowq_max_workers(&mut max)?;
    }
    if let Some(cpus) = &config.io_worker_cpus {
        // SAFETY: zero is a valid empty set, and CPU_SET is told only numbers that fit.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            for &cpu in cpus {
                if cpu >= libc::CPU_SETSIZE as usize {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                libc::CPU_SET(cpu, &mut set);
            }
            set
        };
        ring.submitter().register_iowq_aff(&set)?;
    }
    Ok(())
}

/// Why there is no ring, in words.
fn explain(e: io::Error) -> io::Error {
    if e.raw_os_error().is_none() {
        return e; // it is in words already
    }
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let why = match (e.raw_os_error(), disabled.trim()) {
        (Some(libc::ENOSYS), _) => "this kernel has no io_uring, or a seccomp filter hides it",
        (Some(libc::EPERM), "2") => "kernel.io_uring_disabled is 2: nobody may make a ring",
        (Some(libc::EPERM), "1") => {
            "kernel.io_uring_disabled is 1 and this process is not in kernel.io_uring_group"
        }
        (Some(libc::EPERM | libc::EACCES), _) => "a seccomp filter or security module forbids io_uring",
        (Some(libc::ENOMEM), _) => "RLIMIT_MEMLOCK or memory is too small for the ring (try ulimit -l)",
        (Some(libc::EMFILE | libc::ENFILE), _) => return e, // said of every engine in one way
        (Some(libc::EOPNOTSUPP), _) => "a set-up flag is not supported here",
        _ => "io_uring_setup failed",
    };
    sys::explained(e, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_hidden_is_not_asked_for() {
        let Ok(plain) = ring(&Config::default()) else {
            return;
        };
        let hidden = ring(&Config::default().hide_defer_taskrun(true)).unwrap();
        assert!(!hidden.features.contains(&"DEFER_TASKRUN"));
        assert_eq!(
            hidden.features.contains(&"EXT_ARG"),
            plain.features.contains(&"EXT_ARG")
        );
    }

    #[test]
    fn busy_polling_is_had_or_refused_with_its_reason() {
        if ring(&Config::default()).is_err() {
            return;
        }
        match ring(&Config::default().napi(Duration::from_micros(50))) {
            Ok(ring) => assert!(ring.features.contains(&"NAPI")),
            Err(e) => assert!(e.to_string().contains("Linux 6.9"), "{e}"),
        }
    }
}
