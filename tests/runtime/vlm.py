"""A small vision-language model, layer by layer: ViT encoder (two outputs, as DeepStack), projector,
embedding, decoder, head.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import nn

WIDTH, TOKENS, VOCABULARY, PATCHES, PATCH = 8, 5, 11, 4, 6
VIT, LLM = 3, 6


class Attention(nn.Module):
    def __init__(self, causal: bool):
        super().__init__()
        self.causal, self.qkv, self.out = causal, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, WIDTH // 2)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(
            nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            .transpose(1, 2)
            .flatten(-2)
        )


class Block(nn.Module):
    def __init__(self, causal: bool):
        super().__init__()
        self.first, self.attention, self.second = nn.LayerNorm(WIDTH), Attention(causal), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Vision(nn.Module):
    """The first embeds patches; the others hand the first one's output on beside their own."""

    def __init__(self, first: bool):
        super().__init__()
        self.patches = nn.Linear(PATCH, WIDTH) if first else None
        self.block = Block(causal=False)

    def forward(self, x, deep=None, images=None, tokens=None):
        if self.patches is not None:
            x = self.block(self.patches(images))
            return x, x * 1
        return self.block(x), deep


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.deep = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, deep=None, images=None, tokens=None):
        return self.linear(x), self.deep(deep)


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, x, deep=None, images=None, tokens=None):
        words = self.table(tokens)
        return (words, None) if x is None else (torch.cat([x, words], 1), deep)


class Decoder(nn.Module):
    """The first one takes the second output of the encoder in."""

    def __init__(self, first: bool):
        super().__init__()
        self.block, self.first = Block(causal=True), first

    def forward(self, x, deep=None, images=None, tokens=None):
        if self.first and deep is not None:
            x = torch.cat([x[:, :PATCHES] + deep, x[:, PATCHES:]], 1)
        return self.block(x), (None if self.first else deep)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.table = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x, deep=None, images=None, tokens=None):
        return self.table(self.norm(x[:, -TOKENS:])), None


class Stage(nn.Module):
    """Layers [a, b), those that the microbatch visits: payload in, payload out; None is not sent."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x=None, deep=None, *, images=None, tokens=None):
        for layer in self.layers:
            if x is None and images is None and isinstance(layer, (Vision, Projector)):
                continue  # a microbatch of text only
            x, deep = layer(x, deep, images=images, tokens=tokens)
        return x if deep is None else (x, deep)


GROUPS = {
    "vit": range(VIT),
    "proj": range(VIT, VIT + 1),
    "embed": range(VIT + 1, VIT + 2),
    "llm": range(VIT + 2, VIT + 2 + LLM),
    "head": range(VIT + 2 + LLM, VIT + 3 + LLM),
}
TEXT = (
    f"layers vit[{VIT}] {{ modality vision }} layer proj {{ modality vision }} layer embed {{ }} layers "
    f"llm[{LLM}] {{ }} layer head {{ }}"
)
FROZEN = {"trained": (), "frozen": ("vit",), "projector": ("vit", "embed", "llm", "head")}


def build(dtype, frozen=(), tied=False) -> list[nn.Module]:
    torch.manual_seed(7)
    layers = [
        *(Vision(i == 0) for i in range(VIT)),
        Projector(),
        Embedding(),
        *(Decoder(i == 0) for i in range(LLM)),
        Head(),
    ]
    for layer in layers:
        layer.to(dtype)
    if tied:
        with torch.no_grad():
            layers[-1].table.weight.copy_(layers[VIT + 1].table.weight)
    for name in frozen:
        for i in GROUPS[name]:
            layers[i].requires_grad_(False)
    return layers


def batch(dtype, microbatches: int, text_only=(), shift: int = 0, size: int = 2):
    """(inputs, targets): a dictionary a microbatch, images only where there are some."""
    generator = torch.Generator().manual_seed(11 + shift)
    inputs, targets = [], []
    for m in range(microbatches):
        images = torch.randn(size, PATCHES, PATCH, generator=generator, dtype=torch.float64).to(dtype)
        tokens = torch.randint(VOCABULARY, (size, TOKENS), generator=generator)
        inputs.append({"embed": {"tokens": tokens}} | ({} if m in text_only else {"vit": {"images": images}}))
        targets.append(torch.randint(VOCABULARY, (size, TOKENS), generator=generator))
    return inputs, targets


def loss_fn(output, target):
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def reference(layers, inputs, targets):
    """Losses; gradients are left in the layers."""
    losses = []
    for given, target in zip(inputs, targets):
        x = deep = None
        for i, layer in enumerate(layers):
            if i > VIT or "vit" in given:
                x, deep = layer(
                    x, deep, images=given.get("vit", {}).get("images"), tokens=given["embed"]["tokens"]
                )
        loss = loss_fn(x, target)
        if loss.requires_grad:
            loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses)


@cache
def expected(
    dtype, frozen: tuple, tied: bool, microbatches: int, text_only: tuple, sizes: tuple, copies: int
):
    """Of the single process: the losses, for each step (sizes: of its microbatches) and copy of the data, and
    the gradient of each (layer, parameter), None if it has none,
    as the mean over the copies."""
    layers = build(dtype, frozen, tied)
    if tied:
        layers[GROUPS["head"][0]].table.weight = layers[GROUPS["embed"][0]].table.weight
    losses = [
        [
            reference(layers, *batch(dtype, microbatches, text_only, step + 100 * i, size)).to(torch.float64)
            for i in range(copies)
        ]
        for step, size in enumerate(sizes)
    ]
    return losses, {
        (l, name): None if p.grad is None else p.grad / copies
        for l, layer in enumerate(layers)
        for name, p in layer.named_parameters()
    }
