//! Making a ring: ask for the best flags, take what this kernel gives, and find out which opcodes it knows.
//!
//! Nothing here looks at the kernel's version: distributions backport, containers forbid.

use crate::config::Config;
use crate::op::{Op, OpKind, RwFlags, XattrTarget};
use crate::probe::Support;
use crate::sys::{self, perform::needs_plain_calls};
use io_uring::{opcode, IoUring, Probe};
use std::io;

/// What this ring does itself.
pub(super) struct Native {
    opcodes: [bool; 256],
    pub(super) iopoll: bool,
    pub(super) sqpoll: bool,
    /// io_uring_enter takes a timeout (Linux 5.11).
    pub(super) timed_wait: bool,
    pub(super) features: Vec<&'static str>,
}

const NO_OPCODE: Support = Support::Threads("this kernel's io_uring has no such opcode");
const NEVER: Support = Support::Threads("io_uring has no such opcode");
const BLOCKS: Support = Support::Threads("io_uring would hand it to a kernel worker call by call");
const COPIES: Support = Support::Threads("io_uring would copy cached pages in the thread that submits");
const IOPOLL: Support = Support::Threads("a polled ring takes O_DIRECT reads and writes only");

impl Native {
    pub(super) fn support(&self, kind: OpKind) -> Support {
        if self.iopoll
            && !matches!(
                kind,
                OpKind::Read | OpKind::Write | OpKind::ReadV | OpKind::WriteV
            )
        {
            return IOPOLL;
        }
        match opcode_of(kind) {
            None if kind == OpKind::WriteFile => BLOCKS,
            None if kind == OpKind::ReadCached => COPIES,
            Some(code) if self.opcodes[code as usize] => match kind {
                OpKind::GetXattr | OpKind::SetXattr => {
                    Support::Partly("of a link itself (lgetxattr, lsetxattr) by threads: no opcode")
                }
                _ => Support::Native,
            },
            Some(_) => NO_OPCODE,
            None => NEVER,
        }
    }

    /// Whether the kernel goes on after this op in a chain just when the driver would.
    pub(super) fn links(&self, op: &Op, last: bool) -> bool {
        match op {
            // Several entries, of which only the first is known now.
            Op::ReadFile(_) => false,
            // Its success is ETIME, which breaks the chain.
            Op::Timeout(_) => last,
            // Linux 5.19 and newer go on after a failure of these (seen on 6.18: no `req_set_fail` in io_uring/fs.c,
            // statx.c and xattr.c).
            Op::Statx(_)
            | Op::Rename(_)
            | Op::Unlink(_)
            | Op::Mkdir(_)
            | Op::Link(_)
            | Op::Symlink(_)
            | Op::GetXattr(_)
            | Op::SetXattr(_) => last,
            _ => true,
        }
    }

    pub(super) fn has(&self, op: &Op) -> bool {
        let for_ring = match op {
            _ if self.iopoll => direct_transfer(op),
            Op::GetXattr(o) => !matches!(o.target, XattrTarget::LinkPath(_)),
            Op::SetXattr(o) => !matches!(o.target, XattrTarget::LinkPath(_)),
            // A ring that does not poll refuses RWF_HIPRI, which preadv2 takes for a wish. And its EAGAIN for RWF_NOWAIT may
            // mean that the file cannot do that at all, which preadv2 calls EOPNOTSUPP, and does not wait either.
            _ => !rw_flags(op)
                .is_some_and(|flags| flags.contains(RwFlags::HIPRI) || flags.contains(RwFlags::NOWAIT)),
        };
        for_ring
            && opcode_of(op.kind()).is_some_and(|code| self.opcodes[code as usize])
            && !needs_plain_calls(op)
    }
}

fn rw_flags(op: &Op) -> Option<RwFlags> {
    match op {
        Op::Read(o) => Some(o.flags),
        Op::Write(o) => Some(o.flags),
        Op::ReadV(o) => Some(o.flags),
        Op::WriteV(o) => Some(o.flags),
        _ => None,
    }
}

fn direct_transfer(op: &Op) -> bool {
    crate::sys::perform::transfer_file(op).is_some_and(|file| file.facts().is_ok_and(|facts| facts.direct))
}

