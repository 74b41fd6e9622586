"""The domain of Faultline: counterfactuals, their statistics and the diffusion engine."""
