//! The arguments of the kernel's tracepoints, from its types (BTF): their order differs from kernel to
//! kernel. A program that took another argument for the one it means would count wrong and not fail.
//!
//! Reads the format as the kernel documents it (Documentation/bpf/btf.rst), and of the types only what names
//! them.

/// One type.
#[derive(Clone, Copy)]
struct Type {
    name: usize,
    kind: u32,
    count: usize,
    /// Type that this one is made of, for kinds that have one.
    of: usize,
    /// Offset of the data that follows.
    rest: usize,
}

/// The types of a kernel.
pub(super) struct Types<'a> {
    bytes: &'a [u8],
    strings: usize,
    /// Types in the order of their numbers, from 1.
    types: Vec<Type>,
}

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;
const PTR: u32 = 2;
const STRUCT: u32 = 4;
const TYPEDEF: u32 = 8;
const FUNC_PROTO: u32 = 13;
/// Kinds that qualify the type that follows: volatile, const, restrict and a tag.
const MARKS: [u32; 4] = [9, 10, 11, 18];
/// Upper bound on nested pointers: no argument of a tracepoint has more, and a broken table could loop for
/// ever.
const DEEPEST: usize = 8;

impl<'a> Types<'a> {
    /// Parses the contents of `/sys/kernel/btf/vmlinux`.
    pub fn read(bytes: &'a [u8]) -> Option<Types<'a>> {
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let header = word(bytes, 4)?;
        if magic != MAGIC || header < HEADER_BYTES {
            return None;
        }
        let mut at = header.checked_add(word(bytes, 8)?)?;
        let end = at.checked_add(word(bytes, 12)?)?;
        let strings = header.checked_add(word(bytes, 16)?)?;
        let mut types = Vec::new();
        while at < end {
            let info = word(bytes, at + 4)?;
            let one = Type {
                name: word(bytes, at)?,
                kind: (info >> 24) as u32 & 0x1f,
                count: info & 0xffff,
                of: word(bytes, at + 8)?,
                rest: at + TYPE_BYTES,
            };
            types.push(one);
            at = one.rest + one.rest_bytes()?;
        }
        Some(Types {
            bytes,
            strings,
            types,
        })
    }

    /// Returns the arguments of a tracepoint, such as `struct task_struct *`; `None` if there is no such
    /// tracepoint.
    pub fn arguments(&self, tracepoint: &str) -> Option<Vec<String>> {
        let name = format!("btf_trace_{tracepoint}");
        let mut all = self.types.iter();
        let typedef = all.find(|t| t.kind == TYPEDEF && self.text(t.name) == name)?;
        let function = self.get(self.get(typedef.of)?.of)?;
        if function.kind != FUNC_PROTO {
            return None;
        }
        // The first is what was registered with the tracepoint, which BPF does not get.
        let one = |i: usize| Some(self.words(word(self.bytes, function.rest + i * 8 + 4)?, 0));
        (1..function.count).map(one).collect()
    }

    fn get(&self, number: usize) -> Option<Type> {
        self.types.get(number.checked_sub(1)?).copied()
    }

    fn words(&self, number: usize, deep: usize) -> String {
        let Some(one) = self.get(number).filter(|_| deep < DEEPEST) else {
            return "void".into();
        };
        match one.kind {
            PTR => self.words(one.of, deep + 1) + " *",
            STRUCT => format!("struct {}", self.text(one.name)),
            kind if MARKS.contains(&kind) => self.words(one.of, deep + 1),
            _ => self.text(one.name).to_owned(),
        }
    }

    fn text(&self, offset: usize) -> &str {
        let rest = self.bytes.get(self.strings + offset..).unwrap_or_default();
        let end = rest.iter().position(|b| *b == 0).unwrap_or(0);
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }
}

impl Type {
    /// Returns the number of bytes that follow. `None` for an unknown kind, so that the next type cannot be
    /// found.
    fn rest_bytes(&self) -> Option<usize> {
        Some(match self.kind {
            1 | 14 | 17 => 4,
            3 => 12,
            STRUCT | 5 | 15 | 19 => self.count * 12,
            6 | FUNC_PROTO => self.count * 8,
            PTR | 7..=12 | 16 | 18 => 0,
            _ => return None,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_ne_bytes(four) as usize)
}

/// A tracepoint and the arguments that the program expects: index and type.
type Wanted = (&'static str, &'static [(usize, &'static str)]);

/// Arguments of `sched_switch` since Linux 5.18, which put the state of the thread that leaves after the
/// others.
pub(super) const SWITCHES: Wanted = (
    "sched_switch",
    &[
        (1, "struct task_struct *"),
        (2, "struct task_struct *"),
        (3, "unsigned int"),
    ],
);
/// Arguments of io_uring's tracepoints since Linux 6.3.
pub(super) const OPS: [Wanted; 3] = [
    ("io_uring_submit_req", &[(0, "struct io_kiocb *")]),
    ("io_uring_complete", &[(1, "void *")]),
    ("io_uring_queue_async_work", &[(0, "struct io_kiocb *")]),
];

/// Checks that a tracepoint has the arguments that the program expects.
///
/// # Errors
/// A sentence with the arguments that it has instead.
pub(super) fn check(types: &Types<'_>, (name, wanted): Wanted, since: &str) -> Result<(), String> {
    let Some(found) = types.arguments(name) else {
        return Err(format!(
            "this kernel has no tracepoint {name}: it takes Linux {since}"
        ));
    };
    match wanted.iter().find(|(place, kind)| found.get(*place).map(String::as_str) != Some(kind)) {
        None => Ok(()),
        Some((place, kind)) => Err(format!(
            "the tracepoint {name} of this kernel has the arguments ({}), and number {} is to be {kind}: it takes Linux {since}",
            found.join(", "),
            place + 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of types, as a compiler would make it.
    #[derive(Default)]
    struct Made {
        types: Vec<u8>,
        strings: Vec<u8>,
        count: u32,
    }

    impl Made {
        fn new() -> Made {
            Made {
                strings: vec![0],
                ..Made::default()
            }
        }

        fn name(&mut self, text: &str) -> u32 {
            let at = self.strings.len() as u32;
            self.strings.extend(text.bytes().chain([0]));
            at
        }

        fn add(&mut self, name: &str, kind: u32, count: u32, of: u32, rest: &[u32]) -> u32 {
            let name = if name.is_empty() { 0 } else { self.name(name) };
            for word in [name, kind << 24 | count, of].iter().chain(rest) {
                self.types.extend(word.to_ne_bytes());
            }
            self.count += 1;
            self.count
        }

        fn tracepoint(&mut self, name: &str, arguments: &[u32]) {
            let parameters: Vec<u32> = [0].iter().chain(arguments).flat_map(|of| [0, *of]).collect();
            let function = self.add("", FUNC_PROTO, parameters.len() as u32 / 2, 0, &parameters);
            let pointer = self.add("", PTR, 0, function, &[]);
            self.add(&format!("btf_trace_{name}"), TYPEDEF, 0, pointer, &[]);
        }

        fn bytes(&self) -> Vec<u8> {
            let lengths = [self.types.len() as u32, self.strings.len() as u32];
            let words = [HEADER_BYTES as u32, 0, lengths[0], lengths[0], lengths[1]];
            let mut bytes = MAGIC.to_ne_bytes().to_vec();
            bytes.extend([1, 0]);
            bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            bytes.extend(&self.types);
            bytes.extend(&self.strings);
            bytes
        }
    }

    /// Encodes `sched_switch` as before 5.18, at first in 5.18, and since.
    fn switches(order: &[&str]) -> Vec<u8> {
        let mut made = Made::new();
        // Others between, of kinds that are followed by data.
        let int = made.add("unsigned int", 1, 0, 4, &[32]);
        made.add("", 3, 0, 0, &[int, int, 8]);
        let task = made.add("task_struct", STRUCT, 2, 8, &[0, int, 0, 0, int, 32]);
        made.add("colour", 6, 1, 4, &[0, 7]);
        let constant = made.add("", 10, 0, task, &[]);
        let pointer = made.add("", PTR, 0, constant, &[]);
        let yes = made.add("bool", TYPEDEF, 0, int, &[]);
        let of = |name: &&str| match *name {
            "bool" => yes,
            "task" => pointer,
            _ => int,
        };
        let arguments: Vec<u32> = order.iter().map(of).collect();
        made.tracepoint("sched_switch", &arguments);
        made.bytes()
    }

    #[test]
    fn a_switch_without_its_state_is_refused() {
        let new = switches(&["bool", "task", "task", "state"]);
        let types = Types::read(&new).unwrap();
        assert_eq!(
            types.arguments("sched_switch").unwrap(),
            [
                "bool",
                "struct task_struct *",
                "struct task_struct *",
                "unsigned int"
            ]
        );
        assert_eq!(check(&types, SWITCHES, "5.18"), Ok(()));
        for order in [&["bool", "task", "task"][..], &["bool", "state", "task", "task"]] {
            let old = switches(order);
            let said = check(&Types::read(&old).unwrap(), SWITCHES, "5.18").unwrap_err();
            assert!(
                said.contains("sched_switch of this kernel has the arguments (bool, "),
                "{said}"
            );
            assert!(said.ends_with("it takes Linux 5.18"), "{said}");
        }
    }

    #[test]
    fn a_tracepoint_that_is_not_there() {
        let bytes = switches(&["bool"]);
        let types = Types::read(&bytes).unwrap();
        assert_eq!(types.arguments("sched"), None);
        let said = check(&types, OPS[0], "6.3").unwrap_err();
        assert!(said.contains("no tracepoint io_uring_submit_req"), "{said}");
    }

    #[test]
    fn what_is_no_table() {
        let whole = switches(&["bool", "task", "task", "state"]);
        assert!(Types::read(&[]).is_none());
        assert!(Types::read(&whole[1..]).is_none());
        // Cut anywhere, it is refused or has fewer types; it never reads beyond its end.
        for end in 0..whole.len() {
            if let Some(types) = Types::read(&whole[..end]) {
                let _ = types.arguments("sched_switch");
            }
        }
        let mut strange = Made::new();
        strange.add("new", 31, 0, 0, &[]);
        assert!(
            Types::read(&strange.bytes()).is_none(),
            "an unknown kind has an unknown length"
        );
    }
}
