"""Tests of trackers beside a real MLflow server, which `make test-trackers` starts."""
