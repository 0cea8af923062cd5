//! Keys and values in memory, and what they use of it.

use proactor_engine::memory;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of keys and values, if nothing else is said.
pub const DEFAULT_MAX_MEMORY: usize = 1 << 30;
/// What an entry of the map, or of a list, uses beside its bytes; an estimate.
const ENTRY_BYTES: usize = 64;

/// The key-value store that the connections of all workers share.
#[derive(Debug)]
pub struct Store(Mutex<Keys>);

impl Store {
    /// Makes an empty store of at most about `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Store(Mutex::new(Keys {
            keys: HashMap::new(),
            used: 0,
            max_bytes,
        }))
    }

    /// The keys, for as long as one batch of requests takes.
    pub(super) fn lock(&self) -> MutexGuard<'_, Keys> {
        // A panic leaves counts that may be wrong, but values that are whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) enum Value {
    Bytes(Vec<u8>),
    List(VecDeque<Vec<u8>>),
}

impl Value {
    fn len_bytes(&self) -> usize {
        match self {
            Value::Bytes(bytes) => bytes.len(),
            Value::List(list) => list.iter().map(|one| one.len() + ENTRY_BYTES).sum(),
        }
    }
}

/// Why a request is refused: what the reply says after its `-`.
pub(super) type Refusal = &'static str;

const WRONG_TYPE: Refusal = "WRONGTYPE the key holds a value of another kind";
const NO_INTEGER: Refusal = "ERR the value is no integer, or does not fit into 64 bits";
pub(super) const NO_MEMORY: Refusal = "OOM the server has no memory for it";
const FULL: Refusal = "OOM the store is full (--max-memory): delete keys first";

#[derive(Debug)]
pub(super) struct Keys {
    keys: HashMap<Box<[u8]>, Value>,
    /// Bytes of all keys and values, estimated.
    used: usize,
    max_bytes: usize,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.used = 0;
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// What kind of value a key has.
    pub(super) fn kind(&self, key: &[u8]) -> &'static str {
        match self.keys.get(key) {
            None => "none",
            Some(Value::Bytes(_)) => "string",
            Some(Value::List(_)) => "list",
        }
    }

    /// Whether there is room for so many bytes more.
    fn check_room(&self, more: usize) -> Result<(), Refusal> {
        (self.used + more <= self.max_bytes).then_some(()).ok_or(FULL)
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, Refusal> {
        match self.keys.get(key) {
            None => Ok(None),
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Value::List(_)) => Err(WRONG_TYPE),
        }
    }

    /// Sets a key, whatever it held before.
    pub(super) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        if let Some(Value::Bytes(old)) = self.keys.get_mut(key) {
            if self.used + value.len() - old.len() > self.max_bytes {
                return Err(FULL);
            }
            let more = value.len().saturating_sub(old.len());
            old.try_reserve(more).map_err(|_| NO_MEMORY)?;
            self.used = self.used + value.len() - old.len();
            old.clear();
            // allocates: reserved above
            old.extend_from_slice(value);
            old.shrink_to(value.len().saturating_mul(2));
            return Ok(());
        }
        let more = key.len() + value.len() + ENTRY_BYTES;
        self.check_room(more)?;
        let (name, value) = (copied(key)?, copied(value)?);
        self.keys.try_reserve(1).map_err(|_| NO_MEMORY)?;
        self.remove(key);
        self.keys.insert(name.into(), Value::Bytes(value));
        self.used += more;
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(old) = self.keys.remove(key) else {
            return false;
        };
        self.used -= key.len() + old.len_bytes() + ENTRY_BYTES;
        true
    }

    /// Adds to the integer that a key holds; one that is not there is 0.
    pub(super) fn add(&mut self, key: &[u8], delta: i64) -> Result<i64, Refusal> {
        let old = match self.get(key)? {
            None => 0,
            Some(bytes) => integer(bytes)?,
        };
        let new = old.checked_add(delta).ok_or(NO_INTEGER)?;
        self.set(key, new.to_string().as_bytes())?;
        Ok(new)
    }

    /// Appends to a key's bytes, and returns how many those are then.
    pub(super) fn append(&mut self, key: &[u8], more: &[u8]) -> Result<usize, Refusal> {
        if self.get(key)?.is_none() {
            self.set(key, more)?;
            return Ok(more.len());
        }
        self.check_room(more.len())?;
        match self.keys.get_mut(key) {
            Some(Value::Bytes(bytes)) => {
                memory::append(bytes, more).map_err(|_| NO_MEMORY)?;
                self.used += more.len();
                Ok(bytes.len())
            }
            _ => Err(WRONG_TYPE),
        }
    }

    /// Adds elements to an end of a list, which is made if it is not there, and returns its length.
    pub(super) fn push<'a>(
        &mut self,
        key: &[u8],
        elements: impl Iterator<Item = &'a [u8]> + Clone,
        front: bool,
    ) -> Result<usize, Refusal> {
        let more: usize = elements.clone().map(|one| one.len() + ENTRY_BYTES).sum();
        let is_new = !self.keys.contains_key(key);
        let more = more + if is_new { key.len() + ENTRY_BYTES } else { 0 };
        self.check_room(more)?;
        // Nothing is changed before all of it is there.
        let elements = memory::collect(elements.map(copied), || NO_MEMORY)?;
        let list = match is_new {
            true => self.make_list(key, elements.len())?,
            false => self.list_to_grow(key, elements.len())?,
        };
        for one in elements {
            if front {
                list.push_front(one);
            } else {
                list.push_back(one);
            }
        }
        let len = list.len();
        self.used += more;
        Ok(len)
    }

    /// An empty list under a new key, with room for so many elements.
    fn make_list(&mut self, key: &[u8], len: usize) -> Result<&mut VecDeque<Vec<u8>>, Refusal> {
        let mut list = VecDeque::new();
        list.try_reserve(len).map_err(|_| NO_MEMORY)?;
        let name = copied(key)?;
        self.keys.try_reserve(1).map_err(|_| NO_MEMORY)?;
        match self.keys.entry(name.into()).or_insert(Value::List(list)) {
            Value::List(list) => Ok(list),
            Value::Bytes(_) => Err(WRONG_TYPE),
        }
    }

    /// The list of a key, with room for so many elements more.
    fn list_to_grow(&mut self, key: &[u8], more: usize) -> Result<&mut VecDeque<Vec<u8>>, Refusal> {
        let Some(Value::List(list)) = self.keys.get_mut(key) else {
            return Err(WRONG_TYPE);
        };
        list.try_reserve(more).map_err(|_| NO_MEMORY)?;
        Ok(list)
    }

    /// The element at an end of a list.
    pub(super) fn end(&self, key: &[u8], front: bool) -> Result<Option<&[u8]>, Refusal> {
        let list = self.list(key)?;
        let one = list.and_then(|list| if front { list.front() } else { list.back() });
        Ok(one.map(Vec::as_slice))
    }

    /// Takes an element from an end of a list; the key goes with the last one.
    pub(super) fn pop(&mut self, key: &[u8], front: bool) -> Result<Option<Vec<u8>>, Refusal> {
        let list = match self.keys.get_mut(key) {
            None => return Ok(None),
            Some(Value::Bytes(_)) => return Err(WRONG_TYPE),
            Some(Value::List(list)) => list,
        };
        let one = if front { list.pop_front() } else { list.pop_back() };
        let is_empty = list.is_empty();
        self.used -= one.as_ref().map_or(0, |one| one.len() + ENTRY_BYTES);
        if is_empty {
            self.remove(key);
        }
        Ok(one)
    }

    pub(super) fn list(&self, key: &[u8]) -> Result<Option<&VecDeque<Vec<u8>>>, Refusal> {
        match self.keys.get(key) {
            None => Ok(None),
            Some(Value::List(list)) => Ok(Some(list)),
            Some(Value::Bytes(_)) => Err(WRONG_TYPE),
        }
    }
}

