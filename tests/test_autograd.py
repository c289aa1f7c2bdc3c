"""The backward footprint is what autograd does: chains of tiny torch modules, every choice of trainable
layers, text-only microbatches.

Asked of PyTorch: which tensors between layers got a gradient, which parameters did, which layers kept
something for the backward.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from interlock.program.build import OrderBuilder
from interlock.program.footprint import footprint
from interlock.program.ir import Layer, Program, Stage

pytestmark = pytest.mark.torch

# microbatch 0 has every modality, 1 lacks vision (text only), 2 lacks audio, 3 both
WITHOUT = ((), ("vision",), ("audio",), ("vision", "audio"))


class Chain:
    """Layers of width 2, each a Linear and a tanh, so that every layer would keep its output for a backward."""

    def __init__(self, modality: list[str | None]):
        torch.manual_seed(0)
        self.modality = modality
        self.layers = [torch.nn.Linear(2, 2, dtype=torch.float64) for _ in modality]

    def run(self, trainable, without) -> dict[str, list]:
        """For each layer, None where it is absent: gradient of its output, of its input, of its parameters;
        something kept.
        """
        for layer, bit in zip(self.layers, trainable):
            layer.requires_grad_(bit)
            layer.weight.grad = layer.bias.grad = None
        x = torch.ones(1, 2, dtype=torch.float64)
        tensors: dict[int, tuple] = {}
        for l, layer in enumerate(self.layers):
            if self.modality[l] in without and self.modality[l] is not None:
                continue
            y = torch.tanh(layer(x))
            if y.requires_grad:
                y.retain_grad()
            tensors[l] = (x, y)
            x = y
        if x.requires_grad:
            x.square().sum().backward()

        def of(l, answer):
            return answer(*tensors[l]) if l in tensors else None

        n = range(len(self.layers))
        return {
            "output": [of(l, lambda x, y: y.grad is not None) for l in n],
            "input": [of(l, lambda x, y: x.grad is not None) for l in n],
            "weight": [of(l, lambda x, y: self.layers[l].weight.grad is not None) for l in n],
            "kept": [of(l, lambda x, y: y.grad_fn is not None) for l in n],
        }


def program(trainable, modality, counts) -> Program:
    """Stages of these numbers of layers on one rank; four microbatches."""
    borders = np.cumsum([0, *counts])
    stages = tuple(Stage("r", int(a), int(b), rank=0) for a, b in zip(borders, borders[1:]))
    order = OrderBuilder()
    order.end_rank()
    present = {
        x: frozenset(m for m, without in enumerate(WITHOUT) if x not in without) for x in ("vision", "audio")
    }
    layers = tuple(Layer(f"l{i}", bit, x) for i, (bit, x) in enumerate(zip(trainable, modality)))
    return Program(
        1,
        len(WITHOUT),
        layers,
        stages,
        order.build(),
        modalities={x: present[x] for x in set(modality) - {None}},
    )


def compare(chain: Chain, counts_of) -> int:
    """Every freezing against every way of `counts_of` to cut the chain into stages; how many stages were
    compared.
    """
    compared = 0
    for trainable in product((False, True), repeat=len(chain.layers)):
        told = [chain.run(trainable, without) for without in WITHOUT]
        for counts in counts_of:
            p = program(trainable, chain.modality, counts)
            fp = footprint(p)
            for m, said in enumerate(told):
                c = fp.of[m]
                for s, stage in enumerate(p.stages):
                    here = [l for l in range(stage.first, stage.last) if said["kept"][l] is not None]
                    assert fp.on_path[c, s] == bool(here)
                    if here:
                        asked = (
                            fp.cross[c, s],
                            fp.back[c, s],
                            fp.iwork[c, s],
                            fp.wwork[c, s],
                            [fp.stashes[c, l] for l in here],
                        )
                        answer = (
                            said["input"][here[0]],
                            said["output"][here[-1]],
                            said["input"][here[-1]],
                            any(said["weight"][l] for l in here),
                            [said["kept"][l] for l in here],
                        )
                        assert asked == answer, (trainable, counts, m, s)
                        compared += 1
                for s, after in enumerate(fp.next[c]):
                    assert after < 0 or fp.cross[c, after] == fp.back[c, s]  # both ends of a boundary
            owned = [any(trainable[s.first : s.last]) for s in p.stages]
            assert fp.reduce.tolist() == owned
    return compared


@pytest.mark.parametrize("regions", range(1, 5))
def test_two_layers_a_region(regions):
    """Regions of one stage with two layers each, cut into stages of one, and as one stage."""
    layers = 2 * regions
    assert compare(Chain([None] * layers), ([2] * regions, [1] * layers, [layers])) > 2**layers * regions


@pytest.mark.parametrize(
    "modality",
    [
        ["vision", "vision", None, None, None, None],  # an encoder and a backbone
        ["vision", "vision", "audio", "audio", None, None, None, None],  # two encoders in a chain
        [None, "vision", None, None],  # part of a region
        [None, None, "vision", None, "audio", None],  # in the middle
        [None, None, "vision"],  # the last layer: the loss moves
    ],
    ids=lambda m: "".join((x or "-")[0] for x in m),
)
def test_text_only_microbatches(modality):
    n = len(modality)
    assert compare(Chain(modality), ([2] * (n // 2) + [1] * (n % 2), [1] * n, [n], [1, n - 1])) > 2**n


def test_frozen_encoder_and_trained_projector_in_one_region():
    """vit, vit, proj as one stage: it runs a backward that stops in it, keeps only what proj needs, and
    reduces.
    """
    chain = Chain(["vision", "vision", "vision", None, None])
    trainable = (False, False, True, False, True)
    p = program(trainable, chain.modality, [3, 2])
    fp, said = footprint(p), chain.run(trainable, ())
    c = fp.of[0]
    assert (fp.cross[c, 0], fp.back[c, 0], fp.iwork[c, 0], fp.wwork[c, 0]) == (
        False,
        True,
        False,
        True,
    ) and fp.cross[c, 1]
    assert fp.stashes[c].tolist() == said["kept"] == [False, False, True, True, True]
    assert said["input"] == [False, False, False, True, True] and said["weight"] == [
        False,
        False,
        True,
        False,
        True,
    ]
    text_only = fp.of[1]
    assert not fp.on_path[text_only, 0] and fp.back[text_only, 1] and not fp.cross[text_only, 1]
    assert fp.reduce.tolist() == [True, True]


@pytest.mark.parametrize("wrong", ["cross", "back", "iwork"])
def test_a_shifted_gate_is_noticed(monkeypatch, wrong):
    """`<=` for `<`, and the reverse, in one gate: the comparison sees it."""
    from dataclasses import replace

    right = footprint

    def shifted(p):
        fp = right(p)
        return replace(
            fp, **{wrong: fp.back if wrong == "cross" else fp.cross if wrong == "back" else fp.back}
        )

    monkeypatch.setitem(globals(), "footprint", shifted)
    with pytest.raises(AssertionError):
        compare(Chain([None] * 4), ([2, 2],))
