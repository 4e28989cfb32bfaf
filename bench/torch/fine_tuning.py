#!/usr/bin/env python3
"""Times fine-tuning steps in turn, in eager PyTorch and by neap.torch, and prints the ratios to eager.

    fine_tuning.py smollm2|resnet50|vocabulary|head|lengths|sft   (needs transformers and peft; resnet50: torchvision; sft: trl)

smollm2: the shape of SmolLM2-135M, LoRA of rank 8, 4 x 256, beside gradient checkpointing. resnet50: LoRA of rank 8 on all
convolutions, batch 16, in the memory of full fine-tuning and in half of it. vocabulary: the least budget of a Llama of 2 layers
with 151,936 words by the rows of its head's chunks. head: smollm2 with `chunk_head`, in what gradient checkpointing takes, in half
of it and at the least. lengths: an encoder at 200 lengths in one step object under 100 MiB. sft: 50 steps of TRL's SFTTrainer with padding, planning
included, by `attach` and by the backend. Weights are random: they do not change times or bytes."""

import copy
import resource
import statistics
import sys
import time
import warnings

import torch
from step import counted_peak
from torch.nn import functional as F

import neap
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


def smollm2_with_lora():
    """A function that makes the arguments of a step anew, and those of a step with gradient checkpointing."""
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
    return own, checkpointed


def smollm2():
    own, checkpointed = smollm2_with_lora()
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


def head():
    own, checkpointed = smollm2_with_lora()
    ways = {"eager": eager_step(*own()), "checkpointed": eager_step(*checkpointed)}
    ways["checkpointed"]()  # makes the optimizer's states
    peak = counted_peak(ways["checkpointed"])
    rest = sum(t.numel() * t.element_size() for t in checkpointed[0].parameters()) + sum(b.nbytes for b in checkpointed[3])
    print(f"checkpointed: {(rest + peak) / MIB:.0f} MiB, {rest / MIB:.0f} of them at rest (states of the optimizer left out)")
    for name, budget in (("its memory", rest + peak), ("half of it", (rest + peak) // 2), ("the least", "min")):
        for chunks in (False, 32):
            try:
                step = neap_step(*own(), f"{name}, chunk_head={chunks}", budget=budget, chunk_head=chunks)
            except neap.OverBudget as problem:
                print(f"{name}, chunk_head={chunks}: {problem}", flush=True)
            else:
                ways[f"{name}, chunk_head={chunks}"] = step
    in_turns(ways)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def lengths():
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 128), torch.nn.TransformerEncoder(layer, 2), torch.nn.Linear(128, 10))
    few = torch.randperm(512)[:200] + 1

    def loss_fn(model, ids, y):
        return F.cross_entropy(model(ids).mean(1), y)

    def batches():
        return ((torch.randint(1000, (8, n)), torch.randint(10, (8,))) for n in few.tolist())

    def own():
        net = copy.deepcopy(model)
        return net, loss_fn, torch.optim.AdamW(net.parameters(), lr=1e-4)

    net, _, optimizer = own()
    for batch in batches():
        eager_step(net, loss_fn, optimizer, batch)()
    step = neap.torch.compile_step(*own(), budget="100MiB")
    for ahead in (False, True):
        before, most, began, steps = resident(), 0, time.perf_counter(), 0.0
        if ahead:
            step = neap.torch.compile_step(*own(), budget="100MiB")
            step.prepare(torch.randint(1000, (8, 512)), torch.randint(10, (8,)), lengths=range(1, 513))
        for batch in batches():
            step(*batch)
            most = max(most, resident())
        seconds = time.perf_counter() - began
        for batch in batches():
            started = time.perf_counter()
            step(*batch)
            steps += time.perf_counter() - started
        print(
            f"{'prepared' if ahead else 'not prepared'}: 200 lengths in {seconds:.1f} s, {seconds - steps:.1f} s beyond the steps; "
            f"resident memory {(most - before) / MIB:.0f} MiB above what was there"
        )
        step.release()


def sft():
    import tempfile

    import datasets
    import tokenizers
    import transformers
    import trl

    words = tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2} | {f"w{i}": i for i in range(3, 8192)}, "<unk>")
    splitting = tokenizers.Tokenizer(words)
    splitting.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    marks = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=splitting, **marks)
    texts = [" ".join(f"w{i}" for i in torch.randint(3, 8192, (n,)).tolist()) for n in torch.randint(32, 257, (200,)).tolist()]
    base, last = llama(6, 8192, False), {}
    for name in ("eager", "attach", "backend", "backend, dynamic=True"):
        with tempfile.TemporaryDirectory() as folder:
            trainer = trl.SFTTrainer(
                model=copy.deepcopy(base), processing_class=tokenizer, train_dataset=datasets.Dataset.from_list([{"text": t} for t in texts]),
                args=trl.SFTConfig(
                    output_dir=folder, max_steps=50, per_device_train_batch_size=4, max_length=256, logging_steps=1, save_strategy="no",
                    report_to=[], use_cpu=True, bf16=False, disable_tqdm=True, seed=1,
                ),
            )  # fmt: skip
            trainer.remove_callback(transformers.PrinterCallback)
            began = time.perf_counter()
            if name == "attach":
                neap.torch.attach(trainer, "max")
            elif name != "eager":
                trainer.model.compile(backend="neap", dynamic=True if "dynamic" in name else None, options={"budget": "max"})
            trainer.train()
            last[name] = time.perf_counter() - began
            loss = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-1]
            print(f"{name}: 50 steps in {last[name]:.1f} s, {last[name] / last['eager']:.2f} of eager, last loss {loss:.9g}", flush=True)


if __name__ == "__main__":
    nets = {f.__name__: f for f in (smollm2, resnet50, vocabulary, head, lengths, sft)}
    if len(sys.argv) != 2 or sys.argv[1] not in nets:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    nets[sys.argv[1]]()
