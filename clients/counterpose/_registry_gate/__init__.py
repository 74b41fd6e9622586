"""New model versions of MLflow's registry through a gate: its webhooks come in, tags go out."""
