//! The example is a server that answers.

#[path = "../../engine/tests/built/mod.rs"]
mod built;

use built::example;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn serve_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "contents").unwrap();
    let mut child = Command::new(example("serve_files"))
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().split(' ').nth(2).unwrap();

    // A connection that fails leaves the others.
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(b"missing\n").unwrap();
    assert_eq!(other.read(&mut [0]).unwrap(), 0);
    let mut stream = TcpStream::connect(address).unwrap();
    for _ in 0..2 {
        stream.write_all(b"a\n").unwrap();
        let mut answer = [0; 16];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"\x08\0\0\0\0\0\0\0contents");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
