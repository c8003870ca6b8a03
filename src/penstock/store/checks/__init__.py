"""What the doctor looks at: the server, the login, the session and what stands in its way, the schema, the work."""
