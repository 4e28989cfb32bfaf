"""TRL's SFTTrainer inside a memory budget: one line, `neap.torch.attach`. DPOTrainer is attached in the same way.

python attach_sft.py            # a tiny random Llama and a tokenizer made here, no network
python attach_sft.py --eager    # without Neap: the same losses, bit for bit
"""

from __future__ import annotations

import sys
import tempfile

import datasets
import neap.torch
import tokenizers
import transformers
import trl

TEXT = """who builds a harbour asks for the highest water that will ever come
who wants to cross a sandbank asks for the lowest
a boat that went aground may have to wait until as much water comes again"""

words = ["<pad>", "<eos>", "<unk>", *sorted(set(TEXT.split()))]
vocabulary = tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
splitting = tokenizers.Tokenizer(vocabulary)
splitting.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=splitting, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)

transformers.set_seed(1)
config = transformers.LlamaConfig(
    vocab_size=len(words),
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
)
with tempfile.TemporaryDirectory() as folder:
    trainer = trl.SFTTrainer(
        model=transformers.LlamaForCausalLM(config),
        args=trl.SFTConfig(
            output_dir=folder,
            max_steps=4,
            per_device_train_batch_size=4,
            max_length=16,
            packing=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        ),
        train_dataset=datasets.Dataset.from_list([{"text": line} for line in TEXT.splitlines() * 20]),
        processing_class=tokenizer,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    if "--eager" not in sys.argv:
        attached = neap.torch.attach(trainer, budget="max")  # or "2GiB", "80%", "min", a number of bytes
    trainer.train()

for entry in trainer.state.log_history:
    if "loss" in entry:
        print(f"step {entry['step']}  loss {entry['loss']:.9g}  accuracy {entry['mean_token_accuracy']:.3f}")
if "--eager" not in sys.argv:
    print(attached.memory)
