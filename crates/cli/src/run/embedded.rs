//! The library inside the native binary, and the private file that programs load it from.
//!
//! The loader takes a path, and programs started by the program use it again. So the file has to stay, and no
//! other user may be able to change it: its directory and all above it belong to this user or to root, and
//! its content is compared before each use. Where no directory qualifies, the library lies in memory under a
//! descriptor that programs inherit.

use super::library::can_be_named;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

#[cfg(embedded_library)]
const LIBRARY: Option<Library> = Some(Library {
    bytes: include_bytes!(env!("PROACTOR_EMBEDDED_PATH")),
    name: concat!("libproactor_preload-", env!("PROACTOR_EMBEDDED_HASH"), ".so"),
});
#[cfg(not(embedded_library))]
const LIBRARY: Option<Library> = None;

/// Write permission for others than the owner.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Lower bound on the descriptor of the library in memory, out of the way of those that programs expect to be
/// theirs.
const FIRST_DESCRIPTOR: libc::c_int = 200;

#[derive(Clone, Copy)]
struct Library {
    bytes: &'static [u8],
    name: &'static str,
}

/// Returns a path of the embedded library, or `None` if none is embedded.
pub(super) fn path() -> Option<Result<PathBuf, String>> {
    let library = LIBRARY?;
    // SAFETY: no argument.
    let user = unsafe { libc::geteuid() };
    let places = places(user, |name| std::env::var_os(name));
    Some(kept_in(&library, &places, user))
}

/// A directory for the file, which is created if its parent exists.
#[derive(Debug, PartialEq)]
struct Place {
    above: PathBuf,
    name: OsString,
}

/// Returns directories for the file, the best first.
fn places(user: u32, variable: impl Fn(&str) -> Option<OsString>) -> Vec<Place> {
    let named = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let own = OsStr::new("proactor");
    let shared = OsString::from(format!("proactor-{user}"));
    let caches = [
        named("XDG_CACHE_HOME"),
        // Root's programs may go on as another user, who must be able to read it.
        (user == 0).then(|| PathBuf::from("/var/cache")),
        named("HOME").map(|home| home.join(".cache")),
        named("XDG_RUNTIME_DIR"),
    ];
    let temporary = [
        named("TMPDIR"),
        Some("/tmp".into()),
        Some("/var/tmp".into()),
        Some("/dev/shm".into()),
    ];
    let place = |above: PathBuf, name: &OsStr| Place {
        above,
        name: name.to_owned(),
    };
    let caches = caches.into_iter().flatten().map(|above| place(above, own));
    let temporary = temporary.into_iter().flatten().map(|above| place(above, &shared));
    caches.chain(temporary).collect()
}

fn kept_in(library: &Library, places: &[Place], user: u32) -> Result<PathBuf, String> {
    let mut reasons = Vec::new();
    for place in places {
        match keep(library, place, user) {
            Ok(path) => return Ok(path),
            Err(why) => reasons.push(format!("{}: {why}", place.above.join(&place.name).display())),
        }
    }
    in_memory(library).map_err(|e| {
        format!(
            "the library cannot be written anywhere; name one with --library ({}; memory: {e})",
            reasons.join("; ")
        )
    })
}

