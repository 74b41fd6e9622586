"""The OpenAPI document: what FastAPI finds in the routes, and the problems and links that it cannot."""

from counterpose_gateway.openapi.document import complete, operation_id

__all__ = ["complete", "operation_id"]
