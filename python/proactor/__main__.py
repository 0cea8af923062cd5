"""The `proactor` command: `python -m proactor` and the installed script are the same program."""

import sys

from proactor._native import cli_main


def main() -> int:
    return cli_main(["proactor", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
