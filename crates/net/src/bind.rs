//! Listeners of several rings on the same addresses, bound before anything is accepted.

use crate::address::Address;
use crate::error::Error;
use crate::listen::Bound;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a bind is tried again whose address is taken. The ring of a process that was killed holds its listeners for some
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(2);

/// How listeners are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) rings: usize,
    pub(crate) backlog: u32,
    pub(crate) no_delay: bool,
    /// All rings accept from one listener, and not each from its own (SO_REUSEPORT). With bounds: of the connections that the
    /// kernel gives to the listener of a ring that is full, none would be accepted, though others have room.
    pub(crate) one_listener: bool,
}

/// Listeners, and what has to be removed when they are closed.
#[derive(Default)]
pub(crate) struct Listeners {
    /// For each ring, one for each address.
    pub(crate) bound: Vec<Vec<Bound>>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) paths: Vec<SocketPath>,
}

/// Binds listeners for each ring to each address. Port 0 becomes the same port everywhere.
pub(crate) fn bind(addresses: &[Address], how: How) -> Result<Listeners, Error> {
    let deadline = Instant::now() + PATIENCE;
    let mut all = Listeners {
        bound: (0..how.rings).map(|_| Vec::new()).collect(),
        ..Listeners::default()
    };
    let mut chosen_port = None;
    for address in addresses {
        let mut address = address.clone();
        if let (Address::Inet(inet), Some(port)) = (&mut address, chosen_port) {
            if inet.port() == 0 {
                inet.set_port(port);
            }
        }
        let deadline = if is_another_file(&address) {
            Instant::now()
        } else {
            deadline
        };
        let first = retry(deadline, || first_of(&address, how))?;
        let address = first.address().clone();
        if let Address::Inet(inet) = &address {
            chosen_port = chosen_port.or(Some(inet.port()));
        }
        if let Address::Unix(path) = &address {
            all.paths.extend(SocketPath::new(path));
        }
        for ring in 1..how.rings {
            let next = match &address {
                Address::Inet(_) if !how.one_listener => {
                    Bound::new(&address, how.backlog, true, how.no_delay)
                }
                // Unix sockets cannot share an address, but rings can share a listener.
                _ => first.duplicate(),
            };
            all.bound[ring].push(next?);
        }
        all.addresses.push(address);
        all.bound[0].push(first);
    }
    Ok(all)
}

fn retry(deadline: Instant, mut bind: impl FnMut() -> Result<Bound, Error>) -> Result<Bound, Error> {
    loop {
        match bind() {
            Err(e) if e.errno() == Some(libc::EADDRINUSE) && Instant::now() < deadline => {
                std::thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}

/// Binds the first ring's listener, which nobody else's may share.
fn first_of(address: &Address, how: How) -> Result<Bound, Error> {
    if let Address::Unix(path) = address {
        remove_stale(path);
    }
    let alone = Bound::new(address, how.backlog, false, how.no_delay)?;
    match alone.address() {
        // A listener that shares its port would also share it with another program of the same user, without an error: that there
        // is none is seen without sharing first.
        Address::Inet(_) if how.rings > 1 && !how.one_listener => {
            let address = alone.address().clone();
            drop(alone);
            Bound::new(&address, how.backlog, true, how.no_delay)
        }
        _ => Ok(alone),
    }
}

/// Whether a file that is no socket is where one is to be.
fn is_another_file(address: &Address) -> bool {
    let Address::Unix(path) = address else {
        return false;
    };
    fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}

/// Removes a Unix socket on which nobody listens: a process that was killed leaves its own behind.
fn remove_stale(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        let refused = std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused);
        if refused {
            // What goes wrong shows when the address is bound.
            let _ = fs::remove_file(path);
        }
    }
}

/// The file of a Unix socket, which is removed with this.
#[derive(Debug)]
pub(crate) struct SocketPath {
    path: PathBuf,
    inode: (u64, u64),
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl SocketPath {
    fn new(path: &Path) -> Option<Self> {
        Some(SocketPath {
            path: path.to_owned(),
            inode: inode(path)?,
        })
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        // Somebody else may have put another one there.
        if inode(&self.path) == Some(self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    const HOW: How = How {
        rings: 3,
        backlog: 10,
        no_delay: true,
        one_listener: false,
    };

    fn inet(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn port_0_becomes_one_port_for_all() {
        let all = bind(&[inet("127.0.0.1:0"), inet("127.0.0.2:0")], HOW).unwrap();
        let ports: std::collections::BTreeSet<u16> = all
            .bound
            .iter()
            .flatten()
            .map(|bound| match bound.address() {
                Address::Inet(address) => address.port(),
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!((ports.len(), all.bound.len(), all.bound[0].len()), (1, 3, 2));
        assert!(!ports.contains(&0));
    }

    #[test]
    fn a_port_that_others_share_is_taken_all_the_same() {
        let other = Bound::new(&inet("127.0.0.1:0"), 10, true, false).unwrap();
        let begin = Instant::now();
        let error = bind(std::slice::from_ref(other.address()), HOW).err().unwrap();
        assert_eq!(error.errno(), Some(libc::EADDRINUSE));
        assert!(begin.elapsed() >= PATIENCE);
    }

    #[test]
    fn a_port_that_becomes_free_is_waited_for() {
        let other = Bound::new(&inet("127.0.0.1:0"), 10, false, false).unwrap();
        let address = other.address().clone();
        let freeing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(other);
        });
        bind(&[address], HOW).unwrap();
        freeing.join().unwrap();
    }

    #[test]
    fn a_socket_that_is_left_behind_is_replaced_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let all = bind(&[Address::Unix(path.clone())], HOW).unwrap();
        assert_eq!(all.bound.len(), 3);
        drop(all);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_socket_or_in_use_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "x").unwrap();
        assert!(bind(&[Address::Unix(path.clone())], HOW).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"x");
        let path = folder.path().join("socket");
        let _other = UnixListener::bind(&path).unwrap();
        assert!(bind(&[Address::Unix(path.clone())], HOW).is_err());
        assert!(path.exists());
    }
}
