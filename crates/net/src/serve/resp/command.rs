//! Commands: what each does with the keys, and its reply.

use super::request::Arguments;
use super::store::{integer, Keys, Refusal, NO_MEMORY};
use std::io::Write as _;

/// What a client sees beyond the reply.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum After {
    Nothing,
    /// The connection is closed when the reply is sent.
    Close,
}

/// A command's name, its least and its greatest number of arguments with the name, and what it does.
struct Command(
    &'static str,
    usize,
    usize,
    fn(&mut Keys, Arguments<'_>, &mut Vec<u8>) -> Result<(), Refusal>,
);

const ANY: usize = usize::MAX;

/// In order of their names, for the search.
const COMMANDS: &[Command] = &[
    Command("APPEND", 3, 3, |keys, args, out| {
        let len = keys.append(args.get(1), args.get(2))?;
        number(out, len as i64)
    }),
    Command("CLIENT", 2, ANY, |_, _, out| simple(out, "OK")),
    Command("COMMAND", 1, ANY, |_, args, out| {
        match args.len() > 1 && is(args.get(1), "COUNT") {
            true => number(out, COMMANDS.len() as i64),
            false => array(out, 0),
        }
    }),
    Command("CONFIG", 2, ANY, config),
    Command("DBSIZE", 1, 1, |keys, _, out| number(out, keys.len() as i64)),
    Command("DECR", 2, 2, |keys, args, out| add(keys, args.get(1), -1, out)),
    Command("DECRBY", 3, 3, |keys, args, out| {
        let by = integer(args.get(2))?.checked_neg();
        add(
            keys,
            args.get(1),
            by.ok_or("ERR the number does not fit into 64 bits")?,
            out,
        )
    }),
    Command("DEL", 2, ANY, remove),
    Command("ECHO", 2, 2, |_, args, out| bulk(out, args.get(1))),
    Command("EXISTS", 2, ANY, |keys, args, out| {
        number(out, args.from(1).filter(|key| keys.contains(key)).count() as i64)
    }),
    Command("FLUSHALL", 1, 2, flush),
    Command("FLUSHDB", 1, 2, flush),
    Command("GET", 2, 2, |keys, args, out| {
        optional(out, keys.get(args.get(1))?)
    }),
    Command("GETDEL", 2, 2, |keys, args, out| {
        optional(out, keys.get(args.get(1))?)?;
        keys.remove(args.get(1));
        Ok(())
    }),
    Command("GETSET", 3, 3, |keys, args, out| {
        let start = out.len();
        optional(out, keys.get(args.get(1))?)?;
        undone(keys.set(args.get(1), args.get(2)), out, start)
    }),
    Command("HELLO", 1, ANY, hello),
    Command("INCR", 2, 2, |keys, args, out| add(keys, args.get(1), 1, out)),
    Command("INCRBY", 3, 3, |keys, args, out| {
        add(keys, args.get(1), integer(args.get(2))?, out)
    }),
    Command("INFO", 1, ANY, |keys, _, out| {
        let text = format!(
            "# Server\r\nproactor_version:{}\r\n# Memory\r\nused_memory:{}\r\n# Keyspace\r\ndb0:keys={}\r\n",
            env!("CARGO_PKG_VERSION"),
            keys.used(),
            keys.len()
        );
        bulk(out, text.as_bytes())
    }),
    Command("LLEN", 2, 2, |keys, args, out| {
        number(out, keys.list(args.get(1))?.map_or(0, |list| list.len() as i64))
    }),
    Command("LPOP", 2, 2, |keys, args, out| pop(keys, args, true, out)),
    Command("LPUSH", 3, ANY, |keys, args, out| push(keys, args, true, out)),
    Command("LRANGE", 4, 4, range),
    Command("MGET", 2, ANY, |keys, args, out| {
        array(out, args.len() - 1)?;
        // A value of another kind is none.
        args.from(1)
            .try_for_each(|key| optional(out, keys.get(key).unwrap_or(None)))
    }),
    Command("MSET", 3, ANY, |keys, args, out| {
        if args.len() % 2 == 0 {
            return Err("ERR wrong number of arguments for MSET: a key has no value");
        }
        for at in (1..args.len()).step_by(2) {
            keys.set(args.get(at), args.get(at + 1))?;
        }
        simple(out, "OK")
    }),
    Command("PING", 1, 2, |_, args, out| match args.len() {
        1 => simple(out, "PONG"),
        _ => bulk(out, args.get(1)),
    }),
    Command("QUIT", 1, ANY, |_, _, out| simple(out, "OK")),
    Command("RPOP", 2, 2, |keys, args, out| pop(keys, args, false, out)),
    Command("RPUSH", 3, ANY, |keys, args, out| push(keys, args, false, out)),
    Command("SELECT", 2, 2, |_, args, out| match integer(args.get(1))? {
        0 => simple(out, "OK"),
        _ => Err("ERR there is one database, 0"),
    }),
    Command("SET", 3, ANY, set),
    Command("SETNX", 3, 3, |keys, args, out| {
        let is_new = !keys.contains(args.get(1));
        if is_new {
            keys.set(args.get(1), args.get(2))?;
        }
        number(out, i64::from(is_new))
    }),
    Command("STRLEN", 2, 2, |keys, args, out| {
        number(out, keys.get(args.get(1))?.map_or(0, |bytes| bytes.len() as i64))
    }),
    Command("TYPE", 2, 2, |keys, args, out| {
        simple(out, keys.kind(args.get(1)))
    }),
    Command("UNLINK", 2, ANY, remove),
];

/// The longest name.
const MAX_NAME: usize = 8;
/// What stands before and behind the bytes of a reply: a number and two line ends.
const MOST_AROUND: usize = 32;
/// Bytes of an unknown command that its error shows.
const SHOWN: usize = 64;

/// Does what a request asks for and adds its reply to `out`.
pub(super) fn execute(keys: &mut Keys, args: Arguments<'_>, out: &mut Vec<u8>) -> After {
    let name = args.get(0);
    let Some(command) = find(name) else {
        let shown = name[..name.len().min(SHOWN)].escape_ascii();
        error(out, &format!("ERR unknown command '{shown}'"));
        return After::Nothing;
    };
    let Command(name, least, most, run) = command;
    let start = out.len();
    if args.len() < *least || args.len() > *most {
        error(out, &format!("ERR wrong number of arguments for {name}"));
        return After::Nothing;
    }
    if let Err(why) = run(keys, args, out) {
        // Whatever there is of a reply.
        out.truncate(start);
        error(out, why);
    }
    match *name {
        "QUIT" => After::Close,
        _ => After::Nothing,
    }
}

fn find(name: &[u8]) -> Option<&'static Command> {
    let mut upper = [0; MAX_NAME];
    let upper = upper.get_mut(..name.len())?;
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    let at = COMMANDS.binary_search_by(|Command(name, ..)| name.as_bytes().cmp(upper));
    at.ok().map(|at| &COMMANDS[at])
}

fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// Adds an error, on one line.
pub(super) fn error(out: &mut Vec<u8>, text: &str) {
    out.push(b'-');
    out.extend_from_slice(text.as_bytes()); // allocates: a short text of ours
    out.extend_from_slice(b"\r\n"); // allocates: two bytes
}

fn simple(out: &mut Vec<u8>, text: &str) -> Result<(), Refusal> {
    out.push(b'+');
    out.extend_from_slice(text.as_bytes()); // allocates: a short text of ours
    out.extend_from_slice(b"\r\n"); // allocates: two bytes
    Ok(())
}

fn number(out: &mut Vec<u8>, number: i64) -> Result<(), Refusal> {
    // Writing to a vector cannot fail, here and below.
    let _ = write!(out, ":{number}\r\n");
    Ok(())
}

fn array(out: &mut Vec<u8>, len: usize) -> Result<(), Refusal> {
    let _ = write!(out, "*{len}\r\n");
    Ok(())
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Refusal> {
    out.try_reserve(bytes.len() + MOST_AROUND)
        .map_err(|_| NO_MEMORY)?;
    let _ = write!(out, "${}\r\n", bytes.len());
    // allocates: reserved above
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n"); // allocates: two bytes
    Ok(())
}

fn optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) -> Result<(), Refusal> {
    match bytes {
        Some(bytes) => bulk(out, bytes),
        None => {
            out.extend_from_slice(b"$-1\r\n"); // allocates: five bytes
            Ok(())
        }
    }
}

/// Takes the reply back if what it says was not done.
fn undone(done: Result<(), Refusal>, out: &mut Vec<u8>, start: usize) -> Result<(), Refusal> {
    done.inspect_err(|_| out.truncate(start))
}

