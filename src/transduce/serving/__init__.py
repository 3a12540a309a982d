"""HTTP and the web page: translations of many clients, gathered into batches."""
