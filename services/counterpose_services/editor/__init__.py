"""The editor service: an engine on diffusers pipelines, and its Serve application."""
