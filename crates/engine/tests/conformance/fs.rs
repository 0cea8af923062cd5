//! Files by the names of std, on futures of either kind.

use crate::testkit::{pipe, put, Case, Place};
use proactor_engine::buffer::{AlignedBuf, Slice};
use proactor_engine::fs::{self, File, OpenOptions};
use proactor_engine::io::{Remote, Runner};
use proactor_engine::op::{OpenFlags, Timeout};
use proactor_engine::{Driver, Engine, Error, Io, SimConfig};
use std::ffi::OsStr;
use std::future::{poll_fn, Future};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::pin::pin;
use std::task;
use std::time::{Duration, SystemTime};

conformance! {
    files { whole_files, open_files, options_are_those_of_std, names, directories, calls_of_std, nothing_beyond_the_end }
    inline { a_stream_that_comes_in_pieces }
    isolated { an_error_after_a_part_gives_the_buffer_back }
}

/// On an `Io`, and on a `Remote`.
macro_rules! on_both {
    ($t:ident, $body:ident) => {
        let io = Io::from($t.driver());
        io.block_on($body($t, &io)).unwrap();
        let remote = Remote::new($t.config()).unwrap();
        io.block_on($body($t, &remote)).unwrap();
    };
}

fn whole_files(t: &Case) {
    async fn body(t: &Case, io: &impl Runner) {
        let path = t.path("f");
        let sent = fs::write(io, &path, "content").await.unwrap();
        assert_eq!(sent, b"content");
        assert_eq!(fs::read(io, &path).await.unwrap(), b"content");
        let sent = fs::write(io, &path, vec![0xff; 3]).await.unwrap();
        assert_eq!(sent, [0xff; 3], "it is replaced");
        let failed = fs::read_to_string(io, &path).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::InvalidData);
        assert!(
            failed.to_string().contains(path.to_str().unwrap()) && failed.to_string().contains("utf-8"),
            "{failed}"
        );
        fs::write(io, &path, "").await.unwrap();
        assert_eq!(fs::read_to_string(io, &path).await.unwrap(), "");
        let missing = fs::read(io, t.path("missing")).await.unwrap_err();
        assert_eq!((missing.kind(), missing.op()), (ErrorKind::NotFound, "read_file"));
        let failed = fs::write(io, t.path("."), b"mine".to_vec()).await.unwrap_err();
        assert_eq!(failed.errno(), libc::EISDIR);
        assert_eq!(failed.into_op().unwrap().data, b"mine");
        assert!(fs::read_to_string(io, "/proc/self/status")
            .await
            .unwrap()
            .starts_with("Name:"));
    }
    on_both!(t, body);
}

