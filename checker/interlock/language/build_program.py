"""Rules of orders, traces and skeletons to nodes: what a rank does, listed or as a loop program."""

from __future__ import annotations

from interlock.language import ast, operations
from interlock.language.build_base import Base, Part, rule
from interlock.language.operations import OperationError
from interlock.text.quantities import NumberError, read_amount

DEEPEST_EXPRESSION = 100


class Orders(Base):
    @rule
    def place(self, span, *lines):
        seen: dict[int, ast.PlaceRank] = {}
        for line in lines:
            if isinstance(line, ast.PlaceRank):
                if line.rank.value in seen:
                    self.twice(
                        f"rank {line.rank.value} is placed twice",
                        line.rank.span,
                        seen[line.rank.value].rank.span,
                        "join the two lines",
                    )
                seen[line.rank.value] = line
        return ast.Place(lines, span)

    @rule
    def place_rank(self, span, rank, *ranges):
        return ast.PlaceRank(self._int(rank), ranges, span)

    @rule
    def place_replicated(self, span, _, stage, owner):
        return ast.PlaceReplicated(self._int(stage), owner.value, span)

    @rule
    def order(self, span, *parts):
        modes = [p.value for p in parts if isinstance(p, Part)]
        return self._order("order", modes[0], modes[-1], parts, span)

    @rule
    def trace(self, span, *parts):
        return self._order("trace", "written", "written", parts, span)

    def _order(self, form, transfers, reductions, parts, span):
        ranks = tuple(p for p in parts if isinstance(p, ast.RankOrder))
        seen: dict[int, ast.RankOrder] = {}
        for line in ranks:
            if line.rank.value in seen:
                self.twice(
                    f"rank {line.rank.value} is listed twice",
                    line.rank.span,
                    seen[line.rank.value].rank.span,
                    "join the two lists",
                )
            seen.setdefault(line.rank.value, line)
        return ast.Order(
            form, transfers, reductions, any(getattr(p, "type", "") == "FRAGMENT" for p in parts), ranks, span
        )

    @rule
    def mode(self, span, mode):
        return Part("mode", str(mode), span)

    @rule
    def rank_order(self, span, rank, *items):
        return ast.RankOrder(self._int(rank), self._items(items), span)

    def _items(self, parts) -> tuple[ast.Item, ...]:
        """Runs of operations come as Parts, so that a long order costs one node a run until here."""
        items: list[ast.Item] = []
        for part in parts:
            items.extend(part.value) if isinstance(part, Part) else items.append(part)
        return tuple(items)

    @rule
    def ops(self, span, token):
        wrong: list[OperationError] = []
        ops = operations.plain(token, span.at, wrong)
        for e in wrong:
            self.fail(e.code, e.message, e.span, e.help)
        return Part("ops", ops, span)

    @rule
    def op_repeat(self, span, token):
        return self._try(span, operations.repeated, str(token), span)

    @rule
    def word_op(self, span, name, *operands):
        comm = next((p.value.text for p in operands if isinstance(p, Part) and p.tag == "comm"), None)
        plain = [
            o.text if isinstance(o, ast.Word) else o.value
            for o in operands
            if not (isinstance(o, Part) and o.tag == "comm")
        ]
        return self._try(span, operations.word, str(name), plain, comm, span)

    @rule
    def labelled(self, span, label, name):
        return Part("labelled", (str(label), str(name)), span)

    @rule
    def launch(self, span, *parts):
        return self._try(span, operations.launch, list(self._items(parts)), span)

    @rule
    def overlap(self, span, word, *parts):
        return self._try(span, operations.overlap, list(self._items(parts)), span)

    @rule
    def items(self, span, *parts):
        return Part("items", list(self._items(parts)), span)

    @rule
    def repeat(self, span, first, last):
        return self._try(span, operations.repeat, first.value, last.value, first.span, last.span)


