"""Ctrl-C while it plans ends the planning soon, as KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

PROGRAM = """
import signal, sys
sys.path.insert(0, {here!r})
import neap
# A shell starts what runs in its background with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from helpers import random_step

step = random_step(1, 600)
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    plan = neap.plan(random_step(2), "max")
    print("planned" if neap.check(plan.step, plan) else "failed", flush=True)
else:
    print("ended", flush=True)
"""


@pytest.mark.parametrize(
    "call", ['neap.plan(step, "70%", "neap", seconds=100, progress=True)', 'neap.curve(step, "neap", 50, seconds=100)']
)
def test_interrupt(call: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(here=str(HERE), call=call)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begun < 2
        assert process.stdout.readline() == "planned\n"
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
