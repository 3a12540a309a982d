"""Training (§5): the loop and its sessions; a run that was stopped resumes exactly."""
