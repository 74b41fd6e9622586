"""A report inside a page: the report's own document without its frame, with links to the pages behind it.

The document is cut and not made again, so that page and file can never tell different things.
"""

from __future__ import annotations

import re

_FINDING = re.compile(
    r'(<article class="card finding" id="finding-(\d+)">(?:(?!</article>).)*?)(</div>\s*</article>)',
    re.DOTALL,
)


def report_body(document: str, run_id: str) -> str:
    """Return what stands in the body of a report, without its script, whose file the page loads itself.

    Each finding gets a link to its page, and each item that the report names one to its own.
    """
    body = document.partition("<body>")[2].rpartition("<script>")[0]
    address = f"/ui/runs/{run_id}"
    linked = _FINDING.sub(
        rf'\1<p><a class="at" href="{address}/findings/\2">All images of this finding</a></p>\3', body
    )
    item = re.escape(run_id)
    return re.sub(
        rf"<code>({item}\.\d+)</code>",
        rf'<a class="at" href="{address}/items/\1"><code>\1</code></a>',
        linked,
    )
