"""The kinds of blocks, a module for each family of them."""

from __future__ import annotations

from proactor.compat.linux_aio.block.base import AIOBlock
from proactor.compat.linux_aio.block.non_rw import FDsyncBlock, FsyncBlock, NonRWBlock, PollBlock
from proactor.compat.linux_aio.block.non_vector import NonVectorBlock, ReadBlock, WriteBlock
from proactor.compat.linux_aio.block.rw import RWBlock
from proactor.compat.linux_aio.block.vector import ReadVBlock, VectorBlock, WriteVBlock

__all__ = [
    "AIOBlock",
    "FDsyncBlock",
    "FsyncBlock",
    "NonRWBlock",
    "NonVectorBlock",
    "PollBlock",
    "RWBlock",
    "ReadBlock",
    "ReadVBlock",
    "VectorBlock",
    "WriteBlock",
    "WriteVBlock",
]
