"""Grammar rules to nodes: the machine (spec/language.md, "The machine")."""

from __future__ import annotations

from interlock.language import ast
from interlock.language.build_base import Base, Part, rule


class Machines(Base):
    @rule
    def memory(self, span, *parts):
        once = self._once([p for p in parts if isinstance(p, Part)], "`memory`")
        capacities = tuple(p for p in parts if isinstance(p, ast.Capacity))
        self._one_for_all(capacities, "`capacity`", "`capacity 80GiB on ranks 0, 1`")
        return ast.MemoryBlock(capacities, span, **once)

    def _one_for_all(self, items, what: str, form: str) -> None:
        plain = [i for i in items if not i.ranks]
        if len(plain) > 1:
            self.twice(
                f"{what} is given twice for all ranks", plain[1].span, plain[0].span, f"say for which: {form}"
            )

    @rule
    def capacity(self, span, number, *ranges):
        return ast.Capacity(self._amount(number, "capacity"), ranges, span)

    def _share(name):
        def method(self, span, number, unit, shards=None):
            unit = {"weight": "weight byte", "vocabulary": "vocabulary entry"}.get(str(unit), str(unit))
            amount = self._amount(number, f"{name} per {unit}")
            if amount.dimension == "bytes" and "." in number:
                self.fail(
                    "IL102",
                    f"`{number}` for each {unit}: expected whole bytes",
                    amount.span,
                    "`.. per weight byte` keeps fractions",
                )
            elif name == "weights" and not amount.value:
                self.fail("IL102", "a parameter of no bytes", amount.span, "write `weights 2B per parameter`")
            return Part(name, ast.Share(amount, unit, shards.value if shards else None, span), span)

        return rule(method)

    weights, gradient, master, optimizer, logits = map(
        _share, ("weights", "gradient", "master", "optimizer", "logits")
    )

    @rule
    def shards(self, span, _, number):
        return Part("sharded", self._positive(number, "sharded"), span)

    @rule
    def link(self, span, *parts):
        numbers = [self._int(p) for p in parts if getattr(p, "type", "") == "NUMBER"]
        once = self._once([p for p in parts if isinstance(p, Part)], "this link")
        return ast.Link(
            (numbers[0].value, numbers[1].value) if numbers else None,
            once.get("latency"),
            once.get("bandwidth"),
            span,
        )

    @rule
    def replicas(self, span, number, *parts):
        once = self._once(parts, "`replicas`")
        return ast.Replicas(
            self._positive(number, "replicas"),
            once.get("latency"),
            once.get("bandwidth"),
            "blocking" in once,
            span,
        )

    @rule
    def blocking(self, span, *_):
        return Part("blocking", True, span)

    @rule
    def device(self, span, *parts):
        once = self._once([p for p in parts if isinstance(p, Part)], "`device`")
        speeds = tuple(p for p in parts if isinstance(p, ast.Speed))
        overlaps = tuple(p for p in parts if isinstance(p, ast.OverlapTime))
        self._one_for_all(speeds, "`speed`", "`speed 0.8 on ranks 0, 1`")
        seen = {}
        for o in overlaps:
            pair = o.stages and tuple(s.first for s in o.stages)
            if pair in seen:
                self.twice(
                    "`overlap` is given twice for the same stages",
                    o.span,
                    seen[pair].span,
                    "delete one, or say for which: `overlap 3ms on stages 0, 7`",
                )
            seen.setdefault(pair, o)
        return ast.Device(
            once.get("peak_flops"), once.get("hbm_bandwidth"), once.get("overhead"), speeds, overlaps, span
        )

    @rule
    def speed(self, span, number, *ranges):
        factor = self._amount(number, "speed")
        if not number.strip("0_."):
            self.fail(
                "IL102",
                "a speed of 0: nothing would ever end",
                factor.span,
                "write a share of the speed the times are for: `speed 0.8`",
            )
        return ast.Speed(factor, ranges, span)

    @rule
    def overlap_time(self, span, _, number, *stages):
        for s in stages:
            if s.first != s.last:
                self.fail(
                    "IL101",
                    "an overlap is of one stage's forward with one stage's backward",
                    s.span,
                    "write `overlap 3ms on stages 0, 7`",
                )
        return ast.OverlapTime(self._amount(number, "overlap"), stages or None, span)

    def _field(name):
        def method(self, span, number):
            return Part(name, self._amount(number, name), span)

        return rule(method)

    latency, bandwidth, peak_flops, hbm_bandwidth, overhead = map(
        _field, ("latency", "bandwidth", "peak_flops", "hbm_bandwidth", "overhead")
    )
