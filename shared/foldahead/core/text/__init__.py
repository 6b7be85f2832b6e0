"""What the text room is made of: secrets, facts found by rules, and how they are put into few words."""
