//! Programs that a model wrote: what passes, what does not, and what cannot get out.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use dlmrs_tasks::execute::{Limits, Outcome, Program, Python, Run};

static PYTHON: LazyLock<Python> = LazyLock::new(|| Python::find(Path::new("python3")).unwrap());

fn run(source: &str, tests: &str) -> Run {
    PYTHON.run(&Program::new(source, tests), Limits::default()).unwrap()
}

fn outcome(source: &str, tests: &str) -> Outcome {
    run(source, tests).outcome
}

fn failure(source: &str, tests: &str) -> String {
    match outcome(source, tests) {
        Outcome::Failed(message) => message,
        other => panic!("{other:?}"),
    }
}

/// What each line does must raise an OSError of permission, so that nothing comes of it.
fn refused(lines: &[String]) {
    for line in lines {
        let source = format!("try:\n    {line}\nexcept PermissionError:\n    pass\nelse:\n    raise SystemExit('was allowed')");
        assert_eq!(outcome(&source, ""), Outcome::Passed, "{line}");
    }
}

#[test]
fn right_and_wrong_programs() {
    let add = "def add(a, b):\n    return a + b\n";
    assert_eq!(outcome(add, "assert add(2, 3) == 5"), Outcome::Passed);
    assert_eq!(failure(add, "x = 1\nassert add(2, 3) == 6"), "AssertionError (line 2 of the tests: assert add(2, 3) == 6)");
    assert_eq!(failure("def add(a, b):\n    return a / 0\n", "add(1, 2)"), "ZeroDivisionError: division by zero (line 2 of the program)");
    assert_eq!(failure("x = 1\n", "add(1, 2)"), "NameError: name 'add' is not defined (line 1 of the tests: add(1, 2))");
    assert_eq!(failure("def f(:", ""), "no part of the answer is a valid program");
    assert_eq!(failure("", ""), "no part of the answer is a valid program");
    assert_eq!(failure("a = 1\0", ""), "no part of the answer is a valid program");
    let refused = outcome("x = 1", "assert (");
    assert!(matches!(&refused, Outcome::Refused(why) if why.starts_with("the tests are not valid Python: ")), "{refused:?}");
    assert!(failure("def f(): f()", "f()").starts_with("RecursionError"));
}

#[test]
fn what_programs_ordinarily_need_works() {
    let source = "import asyncio, collections, dataclasses, datetime, decimal, hashlib, json, math, os, random, re, tempfile, threading, time\n\
                  Point = collections.namedtuple('Point', 'x y')\n\
                  @dataclasses.dataclass\nclass Pair:\n    a: int\n    b: 'Pair | None' = None\n\
                  async def later():\n    await asyncio.sleep(0)\n    return 7\n\
                  seen = []\nthread = threading.Thread(target=lambda: seen.append(asyncio.run(later())))\nthread.start()\nthread.join()\n\
                  with tempfile.TemporaryDirectory() as folder:\n    open(folder + '/own', 'w').write('é')\n    \
                  text = open(folder + '/own').read()\n\
                  time.localtime()\nos.urandom(4)\n";
    let tests = "assert seen == [7] and text == 'é' and Point(1, 2).y == Pair(2).a and hashlib.sha256(b'').digest()";
    assert_eq!(outcome(source, tests), Outcome::Passed);
}

#[test]
fn the_end_that_does_not_parse_is_cut() {
    assert_eq!(outcome("def f():\n    return 1\n\nThat is all, I think.", "assert f() == 1"), Outcome::Passed);
    let long = format!("def f():\n    return 1\n{}def f():\n    return 2\n", "# more\n".repeat(100));
    assert_eq!(outcome(&long, "assert f() == 1"), Outcome::Passed);
}

#[test]
fn endless_loops_end() {
    let loop_forever = Program::new("while True:\n    pass\n", "");
    let by_clock = Limits { time: Duration::from_secs(5), ..Limits::default() };
    assert_eq!(PYTHON.run(&loop_forever, by_clock).unwrap().outcome, Outcome::TimedOut);
    let by_cpu = Limits { time: Duration::from_secs(600), cpu_seconds: 1, ..Limits::default() };
    assert_eq!(PYTHON.run(&loop_forever, by_cpu).unwrap().outcome, Outcome::TimedOut);
    let stubborn =
        Program::new("import time\nwhile True:\n    try:\n        time.sleep(1000)\n    except BaseException:\n        pass\n", "");
    assert_eq!(PYTHON.run(&stubborn, by_clock).unwrap().outcome, Outcome::TimedOut);
}

