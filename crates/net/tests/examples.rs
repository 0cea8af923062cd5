//! The examples are servers that answer.

#[path = "../../engine/tests/built/mod.rs"]
mod built;

use built::example;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// An example that cargo has built beside this test, and where it listens.
fn start_at(name: &str) -> (Child, String) {
    start_with(name, &[])
}

fn start_with(name: &str, args: &[&str]) -> (Child, String) {
    let mut child = Command::new(example(name))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (child, line.trim().split(' ').nth(2).unwrap().to_owned())
}

fn start(name: &str) -> (Child, TcpStream) {
    let (child, address) = start_at(name);
    (child, TcpStream::connect(address).unwrap())
}

#[test]
fn echo() {
    check_echo("echo");
}

#[test]
fn async_echo() {
    check_echo("async_echo");
}

fn check_echo(name: &str) {
    let (mut child, mut stream) = start(name);
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

#[test]
fn datagrams() {
    let (mut child, address) = start_at("datagrams");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.send(b"abc").unwrap();
    let mut back = [0; 4];
    assert_eq!(socket.recv(&mut back).unwrap(), 3);
    assert_eq!(&back[..3], b"abc");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn proxy() {
    let (mut server, target) = start_at("echo");
    let (mut child, address) = start_with("proxy", &[&target]);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"abc").unwrap();
    let mut back = [0; 3];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"abc");
    // An end goes through, and that of the other side comes back.
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut back).unwrap(), 0);
    for child in [&mut server, &mut child] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
