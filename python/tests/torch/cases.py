"""The list of models: name -> (model, loss_fn, batch), small enough for a test, with dropout on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Case = tuple[nn.Module, Callable[..., Any], tuple[Any, ...]]


def classify(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def images(n: int, size: int, classes: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 3, size, size), torch.randint(classes, (n,))


# ---- Ours: one for each thing that has to work ----


class Residual(nn.Module):
    """In-place ReLU and sums, batch norm, a shortcut."""

    def __init__(self, cin: int, cout: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(cin), nn.ReLU(inplace=True), nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(cout), nn.ReLU(inplace=True), nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
        )  # fmt: skip
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False) if cin != cout else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x.clone()).add_(self.skip(x))


def convolutional() -> Case:
    blocks = [Residual(a, b, s) for a, b, s in [(8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 32, 2)]]
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        *blocks,
        nn.Dropout2d(0.1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return model, classify, images(8, 16)


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)
        x = x + F.dropout(self.proj(a.transpose(1, 2).flatten(2)), 0.1)
        return x + self.mlp(self.norm2(x))


class TiedTransformer(nn.Module):
    """The output layer's weight is the embedding's."""

    def __init__(self, tokens: int = 101, width: int = 32, layers: int = 3):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.head = nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embed(x)))


def next_token(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def transformer() -> Case:
    return TiedTransformer(), next_token, (torch.randint(101, (4, 16)), torch.randint(101, (4, 16)))


class Chunks(nn.Module):
    """An LSTM in chunks of time."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(12, 24, 2, dropout=0.1), nn.Linear(24, 20)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        state = (x.new_zeros(2, x.shape[1], 24), x.new_zeros(2, x.shape[1], 24))
        total = x.new_zeros(())
        for part, label in zip(x.chunk(4), y.chunk(4), strict=True):
            a, state = self.lstm(part, state)
            total = total + F.cross_entropy(self.out(a).flatten(0, 1), label.flatten(), reduction="sum")
        return total / y.numel()


def recurrent() -> Case:
    return Chunks(), lambda m, x, y: m(x, y), (torch.randn(16, 4, 12), torch.randint(20, (16, 4)))


OURS = {"convolutional": convolutional, "transformer": transformer, "recurrent": recurrent}


# ---- torchvision, transformers ----


def vision(name: str, size: int = 64, n: int = 2) -> Case:
    import torchvision

    return getattr(torchvision.models, name)(num_classes=10), classify, images(n, size)


def language(name: str) -> Case:
    import transformers as t

    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 99,
    }
    tokens = torch.randint(3, 99, (2, 12))
    loss: Callable[..., Any] = lambda m, **kw: m(**kw).loss  # noqa: E731
    if name == "bert":
        model: nn.Module = t.BertForMaskedLM(t.BertConfig(**small))
        batch = {"input_ids": tokens, "labels": tokens}
    elif name == "gpt2":
        model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=32))
        batch = {"input_ids": tokens, "labels": tokens}
    elif name == "llama":
        model = t.LlamaForCausalLM(t.LlamaConfig(**small, num_key_value_heads=2))
        batch = {"input_ids": tokens, "labels": tokens}
    elif name == "t5":
        model = t.T5ForConditionalGeneration(
            t.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
        )
        batch = {"input_ids": tokens, "labels": tokens}
    elif name == "vit":
        model = t.ViTForImageClassification(
            t.ViTConfig(
                **{k: v for k, v in small.items() if k != "vocab_size"},
                image_size=32,
                patch_size=8,
                num_labels=10,
                hidden_dropout_prob=0.1,
            )
        )
        batch = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(10, (2,))}
    else:
        model = t.WhisperForConditionalGeneration(
            t.WhisperConfig(
                vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=20, max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                decoder_start_token_id=1, dropout=0.1,
            )
        )  # fmt: skip
        batch = {"input_features": torch.randn(2, 16, 40), "labels": tokens}
    model.train()
    return model, lambda m, batch: loss(m, **batch), (batch,)


VISION = ("resnet18", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "vit_b_16", "swin_t", "densenet121")
LANGUAGE = ("bert", "gpt2", "llama", "t5", "vit", "whisper")
FOREIGN = {name: functools.partial(vision, name, 224 if name == "vit_b_16" else 64) for name in VISION} | {
    f"hf-{name}": functools.partial(language, name) for name in LANGUAGE
}
ALL = OURS | FOREIGN
