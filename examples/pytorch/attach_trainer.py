"""Hugging Face's Trainer inside a memory budget, the whole step with the optimizer: one line, `neap.torch.attach`.

python attach_trainer.py            # a tiny random Llama, no network
python attach_trainer.py --eager    # without Neap: the same losses, bit for bit
"""

from __future__ import annotations

import sys
import tempfile

import neap.torch
import torch
import transformers

transformers.set_seed(1)
model = transformers.LlamaForCausalLM(
    transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
)
pieces = torch.randint(256, (64, 128))
data = [{"input_ids": piece, "labels": piece} for piece in pieces]

with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=6,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=data)
    trainer.remove_callback(transformers.PrinterCallback)
    if "--eager" not in sys.argv:
        attached = neap.torch.attach(trainer, budget="80%")  # or "2GiB", "min", a number of bytes
    trainer.train()

for entry in trainer.state.log_history:
    if "loss" in entry:
        print(f"step {entry['step']}  loss {entry['loss']:.9g}")
if "--eager" not in sys.argv:
    print(attached.memory)
