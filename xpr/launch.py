"""Starts a program's processes on this machine, for testing: `python -m xpr.launch -n 4 script.py args...`.

Each process has a number, from 0, which begins every line that it prints, and finds the others when it calls
`xpr.distributed.initialize()`. If one fails the others are ended, and its exit code is returned.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import IO

from xpr.backend.links import free_port

_GRACE = 5.0  # seconds that processes have to end after a signal
_LOOK = 0.05
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNALS = (*_ENDS, signal.SIGUSR1, signal.SIGUSR2)
_GLOO_PARTS = (
    b"[Gloo] Rank ", b" is connected to ", b" peer ranks. ", b"Expected number of connected peer ranks is : ",
)  # fmt: skip
_GLOO_LINE = re.compile(b"(?:%s|[0-9]+)*" % b"|".join(map(re.escape, _GLOO_PARTS)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    options = _parser().parse_args(arguments)
    started: list[subprocess.Popen[bytes]] = []
    passed: list[int] = []

    def send(number: int) -> None:
        for each in started:
            if each.poll() is None:
                each.send_signal(number)

    def pass_on(number: int, frame: FrameType | None) -> None:
        again = number in passed and number in _ENDS  # a second signal: end them at once
        passed.append(number)
        send(signal.SIGKILL if again else number)

    for number in _SIGNALS:
        signal.signal(number, pass_on)
    started += _start(options)
    for early in list(passed):  # which came before the processes had started
        send(early)
    printers = [_print_in_background(i, each.stdout) for i, each in enumerate(started)]  # type: ignore[arg-type]
    code = _wait(started)
    for printer in printers:
        printer.join(_GRACE)
    ends = [number for number in passed if number in _ENDS]
    return 128 + ends[0] if ends and code == 0 else code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m xpr.launch", description="Starts several processes of a script here.")
    parser.add_argument("-n", "--processes", type=_positive, required=True, help="how many processes")
    parser.add_argument(
        "--devices-per-process", type=_positive, metavar="K", help="CPU devices, or GPUs, of each; 1 if not given"
    )
    parser.add_argument("--port", type=int, help="of process 0; a free one if not given")
    parser.add_argument("-m", action="store_true", dest="is_module", help="`script` is the name of a module")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of them")
    return int(text)


def _start(options: argparse.Namespace) -> list[subprocess.Popen[bytes]]:
    environment = {
        **os.environ, "PYTHONUNBUFFERED": "1", "XPR_NUM_PROCESSES": str(options.processes),
        "XPR_COORDINATOR_ADDRESS": f"127.0.0.1:{options.port or free_port('127.0.0.1')}",
    }  # fmt: skip
    if options.devices_per_process:
        environment["XPR_NUM_CPU_DEVICES"] = str(options.devices_per_process)
    each = options.devices_per_process or 1
    gpus = [",".join(map(str, range(i * each, (i + 1) * each))) for i in range(options.processes)]
    command = [sys.executable, *(["-m"] if options.is_module else []), options.script, *options.args]
    return [
        subprocess.Popen(
            command,
            env={**environment, "XPR_PROCESS_ID": str(i), "XPR_LOCAL_DEVICE_IDS": gpus[i]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # signals of the terminal reach them only through this process
        )
        for i in range(options.processes)
    ]


def _print_in_background(number: int, output: IO[bytes]) -> threading.Thread:
    printer = threading.Thread(target=_print, args=(number, output), daemon=True)
    printer.start()
    return printer


def _print(number: int, output: IO[bytes]) -> None:
    for line in _without_gloo(output):
        sys.stdout.buffer.write(b"[%d] %s\n" % (number, line))
        sys.stdout.buffer.flush()


def _without_gloo(output: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of the output without Gloo's messages about connected devices.

    Each device's thread writes its line in parts, so that lines of several devices may be mixed. A line that consists
    of such parts alone is left out, one of bare numbers (or empty) only while a line that was begun has not ended.
    """
    unended = 0
    for line in output:
        line = line.rstrip(b"\r\n")
        begun = line.count(_GLOO_PARTS[0])
        if _GLOO_LINE.fullmatch(line) and (unended or any(part in line for part in _GLOO_PARTS)):
            unended = max(unended + begun - 1, 0)
        else:
            yield line


def _wait(started: Sequence[subprocess.Popen[bytes]]) -> int:
    """Waits for all to end, or for one to fail, which ends the others; returns the exit code of the first failure."""
    while True:
        codes = [each.poll() for each in started]
        failed = [i for i, code in enumerate(codes) if code]
        if failed:
            break
        if None not in codes:
            return 0
        time.sleep(_LOOK)
    code = codes[failed[0]]
    assert code is not None
    how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
    _finish(started)
    print(f"process {failed[0]} failed with {how}", file=sys.stderr, flush=True)
    return code if code > 0 else 128 - code


def _finish(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Gives the other processes time to print their errors, then ends them."""
    for end in (None, signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + (1.0 if end is None else _GRACE)
        for each in started:
            if end is not None and each.poll() is None:
                each.send_signal(end)
        while time.monotonic() < until and any(each.poll() is None for each in started):
            time.sleep(_LOOK)


if __name__ == "__main__":
    sys.exit(main())
