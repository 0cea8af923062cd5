//! Datagrams on each backend, UDP and Unix: the same tests.

#[allow(dead_code)]
mod common;

use common::kinds;
use proactor_net::{Address, Chosen, Context, Handler, Limits, SocketId, Sockets};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// The longest datagram of UDP over IPv4.
const LONGEST: usize = 65_507;

/// Keeps what has come and what has failed, and answers if it is a server.
#[derive(Default)]
struct Node {
    answers: bool,
    got: Vec<(Option<Address>, Vec<u8>)>,
    failed: Vec<(Option<Address>, Option<i32>)>,
    writable: usize,
    closed: usize,
}

impl Handler for Node {
    fn received(&mut self, _: &mut Context<'_>, _: SocketId, _: &[u8]) {
        unreachable!("there are no streams")
    }

    fn datagram(&mut self, cx: &mut Context<'_>, id: SocketId, from: Option<&Address>, bytes: &[u8]) {
        self.got.push((from.cloned(), bytes.to_vec()));
        if self.answers {
            assert!(cx.send_to(id, from, bytes));
        }
    }

    fn datagram_failed(
        &mut self,
        _: &mut Context<'_>,
        _: SocketId,
        to: Option<&Address>,
        error: &std::io::Error,
    ) {
        self.failed.push((to.cloned(), error.raw_os_error()));
    }

    fn writable(&mut self, _: &mut Context<'_>, _: SocketId) {
        self.writable += 1;
    }

    fn closed(&mut self, _: &mut Context<'_>, _: SocketId, error: Option<&std::io::Error>) {
        assert!(error.is_none(), "{error:?}");
        self.closed += 1;
    }
}

/// Makes turns until something is so.
fn until(sockets: &mut Sockets, node: &mut Node, what: impl Fn(&Node) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !what(node) {
        assert!(Instant::now() < deadline);
        sockets.turn(node, Some(Duration::from_millis(50))).unwrap();
    }
}

fn udp(sockets: &mut Sockets, local: &str) -> (SocketId, std::net::SocketAddr) {
    let id = sockets.open_datagram(&local.parse().unwrap(), None).unwrap();
    let Some(Address::Inet(address)) = sockets.with(|cx| cx.local(id)) else {
        panic!("no internet address")
    };
    (id, address)
}

fn client(to: std::net::SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

fn message(client: usize, number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 31 + client * 97 + number) as u8)
        .collect()
}

#[test]
fn each_datagram_comes_back_to_its_sender_whole() {
    for kind in kinds() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let mut sockets = kind.config().build().unwrap();
            let (_, address) = udp(&mut sockets, local);
            let mut node = Node {
                answers: true,
                ..Node::default()
            };
            let clients: Vec<UdpSocket> = (0..5).map(|_| client(address)).collect();
            for (number, len) in [0, 1, 512, 16 << 10, LONGEST].into_iter().enumerate() {
                for (at, client) in clients.iter().enumerate() {
                    client.send(&message(at, number, len)).unwrap();
                    // The kernel keeps a few long ones, and drops what comes beyond.
                    if len == LONGEST {
                        let all = number * clients.len() + at + 1;
                        until(&mut sockets, &mut node, |node| node.got.len() == all);
                    }
                }
                let all = (number + 1) * clients.len();
                until(&mut sockets, &mut node, |node| node.got.len() == all);
                for (at, client) in clients.iter().enumerate() {
                    let mut back = vec![0; LONGEST + 1];
                    let count = client.recv(&mut back).unwrap();
                    assert!(back[..count] == message(at, number, len), "{kind:?} {len}");
                }
            }
            let senders: HashMap<_, usize> =
                node.got.iter().fold(HashMap::new(), |mut senders, (from, _)| {
                    *senders.entry(from.clone().unwrap()).or_default() += 1;
                    senders
                });
            for client in &clients {
                assert_eq!(senders[&Address::Inet(client.local_addr().unwrap())], 5);
            }
            assert!(node.failed.is_empty(), "{kind:?}: {:?}", node.failed);
        }
    }
}

#[test]
fn a_burst_beyond_the_pool_arrives_as_far_as_the_kernel_keeps_it() {
    for kind in kinds() {
        let mut sockets = kind.config().build().unwrap();
        let (_, address) = udp(&mut sockets, "127.0.0.1:0");
        let mut node = Node::default();
        // The receive is in place, and then more come than there are buffers.
        sockets.turn(&mut node, Some(Duration::ZERO)).unwrap();
        let client = client(address);
        (0..100).for_each(|number| assert_eq!(client.send(&message(0, number, 100)).unwrap(), 100));
        until(&mut sockets, &mut node, |node| node.got.len() == 100);
        // On a ring the receive has ended for want of buffers, and was made again.
        let on_ring = *sockets.chosen() == Chosen::Uring;
        assert_eq!(sockets.stats().starved > 0, on_ring, "{kind:?}");
        for (number, (_, bytes)) in node.got.iter().enumerate() {
            assert!(*bytes == message(0, number, 100), "{kind:?}: {number}");
        }
    }
}

