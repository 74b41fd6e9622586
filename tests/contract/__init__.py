"""Programs that hold a live gateway to its OpenAPI document: fuzzing and a generated client."""
