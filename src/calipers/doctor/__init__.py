"""What files hold and support, what looks wrong in them, and what to run next."""
