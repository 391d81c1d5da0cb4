"""What a user can ask of each command of this room, a file per command."""