#[test]
fn limits_hold() {
    assert_eq!(outcome("x = bytearray(8 << 30)", ""), Outcome::OutOfMemory);
    assert_eq!(outcome("x = [0]\nwhile True:\n    x += x\n", ""), Outcome::OutOfMemory);
    assert!(failure("open('large', 'wb').write(bytes(32 << 20))", "").starts_with("OSError: [Errno 27]"));
    assert!(failure("files = [open('/dev/null') for _ in range(1000)]", "").starts_with("OSError: [Errno 24]"));
    assert!(failure("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", "").starts_with("ValueError"));
    assert!(failure("input()", "").starts_with("EOFError"));
}

#[test]
fn no_processes() {
    let bomb = "import os\nmade = 0\nfor _ in range(1000):\n    try:\n        if os.fork() == 0:\n            os._exit(0)\n        made += 1\n    \
                except OSError:\n        pass\n";
    assert_eq!(outcome(bomb, "assert made == 0"), Outcome::Passed);
    refused(&[
        "import os; os.execv('/bin/true', ['true'])".into(),
        "import os; os.posix_spawn('/bin/true', ['true'], {})".into(),
        "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)".into(),
        "import os; os.setsid()".into(),
        "import os; os.kill(os.getppid(), 9)".into(),
        "import os; os.kill(-1, 9)".into(),
        "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))".into(),
    ]);
}

#[test]
fn no_network() {
    refused(&[
        "import socket; socket.socket()".into(),
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)".into(),
        "import socket; socket.socket(socket.AF_UNIX)".into(),
        "import socket; socket.create_connection(('127.0.0.1', 9))".into(),
    ]);
}

#[test]
fn no_files_outside_of_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let kept = outside.path().join("kept");
    fs::write(&kept, "text").unwrap();
    let mode = fs::metadata(&kept).unwrap().permissions().mode();
    let (folder, file) = (format!("{:?}", outside.path()), format!("{kept:?}"));
    refused(&[
        format!("open({file})"),
        format!("open({file}, 'a')"),
        format!("open({folder} + '/new', 'w')"),
        format!("import os; os.truncate({file}, 0)"),
        format!("import os; os.remove({file})"),
        format!("import os; os.mkdir({folder} + '/new')"),
        format!("import os; os.chmod({file}, 0)"),
        format!("import os; os.utime({file}, (0, 0))"),
        format!("import os; os.listdir({folder})"),
        format!("import os; os.symlink({file}, 'link'); open('link')"),
        "open('/etc/passwd')".into(),
        "open('/proc/self/environ')".into(),
        "import os; os.listdir('/')".into(),
    ]);
    // Out of a folder that the program may not change, and into it: another error than that of permission.
    assert!(failure(&format!("import os\nos.rename({file}, 'own')"), "").contains("Error"));
    assert!(failure(&format!("import os\nos.link({file}, 'own')"), "").contains("Error"));
    assert_eq!(fs::read_to_string(&kept).unwrap(), "text");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode(), mode);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn the_guard_is_reported() {
    let guard = PYTHON.guard().unwrap();
    let landlock = guard.files.strip_prefix("Landlock ABI ").is_some_and(|abi| abi.parse::<u32>().unwrap() >= 1);
    assert!(landlock || guard.files == "audit hook", "{guard}");
    assert!(["seccomp", "audit hook"].contains(&guard.processes.as_str()), "{guard}");
    assert_eq!(guard.is_kernel(), landlock && guard.processes == "seccomp");
    assert_eq!(run("x = 1", "").guard, Some(guard));
}

