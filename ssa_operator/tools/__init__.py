"""What commands are made of, a room for each thing."""