/// Reads an integer as a value or as an argument: digits, perhaps with a minus, and nothing else.
/// A copy of what a client has sent.
fn copied(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| NO_MEMORY)?;
    // allocates: reserved above
    copy.extend_from_slice(bytes);
    Ok(copy)
}

pub(super) fn integer(bytes: &[u8]) -> Result<i64, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| NO_INTEGER)?;
    if text.starts_with('+') {
        return Err(NO_INTEGER);
    }
    text.parse().map_err(|_| NO_INTEGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_counted_and_bounded() {
        let store = Store::new(1000);
        let mut keys = store.lock();
        keys.set(b"a", b"12").unwrap();
        keys.set(b"a", b"12345").unwrap();
        keys.append(b"a", b"6").unwrap();
        assert_eq!(keys.used(), 1 + 6 + ENTRY_BYTES);
        let elements: [&[u8]; 3] = [b"x", b"yy", b"zzz"];
        keys.push(b"l", elements.into_iter(), true).unwrap();
        assert_eq!(keys.set(b"b", &[0; 900]), Err(FULL));
        assert_eq!(keys.append(b"a", &[0; 900]), Err(FULL));
        let big = [&[0u8; 900][..]];
        assert_eq!(keys.push(b"l", big.into_iter(), false), Err(FULL));
        assert_eq!(keys.pop(b"l", true).unwrap().unwrap(), b"zzz");
        keys.set(b"l", b"now bytes").unwrap();
        assert!(keys.remove(b"l") && keys.remove(b"a") && !keys.remove(b"a"));
        assert_eq!((keys.used(), keys.len()), (0, 0));
    }

    #[test]
    fn a_list_that_is_empty_is_gone() {
        let store = Store::new(1000);
        let mut keys = store.lock();
        let one = [&b"x"[..]];
        keys.push(b"l", one.into_iter(), false).unwrap();
        assert_eq!(keys.kind(b"l"), "list");
        keys.pop(b"l", false).unwrap();
        assert_eq!((keys.kind(b"l"), keys.used()), ("none", 0));
    }

    #[test]
    fn integers() {
        for (text, is) in [
            ("0", true),
            ("-7", true),
            ("+7", false),
            ("", false),
            ("1 ", false),
        ] {
            assert_eq!(integer(text.as_bytes()).is_ok(), is, "{text}");
        }
        let store = Store::new(1000);
        let mut keys = store.lock();
        assert_eq!(keys.add(b"n", i64::MAX), Ok(i64::MAX));
        assert_eq!(keys.add(b"n", 1), Err(NO_INTEGER));
    }
}
