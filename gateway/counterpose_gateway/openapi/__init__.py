"""The OpenAPI document: what FastAPI finds in the routes, and the problems and links that it cannot."""
