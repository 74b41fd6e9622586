"""``python -m evaluation.benchmarks``."""

from evaluation.benchmarks.command import main

main()
