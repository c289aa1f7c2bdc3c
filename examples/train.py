"""Trains a small vision-language model by a plan, one process a rank:

interlock lower examples/small_vlm.sched --schedule transposed --to torch -o vlm.plan
torchrun --nproc-per-node 2 examples/train.py vlm.plan --steps 50
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn

from interlock.interchange.plan import loads
from interlock.runtime import Runner

WIDTH, WORDS, LENGTH, PATCHES, PATCH = 32, 64, 12, 9, 16


class Block(nn.TransformerEncoderLayer):
    """A pre-norm transformer layer; `causal` for the decoder."""

    def __init__(self, causal=False):
        super().__init__(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.causal = causal

    def forward(self, x):
        mask = (
            nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
            if self.causal
            else None
        )
        return super().forward(x, src_mask=mask)


class Stage(nn.Module):
    """The layers of one stage of the plan, by their names: the payload of the stage before comes in, this
    one's goes out.
    """

    def __init__(self, names):
        super().__init__()
        make = {
            "vit": Block,
            "proj": lambda: nn.Linear(WIDTH, WIDTH),
            "embed": lambda: nn.Embedding(WORDS, WIDTH),
            "llm": lambda: Block(causal=True),
            "head": lambda: nn.Linear(WIDTH, WORDS),
        }
        self.names = names
        self.layers = nn.ModuleList(seeded(name, make[name.split("[")[0]]) for name in names)
        self.patches = seeded("patches", lambda: nn.Linear(PATCH, WIDTH)) if "vit[0]" in names else None

    def forward(self, x=None, *, images=None, tokens=None):
        if images is not None:
            x = self.patches(images)
        for name, layer in zip(self.names, self.layers):
            if name == "embed":
                words = layer(tokens)
                x = words if x is None else torch.cat([x, words], 1)
            elif x is not None:  # a microbatch of text only visits no layer before the embedding
                x = layer(x)
        return x


def seeded(name, make):
    """The same start on whatever rank the layer lies."""
    torch.manual_seed(sum(map(ord, name)))
    return make()


def batch(program, step, device):
    """A microbatch each: an image of a class, and a text that the class determines, with noise at a few
    places.
    """
    generator = torch.Generator().manual_seed(step)
    inputs, targets = [], []
    for m in range(program.microbatches):
        kind = torch.randint(8, (4, 1), generator=generator)
        tokens = (kind * 7 + torch.arange(LENGTH + 1)) % WORDS
        given = {"embed": {"tokens": tokens[:, :-1].to(device)}}
        if m in program.modalities["vision"]:
            given["vit"] = {
                "images": (torch.randn(4, PATCHES, PATCH, generator=generator) + kind[..., None]).to(device)
            }
        inputs.append(given)
        targets.append(tokens[:, 1:].to(device))
    return inputs, targets


def loss_fn(output, target):
    return nn.functional.cross_entropy(output[:, -LENGTH:].flatten(0, 1), target.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plan")
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")

    program = loads(open(args.plan).read()).program
    here = {
        s: stage
        for s, stage in enumerate(program.stages)
        if stage.replicated or stage.rank == dist.get_rank()
    }
    stages = {
        s: Stage([l.name for l in program.layers[stage.first : stage.last]]).to(device)
        for s, stage in here.items()
    }
    optimizer = torch.optim.AdamW([p for stage in stages.values() for p in stage.parameters()], lr=3e-3)
    runner = Runner(args.plan, stages, loss_fn, device=device)
    for step in range(args.steps):
        optimizer.zero_grad()
        losses = runner.step(*batch(program, step, device))
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {losses.mean():.9f}", flush=True)
    runner.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
