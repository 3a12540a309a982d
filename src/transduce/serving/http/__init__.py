"""HTTP below the application: connections, the sites that may call, bodies in JSON."""
