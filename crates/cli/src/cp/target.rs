//! Division of the operands into sources and target: the rules of cp.

use super::lists;
use super::settings::Settings;
use super::usage::{missing_target, Misuse};
use proactor_copy::quote;
use proactor_copy::Target;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Returns the sources and the target. Only checks whether the target is a directory.
pub(super) fn operands(settings: &Settings) -> Result<(Vec<PathBuf>, Target), Misuse> {
    let mut operands = settings.operands.clone();
    if !settings.files_from.is_empty() {
        return listed(settings, operands);
    }
    if operands.is_empty() {
        return Err(Misuse::with_hint("missing file operand"));
    }
    let target = match &settings.target_directory {
        Some(_) if settings.no_target_directory => {
            let text = "cannot combine --target-directory (-t) and --no-target-directory (-T)";
            return Err(Misuse::plain(text));
        }
        Some(directory) => into("target directory", directory)?,
        None => last(settings, &mut operands)?,
    };
    if settings.options.parents && matches!(target, Target::As(_)) {
        return Err(Misuse::with_hint(
            "with --parents, the destination must be a directory",
        ));
    }
    Ok((paths(settings, operands), target))
}

fn paths(settings: &Settings, operands: Vec<OsString>) -> Vec<PathBuf> {
    let strip = |operand: OsString| {
        if settings.strip_trailing_slashes {
            stripped(operand)
        } else {
            operand
        }
    };
    operands
        .into_iter()
        .map(|operand| strip(operand).into())
        .collect()
}

/// Returns the sources and the target with `--files-from`: the target is a directory, whatever the number of
/// sources.
fn listed(settings: &Settings, mut operands: Vec<OsString>) -> Result<(Vec<PathBuf>, Target), Misuse> {
    if settings.no_target_directory {
        return Err(Misuse::plain(
            "cannot combine --files-from and --no-target-directory (-T)",
        ));
    }
    let target = match &settings.target_directory {
        Some(directory) => into("target directory", directory)?,
        None => match operands.pop() {
            Some(target) => into("target", &target)?,
            None => return Err(missing_target(&settings.files_from[0])),
        },
    };
    for list in &settings.files_from {
        operands.extend(lists::names_in(&lists::read(list)?));
    }
    Ok((paths(settings, operands), target))
}

/// Takes the last operand as the target.
fn last(settings: &Settings, operands: &mut Vec<OsString>) -> Result<Target, Misuse> {
    let target = operands.pop().expect("the caller has looked");
    if operands.is_empty() {
        return Err(missing_target(&target));
    }
    if settings.no_target_directory {
        operands.push(target);
        if let Some(extra) = operands.get(2) {
            return Err(Misuse::with_hint(format!("extra operand {}", quote::name(extra))));
        }
        return Ok(Target::As(operands.pop().expect("just put there").into()));
    }
    if operands.len() > 1 {
        return into("target", &target);
    }
    Ok(if Path::new(&target).is_dir() {
        Target::Into(target.into())
    } else {
        Target::As(target.into())
    })
}

fn into(what: &str, directory: &OsStr) -> Result<Target, Misuse> {
    let problem = match Path::new(directory).metadata() {
        Ok(found) if found.is_dir() => return Ok(Target::Into(directory.into())),
        Ok(_) => io::Error::from_raw_os_error(libc::ENOTDIR),
        Err(error) => error,
    };
    Err(Misuse::plain(format!(
        "{what} {}: {}",
        quote::name(directory),
        proactor_copy::reason(&problem)
    )))
}

/// Removes trailing slashes, except for the root's own.
fn stripped(operand: OsString) -> OsString {
    let mut bytes = operand.into_vec();
    while bytes.len() > 1 && bytes.last() == Some(&b'/') {
        bytes.pop();
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::stripped;

    #[test]
    fn slashes() {
        for (given, left) in [
            ("a/", "a"),
            ("a/b//", "a/b"),
            ("/", "/"),
            ("//", "/"),
            ("a", "a"),
            ("", ""),
        ] {
            assert_eq!(stripped(given.into()), left);
        }
    }
}
