//! Random trees of everything, copied and compared.

mod support;

use proactor_copy::{Options, Target};
use proptest::prelude::*;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use support::{assert_same, copy_as, is_root, look, run, set_attribute};

#[derive(Clone, Debug)]
enum Node {
    File {
        pieces: Vec<Piece>,
        size: u64,
    },
    Directory(Vec<(Vec<u8>, Dressed)>),
    Symlink(Vec<u8>),
    /// Another name of a file made before; of which, by number.
    Link(usize),
    Fifo,
    Socket,
    Device(u8),
}

#[derive(Clone, Debug)]
struct Piece {
    offset: u64,
    byte: u8,
    length: u16,
}

#[derive(Clone, Debug)]
struct Dressed {
    node: Node,
    mode: u32,
    owner: (u32, u32),
    seconds: i64,
    nanoseconds: i64,
    attribute: Option<(String, Vec<u8>)>,
    capability: bool,
    list: bool,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => b'a'..=b'e', 1 => 1u8..=255].prop_filter("no slash", |&byte| byte != b'/');
    let any = prop_oneof![9 => 1..6usize, 1 => 255..=255usize]
        .prop_flat_map(move |length| prop::collection::vec(byte.clone(), length));
    any.prop_filter("no dots", |name| name != b"." && name != b"..")
}

fn leaf() -> impl Strategy<Value = Node> {
    let piece = (0..200_000u64, any::<u8>(), any::<u16>()).prop_map(|(offset, byte, length)| Piece {
        offset,
        byte,
        length,
    });
    prop_oneof![
        6 => (prop::collection::vec(piece, 0..3), 0..600_000u64)
            .prop_map(|(pieces, size)| Node::File { pieces, size }),
        2 => name().prop_map(Node::Symlink),
        2 => any::<usize>().prop_map(Node::Link),
        1 => Just(Node::Fifo),
        1 => Just(Node::Socket),
        1 => any::<u8>().prop_map(Node::Device),
    ]
}

fn dressed(node: impl Strategy<Value = Node>) -> impl Strategy<Value = Dressed> {
    let owner = prop_oneof![2 => Just((0, 0)), 1 => (0..3000u32, 0..3000u32)];
    let attribute = prop::option::weighted(0.2, ("[a-z]{1,9}", prop::collection::vec(any::<u8>(), 0..300)));
    let rare = || prop::bool::weighted(0.1);
    let fields = (
        node,
        0..0o10000u32,
        owner,
        -1000i64..2_000_000_000,
        0..1_000_000_000i64,
        attribute,
        rare(),
        rare(),
    );
    fields.prop_map(
        |(node, mode, owner, seconds, nanoseconds, attribute, capability, list)| Dressed {
            node,
            mode,
            owner,
            seconds,
            nanoseconds,
            attribute,
            capability,
            list,
        },
    )
}