/// Stores the file in one place: reuses the existing one if it is right, else writes a new one.
fn keep(library: &Library, place: &Place, user: u32) -> Result<PathBuf, String> {
    let mode = if user == 0 { 0o755 } else { 0o700 };
    // `.cache` in a home directory that has none.
    for directory in [place.above.clone(), place.above.join(&place.name)] {
        match DirBuilder::new().mode(mode).create(directory) {
            Ok(()) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::AlreadyExists) => {}
            // A read-only file system may have the file.
            Err(e) if e.raw_os_error() == Some(libc::EROFS) => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    let directory = fs::canonicalize(place.above.join(&place.name)).map_err(|e| e.to_string())?;
    check_directory(&directory, user)?;
    let path = directory.join(library.name);
    if !can_be_named(&path) {
        return Err("LD_PRELOAD cannot name a path with a colon or a space".to_owned());
    }
    match check_file(library, &path, user) {
        Ok(true) => Ok(path),
        _ => write(library, &directory, &path).map(|()| path),
    }
}

/// Checks that only this user and root can change what is in a directory, which is named without symbolic
/// links.
fn check_directory(directory: &Path, user: u32) -> Result<(), String> {
    for (depth, part) in directory.ancestors().enumerate() {
        let facts = fs::symlink_metadata(part).map_err(|e| format!("{}: {e}", part.display()))?;
        let is_ours = facts.uid() == user || (depth > 0 && facts.uid() == 0);
        // In a sticky directory, only its owner can rename an entry.
        let is_closed = facts.mode() & OTHERS_WRITE == 0 || (depth > 0 && facts.mode() & STICKY != 0);
        if !(facts.is_dir() && is_ours && is_closed) {
            return Err(format!("another user can change what is in {}", part.display()));
        }
    }
    Ok(())
}

/// Returns true if the file is as this command would write it, and can be loaded.
fn check_file(library: &Library, path: &Path, user: u32) -> io::Result<bool> {
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let facts = file.metadata()?;
    let is_ours = facts.is_file() && facts.uid() == user && facts.mode() & OTHERS_WRITE == 0;
    if !is_ours || facts.len() != library.bytes.len() as u64 {
        return Ok(false);
    }
    let mut bytes = Vec::with_capacity(library.bytes.len());
    file.read_to_end(&mut bytes)?;
    Ok(bytes == library.bytes && check_executable(&file).is_ok())
}

/// Writes a file under another name first, so that a concurrent loader finds all of it.
fn write(library: &Library, directory: &Path, path: &Path) -> Result<(), String> {
    let written = tempfile::Builder::new()
        .prefix(".library-")
        .tempfile_in(directory)
        .and_then(|mut file| {
            file.write_all(library.bytes)?;
            file.as_file().set_permissions(Permissions::from_mode(0o555))?;
            check_executable(file.as_file())?;
            file.persist(path)?;
            Ok(())
        });
    written.map_err(|e| e.to_string())
}

/// Maps a piece as the loader will: a file system that is mounted noexec refuses it.
fn check_executable(file: &File) -> io::Result<()> {
    // SAFETY: a new mapping at an address of the kernel's choice, of a file that is open.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            1,
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        );
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(start, 1);
    }
    Ok(())
}

