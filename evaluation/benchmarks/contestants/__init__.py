"""The contestants, one thin module each, holding what is special about it."""
