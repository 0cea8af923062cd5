//! The examples are servers that answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// An example that cargo has built beside this test.
fn start(name: &str) -> (Child, TcpStream) {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test
        .parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .join("examples");
    let mut child = Command::new(folder.join(name))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.split(' ').nth(2).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    (child, stream)
}

#[test]
fn echo() {
    let (mut child, mut stream) = start("echo");
    stream.write_all(b"abc").unwrap();
    let mut back = [0; 3];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"abc");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn lines_until_the_end_of_input() {
    let (mut child, mut stream) = start("lines");
    stream.write_all(b"a\nb").unwrap();
    let mut back = [0; 2];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"a\n");
    drop(child.stdin.take());
    drop(stream);
    assert!(child.wait().unwrap().success());
}