/// Stores the library in memory, named by a descriptor that stays open when the command becomes the program.
fn in_memory(library: &Library) -> io::Result<PathBuf> {
    // SAFETY: a name that ends with a zero.
    let fd = unsafe {
        libc::memfd_create(
            c"libproactor_preload.so".as_ptr(),
            libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nothing else owns it.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(library.bytes)?;
    check_executable(&file)?;
    // Programs inherit the descriptor, and may go on as another user.
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: no pointer is passed.
    if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no pointer is passed.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD, FIRST_DESCRIPTOR) };
    if copy < 0 {
        // The limit is below that number. SAFETY: no pointer is passed.
        unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
        return Ok(format!("/proc/self/fd/{}", file.into_raw_fd()).into());
    }
    Ok(format!("/proc/self/fd/{copy}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const SAMPLE: Library = Library {
        bytes: b"\x7fELF and the rest of a library",
        name: "libsample.so",
    };

    fn user() -> u32 {
        // SAFETY: no argument.
        unsafe { libc::geteuid() }
    }

    fn place(above: &Path) -> Place {
        Place {
            above: above.to_owned(),
            name: "own".into(),
        }
    }

    fn kept(above: &Path) -> Result<PathBuf, String> {
        keep(&SAMPLE, &place(above), user())
    }

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn the_file_is_written_once() {
        let home = tempfile::tempdir().unwrap();
        let path = kept(&home.path().join(".cache")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), SAMPLE.bytes);
        let first = fs::metadata(&path).unwrap();
        assert_eq!(first.mode() & OTHERS_WRITE, 0);
        assert_eq!(kept(&home.path().join(".cache")).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), first.ino());
        assert_eq!(names(path.parent().unwrap()), ["libsample.so"]);
    }

    #[test]
    fn a_file_that_is_not_ours_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let path = kept(home.path()).unwrap();
        let other = home.path().join("other");
        let tampered: [(&str, &dyn Fn()); 5] = [
            ("of the same length", &|| {
                let mut bytes = SAMPLE.bytes.to_vec();
                *bytes.last_mut().unwrap() ^= 1;
                fs::write(&path, bytes).unwrap();
            }),
            ("cut short", &|| fs::write(&path, b"\x7fELF").unwrap()),
            ("a link to an equal file", &|| {
                fs::write(&other, SAMPLE.bytes).unwrap();
                symlink(&other, &path).unwrap();
            }),
            ("writable by others", &|| {
                fs::write(&path, SAMPLE.bytes).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
            }),
            ("a socket", &|| {
                std::os::unix::net::UnixListener::bind(&path).unwrap();
            }),
        ];
        for (how, tamper) in tampered {
            fs::remove_file(&path).unwrap();
            tamper();
            assert_eq!(kept(home.path()).as_ref(), Ok(&path), "{how}");
            let facts = fs::symlink_metadata(&path).unwrap();
            assert!(facts.is_file() && facts.mode() & OTHERS_WRITE == 0, "{how}");
            assert_eq!(fs::read(&path).unwrap(), SAMPLE.bytes, "{how}");
        }
        assert_eq!(names(path.parent().unwrap()), ["libsample.so"]);
    }

    #[test]
    fn a_directory_that_others_can_change_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        fs::create_dir(home.path().join("own")).unwrap();
        for mode in [0o777, 0o1777, 0o770] {
            open(&home.path().join("own"), mode);
            assert!(kept(home.path()).unwrap_err().contains("another user can change"));
        }
        open(&home.path().join("own"), 0o700);
        open(home.path(), 0o777);
        assert!(kept(home.path()).unwrap_err().contains("another user can change"));
        open(home.path(), 0o1777);
        kept(home.path()).unwrap();
        // Another user's directory, as far as this user can tell.
        assert!(keep(&SAMPLE, &place(home.path()), user() + 1).is_err());
    }

    #[test]
    fn commands_at_once_find_all_of_it() {
        for _ in 0..50 {
            let home = tempfile::tempdir().unwrap();
            let gate = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        gate.wait();
                        assert_eq!(fs::read(kept(home.path()).unwrap()).unwrap(), SAMPLE.bytes);
                    });
                }
            });
            assert_eq!(names(&home.path().join("own")), ["libsample.so"]);
        }
    }

    #[test]
    fn places_without_variables() {
        let none = places(1000, |_| None);
        let paths: Vec<PathBuf> = none.iter().map(|place| place.above.join(&place.name)).collect();
        let expected = [
            "/tmp/proactor-1000",
            "/var/tmp/proactor-1000",
            "/dev/shm/proactor-1000",
        ];
        assert_eq!(paths, expected.map(PathBuf::from));
        assert_eq!(places(0, |_| None)[0].above, Path::new("/var/cache"));
        let odd = |name: &str| (name == "HOME").then(|| OsString::from("not/absolute"));
        assert_eq!(places(1000, odd), none);
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/h"));
        assert_eq!(places(1000, home)[0].above, Path::new("/h/.cache"));
    }

    #[test]
    fn a_home_that_is_not_there_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        assert!(kept(&directory.path().join("home/.cache")).is_err());
        assert_eq!(names(directory.path()), [""; 0]);
        let spaced = directory.path().join("a home");
        fs::create_dir(&spaced).unwrap();
        assert!(kept(&spaced).unwrap_err().contains("LD_PRELOAD"));
    }

    #[test]
    fn memory_is_the_last_place() {
        let path = kept_in(&SAMPLE, &[place(Path::new("/proc/none"))], user()).unwrap();
        assert!(path.starts_with("/proc/self/fd"), "{path:?}");
        assert_eq!(fs::read(&path).unwrap(), SAMPLE.bytes);
        assert!(fs::write(&path, b"other").is_err());
    }
}
