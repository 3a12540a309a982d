"""Commands that measure and draw what the paper says of its layers."""
