"""The pages of the guide, as texts for a terminal."""
