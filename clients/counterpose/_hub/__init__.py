"""The Hugging Face Hub: exports as datasets, and figures proposed to a model's repository."""