class Expressions(Base):
    def _node(self, node, *children):
        depth = 1 + max((self.depth.pop(id(c), 0) for c in children), default=0)
        if depth > DEEPEST_EXPRESSION:
            if not self.too_deep:
                self.fail(
                    "IL104",
                    f"an expression of more than {DEEPEST_EXPRESSION} levels",
                    node.span,
                    "name parts of it with `let`",
                )
            self.too_deep = True
            self.depth.clear()
            zero = ast.Int(0, node.span)
            return (
                ast.Compare("==", zero, zero, node.span)
                if isinstance(node, ast.Compare | ast.Logic | ast.Not)
                else zero
            )
        self.depth[id(node)] = depth
        return node

    def _arithmetic(self, e):
        if isinstance(e, (ast.Compare, ast.Logic, ast.Not)):
            self.fail(
                "IL101",
                "expected a number, not a condition",
                e.span,
                "a condition stands after `if`, `where`, `for` of a proof",
            )
            return ast.Int(0, e.span)
        return e

    def _condition(self, e):
        if isinstance(e, (ast.Int, ast.Quantity, ast.Negate, ast.Binary)):
            self.fail(
                "IL101",
                "expected a condition, not a number",
                e.span,
                "compare it with something: `i == 0`, `M >= 2*P - 1`",
            )
            return ast.Compare("==", ast.Int(0, e.span), ast.Int(0, e.span), e.span)
        return e

    @rule
    def number(self, span, token):
        try:
            amount = read_amount(token)
        except NumberError as e:
            self.fail(e.code, e.message, span, e.help)
            return ast.Int(0, span)
        if amount.dimension == "number" and amount.scale == 1:
            return ast.Int(amount.value, span)
        return ast.Quantity(amount.value, amount.dimension, span, amount.scale)

    @rule
    def name(self, span, token):
        return ast.Name(str(token), span)

    @rule
    def call(self, span, function, arguments):
        if function in ("min", "max") and len(arguments.value) < 2:
            self.fail(
                "IL101", f"`{function}` takes two arguments or more", span, f"such as `{function}(P - r, M)`"
            )
        return self._node(
            ast.Call(self._word(function), tuple(self._arithmetic(a) for a in arguments.value), span),
            *arguments.value,
        )

    @rule
    def call_args(self, span, *arguments):
        return Part("arguments", arguments, span)

    def _binary(make):
        def method(self, span, left, operator, right):
            return self._node(
                make(str(operator), self._arithmetic(left), self._arithmetic(right), span), left, right
            )

        return rule(method)

    sum = product = _binary(ast.Binary)
    compare = _binary(ast.Compare)

    @rule
    def negate(self, span, _, operand):
        return self._node(ast.Negate(self._arithmetic(operand), span), operand)

    def _logic(word):
        def method(self, span, left, right):
            return self._node(
                ast.Logic(word, self._condition(left), self._condition(right), span), left, right
            )

        return rule(method)

    or_, and_ = _logic("or"), _logic("and")

    @rule
    def not_(self, span, operand):
        return self._node(ast.Not(self._condition(operand), span), operand)


for _name in ("or", "and", "not"):
    setattr(Expressions, _name, getattr(Expressions, _name + "_"))


