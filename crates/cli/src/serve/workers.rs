//! Threads and rings of a server, and their processors.

use super::flags::{EngineChoice, Serve};
use super::{say, Misuse};
use proactor_engine::SqPoll;
use proactor_net::placement::{place, user_of, Placement, Wanted};
use proactor_net::topology::{show_list, Topology};
use proactor_net::{Config, WorkerPlan};

/// Returns the requested workers; `config` makes the sockets of the ring with this number.
pub(super) fn plan(args: &Serve, config: impl Fn(usize, usize) -> Config) -> Result<Vec<WorkerPlan>, Misuse> {
    let kernel = args.kernel.kernel_workers.unwrap_or(0);
    if kernel > 0 && args.engine == EngineChoice::Epoll {
        return Err(Misuse::new(
            "--kernel-workers: they are a part of io_uring, leave out --engine epoll",
        ));
    }
    let placement = match kernel > 0 || args.user_cpus.is_some() || args.kernel.iowq_cpus.is_some() {
        true => Some(placed(args, kernel)?),
        false => None,
    };
    let rings = rings(args.workers, kernel);
    let all = rings.iter().map(Vec::len).sum();
    let mut number = 0;
    let workers = rings.into_iter().enumerate().map(|(at, kernels)| WorkerPlan {
        rings: kernels
            .into_iter()
            .map(|kernel| {
                number += 1;
                let config = config(number - 1, all);
                match (kernel, &placement) {
                    (Some(kernel), Some(placement)) => config
                        .kernel_worker(
                            SqPoll::new(args.kernel.sqpoll_idle).cpu(Some(placement.kernel[kernel])),
                        )
                        .user_spin(args.kernel.user_spin),
                    _ => config,
                }
            })
            .collect(),
        cpu: placement
            .as_ref()
            .map(|placement| placement.user[at])
            .filter(|_| binds(args)),
        shares_with: (kernel > 0 && at >= kernel).then(|| at % kernel),
    });
    Ok(workers.collect())
}

/// Returns true if user threads are bound to processors.
fn binds(args: &Serve) -> bool {
    args.kernel.kernel_workers.is_some() || args.user_cpus.is_some()
}

/// Returns for each user thread its rings, and for each ring its kernel worker. A user thread drives several
/// rings if there are more kernel workers, and shares one if there are fewer.
fn rings(users: usize, kernel: usize) -> Vec<Vec<Option<usize>>> {
    let mut rings = vec![Vec::new(); users];
    for at in 0..kernel {
        rings[user_of(at, users)].push(Some(at));
    }
    for (at, own) in rings.iter_mut().enumerate().filter(|(_, own)| own.is_empty()) {
        own.push((kernel > 0).then(|| at % kernel));
    }
    rings
}

fn placed(args: &Serve, kernel: usize) -> Result<Placement, Misuse> {
    let topology = Topology::of_this_machine().map_err(|e| {
        Misuse::new(format!(
            "the processors cannot be read from /sys ({e}), leave out the options on them"
        ))
    })?;
    if let Some(cpus) = &args.kernel.iowq_cpus {
        let checked = cpus.0.iter().try_for_each(|cpu| topology.check(*cpu));
        checked.map_err(|why| Misuse::new(format!("--iowq-cpus: {why}")))?;
    }
    let wanted = Wanted {
        kernel,
        user: args.workers,
        kernel_cpus: args.kernel.kernel_cpus.as_ref().map(|cpus| &*cpus.0),
        user_cpus: args.user_cpus.as_ref().map(|cpus| &*cpus.0),
    };
    let placement = place(&topology, wanted).map_err(Misuse::new)?;
    if kernel > 0 && !placement.shared.is_empty() {
        say(&format!(
            "warning: processor {} has more than one worker, and those take each other's time; `proactor doctor --workers` says \
             how many make sense here",
            show_list(&placement.shared)
        ));
    }
    Ok(placement)
}

/// Returns `2 kernel workers on processors 1,3`, if there are any.
pub(super) fn describe(args: &Serve) -> Option<String> {
    let count = args.kernel.kernel_workers?;
    Some(match count {
        1 => "1 kernel worker".to_owned(),
        many => format!("{many} kernel workers"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_thread_has_a_ring_and_each_kernel_worker_too() {
        assert_eq!(rings(2, 0), [[None], [None]]);
        assert_eq!(rings(2, 2), [[Some(0)], [Some(1)]]);
        assert_eq!(
            rings(2, 5),
            [vec![Some(0), Some(2), Some(4)], vec![Some(1), Some(3)]]
        );
        assert_eq!(
            rings(5, 2),
            [[Some(0)], [Some(1)], [Some(0)], [Some(1)], [Some(0)]]
        );
    }
}
