"""Runs ``python -m evaluation.transfers``."""

from evaluation.transfers.validate import main

main()
