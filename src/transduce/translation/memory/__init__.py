"""Translation memories: translations that exist already, found again by their sources."""
