"""Planning in a thread of its own, so that Ctrl-C and a progress function work meanwhile."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from . import _library as c
from ._errors import OverBudget

ProgressCallback = Callable[[float, float, bool], Any]
"""Called with seconds since planning began, the cost of the best schedule so far, and whether it keeps the budget."""


class Line:
    """A line on standard error that shows the progress of planning, if that is a terminal."""

    def __init__(self, base_cost: float, limit: float = 0, plans: int = 0) -> None:
        self.shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.base_cost, self.limit, self.plans, self.plan = base_cost, limit, plans, 0
        self.best: tuple[float, bool] | None = None
        self.started, self.drawn = time.monotonic(), False

    def next_plan(self) -> None:
        self.plan, self.best = self.plan + 1, None

    def tell(self, seconds: float, cost: float, fits: bool) -> None:
        self.best = cost, fits

    def draw(self) -> None:
        seconds = time.monotonic() - self.started
        if not self.shown or seconds < 0.3:
            return
        text = f"planning  {seconds:.1f} s" + (f" of {self.limit:g} s" if self.limit > 0 else "")
        if self.plans > 0:
            text += f"  plan {self.plan} of {self.plans}"
        if self.best is not None and not self.best[1]:
            text += "  nothing fits yet"
        elif self.best is not None and self.base_cost > 0:
            text += f"  best so far +{max(0.0, 100 * (self.best[0] / self.base_cost - 1)):.1f} %"
        width = shutil.get_terminal_size((80, 24)).columns - 1
        sys.stderr.write(f"\r{text[:width]}\033[K")
        sys.stderr.flush()
        self.drawn = True

    def clear(self) -> None:
        if self.drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


class _Task:
    """A call of neap_plan_make_with, on a thread of its own."""

    def __init__(
        self, step: ctypes.c_void_p, budget: int, planner: str, seconds: float, quick: bool, least_work: int
    ) -> None:
        self.step, self.budget = step, budget
        self.stop = ctypes.c_int(0)
        self.callback: ProgressCallback | None = None
        self.failure: BaseException | None = None  # of the callback
        self.plan, self.smallest, self.status, self.message = ctypes.c_void_p(), ctypes.c_uint64(), c.INTERNAL, ""
        self.function = c.ProgressFunction(self._tell)
        self.options = c.PlanOptions(
            planner=planner.encode(errors="replace"),
            quick=quick,
            seconds=seconds,
            least_work=least_work,
            progress=self.function,
            stop=ctypes.pointer(self.stop),
        )

    def _tell(self, progress: Any, context: Any) -> None:
        if self.callback is None or self.failure is not None:
            return
        told = progress.contents
        try:
            self.callback(told.seconds, told.cost, told.fits)
        except BaseException as error:  # raised to the caller, past the library
            self.failure = error
            self.stop.value = 1

    def run(self) -> None:
        make = c.lib.neap_plan_make_with
        self.status = make(self.step, self.budget, self.options, self.smallest, self.plan)
        if self.status != c.OK:
            self.message = c.error_message()


def _wait(thread: threading.Thread, task: _Task, line: Line | None) -> None:
    """Waits until the thread ends. An exception meanwhile, such as KeyboardInterrupt, stops the thread and is raised after it."""
    try:
        while thread.is_alive():
            thread.join(0.1)
            if line is not None and thread.is_alive():
                line.draw()
    except BaseException:
        task.stop.value = 1
        while thread.is_alive():  # a second Ctrl-C must not leave it behind: it uses the caller's arrays
            try:
                thread.join()
            except KeyboardInterrupt:
                continue
        if task.plan:
            c.lib.neap_plan_free(task.plan)
        raise


def make_plan(
    step: ctypes.c_void_p,
    budget: int,
    planner: str,
    seconds: float,
    quick: bool,
    least_work: int,
    callback: ProgressCallback | None,
    line: Line | None,
) -> ctypes.c_void_p:
    """Returns a plan, which neap_plan_free frees. An exception of the callback ends planning and is raised."""
    task = _Task(step, budget, planner, seconds, quick, least_work)
    task.callback = callback if callback is not None else line.tell if line is not None else None
    thread = threading.Thread(target=task.run, name="neap planning", daemon=True)
    thread.start()
    _wait(thread, task, line)
    if task.failure is not None:
        if task.plan:
            c.lib.neap_plan_free(task.plan)
        raise task.failure
    if task.status == c.OVER_BUDGET:
        raise OverBudget(task.message, task.smallest.value or None)
    if task.status != c.OK:
        raise c.exception_of(task.status, task.message)
    return task.plan
