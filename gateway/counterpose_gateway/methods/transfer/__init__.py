"""Transfers: whether images that fool one classifier fool others (Wiles et al., section 4.2, figure 4)."""
