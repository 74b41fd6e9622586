"""The services as Serve applications: configuration, launcher, cluster, and what every deployment shares."""
