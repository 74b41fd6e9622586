"""``make lock`` and ``make advisories``: the locks' pins and hashes, and what is known against them."""