fn add(keys: &mut Keys, key: &[u8], delta: i64, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let new = keys.add(key, delta)?;
    number(out, new)
}

fn remove(keys: &mut Keys, args: Arguments<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let count = args.from(1).filter(|key| keys.remove(key)).count();
    number(out, count as i64)
}

fn flush(keys: &mut Keys, _: Arguments<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    keys.clear();
    simple(out, "OK")
}

fn push(keys: &mut Keys, args: Arguments<'_>, front: bool, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let elements = (2..args.len()).map(|at| args.get(at));
    let len = keys.push(args.get(1), elements, front)?;
    number(out, len as i64)
}

/// The element stays where it is if there is no memory for the reply.
fn pop(keys: &mut Keys, args: Arguments<'_>, front: bool, out: &mut Vec<u8>) -> Result<(), Refusal> {
    optional(out, keys.end(args.get(1), front)?)?;
    keys.pop(args.get(1), front)?;
    Ok(())
}

fn range(keys: &mut Keys, args: Arguments<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let (start, stop) = (integer(args.get(2))?, integer(args.get(3))?);
    let Some(list) = keys.list(args.get(1))? else {
        return array(out, 0);
    };
    // Negative ones count from the end.
    let len = list.len() as i64;
    let from_start = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let start = from_start(start).min(len);
    let stop = match stop < -len {
        true => start,
        false => from_start(stop).saturating_add(1).clamp(start, len),
    };
    array(out, (stop - start) as usize)?;
    list.range(start as usize..stop as usize)
        .try_for_each(|one| bulk(out, one))
}

fn set(keys: &mut Keys, args: Arguments<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let (mut only_new, mut only_old, mut get) = (false, false, false);
    for option in args.from(3) {
        match option {
            _ if is(option, "NX") => only_new = true,
            _ if is(option, "XX") => only_old = true,
            _ if is(option, "GET") => get = true,
            _ if is(option, "KEEPTTL") => {}
            _ => return Err("ERR syntax error: SET takes NX, XX and GET here, and no time to live"),
        }
    }
    if only_new && only_old {
        return Err("ERR syntax error: NX and XX exclude each other");
    }
    let key = args.get(1);
    let start = out.len();
    if get {
        optional(out, keys.get(key)?)?;
    }
    let exists = (only_new || only_old) && keys.contains(key);
    if (only_new && exists) || (only_old && !exists) {
        return if get { Ok(()) } else { optional(out, None) };
    }
    undone(keys.set(key, args.get(2)), out, start)?;
    if get {
        Ok(())
    } else {
        simple(out, "OK")
    }
}

/// What benchmarks ask for.
fn config(_: &mut Keys, args: Arguments<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    const SETTINGS: &[(&str, &str)] = &[("appendonly", "no"), ("databases", "1"), ("save", "")];
    if !is(args.get(1), "GET") {
        return Err("ERR CONFIG has GET only: the options of `proactor serve` are set at its start");
    }
    let asked = |name: &str| args.from(2).any(|asked| is(asked, name) || asked == b"*");
    // allocates: an entry for each setting
    let found: Vec<_> = SETTINGS.iter().filter(|(name, _)| asked(name)).collect();
    array(out, 2 * found.len())?;
    for (name, value) in found {
        bulk(out, name.as_bytes())?;
        bulk(out, value.as_bytes())?;
    }
    Ok(())
}

fn hello(_: &mut Keys, args: Arguments<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
    if args.len() > 1 && args.get(1) != b"2" {
        return Err("NOPROTO the protocol is RESP2");
    }
    array(out, 6)?;
    for (name, value) in [("server", "proactor"), ("version", env!("CARGO_PKG_VERSION"))] {
        bulk(out, name.as_bytes())?;
        bulk(out, value.as_bytes())?;
    }
    bulk(out, b"proto")?;
    number(out, 2)
}

#[cfg(test)]
mod tests {
    use super::super::request::{Found, Request};
    use super::super::store::Store;
    use super::*;

    fn ask(store: &Store, line: &str) -> String {
        let line = format!("{line}\r\n").into_bytes();
        let mut request = Request::default();
        assert_eq!(request.read(&line), Found::Whole(line.len()));
        let mut out = Vec::new();
        execute(&mut store.lock(), request.arguments(&line), &mut out);
        String::from_utf8(out)
            .unwrap()
            .replace("\r\n", " ")
            .trim_end()
            .to_owned()
    }

