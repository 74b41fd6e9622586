"""The domain of Counterpose: counterfactuals, their statistics and the diffusion engine."""