class Skeletons(Expressions):
    @rule
    def skeleton(self, span, name, *parts):
        def pick(kind):
            return tuple(p for p in parts if isinstance(p, kind))

        once = self._once(
            [
                Part("rank", p, p.span) if isinstance(p, ast.RankProgram) else p
                for p in parts
                if isinstance(p, (Part, ast.RankProgram))
            ],
            f"skeleton `{name.text}`",
        )
        program = once.get("rank")
        return ast.Skeleton(
            name,
            pick(ast.Word),
            once["layout"],
            once.get("chunks"),
            once.get("place"),
            once.get("weaves into"),
            once.get("where"),
            "written" if program and _lists_transfers(program.body) else "inserted",
            program,
            pick(ast.Prove),
            span,
        )

    @rule
    def layout(self, span, layout):
        return Part("layout", str(layout), span)

    @rule
    def chunks(self, span, number):
        return Part("chunks", number, span)

    @rule
    def placement(self, span, name):
        if name not in ("loop", "vee"):
            self.fail(
                "IL107",
                f"unknown placement `{name}`",
                self._place(name),
                "placements: `loop`, `vee`, or a map: `place map(r, c) = c*P + r`",
            )
        return Part("place", self._word(name), span)

    @rule
    def place_map(self, span, rank, chunk, stage):
        return Part(
            "place", ast.PlaceMap(self._word(rank), self._word(chunk), self._arithmetic(stage), span), span
        )

    @rule
    def weaves(self, span, name):
        return Part("weaves into", name, span)

    @rule
    def where(self, span, condition):
        return Part("where", self._condition(condition), span)

    @rule
    def program(self, span, variable, block):
        return ast.RankProgram(self._word(variable), block.value, span)

    @rule
    def block(self, span, *steps):
        return Part("block", steps, span)

    @rule
    def let(self, span, name, value):
        return ast.Let(self._word(name), self._arithmetic(value), span)

    @rule
    def for_(self, span, variable, over, block):
        if not isinstance(over, ast.Range) and not (
            isinstance(over, ast.Call) and over.function.text == "owned"
        ):
            self.fail(
                "IL101",
                "expected a range such as `0 ..< n`, or `owned(r)`, after `in`",
                over.span,
                "a loop runs from the first value up to, not including, the last",
            )
            over = ast.Range(ast.Int(0, over.span), ast.Int(0, over.span), over.span)
        return ast.For(self._word(variable), over, block.value, span)

    @rule
    def range(self, span, first, end):
        return ast.Range(self._arithmetic(first), self._arithmetic(end), span)

    @rule
    def if_(self, span, *parts):
        otherwise = parts[-1].value if parts[-1].tag == "otherwise" else ()
        parts = [p for p in parts if not (isinstance(p, Part) and p.tag == "otherwise")]
        return ast.If(
            tuple(self._condition(c) for c in parts[::2]),
            tuple(b.value for b in parts[1::2]),
            otherwise,
            span,
        )

    @rule
    def otherwise(self, span, block):
        return Part("otherwise", block.value, span)

    @rule
    def group(self, span, form, *ops):
        kinds = [op.kind for op in ops]
        if form == "overlap":
            self._try(span, operations.check_overlap, kinds, span)
        elif not kinds or set(kinds) - operations.TRANSFERS:
            self.fail(
                "IL101",
                "a group is one launch of transfers",
                span,
                "such as `group { SEND_F(i)  RECV_B(j) }`",
            )
        return ast.Group(str(form), ops, span)

    @rule
    def body(self, span):
        return ast.Body(span)

    @rule
    def skeleton_op(self, span, name, *parts):
        arguments = tuple(self._arithmetic(e) for p in parts if p.tag == "arguments" for e in p.value)
        comm = next((p.value for p in parts if p.tag == "comm"), None)
        kind = str(name)
        most = 2 if kind in operations.WITH_MICROBATCH else 1 if kind in operations.WITH_STAGE else 0
        least = 1 if kind in operations.WITH_MICROBATCH else 0
        if kind not in operations.WITH_MICROBATCH | operations.WITH_STAGE | operations.ALONE:
            near = operations.NEAR.get(kind)
            self.fail(
                "IL107",
                f"unknown kind of operation `{kind}`",
                self._place(name),
                f"did you mean `{near}`?" if near else operations.KINDS,
            )
        elif not least <= len(arguments) <= most:
            form = {
                2: f"{kind}(i)` or, with chunk c, `{kind}(i, c)",
                1: f"{kind}` or, of chunk c, `{kind}(c)",
                0: kind,
            }[most]
            takes = (
                f"takes {least} to {most} arguments, not {len(arguments)}" if most else "takes no argument"
            )
            self.fail("IL101", f"`{kind}` {takes}", span, f"write `{form}`")
        elif comm and kind not in operations.TRANSFERS:
            self.fail("IL101", f"`{kind}` uses no communicator", comm.span, "only transfers name one")
        return ast.SkeletonOp(kind, arguments, comm, span)

    @rule
    def prove(self, span, *parts):
        given = tuple(self._condition(p) for p in parts if not isinstance(p, ast.Claim))
        return ast.Prove(given, tuple(p for p in parts if isinstance(p, ast.Claim)), span)

    @rule
    def claim(self, span, condition, under=None):
        if isinstance(condition, (ast.Int, ast.Quantity, ast.Binary, ast.Negate)):
            self.fail(
                "IL101",
                "expected a comparison, such as `peak <= 60GiB`",
                condition.span,
                "a claim compares a figure with a bound, or is a word such as `deadlock_free`",
            )
        return ast.Claim(condition, self._models(under.value) if under else (), span)


def _lists_transfers(steps) -> bool:
    for step in steps:
        match step:
            case ast.SkeletonOp(kind=kind) if kind in operations.TRANSFERS:
                return True
            case ast.For() | ast.Group() if _lists_transfers(step.body):
                return True
            case ast.If() if any(map(_lists_transfers, (*step.blocks, step.otherwise))):
                return True
    return False
