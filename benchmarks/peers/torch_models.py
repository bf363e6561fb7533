#!/usr/bin/env python3
"""Training steps of the models in ../deep_models.hpp in PyTorch on the CPU.

One batch, over and over. Output, variants and environment are those of torch_step.py.
"""

import timing
import torch
from torch import nn
from torch.nn import functional as F

import torch_step


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.attention = Attention(width, heads, bias)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width, bias=bias), nn.GELU(approximate="tanh" if bias else "none"),
                                 nn.Linear(4 * width, width, bias=bias))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers, bias):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, bias) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, bias=bias)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class Residual(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU(inplace=True),
            nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters))
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x), inplace=True)


class BiLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20_000, 128)
        self.lstm = nn.LSTM(128, 64, num_layers=2, bidirectional=True, batch_first=True)
        self.dense = nn.Linear(128, 2)

    def forward(self, ids):
        _, (h, _) = self.lstm(self.embedding(ids))
        return self.dense(torch.cat((h[-2], h[-1]), dim=1))


def gpt():
    model = Gpt(65, 64, 128, 4, 4, bias=False)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.99), fused=True)
    return model, optimizer, torch.randint(65, (12, 64)), torch.randint(65, (12 * 64,)), 1.0


def gpt2():
    model = Gpt(50257, 1024, 768, 12, 12, bias=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    return model, optimizer, torch.randint(50257, (4, 64)), torch.randint(50257, (4 * 64,)), None


def resnet():
    layers, channels = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)], 16
    for filters in (16, 32, 64):
        for block in range(3):
            layers.append(Residual(channels, filters, 2 if block == 0 and filters > 16 else 1))
            channels = filters
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    return model, optimizer, torch.rand(128, 3, 32, 32), torch.randint(10, (128,)), None


def bilstm():
    model = BiLstm()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    return model, optimizer, torch.randint(20_000, (32, 200)), torch.randint(2, (32,)), None


MODELS = {"gpt": gpt, "gpt2": gpt2, "resnet": resnet, "bilstm": bilstm}


def make_step(name, variant, wrap=lambda model: model):
    torch.manual_seed(1)
    model, optimizer, x, y, clip = MODELS[name]()
    if variant == "channels_last" and x.dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    model = wrap(model)

    def loss_of(batch, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=variant == "autocast"):
            return F.cross_entropy(model(batch), labels)

    if variant == "compile":
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad()
        loss_of(x, y).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    return step


if __name__ == "__main__":
    timing.run(__doc__, "eager,channels_last,compile", torch_step.set_threads, make_step, models=",".join(MODELS),
               skips=lambda name, variant: name != "resnet" and variant == "channels_last")
