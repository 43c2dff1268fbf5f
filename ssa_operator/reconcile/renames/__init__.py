"""Templates that rename their children again and again are slowed down."""
