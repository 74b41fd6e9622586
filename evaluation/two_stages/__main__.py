"""Runs ``python -m evaluation.two_stages``."""

from evaluation.two_stages.validate import main

main()
