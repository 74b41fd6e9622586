"""The perturber against the real ``vllm serve`` on a CPU: ``make test-vllm``."""
