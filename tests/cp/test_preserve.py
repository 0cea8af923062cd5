"""What a copy keeps of its source: -p, --preserve, --no-preserve, -a, -d."""

from __future__ import annotations

import os
from pathlib import Path

import arrangements
import pytest
from capabilities import needs
from cp_helpers import Same, access_list

pytest_plugins = ["cp_fixtures"]

ATTRIBUTES = [
    "",
    "-p",
    "-a",
    "-d",
    "-pd",
    "--preserve",
    "--preserve=mode",
    "--preserve=ownership",
    "--preserve=timestamps",
    "--preserve=links",
    "--preserve=xattr",
    "--preserve=all",
    "--preserve=mode,timestamps",
    "--no-preserve=mode",
    "--no-preserve=all",
    "-p --no-preserve=mode",
    "-p --no-preserve=timestamps",
    "--no-preserve=mode -p",
    "-a --no-preserve=links",
    "-a --no-preserve=xattr",
    "-a --no-preserve=all",
    "-p --no-preserve=mode --preserve=mode",
    "-a --attributes-only",
    "--attributes-only",
]


def attributed(root: Path) -> None:
    arrangements.tree(root)
    os.setxattr(root / "t" / "file", "user.kind", b"a label")
    os.setxattr(root / "t" / "sub", "user.kind", b"of a directory")


def is_old(entry: dict[str, object]) -> bool:
    return entry["mtime"] is not None


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_tree(same: Same, attributes: str) -> None:
    same(attributed, "-r", *attributes.split(), "t", "new")


@pytest.mark.parametrize(
    "attributes",
    ["", "-p", "-a", "--preserve=mode", "--no-preserve=mode", "--attributes-only", "--preserve=all"],
)
def test_tree_into_one_that_is_there(same: Same, attributes: str) -> None:
    def both(root: Path) -> None:
        attributed(root)
        (root / "dest" / "t" / "sub").mkdir(parents=True)
        (root / "dest" / "t" / "file").write_text("was there, and longer\n")
        (root / "dest" / "t" / "file").chmod(0o606)
        (root / "dest" / "t" / "sub").chmod(0o711)

    same(both, "-r", *attributes.split(), "t", "dest")


@pytest.mark.parametrize(
    "attributes",
    ["", "-p", "-a", "--preserve=mode", "--no-preserve=mode", "--preserve=timestamps", "--preserve=all"],
)
@pytest.mark.parametrize("mode", [0o000, 0o640, 0o6755, 0o1666])
def test_mode(same: Same, attributes: str, mode: int) -> None:
    def one(root: Path) -> None:
        for name in ("file", "there"):
            (root / name).write_text(f"{name}\n")
        (root / "file").chmod(mode)
        (root / "directory").mkdir()
        (root / "directory").chmod(mode)

    outcome = same(one, *attributes.split(), "file", "new")
    assert outcome.status == 0
    same(one, *attributes.split(), "file", "there")
    same(one, "-r", *attributes.split(), "directory", "new")


@pytest.mark.parametrize("umask", [0o000, 0o027, 0o077, 0o777])
def test_umask(same: Same, umask: int) -> None:
    for attributes in ("-r", "-rp", "-a", "-r --no-preserve=mode"):
        same(arrangements.tree, *attributes.split(), "t", "new", umask=umask)


@needs("root")
@pytest.mark.parametrize(
    "attributes",
    ["", "-p", "-a", "--preserve=ownership", "--preserve=ownership,mode", "-a --no-preserve=ownership"],
)
def test_owner(same: Same, attributes: str) -> None:
    def owned(root: Path) -> None:
        arrangements.tree(root)
        for path in root.rglob("*"):
            mode = path.lstat().st_mode
            os.chown(path, 1234, 4321, follow_symlinks=False)
            if not path.is_symlink():
                path.chmod(mode & 0o7777)

    same(owned, "-r", *attributes.split(), "t", "new")


LIST = access_list("u::rw,u:7:rwx,g::r,m::rwx,o::r")


@needs("root")
@pytest.mark.parametrize(
    "attributes", ["", "-p", "-a", "--preserve=mode", "--preserve=xattr", "--preserve=all"]
)
def test_access_control_list(same: Same, attributes: str) -> None:
    def listed(root: Path) -> None:
        (root / "d").mkdir()
        (root / "d" / "f").write_text("f\n")
        os.setxattr(root / "d" / "f", "system.posix_acl_access", LIST)
        os.setxattr(root / "d", "system.posix_acl_default", LIST)

    same(listed, "-r", *attributes.split(), "d", "new")
    same(listed, *attributes.split(), "d/f", "new")