    #[test]
    fn names_are_in_order_and_short() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(COMMANDS.iter().all(|command| command.0.len() <= MAX_NAME));
        assert!(find(b"get").is_some() && find(b"GETX").is_none() && find(b"").is_none());
    }

    #[test]
    fn each_command_replies() {
        let store = Store::new(1 << 20);
        for (line, reply) in [
            ("ping", "+PONG"),
            ("PING x", "$1 x"),
            ("ECHO abc", "$3 abc"),
            ("GET a", "$-1"),
            ("SET a 1", "+OK"),
            ("GET a", "$1 1"),
            ("SET a 2 NX", "$-1"),
            ("SET b 2 XX", "$-1"),
            ("SET a 2 GET XX", "$1 1"),
            (
                "SET a 2 EX 5",
                "-ERR syntax error: SET takes NX, XX and GET here, and no time to live",
            ),
            ("GETSET a 3", "$1 2"),
            ("SETNX a 4", ":0"),
            ("INCR a", ":4"),
            ("INCRBY a 10", ":14"),
            ("DECR a", ":13"),
            ("DECRBY a -2", ":15"),
            ("APPEND a x", ":3"),
            ("STRLEN a", ":3"),
            (
                "INCR a",
                "-ERR the value is no integer, or does not fit into 64 bits",
            ),
            ("RPUSH l a b c", ":3"),
            ("LPUSH l z", ":4"),
            ("LRANGE l 0 -1", "*4 $1 z $1 a $1 b $1 c"),
            ("LRANGE l -2 10", "*2 $1 b $1 c"),
            ("LRANGE l 2 1", "*0"),
            ("LRANGE l 0 -5", "*0"),
            ("LRANGE l -9 0", "*1 $1 z"),
            ("LRANGE l 9 9", "*0"),
            ("LRANGE none 0 1", "*0"),
            ("LLEN l", ":4"),
            ("LPOP l", "$1 z"),
            ("RPOP l", "$1 c"),
            ("GET l", "-WRONGTYPE the key holds a value of another kind"),
            ("LPUSH a x", "-WRONGTYPE the key holds a value of another kind"),
            ("MSET x 1 y 2", "+OK"),
            (
                "MSET x 1 y",
                "-ERR wrong number of arguments for MSET: a key has no value",
            ),
            ("MGET x l none y", "*4 $1 1 $-1 $-1 $1 2"),
            ("EXISTS x x none", ":2"),
            ("TYPE l", "+list"),
            ("DBSIZE", ":4"),
            ("GETDEL x", "$1 1"),
            ("DEL x y none", ":1"),
            ("UNLINK l", ":1"),
            ("SELECT 0", "+OK"),
            ("SELECT 1", "-ERR there is one database, 0"),
            ("CONFIG GET save", "*2 $4 save $0"),
            (
                "CONFIG SET save x",
                "-ERR CONFIG has GET only: the options of `proactor serve` are set at its start",
            ),
            ("CLIENT SETNAME x", "+OK"),
            ("COMMAND DOCS", "*0"),
            ("HELLO 3", "-NOPROTO the protocol is RESP2"),
            ("FLUSHALL", "+OK"),
            ("DBSIZE", ":0"),
            ("GET", "-ERR wrong number of arguments for GET"),
            ("ZADD a 1 b", "-ERR unknown command 'ZADD'"),
        ] {
            assert_eq!(ask(&store, line), reply, "{line}");
        }
    }

    #[test]
    fn a_reply_that_is_not_true_is_taken_back() {
        let store = Store::new(100);
        assert_eq!(ask(&store, "SET a 1"), "+OK");
        let long = "x".repeat(200);
        assert!(ask(&store, &format!("GETSET a {long}")).starts_with("-OOM"));
        assert!(ask(&store, &format!("SET a {long} GET")).starts_with("-OOM"));
        assert_eq!(ask(&store, "GET a"), "$1 1");
    }

    #[test]
    fn quit_closes() {
        let line = b"QUIT\r\n";
        let mut request = Request::default();
        assert_eq!(request.read(line), Found::Whole(6));
        let store = Store::new(100);
        let after = execute(&mut store.lock(), request.arguments(line), &mut Vec::new());
        assert_eq!(after, After::Close);
    }
}
