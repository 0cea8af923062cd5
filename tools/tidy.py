"""The repository's own rules, those that no other linter knows. Run by the tests and by `make lint`.

Walls between crates and between the rooms of the engine and of the copier (ARCHITECTURE.md), file lengths,
one version everywhere, and nothing in tracked files that is true on one machine only.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 500
LENGTH_CHECKED = {".rs", ".py", ".pyi", ".sh", ".toml", ".md"}

# What a program writes, as long as it likes.
GENERATED = ("docs/speed.md", "comparisons/results/")

# Summaries of comparisons: their rounds are in a folder that git ignores.
RESULTS = "comparisons/results/"
MAX_RESULT_LINES = 300

# Files that may be longer: path -> why.
LONG = {
    "python/proactor/_native.pyi": "one module, and a stub cannot be split",
}

# Which of our crates each may depend on. A crate that is not here may not exist.
CRATES = {
    "proactor-engine": set[str](),
    "proactor-file": {"proactor-engine"},
    "proactor-net": {"proactor-engine"},
    "proactor-tokio": {"proactor-engine"},
    "proactor-preload": {"proactor-engine", "proactor-net"},
    "proactor-copy": {"proactor-engine"},
    "proactor-bench": {"proactor-engine", "proactor-net"},
    "proactor": {"proactor-engine", "proactor-net", "proactor-copy", "proactor-bench"},
    "proactor-python": {
        "proactor-engine",
        "proactor-file",
        "proactor-net",
        "proactor-copy",
        "proactor-bench",
        "proactor",
    },
}

ENGINE = "crates/engine/src/"
BACKENDS = ("uring", "linux_aio", "posix_aio", "threads", "sim")

COPY = "crates/copy/src/"
# From the bottom upwards. A folder of the copier names only what stands before it here, and itself.
COPY_FOLDERS = (
    "select",
    "api",
    "sys",
    "context",
    "pair",
    "data",
    "metadata",
    "job",
    "resume",
    "entry",
    "uring",
    "walk",
    "operands",
    "shards",
)

# What each room of the engine, a file or a directory, must not name: modules as paths from the crate's root.
WALLS: dict[str, tuple[str, ...]] = {
    "op": ("backend",),
    "buffer": ("op", "backend", "driver", "inflight"),
    "inflight": ("backend",),
    "inline": ("backend",),
    "ring": ("op", "backend", "inflight", "inline", "probe"),
    "fs": ("backend", "driver", "inflight", "inline", "ring", "sys"),
    "driver": tuple(f"backend::{name}" for name in BACKENDS),
    "backend/helper": tuple(f"backend::{name}" for name in BACKENDS),
    # It knows op types: `perform.rs` is any op by plain system calls.
    "sys": ("backend", "driver", "inflight", "inline", "ring"),
}
for _name in BACKENDS:
    WALLS[f"backend/{_name}"] = tuple(f"backend::{other}" for other in BACKENDS if other != _name)

COPY_WALLS = {folder: COPY_FOLDERS[place + 1 :] for place, folder in enumerate(COPY_FOLDERS)}
COPY_WALLS["sys"] += ("api", "select")
# It gets two open files, and says what it did with them.
COPY_WALLS["data"] += ("pair", "api::error")
COPY_WALLS["job"] += ("context", "data", "metadata")
COPY_WALLS["resume/journal"] = ("api", "context", "job", *COPY_WALLS["resume"])
INSIDE = {ENGINE: WALLS, COPY: COPY_WALLS}

# Where a size that a file or a caller gives must not abort the process: memory for it is reserved fallibly.
FALLIBLE = tuple(f"crates/{name}/src/" for name in ("engine", "file", "net", "preload", "python"))
NOT_FALLIBLE = (
    # Devices of tests.
    "crates/engine/src/backend/sim/",
    "crates/net/src/backend/sim",
    "crates/net/src/simulator/",
    # Sized by the machine and by what a server is started with, before it serves.
    *(
        f"crates/net/src/{name}.rs"
        for name in ("address", "bind", "group", "placement", "probe", "threads", "topology", "worker")
    ),
)
# What aborts, or panics, without memory. The group is the size, where it may be a constant.
INFALLIBLE = re.compile(
    r"\b(?:Vec|VecDeque|String|HashMap)(?:::<[^>]*>)?::with_capacity\(([^()]*(?:\([^()]*\)[^()]*)*)\)"
    r"|\bvec!\[[^;\]]*;\s*([^\]]*)\]"
    r"|\.(?:reserve|reserve_exact)\(([^()]*(?:\([^()]*\)[^()]*)*)\)"
    r"|\.(?:resize|resize_with)\(([^,]*),"
    r"|\.(?:extend|extend_from_slice|extend_from_within|splice|repeat)\("
    r"|(?<!\bself)(?<!\bthis)\.collect(?:::<[^;()]*>)?\(\)"
    r"|\.(?:to_vec|concat)\(\)"
    r"|\b(?:str|CStr|OsStr|Path|slice)::(?:to_owned|to_vec)\b"
    r"|\b(?:CString::new|OsString::from|PathBuf::from)\("
    r"|\bPy(?:Bytes|ByteArray)::new\(\s*py, (?!b\")"
    r"|\bAlignedBuf::(?:new|zeroed)\("
)
# A literal, or names of constants.
CONSTANT = re.compile(r"[A-Z0-9_ +*<()]+(?: as usize)?")
# The comment that allows one, on its line or above: why the size is bounded, or the memory there.
ALLOWED = re.compile(r"//\s*allocates:\s*\w")

# Home and work directories, and the hosts of package registries.
LOCAL = re.compile(
    r"(?<![\w.}*-])/(?:root|home|work)/\w"
    r"|\b(?:pypi\.org|pythonhosted\.org|(?:index|static)\.crates\.io|deb\.debian\.org|registry\.npmjs\.org)\b"
)
BINARY = {".png", ".gif", ".svg"}


def tracked(root: Path) -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return sorted(path for path in set(done.stdout.splitlines()) if (root / path).is_file())


def code_of(rust: str) -> str:
    """Rust without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", rust, flags=re.DOTALL)


