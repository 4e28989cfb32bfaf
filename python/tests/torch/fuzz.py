"""Random programs beside eager PyTorch, bit for bit.

    python fuzz.py --seeds 0:10000 [--family operators|objects] [--door step|backend|both|fuse] [--seconds N] [--jobs N] [--save FOLDER] [--without REGEX]
    python fuzz.py --show SEED [--family operators|objects]

Programs of operators have random statements and batches; programs of objects hold what a step reads in many ways, and change it between
steps.

Each program runs in a process of its own making, so that a crash is a finding too. A line says each fault: the seed, the door, what is
wrong, and the shrunk program. At the end come the numbers of each outcome, refusals by their reason. The exit status is 1 where there is a fault."""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import queue
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

LIMIT = 240.0  # seconds of a program; more is a fault
LIFE = 400  # programs of a worker, before another one takes its place
FAMILIES = {
    "operators": ("fuzz_program", "fuzz_run"),
    "objects": ("fuzz_objects", "fuzz_objects_run"),
}  # what makes programs and runs them


def family(name: str) -> tuple[Any, Any]:
    """The modules of a family: one that has generate(seed) and smaller(program), and one that has examine(source, door)."""
    made, run = map(importlib.import_module, FAMILIES[name])
    return made, run


class Worker:
    """A process that examines programs; another one starts where it died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.done = 0

    def start(self) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors
        )
        self.done = 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.errors.close()
            self.process = None

    def ask(self, question: dict[str, Any], limit: float = LIMIT) -> dict[str, Any]:
        """What fuzz_run.examine finds; a crash and a hang are faults."""
        if self.process is None or self.done >= LIFE:
            self.stop()
            self.start()
        self.done += 1
        fault = {"outcome": "fault", "door": question.get("door", ""), "seed": question.get("seed")}
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        if not ready:
            self.stop()
            return {**fault, "kind": "hangs", "detail": f"no answer in {limit:.0f} s"}
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")
        self.stop()
        return {**fault, "kind": f"crash ({code})", "detail": said[-1500:]}


def work() -> None:
    """The worker's side: a question a line, an answer a line."""
    import faulthandler

    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, str(Path(__file__).parent))  # which Python leaves out where it is told to be safe
    import torch

    torch.set_num_threads(1)
    torch.set_warn_always(False)
    for line in sys.stdin:
        question = json.loads(line)
        makes, runs = family(question["family"])
        try:
            source, tries = question.get("source"), 0
            if source is None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    program, tries = makes.generate(question["seed"])
                source = program.source()
            began = time.monotonic()
            found = runs.examine(source, question["door"])
            found |= {"tries": tries, "seconds": time.monotonic() - began}
        except Exception as error:
            found = {
                "outcome": "fault",
                "door": question["door"],
                "kind": "the fuzzer failed",
                "detail": f"{type(error).__name__}: {error}",
            }
        answers.write(json.dumps({**found, "seed": question.get("seed")}) + "\n")
        answers.flush()


def signature(found: dict[str, Any]) -> str:
    """What two findings of one cause have in common, as far as their words tell."""
    text = f"{found['door']}: {found['kind']}"
    if found["kind"] == "other bits":
        text += f" of a {re.search(r'step [0-9]+: ([A-Za-z_]+)', found['detail'])[1]}"
    else:
        text += f" {re.sub(r'<program .*?>|v[0-9]+|[0-9.]+', 'N', found.get('detail', ''))[:90]}"
    return text


def shrink(program: Any, found: dict[str, Any], worker: Worker, seconds: float, of: str) -> tuple[Any, dict[str, Any]]:
    """The smallest program of a family found in the time that is wrong in the same way."""
    end, asked = time.monotonic() + seconds, set()
    again = True
    while again and time.monotonic() < end:
        again = False
        for candidate in family(of)[0].smaller(program):
            source = candidate.source()
            if source in asked:
                continue
            asked.add(source)
            answer = worker.ask({"source": source, "door": found["door"], "family": of}, 120.0)
            if answer["outcome"] == "fault" and answer["kind"] == found["kind"]:
                program, found, again = candidate, answer, True
                break
            if time.monotonic() > end:
                break
    return program, found


