"""What the longer commands do, between the arguments that `cli` reads and the rooms that do the work."""
