"""Grammar rules to nodes of the syntax tree: one method a rule of grammar/sched.lark, called bottom-up by the
parser.

A method gets the place of its rule and what the rule's parts became; words and punctuation without a value
are left out.
"""

from __future__ import annotations

from interlock.language import ast
from interlock.language.build_base import TARGETS, Base, Part, rule
from interlock.language.build_machine import Machines
from interlock.language.build_program import Orders, Skeletons

COUNTS = ("parameters", "vocabulary", "tokens")


class Models(Base):
    # ---- the model ------------------------------------------------------------------------------

    @rule
    def model_profile(self, span, path):
        return ast.Model((), self._string(path), span)

    @rule
    def model(self, span, *items):
        return ast.Model(items, None, span)

    @rule
    def layers(self, span, name, number, *properties):
        return ast.Layers(
            self._word(name), self._positive(number, "layers").value, self._properties(properties), span
        )

    @rule
    def layer(self, span, name, *properties):
        return ast.Layers(self._word(name), 1, self._properties(properties), span)

    @rule
    def kind(self, span, name, *properties):
        return ast.Layers(self._word(name), 0, self._properties(properties), span)

    def _properties(self, properties) -> tuple[ast.Property, ...]:
        seen: dict[str, ast.Property] = {}
        for p in properties:
            if p.name in seen:
                self.twice(
                    f"`{p.name}` is given twice in one layer", p.span, seen[p.name].span, "delete one of them"
                )
            seen.setdefault(p.name, p)
        if "backward" in seen and (half := seen.get("backward_input") or seen.get("backward_weight")):
            self.twice(
                "`backward` beside one of its halves",
                half.span,
                seen["backward"].span,
                "give `backward`, or `backward_input` and `backward_weight`",
            )
        if "weights" in seen and (counted := seen.get("parameters")):
            self.twice(
                "`parameters` beside `weights`",
                counted.span,
                seen["weights"].span,
                "give the bytes, or the number of parameters",
            )
        if len(half := [seen[word] for word in ("vocabulary", "tokens") if word in seen]) == 1:
            self.fail(
                "IL101",
                f"`{half[0].name}` stands alone",
                half[0].span,
                "logits are counted from both: `vocabulary 131072  tokens 4096`",
            )
        return properties

    @rule
    def property(self, span, name, quantity):
        amount = self._amount(quantity.value, str(name), quantity.tag == "per image")
        self._whole_model(str(name), amount)
        if str(name) in COUNTS and amount.scale != 1:
            self.fail(
                "IL102",
                f"`{name}` is a whole number",
                amount.span,
                f"write `{name} {-(-amount.value // amount.scale)}`",
            )
        return ast.Property(str(name), amount, span)

    def _whole_model(self, name: str, amount: ast.Quantity) -> None:
        if amount.per_image and name in ("weights", "parameters", "vocabulary"):
            self.fail(
                "IL102",
                f"`{name}` does not grow with the images of a microbatch",
                amount.span,
                "delete `per image`",
            )

    @rule
    def modality(self, span, name):
        return ast.Property("modality", self._word(name), span)

    @rule
    def frozen(self, span):
        return ast.Property("frozen", None, span)

    @rule
    def recompute(self, span):
        return ast.Property("recompute", None, span)

    @rule
    def quantity(self, span, number, image=None):
        return Part("per image" if image else "", number, span)

    @rule
    def pattern(self, span, *parts):
        names, kinds = (
            [p for p in parts if not isinstance(p, ast.PatternKind)],
            tuple(p for p in parts if isinstance(p, ast.PatternKind)),
        )
        text, letters = self._string(names[-1]), {}
        for kind in kinds:
            if kind.letter in letters:
                self.twice(
                    f'`"{kind.letter}"` is given twice in this pattern',
                    kind.span,
                    letters[kind.letter].span,
                    "delete one of them",
                )
            letters[kind.letter] = kind
        if not text:
            self.fail(
                "IL101",
                "this pattern has no letter",
                self._place(names[-1]),
                'write one letter a layer: `pattern "M-M-" { .. }`',
            )
        if missing := [c for c in dict.fromkeys(text) if c not in letters]:
            self.fail(
                "IL107",
                f"the pattern's letter `{missing[0]}` stands for nothing",
                self._place(names[-1]),
                f'add `"{missing[0]}" = NAME` to its braces',
            )
        return ast.Pattern(self._word(names[0]) if len(names) > 1 else None, text, kinds, span)

    @rule
    def pattern_kind(self, span, letter, name, *properties):
        text = self._string(letter)
        if len(text) != 1:
            self.fail(
                "IL101",
                f'`"{text}"`: a pattern has one letter for a layer',
                self._place(letter),
                'write a single letter: `"M" = mamba`',
            )
        return ast.PatternKind(text, self._word(name), self._properties(properties), span)

    @rule
    def attach(self, span, layer, to):
        return ast.Attach(layer, to, span)

    # ---- the cut --------------------------------------------------------------------------------

    @rule
    def cut(self, span, *regions):
        return ast.Cut(regions, span)

    @rule
    def region(self, span, name, *parts):
        def pick(kind):
            return tuple(p for p in parts if isinstance(p, kind))

        arguments = pick(ast.Argument)
        named: dict[str, ast.Argument] = {}
        for a in arguments:
            if a.name and a.name.text in named:
                self.twice(
                    f"argument `{a.name.text}` is given twice",
                    a.span,
                    named[a.name.text].span,
                    "delete one of them",
                )
            elif a.name:
                named[a.name.text] = a
        return ast.Region(self._word(name), pick(ast.LayerRef), pick(ast.Word)[0], arguments, span)

    @rule
    def argument(self, span, *parts):
        return ast.Argument(self._word(parts[0]) if len(parts) == 2 else None, parts[-1], span)

    @rule
    def list(self, span, *items):
        return ast.ListValue(items, span)


