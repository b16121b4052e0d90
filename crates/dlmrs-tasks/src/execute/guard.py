"""What keeps a program that a model wrote in its folder: limits, Landlock, seccomp, or an audit hook in their place.

bootstrap.py is put behind it, and `python -c` gets both as one text. docs/code_execution.md says what holds.
"""

import ctypes
import errno
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterable

# What a program may read besides the Python that runs it: shared libraries, the time zone, harmless devices.
LIBRARIES = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/System/Library",
]
DATA = [
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/dev/random",
]

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38

# Landlock: rights over files as bits (include/uapi/linux/landlock.h). The calls have one number on every architecture.
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_SOCK, MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
TRUNCATE = 1 << 14
RIGHTS_BY_ABI = [0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1]
RIGHTS_OVER_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE

# seccomp: the numbers of the calls on x86-64 and on 64-bit ARM (None where it has no such call).
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}
REFUSED_CALLS: dict[str, tuple[int | None, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    "unshare": (272, 97),
    "setns": (308, 268),
    "socket": (41, 198),
    "io_uring_setup": (425, 425),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Landlock does not look at these.
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
}
ON_ITSELF_ONLY = {"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261)}
CLONE, CLONE3 = (56, 220), (435, 435)
CLONE_THREAD = 0x10000

# Audit events that the weaker guard refuses outright, and those whose paths it looks at.
REFUSED_EVENTS = (
    "socket.",
    "subprocess.",
    "ctypes.",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "os.fork",
    "os.kill",
)
REFUSED_ALONE = {"pty.spawn", "resource.prlimit", "signal.pthread_kill"}
CHANGES = {f"os.{name}" for name in "remove rename rmdir mkdir link symlink truncate chmod chown chflags utime".split()}
CHANGES |= {"os.setxattr", "os.removexattr"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def limit(limits: dict[str, int]) -> None:
    """Sets the limits that the kernel keeps for each process; never above those that hold already."""
    wanted = {
        "RLIMIT_CPU": limits["cpu_seconds"],
        "RLIMIT_AS": limits["memory"],
        "RLIMIT_FSIZE": limits["file_size"],
        "RLIMIT_NOFILE": limits["open_files"],
        "RLIMIT_CORE": 0,
    }
    for name, value in wanted.items():
        set_limit(getattr(resource, name), value)


def set_limit(which: int, value: int) -> None:
    """Lowers one limit. Of CPU time the hard one is a second more, so that the signal says what happened."""
    _, hard = resource.getrlimit(which)
    highest = value + 1 if which == resource.RLIMIT_CPU else value
    if hard != resource.RLIM_INFINITY:
        highest = min(highest, hard)
    try:
        resource.setrlimit(which, (min(value, highest), highest))
    except (OSError, ValueError):
        # macOS has RLIMIT_AS but does not let it be set.
        if sys.platform == "linux":
            raise


def confine(folder: str, kernel: bool) -> dict[str, str]:
    """Locks the process in and says by what: for files, and for processes with the network. An OSError: it is not."""
    readable = [path for path in {*installation(), *LIBRARIES, *DATA} if os.path.exists(path)]
    files = processes = ""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong)
        checked(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, None, 0, 0), "PR_SET_PDEATHSIG")
        checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, None, 0, 0), "PR_SET_NO_NEW_PRIVS")
        if kernel:
            files = landlock(libc, folder, readable)
        drop_capabilities(libc)
        if kernel:
            processes = seccomp(libc)
    if not processes:
        # Counts threads too, and does not bind root; the audit hook is what refuses processes then.
        set_limit(resource.RLIMIT_NPROC, 0)
    if not files or not processes:
        sys.addaudithook(audit_hook(folder, readable, files=not files, processes=not processes))
    return {"files": files or "audit hook", "processes": processes or "audit hook"}


def installation() -> Iterable[str]:
    """Where the running Python keeps its library and what that is linked with."""
    yield from (path for path in sys.path if path)
    yield os.path.dirname(os.path.realpath(os.__file__))
    for prefix in (sys.base_prefix, sys.base_exec_prefix):
        yield os.path.join(os.path.realpath(prefix), "lib")
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))


