//! Which processor each user thread and each kernel worker gets: a kernel worker belongs beside its user thread, on the same core,
//! else on the same node, else anywhere.

use crate::topology::Topology;
use std::collections::BTreeMap;

/// What is to be placed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Kernel workers.
    pub kernel: usize,
    /// User threads; at least one.
    pub user: usize,
    /// The processors of kernel workers, in their order; without, they are chosen.
    pub kernel_cpus: Option<&'a [u32]>,
    /// The processors of user threads.
    pub user_cpus: Option<&'a [u32]>,
}

/// Where everything runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// The processor of each kernel worker.
    pub kernel: Vec<u32>,
    /// The processor of each user thread.
    pub user: Vec<u32>,
    /// Processors that have more than one of them.
    pub shared: Vec<u32>,
}

/// The user thread that a kernel worker works for. With more user threads than kernel workers it is the first of several.
pub fn user_of(kernel: usize, users: usize) -> usize {
    kernel % users
}

/// Places user threads and kernel workers.
///
/// # Errors
/// In words, for a processor that cannot be used, and for lists that are too short.
pub fn place(topology: &Topology, wanted: Wanted<'_>) -> Result<Placement, String> {
    let mut used = Used::new(topology);
    let user = match wanted.user_cpus {
        Some(cpus) => given(topology, "--user-cpus", cpus, wanted.user, "user workers")?,
        None => {
            // Those that were given to kernel workers are taken.
            wanted
                .kernel_cpus
                .unwrap_or_default()
                .iter()
                .for_each(|cpu| used.take(*cpu));
            let user = (0..wanted.user).map(|_| used.next_core()).collect();
            used = Used::new(topology);
            user
        }
    };
    user.iter().for_each(|cpu| used.take(*cpu));
    let kernel = match wanted.kernel_cpus {
        Some(cpus) => given(topology, "--kernel-cpus", cpus, wanted.kernel, "kernel workers")?,
        None => (0..wanted.kernel)
            .map(|at| {
                let cpu = used.nearest(user[user_of(at, wanted.user)]);
                used.take(cpu);
                cpu
            })
            .collect(),
    };
    let mut counts = BTreeMap::new();
    for cpu in user.iter().chain(&kernel) {
        *counts.entry(*cpu).or_insert(0) += 1;
    }
    let shared = counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(cpu, _)| cpu);
    Ok(Placement {
        shared: shared.collect(),
        kernel,
        user,
    })
}

fn given(
    topology: &Topology,
    option: &str,
    cpus: &[u32],
    count: usize,
    what: &str,
) -> Result<Vec<u32>, String> {
    for cpu in cpus {
        topology.check(*cpu).map_err(|why| format!("{option}: {why}"))?;
    }
    match cpus.get(..count) {
        Some(cpus) => Ok(cpus.to_vec()),
        None => Err(format!(
            "{option}: {count} {what} need {count} processors, write as many or lower their number"
        )),
    }
}

/// How many threads each processor has.
struct Used<'a> {
    topology: &'a Topology,
    counts: BTreeMap<u32, usize>,
}

impl<'a> Used<'a> {
    fn new(topology: &'a Topology) -> Self {
        let counts = topology.allowed().map(|(id, _)| (id, 0)).collect();
        Used { topology, counts }
    }

    fn take(&mut self, cpu: u32) {
        *self.counts.entry(cpu).or_insert(0) += 1;
    }

    fn on_core(&self, core: u32) -> usize {
        let of_core = self.topology.allowed().filter(|(_, cpu)| cpu.core == core);
        of_core.map(|(id, _)| self.counts[&id]).sum()
    }

    /// A processor on the core that has the least; taken.
    fn next_core(&mut self) -> u32 {
        let best = self
            .topology
            .allowed()
            .min_by_key(|(id, cpu)| (self.counts[id], self.on_core(cpu.core), cpu.node, *id));
        // A thread that runs may use one processor at least.
        let id = best.map_or(0, |(id, _)| id);
        self.take(id);
        id
    }

