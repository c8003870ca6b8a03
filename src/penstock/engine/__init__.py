"""The loops: fetching, running, recording, listening, renewing."""
