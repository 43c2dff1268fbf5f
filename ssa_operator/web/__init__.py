"""The web view: pages about parents that the operator's own port serves, and the JSON that they are made of."""
