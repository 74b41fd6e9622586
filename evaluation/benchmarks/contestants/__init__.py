"""Who takes part, one thin module each: what differs between them stays in there."""