def named_paths(file: str, rust: str) -> set[str]:
    """Every path inside its crate that a file names, from the crate's root: `backend::uring::ring`."""
    module = file.removesuffix(".rs").removesuffix("/mod").split("/")
    found = set()
    for match in re.finditer(r"\b(crate|(?:super::)*super)::([\w:]*)(\{[^;]*\})?", code_of(rust)):
        start, middle, group = match.groups()
        base = [] if start == "crate" else module[: -(start.count("super"))]
        prefix = "::".join(base + [part for part in middle.split("::") if part])
        found.add(prefix)
        found.update(f"{prefix}::{name}".lstrip(":") for name in _expand(group or ""))
    return found


def _expand(group: str) -> Iterator[str]:
    """The paths in a `{a, b::{c, d}}`."""
    prefixes: list[str] = []
    word = ""
    for character in re.sub(r"\s", "", group):
        if character == "{":
            prefixes.append(word)
            word = ""
        elif character in ",}":
            if word:
                yield "".join(prefixes) + word
            word = ""
            if character == "}":
                prefixes.pop()
        else:
            word += character


def walls_in_crates(root: Path, paths: list[str]) -> Iterator[str]:
    for path in paths:
        crate = next((crate for crate in INSIDE if path.startswith(crate)), None)
        if crate is None or not path.endswith(".rs"):
            continue
        file = path.removeprefix(crate)
        named = named_paths(file, (root / path).read_text())
        for room, forbidden in INSIDE[crate].items():
            if not file.startswith((f"{room}.rs", f"{room}/")):
                continue
            for other in forbidden:
                if any(name == other or name.startswith(f"{other}::") for name in named):
                    yield f"{path}: must not know {other} (ARCHITECTURE.md)"


