//! Facts of a program that matter to a library that is to be loaded into it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Upper bound on scripts whose interpreters are scripts: the kernel's own.
const MAX_SCRIPTS: usize = 4;
/// Type of an ELF program header that names the program's loader.
const PT_INTERP: u32 = 3;
/// Sizes of one such header and of the file header, and the offsets of their fields (64 bits).
const PROGRAM_HEADER: usize = 56;

/// Finds the file of a name, in PATH as execvp does.
pub(super) fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut found = std::env::split_paths(&path).map(|directory| directory.join(name));
    found.find(|path| {
        path.metadata()
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// Returns why the library cannot be loaded into a program, or would see nothing of what it does; `None` if
/// it can.
pub(super) fn obstacle(path: &Path) -> Option<String> {
    let mut path = path.to_owned();
    for _ in 0..=MAX_SCRIPTS {
        if let Some(why) = privilege(&path) {
            return Some(why.to_owned());
        }
        let Ok(bytes) = std::fs::read(&path) else {
            // The file may be executable and not readable. The loader knows what it is.
            return None;
        };
        match script_interpreter(&bytes) {
            Some(interpreter) => path = interpreter,
            None => return in_file(&bytes).map(str::to_owned),
        }
    }
    None
}

/// Returns the reason if a program runs with another user's rights: it is started without LD_PRELOAD.
fn privilege(path: &Path) -> Option<&'static str> {
    let meta = path.metadata().ok()?;
    // SAFETY: no argument.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let gains_user = meta.mode() & libc::S_ISUID != 0 && meta.uid() != user;
    let gains_group = meta.mode() & libc::S_ISGID != 0 && meta.gid() != group;
    if gains_user || gains_group {
        return Some("it is a setuid or setgid program, into which nothing is loaded");
    }
    (user != 0 && has_capabilities(path)).then_some("it has file capabilities, so nothing is loaded into it")
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: two names that end with a zero; nothing is written.
    unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        ) > 0
    }
}

fn script_interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    if first.ends_with(b"/env") {
        let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
        return find(OsStr::from_bytes(name));
    }
    Some(PathBuf::from(OsStr::from_bytes(first)))
}

fn number(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(len)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
    )
}

/// Returns the loader that an ELF file names.
fn loader(bytes: &[u8]) -> Option<&[u8]> {
    let (table, size, count) = (
        number(bytes, 32, 8)?,
        number(bytes, 54, 2)?,
        number(bytes, 56, 2)?,
    );
    if size < PROGRAM_HEADER {
        return None;
    }
    for at in (0..count).map(|index| table.checked_add(index * size)) {
        let at = at?;
        if number(bytes, at, 4)? == PT_INTERP as usize {
            let from = number(bytes, at.checked_add(8)?, 8)?;
            let len = number(bytes, at.checked_add(32)?, 8)?;
            return bytes.get(from..from.checked_add(len)?);
        }
    }
    None
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

fn in_file(bytes: &[u8]) -> Option<&'static str> {
    if !bytes.starts_with(b"\x7fELF") {
        return Some("it is neither a script nor an ELF program");
    }
    let ours = std::env::current_exe()
        .and_then(std::fs::read)
        .unwrap_or_default();
    // Class and machine.
    if bytes.get(4) != Some(&2) || (!ours.is_empty() && bytes.get(18..20) != ours.get(18..20)) {
        return Some("it is a program of another architecture");
    }
    let Some(loader) = loader(bytes) else {
        return Some("it is statically linked, so nothing can be loaded into it");
    };
    if contains(loader, b"ld-musl") {
        return Some("it uses another C library (musl) than the library to load");
    }
    if contains(bytes, b"\xff Go buildinf:") {
        return Some("it is written in Go, whose system calls do not go through the C library");
    }
    if contains(bytes, b"liburing.so") {
        return Some("it uses io_uring already");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_has_no_obstacle() {
        let shell = find(OsStr::new("sh")).expect("a shell");
        assert_eq!(obstacle(&shell), None);
    }

    #[test]
    fn files_that_are_cut_short_have_no_loader() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(loader(&bytes).is_some());
        for len in [0, 16, 33, 64, 70, 100, 200] {
            assert_eq!(loader(&bytes[..len]), None, "{len}");
        }
    }

    #[test]
    fn interpreters_of_scripts() {
        assert_eq!(
            script_interpreter(b"#!/bin/sh -e\nx"),
            Some(PathBuf::from("/bin/sh"))
        );
        assert_eq!(
            script_interpreter(b"#! /usr/bin/env -S A=b sh\n"),
            find(OsStr::new("sh"))
        );
        assert_eq!(script_interpreter(b"\x7fELF"), None);
    }
}
