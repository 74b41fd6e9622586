"""The gate: whether a candidate classifier loses more under counterfactuals than the incumbent does."""
