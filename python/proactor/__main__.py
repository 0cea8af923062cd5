"""The `proactor` command: `python -m proactor` and the installed script are the same program."""

import signal
import sys

from proactor._native import cli_main


def main() -> int:
    """Run the command with `sys.argv`; its exit status. SIGINT does to it what it does to any program."""
    # Python's handler would wait until the command has ended, and then raise KeyboardInterrupt.
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        return cli_main(["proactor", *sys.argv[1:]])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return cli_main(["proactor", *sys.argv[1:]])
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
