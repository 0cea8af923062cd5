//! Kernel threads of a program's rings.

use crate::kernel_workers::KernelWorkers;
use proactor_engine::SqPoll;
use proactor_net::placement::{place, Wanted};
use proactor_net::topology::Topology;
use proactor_net::{Chosen, Config};

/// Checks that the processors can be used.
///
/// # Errors
/// A sentence that says what to change.
pub(super) fn check(args: &KernelWorkers) -> Result<(), String> {
    if args.kernel_cpus.is_none() && args.iowq_cpus.is_none() {
        return Ok(());
    }
    let topology = Topology::of_this_machine().map_err(|e| {
        format!("the processors cannot be read from /sys ({e}), leave out the options on them")
    })?;
    for cpu in args.iowq_cpus.iter().flat_map(|cpus| &cpus.0) {
        topology
            .check(*cpu)
            .map_err(|why| format!("--iowq-cpus: {why}"))?;
    }
    if let (Some(cpus), Some(count)) = (&args.kernel_cpus, args.kernel_workers) {
        place(
            &topology,
            Wanted {
                kernel: count,
                user: 0,
                kernel_cpus: Some(&cpus.0),
                user_cpus: None,
            },
        )?;
    }
    Ok(())
}

/// Returns why sockets cannot be on such a ring here.
pub(super) fn no_ring(args: &KernelWorkers) -> Option<String> {
    let mut config = Config::default();
    if args.kernel_workers.is_some() {
        config = config.kernel_worker(
            SqPoll::new(args.sqpoll_idle)
                .cpu(args.kernel_cpus.as_ref().and_then(|cpus| cpus.0.first().copied())),
        );
    }
    match config.build() {
        Ok(sockets) => match sockets.chosen() {
            Chosen::Uring => None,
            Chosen::Epoll(why) => Some(why.clone()),
        },
        Err(e) => Some(e.to_string()),
    }
}

/// Returns the options in the form that the library takes.
pub(super) fn options(args: &KernelWorkers) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(count) = args.kernel_workers {
        options.push(format!("kernel-workers={count}"));
        options.push(format!("sqpoll-idle-ms={}", args.sqpoll_idle.as_millis().max(1)));
        options.push(format!("user-spin-ns={}", args.user_spin.as_nanos()));
    }
    let lists = [("kernel-cpus", &args.kernel_cpus), ("iowq-cpus", &args.iowq_cpus)];
    for (name, cpus) in lists {
        if let Some(cpus) = cpus {
            // One by one, as the library reads no ranges.
            let numbers: Vec<String> = cpus.0.iter().map(u32::to_string).collect();
            options.push(format!("{name}={}", numbers.join(",")));
        }
    }
    options.extend(args.iowq.map(|count| format!("iowq={count}")));
    options
}
