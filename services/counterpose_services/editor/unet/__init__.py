"""The UNet behind the core's Denoiser protocol: attention, schedulers, operation counts."""
