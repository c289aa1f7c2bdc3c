"""A trainer in the style of torchtitan, with a plan in place of a schedule of PyTorch's:

    interlock lower examples/small_llm.sched --to torch -o llm.plan
    torchrun --nproc-per-node 2 examples/titan.py --plan llm.plan

`pipeline_llm` is all that differs: it cuts the model where the plan does and gives the trainer what
torchtitan's function of that name gives it.
"""

import argparse
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from interlock.interchange.plan import loads
from interlock.runtime import PlanSchedule


@dataclass
class Config:
    plan: str
    steps: int = 10
    batch: int = 8  # sequences a step, a multiple of the plan's microbatches
    length: int = 32
    width: int = 64
    heads: int = 4
    vocabulary: int = 97
    lr: float = 2e-3
    max_norm: float = 1.0


# ---- the model ----------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.heads = c.heads
        self.attention_norm, self.mlp_norm = nn.RMSNorm(c.width), nn.RMSNorm(c.width)
        self.qkv, self.out = (
            nn.Linear(c.width, 3 * c.width, bias=False),
            nn.Linear(c.width, c.width, bias=False),
        )
        self.gate, self.up, self.down = (
            nn.Linear(*sizes, bias=False)
            for sizes in ((c.width, 2 * c.width), (c.width, 2 * c.width), (2 * c.width, c.width))
        )

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.qkv(self.attention_norm(x)).chunk(3, -1)
        )
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def build(layer: str, c: Config) -> nn.Module:
    """A layer by its name in the schedule, with the same weights wherever it lies."""
    torch.manual_seed(sum(map(ord, layer)))
    match layer.split("[", maxsplit=1)[0]:
        case "embeddings":
            return nn.Embedding(c.vocabulary, c.width)
        case "blocks":
            return Block(c)
        case "output":
            return nn.Sequential(nn.RMSNorm(c.width), nn.Linear(c.width, c.vocabulary, bias=False))
    raise ValueError(f"the model has no layer {layer}")


def pipeline_llm(
    c: Config, device: torch.device, loss_fn
) -> tuple[PlanSchedule, list[nn.Module], bool, bool]:
    """(schedule, the model's parts on this rank, whether it has the first stage, whether it has the last)."""
    program = loads(open(c.plan).read()).program
    parts = {
        s: nn.Sequential(*(build(l.name, c) for l in program.layers[stage.first : stage.last])).to(device)
        for s, stage in enumerate(program.stages)
        if stage.rank == dist.get_rank()
    }
    schedule = PlanSchedule(c.plan, parts, loss_fn, device=device)
    return schedule, list(parts.values()), schedule.has_first_stage, schedule.has_last_stage


# ---- the trainer ----------------------------------------------------------------------------------


class Trainer:
    def __init__(self, c: Config):
        cuda = torch.cuda.is_available()
        dist.init_process_group("nccl" if cuda else "gloo")
        self.c, self.device = (
            c,
            torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu"),
        )
        self.pp_schedule, self.model_parts, self.pp_has_first_stage, self.pp_has_last_stage = pipeline_llm(
            c, self.device, self.loss
        )
        self.optimizers = [torch.optim.AdamW(m.parameters(), lr=c.lr) for m in self.model_parts]

    def loss(self, output, labels):
        return F.cross_entropy(output.flatten(0, 1), labels.flatten())

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Sequences in which every token says what the next one is."""
        tokens = [
            torch.randint(self.c.vocabulary, (self.c.batch,), generator=torch.Generator().manual_seed(step))
        ]
        for _ in range(self.c.length):
            tokens.append((5 * tokens[-1] + 1) % self.c.vocabulary)
        tokens = torch.stack(tokens, 1).to(self.device)
        return tokens[:, :-1], tokens[:, 1:]

    def train_step(self, step: int) -> tuple[float, float]:
        inputs, labels = self.batch(step)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        targets, losses = (labels, []) if self.pp_has_last_stage else (None, None)
        if self.pp_has_first_stage:
            self.pp_schedule.step(inputs, target=targets, losses=losses)
        else:
            self.pp_schedule.step(target=targets, losses=losses)
        norm = self.clip()
        for optimizer in self.optimizers:
            optimizer.step()
        return float(torch.stack(losses).mean()) if self.pp_has_last_stage else -1.0, norm

    def clip(self) -> float:
        """The norm of all gradients of the pipeline; they are scaled to `max_norm` where it is larger."""
        parameters = [p for m in self.model_parts for p in m.parameters()]
        square = sum(p.grad.double().square().sum() for p in parameters).float()
        dist.all_reduce(square)
        norm = square.sqrt()
        nn.utils.clip_grads_with_norm_(parameters, self.c.max_norm, norm)
        return float(norm)

    def train(self) -> None:
        for step in range(self.c.steps):
            loss, norm = self.train_step(step)
            if self.pp_has_last_stage:
                print(f"step {step}: loss {loss:.6f}, gradient norm {norm:.6f}", flush=True)
        self.pp_schedule.close()
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", required=True)
    parser.add_argument("--steps", type=int, default=Config.steps)
    Trainer(Config(**vars(parser.parse_args()))).train()
