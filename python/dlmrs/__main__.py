"""The command line: ``dlmrs`` and ``python -m dlmrs``. It is the same program as the standalone binary."""

import os
import select
import signal
import sys
import threading

from dlmrs._dlmrs import run_cli

_INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""

_PATIENCE = 1.0
"""Seconds that the command may take to end by itself. It cannot while it reads standard input or a model."""


def main() -> int:
    """Runs the command with this process's arguments and gives its exit status."""
    _end_after_ctrl_c()
    return run_cli(["dlmrs", *sys.argv[1:]])


def _end_after_ctrl_c() -> None:
    """Ends the process soon after a first Ctrl-C, and at a second one at once, even where no Python code can run."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def watch() -> None:
        while os.read(reader, 1) != bytes([signal.SIGINT]):
            pass
        select.select([reader], [], [], _PATIENCE)
        os._exit(_INTERRUPTED)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
