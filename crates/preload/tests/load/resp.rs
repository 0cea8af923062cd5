//! What clients say to a redis-server.

use super::client::Habit;
use super::dialogue::{byte_at, Dialogue};

/// Keys of a connection.
const KEYS: usize = 3;
const VALUE_BYTES: [usize; 6] = [1, 100, 4000, 10, 20_000, 1000];

/// Commands in one piece, and all answers to them.
struct Resp {
    commands: Vec<u8>,
    answers: Vec<u8>,
    received: usize,
}

/// Values of `len` bytes in all that are set, and asked for again, on keys of the connection's own.
pub fn resp(number: usize, habit: Habit, len: usize) -> Box<dyn Dialogue> {
    let mut dialogue = Resp {
        commands: Vec::new(),
        answers: Vec::new(),
        received: 0,
    };
    let keys: Vec<String> = (0..KEYS).map(|key| format!("{number}-{key}")).collect();
    let mut at = 0;
    let mut turn = number;
    while at < len {
        let end = len.min(at + VALUE_BYTES[turn % VALUE_BYTES.len()]);
        let value: Vec<u8> = (at..end).map(|position| byte_at(number, position)).collect();
        let key = keys[turn % KEYS].as_bytes();
        dialogue.say(&[b"SET", key, &value], b"+OK\r\n");
        dialogue.say(&[b"GET", key], &bulk(&value));
        (at, turn) = (end, turn + 1);
    }
    // The server has no more memory in use afterwards. How many there were is known by a value that is set first.
    dialogue.say(&[b"SET", keys[0].as_bytes(), b""], b"+OK\r\n");
    dialogue.say(&[b"GETDEL", keys[0].as_bytes()], &bulk(b""));
    for key in &keys[1..] {
        dialogue.say(&[b"SET", key.as_bytes(), b""], b"+OK\r\n");
        dialogue.say(&[b"DEL", key.as_bytes()], b":1\r\n");
    }
    if habit == Habit::ServerFirst {
        dialogue.say(&[b"QUIT"], b"+OK\r\n");
    }
    Box::new(dialogue)
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

impl Resp {
    fn say(&mut self, words: &[&[u8]], answer: &[u8]) {
        self.commands
            .extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.commands.extend(bulk(word));
        }
        self.answers.extend_from_slice(answer);
    }
}

impl Dialogue for Resp {
    fn total(&self) -> usize {
        self.commands.len()
    }

    fn outgoing(&self, at: usize, most: usize) -> Vec<u8> {
        self.commands[at..self.commands.len().min(at + most)].to_vec()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let expected = self.answers.get(self.received..self.received + bytes.len());
        if expected != Some(bytes) {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
            let wanted = expected.map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
            return Err(format!("{start:?} instead of {wanted:?}"));
        }
        self.received += bytes.len();
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.received == self.answers.len()
    }

    fn ends_last(&self) -> bool {
        true
    }
}
