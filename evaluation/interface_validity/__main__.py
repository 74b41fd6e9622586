"""``python -m evaluation.interface_validity``."""

from evaluation.interface_validity.validate import main

main()
