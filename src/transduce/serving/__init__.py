"""HTTP and the web page: translations for many clients, gathered into batches."""
