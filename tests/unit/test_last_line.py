"""The line of an output that people are shown."""

from __future__ import annotations

import pytest

from queue_manager.last_line import error_line, last_line, stderr_line


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        (" \n\n", ""),
        ("reading\n  no such column \n", "no such column"),
        ("no such column\r\n\n \n", "no such column"),
        (b"na\xefve\n", "na\ufffdve"),
        ("\x1b[1;31merror\x1b[0m: no such column\n\x1b[0m\n", "error: no such column"),
        (b"no such column\n\x1b]0;train.py\x07\x1b[?25h\x1b(B\n", "no such column"),
        ("cut \x1b[31", "cut \x1b[31"),
    ],
)
def test_the_last_line_that_is_not_blank(output: str | bytes, line: str) -> None:
    assert last_line(output) == line


TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    read(path)
FileNotFoundError: data/x.csv
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("reading\nno such column\n", "no such column"),
        (TRACEBACK + "epoch 1 of 3\n", "FileNotFoundError: data/x.csv"),
        (TRACEBACK + "\n" + TRACEBACK.replace("FileNot", "Key") + "epoch 1\n", "KeyFoundError: data/x.csv"),
        (TRACEBACK.partition("File")[0] + "cut\n", "cut"),
        (TRACEBACK + "ignored\n", "FileNotFoundError: data/x.csv"),
        (TRACEBACK.replace("data/x.csv", "\n\n  no data/x.csv\n  no data/y.csv"), "FileNotFoundError: no data/x.csv"),
        (TRACEBACK.replace(" data/x.csv", ""), "FileNotFoundError:"),
        (b"Traceback (most recent call last):\n", "Traceback (most recent call last):"),
        (TRACEBACK.replace("FileNotFoundError", "\x1b[1;35mFileNotFoundError\x1b[0m"), "FileNotFoundError: data/x.csv"),
    ],
)
def test_an_uncaught_exception_is_the_error_though_output_follows_it(output: str | bytes, line: str) -> None:
    assert error_line(output) == line


GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "g.py", line 7, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "g.py", line 3, in work
    |     raise KeyError(number)
    | KeyError: 1
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "g.py", line 3, in work
    |     raise ValueError("no data")
    | ValueError: no data
    +------------------------------------
"""
JAVA = """epoch 1
Exception in thread "main" java.lang.RuntimeException: load failed
\tat A.main(A.java:1)
Caused by: java.io.FileNotFoundException: /data/x.csv (No such file or directory)
\tat java.base/java.io.FileInputStream.open0(Native Method)
\t... 12 more
"""
NODE = """node:fs:573
  return binding.open(
                 ^

Error: ENOENT: no such file or directory, open '/data/x.csv'
    at Object.openSync (node:fs:573:18)
    at node:internal/main/run_main_module:28:49 {
  errno: -2,
  code: 'ENOENT',
  path: '/data/x.csv'
}

Node.js v20.20.2
"""
GO = """epoch 1
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x47a750]

goroutine 1 [running]:
main.main()
\t/app/b.go:2 +0x10
exit status 2
"""
RUST = """epoch 1

thread 'main' (3108) panicked at a.rs:1:77:
called `Result::unwrap()` on an `Err` value: Os { code: 2, kind: NotFound }
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
RUST_FRAMES = """stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616e1fa/library/std/src/panicking.rs:689:5
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
R = """[1] "epoch 1"
Error in read.csv("/data/x.csv") : cannot open the connection
Calls: load -> read.csv
Execution halted
"""


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (JAVA, "Caused by: java.io.FileNotFoundException: /data/x.csv (No such file or directory)"),
        (NODE, "Error: ENOENT: no such file or directory, open '/data/x.csv'"),
        (GO, "panic: runtime error: invalid memory address or nil pointer dereference"),
        (RUST, "called `Result::unwrap()` on an `Err` value: Os { code: 2, kind: NotFound }"),
        (
            RUST.partition("note:")[0] + RUST_FRAMES,
            "called `Result::unwrap()` on an `Err` value: Os { code: 2, kind: NotFound }",
        ),
        (GROUP, "ValueError: no data"),
        (R, 'Error in read.csv("/data/x.csv") : cannot open the connection'),
    ],
)
def test_the_error_of_a_runtimes_report_is_the_line_unless_more_output_follows(report: str, line: str) -> None:
    assert error_line(report) == error_line(report.rstrip()) == error_line(report + "\n") == line
    assert error_line(report + "tried again: no data\n") == "tried again: no data"


NO_FILE = "FileNotFoundError: data/x.csv"


@pytest.mark.parametrize(
    ("output", "exit_code", "line"),
    [
        ("reading\nno such column\n", 3, "no such column"),
        (TRACEBACK, 1, NO_FILE),
        ("reading\n" + TRACEBACK, 3, NO_FILE),  # in a script with another exit code
        (TRACEBACK + "wandb: find logs at ./wandb/run-1\n", 1, NO_FILE),
        (TRACEBACK + "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n", 1, NO_FILE),
        (TRACEBACK + "the disk is full\n", 4, "the disk is full"),
        (TRACEBACK + "epoch 1\nCRITICAL:root:GPU lost\n", 1, "CRITICAL:root:GPU lost"),
        (TRACEBACK + "cat: /x: No such file or directory\n", 1, "cat: /x: No such file or directory"),
        (TRACEBACK.replace("data/x.csv", "\n  no data/x.csv\n"), 1, "FileNotFoundError: no data/x.csv"),
        ("+ cp /a /b\ncp: cannot stat '/a'\n+ rc=1\n++ exit 1\n", 1, "cp: cannot stat '/a'"),
        ("+ exit 3\n", 3, "+ exit 3"),
        ("fatal: bad\n----------\n", 1, "fatal: bad"),
        (JAVA, 1, "Caused by: java.io.FileNotFoundException: /data/x.csv (No such file or directory)"),
        (NODE, 1, "Error: ENOENT: no such file or directory, open '/data/x.csv'"),
        ("", 1, ""),
        ("\n \n", 1, ""),
    ],
)
def test_the_line_of_standard_error_is_the_error_that_ended_the_program(output: str, exit_code: int, line: str) -> None:
    assert stderr_line(output, exit_code) == line