@needs("root")
@pytest.mark.parametrize("attributes", ["", "-p", "--preserve=mode", "--preserve=timestamps"])
@pytest.mark.parametrize("mode", [0o660, 0o622, 0o755])
def test_fifo_in_a_directory_that_hands_down_a_list(same: Same, attributes: str, mode: int) -> None:
    def handed_down(root: Path) -> None:
        (root / "d").mkdir()
        os.setxattr(root / "d", "system.posix_acl_default", LIST)
        os.mkfifo(root / "fifo")
        (root / "fifo").chmod(mode)

    same(handed_down, "-r", *attributes.split(), "fifo", "d")


@needs("root")
@pytest.mark.parametrize("attributes", ["", "-p", "-a", "--preserve=mode", "--no-preserve=ownership"])
def test_parents_in_a_directory_that_hands_down_a_list(same: Same, attributes: str) -> None:
    def handed_down(root: Path) -> None:
        (root / "s" / "e").mkdir(parents=True)
        (root / "s" / "e" / "f").write_text("f\n")
        (root / "s").chmod(0o750)
        (root / "s" / "e").chmod(0o711)
        (root / "d").mkdir()
        os.setxattr(root / "d", "system.posix_acl_default", LIST)

    same(handed_down, "--parents", *attributes.split(), "s/e/f", "d")


@pytest.mark.parametrize("attributes", ["-r", "-rp", "-a", "-r --preserve=mode", "-au"])
@pytest.mark.parametrize("sources", ["s/f", "s/e", "s/e s/n/m", "s/f s/n", "s/n/m/f"])
def test_parents_that_are_there(same: Same, sources: str, attributes: str) -> None:
    """They get what is preserved of the source's only where one of them is missing."""

    def there(root: Path) -> None:
        for name in ("s/e", "s/n/m", "t/s"):
            (root / name).mkdir(parents=True)
        for name in ("s/f", "s/n/m/f"):
            (root / name).write_text("f\n")
        (root / "s").chmod(0o700)
        (root / "s" / "n").chmod(0o750)
        (root / "t" / "s").chmod(0o711)

    same(there, "--parents", *attributes.split(), *sources.split(), "t")


@needs("root")
@pytest.mark.parametrize("attributes", ["", "-p", "-a", "--preserve=xattr"])
def test_capabilities_of_a_program(same: Same, attributes: str) -> None:
    def capable(root: Path) -> None:
        (root / "program").write_text("program\n")
        # VFS_CAP_REVISION_2, effective: cap_net_raw.
        os.setxattr(
            root / "program", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000")
        )

    same(capable, *attributes.split(), "program", "new")


def test_directories_times_are_set_last(same: Same) -> None:
    outcome = same(arrangements.tree, "-a", "t", "new")
    assert all(is_old(entry) for name, entry in outcome.tree.items() if name.startswith("new"))


def test_hard_links_across_sources(same: Same) -> None:
    def linked(root: Path) -> None:
        for name in ("one", "two", "dest"):
            (root / name).mkdir()
        (root / "one" / "x").write_text("x\n")
        os.link(root / "one" / "x", root / "two" / "x")
        os.link(root / "one" / "x", root / "y")

    outcome = same(linked, "-a", "one", "two", "y", "dest")
    assert outcome.tree["dest/two/x"]["inode of"] == outcome.tree["dest/y"]["inode of"] == "dest/one/x"
    same(linked, "-r", "one", "two", "y", "dest")
    same(linked, "-dr", "two", "y", "one", "dest")


def test_hard_links_to_what_is_there(same: Same) -> None:
    """Two names of one source over two files of the destination, one of which has another name."""

    def linked(root: Path) -> None:
        for name in ("s", "dest/s"):
            (root / name).mkdir(parents=True)
        (root / "s" / "x").write_text("x\n")
        os.link(root / "s" / "x", root / "s" / "y")
        for name in ("x", "y"):
            (root / "dest" / "s" / name).write_text("was there\n")
        os.link(root / "dest" / "s" / "y", root / "dest" / "kept")

    same(linked, "-a", "s", "dest")


@needs("root")
@pytest.mark.parametrize("mode", [0o4755, 0o6755, 0o2745, 0o6711])
@pytest.mark.parametrize("owner", [(1000, 1000), (0, 1000), (0, 0)])
@pytest.mark.parametrize("how", ["--preserve=ownership", "--preserve=ownership --remove-destination", ""])
def test_no_program_becomes_another_users(same: Same, how: str, owner: tuple[int, int], mode: int) -> None:
    def programs(root: Path) -> None:
        (root / "f").write_text("new")
        (root / "D").mkdir()
        (root / "D" / "f").write_text("old")

    def give(root: Path) -> None:
        os.chown(root / "f", *owner)
        (root / "D" / "f").chmod(mode)

    same(programs, *how.split(), "f", "D", after=give)
