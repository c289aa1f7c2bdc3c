"""Line charts as SVG text: text is text, dark where the reader prefers it, colours as in the pictures of
`interlock show`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from interlock.report.timeline.palette import REGIONS

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 430, 64, 190, 58, 54
_STYLE = """text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif;font-size:12px}
.p{fill:#fff}.i{fill:#16181d}.s{fill:#5c6370}.g{stroke:#e3e6eb}.a{stroke:#5c6370}.l{fill:none;stroke-linejoin:round}
@media (prefers-color-scheme:dark){.p{fill:#14161a}.i{fill:#eceef2}.s{fill:#a2a9b6}.g{stroke:#2b3038}.a{stroke:#a2a9b6}}"""


@dataclass(frozen=True)
class Line:
    """Points in the data's units. hue: of the palette. dots: points beside the line; dash: a broken line;
    name: empty for none; width in pixels, pale from 5 on.
    """

    name: str
    points: Sequence[tuple[float, float]]
    hue: int
    dash: bool = False
    dots: Sequence[tuple[float, float]] = ()
    width: float = 2


@dataclass(frozen=True)
class Chart:
    """The horizontal axis is 0 to `right` in steps of `step`, written as `form`; the vertical one 0 to `top`
    in steps of `tick`. levels, places: (value, text)
    of horizontal and of vertical marks."""

    title: str
    subtitle: str
    x: str
    y: str
    lines: Sequence[Line]
    right: float
    top: float
    tick: float
    levels: Sequence[tuple[float, str]] = ()
    places: Sequence[tuple[float, str]] = ()
    step: float = 0.1
    form: str = "{:.0%}"

    def svg(self) -> str:
        def x(v):
            return LEFT + v / self.right * (WIDTH - LEFT - RIGHT)

        def y(v):
            return HEIGHT - BOTTOM - v / self.top * (HEIGHT - TOP - BOTTOM)

        end = WIDTH - RIGHT
        css = "".join(
            f".c{h},.c{h} text{{stroke:{REGIONS[h][1]}}}.f{h}{{fill:{REGIONS[h][1]}}}" for h in self._hues()
        )
        dark = "".join(f".c{h}{{stroke:{REGIONS[h][0]}}}.f{h}{{fill:{REGIONS[h][0]}}}" for h in self._hues())
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 '
            f'{WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
            f'<title id="t">{escape(self.title)}</title><desc id="d">{escape(self.subtitle)}</desc>',
            f"<style>{_STYLE}{css}@media (prefers-color-scheme:dark){{{dark}}}</style>",
            f'<rect class="p" width="{WIDTH}" height="{HEIGHT}"/>',
            '<text class="i" x="12" y="21" '
            f'style="font-size:15px;font-weight:600">{escape(self.title)}</text><text class="s" x="12" '
            f'y="39">{escape(self.subtitle)}</text>',
        ]
        for k in range(int(self.top / self.tick + 1e-9) + 1):
            v = k * self.tick
            out.append(
                f'<path class="g" d="M{LEFT} {y(v):.1f}H{end}"/><text class="s" x="{LEFT - 8}" '
                f'y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>'
            )
        for k in range(int(self.right / self.step + 1e-9) + 1):
            v = k * self.step
            out.append(
                f'<text class="s" x="{x(v):.1f}" y="{HEIGHT - BOTTOM + 18}" '
                f'text-anchor="middle">{self.form.format(v)}</text>'
            )
        out.append(
            f'<text class="s" x="{(LEFT + end) / 2}" y="{HEIGHT - 12}" '
            f'text-anchor="middle">{escape(self.x)}</text>'
        )
        out.append(
            f'<text class="s" transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y)}</text>'
        )
        for v, said in self.levels:
            out.append(
                f'<path class="a" d="M{LEFT} {y(v):.1f}H{end}" stroke-dasharray="2 3"/><text class="i" '
                f'x="{x(self.right * 0.8):.1f}" y="{y(v) - 5:.1f}" '
                f'text-anchor="middle">{escape(said)}</text>'
            )
        for v, said in self.places:
            out.append(
                f'<path class="a" d="M{x(v):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke-dasharray="2 3"/><text '
                f'class="i" x="{x(v) + 5:.1f}" y="{HEIGHT - BOTTOM - 8}">{escape(said)}</text>'
            )
        for line in self.lines:
            dash = ' stroke-dasharray="6 4"' if line.dash else ""
            pale = ' stroke-opacity="0.45"' if line.width >= 5 else ""
            path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in line.points)
            out.append(f'<path class="l c{line.hue}" d="M{path}" stroke-width="{line.width:g}"{dash}{pale}/>')
            out += [
                f'<circle class="f{line.hue}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="3.5"/>' for a, b in line.dots
            ]
        out += self._names(x, y)
        return "\n".join([*out, "</svg>"]) + "\n"

    def _hues(self) -> list[int]:
        return sorted({line.hue for line in self.lines})

    def _names(self, x, y) -> list[str]:
        """Beside the ends of the lines, apart from one another; above where a line ends before the right
        border.
        """
        out, right = [], []
        for line in self.lines:
            a, b = line.points[-1]
            if line.name and a < self.right * 0.95:
                out.append(
                    f'<text class="f{line.hue}" x="{x(a):.1f}" y="{y(b) - 6:.1f}" '
                    f'text-anchor="middle">{escape(line.name)}</text>'
                )
            elif line.name:
                right.append((y(b) + 4, line))
        at = -1e9
        for wanted, line in sorted(right, key=lambda n: n[0]):
            at = max(wanted, at + 15)
            out.append(
                f'<text class="f{line.hue}" x="{WIDTH - RIGHT + 8}" y="{at:.1f}">{escape(line.name)}</text>'
            )
        return out
