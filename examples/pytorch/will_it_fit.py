"""Will a Llama fit, and where do the bytes go? Planned on the meta device: nothing of the model's size is allocated.

    python will_it_fit.py                                       # about 1.1 billion parameters, AdamW
    python will_it_fit.py --layers 32 --width 4096 --inner 11008 --heads 32 --kv-heads 32 --budget 80GiB

Exit status 3: it does not fit the budget; the page is then that of the least one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import neap
import neap.torch
import torch
import transformers


def loss_of(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return model(input_ids=tokens, labels=tokens).loss


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--budget", default="24GiB", help='"24GiB", "60%%" of what keeping everything needs, "min" or "max"'
    )
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--inner", type=int, default=5632, help="width of the feed-forward layers")
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument(
        "--dtype", choices=["float32", "bfloat16"], default="float32", help="of parameters, gradients and states"
    )
    parser.add_argument("--points", type=int, default=6, help="of the curve; 0: none")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("will_it_fit.html"), help="the page: memory over the step"
    )
    options = parser.parse_args()

    config = transformers.LlamaConfig(
        vocab_size=options.vocabulary,
        hidden_size=options.width,
        intermediate_size=options.inner,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads,
        max_position_embeddings=options.length,
        use_cache=False,
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).to(getattr(torch, options.dtype))
        tokens = torch.zeros(options.batch, options.length, dtype=torch.long)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count:,} parameters, {options.dtype}, batch {options.batch}, {options.length} tokens")

    report = neap.torch.plan(model, loss_of, (tokens,), optimizer=torch.optim.AdamW, budget=options.budget)
    print(report.table())
    options.output.write_text(report.html())
    print(f"the page: {options.output}")
    if options.points:
        print(f"\n{report.curve(options.points).table()}")
    if not report.feasible:
        print(
            f"\n{options.budget} cannot be met; the least is {neap.format_bytes(report.smallest_budget_bytes)}",
            file=sys.stderr,
        )
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
