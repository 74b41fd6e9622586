"""Deterministic fakes of the five ports, for tests of the workflow, the gateway and the worker."""