fn tree() -> impl Strategy<Value = Dressed> {
    let inner = dressed(leaf()).prop_recursive(4, 40, 8, |inner| {
        let directory = prop::collection::vec((name(), inner), 0..8).prop_map(Node::Directory);
        dressed(directory)
    });
    dressed(prop::collection::vec((name(), inner), 0..8).prop_map(Node::Directory))
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// An access control list with one more user: as the kernel stores it, version 2.
fn access_list(mode: u32) -> Vec<u8> {
    let undefined = u32::MAX;
    let entries = [
        (1u16, mode >> 6 & 7, undefined),
        (2, 5, 1234),
        (4, 4, undefined),
        (16, mode >> 3 & 7, undefined),
        (32, mode & 7, undefined),
    ];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend((bits as u16).to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

fn build(path: &Path, dressed: &Dressed, files: &mut Vec<PathBuf>) {
    match &dressed.node {
        Node::Directory(entries) => {
            fs::create_dir(path).unwrap();
            for (name, entry) in entries {
                let path = path.join(OsStr::from_bytes(name));
                if path.symlink_metadata().is_err() {
                    build(&path, entry, files);
                }
            }
        }
        Node::File { pieces, size } => {
            let file = fs::File::create_new(path).unwrap();
            file.set_len(*size).unwrap();
            for piece in pieces {
                file.write_all_at(&vec![piece.byte; piece.length.into()], piece.offset)
                    .unwrap();
            }
            files.push(path.into());
        }
        Node::Symlink(to) => {
            std::os::unix::fs::symlink(OsStr::from_bytes(to), path).unwrap();
            files.push(path.into());
        }
        Node::Link(number) if !files.is_empty() => {
            fs::hard_link(&files[number % files.len()], path).unwrap();
            return;
        }
        Node::Link(_) => return,
        Node::Fifo => {
            make_special(path, libc::S_IFIFO, 0);
            files.push(path.into());
        }
        Node::Socket => make_special(path, libc::S_IFSOCK, 0),
        // What only the superuser can make.
        Node::Device(_) if !is_root() => return,
        Node::Device(minor) => make_special(path, libc::S_IFCHR, libc::makedev(1, (*minor).into())),
    }
    dress(path, dressed);
}

fn make_special(path: &Path, kind: u32, device: u64) {
    // SAFETY: the path ends in a zero.
    assert_eq!(unsafe { libc::mknod(c(path).as_ptr(), kind | 0o600, device) }, 0);
}

fn dress(path: &Path, dressed: &Dressed) {
    let symlink = matches!(dressed.node, Node::Symlink(_));
    let plain = matches!(dressed.node, Node::File { .. } | Node::Directory(_));
    let root = is_root();
    // Others can copy only what they may read.
    let mode = if root { dressed.mode } else { dressed.mode | 0o700 };
    if root {
        let (uid, gid) = dressed.owner;
        std::os::unix::fs::lchown(path, Some(uid), Some(gid)).unwrap();
    }
    if let (Some((name, value)), true) = (&dressed.attribute, plain) {
        set_attribute(path, &format!("user.{name}"), value).unwrap();
    }
    if !symlink {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    if dressed.list && plain {
        set_attribute(path, "system.posix_acl_access", &access_list(mode)).unwrap();
        if matches!(dressed.node, Node::Directory(_)) {
            set_attribute(path, "system.posix_acl_default", &access_list(mode)).unwrap();
        }
    }
    if root && dressed.capability && matches!(dressed.node, Node::File { .. }) {
        let mut capability = 0x0200_0000u32.to_le_bytes().to_vec();
        capability.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        set_attribute(path, "security.capability", &capability).unwrap();
    }
    if root && symlink {
        set_attribute(path, "trusted.link", b"kept").unwrap();
    }
    let time = libc::timespec {
        tv_sec: dressed.seconds,
        tv_nsec: dressed.nanoseconds,
    };
    // SAFETY: the path ends in a zero; both times are live.
    let done = unsafe {
        libc::utimensat(
            libc::AT_FDCWD,
            c(path).as_ptr(),
            [time, time].as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
        )
    };
    assert_eq!(done, 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").map_or(24, |cases| cases.parse().unwrap()),
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_archive_is_the_same(tree in tree(), jobs in 1..4usize) {
        let here = tempfile::tempdir().unwrap();
        let (source, target) = (here.path().join("source"), here.path().join("target"));
        build(&source, &tree, &mut Vec::new());
        let before = look(&source);
        let options = Options { jobs, ..Options::archive() };
        let report = copy_as(&options, &source, &target);
        assert_same(&source, &target);
        prop_assert_eq!(support::names(here.path()), ["source", "target"]);
        let entries = report.files + report.directories + report.symlinks + report.hard_links + report.specials;
        prop_assert_eq!(entries, before.len() as u64);
        // The source has changed in nothing but times of access.
        support::assert_looks(before, &look(&source));
    }

    /// The second time over what is there: the same tree, nothing added, nothing left over.
    #[test]
    fn an_archive_over_another(first in tree(), second in tree()) {
        let here = tempfile::tempdir().unwrap();
        let (source, target) = (here.path().join("source"), here.path().join("target"));
        build(&source, &first, &mut Vec::new());
        copy_as(&Options::archive(), &source, &target);
        copy_as(&Options::archive(), &source, &target);
        assert_same(&source, &target);

        let other = here.path().join("other");
        build(&other, &second, &mut Vec::new());
        let (_, told) = run(&Options::archive(), &[&other], Target::As(target.clone()));
        // Only a directory and something else exclude each other.
        for line in told.lines() {
            prop_assert!(line.contains("OverFile") || line.contains("OverDirectory"), "{}", line);
        }
        for path in look(&target).keys() {
            prop_assert!(!path.to_string_lossy().contains(".partial-"), "{:?}", path);
        }
    }
}
