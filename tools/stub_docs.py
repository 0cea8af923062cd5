"""Keeps the docstrings of the native module in its stub, where editors look for them.

usage: stub_docs.py [--check]

What the built extension says of a class, a function or a method is written into `_native.pyi`. With `--check`
nothing is written, and the exit status is 1 if the stub has anything else.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

ROOT = Path(__file__).parent.parent
STUB = ROOT / "python" / "proactor" / "_native.pyi"
WIDTH = 110

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def definitions(module: ModuleType, tree: ast.Module) -> Iterator[tuple[Definition, str]]:
    """Each definition of the stub that the module documents, with its docstring. Of overloads, the first."""
    seen = set()
    for node in tree.body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        value = getattr(module, node.name, None)
        if value is None or node.name in seen:
            continue
        seen.add(node.name)
        if doc := own_doc(value):
            yield node, doc
        if isinstance(node, ast.ClassDef):
            yield from methods(value, node)


def methods(owner: type, node: ast.ClassDef) -> Iterator[tuple[Function, str]]:
    seen = set()
    for member in node.body:
        if not isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) or member.name in seen:
            continue
        seen.add(member.name)
        # What Python itself says of `__len__` and the like tells nothing.
        value = vars(owner).get(member.name)
        if not member.name.startswith("__") and (doc := own_doc(value)):
            yield member, doc


def own_doc(value: object) -> str | None:
    doc = getattr(value, "__doc__", None)
    return inspect.cleandoc(doc).strip() if isinstance(doc, str) and doc.strip() else None


def filled(doc: str, width: int) -> Iterator[str]:
    """The lines of a docstring, each paragraph and each item of a list wrapped anew."""
    chunk: list[str] = []
    for line in [*doc.split("\n"), ""]:
        begins = not line.strip() or line.lstrip().startswith(("- ", ">>> "))
        if begins and chunk:
            text = " ".join(part.strip() for part in chunk)
            later = "  " if text.startswith("- ") else ""
            yield from textwrap.wrap(text, width, subsequent_indent=later, break_on_hyphens=False)
            chunk = []
        if line.strip():
            chunk.append(line)
        else:
            yield ""


def literal(doc: str, indent: int) -> list[str]:
    """The lines of a docstring in the source."""
    text = doc.replace("\\", "\\\\").replace('"""', "'''")
    lines = list(filled(text, WIDTH - indent - 6))[:-1]
    if len(lines) == 1 and not lines[0].endswith('"'):
        lines = [f'"""{lines[0]}"""']
    else:
        lines = [f'"""{lines[0]}', *lines[1:], '"""']
    return [f"{' ' * indent}{line}".rstrip() for line in lines]


def documented(source: str, module: ModuleType) -> str:
    """The stub with the module's docstrings and no others."""
    tree = ast.parse(source)
    lines = source.split("\n")
    wanted = {id(node): doc for node, doc in definitions(module, tree)}
    nodes = [node for node in ast.walk(tree) if isinstance(node, Definition)]
    # From the end, so that the numbers of the lines before stay.
    for node in sorted(nodes, key=lambda node: -node.lineno):
        first = node.body[0]
        had = ast.get_docstring(node) is not None
        doc = wanted.get(id(node))
        indent = node.col_offset + 4
        if had:
            assert first.end_lineno is not None
            del lines[first.lineno - 1 : first.end_lineno]
            if len(node.body) == 1 and doc is None:
                lines.insert(first.lineno - 1, f"{' ' * indent}...")
            at = first.lineno - 1
        elif doc is not None and first.lineno == body_line(node):
            # `: ...` at the end of the signature.
            last = first.lineno - 1
            assert lines[last].endswith(": ..."), lines[last]
            lines[last] = lines[last].removesuffix(" ...")
            at = last + 1
        else:
            at = first.lineno - 1 - len(getattr(first, "decorator_list", []))
        if doc is not None:
            lines[at:at] = literal(doc, indent)
    return "\n".join(lines)


def body_line(node: Definition) -> int:
    """The last line of the signature."""
    first = node.body[0]
    is_short = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value is ...
    )
    return first.lineno if is_short else -1


def formatted(source: str) -> str:
    command = [str(Path(sys.executable).with_name("ruff")), "format", "--stdin-filename", str(STUB), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description="Keeps the docstrings of the native module in its stub.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the stub has anything else")
    options = parser.parse_args()
    from proactor import _native

    before = STUB.read_text()
    after = formatted(documented(before, _native))
    if before == after:
        return 0
    if options.check:
        print(f"{STUB.relative_to(ROOT)}: run tools/stub_docs.py with the extension built", file=sys.stderr)
        return 1
    STUB.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
