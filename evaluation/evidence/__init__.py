"""Pages generated from results and test markers: docs/evidence, and a column of docs/papers.md."""
