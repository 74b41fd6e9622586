"""The gateway's access to the five services: ports, HTTP clients, retries."""
