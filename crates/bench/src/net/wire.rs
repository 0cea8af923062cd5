//! Requests and the responses to them: the bytes that are sent, and the check of those that come back.
//!
//! Contents are parts of one pattern whose length is prime, so that a byte that is lost, doubled, or of
//! another connection is found.

use super::load::{Load, Protocol};
use super::socket::{Address, Stream};
use crate::data::mix;
use std::io::{Read, Write};
use std::time::Duration;

const PATTERN_BYTES: usize = 65_521;
/// Distance between the starts of two connections' contents, and of two keys' values.
const STRIDE: u64 = 7_919;
/// Time for an answer to the requests before a round.
const PATIENCE: Duration = Duration::from_secs(10);
/// Upper bound on the head of a response.
const MAX_HEAD: usize = 64 << 10;

/// Request that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The message that starts here in the pattern.
    Echo(usize),
    Get(u32),
    Set,
    Page,
}

/// One protocol with its contents.
#[derive(Debug)]
pub(super) struct Wire {
    protocol: Protocol,
    /// Pattern, longer than a period by the longest message, so that each message is a slice.
    pattern: Vec<u8>,
    len: usize,
    set_percent: u8,
    keys: u32,
    seed: u64,
    /// Request of HTTP; its response and the body have the lengths below.
    request: Vec<u8>,
    response_len: usize,
    body: Vec<u8>,
}

impl Wire {
    /// Requests what the checks require: RESP's values are stored, and HTTP's page is fetched.
    pub fn prepare(load: &Load, address: &Address, seed: u64) -> Result<Wire, String> {
        let mut wire = Wire::new(load, address, seed);
        let failed = |e: std::io::Error| format!("{address}: {e}");
        let mut stream = Stream::connect(address).map_err(failed)?;
        match wire.protocol {
            Protocol::Echo => {}
            Protocol::Resp => wire
                .store_all(&mut stream)
                .map_err(|e| format!("{address}: {e}"))?,
            Protocol::Http => {
                (wire.response_len, wire.body) =
                    fetch(&mut stream, &wire.request).map_err(|e| format!("{address}: {e}"))?;
            }
        }
        Ok(wire)
    }

    fn new(load: &Load, address: &Address, seed: u64) -> Wire {
        let len = load.message_bytes as usize;
        let period: Vec<u8> = (0..PATTERN_BYTES as u64).map(|at| mix(seed ^ at) as u8).collect();
        let (set_percent, keys) = load.sets.unwrap_or((0, 1));
        let path = load.path.as_deref().unwrap_or("/");
        Wire {
            protocol: load.protocol,
            pattern: period.iter().copied().cycle().take(PATTERN_BYTES + len).collect(),
            len,
            set_percent,
            keys: keys.max(1),
            seed,
            request: format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes(),
            response_len: 0,
            body: Vec::new(),
        }
    }

    /// Appends the request with this number of this connection.
    pub fn ask(&self, connection: u64, number: u64, out: &mut Vec<u8>) -> Asked {
        match self.protocol {
            Protocol::Echo => {
                let at = connection * STRIDE + number % PATTERN_BYTES as u64 * self.len as u64;
                let start = (at % PATTERN_BYTES as u64) as usize;
                out.extend_from_slice(&self.pattern[start..start + self.len]);
                Asked::Echo(start)
            }
            Protocol::Resp => {
                let chance = mix(self.seed ^ mix(connection << 40 ^ number));
                let key = (chance % u64::from(self.keys)) as u32;
                match (chance >> 32) % 100 < u64::from(self.set_percent) {
                    true => self.ask_set(key, out),
                    false => {
                        out.extend_from_slice(
                            format!("*2\r\n$3\r\nGET\r\n$14\r\nproactor:{key:05}\r\n").as_bytes(),
                        );
                        Asked::Get(key)
                    }
                }
            }
            Protocol::Http => {
                out.extend_from_slice(&self.request);
                Asked::Page
            }
        }
    }

    fn ask_set(&self, key: u32, out: &mut Vec<u8>) -> Asked {
        let head = format!("*3\r\n$3\r\nSET\r\n$14\r\nproactor:{key:05}\r\n${}\r\n", self.len);
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(self.value(key));
        out.extend_from_slice(b"\r\n");
        Asked::Set
    }

