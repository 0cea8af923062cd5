"""The version of aiofile that is followed, and of what this is a part."""

from __future__ import annotations

__all__ = [
    "__author__",
    "__version__",
    "author_info",
    "package_info",
    "package_license",
    "project_home",
    "team_email",
    "version_info",
]

version_info: tuple[int, int, int] = (3, 12, 3)
__version__ = ".".join(map(str, version_info))
__author__ = "The proactor developers"
author_info: list[tuple[str, str]] = [(__author__, "")]
package_info = "The public names of aiofile over proactor."
package_license = "MIT OR Apache-2.0"
project_home = ""
team_email = ""
