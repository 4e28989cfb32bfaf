"""What is said of budgets: refusals in the user's terms, and what a low budget costs."""

from __future__ import annotations

import re
import time
import warnings

import helpers
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import neap.torch
from neap.torch import advice


def deep(width=64, blocks=12):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(blocks)])


def mean_square(model, x):
    return model(x).square().mean()


def compiled(model, loss_fn=mean_square, **options):
    return neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), **options)


def refusal(step, *batch):
    with pytest.raises(neap.OverBudget) as caught:
        step(*batch)
    return caught.value, str(caught.value)


def test_a_refusal_says_what_the_least_is_made_of():
    model = deep()
    step = compiled(model, budget="1MiB")
    error, text = refusal(step, torch.randn(4096, 64))
    least = compiled(model, budget="min")
    least.prepare(torch.randn(4096, 64))
    assert error.smallest == least.memory.planned_peak_bytes
    share = 100 * error.smallest / least.memory.keep_all_bytes
    assert f"the least is {neap.format_bytes(error.smallest)}, {share:.0f} % of keeping everything" in text
    assert f"of which {neap.format_bytes(least.memory.parameter_bytes)} are parameters" in text
    assert text.endswith("to need less, use micro_batches=2")


def test_ways_out_are_those_that_would_help():
    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(5000, 16), nn.Linear(16, 5000)

        def forward(self, ids):
            return self.head(self.table(ids))

    def cross(model, ids):
        return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    step = compiled(Language(), cross, budget="2MiB", micro_batches=2)
    _, text = refusal(step, torch.zeros(8, 64, dtype=torch.long))
    assert "micro_batches=4, chunk_head=True" in text
    _, text = refusal(compiled(deep(512, 2), budget="1KiB"), torch.randn(2, 512))
    assert "micro_batches" not in text and "LoRA" in text


def test_a_low_budget_says_what_it_costs(monkeypatch):
    monkeypatch.setattr(advice, "WORTH_A_WORD", 0.0)
    model, x = deep(256, 16), torch.randn(512, 256)
    step = compiled(model, budget="min")
    with pytest.warns(UserWarning, match=r"a step takes \+") as said:
        step.prepare(x)
    (text,) = [str(w.message) for w in said if "a step takes" in str(w.message)]
    assert step.memory.overhead > advice.AFFORDABLE
    assert f"+{100 * step.memory.overhead:.0f} %" in text
    named = re.search(r"in ([\d.]+ \w+) at most \+50 %", text)[1]
    other = compiled(model, budget=named)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.prepare(x)
    assert other.memory.overhead <= advice.AFFORDABLE


def test_a_line_is_shown_on_a_terminal_only_after_a_while(monkeypatch):
    class Terminal:
        def __init__(self, is_one):
            self.is_one, self.text = is_one, ""

        def isatty(self):
            return self.is_one

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    for is_one, wait, expected in ((True, 0.2, "capturing"), (True, 0.0, ""), (False, 0.2, "")):
        monkeypatch.setattr(advice, "SHOWN_AFTER", 0.05)
        monkeypatch.setattr(advice.sys, "stderr", Terminal(is_one))
        with advice.shown("capturing the step of X"):
            time.sleep(wait)
        text = advice.sys.stderr.text
        assert (expected in text and text.endswith("\r\033[K")) if expected else text == ""


@pytest.mark.parametrize("width,blocks,measured", [(32, 12, False), (24, 4, True)])
def test_a_plan_ahead_is_within_five_percent_of_the_step(width, blocks, measured):
    """Of a few layers, where the scratch of one call counts for much, once the calls were measured on the machine."""
    model = nn.Sequential(
        *[
            nn.Sequential(nn.Conv2d(width if i else 3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
            for i in range(blocks)
        ],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10),
    )  # fmt: skip
    batch = torch.randn(16, 3, 48, 48), torch.randint(10, (16,))
    loss_fn = lambda m, x, y: F.cross_entropy(m(x), y)  # noqa: E731
    step = neap.torch.compile_step(model, loss_fn, torch.optim.AdamW(model.parameters()), budget="max")
    if measured:
        step.prepare(*batch)
    report = neap.torch.plan(model, loss_fn, batch, optimizer=torch.optim.AdamW)
    assert report.keep_all_bytes == pytest.approx(step.prepare(*batch).keep_all_bytes, rel=0.05)