fn open_files(t: &Case) {
    async fn body(t: &Case, io: &impl Runner) {
        let path = t.path("f");
        let file = File::create(io, &path).await.unwrap();
        assert_eq!(file.write_all_at(b"0123456789", 0).await.unwrap(), b"0123456789");
        assert_eq!(file.write_at("ab", 4).await.unwrap(), (2, b"ab".to_vec()));
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
        assert_eq!(
            file.read_at(vec![0; 4], 0).await.unwrap_err().errno(),
            libc::EBADF
        );

        let file = File::open(io, &path).await.unwrap();
        let (count, bytes) = file.read_at(Vec::with_capacity(4), 3).await.unwrap();
        assert_eq!((count, &*bytes), (4, &b"3ab6"[..]));
        assert_eq!(
            file.read_exact_at(Vec::with_capacity(10), 0).await.unwrap(),
            b"0123ab6789"
        );
        assert_eq!(
            &file.read_exact_at(AlignedBuf::new(3, 8), 7).await.unwrap()[..],
            b"789"
        );
        let part = Slice::new(vec![b'-'; 6], 1..3);
        let part = file.read_exact_at(part, 0).await.unwrap();
        assert_eq!(part.into_inner(), b"-01---");
        assert_eq!(
            file.write_all_at(b"x".to_vec(), 0).await.unwrap_err().errno(),
            libc::EBADF
        );

        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(io, &path)
            .await
            .unwrap();
        file.set_len(3).await.unwrap();
        let metadata = file.metadata().await.unwrap();
        assert!(metadata.is_file() && !metadata.is_dir() && !metadata.is_symlink());
        assert_eq!((metadata.len(), metadata.nlink()), (3, 1));
        assert_eq!(
            metadata.mode() & 0o777,
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777
        );
        let age = SystemTime::now()
            .duration_since(metadata.modified())
            .unwrap_or_default();
        assert!(age < Duration::from_secs(600), "{metadata:?}");
        // Other ops, by the file's other faces.
        let std_file = std::fs::File::from(file.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(std_file.metadata().unwrap().len(), 3);
        let again = File::new(io, file.as_op_file().clone());
        assert_eq!(again.as_raw_fd(), file.as_raw_fd());
        drop(again);
        assert!(file.into_op_file().into_fd().is_ok(), "nothing else has it");
    }
    on_both!(t, body);
}

/// Each combination is asked of std, too: the same error, and the same file after it.
fn options_are_those_of_std(t: &Case) {
    async fn body(t: &Case, io: &impl Runner) {
        for bits in 0..64_u32 {
            for exists in [false, true] {
                let has = |bit: u32| bits & 1 << bit != 0;
                let (ours, theirs) = (t.path("ours"), t.path("theirs"));
                for path in [&ours, &theirs] {
                    let _ = std::fs::remove_file(path);
                    if exists {
                        std::fs::write(path, "old").unwrap();
                    }
                }
                let mut options = std::fs::OpenOptions::new();
                options.read(has(0)).write(has(1)).append(has(2)).truncate(has(3));
                let told = options.create(has(4)).create_new(has(5)).open(&theirs);
                let mut options = OpenOptions::new();
                options.read(has(0)).write(has(1)).append(has(2)).truncate(has(3));
                options.create(has(4)).create_new(has(5));
                let found = options.open(io, &ours).await;
                assert_eq!(
                    found.as_ref().err().map(Error::kind),
                    told.as_ref().err().map(std::io::Error::kind),
                    "{bits:06b} {exists}: {found:?}"
                );
                if let (Ok(ours), Ok(theirs)) = (&found, &told) {
                    let flags = |fd: i32| {
                        // SAFETY: no pointers.
                        unsafe { libc::fcntl(fd, libc::F_GETFL) }
                    };
                    assert_eq!(flags(ours.as_raw_fd()), flags(theirs.as_raw_fd()), "{bits:06b}");
                }
                assert_eq!(
                    std::fs::read(&ours).ok(),
                    std::fs::read(&theirs).ok(),
                    "{bits:06b}"
                );
            }
        }
        let path = t.path("made");
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OpenFlags::SYNC);
        let made = options.open(io, &path).await.unwrap();
        assert_eq!(made.metadata().await.unwrap().mode() & 0o777, 0o600);
        let failed = options.open(io, &path).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::AlreadyExists);
        assert_eq!(
            File::create_new(io, &path).await.unwrap_err().errno(),
            libc::EEXIST
        );
        std::fs::remove_file(&path).unwrap();
        let failed = File::options().open(io, &path).await.unwrap_err();
        assert!(failed.hint().is_some() && failed.path().is_some(), "{failed}");
    }
    on_both!(t, body);
}

