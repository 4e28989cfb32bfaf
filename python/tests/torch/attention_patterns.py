"""Which keys a query sees by a pattern of attention, from the definitions in `neap_operators.h`, as masks for PyTorch."""

from __future__ import annotations

import re

import torch


def entries(text: str) -> list[str]:
    """What stands between ; outside of brackets."""
    return re.findall(r"(?:\[[^\]]*\]|[^;\[\]])+", text)


def global_tokens(text: str, layer: int) -> int:
    """How many a layer has, the first ones."""
    of_layers = entries(text)
    _, _, number = of_layers[layer % len(of_layers)].strip("[]").split(";")[0].partition("global=")
    return 1 if number == "first" else int(number or 0)


def one_mask(pattern: str, times: int) -> torch.Tensor:
    pattern, _, _ = pattern.partition("global=")
    word, _, numbers = (pattern.rstrip(",") or "dense").partition(":")
    a, b, *_ = *map(int, filter(None, numbers.split(","))), 0, 0
    i, j = torch.arange(times)[:, None], torch.arange(times)
    if word == "window":
        return (i - j).abs() < a
    if word == "strided":
        return (i - j) % a == 0
    if word == "fixed":
        return (i // a == j // a) | (j % a >= a - b)
    if word == "dilated":
        return ((i - j) % b == 0) & ((i - j).abs() < a * b)
    assert word == "dense"
    return torch.ones(times, times, dtype=torch.bool)


def mask(text: str, layer: int, heads: int, times: int, causal: bool) -> torch.Tensor:
    """[heads, times, times]: whether a query sees a key."""
    of_layers = entries(text)
    patterns = entries(of_layers[layer % len(of_layers)].strip("[]"))
    sees = torch.stack([one_mask(patterns[head % len(patterns)], times) for head in range(heads)])
    sees[:, :, : global_tokens(text, layer)] = True
    return sees.tril() if causal else sees
