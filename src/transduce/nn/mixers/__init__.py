"""What lets positions exchange information: attention, recurrence, convolution."""
