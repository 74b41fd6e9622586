"""Tests beside a real MLflow server, which `make test-mlflow` starts."""
