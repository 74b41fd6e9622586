"""Kubernetes manifests without a cluster: rendered, held to strict fields, checked against the code."""