fn opcode_of(kind: OpKind) -> Option<u8> {
    Some(match kind {
        OpKind::Read => opcode::Read::CODE,
        OpKind::Write => opcode::Write::CODE,
        OpKind::ReadV => opcode::Readv::CODE,
        OpKind::WriteV => opcode::Writev::CODE,
        OpKind::Fsync => opcode::Fsync::CODE,
        OpKind::SyncRange => opcode::SyncFileRange::CODE,
        OpKind::Allocate => opcode::Fallocate::CODE,
        OpKind::Advise => opcode::Fadvise::CODE,
        OpKind::Truncate => opcode::Ftruncate::CODE,
        OpKind::Open | OpKind::ReadFile => opcode::OpenAt2::CODE,
        OpKind::Close => opcode::Close::CODE,
        OpKind::Statx => opcode::Statx::CODE,
        OpKind::Rename => opcode::RenameAt::CODE,
        OpKind::Unlink => opcode::UnlinkAt::CODE,
        OpKind::Mkdir => opcode::MkDirAt::CODE,
        OpKind::Link => opcode::LinkAt::CODE,
        OpKind::Symlink => opcode::SymlinkAt::CODE,
        OpKind::GetXattr => opcode::GetXattr::CODE,
        OpKind::SetXattr => opcode::SetXattr::CODE,
        OpKind::Splice => opcode::Splice::CODE,
        OpKind::Poll => opcode::PollAdd::CODE,
        OpKind::Timeout => opcode::Timeout::CODE,
        OpKind::Nop => opcode::Nop::CODE,
        OpKind::ListXattr
        | OpKind::RemoveXattr
        | OpKind::WriteFile
        | OpKind::ReadCached
        | OpKind::Blocking => return None,
    })
}

/// Names for the report, and how to ask for them.
type Row = (&'static [&'static str], fn(&mut io_uring::Builder));

/// The flags to try, best first. A kernel that knows one of a row not at all refuses the row with EINVAL.
const FLAGS: &[Row] = &[
    // Linux 6.1: completions are handled when this thread asks for them, and nobody else submits.
    (&["SINGLE_ISSUER", "DEFER_TASKRUN", "TASKRUN_FLAG"], |b| {
        b.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    }),
    // Linux 5.19: no interrupts to run completions.
    (&["COOP_TASKRUN", "TASKRUN_FLAG"], |b| {
        b.setup_coop_taskrun().setup_taskrun_flag();
    }),
    (&[], |_| {}),
];

pub(super) fn ring(config: &Config) -> io::Result<(IoUring, Native)> {
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
    // A filter may let rings be made and not be used. Nothing is submitted and nothing waited for.
    // SAFETY: no argument is passed.
    unsafe { ring.submitter().enter::<libc::sigset_t>(0, 0, 0, None) }.map_err(explain)?;
    if params.is_feature_ext_arg() {
        features.push("EXT_ARG");
    }
    let native = Native {
        opcodes,
        iopoll: config.iopoll,
        sqpoll: config.sqpoll.is_some(),
        timed_wait: params.is_feature_ext_arg(),
        features,
    };
    Ok((ring, native))
}

fn build(config: &Config) -> io::Result<(IoUring, Vec<&'static str>)> {
    // Room for a cancellation and a watch beside the ops.
    let entries = (config.depth + 2).next_power_of_two().clamp(8, 32_768);
    let mut last = None;
    for (names, flags) in FLAGS {
        let mut builder = IoUring::builder();
        // A child must not see the parent's queues.
        builder.dontfork().setup_clamp();
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
        if config.iopoll {
            builder.setup_iopoll();
            names.push("IOPOLL");
        }
        match builder.build(entries) {
            Ok(ring) => return Ok((ring, names)),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && config.sqpoll.is_none() => last = Some(e),
            Err(e) => return Err(e),
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
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let why = match (e.raw_os_error(), disabled.trim()) {
        (Some(libc::ENOSYS), _) => "this kernel has no io_uring, or a seccomp filter hides it",
        (Some(libc::EPERM), "2") => "kernel.io_uring_disabled is 2: nobody may make a ring",
        (Some(libc::EPERM), "1") => {
            "kernel.io_uring_disabled is 1 and this process is not in kernel.io_uring_group"
        }
        (Some(libc::EPERM | libc::EACCES), _) => "a seccomp filter or security module forbids io_uring",
        (Some(libc::ENOMEM), _) => "RLIMIT_MEMLOCK or memory is too small for the ring (try ulimit -l)",
        (Some(libc::EMFILE | libc::ENFILE), _) => "too many open files",
        (Some(libc::EOPNOTSUPP), _) => "a set-up flag is not supported here",
        _ => "io_uring_setup failed",
    };
    sys::explained(e, why)
}