    /// A processor for the kernel worker of a user thread.
    fn nearest(&self, user: u32) -> u32 {
        let own = self.topology.cpu(user);
        let best = self.topology.allowed().min_by_key(|(id, cpu)| {
            let is_sibling = own.is_some_and(|own| own.core == cpu.core);
            let is_near = own.is_some_and(|own| own.node == cpu.node);
            // Beside others of its kind rather than on the processor of its own user thread, which it would hold up.
            (
                self.counts[id],
                *id == user,
                !is_sibling,
                !is_near,
                self.on_core(cpu.core),
                *id,
            )
        });
        best.map_or(user, |(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::machine;

    /// Two sockets, each a node with two cores of two threads.
    const NODES: &[&[&[u32]]] = &[&[&[0, 4], &[1, 5]], &[&[2, 6], &[3, 7]]];
    const ALL: &[u32] = &[0, 1, 2, 3, 4, 5, 6, 7];

    fn placed(topology: &Topology, kernel: usize, user: usize) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let wanted = Wanted {
            kernel,
            user,
            ..Wanted::default()
        };
        let Placement { kernel, user, shared } = place(topology, wanted).unwrap();
        (kernel, user, shared)
    }

    #[test]
    fn a_kernel_worker_is_its_user_threads_sibling() {
        let topology = machine(NODES, &[], ALL);
        assert_eq!(placed(&topology, 1, 1), (vec![4], vec![0], vec![]));
        assert_eq!(placed(&topology, 2, 2), (vec![4, 5], vec![0, 1], vec![]));
        assert_eq!(
            placed(&topology, 4, 4),
            (vec![4, 5, 6, 7], vec![0, 1, 2, 3], vec![])
        );
    }

    #[test]
    fn then_on_the_same_node_then_anywhere() {
        let topology = machine(NODES, &[], ALL);
        assert_eq!(placed(&topology, 5, 1).0, [4, 1, 5, 2, 3]);
        let offline = machine(NODES, &[4, 1, 5], ALL);
        assert_eq!(placed(&offline, 1, 1), (vec![2], vec![0], vec![]));
    }

    #[test]
    fn what_may_not_be_used_is_not() {
        let topology = machine(NODES, &[7], &[2, 3, 6, 7]);
        assert_eq!(placed(&topology, 1, 2), (vec![6], vec![2, 3], vec![]));
        assert_eq!(placed(&topology, 1, 3).1, [2, 3, 6]);
    }

    #[test]
    fn too_few_processors_are_shared_and_told() {
        let two = machine(&[&[&[0], &[1]]], &[], &[0, 1]);
        assert_eq!(placed(&two, 1, 1), (vec![1], vec![0], vec![]));
        assert_eq!(placed(&two, 2, 1), (vec![1, 1], vec![0], vec![1]));
        assert_eq!(placed(&two, 1, 2), (vec![1], vec![0, 1], vec![1]));
        let one = machine(&[&[&[0]]], &[], &[0]);
        assert_eq!(placed(&one, 1, 1), (vec![0], vec![0], vec![0]));
    }

    #[test]
    fn lists_are_obeyed_and_checked() {
        let topology = machine(NODES, &[7], &[0, 1, 2, 3, 4, 7]);
        let wanted = Wanted {
            kernel: 1,
            user: 2,
            kernel_cpus: Some(&[0, 4]),
            user_cpus: None,
        };
        let found = place(&topology, wanted).unwrap();
        assert_eq!(
            (found.kernel, found.user, found.shared),
            (vec![0], vec![1, 2], vec![])
        );
        for (cpus, why) in [
            (&[7][..], "offline"),
            (&[5], "cpuset"),
            (&[0], "2 user workers need 2 processors"),
        ] {
            let wanted = Wanted {
                user_cpus: Some(cpus),
                ..wanted
            };
            let error = place(&topology, wanted).unwrap_err();
            assert!(error.starts_with("--user-cpus") && error.contains(why), "{error}");
        }
    }
}