#[test]
fn unix_datagrams_are_whole_however_long() {
    for kind in kinds() {
        let directory = tempfile::tempdir().unwrap();
        let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
        let mut sockets = kind.config().build().unwrap();
        sockets.open_datagram(&Address::Unix(ours.clone()), None).unwrap();
        let mut node = Node {
            answers: true,
            ..Node::default()
        };
        let client = UnixDatagram::bind(&theirs).unwrap();
        client.connect(&ours).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        for (number, len) in [1, 70_000, 150_000].into_iter().enumerate() {
            client.send(&message(0, number, len)).unwrap();
            until(&mut sockets, &mut node, |node| node.got.len() == number + 1);
            let mut back = vec![0; len + 1];
            let count = client.recv(&mut back).unwrap();
            assert!(back[..count] == message(0, number, len), "{kind:?} {len}");
        }
        assert_eq!(node.got[0].0, Some(Address::Unix(theirs)));
        // One without a name cannot be answered.
        node.answers = false;
        UnixDatagram::unbound().unwrap().send_to(b"who", &ours).unwrap();
        until(&mut sockets, &mut node, |node| node.got.len() == 4);
        assert_eq!(node.got[3], (None, b"who".to_vec()));
    }
}

#[test]
fn what_cannot_be_sent_is_told_and_the_others_go() {
    for kind in kinds() {
        let mut sockets = kind.config().build().unwrap();
        let (id, _) = udp(&mut sockets, "127.0.0.1:0");
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let to = Address::Inet(peer.local_addr().unwrap());
        sockets.with(|cx| {
            assert!(cx.send_to(id, Some(&to), b"first"));
            assert!(cx.send_to(id, Some(&to), &vec![0; LONGEST + 1]));
            assert!(cx.send_to(id, Some(&to), b"last"));
            assert_eq!(cx.unsent(id), LONGEST + 10);
        });
        let mut node = Node::default();
        until(&mut sockets, &mut node, |node| node.failed.len() == 1);
        assert_eq!(node.failed, [(Some(to), Some(libc::EMSGSIZE))], "{kind:?}");
        for expected in [&b"first"[..], b"last"] {
            let mut back = [0; 10];
            let count = peer.recv(&mut back).unwrap();
            assert_eq!(&back[..count], expected);
        }
        assert_eq!(sockets.with(|cx| cx.unsent(id)), 0);
    }
}

#[test]
fn a_peer_that_does_not_listen_is_told_and_the_socket_goes_on() {
    for kind in kinds() {
        let mut sockets = kind.config().build().unwrap();
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let id = sockets.open_datagram(&local, Some(&Address::Inet(gone))).unwrap();
        sockets.with(|cx| assert!(cx.send_to(id, None, b"anyone?")));
        let mut node = Node::default();
        until(&mut sockets, &mut node, |node| !node.failed.is_empty());
        assert_eq!(node.failed, [(None, Some(libc::ECONNREFUSED))], "{kind:?}");
        let peer = UdpSocket::bind(gone).unwrap();
        let Some(Address::Inet(ours)) = sockets.with(|cx| cx.local(id)) else {
            panic!("no internet address")
        };
        peer.send_to(b"now", ours).unwrap();
        until(&mut sockets, &mut node, |node| node.got.len() == 1);
    }
}

#[test]
fn a_receiver_that_does_not_read_is_told_or_waited_for() {
    for kind in kinds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("slow");
        let slow = UnixDatagram::bind(&path).unwrap();
        let to = Address::Unix(path);
        let local = |name: &str| Address::Unix(directory.path().join(name));
        let mut sockets = kind.config().build().unwrap();
        let free = sockets.open_datagram(&local("free"), None).unwrap();
        let mut node = Node::default();
        const COUNT: usize = 2000;
        sockets.with(|cx| (0..COUNT).for_each(|_| assert!(cx.send_to(free, Some(&to), b"x"))));
        until(&mut sockets, &mut node, |node| !node.failed.is_empty());
        let refused = node.failed.len();
        assert!(refused < COUNT, "{kind:?}");
        assert_eq!(node.failed[0], (Some(to.clone()), Some(libc::EAGAIN)), "{kind:?}");
        let mut byte = [0];
        (0..COUNT - refused).for_each(|_| assert_eq!(slow.recv(&mut byte).unwrap(), 1));
        // Connected, it waits for the receiver instead, and uses no processor meanwhile.
        let bound = sockets.open_datagram(&local("bound"), Some(&to)).unwrap();
        node.failed.clear();
        sockets.with(|cx| (0..COUNT).for_each(|_| assert!(cx.send_to(bound, None, b"x"))));
        sockets.turn(&mut node, Some(Duration::ZERO)).unwrap();
        let before = sockets.stats().turns;
        sockets.turn(&mut node, Some(Duration::from_millis(20))).unwrap();
        assert_eq!(sockets.stats().turns, before + 1);
        assert!(sockets.with(|cx| cx.unsent(bound)) > 0);
        let reader = std::thread::spawn(move || {
            let mut byte = [0];
            (0..COUNT).for_each(|_| assert_eq!(slow.recv(&mut byte).unwrap(), 1));
            slow
        });
        while sockets.with(|cx| cx.unsent(bound)) > 0 {
            sockets.turn(&mut node, Some(Duration::from_secs(20))).unwrap();
        }
        reader.join().unwrap();
        assert!(node.failed.is_empty(), "{kind:?}: {:?}", node.failed);
    }
}

