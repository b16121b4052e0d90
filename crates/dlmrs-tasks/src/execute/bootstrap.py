"""Runs one program that a model wrote, then its tests; put behind guard.py and run by `python -c` in an empty folder.

Standard input: a line with the length of the job, the job as JSON, then a token. Standard error: lines of JSON, first
what guards, last what came of it. The token is the only sign of success. It stays unread in the pipe until the tests
are over, so no Python object holds it while the program runs.
"""

import ast
import builtins
import json
import os
import sys
import traceback
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Both are one text when they run.
    from guard import confine, limit

MAX_LINES = 100
KEPT = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
)


def main() -> None:
    """Takes the job from standard input and runs it; never returns."""
    sys.path[:] = [path for path in sys.path if path]
    header = b""
    while not header.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("no job")
        header += byte
    job = json.loads(read_exactly(0, int(header)))
    # The program gets an empty input and one output for everything; what it cannot name are the pipes behind them.
    token, report = os.dup(0), os.dup(2)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(1, 2)
    try:
        limit(job["limits"])
        guard = confine(os.getcwd(), job["kernel"])
        tests = compile(job["tests"], "tests", "exec", dont_inherit=True)
    except OSError as error:
        os.write(report, line({"refused": f"the process cannot be locked in: {error}"}))
    except (SyntaxError, ValueError, RecursionError) as error:
        os.write(report, line({"refused": f"the tests are not valid Python: {error}"}))
    else:
        os.write(report, line({"guard": guard}))
        run(job, tests, token, report)
    os._exit(1)


def run(job: dict[str, Any], tests: types.CodeType, token: int, report: int) -> None:
    """Runs the longest valid program, then the tests, and ends the process. What it needs then it takes before."""
    read, write, leave, own_id, execute = os.read, os.write, os._exit, os.getpid, exec
    size, own, out_of_memory = job["token"], os.getpid(), line({"out_of_memory": True})
    namespace = vars(module("program"))
    # The tests get the functions of Python as they were before the program could replace them.
    builtin_names = dict(vars(builtins))
    try:
        program = longest_valid(job["readings"], job["entry_point"])
        if program is None:
            write(report, line({"failed": "no part of the answer is a valid program"}))
            leave(0)
        execute(program, namespace)
        execute(tests, {**namespace, "__builtins__": builtin_names})
        flush()
    except MemoryError:
        write(report, out_of_memory)
    except BaseException as error:
        flush()
        write(report, line({"failed": described(error, job["tests"])}))
    else:
        if own_id() == own:
            write(report, read(token, size))
    leave(0)


def module(name: str) -> types.ModuleType:
    """A module for the program, where dataclasses and pickle find what it defines."""
    found = sys.modules[name] = types.ModuleType(name)
    return found


def longest_valid(readings: list[list[str]], entry_point: str | None) -> types.CodeType | None:
    """Of all ways to read the answer, the one that keeps most of its lines; those that define the entry point go first.

    A reading is text that is kept whole and text that may be cut, line by line from the end, until both together are a
    program.
    """
    best: tuple[tuple[bool, int], types.CodeType] | None = None
    for before, text in readings:
        lines = text.split("\n")[:MAX_LINES]
        for end in range(len(lines), 0, -1):
            try:
                tree = ast.parse(before + "\n".join(lines[:end]))
                if entry_point is not None:
                    tree.body = [node for node in tree.body if isinstance(node, KEPT)]
                code = compile(tree, "program", "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError):
                continue
            worth = (defines(tree, entry_point), sum(1 for kept in lines[:end] if kept.strip()))
            if worth[1] and (best is None or worth > best[0]):
                best = worth, code
            break
    return best[1] if best else None


def defines(tree: ast.Module, name: str | None) -> bool:
    """Whether the last definition of this name has more than a docstring."""
    for node in reversed(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            return any(not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)) for part in node.body)
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        ):
            return True
    return name is None


def described(error: BaseException, tests: str) -> str:
    """The last line of the traceback, and where it was raised."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    message = (text[-1] if text else type(error).__name__)[:500]
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_code.co_filename == "program":
            return f"{message} (line {number} of the program)"
        if frame.f_code.co_filename == "tests":
            source = tests.splitlines()[number - 1].strip()[:200]
            return f"{message} (line {number} of the tests: {source})"
    return message


def flush() -> None:
    """Lets out what was printed; the program may have put anything in the place of its output."""
    try:
        sys.stdout.flush()
    except BaseException:
        pass


def line(message: dict[str, Any]) -> bytes:
    """A line of the report."""
    return json.dumps(message).encode() + b"\n"


def read_exactly(source: int, size: int) -> bytes:
    """As many bytes as were announced."""
    parts = bytearray()
    while len(parts) < size:
        part = os.read(source, size - len(parts))
        if not part:
            sys.exit("the job is cut off")
        parts += part
    return bytes(parts)


main()