#[test]
fn the_folder_is_new_and_goes_away() {
    let source = "import os, shutil\nprint(os.getcwd(), os.environ['HOME'], os.environ['TMPDIR'], sep='\\n')\nempty = not os.listdir()\n\
                  os.makedirs('a/b/c')\nopen('a/b/c/file', 'w').write('text')\n";
    let left = run(source, "assert empty");
    assert_eq!(left.outcome, Outcome::Passed);
    let folders: Vec<&str> = left.output.lines().collect();
    assert_eq!(folders.len(), 3);
    for folder in folders {
        assert!(Path::new(folder).is_absolute() && !Path::new(folder).exists(), "{folder}");
    }
    let deleted = run("import os, shutil\nprint(os.getcwd())\nos.mkdir('a')\nshutil.rmtree(os.getcwd(), ignore_errors=True)", "");
    assert_eq!(deleted.outcome, Outcome::Passed);
    assert!(!Path::new(deleted.output.trim()).exists());
    let slow = Program::new("import os, time\nprint(os.getcwd(), flush=True)\ntime.sleep(1000)", "");
    let stopped = PYTHON.run(&slow, Limits { time: Duration::from_secs(5), ..Limits::default() }).unwrap();
    assert_eq!(stopped.outcome, Outcome::TimedOut);
    assert!(!Path::new(stopped.output.trim()).exists());
}

#[test]
fn the_environment_is_empty() {
    let tests =
        "import os\nassert set(os.environ) <= {'HOME', 'TMPDIR', 'PYTHONHASHSEED', 'LD_LIBRARY_PATH', 'LC_CTYPE'}, sorted(os.environ)";
    assert_eq!(outcome("x = 1", tests), Outcome::Passed);
}

#[test]
fn success_is_not_forged_by_ending_early_or_by_printing() {
    let wrong = "assert False";
    for source in [
        "import sys; sys.exit(0)",
        "raise SystemExit",
        "import os; os._exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.abort()",
        "print('passed', flush=True); import os; os._exit(0)",
        "import sys; print('{\"passed\": true}', file=sys.stderr, flush=True)",
        "import builtins; builtins.exec = builtins.compile = lambda *arguments: None",
        "import builtins; builtins.AssertionError = builtins.BaseException = ()",
        "import os\nfor pipe in range(3, 64):\n    try:\n        os.write(pipe, b'passed ' + b'0' * 32)\n    except OSError:\n        pass\nos._exit(0)",
        "import os\nfor pipe in range(3, 64):\n    try:\n        os.close(pipe)\n    except OSError:\n        pass\n",
        "import atexit, os; atexit.register(os._exit, 0)",
        "assert_ = '''\n",
        "if True:\n    '''",
        "def check(function): pass",
    ] {
        let outcome = outcome(source, wrong);
        assert!(matches!(outcome, Outcome::Failed(_)), "{source}: {outcome:?}");
    }
    assert!(matches!(outcome("import builtins\nbuiltins.abs = lambda x: 1", "assert abs(-3) == 1"), Outcome::Failed(_)));
}

#[test]
fn output_is_bounded_and_may_be_anything() {
    let much = run("import sys\nfor _ in range(100):\n    sys.stdout.write('x' * (1 << 20))\n", "");
    assert_eq!(much.outcome, Outcome::Passed);
    assert_eq!(much.output, "x".repeat(64 << 10));
    let bytes = run("import sys\nsys.stdout.buffer.write(b'a\\xffb')\nprint('err', file=sys.stderr)", "");
    assert_eq!(bytes.outcome, Outcome::Passed);
    assert!(bytes.output.contains("a\u{fffd}b") && bytes.output.contains("err"), "{:?}", bytes.output);
    assert_eq!(run("print('before')\n1 / 0", "").output, "before\n");
}

#[test]
fn a_set_has_the_same_order_in_every_run() {
    let source = "print({str(number) for number in range(50)})";
    assert_eq!(run(source, "").output, run(source, "").output);
}

#[test]
fn what_is_no_python_is_refused() {
    let error = |path: &str| Python::find(Path::new(path)).unwrap_err().to_string();
    assert_eq!(
        error("/no/such/python"),
        "/no/such/python: cannot be run (No such file or directory (os error 2)); a Python of version 3.10 or newer is needed"
    );
    assert_eq!(error("true"), "true: is no Python; a Python of version 3.10 or newer is needed");
    assert!(error("false").starts_with("false: is no Python that works (exit status: 1)"), "{}", error("false"));
    assert!(PYTHON.path().is_absolute());
    assert!(PYTHON.version().starts_with("3."));
}