    /// Returns the only value that a key ever has.
    fn value(&self, key: u32) -> &[u8] {
        let start = (u64::from(key) * STRIDE % PATTERN_BYTES as u64) as usize;
        &self.pattern[start..start + self.len]
    }

    /// Returns the number of bytes of the response.
    pub fn response_len(&self, asked: Asked) -> usize {
        match asked {
            Asked::Echo(_) => self.len,
            Asked::Get(_) => self.value_head().len() + self.len + 2,
            Asked::Set => OK.len(),
            Asked::Page => self.response_len,
        }
    }

    fn value_head(&self) -> String {
        format!("${}\r\n", self.len)
    }

    /// Checks the response at the front of these bytes and returns its length. `None` if more bytes have to
    /// come.
    pub fn check(&self, asked: Asked, bytes: &[u8]) -> Result<Option<usize>, String> {
        match asked {
            Asked::Echo(start) => exactly(bytes, &[&self.pattern[start..start + self.len]]),
            Asked::Set => exactly(bytes, &[OK]),
            Asked::Get(key) => exactly(bytes, &[self.value_head().as_bytes(), self.value(key), b"\r\n"]),
            Asked::Page => {
                let Some(head_len) = head_len(bytes)? else {
                    return Ok(None);
                };
                let body_len = body_len(&bytes[..head_len])?;
                if body_len != self.body.len() {
                    return Err(format!(
                        "a body of {body_len} bytes after one of {}",
                        self.body.len()
                    ));
                }
                Ok(exactly(&bytes[head_len..], &[&self.body])?.map(|len| head_len + len))
            }
        }
    }

    fn store_all(&self, stream: &mut Stream) -> Result<(), String> {
        let failed = |e: std::io::Error| e.to_string();
        for key in 0..self.keys {
            let mut out = Vec::new();
            let asked = self.ask_set(key, &mut out);
            write_all(stream, &out).map_err(failed)?;
            let mut answer = vec![0; OK.len()];
            read_exact(stream, &mut answer).map_err(failed)?;
            self.check(asked, &answer)?;
        }
        Ok(())
    }
}

const OK: &[u8] = b"+OK\r\n";

/// Checks that bytes begin with these parts. `None` if they do as far as they go.
fn exactly(bytes: &[u8], parts: &[&[u8]]) -> Result<Option<usize>, String> {
    let mut at = 0;
    for part in parts {
        let have = &bytes[at.min(bytes.len())..];
        let len = have.len().min(part.len());
        if have[..len] != part[..len] {
            let wrong = have.iter().zip(*part).position(|(a, b)| a != b).unwrap_or(0);
            let shown: Vec<u8> = have[wrong..].iter().take(32).copied().collect();
            return Err(format!(
                "byte {} of a response is wrong: {:?}",
                at + wrong,
                String::from_utf8_lossy(&shown)
            ));
        }
        if len < part.len() {
            return Ok(None);
        }
        at += len;
    }
    Ok(Some(at))
}

fn head_len(bytes: &[u8]) -> Result<Option<usize>, String> {
    match bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        Some(at) => Ok(Some(at + 4)),
        None if bytes.len() > MAX_HEAD => Err("a response without the end of a head".into()),
        None => Ok(None),
    }
}

fn body_len(head: &[u8]) -> Result<usize, String> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("the server answered {status:?}, where 200 is expected"));
    }
    lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| "a response without Content-Length: other bodies are not supported".into())
}

fn with_timeout(stream: &Stream) -> std::io::Result<()> {
    match stream {
        Stream::Tcp(stream) => stream.set_read_timeout(Some(PATIENCE)),
        Stream::Unix(stream) => stream.set_read_timeout(Some(PATIENCE)),
    }
}

fn write_all(stream: &mut Stream, bytes: &[u8]) -> std::io::Result<()> {
    match stream {
        Stream::Tcp(stream) => stream.write_all(bytes),
        Stream::Unix(stream) => stream.write_all(bytes),
    }
}

fn read_exact(stream: &mut Stream, bytes: &mut [u8]) -> std::io::Result<()> {
    with_timeout(stream)?;
    match stream {
        Stream::Tcp(stream) => stream.read_exact(bytes),
        Stream::Unix(stream) => stream.read_exact(bytes),
    }
}

