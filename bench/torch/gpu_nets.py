"""The nets of check_gpu.py, made of PyTorch's modules; the Llama is that of transformers, its LoRA that of peft, where they are
installed. Each has a tiny form for the CPU. What PyTorch does not repeat bit by bit on CUDA (adaptive pooling, interpolation) is in
none of them."""

import importlib.util

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Blocks(nn.Module):
    """A stem, blocks one after the other, and a head."""

    def __init__(self, stem, blocks, head):
        super().__init__()
        self.stem, self.blocks, self.head = stem, nn.ModuleList(blocks), head
        self.recompute = False

    def run(self, block, *x):
        return checkpoint(block, *x, use_reentrant=False) if self.recompute else block(*x)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = self.run(block, x)
        return self.head(x)


def conv_norm(inputs, outputs, kernel=3, stride=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride, body):
        super().__init__()
        self.body = nn.Sequential(*body)
        same = inputs == outputs and stride == 1
        self.short = nn.Identity() if same else nn.Sequential(*conv_norm(inputs, outputs, 1, stride))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def basic(inputs, width, stride):
    body = [*conv_norm(inputs, width, 3, stride), nn.ReLU(), *conv_norm(width, width)]
    return Residual(inputs, width, stride, body)


def bottleneck(inputs, width, stride):
    body = [*conv_norm(inputs, width, 1), nn.ReLU(), *conv_norm(width, width, 3, stride), nn.ReLU()]
    return Residual(inputs, 4 * width, stride, [*body, *conv_norm(width, 4 * width, 1)])


def residual_net(stem, inputs, block, expansion, stages, classes):
    """stages: (width, blocks, stride of the first)."""
    blocks = []
    for width, count, stride in stages:
        for i in range(count):
            blocks.append(block(inputs, width, stride if i == 0 else 1))
            inputs = width * expansion
    # A mean, since the gradient of adaptive pooling does not repeat its bits on CUDA.
    return Blocks(nn.Sequential(*stem), blocks, nn.Sequential(Mean((2, 3)), nn.Linear(inputs, classes)))


class Mean(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.mean(self.dims)


def wrn(small):
    stages = [(8, 1, 1), (16, 1, 2)] if small else [(32, 4, 1), (64, 4, 2), (128, 4, 2)]
    return residual_net([*conv_norm(3, 16), nn.ReLU()], 16, basic, 1, stages, 10)


def resnet50(small):
    if small:
        return residual_net([*conv_norm(3, 8, 7, 2), nn.ReLU()], 8, bottleneck, 4, [(4, 2, 1)], 10)
    stages = [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]
    stem = [*conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return residual_net(stem, 64, bottleneck, 4, stages, 1000)


class UNet(Blocks):
    """Down and up again, each level's result is read twice: far apart."""

    def __init__(self, width, depth):
        def double(a, b):
            return nn.Sequential(*conv_norm(a, b), nn.ReLU(), *conv_norm(b, b), nn.ReLU())

        widths = [width << i for i in range(depth + 1)]
        down = [double(a, b) for a, b in zip([3, *widths], widths, strict=False)]
        super().__init__(nn.Identity(), down, nn.Conv2d(width, 5, 1))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.join = nn.ModuleList(double(2 * w, w) for w in widths[-2::-1])

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.blocks):
            x = self.run(block, x if i == 0 else x[..., ::2, ::2])
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = self.run(join, torch.cat([up(x), kept.pop()], 1))
        return self.head(x)


class Attention(nn.Module):
    def __init__(self, width, heads, causal, dropout):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal, self.dropout = heads, causal, dropout

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, causal, dropout):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal, dropout)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attention(self.first(x)))
        return x + self.drop(self.mlp(self.second(x)))


class Positions(nn.Module):
    """Embedded tokens, or patches of an image, and their places."""

    def __init__(self, embed, length, width):
        super().__init__()
        self.embed, self.places = embed, nn.Parameter(torch.randn(length, width) * 0.02)

    def forward(self, x):
        x = self.embed(x)
        return x + self.places[: x.shape[1]]


class Patches(nn.Module):
    def __init__(self, width, patch):
        super().__init__()
        self.conv = nn.Conv2d(3, width, patch, patch)

    def forward(self, x):
        return self.conv(x).flatten(2).transpose(1, 2)


def gpt(small):
    words, width, layers, heads, length = (50, 16, 2, 2, 64) if small else (8192, 768, 12, 12, 1024)
    blocks = [TransformerBlock(width, heads, True, 0.1) for _ in range(layers)]
    head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words))
    return Blocks(Positions(nn.Embedding(words, width), length, width), blocks, head)


def vit(small):
    width, layers, heads, patch, places = (16, 2, 2, 4, 16) if small else (768, 12, 12, 16, 196)
    blocks = [TransformerBlock(width, heads, False, 0.0) for _ in range(layers)]
    head = nn.Sequential(nn.LayerNorm(width), Mean(1), nn.Linear(width, 10 if small else 1000))
    return Blocks(Positions(Patches(width, patch), places, width), blocks, head)


class Recurrent(Blocks):
    """An LSTM whose time is cut into chunks: on the CPU each chunk is one call a layer, on CUDA without cuDNN a few calls a time."""

    def __init__(self, words, width, layers, chunk):
        super().__init__(nn.Embedding(words, width), [nn.LSTM(width, width, layers)], nn.Linear(width, words))
        self.chunk = chunk

    def forward(self, x):
        x, state, out = self.stem(x.t()), None, []
        for part in x.split(self.chunk):
            given = (part,) if state is None else (part, state)
            y, state = self.run(self.blocks[0], *given)
            out.append(y)
        return self.head(torch.cat(out)).transpose(0, 1)


