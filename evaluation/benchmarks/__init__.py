"""`make bench`: the editor's gates, counted and timed against the reference and diffusers' own pipelines."""