#[test]
fn what_waits_is_bounded_and_sent_before_the_end() {
    for kind in kinds() {
        let limits = Limits {
            socket_bytes: 1000,
            ..Limits::default()
        };
        let mut sockets = kind.config().limits(limits).build().unwrap();
        let (id, _) = udp(&mut sockets, "127.0.0.1:0");
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let to = Address::Inet(peer.local_addr().unwrap());
        sockets.with(|cx| {
            (0..10).for_each(|_| assert!(cx.send_to(id, Some(&to), &[7; 100])));
            assert!(!cx.send_to(id, Some(&to), &[7; 100]), "beyond the bound");
        });
        let mut node = Node::default();
        until(&mut sockets, &mut node, |node| node.writable == 1);
        sockets.with(|cx| {
            assert!(cx.send_to(id, Some(&to), b"end"));
            cx.close(id);
            assert!(!cx.send_to(id, Some(&to), b"too late"));
        });
        until(&mut sockets, &mut node, |node| node.closed == 1);
        let mut back = [0; 200];
        (0..10).for_each(|_| assert_eq!(peer.recv(&mut back).unwrap(), 100));
        assert_eq!(peer.recv(&mut back).unwrap(), 3);
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.recv(&mut back).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn paused_sockets_receive_later() {
    for kind in kinds() {
        let mut sockets = kind.config().build().unwrap();
        let (id, address) = udp(&mut sockets, "127.0.0.1:0");
        let mut node = Node::default();
        sockets.turn(&mut node, Some(Duration::ZERO)).unwrap();
        sockets.with(|cx| cx.pause(id));
        (0..3).for_each(|_| sockets.turn(&mut node, Some(Duration::from_millis(1))).unwrap());
        client(address).send(b"later").unwrap();
        (0..3).for_each(|_| sockets.turn(&mut node, Some(Duration::from_millis(5))).unwrap());
        assert!(node.got.is_empty(), "{kind:?}");
        sockets.with(|cx| cx.resume(id));
        until(&mut sockets, &mut node, |node| node.got.len() == 1);
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    for kind in kinds() {
        let mut sockets = kind.config().build().unwrap();
        let (_, address) = udp(&mut sockets, "127.0.0.1:0");
        let error = sockets.open_datagram(&Address::Inet(address), None).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EADDRINUSE));
        assert!(error.to_string().contains("choose another one"), "{error}");
    }
}

/// More address space than there is for a copy. Nothing is written there.
struct TooLong(*mut libc::c_void);

impl TooLong {
    /// Of the 128 TiB that a process has without asking for more.
    const LEN: usize = 80 << 40;

    /// None where so much may not even be reserved (vm.overcommit_memory = 2).
    fn new() -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), Self::LEN, libc::PROT_READ, flags, -1, 0) };
        (start != libc::MAP_FAILED).then_some(TooLong(start))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long, readable, and lives as long as this value.
        unsafe { std::slice::from_raw_parts(self.0.cast(), Self::LEN) }
    }
}

impl Drop for TooLong {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone.
        unsafe { libc::munmap(self.0, Self::LEN) };
    }
}

#[test]
fn a_datagram_without_memory_is_told_and_the_next_one_goes() {
    let Some(long) = TooLong::new() else { return };
    for kind in kinds() {
        let mut sockets = kind.config().build().unwrap();
        let (id, _) = udp(&mut sockets, "127.0.0.1:0");
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let to = Address::Inet(peer.local_addr().unwrap());
        sockets.with(|cx| {
            assert!(cx.send_to(id, Some(&to), long.bytes()));
            assert!(cx.send_to(id, Some(&to), b"short"));
        });
        let mut node = Node::default();
        until(&mut sockets, &mut node, |node| !node.failed.is_empty());
        assert_eq!(node.failed, [(Some(to), Some(libc::ENOMEM))]);
        let mut got = [0; 10];
        assert_eq!(peer.recv(&mut got).unwrap(), 5);
        assert_eq!(&got[..5], b"short");
    }
}
