"""Schedules to draw, and their scenes."""

from __future__ import annotations

from interlock.check.files import rulings
from interlock.load import Question, load
from interlock.report.timeline.layout import Scene
from interlock.report.timeline.scenes import Drawing, scene

MODEL = """model {{ layers llm[{layers}] {{ forward 3ms  backward 6ms  activation 200MiB  output 24MiB  weights 400MiB }} }}
  memory {{ capacity {capacity} }}
  link {{ latency 500us  bandwidth 200GB/s }}"""


def pipeline(
    name: str = "small",
    ranks: int = 2,
    microbatches: int = 4,
    skeleton: str = "1f1b",
    layers: int = 8,
    capacity: str = "16GiB",
) -> str:
    return (
        f"schedule {name} {{\n  ranks {ranks}\n  microbatches {microbatches}\n  "
        f"{MODEL.format(layers=layers, capacity=capacity)}\n  cut {{ decoder = llm : {skeleton} }}\n}}\n"
    )


SPLIT = """schedule split {
  ranks 4
  microbatches 10
  model { layers llm[32] { forward 3ms  backward_input 3ms  backward_weight 3ms  activation 200MiB  until_weight 100MiB  output 24MiB } }
  cut { decoder = llm : SKELETON }
}
"""

STUCK = """schedule stuck {
  ranks 2
  microbatches 2
  order transfers written {
    rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE
    rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1REDUCE
  }
}
"""

REGIONS = """schedule regions {
  ranks 2
  microbatches 4
  model {
    layers vit[4] { forward 1ms  backward 2ms  activation 20MiB  output 8MiB  weights 10MiB }
    layers llm[8] { forward 3ms  backward 6ms  activation 200MiB  output 24MiB  weights 400MiB }
  }
  cut {
    encoder  = vit : transpose(owner: round_robin)
    backbone = llm : 1f1b
  }
}
"""


def subject(text: str, path: str = "a.sched", models: tuple[str, ...] = ()) -> Drawing:
    (found,) = rulings(load(path, text.encode(), Question(models)))
    return Drawing(found.case, found.result)


def drawn(text: str, model: str | None = None, **options) -> Scene:
    return scene(subject(text, models=(model,) if model else ()), model, **options)


def ran(text: str, model: str = "pair") -> str:
    """The file of a run of the schedule that took a tenth longer than predicted, and 3 ns more for
    everything; of a deadlock what ran of it.
    """
    import numpy as np

    from interlock.interchange.timeline import dumps
    from interlock.timing.timeline import Timeline

    found = subject(text, models=(model,))
    run = scene(found, model).timeline

    def later(times):
        return np.where(times < 0, -1, times * 11 // 10 + 3)

    return dumps(found.name, Timeline(run.program, model, later(run.start), later(run.end)))


def measured(text: str, model: str = "pair") -> Scene:
    return scene(subject(ran(text, model), "run.json"))
