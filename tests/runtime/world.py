"""The process group of a test's ranks."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist


def join(rank: int, ranks: int, file: str, keeper: bool = True) -> None:
    """`keeper`: rank 0 keeps the store, as under torchrun; `file` tells its port. Else `file` is the store:
    slow, since it only grows, but nobody's.
    """
    torch.set_num_threads(1)
    limit = timedelta(seconds=20)
    if not keeper:
        dist.init_process_group(
            "gloo", init_method=f"file://{file}", rank=rank, world_size=ranks, timeout=limit
        )
        return
    ports = dist.FileStore(file, ranks)
    store = dist.TCPStore(
        "127.0.0.1",
        int(ports.get("port")) if rank else 0,
        ranks,
        is_master=rank == 0,
        wait_for_workers=False,
        timeout=limit,
    )
    if rank == 0:
        ports.set("port", str(store.port))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
