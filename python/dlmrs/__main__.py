"""The command line: ``dlmrs`` and ``python -m dlmrs``. It is the same program as the standalone binary."""

import os
import sys

from dlmrs._dlmrs import run_cli


def main() -> int:
    """Runs the command with this process's arguments and gives its exit status. Ctrl-C goes to the command."""
    _open_standard_streams()
    return run_cli(["dlmrs", *sys.argv[1:]])


def _open_standard_streams() -> None:
    """Opens the null device in place of standard streams that are closed, or other files would get their numbers."""
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    sys.exit(main())
