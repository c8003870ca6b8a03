"""Gemini: generateContent, files with their resumable upload, and batches from files."""
