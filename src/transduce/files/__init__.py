"""Files and folders that are complete or absent: atomic writes, locks, digests, I/O errors."""
