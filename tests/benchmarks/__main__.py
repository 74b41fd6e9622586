"""`python -m benchmarks`, with `tests` on the path."""

from benchmarks.command import main

main()
