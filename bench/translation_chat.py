#!/usr/bin/env python3
"""Fine-tunes a model on 2,000 pairs of Multi30k as conversations, one pass, and prints held-out perplexity and token accuracy
before and after, beside peft's on the same weights in f32, with as many steps.

    translation_chat.py MODEL.gguf MULTI30K FOLDER [--pairs N]     (needs torch, transformers, gguf and peft; build/neap)

FOLDER gets the conversations and what the runs write. Adapters of rank 8 on queries and values, AdamW at 0.0002, 4 rows of at
most 256 tokens a step, seeds 1 to 3, in 200 MB; seed 1 in 100 MB, too. peft takes each conversation padded, in an order by seed."""

import argparse
import json
import math
import random
import subprocess
import sys
from pathlib import Path

NEAP = Path(__file__).parents[1] / "build" / "neap"
SEEDS, HELD_OUT, LENGTH, RATE = (1, 2, 3), 200, 256, 2e-4


def write_conversations(data, folder, pairs):
    for part, source, count in (("train", "train", pairs), ("valid", "val", HELD_OUT)):
        german, english = ((data / f"{source}.lc.norm.tok.{s}").read_text().splitlines()[:count] for s in ("de", "en"))
        rows = [
            {"messages": [{"role": "user", "content": f"translate to English: {a}"}, {"role": "assistant", "content": b}]}
            for a, b in zip(german, english, strict=True)
        ]
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def neap(model, folder, budget, *options):
    command = [NEAP, "finetune", model, "--data", f"chat:{folder}", "--length", str(LENGTH), "--batch", "4", "--threads", "2"]
    made = subprocess.run(
        [*command, "--process-budget", budget, "--json", *options], stdout=subprocess.PIPE, text=True, check=False
    )
    if made.returncode != 0:
        sys.exit(f"neap finetune in {budget} ended with {made.returncode}")
    return json.loads(made.stdout)


def say(name, loss, accuracy, more=""):
    print(f"{name:24} perplexity {math.exp(loss):7.3f}  token accuracy {100 * accuracy:6.2f} %  {more}", flush=True)


class Peft:
    def __init__(self, model, folder):
        import torch
        import transformers

        self.torch, self.model = torch, model
        load = {"pretrained_model_name_or_path": model.parent, "gguf_file": model.name}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(**load)
        self.base = lambda: transformers.AutoModelForCausalLM.from_pretrained(**load, dtype=torch.float32)
        self.parts = {
            name: [self.render(json.loads(line)["messages"]) for line in (folder / f"{name}.jsonl").open()]
            for name in ("train", "valid")
        }

    def render(self, messages):
        """Tokens, and as labels those of the answer with the token that ends its turn."""
        whole, before = (
            self.tokenizer.apply_chat_template(part, tokenize=False, add_generation_prompt=prompt)
            for part, prompt in ((messages, False), (messages[:-1], True))
        )
        end = whole.rindex("<|im_end|>") + len("<|im_end|>")
        made = self.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        inside = [len(before) <= begin < end for begin, _ in made["offset_mapping"]]
        labels = [i if counts else -100 for i, counts in zip(made["input_ids"], inside, strict=True)]
        return made["input_ids"][: LENGTH + 1], labels[: LENGTH + 1]

    def pad(self, records):
        longest = max(len(ids) for ids, _ in records)
        fill = ((0, -100)[k] for k in (0, 1))
        return [self.torch.tensor([r[k] + [x] * (longest - len(r[k])) for r in records]) for k, x in enumerate(fill)]

    def evaluate(self, model):
        loss = right = count = 0
        with self.torch.no_grad():
            for at in range(0, len(self.parts["valid"]), 8):
                ids, labels = self.pad(self.parts["valid"][at : at + 8])
                logits, wanted = model(input_ids=ids).logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
                loss += self.torch.nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
                right += (logits.argmax(-1) == wanted).sum().item()
                count += (wanted >= 0).sum().item()
        return loss / count, right / count

    def train(self, seed, steps):
        import peft

        self.torch.manual_seed(seed)
        options = {"r": 8, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
        model = peft.get_peft_model(self.base(), peft.LoraConfig(**options))
        update = self.torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=0.01)
        order = list(self.parts["train"])
        random.Random(seed).shuffle(order)
        for step in range(steps):
            ids, labels = self.pad(order[len(order) * step // steps : len(order) * (step + 1) // steps])
            for group in update.param_groups:
                group["lr"] = RATE * min(1, (step + 1) / max(1, 0.03 * steps))
            update.zero_grad()
            model(input_ids=ids, labels=labels).loss.backward()
            update.step()
        return self.evaluate(model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=2000)
    a = parser.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    write_conversations(a.data, a.folder, a.pairs)

    found = neap(a.model, a.folder, "200MB", "--steps", "1", "--lr", "0", "--weight-decay", "0")
    say("neap, before", found["test_loss"], found["test_accuracy"])
    digests = []
    for budget, seed in [("200MB", seed) for seed in SEEDS] + [("100MB", SEEDS[0])]:
        found = neap(a.model, a.folder, budget, "--epochs", "1", "--seed", str(seed))
        digests.append(found["weights_sha256"])
        more = f"{found['steps']} steps of {found['step_seconds_median']:.2f} s, process {found['process_peak_bytes'] / 1e6:.0f} MB"
        say(f"neap, {budget}, seed {seed}", found["test_loss"], found["test_accuracy"], more)
    print("the weights in 100 MB are", "those" if digests[0] == digests[-1] else "NOT those", "in 200 MB", flush=True)

    peft = Peft(a.model, a.folder)
    say("transformers, before", *peft.evaluate(peft.base()))
    for seed in SEEDS:
        say(f"peft, seed {seed}", *peft.train(seed, found["steps"]))


main()
