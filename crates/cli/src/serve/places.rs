//! Addresses to listen on, and the check that there are enough descriptors.

use super::flags::Serve;
use super::Misuse;
use proactor_net::Address;
use rustix::process::{setrlimit, Resource, Rlimit};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;

/// Descriptors of the process itself, and of each worker beside its listeners.
const PROCESS_FILES: u64 = 16;
const WORKER_FILES: u64 = 4;
/// Upper bound on the path of a Unix socket (unix(7)), its end included.
const MAX_UNIX_PATH: usize = 108;

/// Returns the requested addresses.
pub(super) fn addresses(args: &Serve) -> Result<Vec<Address>, Misuse> {
    if let Some(path) = &args.unix {
        let bytes = path.as_os_str().as_bytes();
        return match bytes {
            [] | [b'@'] => Err(Misuse::new(
                "--unix: write a path, or @NAME for a socket without a file",
            )),
            _ if bytes.len() >= MAX_UNIX_PATH => Err(Misuse::new(format!(
                "--unix {}: a socket's path has at most {} bytes, choose a shorter one",
                path.display(),
                MAX_UNIX_PATH - 1
            ))),
            [b'@', name @ ..] => Ok(vec![Address::Abstract(name.to_vec())]),
            _ => Ok(vec![Address::Unix(path.clone())]),
        };
    }
    let port = args.port.unwrap_or(0);
    let host = args.host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![Address::Inet((ip, port).into())]);
    }
    let found = (host, port).to_socket_addrs().map_err(|e| {
        let why = e.to_string();
        let why = why.trim_start_matches("failed to lookup address information: ");
        Misuse::new(format!(
            "--host {host}: this name has no address ({why}), write an address or a name that resolves"
        ))
    })?;
    // A resolver may give an address once for each kind of socket.
    let mut addresses = Vec::new();
    for address in found.map(Address::Inet) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// Checks that enough descriptors can be open, and raises the soft limit to the hard one.
pub(super) fn check_files(args: &Serve, addresses: usize) -> Result<(), Misuse> {
    let workers = args.workers as u64;
    let own = PROCESS_FILES + workers * (WORKER_FILES + addresses as u64);
    // A server without a bound has room for one connection for each worker at least.
    let connections = args.max_connections.map_or(workers, |count| count as u64);
    let needed = own.saturating_add(connections);
    let limit = proactor_engine::Resource::Descriptors.limit();
    if limit.hard.is_some_and(|hard| hard < needed) {
        let lower = match args.max_connections {
            Some(_) => "--max-connections",
            None => "--workers",
        };
        return Err(Misuse::new(format!(
            "{needed} descriptors are needed and RLIMIT_NOFILE allows {}: raise it (`ulimit -n {needed}`) or lower {lower}",
            limit.hard.unwrap_or(u64::MAX)
        )));
    }
    if limit.soft != limit.hard {
        let raised = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.hard,
                maximum: limit.hard,
            },
        );
        if raised.is_err() && limit.soft.is_some_and(|soft| soft < needed) {
            return Err(Misuse::new(format!(
                "{needed} descriptors are needed and RLIMIT_NOFILE allows {}: raise it (`ulimit -n {needed}`)",
                limit.soft.unwrap_or(u64::MAX)
            )));
        }
    }
    Ok(())
}