def walls_between_crates(root: Path) -> Iterator[str]:
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version=1"]
    data = json.loads(subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout)
    changelog = re.search(r"^## \[(.+?)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    for package in data["packages"]:
        name, version = package["name"], package["version"]
        if name not in CRATES:
            yield f"crate {name}: say in tools/tidy.py what it may depend on"
            continue
        # Development dependencies too: a test of a room looks no further than the room.
        ours = {dependency["name"] for dependency in package["dependencies"]} & CRATES.keys()
        for other in sorted(ours - CRATES[name] - {name}):
            yield f"crate {name}: must not depend on {other}"
        if changelog is None or changelog[1] != version:
            yield f"crate {name}: version {version} is not the first in CHANGELOG.md"


def lengths(root: Path, paths: list[str]) -> Iterator[str]:
    for path in paths:
        if Path(path).suffix not in LENGTH_CHECKED or path.startswith(GENERATED):
            continue
        lines = (root / path).read_bytes().count(b"\n")
        if lines > MAX_LINES and path not in LONG:
            yield f"{path}: {lines} lines; split it, or give the reason in tools/tidy.py"
        if lines <= MAX_LINES and path in LONG:
            yield f"{path}: short enough now; take it out of tools/tidy.py"
    yield from (f"{path}: in tools/tidy.py, but gone" for path in LONG if path not in paths)


def results(root: Path, paths: list[str]) -> Iterator[str]:
    for path in paths:
        if path.startswith(RESULTS):
            lines = (root / path).read_bytes().count(b"\n")
            if lines > MAX_RESULT_LINES:
                yield f"{path}: {lines} lines; keep a summary, and the rounds outside the tree"


def local_names(root: Path, paths: list[str]) -> Iterator[str]:
    for path in paths:
        if Path(path).suffix in BINARY:
            continue
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            match = LOCAL.search(line)
            if match:
                yield f"{path}:{number}: {match[0]} is of one machine or one registry"


def without_tests(rust: str) -> str:
    """Rust with blank lines in place of its modules of tests."""
    kept, at = "", 0
    for start in re.finditer(r"#\[cfg\(test\)\]\s*(?:pub(?:\(\w+\))? )?mod \w+ \{", rust):
        if start.start() < at:
            continue
        # By rustfmt, the brace that ends it has the same indentation.
        indentation = rust[rust.rfind("\n", 0, start.start()) + 1 : start.start()]
        end = rust.find(f"\n{indentation}}}", start.end())
        end = len(rust) if end < 0 else end + len(indentation) + 2
        kept += rust[at : start.start()] + "\n" * rust.count("\n", start.start(), end)
        at = end
    return kept + rust[at:]


def allocations(path: str, rust: str) -> Iterator[str]:
    """What ends the process where there is no memory, in code that is no test's."""
    rust = without_tests(rust)
    lines = rust.splitlines()
    code = re.sub(r"//[^\n]*|/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), rust, flags=re.DOTALL)
    for match in INFALLIBLE.finditer(code):
        size = next((group for group in match.groups() if group is not None), "a size")
        first, last = (code.count("\n", 0, place) for place in match.span())
        above = lines[first - 1] if first > 0 else ""
        is_allowed = any(ALLOWED.search(line) for line in lines[first : last + 1]) or (
            above.lstrip().startswith("//") and ALLOWED.search(above)
        )
        if not is_allowed and not CONSTANT.fullmatch(size.strip()):
            yield (
                f"{path}:{first + 1}: {' '.join(match[0].split())} ends the process without memory; "
                "use try_reserve, or give the reason in a comment `// allocates: ...`"
            )


def fallible(root: Path, paths: list[str]) -> Iterator[str]:
    for path in paths:
        checked = path.startswith(FALLIBLE) and not path.startswith(NOT_FALLIBLE)
        if checked and path.endswith(".rs") and not path.endswith("/tests.rs"):
            yield from allocations(path, (root / path).read_text())


# What makes an op, a public function without `self` that gives one; with the comment and attributes above.
CONSTRUCTOR = re.compile(
    r"((?:^ *(?:///|#\[|\$\(#\[).*\n)*)"
    r"^ *pub (?:const )?fn (\w+)(?:<[^>]*>)?"
    r"\((?!\s*(?:&|mut )?(?:mut )?self\b)[^{]*-> Self\b",
    re.MULTILINE,
)
# They make no op.
NO_OPS = ("flags.rs", "handle.rs", "mod.rs", "name.rs")


def examples(root: Path, paths: list[str]) -> Iterator[str]:
    """Each constructor of an op has an example."""
    for path in paths:
        if not path.startswith(ENGINE + "op/") or path.endswith(NO_OPS):
            continue
        for comment, name in CONSTRUCTOR.findall(without_tests((root / path).read_text())):
            if "```" not in comment and "$(#[$" not in comment:
                yield f"{path}: the constructor {name} has no example"


def problems(root: Path) -> list[str]:
    paths = tracked(root)
    found = [*walls_between_crates(root), *walls_in_crates(root, paths)]
    return [
        *found,
        *lengths(root, paths),
        *results(root, paths),
        *local_names(root, paths),
        *fallible(root, paths),
        *examples(root, paths),
    ]


def main() -> int:
    found = problems(Path(__file__).parent.parent)
    print("\n".join(found) or "tidy: fine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