/// Returns the length of a complete response, and its body.
fn fetch(stream: &mut Stream, request: &[u8]) -> Result<(usize, Vec<u8>), String> {
    let failed = |e: std::io::Error| e.to_string();
    write_all(stream, request).map_err(failed)?;
    let mut head = Vec::new();
    while head_len(&head)?.is_none() {
        let mut byte = [0];
        read_exact(stream, &mut byte).map_err(failed)?;
        head.push(byte[0]);
    }
    let len = body_len(&head)?;
    let mut body = proactor_engine::memory::zeroed(len)
        .map_err(|_| format!("no memory for a response of {len} bytes, as its Content-Length says"))?;
    read_exact(stream, &mut body).map_err(failed)?;
    Ok((head.len() + body.len(), body))
}

#[cfg(test)]
mod tests {
    use super::super::load::tests::load;
    use super::*;

    fn wire(protocol: Protocol) -> Wire {
        let load = Load {
            sets: Some((50, 100)),
            ..load(protocol)
        };
        Wire::new(&load, &"7000".parse().unwrap(), 1)
    }

    #[test]
    fn a_response_of_an_absurd_length_is_an_error() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 1u64 << 62);
        theirs.write_all(head.as_bytes()).unwrap();
        let told = fetch(&mut Stream::Unix(ours), b"GET").unwrap_err();
        assert!(told.contains("no memory for a response of"), "{told}");
    }

    #[test]
    fn an_echo_is_checked_byte_by_byte() {
        let wire = wire(Protocol::Echo);
        let mut out = Vec::new();
        let asked = [wire.ask(0, 0, &mut out), wire.ask(0, 1, &mut out)];
        assert_eq!(wire.check(asked[0], &out).unwrap(), Some(512));
        assert_eq!(wire.check(asked[0], &out[..511]).unwrap(), None);
        assert_eq!(wire.check(asked[1], &out[512..]).unwrap(), Some(512));
        assert!(wire.check(asked[1], &out).is_err(), "the other message");
        let mut doubled = out.clone();
        doubled.insert(100, out[100]);
        assert!(wire.check(asked[0], &doubled).unwrap_err().contains("byte 10"));
        let mut other = Vec::new();
        wire.ask(1, 0, &mut other);
        assert!(wire.check(asked[0], &other).is_err(), "another connection's");
    }

    #[test]
    fn values_are_those_of_their_keys() {
        let wire = wire(Protocol::Resp);
        let kinds: Vec<Asked> = (0..200).map(|n| wire.ask(3, n, &mut Vec::new())).collect();
        let sets = kinds.iter().filter(|asked| **asked == Asked::Set).count();
        assert!((50..150).contains(&sets), "{sets}");
        let answer = |key| [b"$512\r\n", wire.value(key), b"\r\n"].concat();
        assert_eq!(
            wire.check(Asked::Get(7), &answer(7)).unwrap(),
            Some(answer(7).len())
        );
        assert_eq!(wire.response_len(Asked::Get(7)), answer(7).len());
        assert!(wire.check(Asked::Get(8), &answer(7)).is_err());
        assert!(
            wire.check(Asked::Get(7), b"$-1\r\n").is_err(),
            "a value that is not there"
        );
        assert!(wire.check(Asked::Set, b"-ERR no\r\n").is_err());
        assert_eq!(wire.check(Asked::Set, b"+O").unwrap(), None);
    }

    #[test]
    fn pages_have_the_same_body() {
        let mut wire = wire(Protocol::Http);
        wire.body = b"hello".to_vec();
        let page = |head: &str| [head.as_bytes(), b"\r\n\r\nhello"].concat();
        let good = page("HTTP/1.1 200 OK\r\ncontent-length: 5");
        assert_eq!(wire.check(Asked::Page, &good).unwrap(), Some(good.len()));
        assert_eq!(wire.check(Asked::Page, &good[..good.len() - 1]).unwrap(), None);
        assert_eq!(wire.check(Asked::Page, &good[..10]).unwrap(), None);
        let wrong = wire.check(Asked::Page, &page("HTTP/1.1 404 Not Found\r\nContent-Length: 5"));
        assert!(wrong.unwrap_err().contains("404 Not Found"));
        let chunked = wire.check(Asked::Page, &page("HTTP/1.1 200 OK"));
        assert!(chunked.unwrap_err().contains("Content-Length"));
    }
}
