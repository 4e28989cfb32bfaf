"""Hugging Face's Trainer inside a memory budget: one line, `model.compile(backend="neap", ...)`, and the rest as it is.

    python trainer.py                      # a small GPT-2 with random weights, on this file's own text
    python trainer.py book.txt --budget 40%
    python trainer.py --eager              # without Neap: the same losses, bit for bit

The budget is that of forward and backward pass, with parameters and gradients. What the optimizer holds comes on top, or is
set aside from a budget in bytes by the option `optimizer_bytes`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import neap.torch
import torch
import transformers

TEXT = """\
A neap tide comes twice a month, when the moon stands at its first or its last quarter. Sun and moon then pull at right
angles, and the sea rises less than on other days. High water is low, and low water is high. Who builds a harbour asks for
the highest water that will ever come; who wants to cross a sandbank asks for the lowest. A boat that went aground on a
spring tide may have to wait two weeks, or half a year, until as much water comes again.
"""


def samples(text: str, length: int) -> list[dict[str, torch.Tensor]]:
    """Pieces of one length, a token for each byte: all batches have one shape, so that one plan serves them."""
    data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long()
    data = data.repeat(-(-8 * length // len(data))) if len(data) < 8 * length else data
    pieces = data[: len(data) // length * length].view(-1, length)
    return [{"input_ids": piece, "labels": piece} for piece in pieces]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="?", type=Path, help="a text file; without one, this example's own text")
    parser.add_argument(
        "--budget", default="50%", help='"200MiB", "50%%" of what keeping everything needs, "min" or "max"'
    )
    parser.add_argument("--eager", action="store_true", help="train without Neap")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128, help="tokens of a piece of text")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    options = parser.parse_args()

    text = options.text.read_text(errors="replace") if options.text else TEXT * 20
    transformers.set_seed(1)
    config = transformers.GPT2Config(
        vocab_size=256,
        n_positions=options.length,
        n_embd=options.width,
        n_layer=options.layers,
        n_head=4,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = transformers.GPT2LMHeadModel(config)
    # Named, as transformers logs a warning about its guess: a call that torch.compile cannot capture, so that the loss would
    # become a graph of its own. Most models need no such line; TORCH_LOGS=graph_breaks tells.
    model.loss_type = "ForCausalLM"
    if not options.eager:
        model.compile(backend="neap", options={"budget": options.budget}, dynamic=False)

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch,
            dataloader_drop_last=True,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            seed=1,
        )
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=samples(text, options.length))
        # Trainer prints each entry itself where there is no progress bar; here they are printed in the end.
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(f"step {entry['step']}  loss {float(entry['loss']):.9g}")
    for number, memory in enumerate(neap.torch.last_plans()):
        print(f"\ngraph {number}\n{memory}")


if __name__ == "__main__":
    main()
