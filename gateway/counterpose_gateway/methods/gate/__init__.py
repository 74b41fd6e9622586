"""Gates: whether a candidate loses more under frozen counterfactuals than the incumbent classifier does."""
