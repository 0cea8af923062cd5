//! What `--help` says, word by word. After a change: `UPDATE_GOLDEN=1 cargo test -p proactor`, and look at the diff.

use std::path::Path;
use std::process::{Command, Stdio};

/// Columns of the terminal for which the files were written.
const COLUMNS: usize = 80;

const COMMANDS: &[&[&str]] = &[
    &[],
    &["cp"],
    &["bench"],
    &["bench", "io"],
    &["bench", "files"],
    &["bench", "cp"],
    &["bench", "net"],
    &["serve"],
    &["doctor"],
    &["run"],
    &["completions"],
];

fn said(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_proactor"))
        .args(words)
        .env("COLUMNS", COLUMNS.to_string())
        .stdin(Stdio::null())
        .output()
        .expect("the binary that cargo has just built");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("the output is text")
}

fn golden(name: &str, said: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, said).expect("the checkout is writable");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(said, expected, "{} differs", file.display());
}

/// `help.txt` and `cp-help.txt` are of --help, `short-help.txt` and `cp-short-help.txt` of -h.
#[test]
fn help() {
    for command in COMMANDS {
        for (flag, kind) in [("--help", "help"), ("-h", "short-help")] {
            let words: Vec<&str> = command.iter().copied().chain([flag]).collect();
            let name: Vec<&str> = command.iter().copied().chain([kind]).collect();
            golden(&name.join("-"), &said(&words));
        }
    }
}

#[test]
fn help_fits_the_terminal() {
    for command in COMMANDS {
        for flag in ["--help", "-h"] {
            let words: Vec<&str> = command.iter().copied().chain([flag]).collect();
            for line in said(&words).lines() {
                assert!(line.chars().count() <= COLUMNS, "{words:?}: {line}");
            }
        }
    }
}

#[test]
fn short_help_is_shorter() {
    for command in COMMANDS
        .iter()
        .filter(|command| !command.is_empty() && *command != &["bench"])
    {
        let lines = |flag| {
            let words: Vec<&str> = command.iter().copied().chain([flag]).collect();
            said(&words).lines().count()
        };
        assert!(lines("-h") < lines("--help"), "{command:?}");
    }
}

#[test]
fn the_first_line_says_what_it_is() {
    let first = "Fast file and socket I/O for Linux: copy trees, measure ways of I/O, run servers";
    assert!(said(&["--help"]).starts_with(first));
}

/// Each shell's script names a subcommand, a flag and a value.
#[test]
fn completions() {
    for (shell, words) in [
        ("bash", ["doctor", "--sparse", "always"]),
        ("zsh", ["doctor", "--sparse", "always"]),
        ("fish", ["doctor", "-l sparse", "always"]),
    ] {
        let script = said(&["completions", shell]);
        for word in words {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn misspelt_words_have_a_suggestion() {
    for (words, suggestion) in [
        (&["dcotor"][..], "'doctor'"),
        (&["doctor", "--jsno"], "'--json'"),
        (&["cp", "--recusive", "a", "b"], "(did you mean '--recursive'?)"),
        (&["bench", "iow"], "'io'"),
        (&["bench", "io", "--iodeth=1"], "'--iodepth'"),
        (&["serve", "ecoh"], "'echo'"),
        (&["run", "--explian", "true"], "'--explain'"),
        (&["completions", "bsh"], "'bash'"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_proactor"))
            .args(words)
            .output()
            .expect("the binary that cargo has just built");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}");
        assert!(complaint.contains(suggestion), "{words:?}: {complaint}");
    }
}

#[test]
fn version() {
    let output = Command::new(env!("CARGO_BIN_EXE_proactor"))
        .arg("--version")
        .output()
        .unwrap();
    let expected = concat!("proactor ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
