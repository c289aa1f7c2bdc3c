"""Elements of an SVG file as text."""

from __future__ import annotations

from html import escape


def coordinate(value: float) -> str:
    """To a tenth."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def escape_xml(text: str) -> str:
    """Without the characters XML may not hold."""
    return escape("".join(c if c.isprintable() else "\ufffd" for c in text))


def element(name: str, content: str | None = None, **attributes: str | float | None) -> str:
    """`text_anchor` is written `text-anchor`, `class_` as `class`; attributes that are None are left out."""
    written = "".join(
        f' {_attribute_name(key)}="{value if isinstance(value, str) else coordinate(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


def _attribute_name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def rectangle(x: float, y: float, width: float, height: float) -> str:
    """As a part of a path."""
    return f"M{coordinate(x)} {coordinate(y)}h{coordinate(width)}v{coordinate(height)}h{coordinate(-width)}z"


def fold_words(text: str, most: int) -> list[str]:
    """Lines of at most `most` characters, but for longer words."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > most:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    return [*lines, line]
