"""`proactor.compat.linux_aio`, its blocks: parity with the original where it is followed."""

from __future__ import annotations

import inspect
import select
from pathlib import Path
from typing import Any

import pytest
from linux_aio_suite import Parity, run
from rivals import CONTENT


class TestBlockParity(Parity):
    def test_a_block_is_reusable(self, package: Any, context: Any, fd: int) -> None:
        block = package.ReadBlock(fd, bytearray(5))
        run(context, block)
        block.offset = 6
        (event,) = run(context, block)
        assert event.buffer == b"world"

    def test_a_block_twice_at_once(self, package: Any, context: Any, fd: int) -> None:
        block = package.ReadBlock(fd, bytearray(5))
        assert [event.response for event in run(context, block, block)] == [5, 5]

    def test_bytes_as_a_read_buffer(self, package: Any, context: Any, fd: int) -> None:
        # Made at run time: the original writes into the object itself.
        given = bytes(bytearray(20))
        (event,) = run(context, package.ReadBlock(fd, given))
        assert event.buffer == CONTENT + bytes(9)
        assert event.stripped_buffer() == CONTENT

    def test_text_is_utf8(self, package: Any, fd: int) -> None:
        assert package.WriteBlock(fd, "hé").buffer == "hé".encode()

    def test_not_a_file(self, package: Any, tmp_path: Path) -> None:
        with pytest.raises(AttributeError):
            package.ReadBlock(str(tmp_path), bytearray(5))

    @pytest.mark.parametrize(("cls", "value"), [("BE", 3), ("BE", 0), ("IDLE", 3), ("IDLE", 0)])
    def test_priority(self, package: Any, context: Any, fd: int, cls: str, value: int) -> None:
        block = package.ReadBlock(fd, bytearray(5))
        block.set_priority(getattr(package.IOCBPriorityClass, cls), value)
        (event,) = run(context, block)
        assert event.response == 5

    def test_a_sync_takes_a_priority(self, package: Any, context: Any, fd: int) -> None:
        (event,) = run(context, package.FsyncBlock(fd, package.IOCBPriorityClass.BE, 3))
        assert event.response == 0

    def test_block_properties(self, package: Any, fd: int) -> None:
        block = package.ReadBlock(fd, bytearray(20))
        assert (block.file, block.fileno, block.offset, block.length) == (fd, fd, 0, 20)
        assert (block.flag, block.rw_flag, block.res_fd) == (0, 0, None)
        assert (block.priority_class, block.priority_value) == (0, 0)
        assert block.cmd == package.IOCBCMD.PREAD
        block.buffer = bytearray(9)
        assert block.length == 9
        block.length = 3
        assert (block.length, len(block.buffer)) == (3, 9)
        block.rw_flag = package.IOCBRWFlag.NOWAIT
        assert block.rw_flag == 8

    def test_priority_properties(self, package: Any, fd: int) -> None:
        block = package.ReadBlock(fd, bytearray(4), 0, None, 0, package.IOCBPriorityClass.BE, 3)
        assert (block.flag, block.priority_class, block.priority_value) == (2, 2, 3)
        block.set_priority(package.IOCBPriorityClass.RT, 2)
        assert (block.priority_class, block.priority_value) == (1, 2)
        block.priority_value = 5
        block.priority_class = package.IOCBPriorityClass.NONE
        assert (block.flag, block.priority_class, block.priority_value) == (2, 0, 5)

    def test_poll_properties(self, package: Any) -> None:
        block = package.PollBlock(0)
        assert block.event_masks == select.POLLIN | select.POLLPRI | select.POLLOUT
        block.event_masks = select.POLLIN
        assert block.event_masks == select.POLLIN
        assert not hasattr(block, "buffer")

    def test_file_objects(self, package: Any, context: Any, tmp_path: Path, fd: int) -> None:
        with (tmp_path / "file").open("rb") as file:
            block = package.ReadBlock(file, bytearray(5))
            assert block.file is file
            assert block.fileno == file.fileno()
            (event,) = run(context, block)
        assert event.buffer == b"hello"

    def test_a_buffer_is_held(self, package: Any, fd: int) -> None:
        buffer = bytearray(4)
        block = package.ReadBlock(fd, buffer)
        with pytest.raises(BufferError):
            buffer.extend(b"more")
        assert block.length == 4

    @pytest.mark.parametrize(
        ("cmd", "kind"),
        [
            ("PWRITE", "WriteBlock"),
            ("FSYNC", "FsyncBlock"),
            ("FDSYNC", "FDsyncBlock"),
            ("POLL", "PollBlock"),
            ("PREADV", "ReadVBlock"),
            ("PWRITEV", "WriteVBlock"),
        ],
    )
    def test_change_cmd(self, package: Any, fd: int, cmd: str, kind: str) -> None:
        block = package.ReadBlock(fd, bytearray(4), 5)
        assert block.change_cmd(package.IOCBCMD.PREAD) is block
        changed = block.change_cmd(getattr(package.IOCBCMD, cmd))
        assert type(changed) is getattr(package, kind)
        assert (changed.cmd, changed.file) == (getattr(package.IOCBCMD, cmd), fd)

    def test_constants(self, package: Any) -> None:
        assert {flag.name: flag.value for flag in package.IOCBFlag} == {"RESFD": 1, "IOPRIO": 2}
        assert [flag.value for flag in package.IOCBRWFlag] == [1, 2, 4, 8, 16]
        assert [cls.name for cls in package.IOCBPriorityClass] == ["NONE", "RT", "BE", "IDLE"]
        assert (
            package.gen_io_priority(package.IOCBPriorityClass.BE, 4) == (2 << package.IOPRIO_CLASS_SHIFT) | 4
        )

    @pytest.mark.parametrize(
        ("kind", "parameters"),
        [
            (
                "ReadBlock",
                "file buffer offset length rw_flags priority_class priority_value res_fd",
            ),
            (
                "WriteBlock",
                "file content offset length rw_flags priority_class priority_value res_fd",
            ),
            ("ReadVBlock", "file buffer_list offset rw_flags priority_class priority_value res_fd"),
            ("WriteVBlock", "file content_list offset rw_flags priority_class priority_value res_fd"),
            ("FsyncBlock", "file priority_class priority_value res_fd"),
            ("FDsyncBlock", "file priority_class priority_value res_fd"),
            ("PollBlock", "file event_masks priority_class priority_value res_fd"),
        ],
    )
    def test_signatures(self, package: Any, kind: str, parameters: str) -> None:
        signature = inspect.signature(getattr(package, kind))
        assert list(signature.parameters) == parameters.split()
        assert issubclass(getattr(package, kind), package.AIOBlock)
