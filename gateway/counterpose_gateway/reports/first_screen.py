"""A report's first screen alone, for a notebook: the verdict, its images and the models, without script."""

from __future__ import annotations

import re

END_OF_FIRST_SCREEN = "<!-- end of the first screen -->"
"""Written by each report's template where its first screen ends."""

_SYMBOL = re.compile(r'<symbol id="([^"]+)".*?</symbol>\n?', re.DOTALL)
_SCRIPT = re.compile(r"<script>.*?</script>\n?", re.DOTALL)
_BODY_ENDS = "</main>"


def first_screen(report: str) -> str:
    """Cut a report after its first screen; of its images, those that are shown there remain."""
    shown, cut, rest = report.partition(END_OF_FIRST_SCREEN)
    if not cut:
        return _SCRIPT.sub("", report)
    _, main, images = rest.partition(_BODY_ENDS)

    def kept(symbol: re.Match[str]) -> str:
        return symbol[0] if f'href="#{symbol[1]}"' in shown else ""

    return shown + main + _SCRIPT.sub("", _SYMBOL.sub(kept, images))
