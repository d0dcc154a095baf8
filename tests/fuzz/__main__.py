"""`python -m tests.fuzz --minutes 30 --seed N`: random programs in several processes, and what was found by them.

Exits with 1 where anything was found that is not in known.py. `--replay SEED-NUMBER` tries one program again, and
prints it as small as it gets.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import queue
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

SILENCE = 300.0  # seconds without a word after which a process is taken to hang
LIFE = 1500  # programs of a process: compiled programs stay in memory


def main() -> int:
    options = arguments()
    if options.worker:
        from tests.fuzz.worker import Work

        start, step, until, last = json.loads(options.worker)
        Work(options.fast, options.share).run(options.seed, range(start, last, step), until, options.check)
        return 0
    if options.alone:
        from tests.fuzz import checks

        program = pickle.load(sys.stdin.buffer)
        checks.run(program, list(checks.CHECKS) if options.alone == "all" else options.alone.split(","))
        return 0
    if options.replay:
        return replay(options.replay, options.check)
    return Run(options).run()


def arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--seed", default=str(int(time.time())), help="the programs are those of this seed")
    parser.add_argument("--programs", type=int, default=1 << 40, help="at most so many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first program (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--check", action="append", default=[], help="this check alone, of every program; repeatable")
    parser.add_argument("--share", type=float, default=1.0, help="of the checks: more programs in the time (1.0)")
    parser.add_argument("--fast", action="store_true", help="without shrinking")
    parser.add_argument("--out", help="a file for hits, as lines of JSON")
    parser.add_argument("--replay", metavar="SEED-NUMBER", help="try one program again, and shrink it")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    return parser.parse_args()


class Run:
    """The processes, and what they said."""

    def __init__(self, options: Any):
        self.options = options
        self.began, self.until = time.time(), time.time() + 60 * options.minutes
        self.programs, self.compared, self.slow = 0, 0, 0
        self.groups: dict[Any, list[dict[str, Any]]] = {}
        self.again: Counter[Any] = Counter()
        self.words: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self.processes: dict[int, Any] = {}
        self.at: dict[int, int] = {}
        self.heard: dict[int, float] = {}
        self.last = options.first + options.programs

    def start(self, job: int, first: int) -> None:
        last = min(self.last, first + LIFE * self.options.jobs)
        task = json.dumps([first, self.options.jobs, self.until, last])
        command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--seed", self.options.seed, "--worker", task]
        command += [word for check in self.options.check for word in ("--check", check)]
        command += ["--share", str(self.options.share), *(["--fast"] if self.options.fast else [])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes[job], self.heard[job] = process, time.time()
        self.at[job] = first - self.options.jobs
        threading.Thread(target=self.listen, args=(job, process), daemon=True).start()

    def listen(self, job: int, process: Any) -> None:
        errors: list[str] = []
        drain = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)
        drain.start()
        finished = False
        for line in process.stdout:
            try:
                word = json.loads(line)
            except ValueError:
                continue  # a program printed something
            finished |= "finished" in word
            self.words.put((job, word))
        code = process.wait()
        drain.join(5)
        tail = "".join(errors)[-1500:]
        self.words.put((job, {"ended": code if not finished else 0, "tail": tail}))

    def run(self) -> int:
        for job in range(self.options.jobs):
            self.start(job, self.options.first + job)
        spoken = time.time()
        while self.processes:
            try:
                job, word = self.words.get(timeout=5)
            except queue.Empty:
                self.watch()
                continue
            self.heard[job] = time.time()
            self.hear(job, word or {})
            if time.time() - spoken > 30:
                spoken = time.time()
                print(self.figures(), flush=True)
        return self.summary()

    def watch(self) -> None:
        for job, process in self.processes.items():
            if time.time() - self.heard[job] > SILENCE:
                process.kill()

    def hear(self, job: int, word: dict[str, Any]) -> None:
        if "at" in word:
            self.at[job] = word["at"]
        elif "done" in word:
            self.programs += 1
            self.compared += word["compared"]
        elif "slow" in word:
            self.slow += 1
        elif "again" in word:
            self.again[tuple(word["again"])] += 1
        elif "hit" in word:
            self.hit(word["hit"])
        elif "ended" in word:
            self.ended(job, word)

    def ended(self, job: int, word: dict[str, Any]) -> None:
        del self.processes[job]
        if word["ended"]:
            how = "hung" if time.time() - self.heard[job] > SILENCE else f"ended with code {word['ended']}"
            seed = f"{self.options.seed}-{self.at[job]}"
            text = f"the process {how}\n{word['tail']}"
            self.hit(
                {
                    "seed": seed,
                    "check": "process",
                    "kind": how,
                    "text": text,
                    "source": "",
                    "operations": [],
                    "known": None,
                }
            )
        following = self.at[job] + self.options.jobs
        if time.time() < self.until and following < self.last:
            self.start(job, following)

    def hit(self, hit: dict[str, Any]) -> None:
        if self.options.out:
            with open(self.options.out, "a") as file:
                file.write(json.dumps(hit) + "\n")
        key = (
            hit["check"].split(" ")[0],
            cause(hit["kind"]),
            *(hit["operations"] if hit["kind"] in ("value", "type") else ()),
        )
        group = self.groups.setdefault(key, [])
        group.append(hit)
        if len(group) == 1 and not hit["known"]:
            print(f"-- {hit['seed']} {hit['check']}: {hit['kind']}\n{hit['text'][:300]}\n{hit['source']}", flush=True)

    def figures(self) -> str:
        minutes = (time.time() - self.began) / 60
        found = sum(not group[0]["known"] for group in self.groups.values())
        done = f"{self.programs} programs, {self.compared} comparisons, {self.slow} too slow"
        return f"{minutes:.1f} min: {done}, {found} causes"

    def summary(self) -> int:
        print("\n== " + self.figures())
        for (check, *rest), group in sorted(self.groups.items(), key=lambda item: -len(item[1])):
            hit = group[0]
            times = len(group) + self.again[hit["check"], hit["kind"]]
            shortest = min(group, key=lambda each: len(each["source"]) or 1 << 30)
            if hit["known"]:
                print(f"{times:5d} known: {hit['known']}")
                continue
            print(f"{times:5d} {check}: {' | '.join(rest)}   --replay {shortest['seed']}")
        return int(any(not hit["known"] for group in self.groups.values() for hit in group))


def cause(kind: str) -> str:
    """The kind without the types and numbers of one program."""
    return re.sub(r"\b[a-z]+\d+\[[\d,]*\]|\d+|'[^']*'", "_", kind)[:70]


def replay(seed: str, only: list[str]) -> int:
    from tests.fuzz import worker
    from tests.fuzz.generate import Generator
    from tests.fuzz.shrink import shrink

    program = Generator(seed).program()
    if worker.alone(program, ",".join(only) or "all"):
        small = shrink(program, lambda candidate: worker.alone(candidate, ",".join(only) or "all"), 600.0)
        print(f"# The process ends or hangs.\n{small.source()}")
        return 1
    examiner = worker.Examiner(only or [*worker.checks.CHECKS, "refused"])
    found = [*examiner.examine(seed), *examiner.rest()]
    for each in worker.first_of_each(found):
        made = worker.described(seed, worker.shrunk(each.program, each.hit), each.hit, each.program)
        print(f"# {made['check']}: {made['kind']}\n# " + made["text"].replace("\n", "\n# "))
        print(f"# known: {made['known']}\n{made['source']}" if made["known"] else made["source"])
    if not found:
        print(program.source() + "\n# Nothing is wrong with it.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
