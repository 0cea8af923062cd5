//! What the ring does itself on this kernel, op by op, and what goes to the helper, with the reason.

use crate::op::{Op, OpKind, RwFlags, XattrTarget};
use crate::probe::Support;
use crate::ring::Ring;
use crate::sys::perform::needs_plain_calls;
use io_uring::opcode;

const NO_OPCODE: Support = Support::Threads("this kernel's io_uring has no such opcode");
const NEVER: Support = Support::Threads("io_uring has no such opcode");
const BLOCKS: Support = Support::Threads("io_uring would hand it to a kernel worker call by call");
const COPIES: Support = Support::Threads("io_uring would copy cached pages in the thread that submits");
const IOPOLL: Support = Support::Threads("a polled ring takes O_DIRECT reads and writes only");

impl Ring {
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
