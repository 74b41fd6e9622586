"""Runs ``python -m evaluation.validity``."""

from evaluation.validity.validate import main

main()
