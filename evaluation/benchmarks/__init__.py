"""`make bench`: the editor's gates, counted and timed beside the reference and diffusers' own pipelines."""
