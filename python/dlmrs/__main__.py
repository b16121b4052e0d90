"""The command line: ``dlmrs`` and ``python -m dlmrs``. It is the same program as the standalone binary."""

import sys

from dlmrs._dlmrs import run_cli


def main() -> int:
    """Runs the command with this process's arguments and gives its exit status."""
    return run_cli(["dlmrs", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
