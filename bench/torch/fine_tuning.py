#!/usr/bin/env python3
"""Times fine-tuning steps in turn, in eager PyTorch and by neap.torch, and prints the ratios to eager.

    fine_tuning.py smollm2|resnet50|vocabulary        (needs transformers and peft; resnet50: torchvision)

smollm2: the shape of SmolLM2-135M, LoRA of rank 8, 4 x 256, beside gradient checkpointing. resnet50: LoRA of rank 8 on all
convolutions, batch 16, in the memory of full fine-tuning and in half of it. vocabulary: the least budget of a Llama of 2 layers
with 151,936 words by the rows of its head's chunks. Weights are random: they do not change times or bytes."""

import copy
import statistics
import sys
import time
import warnings

import torch
from torch.nn import functional as F

import neap.torch

ROUNDS, MIB = 4, 2**20


def trainable(model):
    return [p for p in model.parameters() if p.requires_grad]


def eager_step(model, loss_fn, optimizer, batch):
    def step():
        loss_fn(model, *batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def neap_step(model, loss_fn, optimizer, batch, name, **options):
    began = time.perf_counter()
    step = neap.torch.compile_step(model, loss_fn, optimizer, **options)
    memory = step.prepare(*batch)
    print(f"{name}: {memory.planned_peak_bytes / MIB:.0f} MiB, prepared in {time.perf_counter() - began:.1f} s", flush=True)
    return lambda: step(*batch)


def in_turns(ways):
    for run in ways.values():
        run()
    seconds = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    eager = statistics.median(seconds["eager"])
    for name, values in seconds.items():
        print(f"{name}: {statistics.median(values):.2f} s, {statistics.median(values) / eager:.3f} of eager")


def llama(layers, vocabulary, tied):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary, hidden_size=576, intermediate_size=1536, num_hidden_layers=layers, num_attention_heads=9,
            num_key_value_heads=3, tie_word_embeddings=tied, max_position_embeddings=2048, use_cache=False,
        )
    )  # fmt: skip


def language_loss(model, ids):
    return model(input_ids=ids, labels=ids).loss


def smollm2():
    from peft import LoraConfig, get_peft_model

    base = llama(30, 49152, True)
    base = get_peft_model(base, LoraConfig(r=8, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    batch = (torch.randint(49152, (4, 256)),)

    def own():
        model = copy.deepcopy(base)
        return model, language_loss, torch.optim.AdamW(trainable(model), lr=2e-4), batch

    checkpointed = own()
    checkpointed[0].base_model.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    checkpointed[0].enable_input_require_grads()
    checkpointed[0].train()
    ways = {"eager": eager_step(*own()), "checkpointed": eager_step(*checkpointed)}
    for name, options in (("max", {}), ("max, fused", {"fuse": True}), ("1400MiB", {"budget": "1400MiB"})):
        ways[name] = neap_step(*own(), name, **{"budget": "max", **options})
    in_turns(ways)


def resnet50():
    from peft import LoraConfig, get_peft_model
    from torchvision.models import resnet50 as build

    base = build(num_classes=10)
    layers = [n for n, m in base.named_modules() if isinstance(m, torch.nn.Conv2d)]
    batch = (torch.randn(16, 3, 224, 224), torch.randint(10, (16,)))

    def loss_fn(model, x, y):
        return F.cross_entropy(model(x), y)

    def own(lora=True):
        model = copy.deepcopy(base)
        if lora:
            model = get_peft_model(model, LoraConfig(r=8, target_modules=layers, modules_to_save=["fc"]))
        return model, loss_fn, torch.optim.SGD(trainable(model), lr=0.01, momentum=0.9), batch

    model, _, optimizer, _ = own(lora=False)
    whole = neap.torch.compile_step(model, loss_fn, optimizer, budget="max")
    full = whole.prepare(*batch).planned_peak_bytes
    whole.release()
    ways = {"eager": eager_step(*own())}
    for name, budget in (("full fine-tuning's memory", full), ("half of it", full // 2)):
        ways[name] = neap_step(*own(), name, budget=budget)
    in_turns(ways)


def vocabulary():
    words = 151936
    model, batch = llama(2, words, False), (torch.randint(words, (1, 512)),)
    for rows in (32, 64, 128):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        step = neap.torch.compile_step(model, language_loss, optimizer, budget="min", chunk_head=rows)
        memory = step.prepare(*batch)
        rest = memory.planned_peak_bytes - memory.resident_bytes - words * 576 * 4
        print(f"chunks of {rows} rows: at rest, the head's gradient, and {rest / MIB:.1f} MiB", flush=True)
        step.release()


if __name__ == "__main__":
    nets = {f.__name__: f for f in (smollm2, resnet50, vocabulary)}
    if len(sys.argv) != 2 or sys.argv[1] not in nets:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    nets[sys.argv[1]]()
