"""What the operator's webhooks share: their HTTPS server, its certificate, and the upkeep of their registration."""
