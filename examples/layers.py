"""A small language model, layer by layer, to be measured:

interlock profile examples/layers.py:build --device cpu -o examples/measured.toml
"""

import torch
from torch import nn

WIDTH, WORDS, LENGTH, BATCH, BLOCKS = 128, 512, 64, 4, 6


class Block(nn.TransformerEncoderLayer):
    """A causal pre-norm transformer layer."""

    def __init__(self):
        super().__init__(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, x):
        return super().forward(
            x,
            src_mask=nn.Transformer.generate_square_subsequent_mask(
                x.shape[1], device=x.device, dtype=x.dtype
            ),
            is_causal=True,
        )


def build():
    """The layers by name, and the tokens of one microbatch."""
    torch.manual_seed(0)
    blocks = {f"llm[{i}]": Block() for i in range(BLOCKS)}
    return {"embed": nn.Embedding(WORDS, WIDTH), **blocks, "head": nn.Linear(WIDTH, WORDS)}, torch.randint(
        WORDS, (BATCH, LENGTH)
    )
