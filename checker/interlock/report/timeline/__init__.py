"""Pictures of a run: one renderer a format (terminal, html, svg, perfetto), all from the same Scene
(layout).
"""
