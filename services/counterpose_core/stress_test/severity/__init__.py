"""Severity: from which level of an operation on images fail, how many, and which classifier holds longest."""