class Campaign:
    """A run over many seeds."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.counts: collections.Counter[str] = collections.Counter()
        self.reasons: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.signatures: collections.Counter[str] = collections.Counter()
        self.questions: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.end = time.monotonic() + options.seconds if options.seconds else float("inf")
        self.began = time.monotonic()
        self.slowest: list[tuple[float, str]] = []

    def run(self) -> int:
        first, _, last = self.options.seeds.partition(":")
        doors = ["step", "backend"] if self.options.door == "both" else [self.options.door]
        for seed in range(int(first), int(last or int(first) + 1)):
            for door in doors:
                self.questions.put({"seed": seed, "door": door, "family": self.options.family})
        threads = [threading.Thread(target=self.serve) for _ in range(self.options.jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        print(self.summary())
        return 1 if self.counts["fault"] else 0

    def serve(self) -> None:
        worker, spare = Worker(), Worker()
        while time.monotonic() < self.end:
            try:
                question = self.questions.get_nowait()
            except queue.Empty:
                break
            found = worker.ask(question)
            if found["outcome"] == "fault":
                worker.stop()  # what is wrong may have spoiled the process
                self.tell(found, spare)
            self.count(found)
        worker.stop()
        spare.stop()

    def count(self, found: dict[str, Any]) -> None:
        with self.lock:
            outcome = found["outcome"] if not found.get("known") else found["known"]
            self.counts[outcome] += 1
            if outcome == "refused" or found.get("known"):
                self.reasons[outcome][
                    f"{found['door']}: {found.get('kind') or re.sub(r'[mpbv]?[0-9.]+(e-[0-9]+)?', 'N', found.get('apart', ''))[:60]}"
                ] += 1
            for note in ("unenforced", "replanned", "replaced", "refused later"):
                if note in found:
                    self.reasons[note][found[note]] += 1
            self.counts["recomputing"] += found.get("recomputed", 0) > 0
            self.slowest = sorted([*self.slowest, (found.get("seconds", LIMIT), f"{found['seed']} {found['door']}")])[
                -5:
            ]
            if self.options.verbose:
                print(json.dumps(found), flush=True)
            done = sum(self.counts.values()) - self.counts["recomputing"]
            if done % 500 == 0:
                print(f"# {done} in {time.monotonic() - self.began:.0f} s: {dict(self.counts)}", flush=True)

    def tell(self, found: dict[str, Any], spare: Worker) -> None:
        of = self.options.family
        with self.lock:
            name = signature(found)
            self.signatures[name] += 1
            fresh = self.signatures[name] <= (6 if found["kind"] == "other bits" else 2)
        line = {k: found[k] for k in ("seed", "door", "kind", "detail") if k in found}
        if fresh and self.options.shrink:
            alone = spare.ask({"seed": found["seed"], "door": found["door"], "family": of})
            spare.stop()
            if alone["outcome"] == "fault":
                with self.lock, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    program, _ = family(of)[0].generate(found["seed"])
                program, line["shrunk"] = shrink(program, alone, spare, self.options.shrink, of)
                line["source"] = program.source()
            else:
                line["alone"] = alone["outcome"]
        with self.lock:
            print(json.dumps(line), flush=True)
            if self.options.save and "source" in line:
                folder = Path(self.options.save)
                folder.mkdir(parents=True, exist_ok=True)
                head = f"# seed {found['seed']}, {found['door']}: {line['shrunk']['kind']}: {line['shrunk'].get('detail', '')}"
                (folder / f"{of}_{found['door']}_{found['seed']}.py").write_text(
                    " ".join(head.splitlines()) + "\n" + line["source"]
                )

    def summary(self) -> str:
        lines = [f"{n:7} {what}" for what, n in self.counts.most_common()]
        for what, reasons in self.reasons.items():
            lines += [f"{n:7} {what}: {why}" for why, n in reasons.most_common(25)]
        lines += [f"{n:7} fault: {why}" for why, n in self.signatures.most_common()]
        lines.append(
            f"slowest: {', '.join(f'{who} {s:.1f} s' for s, who in reversed(self.slowest))}; {time.monotonic() - self.began:.0f} s in all"
        )
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100", help="FIRST:BEHIND_LAST")
    parser.add_argument("--family", choices=list(FAMILIES), default="operators")
    parser.add_argument("--door", choices=["step", "backend", "both", "fuse"], default="both")
    parser.add_argument("--seconds", type=float, default=0, help="stop after these")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shrink", type=float, default=60, help="seconds that a fault may take to shrink; 0: none")
    parser.add_argument("--save", help="a folder for shrunk programs")
    parser.add_argument("--show", type=int, help="prints the program of this seed")
    parser.add_argument(
        "--without",
        default="",
        help="a regular expression: rows that it finds are left out, while their fault is known",
    )
    parser.add_argument("--verbose", action="store_true", help="a line for each program")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.without:
        os.environ["NEAP_FUZZ_WITHOUT"] = options.without
    if options.worker:
        work()
        return 0
    if options.show is not None:
        print(family(options.family)[0].generate(options.show)[0].source())
        return 0
    return Campaign(options).run()


if __name__ == "__main__":
    sys.exit(main())
