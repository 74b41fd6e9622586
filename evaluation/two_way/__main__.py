"""Runs ``python -m evaluation.two_way``."""

from evaluation.two_way.validate import main

main()
