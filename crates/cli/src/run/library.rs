//! Location of the library that is loaded into programs.

use super::embedded;
use std::path::{Path, PathBuf};

const NAME: &str = "libproactor_preload.so";
/// Environment variable that names the library where no option does.
const VARIABLE: &str = "PROACTOR_PRELOAD";

/// Finds the library.
///
/// # Errors
/// A sentence that says why there is none, and where to get it.
pub(super) fn find(asked: Option<&Path>) -> Result<PathBuf, String> {
    let named = asked
        .map(Path::to_owned)
        .or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    let found = match named {
        Some(path) => std::path::absolute(&path).map_err(|e| format!("{}: {e}", path.display()))?,
        None => match embedded::path() {
            Some(path) => return path,
            None => beside().ok_or_else(|| {
                format!(
                    "this command comes without {NAME}: name one with --library or {VARIABLE} (the Python package has it, \
                     make native embeds it, and cargo build -p proactor-preload makes it)"
                )
            })?,
        },
    };
    let shown = found.display();
    let head = std::fs::File::open(&found).and_then(|mut file| {
        let mut head = [0; 4];
        std::io::Read::read_exact(&mut file, &mut head).map(|()| head)
    });
    match head {
        Ok(head) if head == *b"\x7fELF" => {}
        Ok(_) => return Err(format!("{shown} is no library")),
        Err(e) => return Err(format!("{shown}: {e}")),
    }
    if !can_be_named(&found) {
        return Err(format!(
            "{shown}: LD_PRELOAD cannot name a path with a colon or a space; copy the library"
        ));
    }
    Ok(found)
}

/// Returns true if LD_PRELOAD, a list, can name a path.
pub(super) fn can_be_named(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    !bytes.iter().any(|byte| matches!(byte, b':' | b' ' | b'\n'))
}

/// Returns the path beside the file that contains this code: the command, or Python's extension.
fn beside() -> Option<PathBuf> {
    let here = this_file()?;
    let path = here.parent()?.join(NAME);
    path.is_file().then_some(path)
}

/// Returns the file that is mapped at this function's address.
fn this_file() -> Option<PathBuf> {
    let address = this_file as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    for line in maps.lines() {
        let (range, _) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        if (from..to).contains(&address) {
            return line.find('/').map(|at| PathBuf::from(&line[at..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_file_of_this_code_is_found() {
        assert_eq!(super::this_file(), std::env::current_exe().ok());
    }
}
