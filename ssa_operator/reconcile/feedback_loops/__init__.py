"""Templates that answer their own changes are slowed down, and the fields that go back and forth are named."""
