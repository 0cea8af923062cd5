//! The layers of an overlay, whose file systems do the transfers of its files.
//!
//! The layers are found by their paths in /proc/self/mountinfo. A path that does not exist here is
//! ignored: in a container the layers are usually outside its mount namespace.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt;

/// Options of an overlay that name a layer which files are read from or written to.
const LAYER_OPTIONS: [&[u8]; 4] = [b"lowerdir", b"lowerdir+", b"datadir+", b"upperdir"];

/// Opens the root directory of each layer below the overlay of the file `fd` that exists here.
///
/// # Errors
/// If /proc cannot be read.
pub(super) fn layers(fd: RawFd) -> io::Result<Vec<File>> {
    let mount = mount_id(fd)?;
    let mounts = read("/proc/self/mountinfo")?;
    let mut lines = mounts.split(|byte| *byte == b'\n');
    let line = lines.find(|line| line.split(|byte| *byte == b' ').next().and_then(number) == Some(mount));
    let options = line.and_then(|line| line.rsplit(|byte| *byte == b' ').next());
    let paths = options.map(layer_paths).unwrap_or_default();
    let open = |path: &OsString| {
        let mut options = OpenOptions::new();
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        options.read(true).custom_flags(flags).open(path).ok()
    };
    Ok(paths.iter().filter_map(open).collect()) // allocates: an entry for each layer of a mount
}

/// The number of the mount of the file `fd`, as /proc/self/mountinfo has it.
pub(super) fn mount_id(fd: RawFd) -> io::Result<u64> {
    // allocates: the path of a file in /proc
    let facts = read(&format!("/proc/self/fdinfo/{fd}"))?;
    let mut lines = facts.split(|byte| *byte == b'\n');
    let id = lines.find_map(|line| number(line.strip_prefix(b"mnt_id:")?.trim_ascii()));
    id.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODATA))
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads a file of /proc, whose size the kernel does not tell.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The absolute paths of the layers in the options of an overlay. Relative ones lead nowhere here.
fn layer_paths(options: &[u8]) -> Vec<OsString> {
    let pairs = options.split(|byte| *byte == b',').filter_map(|option| {
        let at = option.iter().position(|byte| *byte == b'=')?;
        Some((&option[..at], &option[at + 1..]))
    });
    let named = pairs.filter(|(key, _)| LAYER_OPTIONS.contains(key));
    let paths = named.flat_map(|(_, value)| split_layers(&decoded(value)));
    paths.filter(|path| path.as_bytes().starts_with(b"/")).collect() // allocates: as above
}

/// Decodes `\ooo`, which stands for a byte in mountinfo.
fn decoded(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        let octal = behind
            .get(..3)
            .filter(|digits| *first == b'\\' && digits.is_ascii());
        let number = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(number.unwrap_or(*first));
        rest = if number.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

/// Splits `lowerdir` at its colons. A colon or a backslash of a path follows a backslash there.
fn split_layers(value: &[u8]) -> Vec<OsString> {
    let (mut paths, mut path) = (Vec::new(), Vec::new());
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b':' => paths.push(OsString::from_vec(std::mem::take(&mut path))),
            b'\\' => path.push(bytes.next().unwrap_or(byte)),
            _ => path.push(byte),
        }
    }
    paths.push(OsString::from_vec(path));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_layers() {
        for (options, paths) in [
            ("rw,lowerdir=/a,upperdir=/b,workdir=/c", vec!["/a", "/b"]),
            ("ro,lowerdir=/a:/b::/c,xino=off", vec!["/a", "/b", "/c"]),
            ("rw,lowerdir+=/a,lowerdir+=/b,datadir+=/c", vec!["/a", "/b", "/c"]),
            (r"rw,lowerdir=/a\040b\054c\134:d:/e", vec!["/a b,c:d", "/e"]),
            ("rw,lowerdir=l/ABC:l/DEF,upperdir=/gone", vec!["/gone"]),
            ("rw,redirect_dir=on", vec![]),
            (r"rw,lowerdir=/a\04", vec!["/a04"]),
        ] {
            assert_eq!(layer_paths(options.as_bytes()), paths, "{options}");
        }
    }

    #[test]
    fn the_mount_of_a_file() {
        let file = File::open("/proc/self/mountinfo").unwrap();
        let id = mount_id(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.starts_with(&format!("{id} ")));
        assert!(line.unwrap().contains(" /proc "), "{line:?}");
        assert!(mount_id(-1).is_err());
    }
}
