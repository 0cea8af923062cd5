//! Checks for what cannot be measured here, before a byte is written.

use crate::engines;
use crate::environment::Environment;
use crate::job::{Base, Cell, EngineSpec};
use crate::units;

/// Upper bound on threads: more measure the scheduler, if they can be had at all.
const MAX_THREADS: u64 = 4096;
/// Upper bound on the depth, the limit of a ring and of `io_setup`.
const MAX_DEPTH: u32 = 32_768;
/// Upper bound on registered buffers (Linux, `IORING_MAX_REG_BUFFERS`).
const MAX_FIXED: u32 = 1 << 14;
/// Upper bound on one op: what the kernel moves in one call, rounded down to a power of two.
const MAX_BLOCK: u64 = 1 << 30;
/// Divisor of the memory that buffers may use.
const MEMORY_SHARE: u64 = 2;

/// Checks that this cell makes sense, and can be done on this machine.
///
/// # Errors
/// A sentence with the option's name.
pub fn cell(cell: &Cell, here: &Environment) -> Result<(), String> {
    options(cell)?;
    let buffers = u64::from(cell.iodepth) * u64::from(cell.numjobs) * cell.longest_op_bytes();
    if here
        .memory_bytes
        .is_some_and(|memory| buffers > memory / MEMORY_SHARE)
    {
        return Err(format!(
            "--iodepth {} times --numjobs {} times --bs {} is more than half of the memory",
            cell.iodepth,
            cell.numjobs,
            units::bytes(cell.longest_op_bytes())
        ));
    }
    if cell.engine.iopoll {
        if !cell.direct {
            return Err(format!(
                "{}: polls for direct transfers only: --direct 1",
                cell.engine
            ));
        }
        match &here.device {
            None => return Err(format!("{}: there is no block device to poll", cell.engine)),
            Some(device) if device.poll_queues == Some(false) => {
                return Err(format!(
                    "{}: {} has no poll queues (its queue/io_poll is 0)",
                    cell.engine, device.name
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn options(cell: &Cell) -> Result<(), String> {
    let sector = crate::data::SECTOR_BYTES as u64;
    let refuse = |wrong: bool, why: String| if wrong { Err(why) } else { Ok(()) };
    for (option, bytes) in [("--bs", cell.bs), ("--bs_of_writes", cell.write_bytes())] {
        let bs = units::bytes(bytes);
        refuse(
            bytes == 0 || !bytes.is_multiple_of(sector) || bytes > MAX_BLOCK,
            format!("{option} {bs}: a multiple of {sector}, up to 1g"),
        )?;
        refuse(
            cell.size < bytes,
            format!("--size {} is less than {option} {bs}", units::bytes(cell.size)),
        )?;
    }
    refuse(
        cell.iodepth == 0 || cell.iodepth > MAX_DEPTH,
        format!("--iodepth {}: from 1 to {MAX_DEPTH}", cell.iodepth),
    )?;
    refuse(
        cell.rwmixread > 100,
        format!("--rwmixread {}: a share in percent", cell.rwmixread),
    )?;
    let threads = u64::from(engines::threads_a_job(cell)) * u64::from(cell.numjobs);
    refuse(
        cell.numjobs == 0 || threads > MAX_THREADS,
        format!(
            "--numjobs {}: from 1, and {MAX_THREADS} threads at most (here {threads})",
            cell.numjobs
        ),
    )?;
    refuse(
        [cell.rate_iops, cell.rate_iops_of_writes].contains(&Some(0)),
        "--rate_iops: from 1".into(),
    )?;
    refuse(cell.ops_a_job() == 0, "--io_size: no bytes".into())?;
    refuse(cell.runtime_ms == Some(0), "--runtime 0 measures nothing".into())?;
    refuse(
        cell.time_based && cell.runtime_ms.is_none(),
        "--time_based needs --runtime".into(),
    )?;
    refuse(
        cell.ramp_ms > 0 && !cell.time_based,
        "--ramp_time needs --time_based".into(),
    )?;
    if cell.engine.fixed {
        let page = rustix::param::page_size() as u64;
        for bytes in [cell.bs, cell.write_bytes()] {
            let bs = units::bytes(bytes);
            refuse(
                !bytes.is_multiple_of(page),
                format!("{}: --bs {bs}: whole pages of {page}", cell.engine),
            )?;
        }
        refuse(
            !cell.engine.raw && cell.bs < cell.write_bytes(),
            format!(
                "{}: reads fill a registered buffer, so they are no shorter than writes: io_uring, or io_uring:fixed+raw",
                cell.engine
            ),
        )?;
        refuse(
            cell.iodepth > MAX_FIXED,
            format!("{}: at most {MAX_FIXED} registered buffers", cell.engine),
        )?;
    }
    Ok(())
}

/// Checks that this engine works here: a real op is done on it, or at least its driver is made.
///
/// # Errors
/// A sentence with the kernel's error.
pub fn engine(spec: EngineSpec) -> Result<(), String> {
    let engine = match spec.base {
        Base::Sync | Base::PsyncThreads => return Ok(()),
        Base::PosixAio => proactor_engine::Engine::PosixAio,
        Base::LinuxAio => proactor_engine::Engine::LinuxAio,
        Base::IoUring => proactor_engine::Engine::IoUring,
    };
    // The C library's threads live on for a second: they would do the first ops of a round and not be
    // counted, because only threads that start meanwhile are.
    if engine != proactor_engine::Engine::PosixAio {
        proactor_engine::probe::report(engine)
            .usable
            .map_err(|e| format!("{spec}: {e}"))?;
    }
    let cell = Cell {
        engine: spec,
        ..crate::job::Job::of(crate::job::Task::Latency).cells().remove(0)
    };
    engines::config(&cell)
        .build()
        .map(drop)
        .map_err(|e| format!("{spec}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, Task};
    use std::path::Path;

    fn refused(change: impl Fn(&mut Cell)) -> String {
        let here = Environment::look(Path::new("/proc"));
        let mut one = Job::of(Task::Iops).cells().pop().unwrap();
        assert_eq!(one.engine.base, Base::IoUring);
        assert_eq!(cell(&one, &here), Ok(()));
        change(&mut one);
        cell(&one, &here).unwrap_err()
    }

    #[test]
    fn with_the_name_of_the_option() {
        for (change, word) in [
            ((|c| c.bs = 0) as fn(&mut Cell), "--bs"),
            (|c| c.bs = 1000, "--bs"),
            (|c| c.size = 512, "--size"),
            (|c| c.iodepth = 0, "--iodepth"),
            (|c| c.numjobs = 0, "--numjobs"),
            (|c| c.rwmixread = 101, "--rwmixread"),
            (|c| c.runtime_ms = None, "--time_based"),
            (|c| c.runtime_ms = Some(0), "--runtime"),
            (|c| (c.time_based, c.ramp_ms) = (false, 1), "--ramp_time"),
            (
                |c| (c.bs, c.size, c.iodepth) = (1 << 30, 1 << 30, 1 << 15),
                "memory",
            ),
            (|c| (c.engine.fixed, c.bs) = (true, 512), "whole pages"),
            (|c| (c.engine.iopoll, c.direct) = (true, false), "--direct 1"),
            (|c| c.engine.iopoll = true, "no block device"),
            (|c| c.bs_of_writes = Some(1000), "--bs_of_writes"),
            (|c| c.bs_of_writes = Some(2 * c.size), "--bs_of_writes"),
            (|c| c.rate_iops_of_writes = Some(0), "--rate_iops"),
            (
                |c| (c.engine.fixed, c.bs_of_writes) = (true, Some(2 * c.bs)),
                "fixed+raw",
            ),
        ] {
            let why = refused(change);
            assert!(why.contains(word), "{word}: {why}");
        }
    }
}