fn names(t: &Case) {
    async fn body(t: &Case, io: &impl Runner) {
        let [f, g, link, dir] = ["f", "g", "link", "dir"].map(|name| t.path(name));
        fs::write(io, &f, "content").await.unwrap();
        fs::rename(io, &f, &g).await.unwrap();
        fs::hard_link(io, &g, &f).await.unwrap();
        assert_eq!(fs::metadata(io, &f).await.unwrap().nlink(), 2);
        fs::symlink(io, "g", &link).await.unwrap();
        assert_eq!(fs::metadata(io, &link).await.unwrap().len(), 7);
        assert!(fs::symlink_metadata(io, &link).await.unwrap().is_symlink());
        fs::create_dir(io, &dir).await.unwrap();
        assert!(fs::metadata(io, &dir).await.unwrap().is_dir());
        let there = fs::create_dir(io, &dir).await.unwrap_err();
        assert_eq!(there.kind(), ErrorKind::AlreadyExists);
        for path in [&f, &g, &link] {
            fs::remove_file(io, path).await.unwrap();
        }
        assert_eq!(fs::remove_file(io, &dir).await.unwrap_err().errno(), libc::EISDIR);
        fs::remove_dir(io, &dir).await.unwrap();
        assert_eq!(
            fs::metadata(io, &dir).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let nul = fs::remove_file(io, "a\0b").await.unwrap_err();
        assert_eq!(nul.errno(), libc::EINVAL);
    }
    on_both!(t, body);
}

/// Entries of every kind, more than come at once, each once.
fn directories(t: &Case) {
    async fn body(t: &Case, io: &impl Runner) {
        let dir = t.path("dir");
        fs::create_dir(io, &dir).await.unwrap();
        let mut entries = fs::read_dir(io, &dir).await.unwrap();
        assert!(entries.next_entry().await.unwrap().is_none(), "it is empty");
        assert!(entries.next_entry().await.unwrap().is_none(), "and stays so");
        for number in 0..300 {
            std::fs::write(dir.join(format!("a file of a long name {number:0100}")), "").unwrap();
        }
        std::fs::create_dir(dir.join("inner")).unwrap();
        std::os::unix::fs::symlink("inner", dir.join("link")).unwrap();
        let mut entries = fs::read_dir(io, &dir).await.unwrap();
        let mut found = std::collections::BTreeMap::new();
        while let Some(entry) = entries.next_entry().await.unwrap() {
            let metadata = std::fs::symlink_metadata(entry.path()).unwrap();
            let kind = entry.file_type();
            assert_eq!(kind.is_file(), metadata.is_file());
            assert_eq!(kind.is_dir(), metadata.is_dir());
            assert_eq!(kind.is_symlink(), metadata.is_symlink());
            assert_eq!(entry.ino(), metadata.ino());
            let before = found.insert(entry.file_name().to_owned(), kind);
            assert!(before.is_none(), "{entry:?} comes twice");
        }
        assert_eq!(found.len(), 302);
        assert!(found[OsStr::new("inner")].is_dir() && found[OsStr::new("link")].is_symlink());
        fs::remove_dir_all(io, &dir).await.unwrap();
        assert!(!fs::try_exists(io, &dir).await.unwrap());

        let missing = fs::read_dir(io, &dir).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        fs::write(io, t.path("f"), "").await.unwrap();
        let file = fs::read_dir(io, t.path("f")).await.unwrap_err();
        assert_eq!(file.errno(), libc::ENOTDIR);
    }
    on_both!(t, body);
}

fn calls_of_std(t: &Case) {
    async fn body(t: &Case, io: &impl Runner) {
        let [f, g, link] = ["f", "g", "link"].map(|name| t.path(name));
        let mode = |path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        fs::write(io, &f, "content").await.unwrap();
        fs::set_permissions(io, &f, PermissionsExt::from_mode(0o640))
            .await
            .unwrap();
        assert_eq!(mode(&f), 0o640);
        assert_eq!(fs::copy(io, &f, &g).await.unwrap(), 7);
        assert_eq!(
            (fs::read(io, &g).await.unwrap(), mode(&g)),
            (b"content".to_vec(), 0o640)
        );
        let file = File::open(io, &g).await.unwrap();
        file.set_permissions(PermissionsExt::from_mode(0o600))
            .await
            .unwrap();
        let permissions = file.metadata().await.unwrap().permissions();
        assert_eq!((permissions.mode(), mode(&g)), (0o600, 0o600));
        fs::symlink(io, "f", &link).await.unwrap();
        assert_eq!(fs::read_link(io, &link).await.unwrap(), Path::new("f"));
        assert_eq!(
            fs::canonicalize(io, &link).await.unwrap(),
            std::fs::canonicalize(&f).unwrap()
        );
        fs::create_dir_all(io, t.path("x/y/z")).await.unwrap();
        fs::create_dir_all(io, t.path("x/y/z")).await.unwrap();
        assert!(fs::try_exists(io, t.path("x/y/z")).await.unwrap());
        fs::remove_dir_all(io, t.path("x")).await.unwrap();
        for path in [&f, &g, &link] {
            fs::remove_file(io, path).await.unwrap();
        }

        let failed = fs::canonicalize(io, &f).await.unwrap_err();
        assert_eq!((failed.kind(), failed.op()), (ErrorKind::NotFound, "realpath"));
        assert!(failed.to_string().contains(f.to_str().unwrap()), "{failed}");
        assert_eq!(
            fs::copy(io, &f, &g).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let failed = fs::read_link(io, t.path(".")).await.unwrap_err();
        assert_eq!(failed.errno(), libc::EINVAL);
        for failed in [
            fs::read_link(io, "a\0b").await.unwrap_err(),
            fs::copy(io, "a\0b", &g).await.unwrap_err(),
            fs::create_dir_all(io, "a\0b").await.unwrap_err(),
        ] {
            assert!(
                failed.errno() == libc::EINVAL && failed.hint().is_some(),
                "{failed}"
            );
        }
        fs::write(io, &f, "content").await.unwrap();
        let failed = fs::copy(io, &f, "a\0b").await.unwrap_err();
        assert_eq!(failed.errno(), libc::EINVAL, "{failed}");
        fs::remove_file(io, &f).await.unwrap();
    }
    on_both!(t, body);
}

/// The buffer that comes back has what was there.
fn nothing_beyond_the_end(t: &Case) {
    async fn body(t: &Case, io: &impl Runner) {
        fs::write(io, t.path("f"), "0123456789").await.unwrap();
        let file = File::open(io, t.path("f")).await.unwrap();
        for (offset, there) in [(7, &b"789"[..]), (10, b""), (1 << 40, b"")] {
            let failed = file
                .read_exact_at(Vec::with_capacity(8), offset)
                .await
                .unwrap_err();
            assert_eq!(failed.error().kind(), ErrorKind::UnexpectedEof, "{failed}");
            let op = failed.into_op().unwrap();
            assert_eq!((op.offset, &*op.buffer), (Some(offset), there));
        }
        let failed = file.read_exact_at(AlignedBuf::new(8, 8), 8).await.unwrap_err();
        assert_eq!(std::io::Error::from(failed).kind(), ErrorKind::UnexpectedEof);
        let failed = file.read_exact_at(Vec::new(), 0).await.unwrap_err();
        assert_eq!(failed.errno(), libc::EINVAL, "no room is a mistake");
        // One that states no size.
        let status = File::open(io, "/proc/self/status").await.unwrap();
        let failed = status.read_exact_at(vec![0; 1 << 20], 0).await.unwrap_err();
        assert_eq!(failed.error().kind(), ErrorKind::UnexpectedEof);
        assert!(failed.into_op().unwrap().buffer.starts_with(b"Name:"));
        if t.place == Place::Disk && t.require("o_direct") {
            let mut options = OpenOptions::new();
            let direct = options
                .read(true)
                .custom_flags(OpenFlags::DIRECT)
                .open(io, t.path("f"));
            let direct = direct.await.unwrap();
            let failed = direct
                .read_exact_at(AlignedBuf::new(4096, 4096), 0)
                .await
                .unwrap_err();
            assert_eq!(failed.error().kind(), ErrorKind::UnexpectedEof, "{failed}");
            assert_eq!(&failed.into_op().unwrap().buffer[..], b"0123456789");
        }
    }
    on_both!(t, body);
}

fn a_stream_that_comes_in_pieces(t: &Case) {
    async fn body(_: &Case, io: &impl Runner) {
        let (reader, writer) = pipe();
        let reader = File::new(io, reader);
        put(&writer, b"012");
        let mut read = pin!(reader.read_exact_at(Vec::with_capacity(6), 0));
        // It has taken the first piece, or takes it with the second.
        let polled = poll_fn(|cx| task::Poll::Ready(read.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        io.run(Timeout::new(Duration::from_millis(1))).await.unwrap();
        put(&writer, b"345");
        assert_eq!(read.await.unwrap(), b"012345");
        put(&writer, b"67");
        drop(writer);
        let failed = reader.read_exact_at(vec![0; 6], 0).await.unwrap_err();
        assert_eq!(failed.error().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(failed.into_op().unwrap().buffer, b"67");
    }
    on_both!(t, body);
}

fn an_error_after_a_part_gives_the_buffer_back(t: &Case) {
    async fn body(t: &Case, io: &impl Runner) {
        let file = File::create(io, t.path("f")).await.unwrap();
        let failed = file.write_all_at(vec![7; 10_000], 0).await.unwrap_err();
        assert_eq!(failed.errno(), libc::EFBIG);
        let op = failed.into_op().unwrap();
        assert_eq!((op.offset, op.buffer), (Some(0), vec![7; 10_000]));
        assert_eq!(file.metadata().await.unwrap().len(), 4096);
    }
    let limit = libc::rlimit {
        rlim_cur: 4096,
        rlim_max: 4096,
    };
    // SAFETY: a live struct; the process is this test's own. The default action of SIGXFSZ would end it.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
    on_both!(t, body);
}

/// Transfers cut short, interrupted and failing wherever they may: all bytes, or an error and the buffer.
#[test]
fn short_and_interrupted_transfers() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3000_u32).map(|i| (i % 251) as u8).collect();
    let (mut whole, mut failures) = (0, 0);
    for seed in 0..200 {
        let sim = SimConfig::new(seed)
            .short_rate(150)
            .error_rate(if seed < 100 { 0 } else { 30 });
        let driver = Driver::builder()
            .engine(Engine::Sim)
            .inline(false)
            .sim(sim)
            .build();
        let io = Io::from(driver.unwrap());
        let path = dir.path().join(seed.to_string());
        std::fs::write(&path, "").unwrap();
        let std_file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let file = File::new(&io, proactor_engine::op::File::new(std_file));
        let wrote = io.block_on(file.write_all_at(bytes.clone(), 5)).unwrap();
        match wrote {
            Ok(buffer) => {
                assert_eq!(buffer, bytes);
                assert_eq!(std::fs::read(&path).unwrap()[5..], bytes);
                whole += 1;
            }
            Err(failed) => {
                assert!(seed >= 100 && failed.errno() != libc::EINTR, "{failed}");
                assert_eq!(failed.into_op().unwrap().buffer, bytes);
                failures += 1;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let read = io
            .block_on(file.read_exact_at(Vec::with_capacity(2000), 500))
            .unwrap();
        match read {
            Ok(buffer) => assert_eq!(buffer, bytes[500..2500]),
            Err(failed) => {
                assert!(seed >= 100 && failed.errno() != libc::EINTR, "{failed}");
                let op = failed.into_op().unwrap();
                assert_eq!(op.offset, Some(500));
                assert!(bytes[500..].starts_with(&op.buffer), "what was read");
            }
        }
    }
    assert!(
        whole > 100 && failures > 10,
        "{whole} wholes, {failures} failures"
    );
}
