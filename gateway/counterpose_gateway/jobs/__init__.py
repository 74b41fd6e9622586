"""Runs as jobs of Ray clusters: who may be asked, what is sent, and the loop that looks after each job."""
