"""Severity of operations: levels asked adaptively, failure points, claims tested on the other half."""