def landlock(libc: ctypes.CDLL, folder: str, readable: Iterable[str]) -> str:
    """Lets the process write in its folder and read there and in `readable` only; "" if the kernel has no Landlock."""
    abi = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if abi < 1:
        return ""
    handled = RIGHTS_BY_ABI[min(abi, len(RIGHTS_BY_ABI) - 1)]
    # No TCP (from ABI 4), no signals or abstract sockets out of here (from ABI 6); seccomp refuses them too.
    fields = [handled, *([0b11] if abi >= 4 else []), *([0b11] if abi >= 6 else [])]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = checked(
        libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)),
        "landlock",
    )
    allowed = [(path, READ_FILE | READ_DIR) for path in readable]
    allowed += [
        ("/dev/null", READ_FILE | WRITE_FILE),
        (folder, handled & ~(EXECUTE | MAKE_CHAR | MAKE_BLOCK | MAKE_SOCK)),
    ]
    for path, rights in allowed:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):
            rights &= RIGHTS_OVER_A_FILE
        rule = struct.pack("=Qi", rights & handled, opened)
        checked(libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, rule, ctypes.c_uint(0)), f"landlock: {path}")
        os.close(opened)
    checked(libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint(0)), "landlock")
    os.close(ruleset)
    return f"Landlock ABI {abi}"


def drop_capabilities(libc: ctypes.CDLL) -> None:
    """Gives up what root may do beyond its own files, e.g. mount, reboot, set the clock."""
    header = struct.pack("=Ii", 0x20080522, 0)
    checked(libc.capset(header, bytes(24)), "capset")


def seccomp(libc: ctypes.CDLL) -> str:
    """Refuses new processes, sockets, calls on other processes; "" if the kernel or the machine has no such filter."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES or sys.maxsize < 2**32:
        return ""
    column, architecture = ARCHITECTURES[machine]
    instructions = b"".join(instruction(*parts) for parts in call_filter(column, architecture))
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("=H6xQ", len(instructions) // 8, ctypes.addressof(buffer))
    if libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0):
        if ctypes.get_errno() == errno.EINVAL:
            return ""
        checked(-1, "seccomp")
    return "seccomp"


def call_filter(column: int, architecture: int) -> Iterable[tuple[int, int, int, int]]:
    """The filter as instructions: what to do, a value, and how many to skip if it is equal and if not."""
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill, refuse, unknown = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
    number_at, architecture_at, argument_at = 0, 4, 16
    yield from [
        (load, architecture_at, 0, 0),
        (equal, architecture, 1, 0),
        (answer, kill, 0, 0),
        (load, number_at, 0, 0),
    ]
    if column == 0:
        # The 32-bit pointer variant of x86-64 has numbers of its own.
        yield from [(at_least, 0x40000000, 0, 1), (answer, kill, 0, 0)]
    for numbers in REFUSED_CALLS.values():
        number = numbers[column]
        if number is not None:
            yield from [(equal, number, 0, 1), (answer, refuse, 0, 0)]
    # Whoever sees ENOSYS here falls back to clone, whose flags can be looked at.
    yield from [(equal, CLONE3[column], 0, 1), (answer, unknown, 0, 0)]
    yield from [(equal, CLONE[column], 0, 4), (load, argument_at, 0, 0), (any_bit, CLONE_THREAD, 0, 1)]
    yield from [(answer, allow, 0, 0), (answer, refuse, 0, 0)]
    for numbers in ON_ITSELF_ONLY.values():
        yield from [
            (equal, numbers[column], 0, 5),
            (load, argument_at, 0, 0),
            (equal, 0, 1, 0),
            (equal, os.getpid(), 0, 1),
        ]
        yield from [(answer, allow, 0, 0), (answer, refuse, 0, 0)]
    yield (answer, allow, 0, 0)


def instruction(code: int, value: int, if_true: int, if_false: int) -> bytes:
    """One instruction of a filter, as the kernel wants it."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def audit_hook(
    folder: str, readable: list[str], *, files: bool, processes: bool
) -> Callable[[str, tuple[object, ...]], None]:
    """The weaker guard, inside Python: it stops what a program does by mistake, not one that sets out to break it."""
    folder, realpath, inside = os.path.realpath(folder), os.path.realpath, os.path.commonpath
    roots = [folder, *map(realpath, readable)]

    def within(path: object, allowed: list[str]) -> bool:
        if not isinstance(path, (str, bytes)):
            return True  # An open file, or none.
        where = realpath(os.fsdecode(path))
        return where == "/dev/null" or any(inside([where, root]) == root for root in allowed)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if processes and (event.startswith(REFUSED_EVENTS) or event in REFUSED_ALONE):
            raise PermissionError(f"{event} is refused to this program")
        if not files:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = isinstance(flags, int) and flags & WRITES
            if not within(path, [folder] if writes else roots):
                raise PermissionError(f"{path!r} may not be opened by this program")
        elif event in {"os.listdir", "os.scandir"} and not within(arguments[0], roots):
            raise PermissionError(f"{arguments[0]!r} may not be listed by this program")
        elif event in CHANGES and not all(within(argument, [folder]) for argument in arguments):
            raise PermissionError(f"{event} outside of its folder is refused to this program")

    return hook


def checked(result: int, what: str) -> int:
    """A call's result; an OSError if it says that it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)
