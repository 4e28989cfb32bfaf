"""Interrupts (Ctrl-C) during a step."""

from __future__ import annotations

import signal
import threading
from typing import Any


class Interrupts:
    """While entered, an interrupt is delivered at once before `wait` was called, and at the exit after that. In threads that get no signals
    it does nothing."""

    def __enter__(self) -> Interrupts:
        self.waits, self.waiting = False, ()
        self.usual: Any = None
        usual = signal.getsignal(signal.SIGINT)
        if callable(usual) and threading.current_thread() is threading.main_thread():
            self.usual = usual
            signal.signal(signal.SIGINT, self._take)
        return self

    def wait(self) -> None:
        self.waits = True

    def _take(self, *received: Any) -> None:
        if self.waits:
            self.waiting = received
        else:
            self.usual(*received)

    def __exit__(self, *_: Any) -> None:
        if self.usual is not None:
            signal.signal(signal.SIGINT, self.usual)
            if self.waiting:
                self.usual(*self.waiting)
