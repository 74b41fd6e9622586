"""Summaries and reports of runs: made once for all who ask, in processes of their own, from columns."""