class Builder(Models, Machines, Orders, Skeletons):
    """`base` is the place of the text's first character; `start` returns the File."""

    @rule
    def start(self, span, *items):
        def pick(kind):
            return tuple(i for i in items if isinstance(i, kind))

        return ast.File(pick(ast.Use), pick(ast.Skeleton), pick(ast.Schedule), span)

    @rule
    def use(self, span, path):
        return ast.Use(self._string(path), span)

    @rule
    def schedule(self, span, name, *statements):
        def pick(kind):
            return tuple(s for s in statements if isinstance(s, kind))

        once = self._once(
            [
                s if isinstance(s, Part) else Part(_SINGLE[type(s)], s, s.span)
                for s in statements
                if isinstance(s, Part) and s.tag != "require" or type(s) in _SINGLE
            ],
            f"schedule `{name}`",
        )
        return ast.Schedule(
            self._word(name),
            once.get("ranks"),
            once.get("microbatches"),
            once.get("comm", ()),
            once.get("model"),
            once.get("images"),
            pick(ast.Presence),
            once.get("cut"),
            pick(ast.CommunicatorDef),
            once.get("memory"),
            pick(ast.Link),
            once.get("device"),
            once.get("replicas"),
            pick(ast.Freeze),
            pick(ast.TieDef),
            pick(ast.Assume),
            pick(ast.ForAnyFreezing),
            tuple(c for s in statements if isinstance(s, Part) and s.tag == "require" for c in s.value),
            once.get("place"),
            once.get("order"),
            pick(ast.Expect),
            pick(ast.Prove),
            span,
        )

    @rule
    def ranks(self, span, number):
        return Part("ranks", self._positive(number, "ranks"), span)

    @rule
    def microbatches(self, span, number):
        return Part("microbatches", self._positive(number, "microbatches"), span)

    @rule
    def comm(self, span, *words):
        return Part("comm", self._models(words), span)

    @rule
    def images(self, span, counts):
        return ast.Images(counts.value, span)

    @rule
    def presence(self, span, name, *ranges):
        return ast.Presence(self._word(name), ranges, span)

    @rule
    def communicator(self, span, name, *ranges):
        return ast.CommunicatorDef(self._word(name), ranges, span)

    @rule
    def for_any(self, span, *refs):
        return ast.ForAnyFreezing(refs, span)

    @rule
    def freeze_layers(self, span, *refs):
        return ast.Freeze(refs, (), span)

    @rule
    def freeze_stages(self, span, *ranges):
        return ast.Freeze((), ranges, span)

    @rule
    def tie(self, span, *parts):
        def pick(kind):
            return tuple(p for p in parts if isinstance(p, kind))

        name = next((self._word(p) for p in parts if getattr(p, "type", "") == "NAME"), None)
        comm = next((p.value for p in parts if isinstance(p, Part)), None)
        return ast.TieDef(name, pick(ast.LayerRef), pick(ast.IndexRange), comm, span)

    @rule
    def assume(self, span, layer, name, low, high):
        ends = [self._amount(q.value, str(name), q.tag == "per image") for q in (low, high)]
        self._whole_model(str(name), ends[0])
        if ends[0].value > ends[1].value:
            self.fail(
                "IL102", "this interval is empty", low.span.to(high.span), "write the smaller value first"
            )
        return ast.Assume(layer, str(name), *ends, span)

    @rule
    def require(self, span, *claims):
        return Part("require", claims, span)

    @rule
    def expect(self, span, verdict, *parts):
        codes = tuple(p for p in parts if isinstance(p, ast.Word))
        models = self._models(next((p.value for p in parts if isinstance(p, Part)), ()), TARGETS)
        for code in codes:
            if not (len(code.text) == 5 and code.text.startswith("IL") and code.text[2:].isdigit()):
                self.fail(
                    "IL107",
                    f"`{code.text}` is no diagnostic code",
                    code.span,
                    "codes are IL101 to IL999: `expect invalid IL402`",
                )
        return ast.Expect(str(verdict), codes, models, span)

    @rule
    def under(self, span, *words):
        return Part("under", words, span)


_SINGLE = {
    ast.Model: "model",
    ast.Images: "images",
    ast.Cut: "cut",
    ast.MemoryBlock: "memory",
    ast.Device: "device",
    ast.Replicas: "replicas",
    ast.Place: "place",
    ast.Order: "order",
}