def lstm(small):
    return Recurrent(50, 16, 1, 8) if small else Recurrent(4096, 1024, 2, 16)


# ---- Llama: of SmolLM2-135M's shape ----

LLAMA = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
         "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 2048}  # fmt: skip
SMALL_LLAMA = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 3,
               "num_key_value_heads": 1, "vocab_size": 60, "max_position_embeddings": 64}  # fmt: skip


class LlamaBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, inner = c["hidden_size"], c["intermediate_size"]
        self.heads, self.groups = c["num_attention_heads"], c["num_key_value_heads"]
        size = width // self.heads
        self.first, self.second = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.q_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(width, self.groups * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        self.register_buffer("rates", 1e5 ** (-torch.arange(0, size, 2) / size), persistent=False)

    def rotated(self, x):
        angle = torch.arange(x.shape[2], device=x.device)[:, None] * self.rates
        angle = torch.cat([angle, angle], -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def forward(self, x):
        h = self.first(x)
        q, k, v = (f(h).unflatten(-1, (n, -1)).transpose(1, 2)
                   for f, n in ((self.q_proj, self.heads), (self.k_proj, self.groups), (self.v_proj, self.groups)))  # fmt: skip
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (self.rotated(k), v))
        y = F.scaled_dot_product_attention(self.rotated(q), k, v, is_causal=True)
        x = x + self.o_proj(y.transpose(1, 2).flatten(2))
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class LowRank(nn.Module):
    """A linear layer that stays, and a difference of low rank that trains."""

    def __init__(self, base, rank=8, scale=2.0):
        super().__init__()
        self.base, self.scale = base, scale
        self.a = nn.Linear(base.in_features, rank, bias=False)
        self.b = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * self.scale


def plain_llama(c, lora):
    stem = nn.Embedding(c["vocab_size"], c["hidden_size"])
    head = nn.Sequential(nn.RMSNorm(c["hidden_size"], 1e-5), nn.Linear(c["hidden_size"], c["vocab_size"], bias=False))
    model = Blocks(stem, [LlamaBlock(c) for _ in range(c["num_hidden_layers"])], head)
    head[1].weight = stem.weight
    if lora:
        model.requires_grad_(False)
        for block in model.blocks:
            block.q_proj, block.v_proj = LowRank(block.q_proj), LowRank(block.v_proj)
    return model


def hugging_face_llama(c, lora):
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**c, tie_word_embeddings=True, use_cache=False, attn_implementation="sdpa"))
    if lora:
        from peft import LoraConfig, get_peft_model

        targets = ["q_proj", "v_proj"]
        model.enable_input_require_grads()
        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=targets, task_type="CAUSAL_LM"))
    return model.train()


def llama(small, lora, plain):
    needed = ("transformers", "peft") if lora else ("transformers",)
    plain = plain or not all(map(importlib.util.find_spec, needed))
    return (plain_llama if plain else hugging_face_llama)(SMALL_LLAMA if small else LLAMA, lora)


# ---- What is run ----


class Net:
    """A row of the table below. make(small, plain); data: (batch, image size, classes), or (batch, length, words). cudnn: cuDNN
    may be used."""

    def __init__(self, make, kind, small, large, cudnn=True):
        self.make, self.kind, self.sizes, self.cudnn = make, kind, (large, small), cudnn

    def model(self, options):
        torch.manual_seed(1)
        model = self.make(options.small, options.plain).to(options.device)
        return model, self.optimizer([p for p in model.parameters() if p.requires_grad])

    def optimizer(self, parameters):
        if self.kind == "tokens":
            return torch.optim.AdamW(parameters, lr=1e-4)
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)

    def batch(self, options, seed, length=None):
        """Made on the CPU: the same on every machine."""
        batch, size, classes = self.sizes[options.small]
        generator = torch.Generator().manual_seed(seed)
        if self.kind == "tokens":
            ids = torch.randint(classes, (batch, (length or size) + 1), generator=generator).to(options.device)
            return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        x = torch.randn(batch, 3, size, size, generator=generator)
        where = (batch, size, size) if self.kind == "pixels" else (batch,)
        return x.to(options.device), torch.randint(classes, where, generator=generator).to(options.device)

    @staticmethod
    def loss(model, x, y):
        if hasattr(model, "config"):  # transformers makes another mask while a step is captured: give it one
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()[None, None]
            out = model(x, attention_mask=mask.expand(x.shape[0], -1, -1, -1)).logits
        else:
            out = model(x)
        if out.dim() == 4:  # pixels; the loss of images has no deterministic gradient on CUDA
            out = out.permute(0, 2, 3, 1)
        return F.cross_entropy(out.flatten(0, -2), y.flatten())


NETS = {
    "WRN-28-2": Net(lambda small, _: wrn(small), "images", (16, 16, 10), (512, 32, 10)),
    "ResNet-50": Net(lambda small, _: resnet50(small), "images", (16, 16, 10), (64, 224, 1000)),
    "GPT": Net(lambda small, _: gpt(small), "tokens", (8, 64, 50), (8, 1024, 8192)),
    "LSTM": Net(lambda small, _: lstm(small), "tokens", (16, 64, 50), (64, 128, 4096), cudnn=False),
    "U-Net": Net(lambda small, _: UNet(4, 2) if small else UNet(64, 4), "pixels", (4, 16, 5), (16, 256, 5)),
    "ViT": Net(lambda small, _: vit(small), "images", (16, 16, 10), (64, 224, 1000)),
    "Llama, LoRA": Net(lambda small, plain: llama(small, True, plain), "tokens", (8, 64, 60), (8, 512, 49152)),
    "Llama": Net(lambda small, plain: llama(small, False, plain), "tokens", (8, 64, 60), (8, 512, 49152)),
}
